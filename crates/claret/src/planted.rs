//! What planted bugs do in the client (`claret_planted`). The line that ships computes the right value and passes it through a
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
