//! Counts of a store.

/// Counts since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that had to wait for a lock (with phases) or were refused it (without).
    pub lock_waits: u64,
    /// Phases that began with waiters.
    pub phases: u64,
    /// Attempts that were run again.
    pub restarts: u64,
    /// Reads that another transaction's read answered, and whose lock they share (combining).
    pub combined: u64,
    /// Records that are locked or waited for now.
    pub locked_records: u64,
    /// Attempts that hold something now; 0 when nobody works.
    pub open_attempts: u64,
}
