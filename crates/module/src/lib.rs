//! The module for Redis and Valkey: hosts the shard state machine of `claret-core` on the server's own thread, over
//! the server's own keys. `docs/commands.md` lists the commands, `ARCHITECTURE.md` says where to find what.
//!
//! It has four layers; each knows only those beneath it: [`entries`] from the server, the [`node`] that owns the
//! shard and everything around it, [`parts`] that know no global, and [`ffi`], safe wrappers of the server's
//! functions. One way through: a `CLARET.FRAME` arrives ([`entries`]), and its requests go into the shard ([`node`]).
//! The shard asks whether each may be done, reads the records that it decides about and writes those that are
//! committed ([`parts::native`]). Answers go back, or to other sessions' outboxes ([`parts::sessions`]).
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
