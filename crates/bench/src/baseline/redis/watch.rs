//! `redis-watch`: optimistic transactions on one server.
//!
//! A client sends `WATCH` for all keys of a stage and then its reads; after the last stage `MULTI`, its writes and `EXEC`,
//! which does nothing if somebody has written to any of those keys meanwhile. Then the transaction begins again, after a
//! pause. A connection can do this for one transaction at a time, so each client has its own.
//!
//! All keys are watched, also those that are only added to: a client decides by what it read whether to write, and does not
//! prove for each write that it needs no decision. One that knows everything up front needs only MULTI: that is
//! `redis-multi`. A transaction of a single stage that only reads uses MULTI here, too.

use std::time::Instant;

use claret::{Bytes, Reply};
use claret_redis::{Command, CommandError, Dedicated};

use super::at_once::array;
use super::{DEADLINE, Failed, RedisRunner, commands, shape};
use crate::pace::{Pace, think, think_between};
use crate::workload::{Call, Stage};

/// What came of an attempt.
enum Attempt {
    Committed(Vec<Reply>),
    /// Somebody else was faster.
    Overtaken,
}

impl RedisRunner {
    pub(super) async fn watched(&mut self, pace: Pace) -> Result<Vec<Reply>, Failed> {
        let until = Instant::now() + DEADLINE;
        let mut own = match self.own.take() {
            Some(own) => own,
            None => self.connection().await?,
        };
        let mut tries = 0;
        let result = loop {
            match self.attempt_watched(pace, &mut own).await {
                Ok(Attempt::Committed(replies)) => break Ok(replies),
                Ok(Attempt::Overtaken) if Instant::now() > until => break Err(Failed::GaveUp),
                Ok(Attempt::Overtaken) => {
                    tries += 1;
                    let pause = self.backoff.after(tries);
                    tokio::time::sleep(pause).await;
                    self.begin_again();
                }
                // The connection, with what it watches, goes.
                Err(failed) => return Err(failed),
            }
        };
        self.own = Some(own);
        result
    }

    async fn connection(&mut self) -> Result<Dedicated, Failed> {
        self.baseline.plain.dedicated("").await.map_err(|error| Failed::Broken(error.to_string()))
    }

    async fn attempt_watched(&mut self, pace: Pace, own: &mut Dedicated) -> Result<Attempt, Failed> {
        let (mut replies, mut watched, mut later) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let (stage, drawn) = self.stage(&replies).await?;
            let calls = std::mem::take(&mut self.calls);
            let is_last = stage == Stage::Commit;
            let only_reads = later.is_empty() && calls.iter().all(|call| call.op.returns());
            if is_last && only_reads && watched.is_empty() && pace == Pace::Together {
                let Some(found) = exec(own, &calls).await? else { return Ok(Attempt::Overtaken) };
                self.calls = calls;
                return Ok(Attempt::Committed(drawn.among(found)));
            }
            let found = read(own, pace, &calls, &mut watched).await?;
            later.extend(calls.iter().filter(|call| !call.op.returns()).cloned());
            self.calls = calls;
            replies = drawn.among(found);
            if let Pace::Pause(time) | Pace::Interactive(time) = pace {
                think(time).await;
            }
            if is_last {
                let done = exec(own, &later).await?;
                return Ok(done.map_or(Attempt::Overtaken, |_| Attempt::Committed(replies)));
            }
            think_between(self.client.thinks()).await;
        }
    }
}

/// Watches the keys of these calls and runs those that answer. The others leave with EXEC.
async fn read(
    own: &mut Dedicated,
    pace: Pace,
    calls: &[Call],
    watched: &mut Vec<Bytes>,
) -> Result<Vec<Reply>, Failed> {
    let mut watch = Command::new("WATCH");
    for call in calls {
        if !watched.contains(&call.key) {
            watched.push(call.key.clone());
            watch = watch.arg(call.key.clone());
        }
    }
    let mut first: Vec<Command> = Vec::with_capacity(calls.len() + 1);
    first.extend((watch.words().len() > 1).then_some(watch));
    let reads: Vec<Call> = calls.iter().filter(|call| call.op.returns()).cloned().collect();
    let found = match pace {
        Pace::Together | Pace::Pause(_) => {
            let before = first.len();
            first.extend(commands(&reads)?);
            let mut answers = run(own, &first).await?;
            answers.split_off(before)
        }
        Pace::Interactive(time) => {
            run(own, &first).await?;
            let mut found = Vec::with_capacity(reads.len());
            for (at, command) in commands(&reads)?.into_iter().enumerate() {
                if at > 0 {
                    think(time).await;
                }
                found.push(own.ask(&command).await?);
            }
            found
        }
    };
    let mut found = shape(&reads, found)?.into_iter();
    let reply = |call: &Call| if call.op.returns() { found.next() } else { Some(Reply::Ok) };
    Ok(calls.iter().filter_map(reply).collect())
}

/// Runs calls as one, if nobody wrote to what is watched: their replies.
async fn exec(own: &mut Dedicated, calls: &[Call]) -> Result<Option<Vec<Reply>>, Failed> {
    let mut all = vec![Command::new("MULTI")];
    all.extend(commands(calls)?);
    all.push(Command::new("EXEC"));
    match run(own, &all).await?.pop().expect("EXEC is answered") {
        Reply::Nil => Ok(None),
        replies => shape(calls, array(replies)?).map(Some),
    }
}

async fn run(own: &mut Dedicated, commands: &[Command]) -> Result<Vec<Reply>, Failed> {
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let replies = own.run(commands).await?.into_iter().collect::<Result<Vec<_>, _>>();
    replies.map_err(|error| CommandError::Server(error).into())
}
