//! How long and how often a transaction is tried.

use std::time::Duration;

/// Bounds of a transaction: attempts, and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct TxOptions {
    pub(crate) attempts: u32,
    pub(crate) deadline: Duration,
}

impl Default for TxOptions {
    fn default() -> Self {
        TxOptions { attempts: 100, deadline: Duration::from_secs(10) }
    }
}

impl TxOptions {
    /// 100 attempts within 10 seconds.
    pub fn new() -> Self {
        Self::default()
    }

    /// The largest number of attempts (at least 1).
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// The longest time, over all attempts.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}
