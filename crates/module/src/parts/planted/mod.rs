//! What planted bugs do in the module (`claret_planted`): the right value passes through a function that is named for what it is
//! about, and comes out wrong while that bug is planted. Without the feature all of them hand back what they are given.

pub(crate) mod guard;
pub(crate) mod records;
pub(crate) mod sessions;
