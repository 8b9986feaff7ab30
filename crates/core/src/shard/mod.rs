//! A shard: the participant's side of the protocol (`docs/protocol.md`).
//!
//! Sans I/O: requests and peers' messages go in with the time ([`Shard::handle`], [`Shard::handle_peer`],
//! [`Shard::handle_timeout`]), outputs are drained with [`Shard::poll_output`], and [`Shard::poll_timeout`] says
//! when to come back. The same inputs give the same outputs.
//!
//! Every attempt has one write-once vote record here, yes or no (trap 1): *yes* is the stage `Prepared`, *no* is a
//! `Decided::Refused` in the session's history (with direct delivery, where nothing is ever late, no is simply
//! being gone).
//!
//! A [`Shard`] (`machine`) is ten parts. An input is a **step** over them:
//!
//! | to find | look at |
//! |---|---|
//! | parts | `config`, `lock_table` with `phaser`, `attempts`, `accounts`, `memory`, `budget`, `ways` (the clocks among them), `outputs` |
//! | what an input does | `step` routes it; `preparing` runs calls and votes, `execution` goes on with those that waited, `ending` ends; `ways/ordered` places |
//! | what a host asks | `hosting` for records, `ways/ordered` for timestamps, `lives` for replicas and restarts |
//! | one attempt | `participant`; in doubt: `recovery`; what it has undone: `undoing` |

mod accounts;
mod asking_ways;
mod attempts;
mod budget;
mod commands;
mod config;
mod deadlines;
mod departed;
mod ending;
mod execution;
mod history;
mod hosting;
mod journaling;
mod lives;
mod lock_table;
mod machine;
mod memory;
mod outputs;
mod participant;
mod phaser;
mod picture;
mod preparing;
mod recent;
mod recovery;
mod replication;
mod step;
mod top;
mod undoing;
mod undone;
mod votes;
pub(crate) mod ways;

use std::hash::BuildHasher;

pub use lives::Survives;
pub use lock_table::Waited;
pub use machine::Shard;
pub use picture::{Stats, Wait};
pub use top::{Behind, Counted, HotRecord, Top};

/// The hash that places a key: the same everywhere, so that hosts may choose shards by it and hand it on.
pub fn key_hash(key: &[u8]) -> u64 {
    foldhash::fast::FixedState::with_seed(0x006b_6579).hash_one(key)
}
