//! How long and how often a transaction is tried, and how long its answer is kept.

use std::time::Duration;

/// Bounds of a transaction: attempts, and time; and for how long `transaction_once` keeps its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct TxOptions {
    pub(crate) attempts: u32,
    pub(crate) deadline: Duration,
    pub(crate) keep_answer: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for TxOptions {
    fn default() -> Self {
        TxOptions { attempts: 100, deadline: Duration::from_secs(10), keep_answer: DAY }
    }
}

impl TxOptions {
    /// 100 attempts within 10 seconds; answers are kept for 24 hours.
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

    /// For how long [`Store::transaction_once`](crate::Store::transaction_once) can be asked again for the answer; 24 hours by
    /// default, with `Duration::MAX` for ever. After that a call with the same id answers
    /// [`Error::AlreadyDone`](crate::Error::AlreadyDone): that it was done is never forgotten.
    pub fn keep_answer(mut self, time: Duration) -> Self {
        self.keep_answer = time;
        self
    }
}
