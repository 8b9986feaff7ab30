//! What holds on any host: the tests of the store in the process and those of clusters run the same cases.

pub(crate) mod at_commit;
pub(crate) mod errors;
pub(crate) mod handles;
pub(crate) mod nesting;
pub(crate) mod optimistic;
pub(crate) mod ways;
