//! The `claret` program as a library, so that tests can reach its parts: workloads, benchmark, commands.

pub mod bench;
pub mod commands;
pub mod workload;
