//! What planted bugs do in the client (`claret_planted`): the right value passes through a function named after its
//! subject, and comes out wrong while that bug is planted. Without the feature every function returns its argument.

use claret_planted::{Bug, is_planted};

/// Whether an operation that returns nothing could be issued: [`Bug::VoidErrorSwallowed`].
pub(crate) fn issued<E>(issued: Result<(), E>) -> Result<(), E> {
    if is_planted(Bug::VoidErrorSwallowed) { Ok(()) } else { issued }
}

/// Clears what an attempt has buffered before the next one: [`Bug::BufferedCallsStay`].
pub(crate) fn clear<T>(buffered: &mut Vec<T>) {
    if !is_planted(Bug::BufferedCallsStay) {
        buffered.clear();
    }
}

/// The time of a transaction, or of each attempt with [`Bug::DeadlineOfEachAttempt`].
pub(crate) fn deadline<T>(of_all: T, of_each: impl FnOnce() -> T) -> T {
    if is_planted(Bug::DeadlineOfEachAttempt) { of_each() } else { of_all }
}
