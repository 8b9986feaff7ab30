//! What planted bugs do in the client and the log's threads (`claret_planted`). The line that ships computes the right value and passes it through a
//! function named after its subject; while the bug is planted another value comes out. Without the feature every function
//! returns its first argument, and takes anything else only for the bug. Functions without arguments are named for what happens
//! while their bug is planted, and return `false` otherwise. So whoever takes the hooks away takes no behaviour away.

use claret_planted::{Bug, is_planted};
use claret_types::ExpiresAt;

/// Whether an operation that returns nothing could be issued: [`Bug::VoidErrorSwallowed`].
pub(crate) fn issued<E>(issued: Result<(), E>) -> Result<(), E> {
    if is_planted(Bug::VoidErrorSwallowed) { Ok(()) } else { issued }
}

/// [`Bug::BufferedCallsStay`].
pub(crate) fn keeps_buffered_calls() -> bool {
    is_planted(Bug::BufferedCallsStay)
}

/// [`Bug::DeadlineOfEachAttempt`].
pub(crate) fn renews_deadline() -> bool {
    is_planted(Bug::DeadlineOfEachAttempt)
}

/// [`Bug::ExpiryLeftBehind`].
pub(crate) fn expires(at: ExpiresAt) -> ExpiresAt {
    if is_planted(Bug::ExpiryLeftBehind) { ExpiresAt::Never } else { at }
}

/// [`Bug::ReportedBeforeSync`].
pub(crate) fn reports_before_sync() -> bool {
    is_planted(Bug::ReportedBeforeSync)
}

/// [`Bug::ReadsDoNotWait`].
pub(crate) fn lets_reads_go() -> bool {
    is_planted(Bug::ReadsDoNotWait)
}

/// Where unique numbers begin: [`Bug::UniqueFromTheBeginning`].
pub(crate) fn begin_of_unique(begin: u64) -> u64 {
    if is_planted(Bug::UniqueFromTheBeginning) { 0 } else { begin }
}

/// [`Bug::MarkStops`].
pub(crate) fn stops_for_a_mark() -> bool {
    is_planted(Bug::MarkStops)
}

/// Whether a transaction whose end is not known may have changed something: [`Bug::ReadsUnknown`].
pub(crate) fn may_have_written(writes: bool) -> bool {
    writes || is_planted(Bug::ReadsUnknown)
}

/// Up to which position a sync is asked for: [`Bug::SyncWantedForEver`].
pub(crate) fn wanted(position: u64) -> u64 {
    if is_planted(Bug::SyncWantedForEver) { u64::MAX } else { position }
}

/// [`Bug::BacklogUnsynced`].
pub(crate) fn leaves_the_backlog_unsynced() -> bool {
    is_planted(Bug::BacklogUnsynced)
}

/// Up to which position a backup goes: [`Bug::BackupEndsWhereSynced`].
pub(crate) fn backed_up(noted: u64, synced: u64) -> u64 {
    if is_planted(Bug::BackupEndsWhereSynced) { synced } else { noted }
}

/// [`Bug::CustomTypesTaken`].
pub(crate) fn takes_custom_types() -> bool {
    is_planted(Bug::CustomTypesTaken)
}

/// [`Bug::EndUntold`].
pub(crate) fn leaves_the_end_untold() -> bool {
    is_planted(Bug::EndUntold)
}

/// Who is woken at a tick: [`Bug::TickWakesNobody`].
pub(crate) fn woken<T>(mut waiting: Vec<T>) -> Vec<T> {
    if is_planted(Bug::TickWakesNobody) {
        waiting.clear();
    }
    waiting
}

/// For how long a caller has tried: [`Bug::AgeOfCallerForgotten`].
pub(crate) fn age<T>(age: Option<T>) -> Option<T> {
    age.filter(|_| !is_planted(Bug::AgeOfCallerForgotten))
}

/// Whether a caller has left: [`Bug::GoneCallersServed`].
pub(crate) fn is_gone(is: bool) -> bool {
    is && !is_planted(Bug::GoneCallersServed)
}
