//! Plain commands, multiplexed: every node has one queue for the commands of the whole process, and replies come in
//! the same order.
//!
//! Commands gather in a queue, as the bytes that are sent, until its connection takes all of them. A command that a
//! server redirects (MOVED, ASK) or cannot do for the moment is sent again. A command whose connection broke before its
//! reply came is not, because nobody knows whether it was carried out. What it was that is sent again, whoever waits for
//! its reply knows: most commands are sent once, and kept by nobody else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use claret_types::Reply;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::command::PlainError;
use crate::cluster::address::Address;
use crate::cluster::connection::{Connection, Handler};
use crate::cluster::error::ConnectError;
use crate::cluster::net::Service;
use crate::cluster::planted;
use crate::cluster::resp::{self, Reader, Said, ServerError};
use crate::cluster::settings::Settings;
use crate::cluster::topology::{SLOTS, Topology};
use crate::mailbox::Wakers;

/// How often one command is sent elsewhere, at most.
const TRIES_MAX: u8 = 16;

/// How long a command rests that a server could not do for the moment.
const REST: Duration = Duration::from_millis(20);

/// Who sends commands and hears their replies.
pub(super) trait Receiver: Send + Sync {
    /// Appends the command with this number, each time it is sent. The queues are locked.
    fn encode(&self, no: u32, out: &mut BytesMut);

    /// The reply to the command that was sent with this number. Whom to wake goes into `woken`.
    fn receive(&self, no: u32, reply: Result<Reply, PlainError>, woken: &mut Wakers);
}

/// A command that waits for its turn or its reply.
pub(super) struct Waiting {
    /// `None`: nobody cares (ASKING).
    to: Option<Arc<dyn Receiver>>,
    no: u32,
    /// That of its key.
    slot: Option<u16>,
    tries: u8,
}

impl Waiting {
    pub(super) fn new(to: Arc<dyn Receiver>, no: u32, slot: Option<u16>) -> Self {
        Waiting { to: Some(to), no, slot, tries: 0 }
    }

    fn encode(&self, out: &mut BytesMut) {
        match &self.to {
            Some(to) => to.encode(self.no, out),
            None => resp::encode(out, &["ASKING"]),
        }
    }

    fn end(self, reply: Result<Reply, PlainError>, woken: &mut Wakers) {
        if let Some(to) = self.to {
            to.receive(self.no, reply, woken);
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
        waiting.encode(&mut self.commands);
        self.queued.push_back(waiting);
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
    ended: Vec<(Waiting, PlainError)>,
}

impl After {
    fn done(mut self) {
        for (waiting, error) in self.ended {
            waiting.end(Err(error), &mut self.woken);
        }
        self.woken.into_iter().for_each(Waker::wake);
    }
}

/// See the module's text.
pub(super) struct Pool {
    inner: Mutex<Queues>,
    settings: Settings,
    connections: AtomicU32,
    doubts: Notify,
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

    /// Each slot is where the topology says.
    fn assign(&mut self) {
        self.slots.resize(SLOTS, 0);
        for range in std::mem::take(&mut self.topology.ranges) {
            let at = self.queue_of(&range.node);
            self.slots[usize::from(range.first)..=usize::from(range.last)].fill(at);
            self.topology.ranges.push(range);
        }
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
fn closed(node: Option<&Address>) -> PlainError {
    let node = node.map_or_else(|| "the cluster".to_owned(), ToString::to_string);
    PlainError::Away(ConnectError::Unreachable { node, reason: "the store is closed".to_owned() })
}

impl Pool {
    pub(super) fn new(settings: Settings) -> Self {
        Pool { inner: Mutex::default(), settings, connections: AtomicU32::new(0), doubts: Notify::new() }
    }

    /// Sends commands, each to where its key is.
    pub(super) fn send(&self, commands: impl IntoIterator<Item = Waiting>) {
        self.with(|queues, after| commands.into_iter().for_each(|waiting| queues.place(waiting, after)));
    }

    /// Sends a command to a node. Returns whether there is such a node.
    pub(super) fn send_to(&self, node: &str, waiting: Waiting) -> bool {
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
    pub(super) fn farewell(&self) {
        self.with(|queues, after| {
            queues.is_closing = true;
            queues.end_unsent(after);
            after.woken.extend(queues.queues.iter_mut().filter_map(|queue| queue.waker.take()));
        });
    }

    /// An error that says where else, or later. Gives the command back if it is the reply after all.
    fn redirect(self: &Arc<Self>, mut waiting: Waiting, error: &ServerError) -> Option<Waiting> {
        let code = error.code();
        let goes = matches!(code, "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING");
        if !goes || planted::is_too_often(waiting.tries >= TRIES_MAX) || waiting.to.is_none() {
            return Some(waiting);
        }
        waiting.tries += 1;
        if planted::is_doubtful(code != "ASK") {
            self.doubts.notify_one();
        }
        let target = error.words().nth(1).filter(|_| matches!(code, "MOVED" | "ASK"));
        self.with(|queues, after| {
            let Some(at) = target.and_then(|target| queues.named(target)) else {
                queues.resting.push(waiting);
                if queues.resting.len() == 1 {
                    tokio::spawn(Arc::clone(self).wake_resting());
                }
                return;
            };
            if planted::is_announced(code == "ASK") {
                let asking = Waiting { to: None, no: 0, slot: None, tries: 0 };
                queues.put(at, asking, after);
            } else if let Some(slot) = waiting.slot.filter(|_| code != "ASK") {
                let slot = usize::from(slot);
                queues.slots[slot] = planted::queue_of_moved(at, queues.slots[slot]);
            }
            planted::moved(Some(waiting)).into_iter().for_each(|waiting| queues.put(at, waiting, after));
        });
        None
    }

    async fn wake_resting(self: Arc<Self>) {
        tokio::time::sleep(REST).await;
        self.with(|queues, after| {
            for waiting in planted::rested(std::mem::take(&mut queues.resting)) {
                queues.place(waiting, after);
            }
        });
    }
}

impl Service for Pool {
    type Handler = CommandHandler;

    async fn handshake(self: Arc<Self>, connection: &mut Connection) -> Result<CommandHandler, ConnectError> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let node = connection.node.clone();
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
            broken: None,
        })
    }

    fn adopt(&self, topology: &Topology) {
        self.with(|queues, _| {
            queues.topology = topology.clone();
            queues.assign();
        });
    }

    /// What waits for it waits as long as for a reply, and then hears why.
    fn is_away(&self, node: &Address, error: &ConnectError) {
        self.with(|queues, after| {
            let at = queues.queue_of(node);
            let queue = &mut queues.queues[at];
            let since = *queue.away_since.get_or_insert_with(Instant::now);
            let is_long = since.elapsed() >= self.settings.response_timeout;
            if planted::is_told(is_long || !error.is_retryable()) {
                let ended = queue.drain().into_iter();
                after.ended.extend(ended.map(|waiting| (waiting, PlainError::Away(error.clone()))));
            }
        });
    }

    /// What waits for it goes to those who have its slots now, whatever other nodes say of it.
    fn is_gone(&self, node: &Address) {
        self.with(|queues, after| {
            let Some(at) = queues.nodes.iter().position(|known| known.as_ref() == Some(node)) else { return };
            queues.nodes[at] = planted::queue_owner(None, node);
            queues.assign();
            for waiting in planted::queued(std::mem::take(&mut queues.queues[at]).queued) {
                match waiting.slot {
                    Some(_) => queues.place(waiting, after),
                    None => after.ended.push((waiting, PlainError::NoSuchNode(node.to_string()))),
                }
            }
        });
    }

    fn doubts(&self) -> &Notify {
        &self.doubts
    }
}

/// Carries commands and replies on one connection.
pub(super) struct CommandHandler {
    pool: Arc<Pool>,
    node: Address,
    queue: usize,
    connection: u32,
    /// Kept for its room.
    taken: VecDeque<Waiting>,
    /// With the time of the first of each write, to see how long the server owes an answer.
    in_flight: VecDeque<(Instant, Waiting)>,
    /// Why the connection broke.
    broken: Option<ConnectError>,
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
        let not_understood =
            |reason: String| ConnectError::NotUnderstood { node: self.node.to_string(), reason };
        let mut woken = Wakers::new();
        let mut taken = 0;
        while let Some((said, length)) = reader.next(&input[taken..]).map_err(|error| error.at(&self.node))? {
            taken += length;
            let Said::Reply(value) = said else {
                reader.note_push().map_err(|error| error.at(&self.node))?;
                continue;
            };
            let unasked = || not_understood("a reply that nobody waits for".into());
            let first = self.in_flight.pop_front();
            let (_, waiting) = planted::answered(first, &mut self.in_flight).ok_or_else(unasked)?;
            match value.reply() {
                Ok(reply) => waiting.end(Ok(reply), &mut woken),
                Err(error) => {
                    if let Some(waiting) = self.pool.redirect(waiting, &error) {
                        waiting.end(Err(PlainError::Server(error)), &mut woken);
                    }
                }
            }
        }
        woken.into_iter().for_each(Waker::wake);
        Ok(taken)
    }

    fn give_up(&mut self, reason: &ConnectError) {
        self.broken = Some(reason.clone());
    }

    fn waits(&self) -> Option<Duration> {
        self.in_flight.front().map(|(since, _)| since.elapsed())
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
        if planted::sends_lost_again() {
            in_flight.drain(..).for_each(|(_, waiting)| self.pool.send([waiting]));
        }
        for (_, waiting) in in_flight {
            waiting.end(Err(PlainError::Lost { node: node.clone(), reason: reason.clone() }), &mut woken);
        }
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
