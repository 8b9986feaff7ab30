//! From one transaction of a client to the next: whether there is one, and what is counted of the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::measure::Counts;
use crate::over_time::Intervals;
use crate::pace::{Pace, yield_once};

/// When a runner stops, and whether it shares its thread.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) began: Instant,
    pub(super) deadline: Instant,
    /// How long its mode was measured in earlier slices.
    pub(super) before: Duration,
    pub(super) intervals: Intervals,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) shares_thread: bool,
    pub(super) pace: Pace,
}

/// How a transaction ended, for the counts.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// Of this kind, after so many attempts, if that is known.
    Committed {
        kind: usize,
        attempts: Option<u32>,
    },
    Aborted,
    /// The run cannot go on.
    Broken,
}

impl Schedule {
    /// Notes how a transaction ended. When the next one begins; `None` when there is to be none.
    pub(super) async fn next(&self, began: Instant, ended: Outcome, counts: &mut Counts) -> Option<Instant> {
        let now = self.ended(began, ended, counts)?;
        if !self.shares_thread {
            return Some(now);
        }
        yield_once().await;
        Some(Instant::now())
    }

    /// The same, for who has the thread to itself.
    pub(super) fn ended(&self, began: Instant, ended: Outcome, counts: &mut Counts) -> Option<Instant> {
        let now = Instant::now();
        let in_time = now < self.deadline;
        match ended {
            Outcome::Committed { kind, attempts } => {
                let interval = in_time.then(|| self.intervals.at(self.before + (now - self.began)));
                counts.committed(kind, attempts, now - began, interval);
            }
            Outcome::Aborted => counts.aborts += 1,
            Outcome::Broken => return None,
        }
        if !in_time || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        Some(now)
    }
}
