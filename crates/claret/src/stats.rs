//! Counts of a store, as its user reads them.

mod counts;
mod latency;
#[cfg(feature = "metrics")]
mod metrics;
mod restart_keys;
mod shown;

use claret_types::Bytes;

pub(crate) use counts::{Counts, Measure, Measured, Outcome, RestartReason};
pub use latency::Latency;

/// Counts since the store was opened, and what is going on now. Those of transactions count single operations and batches
/// too. What is refused before it begins, such as an operation on a store that is closed, is not counted. Printed with `{}` they are a few
/// lines for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that ended because their closure returned an error of its own.
    pub aborts: u64,
    /// Transactions whose future was dropped, or whose closure panicked.
    pub dropped: u64,
    /// Transactions whose deadline passed first.
    pub deadlines: u64,
    /// Transactions that the store gave up for another reason: an operation was refused, the attempts were used up.
    pub failures: u64,
    /// Transactions of which nobody knows whether they committed: [`Error::Unknown`](crate::Error::Unknown).
    pub unknown: u64,
    /// Attempts that were run again.
    pub restarts: u64,
    /// The same, by why.
    pub restart_reasons: RestartReasons,
    /// For which keys, the most first: what they waited for, or found changed. Of several records that an attempt waited for at once,
    /// as in a commit on a cluster, each is counted. The 64 with the most are there; a count may be too high by a 64th of all restarts.
    pub restart_keys: Vec<RestartKey>,
    /// How long transactions took.
    pub latency: Latency,
    /// Requests that had to wait for a lock (with phases) or were refused it (without).
    pub lock_waits: u64,
    /// Phases that began with waiters.
    pub phases: u64,
    /// Reads that another transaction's read answered, and whose lock they share (combining).
    pub combined: u64,
    /// Records that are locked or waited for now.
    pub locked_records: u64,
    /// Attempts that hold or wait for something now; 0 when nobody works.
    pub open_attempts: u64,
}

/// A key, and how often attempts were run again for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartKey {
    /// The record.
    pub key: Bytes,
    /// How often.
    pub restarts: u64,
}

/// Why attempts were run again. The sum is [`Stats::restarts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartReasons {
    /// They waited, and an elder transaction waited for what they held.
    pub gave_way: u64,
    /// Without phases: a lock was refused too often.
    pub busy: u64,
    /// They were taken out of the group that they shared locks with (combining).
    pub parted: u64,
    /// The record is served by another node now.
    pub moved: u64,
    /// The record expired or was evicted while it was held or waited for.
    pub vanished: u64,
    /// A shard takes no transactions at the moment.
    pub read_only: u64,
    /// A shard restarted, or gave the attempt up because it had heard nothing of it for too long.
    pub lost: u64,
}
