//! The module for Redis and Valkey: hosts the shard state machine of `claret-core` on the server's own thread, over the
//! server's own keys. `docs/commands.md` has the commands, `ARCHITECTURE.md` where to look for what.
//!
//! Four storeys, each of which knows those beneath it alone: [`entries`] from the server, the [`node`] that owns the shard and
//! all that stands around it, [`parts`] that know no global, and [`ffi`], the server's functions made safe to call. One way
//! through: a `CLARET.FRAME` arrives ([`entries`]), its requests go into the shard ([`node`]), which asks whether each may be
//! done, reads the records that it decides about and writes those that are committed ([`parts::native`]); answers go back, or
//! to other sessions' outboxes ([`parts::sessions`]).
//!
//! `unsafe` is in [`ffi`] and where the server calls in. Nothing unwinds out of the module.

// The server loads this; nothing of it is public, and its text leads to where things are.
#![allow(rustdoc::private_intra_doc_links)]

mod entries;
mod ffi;
mod node;
mod parts;

#[global_allocator]
static MEMORY: ffi::alloc::Counted = ffi::alloc::Counted;
