//! Where the server calls in: commands, the filter, timers, events and the bus.

pub(crate) mod bus;
pub(crate) mod commands;
pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod frame;
pub(crate) mod info;
pub(crate) mod locks;
pub(crate) mod needs;
pub(crate) mod plain;
pub(crate) mod poll;
pub(crate) mod pops;
pub(crate) mod set_slot;
