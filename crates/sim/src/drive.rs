//! What clients do in the simulated world: they begin transactions, run their programs, hear events, say that
//! they live, and die.

use claret_core::message::{KeyedCall, Request};
use claret_core::{AttemptId, CallNo, Coordinator, Delivery, Event, SessionId, ShardId, TxId, key_hash};
use claret_types::{Bytes, Claims, Operation, Reply};

use crate::check::Violation;
use crate::client::Transaction;
use crate::happening::Happening;
use crate::random::{Random, Stream};
use crate::workload::{Action, Ending, Step};
use crate::world::World;

/// The longest pause before an attempt is run again, in microseconds.
const RERUN_US_MAX: u64 = 300;

/// Without phases nobody becomes the eldest, and only pauses that grow end a stampede (R2): so many times the
/// pause is doubled at most.
const RERUN_DOUBLINGS_MAX: u32 = 9;

/// A dead client may be followed by a new one with so many transactions at most.
const SUCCESSOR_TRANSACTIONS_MAX: u64 = 10;

impl World {
    /// Carries out what happens at a client.
    pub(crate) fn step_client(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Response { from, session, response } => {
                let tx = response.attempt().tx;
                debug_assert_eq!(tx.session, session);
                let now = self.now;
                let Some(transaction) = self.transaction(tx) else { return Ok(()) };
                transaction.coordinator.handle_response(now, from, response);
                self.pump(tx)
            }
            Happening::CoordinatorTimer(tx, due) => {
                let now = self.now;
                // If it has asked for another time since, that one counts.
                let Some(transaction) = self.transaction(tx).filter(|it| it.timer == Some(due)) else {
                    return Ok(());
                };
                transaction.timer = None;
                transaction.coordinator.handle_timeout(now);
                self.pump(tx)
            }
            Happening::Begin(session) => self.begin(session),
            Happening::Continue(attempt) => self.go_on(attempt),
            Happening::TakeBack(attempt) => {
                let now = self.now;
                let Some(transaction) = self.running(attempt) else { return Ok(()) };
                transaction.coordinator.abort(now);
                self.pump(attempt.tx)
            }
            Happening::Rerun(attempt) => {
                let Some(transaction) = self.running(attempt) else { return Ok(()) };
                transaction.rewind();
                let next = transaction.coordinator.attempt();
                self.go_on(next)
            }
            Happening::Heartbeat(session) => {
                self.heartbeat(session);
                Ok(())
            }
            Happening::Reconnect(session, shard) => {
                self.reconnect(session, shard);
                Ok(())
            }
            Happening::Request { .. }
            | Happening::Peer { .. }
            | Happening::ShardTimer(..)
            | Happening::Cut(..)
            | Happening::Pause(..) => unreachable!("not a client's step"),
        }
    }

    /// A transaction that is not over, of a client that lives.
    fn transaction(&mut self, tx: TxId) -> Option<&mut Transaction> {
        self.clients.get_mut(&tx.session)?.transactions.get_mut(&tx.sequence)
    }

    /// The same, if this is the attempt it is at and its user was not told the end.
    fn running(&mut self, attempt: AttemptId) -> Option<&mut Transaction> {
        self.transaction(attempt.tx).filter(|it| it.coordinator.attempt() == attempt && !it.told)
    }

    // --- programs ---

    fn begin(&mut self, session: SessionId) -> Result<(), Violation> {
        let (now, config) = (self.now, &self.config);
        let Some(client) = self.clients.get_mut(&session).filter(|it| it.alive && it.to_begin > 0) else {
            return Ok(());
        };
        client.to_begin -= 1;
        let birth = client.session.begin(now);
        let sequence = birth.tx.sequence;
        let stream = Stream::Program { session: session.0, sequence: sequence.0 };
        let mut random = Random::new(self.seed, stream);
        let program = self.workload.program(&config.programs, &mut random);
        let coordinator = Coordinator::new(birth, config.switches, config.limits, random.number());
        let coordinator = self.plant.in_coordinator(coordinator);
        let attempt = coordinator.attempt();
        client.transactions.insert(sequence, Transaction::new(coordinator, program));
        self.go_on(attempt)
    }

    /// Takes the steps of a program up to the next one that waits for something.
    fn go_on(&mut self, attempt: AttemptId) -> Result<(), Violation> {
        let now = self.now;
        loop {
            let Some(transaction) = self.running(attempt) else { return Ok(()) };
            if !transaction.coordinator.is_running() || transaction.coordinator.awaits_answers() {
                return Ok(());
            }
            let step = transaction.program.steps.get(transaction.at).cloned();
            transaction.at += 1;
            match step {
                Some(Step::Buffer(action)) => self.buffer(attempt.tx, &action),
                Some(Step::Execute(actions)) => {
                    actions.iter().for_each(|action| self.execute(attempt.tx, action));
                    self.pump(attempt.tx)?;
                }
                Some(Step::Think(micros)) => {
                    self.schedule(now.plus(micros), Happening::Continue(attempt));
                    return Ok(());
                }
                None => return self.end(attempt),
            }
        }
    }

    fn buffer(&mut self, tx: TxId, action: &Action) {
        let shard = self.shard_of(&action.key);
        let Some(transaction) = self.transaction(tx) else { return };
        let op = action.operation(&transaction.last);
        transaction.coordinator.buffer(shard, action.key.clone(), op);
    }

    fn execute(&mut self, tx: TxId, action: &Action) {
        let (now, shard, locks) = (self.now, self.shard_of(&action.key), self.config.switches.locks);
        let Some(transaction) = self.transaction(tx) else { return };
        let op = action.operation(&transaction.last);
        let reserve = action.reserve.as_ref().map(|op| reserved(op, locks));
        if op.returns() {
            transaction.coordinator.execute(now, shard, action.key.clone(), op, reserve);
        } else {
            transaction.coordinator.buffer(shard, action.key.clone(), op);
        }
    }

    fn end(&mut self, attempt: AttemptId) -> Result<(), Violation> {
        let now = self.now;
        let Some(transaction) = self.running(attempt) else { return Ok(()) };
        match transaction.program.ending {
            Ending::Abort => transaction.coordinator.abort(now),
            Ending::Commit => {
                if self.config.switches.delivery == Delivery::Direct && self.finish_instantly(attempt)? {
                    return Ok(());
                }
                self.commit(attempt.tx);
            }
            Ending::CommitThenAbort(micros) => {
                self.commit(attempt.tx);
                self.schedule(now.plus(micros), Happening::TakeBack(attempt));
            }
        }
        self.pump(attempt.tx)
    }

    fn commit(&mut self, tx: TxId) {
        let now = self.now;
        if let Some(transaction) = self.transaction(tx) {
            transaction.coordinator.commit(now);
        }
    }

    /// Carries a transaction out on all its shards at once, as a host that can stop them does. Returns whether
    /// it is over.
    fn finish_instantly(&mut self, attempt: AttemptId) -> Result<bool, Violation> {
        let Some(transaction) = self.running(attempt) else { return Ok(false) };
        let Some(calls) = transaction.coordinator.take_buffered() else { return Ok(false) };
        let done = self.run_instantly(&calls);
        let Some(transaction) = self.running(attempt) else { return Ok(false) };
        let Some(done) = done else {
            transaction.coordinator.put_back(calls);
            return Ok(false);
        };
        transaction.coordinator.close_instantly();
        self.ledger.note_instant(attempt, done);
        self.leave(attempt.tx);
        self.close_if_over(attempt.tx);
        Ok(true)
    }

    fn run_instantly(
        &mut self,
        calls: &[(ShardId, KeyedCall)],
    ) -> Option<Vec<(CallNo, Bytes, Operation, Reply)>> {
        let mut done = Vec::new();
        for (shard, KeyedCall { key, call }) in calls {
            match self.shard(*shard).instant(key_hash(key), key, &call.op) {
                Ok(Some(reply)) => done.push((call.no, key.clone(), call.op.clone(), reply)),
                Ok(None) | Err(_) => break,
            }
        }
        let all = done.len() == calls.len();
        for number in 0..self.config.shards {
            let shard = self.shard(ShardId(number));
            if all {
                shard.finish_instant()
            } else {
                shard.undo_instant()
            }
            shard.check_invariants();
        }
        all.then_some(done)
    }

    // --- what comes of it ---

    /// Sends what a coordinator has to send, hears what it has to say.
    fn pump(&mut self, tx: TxId) -> Result<(), Violation> {
        loop {
            let Some(transaction) = self.transaction(tx) else { return Ok(()) };
            if let Some((to, request)) = transaction.coordinator.poll_send() {
                if !self.send_request(tx.session, to, request) {
                    return Ok(());
                }
                continue;
            }
            let attempt = transaction.coordinator.attempt();
            let Some(event) = transaction.coordinator.poll_event() else { break };
            self.hear(attempt, event)?;
        }
        self.promise_timeout(tx);
        self.close_if_over(tx);
        Ok(())
    }

    fn hear(&mut self, attempt: AttemptId, event: Event) -> Result<(), Violation> {
        let now = self.now;
        let doublings =
            if self.config.switches.phasing { 0 } else { attempt.attempt.min(RERUN_DOUBLINGS_MAX) };
        let after = now.plus(self.random.below(RERUN_US_MAX << doublings));
        match event {
            Event::Answer { no, reply } => {
                self.ledger.told_answer(attempt, no, &reply)?;
                let Some(transaction) = self.running(attempt) else { return Ok(()) };
                transaction.last = reply;
                if !transaction.coordinator.awaits_answers() {
                    self.schedule(now, Happening::Continue(attempt));
                }
            }
            Event::Committed { replies } => {
                self.ledger.told_committed(attempt, &replies)?;
                self.leave(attempt.tx);
            }
            Event::Restart { .. } => {
                self.ledger.told_over(attempt)?;
                self.outcome.restarts += 1;
                self.schedule(after, Happening::Rerun(attempt));
            }
            Event::Aborted => {
                self.ledger.told_over(attempt)?;
                self.outcome.aborted += 1;
                self.leave(attempt.tx);
            }
            Event::Failed { .. } => {
                self.ledger.told_over(attempt)?;
                self.outcome.failed += 1;
                self.leave(attempt.tx);
            }
        }
        Ok(())
    }

    /// The user knows the end; its worker begins the next transaction.
    fn leave(&mut self, tx: TxId) {
        let at = self.now.plus(self.random.below(self.config.programs.think_us_max + 1));
        if let Some(transaction) = self.transaction(tx) {
            transaction.told = true;
            self.schedule(at, Happening::Begin(tx.session));
        }
    }

    fn close_if_over(&mut self, tx: TxId) {
        let Some(client) = self.clients.get_mut(&tx.session) else { return };
        let over =
            client.transactions.get(&tx.sequence).is_some_and(|it| it.told && it.coordinator.is_over());
        if over {
            client.transactions.remove(&tx.sequence);
            client.session.end(tx);
        }
    }

    fn promise_timeout(&mut self, tx: TxId) {
        let Some(transaction) = self.transaction(tx) else { return };
        let due = transaction.coordinator.poll_timeout();
        if due != transaction.timer {
            transaction.timer = due;
            if let Some(due) = due {
                self.schedule(due, Happening::CoordinatorTimer(tx, due));
            }
        }
    }

    // --- sessions ---

    fn heartbeat(&mut self, session: SessionId) {
        if !self.clients[&session].alive {
            return;
        }
        for number in 0..self.config.shards {
            if !self.send_heartbeat(session, ShardId(number)) {
                return;
            }
        }
        self.schedule(self.now.plus(self.config.heartbeat_us), Happening::Heartbeat(session));
    }

    fn send_heartbeat(&mut self, session: SessionId, to: ShardId) -> bool {
        let client = &self.clients[&session];
        let request = Request::Heartbeat { live: client.live(), floor: client.session.floor() };
        self.send_request(session, to, request)
    }

    /// A new connection, over which the session says at once what lives.
    fn reconnect(&mut self, session: SessionId, to: ShardId) {
        let Some(client) = self.clients.get_mut(&session).filter(|it| it.alive) else { return };
        *client.connections.entry(to).or_insert(0) += 1;
        self.outcome.faults += 1;
        self.send_heartbeat(session, to);
    }

    /// A client process ends in the middle of what it was doing. Another may take its place.
    pub(crate) fn kill(&mut self, session: SessionId) {
        let Some(client) = self.clients.get_mut(&session) else { return };
        client.alive = false;
        client.transactions.clear();
        self.outcome.faults += 1;
        self.trace.note(self.now, &[50, session.0], || format!("c{}: dies", session.0));
        if self.random.chance(500) {
            let successor = SessionId(self.clients.len() as u64);
            let transactions = self.random.between(1, SUCCESSOR_TRANSACTIONS_MAX) as u32;
            self.add_client(successor, transactions);
        }
    }
}

/// What [`Action::reserve`] asks for.
fn reserved(op: &Operation, locks: claret_core::Locks) -> Claims {
    match locks {
        claret_core::Locks::ReaderWriter => op.reader_writer(),
        claret_core::Locks::Abstract => op.footprint(),
    }
}
