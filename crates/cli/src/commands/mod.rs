//! The subcommands, a file each: arguments and what running them does.

mod bar;
pub(crate) mod bench;
pub(crate) mod check_store;
pub(crate) mod check_type;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod gateway;
// As the guide has it, where it is public.
#[allow(unreachable_pub)]
mod high_water;
pub(crate) mod man;
mod password;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod shell;
pub(crate) mod sim;
mod store_arg;
pub(crate) mod stored;
pub(crate) mod top;
pub(crate) mod torture;
pub(crate) mod tpcc;
