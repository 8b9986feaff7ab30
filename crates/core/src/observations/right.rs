//! Rules of what an optimistic transaction has seen that a planted bug can take out (`planted.rs`), each by its name.

use claret_types::{OpError, Operation, Reply, Unique};

/// An operation as it goes to the commit, with what was seen (O3, O7).
#[inline]
pub(super) fn seal(op: &Operation, answer: Result<&Reply, &OpError>, unique: u64) -> Operation {
    op.seen(answer, Unique(unique))
}

/// Whether an answer is known though the record was changed since (O6).
#[inline]
pub(super) fn outlives(is_only_read: bool) -> bool {
    is_only_read
}

/// Whether a record is locked in this attempt (O8).
#[inline]
pub(super) fn is_locked(is: bool) -> bool {
    is
}

/// Whether what was done on a record goes along with what is locked there (O8).
#[inline]
pub(super) fn goes_along(is: bool) -> bool {
    is
}

/// Whether a look that has no answer when its record is locked is of no use (O8).
#[inline]
pub(super) fn is_outrun(is: bool) -> bool {
    is
}

/// Whether what was seen is to be checked before an error is believed (O5).
#[inline]
pub(super) fn is_checked(is: bool) -> bool {
    is
}

/// After how many attempts what had changed is locked (O8).
#[inline]
pub(super) fn tries_max(tries: u32) -> u32 {
    tries
}

/// Whether what was seen is checked though it is undone (N6).
#[inline]
pub(super) fn stays_seen(is_seen: bool) -> bool {
    is_seen
}

/// Whether calls that are checked and undone are not carried out (N6).
#[inline]
pub(super) fn is_noted(is: bool) -> bool {
    is
}
