//! What planted bugs do in the client (`claret_planted`): the right value passes through a function named after its
//! subject, and comes out wrong while that bug is planted. Without the feature every function returns its argument.

use claret_planted::{Bug, is_planted};

/// Whether an operation that returns nothing could be issued: [`Bug::VoidErrorSwallowed`].
pub(crate) fn issued<E>(issued: Result<(), E>) -> Result<(), E> {
    if is_planted(Bug::VoidErrorSwallowed) { Ok(()) } else { issued }
}
