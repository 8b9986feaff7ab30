//! A helper: the client process of one user's errands, and its connections to shards, over which letters go.

use std::collections::BTreeMap;

use claret_core::message::{Link, Request};
use claret_core::{
    CallNo, Cause, Client, Closed, Event, Incarnation, Node, Pipeline, SessionId, ShardId, SlotRange, Time,
    TxHandle, wire,
};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Operation, Reply};
use hashbrown::HashMap;

use super::New;
use super::once::{Earlier, Once};
use crate::ffi::Blocked;
use crate::parts::error::Error;
use crate::parts::letters::{Letter, Says};
use crate::parts::one_shots::{Calls, Ended, in_their_order};
use crate::parts::owner::Name;
use crate::parts::slots::{Place, slot_of};

/// A connection on which nothing was answered for so long, in microseconds, is over (E4).
const SILENCE_US: u64 = 1_000_000;

/// A frame ends once it is longer than this: letters share the links on which servers watch each other.
const FRAME_BYTES: usize = 64 * 1024;

/// The shortest and the longest pause before what a shard refused for its own sake is tried again, in microseconds.
const PAUSE_US: (u64, u64) = (1_000, 100_000);

/// One that has not ended.
struct Errand {
    calls: Calls,
    /// It is done at most once (E11).
    once: Option<Once>,
    /// Where it is a transaction; `None` until every node that has its keys has said welcome.
    tx: Option<TxHandle>,
    attempt: u32,
    /// When the next attempt begins, after one that a shard refused.
    again_at: Option<Time>,
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
    /// The shard, once it said welcome, and what was sent to it.
    shard: Option<ShardId>,
    pipeline: Pipeline,
    /// When hello was said; `None`: it is to be said.
    hello_at: Option<Time>,
    /// Frames that were sent, and those that were answered.
    sent: u32,
    answered: u32,
}

impl Errand {
    /// How many of its calls are answered.
    fn answered(&self) -> usize {
        self.calls.iter().filter(|(_, op)| op.returns()).count()
    }
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
    /// No errand begins again before.
    again_at: Option<Time>,
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
            again_at: None,
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

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// When something is due, also at a connection. O(connections): it is asked with every command of the node.
    pub(super) fn due(&self) -> Option<Time> {
        let waits = self.connections.iter().filter(|it| it.shard.is_none()).filter_map(|it| it.hello_at);
        let hellos = waits.map(|since| since.plus(SILENCE_US));
        self.client.poll_timeout().into_iter().chain(hellos).chain(self.again_at).min()
    }

    pub(super) fn take_doubt(&mut self) -> bool {
        self.client.take_doubt()
    }
}

/// Errands.
impl Helper {
    pub(super) fn begin(&mut self, now: Time, number: u64, new: New<'_>) {
        let New { calls, once, patience_us, .. } = new;
        let errand = Errand {
            calls,
            once,
            tx: None,
            attempt: 0,
            again_at: None,
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
        let is_again = |errand: &Errand| errand.again_at.is_some_and(|at| at <= now);
        let again: Vec<u64> =
            self.open.iter().filter(|(_, errand)| is_again(errand)).map(|(number, _)| *number).collect();
        for number in again {
            self.begin_again(now, number);
        }
        for number in begun {
            let tx = self.client.begin(now, now.0);
            self.numbers.insert(tx, number);
            if let Some(errand) = self.open.get_mut(&number) {
                errand.tx = Some(tx);
            }
            self.commit(now, number);
        }
    }

    fn begin_again(&mut self, now: Time, number: u64) {
        let Some(errand) = self.open.get_mut(&number) else { return };
        errand.again_at = None;
        if let Some(tx) = errand.tx
            && self.client.restart(now, (tx, errand.attempt)).is_ok()
        {
            self.commit(now, number);
        }
    }

    /// The next attempt of one: all its calls, and the commit.
    fn commit(&mut self, now: Time, number: u64) {
        let Some(errand) = self.open.get_mut(&number) else { return };
        let Some(tx) = errand.tx else { return };
        errand.attempt += 1;
        // Of an attempt that does not run an event tells.
        let run = (tx, errand.attempt);
        if errand.once.is_some() {
            let _ = execute(&mut self.client, now, run, &errand.calls[..Once::BEFORE]);
            return;
        }
        let calls = errand.calls.iter().map(|(key, op)| ((slot_of(key), key.clone()), op.clone()));
        if self.client.buffer_all(now, run, calls).is_ok() {
            let _ = self.client.commit(now, run);
        }
    }

    /// One that is done once has heard an answer: it ends as an earlier one did; or it executes its calls, and commits once all are
    /// answered, with the answers.
    fn go_on_once(&mut self, now: Time, number: u64, ended: &mut AllEnded) {
        let Some(errand) = self.open.get_mut(&number) else { return };
        let (Some(once), Some(tx), None) = (&errand.once, errand.tx, &errand.aborted_for) else { return };
        let heard = |at| errand.answers.iter().find(|(no, _)| no.0 == at).map(|(_, reply)| reply);
        let earlier = once.earlier(heard(0), heard(1));
        let run = (tx, errand.attempt);
        // Of an attempt that does not run an event tells.
        if matches!(earlier, Earlier::None)
            && errand.answers.len() == Once::BEFORE
            && execute(&mut self.client, now, run, &errand.calls[Once::BEFORE..]).is_err()
        {
            return;
        }
        match earlier {
            Earlier::Answered(end) => {
                self.client.abandon(now, tx);
                self.end(number, end, ended);
            }
            Earlier::None if errand.answers.len() == errand.answered() => {
                let answers = in_their_order(0, errand.calls.len(), errand.answers.iter().cloned());
                match once.keep(&answers[Once::BEFORE..]) {
                    Ok((key, op)) => {
                        let is_kept = is_planted(Bug::OnceAnswersUnkept)
                            || self.client.buffer(now, run, (slot_of(&key), key), op).is_ok();
                        if is_kept {
                            let _ = self.client.commit(now, run);
                        }
                    }
                    Err(why) => self.abort(now, number, why),
                }
            }
            Earlier::None | Earlier::Unheard => {}
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
                    let has_keys = |it: &Connection| errand.calls.iter().any(|(key, _)| it.has(slot_of(key)));
                    let is_silent =
                        |it: &&Connection| self.client.shard_at(&it.node).is_none() && has_keys(it);
                    let silent = self.connections.iter().find(is_silent).map(|it| it.node.to_string());
                    let why = silent.map_or(Error::NotReady, Error::NodeSilent);
                    self.end(number, Err(why), ended);
                }
            }
        }
    }

    fn abort(&mut self, now: Time, number: u64, why: Error) {
        if let Some(errand) = self.open.get_mut(&number) {
            errand.aborted_for.get_or_insert(why);
            errand.again_at = None;
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
                self.take(now, number, event, ended);
            }
            self.client.settle(now);
        }
        self.again_at = self.open.values().filter_map(|errand| errand.again_at).min();
        // Letters are written for all connections anyway.
        while self.client.poll_ready().is_some() {}
        self.is_stirred = false;
    }

    fn take(&mut self, now: Time, number: u64, event: Event, ended: &mut AllEnded) {
        let Some(errand) = self.open.get_mut(&number) else { return };
        let end = match event {
            Event::Answer { no, reply } => {
                errand.answers.push((no, reply));
                return self.go_on_once(now, number, ended);
            }
            Event::Restart { cause } => {
                errand.answers.clear();
                match pause_after(&cause, number, errand.attempt) {
                    Some(pause) => errand.again_at = Some(now.plus(pause)),
                    None => self.begin_again(now, number),
                }
                return;
            }
            Event::Committed { replies } => {
                let answers = errand.answers.drain(..).chain(replies);
                let mut answers = in_their_order(0, errand.calls.len(), answers);
                answers.drain(..errand.once.as_ref().map_or(0, |_| Once::BEFORE));
                Ok(answers)
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
        let all = self.open.iter().map(|(number, errand)| (*number, errand.tx.is_some()));
        for (number, has_begun) in all.collect::<Vec<_>>() {
            let why = if has_begun { Error::ErrandUnknown } else { Error::NotReady };
            self.end(number, Err(why), ended);
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
                connection.pipeline = Pipeline::with_frames_of(shard, incarnation, FRAME_BYTES);
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
                let are_known = (0..frames).all(|_| connection.pipeline.taken().is_ok());
                debug_assert!(are_known, "what was sent is in the pipeline");
                let from = (shard, link.connection);
                self.client.deliver(now, from, frames as usize, responses.into_iter());
            }
            Says::Refuses { number, reason } => {
                let Some(shard) = connection.shard.filter(|_| number == connection.answered + 1) else {
                    return self.end_connection(at);
                };
                connection.answered = number;
                let response = connection.pipeline.refused(&reason).ok().flatten();
                self.client.deliver(now, (shard, link.connection), 1, response.into_iter());
            }
            // It was there.
            Says::Over if connection.shard.is_some() => self.end_connection(at),
            // It is not let in now: as who is silent.
            Says::Over => connection.hello_at = connection.hello_at.and(Some(now)),
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
            // Who never had keys is no shard.
            let is_wanted =
                |it: &Connection| !it.ranges.is_empty() || self.client.shard_at(&it.node).is_some();
            if connection.shard.is_none() && connection.hello_at.is_none() && is_wanted(connection) {
                self.newest += 1;
                (connection.number, connection.hello_at) = (self.newest, Some(now));
                letters.push(letter(connection, Says::Hello { user: user.clone() }));
            }
            let Some(shard) = connection.shard else { continue };
            loop {
                let mut requests: Vec<Request> = connection.pipeline.spare();
                self.client.take(shard, connection.number, &mut requests);
                if requests.is_empty() && !connection.pipeline.has_suspects() {
                    break;
                }
                let counted = usize::from(!requests.is_empty());
                let mut frames = Vec::new();
                let send = |_: &[Request], frame: &[u8]| frames.push(frame.to_vec());
                let count = connection.pipeline.write(requests, wire::append_request, send);
                self.client.add_frames(now, shard, connection.number, count - counted);
                for frame in frames {
                    connection.sent += 1;
                    letters.push(letter(connection, Says::Asks { number: connection.sent, frame }));
                }
            }
        }
    }

    /// Tells the shards that the session ends.
    pub(super) fn say_goodbye(self, letters: &mut Vec<(String, Letter)>) {
        for connection in self.connections.iter().filter(|it| it.number > 0) {
            let link = Link { session: self.session, connection: connection.number };
            letters.push((connection.node.to_string(), Letter { link, says: Says::Over }));
        }
    }
}

impl Connection {
    fn new(node: Node, ranges: Vec<(u16, u16)>) -> Self {
        let pipeline = Pipeline::with_frames_of(ShardId(0), Incarnation(0), FRAME_BYTES);
        Connection { node, ranges, number: 0, shard: None, pipeline, hello_at: None, sent: 0, answered: 0 }
    }

    fn has(&self, slot: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (first..=last).contains(&&slot))
    }
}

/// Executes calls of an attempt under locks: at once those that answer, the others at its commit, or before one of these on their record.
fn execute(
    client: &mut Client,
    now: Time,
    run: (TxHandle, u32),
    calls: &[(Bytes, Operation)],
) -> Result<(), Closed> {
    calls.iter().try_for_each(|(key, op)| {
        let place = (slot_of(key), key.clone());
        match op.returns() {
            true => client.execute(now, run, place, op.clone(), None).map(drop),
            false => client.buffer(now, run, place, op.clone()).map(drop),
        }
    })
}

/// How long one waits before its next attempt, in microseconds.
fn pause_after(cause: &Cause, number: u64, attempt: u32) -> Option<u64> {
    let Cause::Refused(refusal) = cause else { return None };
    let most = (PAUSE_US.0 << attempt.min(7)).min(PAUSE_US.1);
    // Not all at once.
    let pause = most / 2 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (most / 2 + 1);
    refusal.wants_pause().then_some(pause)
}
