//! What the `claret` program is made of, as a library so that tests can reach it.
//!
//! [`workload`] holds the papers' workloads, independent of any store; [`mod@bench`] what they are compared with.

pub mod bench;
pub mod workload;
