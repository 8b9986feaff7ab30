//! The `claret` program as a library, so that tests can reach its parts: workloads, benchmark, checks, commands,
//! shell, the local cluster.

pub mod bench;
pub mod checking;
pub mod commands;
pub mod edge;
pub mod local;
pub mod shell;
pub mod workload;
