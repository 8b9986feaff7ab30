//! One simulated client process: a session, its transactions, and how far each has come in its program.
//!
//! This file decides what a transaction does next; `world.rs` carries it out.

use std::collections::BTreeMap;

use claret_core::{AttemptId, Coordinator, Sequence, Session, ShardId, Time};
use claret_types::Reply;

use crate::workload::Program;

/// One transaction of a client.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) coordinator: Coordinator,
    pub(crate) program: Program,
    /// The next step.
    pub(crate) at: usize,
    /// The last answer that the attempt heard.
    pub(crate) last: Reply,
    /// When the coordinator was last promised a timeout.
    pub(crate) timer: Option<Time>,
    /// Whether its user knows the end of it.
    pub(crate) told: bool,
}

impl Transaction {
    pub(crate) fn new(coordinator: Coordinator, program: Program) -> Self {
        Transaction { coordinator, program, at: 0, last: Reply::Nil, timer: None, told: false }
    }

    /// Back to the start of the program, for the next attempt.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
        self.last = Reply::Nil;
        self.coordinator.restart();
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) alive: bool,
    /// The number of its connection to each shard.
    pub(crate) connections: BTreeMap<ShardId, u32>,
    pub(crate) transactions: BTreeMap<Sequence, Transaction>,
    /// Transactions still to begin.
    pub(crate) to_begin: u32,
}

impl Client {
    pub(crate) fn new(session: Session, to_begin: u32) -> Self {
        Client { session, alive: true, connections: BTreeMap::new(), transactions: BTreeMap::new(), to_begin }
    }

    /// Attempts that shards should keep alive.
    pub(crate) fn live(&self) -> Vec<AttemptId> {
        self.transactions.values().flat_map(|it| it.coordinator.live()).collect()
    }

    /// Whether it has nothing left to do or to wait for.
    pub(crate) fn is_done(&self) -> bool {
        !self.alive || self.to_begin == 0 && self.transactions.is_empty()
    }
}
