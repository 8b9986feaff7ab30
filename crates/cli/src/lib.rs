//! The `claret` program as a library, so that tests can reach its parts: workloads, benchmark, commands,
//! shell.

pub mod bench;
pub mod commands;
pub mod shell;
pub mod workload;
