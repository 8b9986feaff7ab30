//! The subcommands, a file each: arguments and what running them does.

mod bar;
pub mod bench;
pub mod check_store;
pub mod check_type;
pub mod cluster;
pub mod demo;
mod place;
pub mod shell;
pub mod sim;
