//! Claret's protocol as state machines without I/O.
//!
//! [`Shard`] is the participant's side, [`Coordinator`] the transaction's. [`Client`] is a client process: all its
//! transactions and its connections. All are driven from outside: inputs go in with
//! the time, outputs are drained. Same inputs, same outputs. The rules are in `docs/protocol.md`.
//!
//! This crate names no clock, thread, socket, random source, log or async runtime.

#[macro_use]
pub mod ways;

mod asked;
mod backup;
mod client;
mod coordinator;
mod digest;
mod ids;
mod journal;
mod limits;
pub mod message;
#[cfg_attr(
    not(feature = "planted-bugs"),
    allow(dead_code, unreachable_pub, reason = "bugs are named where they stand")
)]
mod planted;
mod records;
mod removed;
mod shard;
mod switches;
mod versions;
pub mod wire;

pub use asked::{Asked, Known, NotAsked, Told, Written};
pub use backup::{Backup, Change, Changes, Granted, HeldRecord, Vote, VotedAnswers, VotedPlace};
pub use client::{Client, Node, Pacing, Pipeline, Session, SlotRange, Unexpected};
pub use coordinator::{Cause, Closed, Contention, Coordinator, Event, Waits};
pub use digest::digest;
pub use ids::{
    AttemptId, Birth, CallNo, Incarnation, LookNo, Member, Sequence, SessionId, ShardId, Time, Timestamp,
    TxHandle, TxId,
};
pub use journal::{Journal, Malformed, Noted, read_effects, read_records, write_effect, write_record};
pub use limits::Limits;
#[cfg(feature = "planted-bugs")]
pub use planted::{Bug, with_bug};
pub use records::{Applied, HeldEnd, Read, Records};
pub use shard::{Behind, Counted, HotRecord, Shard, Stats, Survives, Top, Wait, Waited, key_hash};
pub use switches::{Discipline, Ordered, Switches};
pub use versions::Versions;
pub use ways::check_only::{Observations, Place, Saw};
