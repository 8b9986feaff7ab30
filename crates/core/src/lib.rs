//! Claret's protocol as state machines without I/O.
//!
//! [`Shard`] is the participant's side, [`Coordinator`] the transaction's, [`Frontend`] holds all transactions of
//! one process and combines them. All are driven from outside: inputs
//! go in with the time, outputs are drained. Same inputs, same outputs. The rules are in `docs/protocol.md`.
//!
//! This crate names no clock, thread, socket, random source, log or async runtime.

mod coordinator;
mod digest;
mod gone;
mod ids;
mod limits;
pub mod message;
mod planted;
mod records;
mod shard;
mod switches;
pub mod wire;

pub use coordinator::{Cause, Closed, Coordinator, Event, Frontend, FrontendStats, Heat, Session, TxHandle};
pub use digest::digest;
pub use ids::{AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, TxId};
pub use limits::Limits;
#[cfg(feature = "planted-bugs")]
pub use planted::Bug;
pub use records::Records;
pub use shard::{Shard, Stats, Survives, Wait, key_hash};
pub use switches::{Delivery, Locks, Switches};
