//! What knows no global: state machines and plain data, which are given whatever they need to know.

pub(crate) mod command_table;
pub(crate) mod error;
pub(crate) mod native;
pub(crate) mod open_multis;
pub(crate) mod outbox;
pub(crate) mod plain;
pub(crate) mod queue;
pub(crate) mod sessions;
pub(crate) mod sleepers;
pub(crate) mod slots;
