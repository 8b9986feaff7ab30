//! Commands, multiplexed: every node has one queue for the commands of the whole process, and replies come in
//! the same order.
//!
//! Commands gather in a queue, as the bytes that are sent, until its connection takes all of them. A command that a
//! server redirects (MOVED, ASK) or cannot do for the moment is sent again. A command whose connection broke before its
//! reply came is not, because nobody knows whether it was carried out. What it was that is sent again, whoever waits for
//! its reply knows: most commands are sent once, and kept by nobody else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use claret_planted::{Bug, is_planted};
use claret_types::Reply;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Wakers;
use crate::address::Address;
use crate::command::CommandError;
use crate::connection::{Connection, Handler};
use crate::error::ConnectError;
use crate::forward::Forward;
use crate::net::Service;
use crate::resp::{self, Message, Reader, ServerError};
use crate::settings::Settings;
use crate::topology::{SLOTS, Topology};

/// How often one command is sent elsewhere, at most.
const TRIES_MAX: u8 = 16;

/// How long a command rests that a server could not do for the moment.
const REST: Duration = Duration::from_millis(20);

/// Who sends commands and hears their replies.
pub trait Receiver: Send + Sync {
    /// Appends the command with this number, each time it is sent. The queues are locked.
    fn encode(&self, no: u32, out: &mut BytesMut);

    /// The reply to the command that was sent with this number. Whom to wake goes into `woken`.
    fn receive(&self, no: u32, reply: Result<Reply, CommandError>, woken: &mut Wakers);
}

/// Whom the reply to a command is for.
enum To {
    /// Nobody cares (ASKING).
    Nobody,
    Decoded(Arc<dyn Receiver>),
    /// As it came.
    Raw(Arc<dyn Forward>),
}

/// A command that waits for its turn or its reply.
pub struct Waiting {
    to: To,
    no: u32,
    /// That of its key.
    slot: Option<u16>,
    tries: u8,
    /// It is for one node, whose reply it is, whatever that says.
    is_for_node: bool,
}

impl Waiting {
    /// A command, and who hears its reply by this number. `slot`: that of its key; without one any node will do.
    pub fn new(to: Arc<dyn Receiver>, no: u32, slot: Option<u16>) -> Self {
        Waiting { to: To::Decoded(to), no, slot, tries: 0, is_for_node: false }
    }

    pub(crate) fn raw(to: Arc<dyn Forward>, no: u32, slot: Option<u16>) -> Self {
        Waiting { to: To::Raw(to), no, slot, tries: 0, is_for_node: false }
    }

    pub(crate) fn raw_for_node(to: Arc<dyn Forward>, no: u32) -> Self {
        Waiting { to: To::Raw(to), no, slot: None, tries: 0, is_for_node: true }
    }

    fn asking() -> Self {
        Waiting { to: To::Nobody, no: 0, slot: None, tries: 0, is_for_node: false }
    }

    fn is_raw(&self) -> bool {
        matches!(self.to, To::Raw(_))
    }

    /// Whether another node may do it when the one is gone that it waits for.
    fn may_go_elsewhere(&self) -> bool {
        self.slot.is_some() || (self.is_raw() && !self.is_for_node)
    }

    fn encode(&self, out: &mut BytesMut) {
        match &self.to {
            To::Nobody => resp::encode(out, &["ASKING"]),
            To::Decoded(to) => to.encode(self.no, out),
            To::Raw(to) => to.encode(self.no, out),
        }
    }

    /// A reply, decoded and as it came.
    fn end(self, reply: Reply, raw: &[u8], woken: &mut Wakers) {
        match self.to {
            To::Nobody => {}
            To::Decoded(to) => to.receive(self.no, Ok(reply), woken),
            To::Raw(to) => to.receive(self.no, Ok(raw)),
        }
    }

    fn fail(self, error: CommandError, woken: &mut Wakers) {
        match self.to {
            To::Nobody => {}
            To::Decoded(to) => to.receive(self.no, Err(error), woken),
            To::Raw(to) => to.receive(self.no, Err(error)),
        }
    }
}

#[derive(Default)]
struct NodeQueue {
    queued: VecDeque<Waiting>,
    /// Their commands, in the same order.
    commands: BytesMut,
    /// The number of the connection that serves it.
    connection: Option<u32>,
    waker: Option<Waker>,
    away_since: Option<Instant>,
}

impl NodeQueue {
    fn push(&mut self, waiting: Waiting) {
        let before = self.commands.len();
        waiting.encode(&mut self.commands);
        // Whoever appends nothing waits no more: nothing is sent, and no reply is to come.
        if self.commands.len() > before {
            self.queued.push_back(waiting);
        }
    }

    /// Takes out all that was not sent.
    fn drain(&mut self) -> VecDeque<Waiting> {
        self.commands.clear();
        std::mem::take(&mut self.queued)
    }
}

#[derive(Default)]
struct Queues {
    /// Whose queue it is; `None`: its node is gone, and it may become that of another.
    nodes: Vec<Option<Address>>,
    queues: Vec<NodeQueue>,
    /// The queue of each slot.
    slots: Vec<usize>,
    topology: Topology,
    /// What rests.
    resting: Vec<Waiting>,
    /// Connections close behind the last reply.
    is_closing: bool,
}

/// What follows once the queues are unlocked: whoever hears of an end may call back.
#[derive(Default)]
struct After {
    woken: Wakers,
    ended: Vec<(Waiting, CommandError)>,
}

impl After {
    fn done(mut self) {
        for (waiting, error) in self.ended {
            waiting.fail(error, &mut self.woken);
        }
        self.woken.into_iter().for_each(Waker::wake);
    }
}

/// A queue of commands for each node, from which its connection takes them.
pub struct Pool {
    inner: Mutex<Queues>,
    settings: Settings,
    connections: AtomicU32,
    doubts: Notify,
    /// See [`Cluster::topology_version`](crate::Cluster::topology_version). Counted up with the queues locked.
    version: AtomicU64,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("nodes", &self.inner.lock().nodes).finish_non_exhaustive()
    }
}

impl Queues {
    fn queue_of(&mut self, node: &Address) -> usize {
        if let Some(at) = self.nodes.iter().position(|known| known.as_ref() == Some(node)) {
            return at;
        }
        let free = self.nodes.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.nodes.push(None);
            self.queues.push(NodeQueue::default());
            self.nodes.len() - 1
        });
        self.nodes[at] = Some(node.clone());
        at
    }

    /// The queue of a node of this name.
    fn named(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|known| known.as_ref().is_some_and(|known| known.to_string() == node))
    }

    /// Each slot is where the topology says. Returns whether one was elsewhere before.
    fn assign(&mut self) -> bool {
        self.slots.resize(SLOTS, 0);
        let mut has_moved = false;
        for range in std::mem::take(&mut self.topology.ranges) {
            let at = self.queue_of(&range.node);
            let slots = &mut self.slots[usize::from(range.first)..=usize::from(range.last)];
            has_moved |= slots.iter().any(|before| *before != at);
            slots.fill(at);
            self.topology.ranges.push(range);
        }
        has_moved
    }

    fn put(&mut self, at: usize, waiting: Waiting, after: &mut After) {
        let queue = &mut self.queues[at];
        if self.is_closing && queue.connection.is_none() {
            return after.ended.push((waiting, closed(self.nodes[at].as_ref())));
        }
        queue.push(waiting);
        after.woken.extend(queue.waker.take());
    }

    /// Puts a command where its key is; without a key, anywhere.
    fn place(&mut self, waiting: Waiting, after: &mut After) {
        let slot = waiting.slot.unwrap_or_default();
        let at = self.slots[usize::from(slot)];
        self.put(at, waiting, after);
    }

    /// What nobody sends any more is told so.
    fn end_unsent(&mut self, after: &mut After) {
        let nodes = self.nodes.iter().map(Option::as_ref);
        for (queue, node) in self.queues.iter_mut().zip(nodes).filter(|(queue, _)| queue.connection.is_none())
        {
            after.ended.extend(queue.drain().into_iter().map(|waiting| (waiting, closed(node))));
        }
        after.ended.extend(self.resting.drain(..).map(|waiting| (waiting, closed(None))));
    }
}

/// The store was closed before the command was sent.
fn closed(node: Option<&Address>) -> CommandError {
    let node = node.map_or_else(|| "the cluster".to_owned(), ToString::to_string);
    CommandError::Away(ConnectError::Unreachable { node, reason: "the store is closed".to_owned() })
}

impl Pool {
    /// Queues for connections of these settings.
    pub fn new(settings: Settings) -> Self {
        Pool {
            inner: Mutex::default(),
            settings,
            connections: AtomicU32::new(0),
            doubts: Notify::new(),
            version: AtomicU64::new(0),
        }
    }

    /// Sends commands, each to where its key is.
    pub fn send(&self, commands: impl IntoIterator<Item = Waiting>) {
        self.with(|queues, after| commands.into_iter().for_each(|waiting| queues.place(waiting, after)));
    }

    /// The same if the version is still this one. Returns whether it is; if not, nothing is sent.
    pub(crate) fn send_since(&self, version: u64, commands: impl IntoIterator<Item = Waiting>) -> bool {
        self.with(|queues, after| {
            let is_same = self.version() == version;
            if is_same {
                commands.into_iter().for_each(|waiting| queues.place(waiting, after));
            }
            is_same
        })
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The node that serves a slot, as far as it is known.
    pub(crate) fn node_of(&self, slot: u16) -> Option<Address> {
        let queues = self.inner.lock();
        queues.nodes.get(*queues.slots.get(usize::from(slot))?)?.clone()
    }

    /// Commands may overtake others from now on. The queues are locked.
    fn count_up_if(&self, may_overtake: bool) {
        if may_overtake && !is_planted(Bug::OvertakingUncounted) {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Sends a command to a node. Returns whether there is such a node.
    pub(crate) fn send_to(&self, node: &str, waiting: Waiting) -> bool {
        self.with(|queues, after| {
            let Some(at) = queues.named(node) else { return false };
            queues.put(at, waiting, after);
            true
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut Queues, &mut After) -> R) -> R {
        let mut after = After::default();
        let result = act(&mut self.inner.lock(), &mut after);
        after.done();
        result
    }

    /// No more commands come: connections close behind the last reply.
    pub fn farewell(&self) {
        self.with(|queues, after| {
            queues.is_closing = true;
            queues.end_unsent(after);
            after.woken.extend(queues.queues.iter_mut().filter_map(|queue| queue.waker.take()));
        });
    }

    /// An error that says where else, or later. Gives the command back if it is the reply after all.
    fn redirect(self: &Arc<Self>, mut waiting: Waiting, error: &ServerError) -> Option<Waiting> {
        let code = error.code();
        let goes = resp::is_redirection(code) && !waiting.is_for_node;
        let is_too_often = waiting.tries >= TRIES_MAX && !is_planted(Bug::CirclesForEver);
        if !goes || is_too_often || matches!(waiting.to, To::Nobody) {
            return Some(waiting);
        }
        waiting.tries += 1;
        if code != "ASK" && !is_planted(Bug::MovedUndoubted) {
            self.doubts.notify_one();
        }
        let target = error.words().nth(1).filter(|_| matches!(code, "MOVED" | "ASK"));
        self.with(|queues, after| {
            let Some(at) = target.and_then(|target| queues.named(target)) else {
                self.count_up_if(waiting.is_raw());
                queues.resting.push(waiting);
                if queues.resting.len() == 1 {
                    tokio::spawn(Arc::clone(self).wake_resting());
                }
                return;
            };
            if code == "ASK" && !is_planted(Bug::AskUnannounced) {
                queues.put(at, Waiting::asking(), after);
            } else if let Some(slot) = waiting.slot.filter(|_| code != "ASK") {
                let slot = usize::from(slot);
                self.count_up_if(queues.slots[slot] != at);
                queues.slots[slot] = if is_planted(Bug::MovedForgotten) { queues.slots[slot] } else { at };
            }
            if !is_planted(Bug::MovedLost) {
                queues.put(at, waiting, after);
            }
        });
        None
    }

    async fn wake_resting(self: Arc<Self>) {
        tokio::time::sleep(REST).await;
        self.with(|queues, after| {
            let rested = std::mem::take(&mut queues.resting);
            for waiting in rested.into_iter().filter(|_| !is_planted(Bug::RestingForgotten)) {
                queues.place(waiting, after);
            }
        });
    }
}

impl Service for Pool {
    type Handler = CommandHandler;

    async fn handshake(self: Arc<Self>, connection: &mut Connection) -> Result<CommandHandler, ConnectError> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let node = connection.node().clone();
        let queue = self.with(|queues, _| {
            let at = queues.queue_of(&node);
            queues.queues[at].connection = Some(number);
            queues.queues[at].away_since = None;
            at
        });
        Ok(CommandHandler {
            pool: self,
            node,
            queue,
            connection: number,
            taken: VecDeque::new(),
            in_flight: VecDeque::new(),
            heard: None,
            broken: None,
        })
    }

    fn adopt(&self, topology: &Topology) {
        self.with(|queues, _| {
            let is_another = queues.topology != *topology;
            queues.topology = topology.clone();
            let has_moved = queues.assign();
            self.count_up_if(is_another || has_moved);
        });
    }

    /// What waits for it waits as long as for a reply, and then hears why.
    fn is_away(&self, node: &Address, error: &ConnectError) {
        self.with(|queues, after| {
            let at = queues.queue_of(node);
            let queue = &mut queues.queues[at];
            let since = *queue.away_since.get_or_insert_with(Instant::now);
            let is_long = since.elapsed() >= self.settings.response_timeout;
            if (is_long || !error.is_retryable()) && !is_planted(Bug::AwayUntold) {
                let ended = queue.drain().into_iter();
                after.ended.extend(ended.map(|waiting| (waiting, CommandError::Away(error.clone()))));
            }
        });
    }

    /// What waits for it goes to those who have its slots now, whatever other nodes say of it.
    fn is_gone(&self, node: &Address) {
        self.with(|queues, after| {
            let Some(at) = queues.nodes.iter().position(|known| known.as_ref() == Some(node)) else { return };
            queues.nodes[at] = if is_planted(Bug::GoneKeepsQueue) { Some(node.clone()) } else { None };
            let has_moved = queues.assign();
            self.count_up_if(has_moved);
            let queued = std::mem::take(&mut queues.queues[at]).queued;
            for waiting in queued.into_iter().filter(|_| !is_planted(Bug::QueueGoesWithNode)) {
                match waiting.may_go_elsewhere() {
                    true => queues.place(waiting, after),
                    false => after.ended.push((waiting, CommandError::NoSuchNode(node.to_string()))),
                }
            }
        });
    }

    fn doubts(&self) -> &Notify {
        &self.doubts
    }
}

/// Carries commands and replies on one connection.
pub struct CommandHandler {
    pool: Arc<Pool>,
    node: Address,
    queue: usize,
    connection: u32,
    /// Kept for its room.
    taken: VecDeque<Waiting>,
    /// With the time of the first of each write, to see how long the server owes an answer.
    in_flight: VecDeque<(Instant, Waiting)>,
    /// When something was read last.
    heard: Option<Instant>,
    /// Why the connection broke.
    broken: Option<ConnectError>,
}

impl CommandHandler {
    /// Takes one thing from the front: its length, if it is all there.
    fn take_decoded(
        &mut self,
        input: &[u8],
        reader: &mut Reader,
        woken: &mut Wakers,
    ) -> Result<Option<usize>, ConnectError> {
        let next = reader.next(input).map_err(|error| error.at(&self.node))?;
        let Some((said, length)) = next else { return Ok(None) };
        let Message::Reply(value) = said else {
            reader.note_push().map_err(|error| error.at(&self.node))?;
            return Ok(Some(length));
        };
        let unasked = || ConnectError::NotUnderstood {
            node: self.node.to_string(),
            reason: "a reply that nobody waits for".into(),
        };
        let answered = match is_planted(Bug::LastAskedAnswered) {
            true => self.in_flight.pop_back(),
            false => self.in_flight.pop_front(),
        };
        let (_, waiting) = answered.ok_or_else(unasked)?;
        match value.reply() {
            Ok(reply) => waiting.end(reply, &input[..length], woken),
            Err(error) => {
                if let Some(waiting) = self.pool.redirect(waiting, &error) {
                    waiting.fail(CommandError::Server(error), woken);
                }
            }
        }
        Ok(Some(length))
    }

    /// The same where the first that waits wants its reply as it came.
    fn take_raw(&mut self, input: &[u8], reader: &mut Reader) -> Result<Option<usize>, ConnectError> {
        let Some(raw) = reader.next_raw(input).map_err(|error| error.at(&self.node))? else {
            return Ok(None);
        };
        if raw.is_push {
            reader.note_push().map_err(|error| error.at(&self.node))?;
            return Ok(Some(raw.length));
        }
        let reply = &input[..raw.length];
        let Some((_, waiting)) = self.in_flight.pop_front() else { return Ok(None) };
        let left = match resp::redirection_in(reply).filter(|_| !is_planted(Bug::RedirectionHandedOver)) {
            None => Some(waiting),
            Some(error) => self.pool.redirect(waiting, &error),
        };
        if let Some(Waiting { to: To::Raw(to), no, .. }) = left {
            to.receive(no, Ok(reply));
        }
        Ok(Some(raw.length))
    }
}

impl Handler for CommandHandler {
    fn fill(&mut self, waker: &Waker, out: &mut BytesMut) -> bool {
        let is_done = {
            let mut queues = self.pool.inner.lock();
            let is_closing = queues.is_closing;
            let queue = &mut queues.queues[self.queue];
            if queue.connection != Some(self.connection) {
                return true;
            }
            std::mem::swap(&mut queue.queued, &mut self.taken);
            std::mem::swap(&mut queue.commands, out);
            if queue.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
                queue.waker = Some(waker.clone());
            }
            is_closing && self.taken.is_empty() && self.in_flight.is_empty()
        };
        if !self.taken.is_empty() {
            let now = Instant::now();
            self.in_flight.extend(self.taken.drain(..).map(|waiting| (now, waiting)));
        }
        is_done
    }

    fn take(&mut self, input: &[u8], reader: &mut Reader) -> Result<usize, ConnectError> {
        let mut woken = Wakers::new();
        let mut taken = 0;
        loop {
            let is_raw = self.in_flight.front().is_some_and(|(_, waiting)| waiting.is_raw());
            let length = match is_raw {
                true => self.take_raw(&input[taken..], reader)?,
                false => self.take_decoded(&input[taken..], reader, &mut woken)?,
            };
            let Some(length) = length else { break };
            taken += length;
        }
        if taken > 0 {
            self.heard = Some(Instant::now());
        }
        woken.into_iter().for_each(Waker::wake);
        Ok(taken)
    }

    fn give_up(&mut self, reason: &ConnectError) {
        self.broken = Some(reason.clone());
    }

    fn waits(&self) -> Option<Duration> {
        // A server that answers one command after the other is not silent, however long the first ones took.
        let heard = self.heard;
        self.in_flight.front().map(|(since, _)| heard.map_or(*since, |heard| heard.max(*since)).elapsed())
    }
}

impl Drop for CommandHandler {
    fn drop(&mut self) {
        let mut woken = Wakers::new();
        self.pool.with(|queues, after| {
            let queue = &mut queues.queues[self.queue];
            if queue.connection == Some(self.connection) {
                queue.connection = None;
            }
            if queues.is_closing {
                queues.end_unsent(after);
            }
        });
        let node = self.node.to_string();
        let reason = match &self.broken {
            Some(error) => error.to_string(),
            None => format!("{node} was left"),
        };
        let mut in_flight = std::mem::take(&mut self.in_flight);
        if is_planted(Bug::LostSentAgain) {
            in_flight.drain(..).for_each(|(_, waiting)| self.pool.send([waiting]));
        }
        for (_, waiting) in in_flight {
            waiting.fail(CommandError::Lost { node: node.clone(), reason: reason.clone() }, &mut woken);
        }
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
