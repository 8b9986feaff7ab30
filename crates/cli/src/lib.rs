//! The `claret` program as a library, so that tests can reach its parts: commands, shell, the local cluster.

pub mod commands;
pub mod edge;
pub mod interrupt;
pub mod local;
pub mod shell;
pub mod table;
