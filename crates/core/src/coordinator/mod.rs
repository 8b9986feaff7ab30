//! The coordinator of one transaction, over all its attempts (`docs/protocol.md`).
//!
//! Sans I/O, like the shard: the application's calls and the shards' responses go in with the time; requests
//! ([`Coordinator::poll_send`]) and events for the application ([`Coordinator::poll_event`]) are drained, and
//! [`Coordinator::poll_timeout`] says when to come back.
//!
//! ```text
//!  Running --commit--> Preparing --all yes--> Committed --all applied--> over
//!     |                   |  \--a no--> over for this attempt: Restart or Failed
//!     |                   `--give way, abort--> Withdrawing --a no--> the same; all yes --> Committed
//!     `--abort, give way, a refusal--> over for this attempt
//! ```
//!
//! Rules it keeps: once a prepare has left, an attempt ends only by a recorded no (or because a participant was never
//! asked), by all yes, or with an unknown outcome when a shard lost its memory (trap 1); a transaction with an
//! unknown outcome is not run again. The next attempt starts after that (trap 2). A coordinator gives way only while
//! a vote is missing (trap 9). Once it gave way while its prepares were out, the prepares of later attempts leave one
//! after another, in the order of shards. Calls, commits and restarts name their attempt, and are taken only in the
//! right state of that attempt (P61).
//!
//! The coordinator is `machine`; each of its parts has a file. A client process has many: `ways/in_turn/contention` knows what is hot
//! for all of them.

mod blocked;
mod calls;
mod closing;
mod event;
mod machine;
mod out;
mod outstanding;
mod participants;
mod reserves;
mod retries;
mod round;
mod waits;
mod ways;

pub use event::{Cause, Closed, Event};
pub use machine::Coordinator;
pub use waits::Waits;
pub use ways::in_turn::Contention;
