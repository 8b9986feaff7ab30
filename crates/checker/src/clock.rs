//! One clock for all processes of a run: microseconds since the run began.
//!
//! The judges derive the real-time order of a history from it, so nobody may set the system's clock during a run:
//! [`Clock::check`] compares it with a monotonic one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far the two clocks may drift apart in a run.
const DRIFT_MAX: Duration = Duration::from_millis(5);

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Microseconds since the Unix epoch at which the run began.
    epoch: u64,
    began: (Instant, u64),
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}

impl Clock {
    /// A run that begins now, or, given its epoch, one that another process began.
    pub(crate) fn new(epoch: Option<u64>) -> Self {
        let now = unix_us();
        Clock { epoch: epoch.unwrap_or(now), began: (Instant::now(), now) }
    }

    /// For other processes of the run.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Microseconds since the run began.
    pub(crate) fn now(&self) -> u64 {
        unix_us().saturating_sub(self.epoch)
    }

    /// Whether nobody set it.
    ///
    /// # Errors
    /// When somebody did, or it drifted: the history is worthless.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (began, at) = self.began;
        let passed = Duration::from_micros(unix_us().saturating_sub(at));
        let drift = began.elapsed().abs_diff(passed);
        if drift > DRIFT_MAX {
            return Err(format!("the system clock was set by {drift:?} during the run; run it again"));
        }
        Ok(())
    }
}
