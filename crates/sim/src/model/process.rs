//! A client process as a server: one thread, the client state machine that ships, and many clients.
//!
//! In one tick it takes everything that has arrived, tells its clients, and sends what they and the machine want to
//! send: one frame for each shard. So what arrives while it is busy is answered together.

use std::collections::BTreeMap;
use std::sync::Arc;

use claret_core::message::Response;
use claret_core::{
    Cause, Client as Machine, Event, Incarnation, Limits, Pacing, SessionId, ShardId, SlotRange, Time,
    TxHandle, key_hash,
};

use super::client::{Call, Client, Stage};
use super::measure::Tally;
use super::server::told_weight;
use super::setup::{Mode, Pace, Setup};
use super::terminal::{Rest, Terminal};
use super::wire::{AskFrame, Asked, Multi, Plain, ShardMessage, TellFrame, asked_weight};
use crate::random::{Random, Stream};

/// What a process is to look at.
#[derive(Debug)]
pub(super) enum Incoming {
    Frame(TellFrame),
    Timer {
        terminal: usize,
        number: u64,
    },
    /// Somebody may be late.
    Watch,
}

/// What a tick comes to.
#[derive(Debug, Default)]
pub(super) struct Ticked {
    pub(super) ns: u64,
    pub(super) frames: Vec<(usize, AskFrame)>,
    /// When which client wants to be woken, in nanoseconds, and the number of its timer.
    pub(super) timers: Vec<(u64, usize, u64)>,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct ModelProcess {
    id: usize,
    setup: Arc<Setup>,
    /// None in the modes without the protocol.
    machine: Option<Box<Machine>>,
    terminals: Vec<Terminal>,
    by_tx: BTreeMap<TxHandle, usize>,
    inbox: Vec<Incoming>,
    /// Without the protocol: what waits to be sent, and frames not answered, by shard.
    outbox: BTreeMap<usize, Vec<Asked>>,
    unanswered: Vec<u32>,
    timers: Vec<(u64, usize, u64)>,
    random: Random,
    now: u64,
    /// No transaction begins any more.
    pub(super) is_closing: bool,
    /// A tick stands in the queue of events, or one is being worked off.
    pub(super) is_awake: bool,
    pub(super) timer: Option<Time>,
    pub(super) tally: Tally,
}

impl ModelProcess {
    pub(super) fn new(id: usize, setup: &Arc<Setup>, clients: Vec<Box<dyn Client>>) -> Self {
        ModelProcess {
            id,
            setup: Arc::clone(setup),
            machine: setup.mode.has_protocol().then(|| Box::new(machine(id, setup))),
            terminals: clients.into_iter().map(Terminal::new).collect(),
            by_tx: BTreeMap::new(),
            inbox: Vec::new(),
            outbox: BTreeMap::new(),
            unanswered: vec![0; setup.shards as usize],
            timers: Vec::new(),
            random: Random::new(setup.seed, Stream::Model(id as u64)),
            now: 0,
            is_closing: false,
            is_awake: false,
            timer: None,
            tally: Tally::new(setup),
        }
    }

    /// When each client begins.
    pub(super) fn starts(&mut self) -> Vec<(u64, usize, u64)> {
        // Within a round trip or so: all at once would make one frame of them, and in step they would stay.
        let spread = (4 * self.setup.costs.delay).clamp(1, self.setup.warm_up_us.max(1) * 1_000);
        (0..self.terminals.len()).map(|terminal| (self.random.below(spread), terminal, 0)).collect()
    }

    pub(super) fn put(&mut self, incoming: Incoming) {
        self.inbox.push(incoming);
    }

    /// When the machine wants to be asked; at the end nobody waits for its heartbeats.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.machine.as_ref().and_then(|machine| machine.poll_timeout()).filter(|_| !self.is_quiet())
    }

    pub(super) fn has_work(&self, now: Time) -> bool {
        !self.inbox.is_empty() || self.poll_timeout().is_some_and(|due| due <= now)
    }

    /// Whether all transactions are over, everywhere.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_closing
            && self.terminals.iter().all(|terminal| !terminal.is_active)
            && self.machine.as_ref().is_none_or(|machine| machine.is_over())
    }

    /// Ends its clients: what they came to, and how many reads were combined.
    pub(super) fn finish(self) -> (Tally, u64) {
        let combined = self.machine.map_or(0, |machine| machine.combined());
        self.terminals.into_iter().for_each(|terminal| terminal.client.finish());
        (self.tally, combined)
    }

    /// Takes everything that has come, and says what there is to be said.
    pub(super) fn tick(&mut self, now: u64) -> Ticked {
        self.now = now;
        let costs = self.setup.costs;
        let mut ns = 0;
        for incoming in std::mem::take(&mut self.inbox) {
            match incoming {
                Incoming::Frame(frame) => {
                    ns += costs.process_frame;
                    ns += costs.process_message * frame.parts.iter().map(told_weight).sum::<u64>();
                    self.take(frame);
                }
                Incoming::Timer { terminal, number } => self.wake(terminal, number),
                Incoming::Watch => self.look_for_late_ones(),
            }
            self.hear();
        }
        if self.poll_timeout().is_some_and(|due| due <= self.time()) {
            let time = self.time();
            self.machine().handle_timeout(time);
            self.hear();
        }
        let frames = self.frames();
        for (_, frame) in &frames {
            ns += costs.process_frame;
            ns += costs.process_message * frame.parts.iter().map(asked_weight).sum::<u64>();
        }
        Ticked { ns, frames, timers: std::mem::take(&mut self.timers) }
    }

    /// What leaves now: for each shard one frame, unless too many are unanswered there.
    fn frames(&mut self) -> Vec<(usize, AskFrame)> {
        let process = self.id;
        if let Some(machine) = &mut self.machine {
            let mut take = |shard: usize| {
                let mut requests = Vec::new();
                machine.take(ShardId(shard as u32), connection_to(shard), &mut requests);
                let parts: Vec<Asked> = requests.into_iter().map(Asked::Request).collect();
                (!parts.is_empty()).then_some((shard, AskFrame { process, parts }))
            };
            let shards = 0..self.setup.shards as usize;
            let mut frames: Vec<_> = shards.clone().filter_map(&mut take).collect();
            // With the first frame all leaves that is gathered, for other shards, too.
            let silent: Vec<usize> =
                shards.filter(|shard| frames.iter().all(|(taken, _)| taken != shard)).collect();
            frames.extend(silent.into_iter().filter_map(take));
            return frames;
        }
        let (window, unanswered) = (self.setup.window, &mut self.unanswered);
        let mut leaves = |shard: &usize, _: &mut Vec<Asked>| {
            let may = unanswered[*shard] < window;
            unanswered[*shard] += u32::from(may);
            may
        };
        let leaving: Vec<_> = self.outbox.extract_if(.., &mut leaves).collect();
        leaving.into_iter().map(|(shard, parts)| (shard, AskFrame { process, parts })).collect()
    }
}

/// What comes.
impl ModelProcess {
    fn take(&mut self, frame: TellFrame) {
        let (shard, frames) = (frame.shard, u32::from(frame.is_answer));
        let mut responses: Vec<Response> = Vec::new();
        for part in frame.parts {
            match part {
                ShardMessage::Response(response) => responses.push(response),
                ShardMessage::Plain { terminal: number, at, reply } => {
                    let terminal = &mut self.terminals[number];
                    if at < terminal.replies.len() {
                        terminal.replies[at] = reply;
                    }
                    terminal.awaited -= 1;
                    if terminal.awaited == 0 {
                        if terminal.is_committing { self.committed(number) } else { self.go_on(number) }
                    }
                }
                ShardMessage::Exec { terminal: number, replies } => {
                    self.terminals[number].replies = replies;
                    self.stage_done(number);
                }
            }
        }
        let time = self.time();
        match &mut self.machine {
            Some(machine) => {
                let from = (ShardId(shard as u32), connection_to(shard));
                machine.deliver(time, from, frames as usize, responses.into_iter());
            }
            None => self.unanswered[shard] -= frames,
        }
    }

    fn wake(&mut self, at: usize, number: u64) {
        match self.terminals[at].resting.is_over(number) {
            None => {}
            Some(Rest::Begin) => self.begin(at),
            Some(Rest::Restart) => self.restart(at),
            Some(Rest::Call) => self.step(at),
            Some(Rest::Stage) => self.stage_over(at),
        }
    }

    fn rest(&mut self, at: usize, rest: Rest, us: u64) {
        let timer = self.terminals[at].resting.begin(rest);
        self.timers.push((self.now + us * 1_000, at, timer));
    }

    /// Gives up what has taken too long.
    fn look_for_late_ones(&mut self) {
        let time = self.time();
        let late = |terminal: &&Terminal| {
            terminal.is_active && terminal.began + self.setup.deadline_us * 1_000 <= self.now
        };
        let late: Vec<TxHandle> =
            self.terminals.iter().filter(late).filter_map(|terminal| terminal.tx).collect();
        for tx in late {
            self.machine().abort(time, tx);
        }
    }

    /// The next event, once all is brought about that what was done comes to.
    fn next_event(&mut self) -> Option<(TxHandle, Event)> {
        let time = self.time();
        let machine = self.machine.as_mut()?;
        machine.settle(time);
        machine.poll_event()
    }

    /// Hears what the machine tells its transactions.
    fn hear(&mut self) {
        while let Some((tx, event)) = self.next_event() {
            let Some(at) = self.by_tx.get(&tx).copied() else { continue };
            let terminal = &mut self.terminals[at];
            match event {
                Event::Answer { no, reply } => {
                    terminal.answer((no.0 - terminal.before) as usize, reply);
                    if terminal.awaited == 0 {
                        self.go_on(at);
                    }
                }
                Event::Committed { replies } => {
                    for (no, reply) in replies {
                        terminal.replies[(no.0 - terminal.before) as usize] = reply;
                    }
                    self.by_tx.remove(&tx);
                    self.committed(at);
                }
                Event::Seen { .. } => {} // Nobody looks here.
                Event::Aborted if terminal.is_rolled_back() => {
                    self.by_tx.remove(&tx);
                    self.rolled_back(at);
                }
                Event::Aborted => {
                    self.by_tx.remove(&tx);
                    self.tally.gave_up(self.now);
                    self.terminals[at].client.gave_up();
                    self.over(at);
                }
                Event::Restart { cause } => self.ended(at, tx, &cause),
                Event::Unknown => unreachable!("no shard loses its memory here"),
                Event::Behind { .. } => unreachable!("nobody asks"),
                Event::Failed { refusal } => panic!("workloads ask for nothing impossible: {refusal}"),
            }
        }
    }
}

/// A client's transaction.
impl ModelProcess {
    fn begin(&mut self, at: usize) {
        if self.is_closing {
            return;
        }
        let (now, time) = (self.now, self.time());
        let seed = self.random.number();
        let tx = self.machine.as_mut().map(|machine| machine.begin(time, seed));
        self.by_tx.extend(tx.map(|tx| (tx, at)));
        let terminal = &mut self.terminals[at];
        terminal.kind = terminal.client.draw();
        (terminal.began, terminal.is_active, terminal.tx, terminal.attempts) = (now, true, tx, 1);
        terminal.begin_attempt();
        self.issue(at);
    }

    /// An attempt is over and is to be run again, unless there were too many.
    fn ended(&mut self, at: usize, tx: TxHandle, cause: &Cause) {
        self.tally.restarted(self.now, cause);
        let time = self.time();
        let terminal = &mut self.terminals[at];
        let late = terminal.began + self.setup.deadline_us * 1_000 <= self.now;
        if terminal.attempts >= self.setup.attempts_max || late {
            return self.machine().abort(time, tx);
        }
        // As the embedded store does: who gave way waits in a queue next and need not pause; without queues a pause
        // that doubles, with jitter, is what keeps two from meeting again and again.
        if *cause != Cause::Busy {
            return self.restart(at);
        }
        let limits = &self.setup.limits;
        let most = limits.backoff_us_max.saturating_mul(u64::from(limits.lock_tries_max).max(1));
        let longest = (limits.backoff_us_min << terminal.attempts.min(20)).min(most);
        let pause = longest / 2 + self.random.below(longest / 2 + 1);
        self.rest(at, Rest::Restart, pause);
    }

    fn restart(&mut self, at: usize) {
        let time = self.time();
        let tx = self.terminals[at].tx.expect("it is a transaction");
        let ended = (tx, self.terminals[at].attempts);
        self.machine().restart(time, ended).expect("it was told to");
        let terminal = &mut self.terminals[at];
        terminal.attempts += 1;
        terminal.client.restart();
        terminal.begin_attempt();
        self.issue(at);
    }

    /// Issues a stage.
    fn issue(&mut self, at: usize) {
        if self.terminals[at].is_rolled_back() {
            return self.roll_back(at);
        }
        if self.setup.mode == Mode::OneServer {
            return self.send_multi(at);
        }
        let together = match (self.setup.pace, self.terminals[at].stage) {
            (Pace::Together, Stage::Commit) => true,
            (Pace::Together | Pace::Pause(_), _) => false,
            (Pace::Interactive(_), _) => return self.step(at),
        };
        for number in 0..self.terminals[at].calls.len() {
            if !together && self.terminals[at].calls[number].op.returns() {
                self.execute(at, number);
            } else {
                self.buffer(at, number);
            }
        }
        if together {
            self.commit(at);
        } else if self.terminals[at].awaited == 0 {
            self.stage_done(at);
        }
    }

    /// Issues one operation after the other, up to the next one that answers something.
    fn step(&mut self, at: usize) {
        let Pace::Interactive(think) = self.setup.pace else { unreachable!("only then one by one") };
        loop {
            let terminal = &mut self.terminals[at];
            let number = terminal.next;
            if number == terminal.calls.len() {
                return self.stage_done(at);
            }
            terminal.next += 1;
            if terminal.calls[number].op.returns() {
                return self.execute(at, number);
            }
            let last = terminal.next == terminal.calls.len();
            self.buffer(at, number);
            if think > 0 && !last {
                return self.rest(at, Rest::Call, think);
            }
        }
    }

    /// Everything that was issued is answered.
    fn go_on(&mut self, at: usize) {
        let terminal = &self.terminals[at];
        match self.setup.pace {
            Pace::Interactive(think) if think > 0 && terminal.next < terminal.calls.len() => {
                self.rest(at, Rest::Call, think);
            }
            Pace::Interactive(_) => self.step(at),
            Pace::Together | Pace::Pause(_) => self.stage_done(at),
        }
    }

    fn stage_done(&mut self, at: usize) {
        let think = match self.setup.pace {
            Pace::Pause(think) => think,
            Pace::Interactive(think) if self.terminals[at].stage == Stage::Read => think,
            Pace::Interactive(_) | Pace::Together => 0,
        };
        let terminal = &self.terminals[at];
        let own = if terminal.stage == Stage::Read { terminal.client.thinks() } else { 0 };
        let think = think + own;
        if think > 0 { self.rest(at, Rest::Stage, think) } else { self.stage_over(at) }
    }

    fn stage_over(&mut self, at: usize) {
        match self.terminals[at].stage {
            Stage::Commit => self.commit(at),
            Stage::Read => {
                self.terminals[at].next_stage();
                self.issue(at);
            }
        }
    }

    fn committed(&mut self, at: usize) {
        let terminal = &mut self.terminals[at];
        self.tally.committed(self.now, terminal.kind, terminal.began);
        terminal.client.committed(&terminal.replies);
        self.over(at);
    }

    fn roll_back(&mut self, at: usize) {
        let time = self.time();
        match (&mut self.machine, self.terminals[at].tx) {
            (Some(machine), Some(tx)) => machine.abort(time, tx),
            _ => self.rolled_back(at),
        }
    }

    /// As its user wanted.
    fn rolled_back(&mut self, at: usize) {
        let terminal = &mut self.terminals[at];
        self.tally.committed(self.now, terminal.kind, terminal.began);
        terminal.client.gave_up();
        self.over(at);
    }

    fn over(&mut self, at: usize) {
        let terminal = &mut self.terminals[at];
        (terminal.is_active, terminal.tx) = (false, None);
        terminal.resting.forget(); // It may have been given up while it rested.
        self.begin(at);
    }
}

/// With and without transactions.
impl ModelProcess {
    fn execute(&mut self, at: usize, number: usize) {
        let time = self.time();
        let terminal = &mut self.terminals[at];
        terminal.awaited += 1;
        let attempt = terminal.attempts;
        let Call { key, op } = terminal.calls[number].clone();
        match (&mut self.machine, terminal.tx) {
            (Some(machine), Some(tx)) => {
                let slot = place(&self.setup, &key).1 as u16;
                // A call that ends its attempt, or comes when that is over, is told of by an event.
                let _ = machine.execute(time, (tx, attempt), (slot, key), op, None);
            }
            _ => self.send_plain(at, number, Call { key, op }),
        }
    }

    fn buffer(&mut self, at: usize, number: usize) {
        let time = self.time();
        let terminal = &mut self.terminals[at];
        let (call, attempt) = (terminal.calls[number].clone(), terminal.attempts);
        match (&mut self.machine, terminal.tx) {
            (Some(machine), Some(tx)) => {
                let slot = place(&self.setup, &call.key).1 as u16;
                // As above.
                let _ = machine.buffer(time, (tx, attempt), (slot, call.key), call.op);
            }
            // Of an earlier stage nobody looks at the answers.
            _ if terminal.stage == Stage::Read => terminal.later.push((usize::MAX, call)),
            _ => terminal.later.push((number, call)),
        }
    }

    fn commit(&mut self, at: usize) {
        let time = self.time();
        let terminal = &mut self.terminals[at];
        if let (Some(machine), Some(tx)) = (&mut self.machine, terminal.tx) {
            // As above.
            let _ = machine.commit(time, (tx, terminal.attempts));
            return;
        }
        terminal.is_committing = true;
        let later = std::mem::take(&mut terminal.later);
        if later.is_empty() {
            return self.committed(at);
        }
        terminal.awaited = later.len();
        later.into_iter().for_each(|(number, call)| self.send_plain(at, number, call));
    }

    /// Sends a stage as one.
    fn send_multi(&mut self, at: usize) {
        let calls = std::mem::take(&mut self.terminals[at].calls);
        if calls.is_empty() {
            return self.stage_done(at);
        }
        let calls = calls.into_iter().map(|call| (key_hash(&call.key), call.key, call.op)).collect();
        self.outbox.entry(0).or_default().push(Asked::Multi(Multi { terminal: at, calls }));
    }

    fn send_plain(&mut self, terminal: usize, at: usize, call: Call) {
        let (hash, shard) = place(&self.setup, &call.key);
        let plain = Plain { terminal, at, hash, key: call.key, op: call.op };
        self.outbox.entry(shard).or_default().push(Asked::Plain(plain));
    }
}

/// Small things.
impl ModelProcess {
    fn time(&self) -> Time {
        Time(self.now / 1_000)
    }

    fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("there are transactions")
    }
}

/// A key's hash, and its shard.
pub(super) fn place(setup: &Setup, key: &[u8]) -> (u64, usize) {
    let hash = key_hash(key);
    (hash, (hash % u64::from(setup.shards)) as usize)
}

/// A client that is connected to all shards, each of which is a slot.
fn machine(id: usize, setup: &Setup) -> Machine {
    let pacing = Pacing {
        frames_in_flight_max: setup.window as usize,
        frame_requests_worth: 1,
        frame_requests_max: usize::MAX,
        over_worth: setup.over_worth,
    };
    let (session, shards) = (SessionId(id as u64), setup.shards);
    // Heartbeats are three to a lease.
    let lease_us = 3 * setup.heartbeat_us;
    let limits = Limits { lease_us, ..setup.limits };
    let mut machine = Machine::new(session, setup.switches(), limits, shards as usize, pacing);
    let node = |shard: u32| ShardId(shard).to_string().into();
    let slots =
        (0..shards).map(|shard| SlotRange { first: shard as u16, last: shard as u16, node: node(shard) });
    machine.adopt(Time(0), slots.collect());
    for shard in 0..shards {
        let (number, as_) = (connection_to(shard as usize), (ShardId(shard), FIRST));
        machine.connected(Time(0), number, &node(shard), as_, lease_us);
    }
    machine
}

/// The only incarnation of each shard.
pub(super) const FIRST: Incarnation = Incarnation(1);

/// The number of the connection to a shard.
fn connection_to(shard: usize) -> u32 {
    shard as u32 + 1
}
