//! The node's clock.

use std::cell::Cell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use claret_core::Time;

/// If the time of day is so much later than the node's own, the node catches up, in microseconds.
const CATCHES_UP_US: u64 = 100_000;

/// See the module's text.
pub(super) struct Clock {
    began: Instant,
    /// What is added to the time since then: it is about the time of day, and never goes back.
    ahead_us: Cell<u64>,
}

impl Clock {
    /// It begins at the time of day.
    pub(super) fn begin() -> Self {
        Clock { began: Instant::now(), ahead_us: Cell::new(unix_time().0) }
    }

    /// The time of day, as far as that never goes back: timestamps are compared between nodes (P79). A machine that was suspended
    /// catches up; one whose time is set back waits for nothing, and is ahead from then on.
    #[inline]
    pub(super) fn now(&self) -> Time {
        let (elapsed, unix) = (self.began.elapsed().as_micros() as u64, unix_time());
        let now = Time(elapsed + self.ahead_us.get());
        if unix.since(now) < CATCHES_UP_US {
            return now;
        }
        self.ahead_us.set(unix.0.saturating_sub(elapsed));
        unix
    }
}

/// The time of day: births of transactions are compared between processes.
pub(super) fn unix_time() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64)
}
