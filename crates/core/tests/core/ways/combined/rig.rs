//! Client processes and two shards, joined by first-in-first-out links that the test empties when it likes.
//! A key's last digit places it: odd keys on shard 0, even ones on shard 1.

#![allow(unreachable_pub, reason = "of this folder alone")]

use std::collections::{BTreeMap, VecDeque};

use claret_core::message::{Link, Output, Refusal, Request, Response};
use claret_core::ways::{ProcessWay, WaySwitches};
use claret_core::{
    AttemptId, CallNo, Cause, Client, Event, Incarnation, Limits, Ordered, SessionId, Shard, ShardId,
    Switches, Time, TxHandle,
};
use claret_types::{Bytes, Counter, CounterOp, Operation, Reply, Set, SetOp};

/// A transaction and its process.
pub type Who = (usize, TxHandle);

/// Everybody combines.
pub const COMBINING: Switches = Switches::in_process_by(ProcessWay::Combined);
/// The same over a network.
pub const COMBINING_FAR: Switches =
    Switches::over_network_by(ProcessWay::Combined, Ordered::Never, WaySwitches::ROUNDS);

const SHARDS: u32 = 2;

pub struct Rig {
    pub now: Time,
    pub limits: Limits,
    pub clients: Vec<Client>,
    pub shards: Vec<Shard>,
    /// On their way to shards, by (client, shard).
    pub requests: BTreeMap<(usize, usize), VecDeque<Request>>,
    /// On their way back, by (shard, client).
    pub responses: BTreeMap<(usize, usize), VecDeque<Response>>,
    pub events: BTreeMap<Who, Vec<Event>>,
    /// The attempts that transactions are at, but the first.
    pub attempts: BTreeMap<Who, u32>,
    /// Everything that was ever delivered to a shard.
    pub sent: Vec<(usize, Request)>,
    /// When each attempt was decided to commit, in the order of decisions: by the shard if it is the only
    /// participant, else by the coordinator.
    pub decided: BTreeMap<AttemptId, u64>,
    decisions: u64,
}

impl Rig {
    pub fn new(clients: u64) -> Self {
        Rig::with(clients, COMBINING)
    }

    pub fn with(clients: u64, switches: Switches) -> Self {
        let limits = Limits::default();
        let client = |id| Client::direct(SessionId(id), switches, limits, SHARDS);
        let shard = |id| Shard::new(ShardId(id), Incarnation(1), switches, limits);
        Rig {
            now: Time(0),
            limits,
            clients: (0..clients).map(client).collect(),
            shards: (0..SHARDS).map(shard).collect(),
            requests: BTreeMap::new(),
            responses: BTreeMap::new(),
            events: BTreeMap::new(),
            attempts: BTreeMap::new(),
            sent: Vec::new(),
            decided: BTreeMap::new(),
            decisions: 0,
        }
    }

    // --- what the application does ---

    pub fn begin(&mut self, client: usize) -> Who {
        (client, self.clients[client].begin(self.now, 7))
    }

    /// Of which attempt its calls are.
    pub fn at(&self, who: Who) -> (TxHandle, u32) {
        (who.1, self.attempts.get(&who).copied().unwrap_or(1))
    }

    /// The call's number; one beyond all where it ends the attempt, or comes when that is over.
    pub fn execute(&mut self, who: Who, key: &str, op: Operation) -> CallNo {
        let (place, tx) = (place(key), self.at(who));
        let no = self.clients[who.0].execute(self.now, tx, place, op, None);
        self.drain(who.0);
        no.unwrap_or(CallNo(u32::MAX))
    }

    pub fn buffer(&mut self, who: Who, key: &str, op: Operation) -> CallNo {
        let (place, tx) = (place(key), self.at(who));
        let no = self.clients[who.0].buffer(self.now, tx, place, op);
        self.drain(who.0);
        no.unwrap_or(CallNo(u32::MAX))
    }

    pub fn commit(&mut self, who: Who) {
        // Where the attempt is over, an event has told of it.
        let tx = self.at(who);
        let _ = self.clients[who.0].commit(self.now, tx);
        self.drain(who.0);
    }

    pub fn abort(&mut self, (at, tx): Who) {
        self.clients[at].abort(self.now, tx);
        self.drain(at);
    }

    pub fn restart(&mut self, who: Who) {
        let ended = self.at(who);
        self.clients[who.0].restart(self.now, ended).expect("it was told to");
        self.attempts.insert(who, ended.1 + 1);
        self.drain(who.0);
    }

    /// Commits one operation on its own.
    pub fn seed(&mut self, key: &str, op: Operation) {
        let tx = self.begin(0);
        self.buffer(tx, key, op);
        self.commit(tx);
        self.pump();
        assert!(self.committed(tx));
        self.sent.clear();
    }

    // --- the network and the clock ---

    /// Whether somebody is told that he committed.
    fn drain(&mut self, at: usize) -> bool {
        let client = &mut self.clients[at];
        client.check_invariants();
        client.settle(self.now);
        while let Some((shard, request)) = client.poll_send() {
            self.requests.entry((at, shard.0 as usize)).or_default().push_back(request);
        }
        let mut is_committed = false;
        while let Some((tx, event)) = client.poll_event() {
            is_committed |= matches!(event, Event::Committed { .. });
            self.events.entry((at, tx)).or_default().push(event);
        }
        is_committed
    }

    /// Delivers the next request of a link. Returns whether there was one.
    pub fn deliver_request(&mut self, (from, to): (usize, usize)) -> bool {
        let Some(request) = self.requests.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        self.sent.push((to, request.clone()));
        let shard = &mut self.shards[to];
        shard.handle(self.now, Link { session: SessionId(from as u64), connection: 0 }, request);
        shard.check_invariants();
        while let Some(output) = shard.poll_output() {
            let Output::Respond { session, response } = output else { panic!("nobody recovers here") };
            if let Response::Committed { attempt, .. } = &response {
                self.decisions += 1;
                self.decided.entry(*attempt).or_insert(self.decisions);
            }
            self.responses.entry((to, session.0 as usize)).or_default().push_back(response);
        }
        true
    }

    /// Delivers the next response of a link.
    pub fn deliver_response(&mut self, (from, to): (usize, usize)) -> Option<Response> {
        let response = self.responses.get_mut(&(from, to)).and_then(VecDeque::pop_front)?;
        self.clients[to].handle_response(self.now, ShardId(from as u32), response.clone());
        if self.drain(to) {
            self.decisions += 1;
            if let Some(attempt) = response.attempt() {
                self.decided.entry(attempt).or_insert(self.decisions);
            }
        }
        Some(response)
    }

    /// Lets time pass, and delivers nothing.
    pub fn tick(&mut self, micros: u64) {
        self.now = self.now.plus(micros);
        for at in 0..self.clients.len() {
            self.clients[at].handle_timeout(self.now);
            self.drain(at);
        }
        for shard in &mut self.shards {
            shard.handle_timeout(self.now);
        }
    }

    /// Delivers all requests, and no response.
    pub fn deliver_requests(&mut self) {
        let links: Vec<_> = self.requests.keys().copied().collect();
        for link in links {
            while self.deliver_request(link) {}
        }
    }

    /// Delivers everything.
    pub fn pump(&mut self) {
        for session in (0..self.clients.len()).cycle().take(64 * self.clients.len()) {
            self.pump_session(session);
        }
    }

    /// Delivers everything of one client.
    pub fn pump_session(&mut self, session: usize) {
        loop {
            let mut moved = false;
            for shard in 0..self.shards.len() {
                moved |= self.deliver_request((session, shard));
                moved |= self.deliver_response((shard, session)).is_some();
            }
            if !moved {
                return;
            }
        }
    }

    /// Lets time pass for everybody, and delivers what comes of it.
    pub fn advance(&mut self, micros: u64) {
        self.tick(micros);
        self.pump();
    }

    // --- what the application hears ---

    pub fn last(&self, tx: Who) -> Option<&Event> {
        self.events.get(&tx)?.last()
    }

    pub fn answers(&self, tx: Who) -> Vec<Reply> {
        let events = self.events.get(&tx).into_iter().flatten();
        events
            .filter_map(|event| match event {
                Event::Answer { reply, .. } => Some(reply.clone()),
                _ => None,
            })
            .collect()
    }

    pub fn committed(&self, tx: Who) -> bool {
        matches!(self.last(tx), Some(Event::Committed { .. }))
    }

    pub fn committed_replies(&self, tx: Who) -> Vec<(CallNo, Reply)> {
        let Some(Event::Committed { replies }) = self.last(tx) else { panic!("{:?}", self.last(tx)) };
        replies.clone()
    }

    pub fn restarted(&self, tx: Who) -> Option<Cause> {
        let Some(Event::Restart { cause }) = self.last(tx) else { return None };
        Some(cause.clone())
    }

    pub fn failed(&self, tx: Who) -> Option<&Refusal> {
        let Some(Event::Failed { refusal }) = self.last(tx) else { return None };
        Some(refusal)
    }

    // --- what the shards hold ---

    pub fn set(&self, key: &str) -> Vec<String> {
        let Some(state) = self.shards[shard_of(key)].state(key.as_bytes()) else { return Vec::new() };
        let members = state.downcast::<Set>().expect("a set").sorted();
        members.into_iter().map(Bytes::to_string).collect()
    }

    pub fn number(&self, key: &str) -> i64 {
        let state = self.shards[shard_of(key)].state(key.as_bytes());
        state.map_or(0, |state| state.downcast::<Counter>().expect("a number").as_int().expect("a number"))
    }

    pub fn assert_unlocked(&self) {
        for shard in &self.shards {
            assert_eq!((shard.locked_records(), shard.open_attempts()), (0, 0));
        }
    }

    /// Every transaction is over, and nothing of any is left.
    pub fn assert_quiet(&self) {
        self.assert_unlocked();
        for client in &self.clients {
            assert!(client.is_over(), "{client:#?}");
            assert_eq!(client.poll_timeout(), None);
        }
    }
}

/// The slot of a key, and the key: each shard has one.
pub fn place(key: &str) -> (u16, Bytes) {
    (shard_of(key) as u16, key.into())
}

pub fn shard_of(key: &str) -> usize {
    let digit = key.bytes().last().expect("a key");
    usize::from(digit.is_multiple_of(2))
}

pub fn add(member: &str) -> Operation {
    Operation::new::<Set>(SetOp::Add(vec![Bytes::from(member)].into()))
}

pub fn remove(member: &str) -> Operation {
    Operation::new::<Set>(SetOp::Remove(vec![Bytes::from(member)].into()))
}

pub fn contains(member: &str) -> Operation {
    Operation::new::<Set>(SetOp::Contains(member.into()))
}

pub fn count() -> Operation {
    Operation::new::<Set>(SetOp::Len)
}

pub fn members() -> Operation {
    Operation::new::<Set>(SetOp::Members)
}

pub fn incr(amount: i64, returning: bool) -> Operation {
    Operation::new::<Counter>(match returning {
        true => CounterOp::AddReturning(amount),
        false => CounterOp::Add(amount),
    })
}

pub fn get() -> Operation {
    Operation::new::<Counter>(CounterOp::Get)
}

pub fn int(value: i64) -> Reply {
    Reply::Int(value)
}
