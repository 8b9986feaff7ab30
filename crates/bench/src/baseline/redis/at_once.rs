//! `redis-multi`, `redis-lua` and `errand`: each stage as one MULTI or one script, on one server, or one `CLARET.DO`.
//!
//! The first two are multiplexed: the commands of a MULTI leave in one piece, so no other client's come between them.
//!
//! Scripts are what one would write for each kind of transaction: its commands, with keys and other arguments passed in. A
//! script is written when a transaction of its shape first occurs. Shapes of long transactions hardly recur: these call one
//! script that is passed the commands as well, which takes about half as long again.

use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use claret::Reply;
use claret_redis::Command;

use super::{Failed, RedisBaseline, RedisRunner, commands, shape};
use crate::mode::Scheme;
use crate::pace::think_between;
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

/// Up to so many commands a script is written for the shape of a transaction.
const SHAPED_MAX: usize = 16;

impl RedisRunner {
    pub(super) async fn at_once(&mut self) -> Result<Vec<Reply>, Failed> {
        let mut replies = Vec::new();
        loop {
            let (stage, drawn) = self.stage(&replies).await?;
            let calls = std::mem::take(&mut self.calls);
            let found = match self.baseline.scheme {
                Scheme::Errand => self.errand(&calls).await?,
                _ => self.baseline.at_once(&calls).await?,
            };
            self.calls = calls;
            replies = drawn.among(found);
            if stage == Stage::Commit {
                return Ok(replies);
            }
            think_between(self.client.thinks()).await;
            if !self.calls.is_empty() {
                self.baseline.was_torn.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl RedisRunner {
    /// Gives calls to a node: to that of the first key that this client ever had.
    async fn errand(&mut self, calls: &[Call]) -> Result<Vec<Reply>, Failed> {
        let Some(first) = calls.first() else { return Ok(Vec::new()) };
        let mut own = match self.own.take() {
            Some(own) => own,
            None => {
                let opened = self.baseline.plain.dedicated(first.key.clone()).await;
                opened.map_err(|error| Failed::Broken(error.to_string()))?
            }
        };
        let command = calls.iter().fold(Command::new("CLARET.DO"), |command, call| {
            let arguments = call.op.arguments();
            let words = 2 + arguments.len();
            let command = command.arg(words.to_string()).arg(call.op.method().name).arg(call.key.clone());
            arguments.iter().cloned().fold(command, Command::arg)
        });
        let replies = array(own.ask(&command).await?)?;
        self.own = Some(own);
        shape(calls, replies)
    }
}

impl RedisBaseline {
    /// Carries out calls as one.
    async fn at_once(&self, calls: &[Call]) -> Result<Vec<Reply>, Failed> {
        let mut all = commands(calls)?;
        let replies = match (all.len(), self.scheme) {
            (0, _) => Vec::new(),
            // A command alone is atomic.
            (1, _) => vec![self.plain.ask(all.remove(0)).await?],
            (_, Scheme::Lua) => {
                let call =
                    if all.len() <= SHAPED_MAX { self.shaped(&all).await? } else { self.handed_over(&all) };
                array(self.plain.ask(call).await?)?
            }
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

    /// The call of the script for commands of this shape, which is written if there is none.
    async fn shaped(&self, all: &[Command]) -> Result<Command, Failed> {
        let script = script_for(all);
        let known = self.scripts.shaped.lock().unwrap_or_else(PoisonError::into_inner).get(&script).cloned();
        let digest = match known {
            Some(digest) => digest,
            None => {
                let digest = self.load_script(&script).await.map_err(Failed::Broken)?;
                let mut shaped = self.scripts.shaped.lock().unwrap_or_else(PoisonError::into_inner);
                shaped.insert(script, digest.clone());
                digest
            }
        };
        let call = call_of(&digest, all);
        Ok(all.iter().flat_map(|command| &command.words()[2..]).cloned().fold(call, Command::arg))
    }

    /// The call of the script that is handed the commands.
    fn handed_over(&self, all: &[Command]) -> Command {
        let call = call_of(&self.scripts.run, all);
        all.iter().fold(call, |call, command| {
            let (name, rest) = (&command.words()[0], &command.words()[2..]);
            let call = call.arg(rest.len().to_string()).arg(name.clone());
            rest.iter().cloned().fold(call, Command::arg)
        })
    }
}

/// A script with the keys of these commands.
fn call_of(digest: &str, all: &[Command]) -> Command {
    let call = Command::new("EVALSHA").arg(digest).arg(all.len().to_string());
    all.iter().map(|command| command.words()[1].clone()).fold(call, Command::arg)
}

/// `return {redis.call('SADD',KEYS[1],ARGV[1]),redis.call('SCARD',KEYS[2])}`
fn script_for(all: &[Command]) -> String {
    let mut script = "return {".to_owned();
    let mut arguments = 0;
    for (command, key) in all.iter().zip(1..) {
        let comma = if key > 1 { "," } else { "" };
        let name = command.words()[0].as_str().unwrap_or_default();
        write!(script, "{comma}redis.call('{name}',KEYS[{key}]").expect("a string takes it");
        for _ in &command.words()[2..] {
            arguments += 1;
            write!(script, ",ARGV[{arguments}]").expect("a string takes it");
        }
        script.push(')');
    }
    script + "}"
}

pub(super) fn array(reply: Reply) -> Result<Vec<Reply>, Failed> {
    match reply {
        Reply::Array(replies) => Ok(replies),
        other => Err(Failed::Broken(format!("several commands were answered {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_those_that_one_would_write() {
        let all = [Command::new("SADD").arg("a").arg("x").arg("y"), Command::new("SCARD").arg("b")];
        assert_eq!(
            script_for(&all),
            "return {redis.call('SADD',KEYS[1],ARGV[1],ARGV[2]),redis.call('SCARD',KEYS[2])}"
        );
    }
}
