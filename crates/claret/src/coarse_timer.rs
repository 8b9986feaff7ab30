//! A timer for deadlines that are far away. Waiters are woken at the next tick and check their deadline themselves. Most
//! have their answer by then, and never need a timer of their own. What makes it tick is the host's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;

use claret_planted::{Bug, is_planted};

/// The time between two ticks.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct CoarseTimer {
    inner: Mutex<Waiters>,
    /// Set while `inner` is locked.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiters {
    number: u64,
    waiting: Vec<Waker>,
}

impl CoarseTimer {
    /// Wakes this task at the next tick, whose number this is. `None`: it ticks no more, or the time is too short for it. `ask`: who
    /// makes it tick hears that somebody waits now, and may tick at once.
    pub(crate) fn join(&self, time: Duration, waker: &Waker, ask: impl FnOnce()) -> Option<u64> {
        if time <= 2 * TICK {
            return None;
        }
        let (number, is_first) = {
            let mut inner = self.inner.lock();
            if self.is_over() {
                return None;
            }
            let is_first = inner.waiting.is_empty();
            // One task often asks again before any other does.
            if !inner.waiting.last().is_some_and(|last| last.will_wake(waker)) {
                inner.waiting.push(waker.clone());
            }
            (inner.number, is_first)
        };
        if is_first {
            ask();
        }
        Some(number)
    }

    /// Whether it ticks no more: the store is closed, or what made it tick has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ticks; for the last time if it is over.
    pub(crate) fn tick(&self, is_over: bool) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.number += 1;
            self.is_over.fetch_or(is_over, Ordering::Release);
            let waiting = std::mem::take(&mut inner.waiting);
            if is_planted(Bug::TickWakesNobody) { Vec::new() } else { waiting }
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
