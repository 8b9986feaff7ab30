//! The `claret` program as a library, so that tests can reach its parts: commands, checks, shell, the local cluster.

pub mod checking;
pub mod commands;
pub mod edge;
pub mod interrupt;
pub mod local;
pub mod shell;
pub mod table;
