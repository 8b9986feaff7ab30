//! What the table of transactions does for the ways to commit (`crate::ways`).

pub(super) mod batch;
