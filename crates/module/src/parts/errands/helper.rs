//! A helper: the client process of one user's errands, and its connections to shards, over which letters go.

use std::collections::BTreeMap;

use claret_core::message::{Link, Request};
use claret_core::{CallNo, Client, Event, Node, SessionId, ShardId, SlotRange, Time, TxHandle};
use claret_planted::{Bug, is_planted};
use claret_types::Reply;
use hashbrown::HashMap;

use crate::ffi::Blocked;
use crate::parts::error::Error;
use crate::parts::letters::{Letter, Says};
use crate::parts::one_shots::{Calls, Ended, in_their_order};
use crate::parts::owner::Name;
use crate::parts::slots::{Place, slot_of};

/// A connection on which nothing was answered for so long, in microseconds, is over (E4).
const SILENCE_US: u64 = 1_000_000;

/// One that has not ended.
struct Errand {
    calls: Calls,
    /// Where it is a transaction; `None` until every node that has its keys has said welcome.
    tx: Option<TxHandle>,
    attempt: u32,
    /// What was answered before the commit.
    answers: Vec<(CallNo, Reply)>,
    client: Option<Blocked>,
    /// How long its client waits.
    until: Time,
    patience_us: u64,
    /// It is to be aborted, and this is why.
    aborted_for: Option<Error>,
}

/// A connection to a shard.
struct Connection {
    node: Node,
    /// Slots that it has.
    ranges: Vec<(u16, u16)>,
    number: u32,
    /// The shard, once it said welcome.
    shard: Option<ShardId>,
    /// When hello was said; `None`: it is to be said.
    hello_at: Option<Time>,
    /// Frames that were sent, and those that were answered.
    sent: u32,
    answered: u32,
}

/// See the module's text.
pub(super) struct Helper {
    session: SessionId,
    client: Client,
    connections: Vec<Connection>,
    /// The number of the newest connection.
    newest: u32,
    /// By their numbers, in their order.
    open: BTreeMap<u64, Errand>,
    /// Those that are transactions.
    numbers: HashMap<TxHandle, u64, foldhash::fast::FixedState>,
    /// Something went in since the last letters left.
    is_stirred: bool,
    used_at: Time,
}

/// Errands that ended, with their clients.
pub(super) type AllEnded = Vec<(u64, Option<Blocked>, Ended)>;

impl Helper {
    pub(super) fn new(session: SessionId, client: Client) -> Self {
        Helper {
            session,
            client,
            connections: Vec::new(),
            newest: 0,
            open: BTreeMap::new(),
            numbers: HashMap::default(),
            is_stirred: true,
            used_at: Time(0),
        }
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    pub(super) fn is_stirred(&self) -> bool {
        self.is_stirred
    }

    /// When something is due, also at a connection.
    pub(super) fn due(&self) -> Option<Time> {
        let waits = self.connections.iter().filter(|it| it.shard.is_none()).filter_map(|it| it.hello_at);
        let hellos = waits.map(|since| since.plus(SILENCE_US));
        self.client.poll_timeout().into_iter().chain(hellos).min()
    }

    pub(super) fn take_doubt(&mut self) -> bool {
        self.client.take_doubt()
    }
}

/// Errands.
impl Helper {
    pub(super) fn begin(&mut self, now: Time, number: u64, calls: Calls, patience_us: u64) {
        let errand = Errand {
            calls,
            tx: None,
            attempt: 0,
            answers: Vec::new(),
            client: None,
            until: now.plus(patience_us),
            patience_us,
            aborted_for: None,
        };
        self.open.insert(number, errand);
        (self.is_stirred, self.used_at) = (true, now);
    }

    /// Begins what all nodes that it needs are there for.
    fn begin_those_that_can(&mut self, now: Time) {
        let is_welcome = |slot| {
            let connection = self.connections.iter().find(|it| it.has(slot));
            connection.is_some_and(|it| self.client.shard_at(&it.node).is_some())
        };
        let can = |errand: &Errand| {
            let are_there = || errand.calls.iter().all(|(key, _)| is_welcome(slot_of(key)));
            errand.tx.is_none() && (are_there() || is_planted(Bug::ErrandBeginsEarly))
        };
        let begun: Vec<u64> =
            self.open.iter().filter(|(_, errand)| can(errand)).map(|(number, _)| *number).collect();
        for number in begun {
            let tx = self.client.begin(now, now.0);
            self.numbers.insert(tx, number);
            if let Some(errand) = self.open.get_mut(&number) {
                errand.tx = Some(tx);
            }
            self.commit(now, number);
        }
    }

    /// The next attempt of one: all its calls, and the commit.
    fn commit(&mut self, now: Time, number: u64) {
        let Some(errand) = self.open.get_mut(&number) else { return };
        let Some(tx) = errand.tx else { return };
        errand.attempt += 1;
        let calls = errand.calls.iter().map(|(key, op)| ((slot_of(key), key.clone()), op.clone()));
        // Of an attempt that does not run an event tells.
        let run = (tx, errand.attempt);
        if self.client.buffer_all(now, run, calls).is_ok() {
            let _ = self.client.commit(now, run);
        }
    }

    /// Its client waits from now on. Whether it is one of this helper's.
    pub(super) fn wait(&mut self, number: u64, client: Blocked) -> bool {
        self.open.get_mut(&number).is_some_and(|errand| errand.client.replace(client).is_none())
    }

    /// The client of one is gone. Whether it was one of this helper's.
    pub(super) fn give_up(&mut self, now: Time, client: Blocked) -> bool {
        let is_its = |errand: &Errand| errand.client == Some(client) && !is_planted(Bug::GiverGoneWaits);
        let found = self.open.iter().find(|(_, errand)| is_its(errand));
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        if let Some(tx) = self.open.remove(&number).and_then(|errand| errand.tx) {
            self.numbers.remove(&tx);
            self.client.abandon(now, tx);
        }
        self.is_stirred = true;
        true
    }

    /// Whose time is over is aborted, and is unknown if nobody says for as long again what became of it.
    pub(super) fn expire(&mut self, now: Time, ended: &mut AllEnded) {
        let late: Vec<u64> =
            self.open.iter().filter(|(_, errand)| errand.until <= now).map(|(number, _)| *number).collect();
        for number in late {
            self.is_stirred = true;
            let Some(errand) = self.open.get_mut(&number) else { continue };
            let patience = errand.patience_us;
            match (errand.tx, &errand.aborted_for) {
                (Some(_), None) => {
                    errand.until = now.plus(patience);
                    self.abort(now, number, Error::LocksNotFree(patience / 1_000));
                }
                (Some(tx), Some(_)) => {
                    self.client.abandon(now, tx);
                    self.end(number, Err(Error::ErrandUnknown), ended);
                }
                (None, _) => {
                    let node = self.connections.iter().find(|it| self.client.shard_at(&it.node).is_none());
                    let node = node.map(|it| it.node.to_string()).unwrap_or_default();
                    self.end(number, Err(Error::NodeSilent(node)), ended);
                }
            }
        }
    }

    fn abort(&mut self, now: Time, number: u64, why: Error) {
        if let Some(errand) = self.open.get_mut(&number) {
            errand.aborted_for.get_or_insert(why);
            if let Some(tx) = errand.tx {
                self.client.abort(now, tx);
            }
        }
    }

    fn end(&mut self, number: u64, end: Ended, ended: &mut AllEnded) {
        if let Some(errand) = self.open.remove(&number) {
            if let Some(tx) = errand.tx {
                self.numbers.remove(&tx);
            }
            ended.push((number, errand.client, end));
        }
    }

    /// Does what is due and what follows from what went in.
    pub(super) fn go_on(&mut self, now: Time, ended: &mut AllEnded) {
        for at in 0..self.connections.len() {
            self.see_whether_it_is_silent(now, at);
        }
        self.begin_those_that_can(now);
        self.client.handle_timeout(now);
        self.client.settle(now);
        while let Some((tx, event)) = self.client.poll_event() {
            if let Some(number) = self.numbers.get(&tx).copied() {
                self.take(now, (number, tx), event, ended);
            }
            self.client.settle(now);
        }
        // Letters are written for all connections anyway.
        while self.client.poll_ready().is_some() {}
        self.is_stirred = false;
    }

    fn take(&mut self, now: Time, (number, tx): (u64, TxHandle), event: Event, ended: &mut AllEnded) {
        let Some(errand) = self.open.get_mut(&number) else { return };
        let end = match event {
            Event::Answer { no, reply } => return errand.answers.push((no, reply)),
            Event::Restart { .. } => {
                let over = (tx, errand.attempt);
                errand.answers.clear();
                if self.client.restart(now, over).is_ok() {
                    self.commit(now, number);
                }
                return;
            }
            Event::Committed { replies } => {
                let answers = errand.answers.drain(..).chain(replies);
                Ok(in_their_order(0, errand.calls.len(), answers))
            }
            Event::Aborted => Err(errand.aborted_for.take().unwrap_or(Error::KeyHeld)),
            Event::Failed { refusal } => Err(Error::Refused(refusal)),
            Event::Unknown => Err(Error::ErrandUnknown),
            Event::Behind { .. } | Event::Seen { .. } => return,
        };
        self.used_at = now;
        self.end(number, end, ended);
    }

    /// All that are open, with their clients.
    pub(super) fn end_all(&mut self, ended: &mut AllEnded) {
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.end(number, Err(Error::ErrandUnknown), ended);
        }
    }

    /// Whether it has had nothing to do for so long.
    pub(super) fn is_idle(&self, now: Time, for_us: u64) -> bool {
        self.open.is_empty() && self.client.is_over() && now.since(self.used_at) >= for_us
    }
}

/// Connections.
impl Helper {
    /// Where keys are: there are connections to all primaries.
    pub(super) fn adopt(&mut self, now: Time, places: &[Place]) {
        let ranges = places.iter().flat_map(|place| {
            let node: Node = place.node.as_str().into();
            let range = move |(first, last): &(u16, u16)| SlotRange {
                first: *first,
                last: *last,
                node: Node::clone(&node),
            };
            place.ranges.iter().map(range)
        });
        self.client.adopt(now, ranges.collect());
        let is_there = |node: &Node| places.iter().any(|place| *place.node == **node);
        for gone in self.connections.extract_if(.., |it| !is_there(&it.node)) {
            if let Some(shard) = gone.shard {
                self.client.disconnected(shard, gone.number);
            }
            self.client.part_with(now, &gone.node);
        }
        for place in places {
            let ranges = place.ranges.clone();
            match self.connections.iter_mut().find(|it| *it.node == *place.node) {
                Some(known) => known.ranges = ranges,
                None => self.connections.push(Connection::new(place.node.as_str().into(), ranges)),
            }
        }
        self.is_stirred = true;
    }

    /// A connection is over: hello is to be said again.
    fn end_connection(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        if let Some(shard) = connection.shard.take() {
            self.client.disconnected(shard, connection.number);
        }
        (connection.hello_at, connection.sent, connection.answered) = (None, 0, 0);
        self.is_stirred = true;
    }

    fn see_whether_it_is_silent(&mut self, now: Time, at: usize) {
        let connection = &self.connections[at];
        let since = match connection.shard {
            Some(shard) => self.client.owes_since(shard, connection.number),
            None => connection.hello_at,
        };
        if since.is_some_and(|since| now.since(since) >= SILENCE_US) && !is_planted(Bug::SilenceBorne) {
            self.end_connection(at);
        }
    }

    /// A letter of a shard.
    pub(super) fn hear(&mut self, now: Time, from: &str, letter: Letter, ended: &mut AllEnded) {
        let Letter { link, says } = letter;
        let is_newest =
            |it: &Connection| it.number == link.connection || is_planted(Bug::EarlierConnectionHeard);
        let is_it = |it: &Connection| *it.node == *from && is_newest(it);
        // Of an earlier connection nothing counts.
        let Some(at) = self.connections.iter().position(is_it) else { return };
        self.is_stirred = true;
        let connection = &mut self.connections[at];
        match says {
            Says::Welcome { shard, incarnation, lease_us } if connection.shard.is_none() => {
                (connection.shard, connection.hello_at) = (Some(shard), None);
                let (node, number) = (Node::clone(&connection.node), connection.number);
                self.client.connected(now, number, &node, (shard, incarnation), lease_us);
            }
            Says::Answers { answered, responses } => {
                let is_known = (connection.answered..=connection.sent).contains(&answered);
                let Some(shard) = connection.shard.filter(|_| is_known) else {
                    return self.end_connection(at);
                };
                let frames = answered - connection.answered;
                connection.answered = answered;
                let from = (shard, link.connection);
                self.client.deliver(now, from, frames as usize, responses.into_iter());
            }
            Says::Over => self.end_connection(at),
            Says::NoUser => self.is_unknown_at(now, at, ended),
            Says::Welcome { .. } | Says::Hello { .. } | Says::Asks { .. } => {}
        }
    }

    /// The user is not known at a node: whoever has keys there waits in vain. It is asked again when it was silent for as long as any other.
    fn is_unknown_at(&mut self, now: Time, at: usize, ended: &mut AllEnded) {
        let connection = &mut self.connections[at];
        connection.hello_at = Some(now);
        let is_there = |errand: &Errand| errand.calls.iter().any(|(key, _)| connection.has(slot_of(key)));
        let there: Vec<(u64, bool)> = self
            .open
            .iter()
            .filter(|(_, errand)| is_there(errand))
            .map(|(number, errand)| (*number, errand.tx.is_some()))
            .collect();
        let why = Error::NoUserThere(connection.node.to_string());
        for (number, has_begun) in there {
            match has_begun {
                true => self.abort(now, number, why.clone()),
                false => self.end(number, Err(why.clone()), ended),
            }
        }
    }

    /// Writes what is to leave now.
    pub(super) fn write(&mut self, now: Time, user: &Name, letters: &mut Vec<(String, Letter)>) {
        let session = self.session;
        let letter = |connection: &Connection, says| {
            let link = Link { session, connection: connection.number };
            (connection.node.to_string(), Letter { link, says })
        };
        for connection in &mut self.connections {
            if connection.shard.is_none() && connection.hello_at.is_none() {
                self.newest += 1;
                (connection.number, connection.hello_at) = (self.newest, Some(now));
                letters.push(letter(connection, Says::Hello { user: user.clone() }));
            }
            let Some(shard) = connection.shard else { continue };
            loop {
                let mut requests: Vec<Request> = Vec::new();
                self.client.take(shard, connection.number, &mut requests);
                if requests.is_empty() {
                    break;
                }
                connection.sent += 1;
                letters.push(letter(connection, Says::Asks { number: connection.sent, requests }));
            }
        }
    }

    /// Tells the shards that the session ends.
    pub(super) fn say_goodbye(self, letters: &mut Vec<(String, Letter)>) {
        for connection in self.connections.iter().filter(|it| it.shard.is_some()) {
            let link = Link { session: self.session, connection: connection.number };
            letters.push((connection.node.to_string(), Letter { link, says: Says::Over }));
        }
    }
}

impl Connection {
    fn new(node: Node, ranges: Vec<(u16, u16)>) -> Self {
        Connection { node, ranges, number: 0, shard: None, hello_at: None, sent: 0, answered: 0 }
    }

    fn has(&self, slot: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (first..=last).contains(&&slot))
    }
}
