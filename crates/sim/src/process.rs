//! One simulated client process: its state machine (the one that ships), its connections, its transactions, and how
//! far each has come in its program.
//!
//! This file has the state; `drive.rs` runs programs, `connections.rs` carries frames.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use claret_core::{
    AttemptId, CallNo, Client, LookNo, Observations, Pipeline, Place, SessionId, ShardId, Time, TxHandle,
};
use claret_types::{Bytes, Reply};

use crate::check::{Ledger, Violation};
use crate::clock::Clock;
use crate::model;
use crate::nesting::Nesting;
use crate::run::RunId;
use crate::seat::Seat;
use crate::workload::Program;

/// How far a user has come with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
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
    pub(crate) stage: Progress,
    /// Where in the run's notes each call stands.
    pub(crate) places: BTreeMap<CallNo, usize>,
    /// Whether it has asked in this run whom it waits for.
    pub(crate) has_asked: bool,
    /// It looks without locks.
    pub(crate) looking: Option<Looking>,
    pub(crate) nesting: Nesting,
    /// The client of a scenario that it is of.
    pub(crate) seat: Option<Seat>,
}

/// What an optimistic transaction has seen, and where in the run's notes that stands.
#[derive(Debug, Default)]
pub(crate) struct Looking {
    pub(crate) observations: Observations,
    /// Where each call of the observations stands, there and in the notes.
    pub(crate) log: Vec<(Bytes, usize, Place)>,
    /// The same of looks that have no answer.
    pub(crate) awaited: BTreeMap<CallNo, usize>,
    /// Some of what is committed is only checked.
    pub(crate) checks_some: bool,
    /// Calls at shards that are only checked against what was seen.
    pub(crate) known: BTreeSet<CallNo>,
    /// It is to end without effect, once what it saw was checked.
    pub(crate) only_checks: bool,
}

impl Looking {
    /// To the start of the program.
    fn rewind(&mut self) {
        self.observations.begin_again();
        let observations = std::mem::take(&mut self.observations);
        *self = Looking { observations, ..Looking::default() };
    }
}

impl Transaction {
    pub(crate) fn new(program: Program) -> Self {
        let mut transaction = Transaction {
            program,
            at: 0,
            last: Reply::Nil,
            run: 0,
            stage: Progress::Running,
            places: BTreeMap::new(),
            has_asked: false,
            looking: None,
            nesting: Nesting::default(),
            seat: None,
        };
        transaction.rewind();
        transaction
    }

    /// To the start of the program.
    pub(crate) fn rewind(&mut self) {
        self.rewind_stages();
        self.at = 0;
        self.last = Reply::Nil;
        self.run += 1;
        self.stage = Progress::Running;
        self.places.clear();
        self.has_asked = false;
        self.nesting = Nesting::of(&self.program);
        self.looking.iter_mut().for_each(Looking::rewind);
    }

    /// Its client, if it is of a scenario, begins again, whose stages are not known yet.
    fn rewind_stages(&mut self) {
        if let Some(seat) = &mut self.seat {
            self.program.steps.clear();
            seat.begin_again();
        }
    }

    /// A call is answered, or cannot be done.
    pub(crate) fn hear_answer(
        &mut self,
        ledger: &mut Ledger,
        run: RunId,
        no: CallNo,
        reply: Reply,
    ) -> Result<(), Violation> {
        let at = self.places[&no];
        if let Reply::Failed(_) = reply {
            let counts = ledger.note_failing(run, at)?;
            self.nesting.fails.extend(counts.then_some(at));
            return Ok(());
        }
        ledger.note_heard(run, at, &reply)?;
        self.last = reply;
        Ok(())
    }
}

/// A connection to a shard, as the process sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) pipeline: Pipeline,
    /// It is to look what there is to write.
    pub(crate) is_woken: bool,
}

/// See the module's text.
pub(crate) struct Process {
    pub(crate) id: SessionId,
    /// `None` once it has died.
    pub(crate) client: Option<Client>,
    pub(crate) clock: Clock,
    /// Those that were made and are not known to be broken, by their numbers.
    pub(crate) connections: BTreeMap<(ShardId, u32), Connection>,
    /// Connections begun.
    pub(crate) dialled: u32,
    /// It asked for the topology and has no answer.
    pub(crate) asks_topology: bool,
    /// Transactions whose users do not know the end.
    pub(crate) transactions: BTreeMap<TxHandle, Transaction>,
    /// Looks that have no answer: whose, in which run, and as what.
    pub(crate) looks: BTreeMap<LookNo, (RunId, CallNo)>,
    /// Transactions whose users left, and in which run.
    pub(crate) abandoned: BTreeMap<TxHandle, u32>,
    /// Transactions begun.
    pub(crate) begun: u64,
    /// Transactions still to begin.
    pub(crate) to_begin: u32,
    /// When the client was last promised a timeout.
    pub(crate) timer: Option<Time>,
    /// When the last of what it sent arrives.
    pub(crate) last_arrival: Time,
    /// It has nothing left to do, and said so to all shards.
    pub(crate) is_closed: bool,
    /// Clients of a scenario who have no transaction.
    pub(crate) idle: Vec<Box<dyn model::Client>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Process");
        all.field("id", &self.id).field("transactions", &self.transactions).field("begun", &self.begun);
        all.finish_non_exhaustive()
    }
}

impl Process {
    pub(crate) fn new(id: SessionId, client: Client, clock: Clock, to_begin: u32) -> Self {
        Process {
            id,
            client: Some(client),
            clock,
            connections: BTreeMap::new(),
            dialled: 0,
            asks_topology: false,
            transactions: BTreeMap::new(),
            looks: BTreeMap::new(),
            abandoned: BTreeMap::new(),
            begun: 0,
            to_begin,
            timer: None,
            last_arrival: Time(0),
            is_closed: false,
            idle: Vec::new(),
        }
    }

    /// The connection to a shard that was made last.
    pub(crate) fn connection_to(&self, shard: ShardId) -> Option<u32> {
        let numbers = self.connections.range((shard, 0)..=(shard, u32::MAX));
        numbers.last().map(|((_, number), _)| *number)
    }

    /// The runs that speak to shards as this attempt, in the order of their beginnings: that of their calls in a batch, whoever's
    /// user has left meanwhile.
    pub(crate) fn members(&self, attempt: AttemptId) -> Vec<RunId> {
        let Some(client) = &self.client else { return Vec::new() };
        let known = self.transactions.iter().map(|(tx, it)| (*tx, it.run));
        let all = known.chain(self.abandoned.iter().map(|(tx, run)| (*tx, *run)));
        let speaks = all.filter(|(tx, _)| client.attempt(*tx) == Some(attempt));
        let mut members: Vec<RunId> = speaks.map(|(tx, run)| RunId { session: self.id, tx, run }).collect();
        members.sort_unstable_by_key(|member| member.tx);
        members
    }

    /// Whether calls of an attempt are not answered.
    pub(crate) fn awaits_answers(&self, attempt: AttemptId) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|client| self.members(attempt).iter().any(|run| client.awaits_answers(run.tx)))
    }

    /// Whether it has nothing left to do or to wait for.
    pub(crate) fn is_done(&self) -> bool {
        match &self.client {
            Some(client) => self.to_begin == 0 && self.transactions.is_empty() && client.is_over(),
            None => true,
        }
    }
}
