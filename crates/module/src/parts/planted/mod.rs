//! What planted bugs do in the module (`claret_planted`). The line that ships computes the right value and passes it through a
//! function named after its subject; while the bug is planted another value comes out. Without the feature every function
//! returns its first argument, and takes anything else only for the bug. So whoever takes the hooks away takes no behaviour away.

pub(crate) mod guard;
pub(crate) mod records;
pub(crate) mod replicas;
pub(crate) mod sessions;
