//! The rules of `right.rs` with a planted bug in one of them.

use claret_types::{OpError, Operation, Reply};

use super::right;
use crate::planted::{Bug, is};

/// [`Bug::SeenUnchecked`], [`Bug::DrawnAnew`].
pub(super) fn seal(op: &Operation, answer: Result<&Reply, &OpError>, unique: u64) -> Operation {
    if is(Bug::SeenUnchecked) && answer.is_ok() {
        return op.clone();
    }
    right::seal(op, answer, unique ^ u64::from(is(Bug::DrawnAnew)))
}

/// [`Bug::KnownThoughChanged`].
pub(super) fn outlives(is_only_read: bool) -> bool {
    right::outlives(is_only_read) || is(Bug::KnownThoughChanged)
}

/// [`Bug::LooksBesideLock`].
pub(super) fn is_locked(is_it: bool) -> bool {
    right::is_locked(is_it) && !is(Bug::LooksBesideLock)
}

/// [`Bug::OwnLeftBehind`].
pub(super) fn goes_along(is_it: bool) -> bool {
    right::goes_along(is_it) && !is(Bug::OwnLeftBehind)
}

/// [`Bug::OutrunLookCounts`].
pub(super) fn is_outrun(is_it: bool) -> bool {
    right::is_outrun(is_it) && !is(Bug::OutrunLookCounts)
}

/// [`Bug::ErrorsUnchecked`].
pub(super) fn is_checked(is_it: bool) -> bool {
    right::is_checked(is_it) && !is(Bug::ErrorsUnchecked)
}

/// [`Bug::NeverLocks`].
pub(super) fn tries_max(tries: u32) -> u32 {
    if is(Bug::NeverLocks) { u32::MAX } else { right::tries_max(tries) }
}

/// [`Bug::SeenUndoneUnchecked`].
pub(super) fn stays_seen(is_seen: bool) -> bool {
    right::stays_seen(is_seen) && !is(Bug::SeenUndoneUnchecked)
}

/// [`Bug::CheckedUndoneApplied`].
pub(super) fn is_noted(is_it: bool) -> bool {
    right::is_noted(is_it) && !is(Bug::CheckedUndoneApplied)
}
