//! What client processes do in the simulated world: they begin transactions, run their programs, hear events, ask
//! about dead processes, and die.

mod ways;

use std::collections::BTreeSet;

use claret_core::message::{KeyedCall, Refusal, Request, Response};
use claret_core::{Asked, AttemptId, CallNo, Client, Event, SessionId, ShardId, Time, TxHandle, key_hash};
use claret_types::{Claims, Reply};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::process::{Looking, Process, Progress, Transaction};
use crate::random::Stream;
use crate::run::RunId;
use crate::workload::{Action, Ending, Program, RollBack, Step};
use crate::world::World;

/// The longest pause before an attempt is run again, in microseconds.
const RERUN_US_MAX: u64 = 300;

/// Without phases nobody becomes the eldest, and only pauses that grow end a stampede (P68): so many times the
/// pause is doubled at most.
const RERUN_DOUBLINGS_MAX: u32 = 9;

/// After each so many runs the longest pause doubles: what is refused at once while somebody pauses would be run thousands of
/// times.
const RUNS_A_DOUBLING: u32 = 50;

/// A dead client may be followed by a new one with so many transactions at most.
const SUCCESSOR_TRANSACTIONS_MAX: u64 = 10;

/// In one of so many seeds clients ask whom they wait for: these messages make others come later.
const ASKING_SEEDS: u64 = 8;

impl World {
    /// Carries out what happens at a process.
    pub(crate) fn step_process(&mut self, event: SimEvent) -> Result<(), Violation> {
        match event {
            // An answer to one who asked about another's transaction is for nobody's coordinator.
            SimEvent::Response { from, session, response: Response::Asked { attempt, status, since } }
            | SimEvent::Push {
                from, session, response: Response::Asked { attempt, status, since }, ..
            } if attempt.tx.session != session => self.ledger.told_asked(from, attempt, &status, since),
            SimEvent::Response { from, session, mut response } => {
                let now = self.local(session);
                let Some(from) = self.faults.tamper.hear(from, &mut response) else { return Ok(()) };
                let Some(client) = self.client(session) else { return Ok(()) };
                client.handle_response(now, from, response);
                self.pump(session)
            }
            SimEvent::ClientTimer(session, due) => {
                let now = self.local(session);
                let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
                // If it has asked for another time since, that one counts.
                if process.timer != Some(due) {
                    return Ok(());
                }
                process.timer = None;
                let Some(client) = &mut process.client else { return Ok(()) };
                client.handle_timeout(now);
                // Once a run, as if its deadline had passed: the answer changes nothing (P72).
                let ask = |it: &Transaction| self.draws.seed % ASKING_SEEDS == 1 && !it.has_asked;
                for (tx, transaction) in process.transactions.iter_mut().filter(|(_, it)| ask(it)) {
                    transaction.has_asked = client.ask_behind(now, *tx);
                }
                self.pump(session)
            }
            of_user => self.step_user(of_user),
        }
    }

    /// Carries out what happens at a user.
    fn step_user(&mut self, event: SimEvent) -> Result<(), Violation> {
        match event {
            SimEvent::Begin(session) => self.begin(session),
            SimEvent::Continue(run) => self.go_on(run),
            SimEvent::TakeBack(run) => {
                let now = self.local(run.session);
                if self.running(run).is_none_or(|it| it.stage != Progress::Ending) {
                    return Ok(());
                }
                if let Some(client) = self.client(run.session) {
                    client.abort(now, run.tx);
                }
                self.pump(run.session)
            }
            SimEvent::Abandon(session, tx) => self.abandon(session, tx),
            SimEvent::Rerun(run) => self.rerun(run),
            SimEvent::Stale(run, left) => self.go_on_though_over(run, left),
            SimEvent::Ask(session, shard, attempt) => {
                if self.client(session).is_some() {
                    self.ask(session, shard, attempt);
                }
                Ok(())
            }
            of_connection => self.step_connection(of_connection),
        }
    }
}

/// Programs.
impl World {
    fn begin(&mut self, session: SessionId) -> Result<(), Violation> {
        let now = self.local(session);
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        let Some(client) = process.client.as_mut().filter(|_| process.to_begin > 0) else { return Ok(()) };
        process.to_begin -= 1;
        process.begun += 1;
        let place = session.0 << 32 | process.begun;
        let stream = Stream::Program { session: session.0, sequence: process.begun };
        let mut random = self.draws.stream(stream);
        let mut program = match self.stageplay.scenario {
            Some(_) => Program::default(),
            None => self.workload.program(&self.config.programs, &mut random),
        };
        let stream = Stream::Savepoints { session: session.0, sequence: process.begun };
        let mut savepoints = self.draws.stream(stream);
        let is_nested = savepoints.chance(self.config.programs.savepoints_permille);
        if is_nested {
            program.nest(&mut savepoints);
        } else if self.config.programs.demands_permille > 0 {
            // Within a savepoint nothing is demanded: what fails there is an answer.
            let stream = Stream::Demands { session: session.0, sequence: process.begun };
            program.demand(self.config.programs.demands_permille, &mut self.draws.stream(stream));
        }
        let is_left_out = self.config.skip.contains(&place);
        if is_left_out {
            program.steps.clear();
        }
        let tx = client.begin(now, random.number());
        let mut transaction = Transaction::new(program);
        transaction.looking = random.chance(self.config.programs.optimistic_permille).then(Looking::default);
        if self.config.commands_permille > 0 && !is_nested && transaction.looking.is_none() {
            let stream = Stream::Commands { session: session.0, sequence: process.begun };
            transaction.program.run_commands(self.config.commands_permille, &mut self.draws.stream(stream));
        }
        let gives_up = self
            .may_sleep(&transaction, is_nested)
            .then(|| self.fall_asleep(session, &mut transaction))
            .flatten();
        transaction.seat = if is_left_out { None } else { self.take_seat(session, &mut random) };
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        process.transactions.insert(tx, transaction);
        let run = RunId { session, tx, run: 1 };
        if self.draws.stale.chance(self.config.programs.abandon_permille) {
            let most = *self.draws.stale.pick(&[1, 1_000, 20_000]);
            let at = self.now.plus(self.draws.stale.below(most));
            self.schedule(at, SimEvent::Abandon(session, tx));
        }
        if let Some(at) = gives_up {
            self.schedule(at, SimEvent::Abandon(session, tx));
        }
        self.ledger.note_begin(run, self.now);
        self.go_on(run)
    }

    fn rerun(&mut self, run: RunId) -> Result<(), Violation> {
        let now = self.local(run.session);
        let Some(transaction) = self.running(run).filter(|it| it.stage == Progress::Between) else {
            return Ok(());
        };
        transaction.rewind();
        let next = RunId { run: transaction.run, ..run };
        if let Some(client) = self.client(run.session) {
            client.restart(now, (run.tx, run.run)).map_err(|_| format!("{run:?}: may not run again"))?;
        }
        self.ledger.note_begin(next, self.now);
        self.go_on(next)
    }

    /// Takes the steps of a program up to the next one that waits for something.
    fn go_on(&mut self, run: RunId) -> Result<(), Violation> {
        loop {
            let waits = self.waits(run);
            if waits && !self.is_hasty(run) {
                return Ok(());
            }
            let Some(transaction) = self.running(run).filter(|it| it.stage == Progress::Running) else {
                return Ok(());
            };
            if !waits && !transaction.nesting.fails.is_empty() {
                self.give_in(run)?;
                continue;
            }
            let step = transaction.program.steps.get(transaction.at).cloned();
            let place = (transaction.at as u64) << 8;
            transaction.at += 1;
            match step {
                Some(Step::Buffer(action)) => self.issue(run, &action, place, false),
                Some(Step::Execute(actions)) => {
                    for (number, action) in actions.iter().enumerate() {
                        self.issue(run, action, place | number as u64, true);
                    }
                }
                Some(Step::Think(micros)) => {
                    self.schedule(self.now.plus(micros), SimEvent::Continue(run));
                    return Ok(());
                }
                Some(Step::Pause(micros)) => {
                    let micros = if run.run == 1 { micros } else { 0 };
                    self.schedule(self.now.plus(micros), SimEvent::Continue(run));
                    return Ok(());
                }
                Some(Step::Savepoint) => self.set_savepoint(run),
                Some(Step::RollBack(RollBack { to, keeps, .. })) => self.roll_back(run, to, keeps),
                Some(Step::Release(to)) => self.release(run, to),
                Some(Step::Settle) => self.settle_buffered(run),
                None if self.add_stage(run) => {}
                None => return self.end(run),
            }
            self.pump(run.session)?;
        }
    }

    /// Whether calls of a run are not answered, or its looks.
    fn waits(&mut self, run: RunId) -> bool {
        let waits = self.client(run.session).is_none_or(|client| client.awaits_answers(run.tx));
        let looks = |it: &mut Transaction| it.looking.as_ref().is_some_and(|it| !it.awaited.is_empty());
        waits || self.running(run).is_some_and(looks)
    }

    /// Issues an operation: at once if it is to be executed and its answer is wanted, otherwise with the commit.
    fn issue(&mut self, run: RunId, action: &Action, place: u64, at_once: bool) {
        let (now, slot) = (self.local(run.session), self.cluster.slots.of(&action.key));
        let reader_writer = self.config.reader_writer;
        let Some(transaction) = self.running(run).filter(|it| it.stage == Progress::Running) else { return };
        let (mut op, probe) = action.operation(&transaction.last, run, place);
        op.resolve(|| now.0 / 1000);
        let at = self.ledger.note_issued(run, &action.key, &op, probe);
        let is_plain = action.reserve.is_none();
        let Some(op) = self.look(run, (&action.key, slot), op, at, (at_once, is_plain)) else { return };
        let Some(client) = self.client(run.session) else { return };
        let to = (slot, action.key.clone());
        let no = if at_once && op.returns() {
            let claims = |op: &claret_types::Operation| -> Claims {
                if reader_writer { op.reader_writer() } else { op.footprint() }
            };
            client.execute(now, (run.tx, run.run), to, op, action.reserve.as_ref().map(claims))
        } else {
            client.buffer(now, (run.tx, run.run), to, op)
        };
        if let Ok(no) = no
            && let Some(transaction) = self.running(run)
        {
            transaction.places.insert(no, at);
            transaction.nesting.note_call(no);
        }
    }

    pub(crate) fn end(&mut self, run: RunId) -> Result<(), Violation> {
        let (now, world_now) = (self.local(run.session), self.now);
        let direct = self.config.direct;
        let Some(transaction) = self.running(run) else { return Ok(()) };
        transaction.stage = Progress::Ending;
        let ending = transaction.program.ending;
        if self.gather_seen(run, ending) {
            if let Some(client) = self.client(run.session) {
                let _ = client.check(now, (run.tx, run.run));
            }
            return self.pump(run.session);
        }
        let checks_some =
            self.running(run).is_some_and(|it| it.looking.as_ref().is_some_and(|it| it.checks_some));
        if direct && !checks_some && ending == Ending::Commit && self.finish_instantly(run)? {
            return Ok(());
        }
        let Some(client) = self.client(run.session) else { return Ok(()) };
        match ending {
            Ending::Abort => client.abort(now, run.tx),
            // Where the attempt is over, an event tells of that.
            Ending::Commit => {
                let _ = client.commit(now, (run.tx, run.run));
            }
            Ending::CommitThenAbort(micros) => {
                let _ = client.commit(now, (run.tx, run.run));
                self.schedule(world_now.plus(micros), SimEvent::TakeBack(run));
            }
        }
        self.pump(run.session)
    }

    /// Carries a transaction out on all its shards at once, as a host that can stop them does. Returns whether
    /// it is over.
    fn finish_instantly(&mut self, run: RunId) -> Result<bool, Violation> {
        let Some(client) = self.client(run.session) else { return Ok(false) };
        let Some(calls) = client.take_buffered((run.tx, run.run)) else { return Ok(false) };
        let attempt = client.attempt(run.tx).expect("it runs");
        let shards = shards_of(&calls);
        let done = self.run_instantly(&calls);
        let Some(client) = self.client(run.session) else { return Ok(false) };
        let Some(done) = done else {
            client.put_back((run.tx, run.run), calls).map_err(|_| format!("{run:?}: is over"))?;
            return Ok(false);
        };
        client.close_instantly((run.tx, run.run)).map_err(|_| format!("{run:?}: is over"))?;
        self.ledger.note_instant(run, attempt, shards, self.now);
        let woken: Vec<ShardId> =
            shards_of(&calls).into_iter().filter(|shard| self.cluster.shard(*shard).has_output()).collect();
        self.hear(run.session, run.tx, Event::Committed { replies: done })?;
        self.pump(run.session)?;
        woken.into_iter().try_for_each(|shard| self.drain_shard(shard))?;
        Ok(true)
    }

    fn run_instantly(&mut self, calls: &[(ShardId, KeyedCall)]) -> Option<Vec<(CallNo, Reply)>> {
        let now = self.now;
        let mut done = Vec::new();
        for (shard, KeyedCall { key, call }) in calls {
            match self.shard(*shard).instant(key_hash(key), key, &call.op) {
                Ok(Some(reply)) => done.push((call.no, reply)),
                Ok(None) | Err(_) => break,
            }
        }
        let all = done.len() == calls.len();
        for number in 0..self.config.shards {
            let shard = self.shard(ShardId(number));
            if all {
                shard.finish_instant();
                if shard.has_stirred() {
                    shard.stirred(now, []);
                }
            } else {
                shard.undo_instant()
            }
            shard.check_invariants();
        }
        all.then_some(done)
    }
}

/// What comes of it.
impl World {
    /// Sends what a process has to send, hears what its transactions are told.
    pub(crate) fn pump(&mut self, session: SessionId) -> Result<(), Violation> {
        loop {
            let now = self.local(session);
            let Some(client) = self.client(session) else { return Ok(()) };
            client.settle(now);
            if let Some((to, request)) = client.poll_send() {
                if !self.call_shard(session, to, request) {
                    return Ok(());
                }
                continue;
            }
            if let Some((tx, event)) = client.poll_event() {
                self.hear(session, tx, event)?;
                continue;
            }
            if let Some((look, seen)) = client.poll_looked() {
                self.see(session, look, seen)?;
                continue;
            }
            if let Some(number) = client.poll_ready() {
                self.wake(session, number);
                continue;
            }
            if client.take_doubt() {
                self.ask_topology(session);
            }
            break;
        }
        self.close_if_done(session);
        self.promise_timeout(session);
        Ok(())
    }

    /// A process that has nothing left to do says so to all shards.
    fn close_if_done(&mut self, session: SessionId) {
        let now = self.local(session);
        let Some(process) = self.processes.get_mut(&session) else { return };
        if self.config.direct || process.is_closed || !process.is_done() {
            return;
        }
        process.is_closed = true;
        let Some(client) = &mut process.client else { return };
        client.close(now);
        while let Some(number) = self.client(session).and_then(Client::poll_ready) {
            self.wake(session, number);
        }
    }

    /// A user leaves: nobody hears what becomes of the transaction.
    fn abandon(&mut self, session: SessionId, tx: TxHandle) -> Result<(), Violation> {
        let now = self.local(session);
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        let Some(client) = &mut process.client else { return Ok(()) };
        let Some(transaction) = process.transactions.remove(&tx) else { return Ok(()) };
        process.abandoned.insert(tx, transaction.run);
        client.abandon(now, tx);
        let run = RunId { session, tx, run: transaction.run };
        let left = process.looks.extract_if(.., |_, (run, _)| run.tx == tx);
        left.for_each(|(look, _)| client.leave_look(look));
        self.leave_seat(run, transaction);
        self.outcome.abandoned += 1;
        self.schedule(self.now.plus(1), SimEvent::Begin(session));
        self.pump(session)
    }

    fn hear(&mut self, session: SessionId, tx: TxHandle, event: Event) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        if process.abandoned.contains_key(&tx) {
            return Ok(());
        }
        let Some(transaction) = process.transactions.get_mut(&tx) else {
            return Err(format!("c{}.t{}: its user heard the end and now {event:?}", session.0, tx.0));
        };
        let run = RunId { session, tx, run: transaction.run };
        if !matches!(event, Event::Answer { .. } | Event::Behind { .. } | Event::Seen { .. }) {
            self.keep_handle(run);
        }
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        let Some(transaction) = process.transactions.get_mut(&tx) else { return Ok(()) };
        match event {
            Event::Answer { no, reply } => {
                if !transaction.has_seen(no) {
                    transaction.hear_answer(&mut self.ledger, run, no, reply)?;
                }
                if !process.client.as_ref().is_some_and(|client| client.awaits_answers(tx)) {
                    self.schedule(self.now, SimEvent::Continue(run));
                }
            }
            Event::Committed { .. } if transaction.looking.as_ref().is_some_and(|it| it.only_checks) => {
                self.ledger.told_checked(run)?;
                self.outcome.aborted += 1;
                self.leave(run);
            }
            Event::Committed { replies } => {
                for (no, reply) in replies.iter().filter(|(no, _)| !transaction.has_seen(*no)) {
                    self.ledger.note_heard(run, transaction.places[no], reply)?;
                }
                self.ledger.told_committed(run, self.now)?;
                self.leave(run);
            }
            Event::Restart { cause } => {
                transaction.note_restart(&cause);
                transaction.stage = Progress::Between;
                self.ledger.told_over(run)?;
                self.outcome.restarts += 1;
                let doublings = if self.config.phasing { run.run / RUNS_A_DOUBLING } else { run.run };
                let doublings = doublings.min(RERUN_DOUBLINGS_MAX);
                let after = self.now.plus(self.draws.client.below(RERUN_US_MAX << doublings));
                self.schedule(after, SimEvent::Rerun(run));
            }
            Event::Aborted => self.give_up(run)?,
            Event::Behind { .. } | Event::Seen { .. } => {}
            // What else was seen nobody has checked: it would be run again under locks, and hears of no error.
            Event::Failed { refusal } if transaction.has_seen_more(&refusal) => self.give_up(run)?,
            Event::Failed { refusal } => {
                let is_for_operation = matches!(refusal, Refusal::Operation { .. });
                self.ledger.told_failed(run, is_for_operation, self.now)?;
                self.outcome.failed += 1;
                self.leave(run);
            }
            Event::Unknown => {
                self.ledger.told_unknown(run)?;
                self.ask_for_outcome(self.ledger.asked_of(run));
                self.outcome.unknown += 1;
                self.leave(run);
            }
        }
        Ok(())
    }

    /// The user hears that nothing was done.
    fn give_up(&mut self, run: RunId) -> Result<(), Violation> {
        self.ledger.told_over(run)?;
        self.outcome.aborted += 1;
        self.leave(run);
        Ok(())
    }

    /// The user knows the end; its worker begins the next transaction.
    fn leave(&mut self, run: RunId) {
        self.last_end = (self.now, self.outcome.steps);
        let at = self.now.plus(self.draws.client.below(self.config.programs.think_us_max + 1));
        let Some(process) = self.processes.get_mut(&run.session) else { return };
        if let Some(transaction) = process.transactions.remove(&run.tx) {
            self.leave_seat(run, transaction);
        }
        self.schedule(at, SimEvent::Begin(run.session));
    }

    fn promise_timeout(&mut self, session: SessionId) {
        let Some(process) = self.processes.get_mut(&session) else { return };
        let Some(client) = &process.client else { return };
        client.check_invariants();
        let due = client.poll_timeout();
        if due != process.timer {
            process.timer = due;
            if let Some(due) = due {
                let at = process.clock.reaches(due);
                self.schedule(at, SimEvent::ClientTimer(session, due));
            }
        }
    }
}

/// Sessions.
impl World {
    /// A client process begins, and connects to all shards.
    pub(crate) fn add_process(&mut self, id: SessionId, transactions: u32) {
        let clock = self.draws.clock(&self.config, Stream::Clock { end: 1 << 32 | id.0 });
        let config = &self.config;
        let (switches, limits) = (config.switches(), config.limits);
        let client = match config.direct {
            true => Client::direct(id, switches, limits, config.shards),
            false => {
                Client::new(id, switches, limits, usize::from(self.cluster.slots.count()), config.pacing())
            }
        };
        self.processes.insert(id, Process::new(id, client, clock, transactions));
        for _ in 0..self.config.workers {
            let at = self.now.plus(self.draws.client.below(500));
            self.schedule(at, SimEvent::Begin(id));
        }
        if !self.config.direct {
            self.connect_to_all(id);
            self.promise_timeout(id);
        }
    }

    /// Somebody asks a shard about another's attempt.
    fn ask(&mut self, session: SessionId, to: ShardId, attempt: AttemptId) {
        if self.may_send(session, to, &Request::Ask { attempt }) {
            let connection = self.processes[&session].connection_to(to).unwrap_or(0);
            let link = claret_core::message::Link { session, connection };
            self.send_alone(to, link, &Request::Ask { attempt });
        }
    }

    /// A client process ends in the middle of what it was doing. Another may take its place, and somebody may ask
    /// what became of what it left.
    pub(crate) fn kill(&mut self, session: SessionId) {
        let Some(process) = self.processes.get_mut(&session) else { return };
        let Some(client) = process.client.take() else { return };
        process.transactions.clear();
        process.connections.clear();
        self.outcome.combined += client.combined();
        let last_arrival = process.last_arrival;
        self.outcome.faults += 1;
        self.trace.note(self.now, &[50, session.0], || format!("c{}: dies", session.0));
        if self.draws.client.chance(500) {
            let successor = SessionId(self.processes.len() as u64);
            let transactions = self.draws.client.between(1, SUCCESSOR_TRANSACTIONS_MAX) as u32;
            self.add_process(successor, transactions);
        }
        for attempt in client.live() {
            self.ask_for_outcome(self.ledger.asked(attempt));
        }
        let asked = self.ask_about(&client.live());
        self.part_from(session, last_arrival, &asked);
        let from = self.now.0.max(last_arrival.0).max(self.config.calm_us());
        let audit = Time(from + self.config.release_us_max());
        self.schedule(audit, SimEvent::Audit(session));
    }

    /// Hosts of shards may see that its connections are closed; and once none was open for a lease they forget it, unless
    /// somebody asks: of what is forgotten nobody may (P58).
    fn part_from(&mut self, session: SessionId, last_arrival: Time, asked: &BTreeSet<ShardId>) {
        let lease_us = self.config.limits.lease_us;
        for number in 0..self.config.shards {
            let shard = ShardId(number);
            let soon = self.draws.partings.below(lease_us);
            let late = if self.draws.partings.chance(500) { self.draws.partings.below(lease_us) } else { 0 };
            if self.draws.partings.chance(500) {
                self.schedule(self.now.plus(soon), SimEvent::Desert(shard, session));
            }
            let last = self.now.max(last_arrival);
            if !asked.contains(&shard) {
                self.schedule(last.plus(lease_us + late), SimEvent::Forget(shard, session));
            }
        }
    }

    /// From now on somebody asks about this one.
    fn ask_for_outcome(&mut self, asked: Option<Asked>) {
        // With replicas an answer waits for them, as votes do (S2); where shards are a call away nothing is remembered.
        if !self.config.is_replicated() && !self.config.direct {
            self.asking.begin(asked);
        }
    }

    /// Others may ask about what it left. Returns whom.
    fn ask_about(&mut self, left: &[AttemptId]) -> BTreeSet<ShardId> {
        let mut all = BTreeSet::new();
        let living: Vec<SessionId> =
            self.processes.values().filter(|it| it.client.is_some()).map(|it| it.id).collect();
        for attempt in left {
            if living.is_empty() || !self.draws.client.chance(self.config.faults.asks_permille) {
                continue;
            }
            let session = *self.draws.client.pick(&living);
            // Only a participant knows; another would write a no that says nothing.
            let Some(asked) = self.ledger.participants(*attempt) else { continue };
            let asked: Vec<ShardId> = asked.into_iter().collect();
            let shard = *self.draws.client.pick(&asked);
            let at = self.now.plus(self.draws.client.below(2 * self.config.limits.lease_us));
            self.schedule(at, SimEvent::Ask(session, shard, *attempt));
            all.insert(shard);
        }
        all
    }

    /// Faults have stopped, and a dead session's lease has run out: no shard may hold anything for it. But for one that has left: what it
    /// voted without a record in its hands, since all that it did there is undone, it asks about, and nobody answers it.
    pub(crate) fn audit(&mut self, session: SessionId) -> Result<(), Violation> {
        let late = self.processes[&session].last_arrival;
        if late.plus(self.config.release_us_max()) > self.now {
            // A double of what it sent came later.
            let at = late.plus(self.config.release_us_max());
            self.schedule(at, SimEvent::Audit(session));
            return Ok(());
        }
        for number in 0..self.config.shards {
            if self.cluster.has_left(ShardId(number)) {
                continue;
            }
            let open = self.shard(ShardId(number)).open_attempts_of(session);
            if open > 0 {
                return Err(format!(
                    "s{number} still has {open} attempts of c{}, which is dead, beyond the bound of {} us",
                    session.0,
                    self.config.release_us_max()
                ));
            }
        }
        Ok(())
    }
}

/// Where calls are.
fn shards_of(calls: &[(ShardId, KeyedCall)]) -> BTreeSet<ShardId> {
    calls.iter().map(|(shard, _)| *shard).collect()
}
