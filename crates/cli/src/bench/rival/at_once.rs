//! `redis-multi` and `redis-lua`: all that a stage does, in one go, on one server.
//!
//! Both are multiplexed: the commands of a MULTI leave in one piece, so nobody else's come between them.

use std::sync::atomic::Ordering;

use claret::Reply;
use claret::cluster::Command;

use super::{Failed, Rival, RivalKind, RivalSession, commands, shape};
use crate::workload::{Call, Stage};

/// Runs commands: for each one the number of its words behind the key, its name and those words.
pub(super) const RUN: &str = "\
local replies, at = {}, 1
for i = 1, #KEYS do
  local words = tonumber(ARGV[at])
  replies[i] = redis.call(ARGV[at + 1], KEYS[i], unpack(ARGV, at + 2, at + 1 + words))
  at = at + 2 + words
end
return replies";

impl RivalSession {
    pub(super) async fn at_once(&mut self) -> Result<Vec<Reply>, Failed> {
        let mut replies = Vec::new();
        loop {
            let (stage, drawn) = self.stage(&replies).await?;
            replies = drawn.among(self.rival.at_once(&self.calls).await?);
            if stage == Stage::Commit {
                return Ok(replies);
            }
            if !self.calls.is_empty() {
                self.rival.was_torn.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Rival {
    /// Carries out calls as one.
    async fn at_once(&self, calls: &[Call]) -> Result<Vec<Reply>, Failed> {
        let mut all = commands(calls)?;
        let replies = match (all.len(), self.kind) {
            (0, _) => Vec::new(),
            // A command alone is atomic.
            (1, _) => vec![self.plain.ask(all.remove(0)).await?],
            (_, RivalKind::Lua) => array(self.plain.ask(self.script_of(&all)).await?)?,
            (_, _) => {
                all.insert(0, Command::new("MULTI"));
                all.push(Command::new("EXEC"));
                let mut answers = self.plain.run(all).await;
                // What was wrong with a command, if it was not queued, says more than EXEC.
                let last = answers.pop().expect("EXEC is answered");
                answers.into_iter().collect::<Result<Vec<_>, _>>()?;
                array(last?)?
            }
        };
        shape(calls, replies)
    }

    fn script_of(&self, all: &[Command]) -> Command {
        let keys = all.iter().map(|command| command.words()[1].clone());
        let call = Command::new("EVALSHA").arg(self.scripts.run.as_str()).arg(all.len().to_string());
        let call = keys.fold(call, Command::arg);
        all.iter().fold(call, |call, command| {
            let (name, rest) = (&command.words()[0], &command.words()[2..]);
            let call = call.arg(rest.len().to_string()).arg(name.clone());
            rest.iter().cloned().fold(call, Command::arg)
        })
    }
}

pub(super) fn array(reply: Reply) -> Result<Vec<Reply>, Failed> {
    match reply {
        Reply::Array(replies) => Ok(replies),
        other => Err(Failed::Broken(format!("several commands were answered {other}"))),
    }
}
