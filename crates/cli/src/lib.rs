//! The `claret` program as a library, so that tests can reach its parts: workloads, benchmark, commands,
//! shell, the local cluster.

pub mod bench;
pub mod commands;
pub mod local;
pub mod shell;
pub mod workload;
