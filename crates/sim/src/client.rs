//! One simulated client process: a session, its transactions, and how far each has come in its program.
//!
//! This file decides what a transaction does next; `drive.rs` carries it out.

use std::collections::BTreeMap;

use claret_core::{AttemptId, CallNo, SessionId, ShardId, Time, TxHandle};
use claret_types::Reply;

use crate::clock::Clock;
use crate::desk::Desk;
use crate::run::RunId;
use crate::workload::Program;

/// How far a user has come with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Issues operations.
    Running,
    /// Asked for the end.
    Ending,
    /// Waits to run its program again.
    Between,
}

/// One transaction of a client.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) program: Program,
    /// The next step.
    pub(crate) at: usize,
    /// The last answer that the run heard.
    pub(crate) last: Reply,
    /// Runs so far.
    pub(crate) run: u32,
    pub(crate) stage: Stage,
    /// Where in the run's notes each call stands.
    pub(crate) places: BTreeMap<CallNo, usize>,
}

impl Transaction {
    pub(crate) fn new(program: Program) -> Self {
        let mut transaction = Transaction {
            program,
            at: 0,
            last: Reply::Nil,
            run: 0,
            stage: Stage::Running,
            places: BTreeMap::new(),
        };
        transaction.rewind();
        transaction
    }

    /// To the start of the program.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
        self.last = Reply::Nil;
        self.run += 1;
        self.stage = Stage::Running;
        self.places.clear();
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: SessionId,
    /// `None` once it has died.
    pub(crate) desk: Option<Desk>,
    pub(crate) clock: Clock,
    /// The number of its connection to each shard.
    pub(crate) connections: BTreeMap<ShardId, u32>,
    /// Transactions whose users do not know the end.
    pub(crate) transactions: BTreeMap<TxHandle, Transaction>,
    /// Transactions begun.
    pub(crate) begun: u64,
    /// Transactions still to begin.
    pub(crate) to_begin: u32,
    /// When the desk was last promised a timeout.
    pub(crate) timer: Option<Time>,
    /// When the last of what it sent arrives.
    pub(crate) last_arrival: Time,
}

impl Client {
    pub(crate) fn new(id: SessionId, desk: Desk, clock: Clock, to_begin: u32) -> Self {
        Client {
            id,
            desk: Some(desk),
            clock,
            connections: BTreeMap::new(),
            transactions: BTreeMap::new(),
            begun: 0,
            to_begin,
            timer: None,
            last_arrival: Time(0),
        }
    }

    /// The runs that speak to shards as this attempt.
    pub(crate) fn members(&self, attempt: AttemptId) -> Vec<RunId> {
        let Some(desk) = &self.desk else { return Vec::new() };
        let speaks = self.transactions.iter().filter(|(tx, _)| desk.attempt(**tx) == Some(attempt));
        speaks.map(|(tx, it)| RunId { session: self.id, tx: *tx, run: it.run }).collect()
    }

    /// Whether it has nothing left to do or to wait for.
    pub(crate) fn is_done(&self) -> bool {
        match &self.desk {
            Some(desk) => self.to_begin == 0 && self.transactions.is_empty() && desk.is_over(),
            None => true,
        }
    }
}
