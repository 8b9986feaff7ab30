//! What is seen of a transaction, from its beginning to its outcome: it is counted, measured, and told to `tracing` (cargo
//! feature `tracing`). Without that feature the spans are of no size, and what they do is nothing.

#[cfg(not(feature = "tracing"))]
mod no_spans;
#[cfg(feature = "tracing")]
mod spans;

use std::time::Instant;

use claret_core::Cause;
use claret_types::Bytes;

#[cfg(not(feature = "tracing"))]
use self::no_spans as told;
#[cfg(feature = "tracing")]
use self::spans as told;
pub(crate) use told::{AttemptSpan, TransactionSpan, WaitEvents};

use crate::error::Error;
use crate::stats::{Counts, Measure, Outcome, RestartKey, RestartReason};

/// A transaction that runs. When this is dropped it has ended; if nobody has said how, its future was dropped, or its
/// closure panicked.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    counts: &'a Counts,
    span: TransactionSpan,
    measure: Measure,
    waited: Option<Instant>,
    attempts: u32,
    outcome: Outcome,
}

impl<'a> Observed<'a> {
    /// `measure`: since when, if it began before.
    #[inline]
    pub(crate) fn begin(counts: &'a Counts, measure: Option<Measure>) -> Self {
        counts.note_running(true);
        let (span, measure) = (TransactionSpan::begin(), measure.unwrap_or_else(|| counts.begin()));
        Observed { counts, span, measure, waited: None, attempts: 0, outcome: Outcome::Dropped }
    }

    /// An attempt begins.
    #[inline]
    pub(crate) fn attempt(&mut self, number: u32) -> AttemptSpan {
        self.attempts = number;
        self.span.attempt(number)
    }

    /// Since when it waits, or has waited.
    pub(crate) fn note_wait(&mut self, since: Option<&Instant>) {
        self.waited = self.waited.or(since.copied());
    }

    /// An attempt has ended, and another one is to begin, for these keys.
    pub(crate) fn restarts(&mut self, cause: &Cause, keys: &[Bytes], ended: &AttemptSpan) {
        let reason = RestartReason::of(cause);
        self.counts.restart(reason);
        for key in keys {
            if let Some(restarts) = self.counts.restart_for(key) {
                told::restarts_often(&RestartKey { key: key.clone(), restarts });
            }
        }
        ended.restarts(reason.name(), cause);
        // It takes as long as one that waited.
        self.waited.get_or_insert_with(Instant::now);
    }

    pub(crate) fn commits(&mut self) {
        self.outcome = Outcome::Committed;
    }

    /// The closure returned an error of its own.
    pub(crate) fn aborts(&mut self) {
        self.outcome = Outcome::Aborted;
    }

    /// The store gives it up, and answers the error.
    pub(crate) fn fails(&mut self, error: Error) -> Error {
        self.outcome = Outcome::of(&error);
        self.span.fails(&error, self.outcome.is_bad());
        error
    }
}

impl Drop for Observed<'_> {
    #[inline]
    fn drop(&mut self) {
        self.counts.note_running(false);
        self.counts.end(self.outcome, self.measure, self.waited);
        self.span.ends(self.outcome.name(), self.attempts);
    }
}
