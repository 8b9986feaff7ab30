//! The mode `sinfonia`: reads without locks, and one mini-transaction that compares all that was read and writes (`docs/workloads.md`).
//!
//! A lock that is held refuses at once, all that was locked is given back, and the client begins again after a pause that it draws.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use claret::{Error, errors::CommitError};

use super::{StoreRunner, attempt};
use crate::items;
use crate::looking::Looking;
use crate::pace::{Pace, think, yield_once};
use crate::schedule::Outcome;
use crate::workload::Stage;

/// So often and so long one transaction is tried, as a store does it.
const TRIES_MAX: u32 = 100;
const DEADLINE: Duration = Duration::from_secs(10);

/// Shorter pauses are none: the timer has ticks of 1 ms and rounds up.
const TICK: Duration = Duration::from_millis(1);

impl StoreRunner {
    /// Runs the transaction that was drawn until it commits.
    pub(super) async fn mini_transaction(&mut self, pace: Pace) -> Outcome {
        let kind = self.work.client.draw();
        let (began, mut tries) = (Instant::now(), 1);
        loop {
            let error = match self.try_mini(pace).await {
                Ok(()) => return Outcome::Committed { kind, attempts: Some(tries) },
                Err(error) => error,
            };
            match error {
                Error::Aborted(_) if self.work.client.rolls_back() => {
                    self.work.client.gave_up();
                    return Outcome::Committed { kind, attempts: Some(tries) };
                }
                Error::Commit(CommitError::Attempts { .. })
                    if tries < TRIES_MAX && began.elapsed() < DEADLINE =>
                {
                    self.counts.begun_again += 1;
                    let pause = self.backoff.as_mut().map_or(Duration::ZERO, |backoff| backoff.after(tries));
                    if pause < TICK {
                        yield_once().await
                    } else {
                        think(pause).await
                    }
                    self.work.client.restart();
                    tries += 1;
                }
                error => return self.ended_badly(error),
            }
        }
    }

    async fn try_mini(&mut self, pace: Pace) -> Result<(), Error> {
        let work = &mut self.work;
        work.calls.clear();
        work.stage = work.client.stage(&[], &mut work.calls);
        if pace == Pace::Together && work.stage == Stage::Commit && items::is_one(&work.calls) {
            let calls = work.calls.drain(..).map(|call| (call.key, call.op));
            let replies = self.store.run_all(calls).await?;
            work.client.committed(&replies);
            return Ok(());
        }
        work.attempts = 0;
        let shared = Mutex::new(&mut *work);
        let body = |tx| attempt(tx, &shared, (pace, Looking::AtItems));
        self.store.tx().options(Looking::AtItems.options()).run(body).await?;
        work.client.committed(&work.replies);
        Ok(())
    }
}
