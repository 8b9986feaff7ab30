//! What planted bugs do in the client (`claret_planted`): the right value passes through a function that is named for what it is
//! about, and comes out wrong while that bug is planted. Without the feature all of them hand back what they are given.

use claret_planted::{Bug, is_planted};

/// Whether an operation that returns nothing could be issued: [`Bug::VoidErrorSwallowed`].
pub(crate) fn issued<E>(issued: Result<(), E>) -> Result<(), E> {
    if is_planted(Bug::VoidErrorSwallowed) { Ok(()) } else { issued }
}
