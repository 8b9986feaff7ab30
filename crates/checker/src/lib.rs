//! Judges a store from outside: many clients work on a few hot keys and record what they saw; then judges look for results
//! that no serial order explains. The store's own word counts for nothing.
//!
//! A [`Plan`] says who works on what, a [`Target`] is the store; [`check`] runs the plan and answers with a [`Report`].
//!
//! # Histories
//!
//! A transaction has one to five operations on records of these kinds, with pauses between them; some are one-shot.
//!
//! | record | operations | judged |
//! |---|---|---|
//! | set | unique adds, with and without an answer; reads | order of all that saw and missed an element |
//! | counter | one bit each; reads | the same |
//! | list | appends of unique items, some answered by the length; reads | the same, the order of items, and their places |
//! | register | unique values, blind or as a swap; reads | the same, and lost updates |
//! | bounded counter | changes that may be refused; reads | between its bounds, the sum of what was acknowledged |
//! | generator | unique numbers | none comes twice |
//! | bank | transfers; totals | the total never changes |
//!
//! [`claret_sim::observed`] judges sets, counters, lists and registers together: every value is written once, so each
//! answer tells who came before, and a cycle is a violation. [`adya`], an independent checker of list-append histories,
//! judges the lists alone. The rest is judged by sums and real time (`sums.rs`). Anomalies planted into the finished
//! history test the judges (`planted.rs`).
//!
//! On a cluster several processes may take part, and some clients may use plain commands on the same keys.
//!
//! # Faults
//!
//! A run with faults consists of rounds, each with its own records. While the clients of a round work, faults strike; then
//! the clients stop, all locks must become free within the bound, every record is read, and the round is judged. So a long
//! run needs no more memory than a short one, and a lock that is left behind is noticed.
//!
//! What a fault means for the history:
//! - A killed process has recorded what it was about to do (`journal.rs`): that happened or not.
//! - A record that expires or is flushed **ends**: the history has a transaction that leaves nothing of it. An expiry lies
//!   between the call of `PEXPIRE` and its reply, plus the milliseconds it was given. A flush lies between its call and its
//!   reply, and ends each record of its node by itself (P36), not all at once. An end is *certain* if the command was
//!   acknowledged and nothing else that ends or moves the record was under way; otherwise it *may* have happened. A
//!   transaction that had voted comes before the end, and its writes are gone with the record; by the clock, the end comes
//!   before those transactions alone that reach the record afterwards.
//! - A transaction may be refused while there is a reason for it, a withdrawn right or no memory, and at no other time.

mod bank;
mod clients;
mod clock;
mod faults;
mod history;
mod intent;
mod journal;
mod plain;
mod planted;
mod processes;
mod report;
mod rounds;
mod sums;
mod target;
mod traffic;
mod verdict;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

pub use faults::Fault;
pub use history::Why;
pub use processes::{StartWorker, Worker};
pub use report::Report;
pub use rounds::{check, take_part};
pub use target::Target;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Clients over all processes, each with one transaction at a time; every eighth works at the bank.
    pub clients: u64,
    /// Clients beside them that use plain commands, over all processes.
    pub plain: u64,
    /// How many processes share them, this one included.
    pub processes: u64,
    /// Records in use at one time, a quarter of each kind that gives way to others.
    pub keys: u64,
    /// How long a record is in use.
    pub rotation: Duration,
    /// Whether clients pause between calls, up to a second.
    pub pauses: bool,
    /// For what the clients do, and what is done to them.
    pub seed: u64,
    /// Before every key; nobody else's begin like this.
    pub prefix: String,
    /// How long clients work. With faults a run may take longer: each strikes at least once.
    pub time: Duration,
    /// The faults that strike meanwhile; each needs a [`Target`] that was started for them.
    pub faults: Vec<Fault>,
    /// Where what was seen is written, a JSON document; of several rounds, the last one.
    pub history: Option<PathBuf>,
}

impl Plan {
    /// The part of a process, from 0.
    fn settings(&self, process: u64) -> Settings {
        Settings {
            clients: self.clients.div_ceil(self.processes) as usize,
            plain: self.plain.div_ceil(self.processes) as usize,
            until: 0,
            round: 0,
            keys: self.keys,
            rotation: self.rotation,
            pauses: self.pauses,
            process,
            processes: self.processes,
            seed: self.seed,
            prefix: self.prefix.clone(),
        }
    }
}

/// What the clients of one process do in one round.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Clients of this process, each one transaction at a time.
    clients: usize,
    /// Clients of this process that use plain commands.
    plain: usize,
    /// When the round ends, by the run's [`clock::Clock`].
    until: u64,
    /// The round, from 0.
    round: u64,
    /// As in the [`Plan`].
    keys: u64,
    /// As in the [`Plan`].
    rotation: Duration,
    /// As in the [`Plan`].
    pauses: bool,
    /// Which of the processes this is, from 0.
    process: u64,
    /// How many processes take part.
    processes: u64,
    /// As in the [`Plan`].
    seed: u64,
    /// As in the [`Plan`].
    prefix: String,
}

/// How far it has come, for those who watch.
#[derive(Debug, Default)]
pub struct Progress {
    /// Transactions of this process that ended.
    pub ended: AtomicU64,
    /// Clients are to stop; what they saw is judged all the same.
    pub stop: AtomicBool,
}
