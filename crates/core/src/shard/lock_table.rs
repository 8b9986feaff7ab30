//! The records of a shard and their abstract locks (P11 to P20).
//!
//! Each record has one lock, and only while somebody holds it or waits for it: an idle record has no lock memory. The lock decides
//! about each call: it is granted, it waits, or it fails ([`lock`]). The table finds records and their locks ([`records`]), executes
//! calls on them ([`executor`]), and keeps for its shard what came of that ([`outbox`]).
//!
//! Invariants stand at the parts; [`LockTable::check_invariants`] checks all of them.
//!
//! This file knows nothing of votes, leases or messages.

mod around;
mod counts;
mod executor;
mod footprint;
mod hot;
mod idle;
mod lock;
mod locking;
mod outbox;
mod questions;
mod records;
mod sleepers;
mod table;
mod top;

pub use hot::Waited;
pub(crate) use lock::ways::check_only::Look;
pub(crate) use lock::{Answer, Answers, Carried, Item, Pass, Stop};
pub(crate) use outbox::{Notice, Woken};
pub(crate) use records::RecordIx;
pub(crate) use table::LockTable;

use crate::ids::{AttemptId, Birth};
use crate::message::Members;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) attempt: AttemptId,
    pub(crate) birth: Birth,
    /// What its way to commit allows it.
    pub(crate) pass: Pass,
}

impl Owner {
    /// One that commits in two rounds.
    pub(crate) fn of(attempt: AttemptId, birth: Birth) -> Self {
        Owner { attempt, birth, pass: Pass::default() }
    }
}

/// How a holder leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate<'a> {
    Apply(&'a Members),
    Drop,
}
