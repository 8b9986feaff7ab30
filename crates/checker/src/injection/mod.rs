//! Faults that are injected into a cluster while clients work on it: one after the other, sometimes two at once. A seed
//! decides which, in what order and when.
//!
//! Each fault ends by itself: a stopped node continues, a withdrawn right is given back. Faults report what they did, for
//! the judges: which records ended, and when transactions could be refused with good reason.

mod cluster;
mod ends;
mod inject;

pub(crate) use cluster::{FaultyCluster, LEASE};
pub(crate) use ends::add_ends;
pub(crate) use inject::{Injected, Injector};
