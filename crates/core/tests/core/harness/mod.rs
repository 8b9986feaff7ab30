//! Shards and coordinators driven by hand: every message waits in a bag until the test says what happens to it, so
//! that a test writes an interleaving step by step.
//!
//! Invariants of every shard are checked after every delivery. Transactions are born in the order in which they
//! begin: an earlier one is the elder. This file never chooses an order by itself, except [`World::run`], which
//! delivers the oldest first.

#![allow(dead_code, reason = "each test binary uses a part")]

use claret_core::message::{Link, Output, PeerMessage, Request, Response, Status};
use claret_core::{
    AttemptId, Backup, CallNo, Coordinator, Event, Incarnation, Limits, Session, SessionId, Shard, ShardId,
    Survives, Switches, Time, Timestamp,
};
use claret_types::{Bytes, Claims, Counter, CounterOp, Operation, Register, RegisterOp, Reply, Set, SetOp};

/// A transaction of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tx(pub usize);

/// A message under way.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) link: Link,
    pub(crate) body: Body,
}

/// What it says, and between whom.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Request(ShardId, Request),
    Response(ShardId, SessionId, Response),
    Peer(ShardId, PeerMessage),
}

/// Kinds of messages, to pick them by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Execute,
    Prepare,
    Apply,
    Withdraw,
    Abort,
    Heartbeat,
    Granted,
    Queued,
    Voted,
    Committed,
    Refused,
    Applied,
    Aborted,
    Elder,
    Inquire,
    Answer,
    Way,
    Other,
}

impl Message {
    pub(crate) fn kind(&self) -> Kind {
        match &self.body {
            Body::Request(_, request) => match request {
                Request::Execute { .. } => Kind::Execute,
                Request::Prepare { .. } => Kind::Prepare,
                Request::Apply { .. } | Request::ApplyAt { .. } => Kind::Apply,
                Request::Withdraw { .. } => Kind::Withdraw,
                Request::Abort { .. } => Kind::Abort,
                Request::Heartbeat { .. } => Kind::Heartbeat,
                Request::Ask { .. }
                | Request::AskBehind { .. }
                | Request::Tick { .. }
                | Request::Look { .. } => Kind::Other,
            },
            Body::Response(_, _, response) => match response {
                Response::Granted { .. } => Kind::Granted,
                Response::Queued { .. } => Kind::Queued,
                Response::Voted { .. } | Response::Placed { .. } => Kind::Voted,
                Response::Committed { .. } => Kind::Committed,
                Response::Refused { .. } => Kind::Refused,
                Response::Applied { .. } | Response::Done { .. } => Kind::Applied,
                Response::Aborted { .. } => Kind::Aborted,
                Response::Elder { .. } => Kind::Elder,
                Response::Busy { .. }
                | Response::Asked { .. }
                | Response::Behind { .. }
                | Response::Ticked { .. }
                | Response::Looked { .. } => Kind::Other,
            },
            Body::Peer(_, PeerMessage::Inquire { .. }) => Kind::Inquire,
            Body::Peer(_, PeerMessage::Answer { .. }) => Kind::Answer,
            Body::Peer(_, PeerMessage::Way { .. }) => Kind::Way,
            Body::Peer(_, PeerMessage::AskClock { .. } | PeerMessage::Clock { .. }) => Kind::Other,
        }
    }

    /// The shard at its end: the receiver of a request, the sender of a response, the receiver between shards.
    pub(crate) fn shard(&self) -> u32 {
        match &self.body {
            Body::Request(shard, _) | Body::Response(shard, _, _) | Body::Peer(shard, _) => shard.0,
        }
    }

    /// The number of the attempt it is about; 0 for heartbeats.
    pub(crate) fn attempt(&self) -> u32 {
        match &self.body {
            Body::Request(_, request) => match request {
                Request::Execute { attempt, .. }
                | Request::Prepare { attempt, .. }
                | Request::Apply { attempt }
                | Request::Withdraw { attempt }
                | Request::Abort { attempt, .. }
                | Request::Ask { attempt }
                | Request::AskBehind { attempt }
                | Request::ApplyAt { attempt, .. } => attempt.attempt,
                Request::Heartbeat { .. } | Request::Tick { .. } | Request::Look { .. } => 0,
            },
            Body::Response(_, _, response) => response.attempt().map_or(0, |attempt| attempt.attempt),
            Body::Peer(
                _,
                PeerMessage::Inquire { attempt, .. }
                | PeerMessage::Answer { attempt, .. }
                | PeerMessage::Way { attempt, .. },
            ) => attempt.attempt,
            Body::Peer(_, PeerMessage::AskClock { .. } | PeerMessage::Clock { .. }) => 0,
        }
    }
}

struct Member {
    coordinator: Coordinator,
    events: Vec<Event>,
}

/// See the module's text.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) shards: Vec<Shard>,
    pub(crate) bag: Vec<Message>,
    pub(crate) session: Session,
    /// The number that new requests carry; raise it for a reconnect.
    pub(crate) connection: u32,
    switches: Switches,
    limits: Limits,
    members: Vec<Member>,
    /// Nobody hears what the shards say.
    pub(crate) client_is_gone: bool,
}

impl World {
    pub(crate) fn new(shards: u32) -> Self {
        World::with(shards, Switches::CLARET, Limits::default())
    }

    pub(crate) fn with(shards: u32, switches: Switches, limits: Limits) -> Self {
        let shard = |id| Shard::new(ShardId(id), Incarnation(1), switches, limits);
        World {
            now: Time(1_000),
            shards: (0..shards).map(shard).collect(),
            bag: Vec::new(),
            session: Session::new(SessionId(7)),
            connection: 0,
            switches,
            limits,
            members: Vec::new(),
            client_is_gone: false,
        }
    }

    // --- transactions ---

    /// From now on transactions are begun by a process with other switches and bounds than the shards'.
    pub(crate) fn speak_as(&mut self, switches: Switches, limits: Limits) {
        (self.switches, self.limits) = (switches, limits);
    }

    pub(crate) fn begin(&mut self) -> Tx {
        self.now = self.now.plus(1);
        let birth = self.session.begin(self.now);
        let coordinator = Coordinator::new(birth, self.switches, self.limits, 1);
        self.members.push(Member { coordinator, events: Vec::new() });
        Tx(self.members.len() - 1)
    }

    pub(crate) fn coordinator(&self, tx: Tx) -> &Coordinator {
        &self.members[tx.0].coordinator
    }

    pub(crate) fn coordinator_mut(&mut self, tx: Tx) -> &mut Coordinator {
        &mut self.members[tx.0].coordinator
    }

    pub(crate) fn attempt(&self, tx: Tx) -> AttemptId {
        self.coordinator(tx).attempt()
    }

    pub(crate) fn execute(&mut self, tx: Tx, shard: u32, key: &str, op: Operation) -> CallNo {
        self.execute_reserving(tx, shard, key, op, None)
    }

    pub(crate) fn execute_reserving(
        &mut self,
        tx: Tx,
        shard: u32,
        key: &str,
        op: Operation,
        reserve: Option<Claims>,
    ) -> CallNo {
        let now = self.now;
        let attempt = self.attempt(tx);
        let coordinator = self.coordinator_mut(tx);
        let no = coordinator.execute(now, attempt, ShardId(shard), key.into(), op, reserve);
        self.collect();
        no.expect("it runs")
    }

    pub(crate) fn buffer(&mut self, tx: Tx, shard: u32, key: &str, op: Operation) -> CallNo {
        let attempt = self.attempt(tx);
        let buffered = self.coordinator_mut(tx).buffer(attempt, ShardId(shard), key.into(), op);
        buffered.expect("it runs")
    }

    pub(crate) fn commit(&mut self, tx: Tx) {
        let now = self.now;
        let attempt = self.attempt(tx);
        self.coordinator_mut(tx).commit(now, attempt, &[]).expect("it runs");
        self.collect();
    }

    /// Commits with a timestamp, about this one.
    pub(crate) fn commit_at(&mut self, tx: Tx, suggested: u64) {
        self.coordinator_mut(tx).stamp(Timestamp(suggested));
        self.commit(tx);
    }

    /// All shards' clocks come to here, and all coordinators hear so.
    pub(crate) fn tick_all(&mut self, want: u64) {
        let (now, link) = (self.now, Link { session: SessionId(7), connection: self.connection });
        let mut safe_time = Timestamp::MAX;
        for shard in &mut self.shards {
            shard.handle(now, link, Request::Tick { want: Timestamp(want) });
            while let Some(output) = shard.poll_output() {
                match output {
                    Output::Respond { response: Response::Ticked { clock, .. }, .. } => {
                        safe_time = safe_time.min(clock);
                    }
                    Output::Respond { .. } => panic!("a tick is answered alone: {output:?}"),
                    Output::Tell { shard, message } => {
                        self.bag.push(Message { link, body: Body::Peer(shard, message) });
                    }
                }
            }
        }
        self.members.iter_mut().for_each(|member| member.coordinator.hear_safe_time(safe_time));
        self.collect();
    }

    /// Commits, and asks one shard last.
    pub(crate) fn commit_with_last(&mut self, tx: Tx, shard: u32) {
        let now = self.now;
        let attempt = self.attempt(tx);
        self.coordinator_mut(tx).commit(now, attempt, &[ShardId(shard)]).expect("it runs");
        self.collect();
    }

    pub(crate) fn abort(&mut self, tx: Tx) {
        let now = self.now;
        self.coordinator_mut(tx).abort(now);
        self.collect();
    }

    pub(crate) fn restart(&mut self, tx: Tx) {
        let ended = self.attempt(tx);
        self.coordinator_mut(tx).restart(ended).expect("it was told to");
    }

    /// A transaction that executes one operation and delivers everything: it holds the record, or waits for it.
    pub(crate) fn holder(&mut self, shard: u32, key: &str, op: Operation) -> Tx {
        let tx = self.begin();
        self.execute(tx, shard, key, op);
        self.run();
        tx
    }

    /// Commits a transaction of one operation.
    pub(crate) fn set_up(&mut self, shard: u32, key: &str, op: Operation) {
        let tx = self.begin();
        self.buffer(tx, shard, key, op);
        self.commit(tx);
        self.run();
        assert!(self.committed(tx), "the set-up of '{key}' commits");
    }

    // --- what became of it ---

    /// Takes the events that a transaction's application would hear.
    pub(crate) fn events(&mut self, tx: Tx) -> Vec<Event> {
        std::mem::take(&mut self.members[tx.0].events)
    }

    pub(crate) fn answers(&self, tx: Tx) -> Vec<Reply> {
        let answer = |event: &Event| match event {
            Event::Answer { reply, .. } => Some(reply.clone()),
            _ => None,
        };
        self.members[tx.0].events.iter().filter_map(answer).collect()
    }

    pub(crate) fn committed(&self, tx: Tx) -> bool {
        self.members[tx.0].events.iter().any(|event| matches!(event, Event::Committed { .. }))
    }

    pub(crate) fn aborted(&self, tx: Tx) -> bool {
        self.members[tx.0].events.contains(&Event::Aborted)
    }

    pub(crate) fn restarts(&self, tx: Tx) -> usize {
        self.members[tx.0].events.iter().filter(|event| matches!(event, Event::Restart { .. })).count()
    }

    /// Whether its last execute was answered.
    pub(crate) fn answered(&self, tx: Tx) -> bool {
        !self.answers(tx).is_empty()
    }

    pub(crate) fn counter(&self, shard: u32, key: &str) -> i64 {
        self.shards[shard as usize]
            .state(key.as_bytes())
            .and_then(|state| state.downcast::<Counter>()?.as_int().ok())
            .unwrap_or(0)
    }

    // --- messages ---

    /// How many messages of a kind for or from a shard are under way.
    pub(crate) fn count(&self, kind: Kind, shard: u32) -> usize {
        self.bag.iter().filter(|message| message.kind() == kind && message.shard() == shard).count()
    }

    fn position(&self, kind: Kind, shard: u32) -> usize {
        let found = self.bag.iter().position(|message| message.kind() == kind && message.shard() == shard);
        found.unwrap_or_else(|| panic!("no {kind:?} at shard {shard} among {:#?}", self.bag))
    }

    /// Delivers the oldest message of a kind for or from a shard.
    pub(crate) fn deliver(&mut self, kind: Kind, shard: u32) {
        let at = self.position(kind, shard);
        let message = self.bag.remove(at);
        self.hand_over(message);
    }

    /// Takes it out of the bag, to be delivered later or never.
    pub(crate) fn hold(&mut self, kind: Kind, shard: u32) -> Message {
        let at = self.position(kind, shard);
        self.bag.remove(at)
    }

    /// Delivers everything, what comes of it included, oldest first.
    pub(crate) fn run(&mut self) {
        self.run_until(|_| false);
    }

    /// Delivers everything but what `keep` names, which stays in the bag.
    pub(crate) fn run_until(&mut self, keep: impl Fn(&Message) -> bool) {
        for _ in 0..100_000 {
            let Some(at) = self.bag.iter().position(|message| !keep(message)) else { return };
            let message = self.bag.remove(at);
            self.hand_over(message);
        }
        panic!("messages without end");
    }

    /// Loses everything that is under way.
    pub(crate) fn lose_all(&mut self) {
        self.bag.clear();
    }

    /// Delivers a message that was held, or delivers one twice.
    pub(crate) fn hand_over(&mut self, message: Message) {
        let now = self.now;
        match message.body {
            Body::Request(shard, request) => self.shards[shard.0 as usize].handle(now, message.link, request),
            Body::Peer(shard, message) => self.shards[shard.0 as usize].handle_peer(now, message),
            Body::Response(shard, session, response) => {
                assert_eq!(session, message.link.session, "nobody else has a session here");
                let Some(AttemptId { tx, .. }) = response.attempt() else { return };
                if self.client_is_gone {
                    return;
                }
                if let Some(member) =
                    self.members.iter_mut().find(|member| member.coordinator.birth().tx == tx)
                {
                    member.coordinator.handle_response(now, shard, response);
                }
            }
        }
        self.collect();
    }

    /// Sends what nobody sends by itself: a heartbeat, a question, a forgery.
    pub(crate) fn send(&mut self, shard: u32, request: Request) {
        let link = Link { session: self.session.id(), connection: self.connection };
        self.bag.push(Message { link, body: Body::Request(ShardId(shard), request) });
    }

    /// A heartbeat to a shard, listing what is live.
    pub(crate) fn heartbeat(&mut self, shard: u32) {
        let live = self.members.iter().flat_map(|member| member.coordinator.live()).collect();
        let low_water = self.session.low_water();
        self.send(shard, Request::Heartbeat { live, low_water });
        self.deliver(Kind::Heartbeat, shard);
    }

    /// A heartbeat that lists nothing: the shard refuses whatever has not voted.
    pub(crate) fn heartbeat_without(&mut self, shard: u32) {
        let low_water = self.session.low_water();
        self.run();
        self.send(shard, Request::Heartbeat { live: vec![], low_water });
        self.deliver(Kind::Heartbeat, shard);
    }

    // --- time and trouble ---

    /// Lets time pass: every timeout that is due by then is handled.
    pub(crate) fn pass(&mut self, micros: u64) {
        self.now = self.now.plus(micros);
        let now = self.now;
        self.shards.iter_mut().for_each(|shard| shard.handle_timeout(now));
        self.members.iter_mut().for_each(|member| member.coordinator.handle_timeout(now));
        self.collect();
    }

    /// Lets time pass for the shards alone: their coordinators are gone.
    pub(crate) fn pass_without_coordinators(&mut self, micros: u64) {
        self.now = self.now.plus(micros);
        let now = self.now;
        self.shards.iter_mut().for_each(|shard| shard.handle_timeout(now));
        self.collect();
    }

    /// The clock of one shard alone is ahead.
    pub(crate) fn time_out_shard(&mut self, shard: u32, micros: u64) {
        let now = self.now.plus(micros);
        self.shards[shard as usize].handle_timeout(now);
        self.collect();
    }

    /// The client dies: what is under way is lost, and nobody hears what the shards say.
    pub(crate) fn client_dies(&mut self) {
        self.bag.clear();
        self.client_is_gone = true;
    }

    /// The host of a shard sees the session's last connection close (P52).
    pub(crate) fn desert(&mut self, at: u32) {
        let shard = &mut self.shards[at as usize];
        shard.deserted(self.now, self.session.id());
        shard.handle_timeout(self.now);
        self.collect();
    }

    /// What a shard says of an attempt when another asks it.
    pub(crate) fn inquire(&mut self, at: u32, attempt: AttemptId, listed: Option<Incarnation>) -> Status {
        let asker = ShardId(u32::MAX);
        let message = PeerMessage::Inquire { attempt, from: asker, listed };
        self.shards[at as usize].handle_peer(self.now, message);
        self.collect();
        match self.hold(Kind::Answer, asker.0).body {
            Body::Peer(_, PeerMessage::Answer { status, .. }) => status,
            other => panic!("an answer, not {other:?}"),
        }
    }

    /// The shard starts anew, with nothing in memory.
    /// All that a shard has written is known to its replica, and to the shard that it is.
    pub(crate) fn replicate(&mut self, shard: u32, backup: &mut Backup) {
        let mut last = 0;
        let of = &mut self.shards[shard as usize];
        while let Some((batch, changes)) = of.poll_changes() {
            changes.into_iter().for_each(|change| backup.take(change));
            last = batch;
        }
        of.replicated(last);
        self.pass(0);
    }

    pub(crate) fn restart_shard(&mut self, shard: u32) {
        let old = &self.shards[shard as usize];
        let next = Incarnation(old.incarnation().0 + 1);
        self.shards[shard as usize] = Shard::new(ShardId(shard), next, self.switches, self.limits);
    }

    /// The shard starts anew, with a part of what it had.
    pub(crate) fn restart_shard_with(&mut self, shard: u32, survives: Survives) {
        let now = self.now;
        let shard = &mut self.shards[shard as usize];
        let next = Incarnation(shard.incarnation().0 + 1);
        shard.restart(now, next, survives);
        shard.check_invariants();
    }

    pub(crate) fn collect(&mut self) {
        let link = Link { session: self.session.id(), connection: self.connection };
        for shard in &mut self.shards {
            while let Some(output) = shard.poll_output() {
                let body = match output {
                    Output::Respond { session, response } => Body::Response(shard.id(), session, response),
                    Output::Tell { shard, message } => Body::Peer(shard, message),
                };
                self.bag.push(Message { link, body });
            }
            shard.check_invariants();
        }
        for member in &mut self.members {
            member.coordinator.check_invariants();
            while let Some((shard, request)) = member.coordinator.poll_send() {
                self.bag.push(Message { link, body: Body::Request(shard, request) });
            }
            while let Some(event) = member.coordinator.poll_event() {
                member.events.push(event);
            }
        }
    }

    /// Nobody holds or waits for anything anywhere.
    pub(crate) fn assert_quiet(&self) {
        for shard in &self.shards {
            assert_eq!(shard.open_attempts(), 0, "open attempts at {}", shard.id());
            assert_eq!(shard.locked_records(), 0, "locked records at {}", shard.id());
        }
    }
}

// --- operations ---

pub(crate) fn get() -> Operation {
    Operation::new::<Counter>(CounterOp::Get)
}

pub(crate) fn incr(by: i64) -> Operation {
    Operation::new::<Counter>(CounterOp::Add(by))
}

pub(crate) fn incr_returning(by: i64) -> Operation {
    Operation::new::<Counter>(CounterOp::AddReturning(by))
}

pub(crate) fn set(value: &str) -> Operation {
    Operation::new::<Register>(RegisterOp::Set(value.into()))
}

pub(crate) fn sadd(member: &str) -> Operation {
    Operation::new::<Set>(SetOp::Add([Bytes::from(member)].into_iter().collect()))
}

pub(crate) fn sadd_returning(member: &str) -> Operation {
    Operation::new::<Set>(SetOp::AddReturning([Bytes::from(member)].into_iter().collect()))
}

pub(crate) fn sismember(member: &str) -> Operation {
    Operation::new::<Set>(SetOp::Contains(member.into()))
}

pub(crate) fn scard() -> Operation {
    Operation::new::<Set>(SetOp::Len)
}
