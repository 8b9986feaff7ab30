//! Plain commands, multiplexed: every node has one line, on which the commands of the whole process go one behind the
//! other, and come back in the same order.
//!
//! Commands gather in a line until its connection takes all of them. One that a server sends elsewhere (MOVED, ASK) or
//! cannot do for the moment is sent again; one whose connection broke before its reply came is not, since nobody knows
//! whether it was carried out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use claret_types::{Bytes, Reply};
use parking_lot::Mutex;
use smallvec::SmallVec;
use thiserror::Error;
use tokio::sync::Notify;

use super::connection::{Connection, Duty};
use super::error::ConnectError;
use super::machine::Wakers;
use super::net::Office;
use super::options::{Address, Settings};
use super::resp::{self, Reader, Said, ServerError};
use super::topology::{SLOTS, Topology, slot_of};
use super::wrong;

/// How often one command is sent elsewhere, at most.
const TRIES_MAX: u8 = 16;

/// How long a command rests that a server could not do for the moment.
const REST: Duration = Duration::from_millis(20);

/// A Redis command: words, and the key that says which node it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a command does nothing until it is sent"]
pub struct Command {
    words: SmallVec<[Bytes; 4]>,
    slot: Option<u16>,
}

impl Command {
    /// A command without arguments.
    pub fn new(name: impl Into<Bytes>) -> Self {
        Command { words: SmallVec::from_iter([name.into()]), slot: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, word: impl Into<Bytes>) -> Self {
        self.words.push(word.into());
        self
    }

    /// Adds a key. The first one says which node the command goes to.
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        let key = key.into();
        self.slot.get_or_insert_with(|| slot_of(&key));
        self.words.push(key);
        self
    }

    pub(super) fn with_slot(mut self, slot: u16) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Its words: the name, then the arguments.
    pub fn words(&self) -> &[Bytes] {
        &self.words
    }
}

/// Why a plain command has no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlainError {
    /// The server answered with an error.
    #[error("{0}")]
    Server(ServerError),
    /// The connection broke before the reply came: the command may have been carried out.
    #[error("the connection broke before the reply came ({reason}); the command may have been carried out")]
    Lost {
        /// Where it went.
        node: String,
        /// Why it broke, as far as it is known.
        reason: String,
    },
    /// It was not sent.
    #[error("not sent: {0}")]
    Away(ConnectError),
    /// Nobody of that name is a node of the cluster.
    #[error("'{0}' is no node of the cluster; name one of `Plain::nodes`")]
    NoSuchNode(String),
}

/// Who hears replies.
pub(super) trait Receiver: Send + Sync {
    /// The reply to the command that was sent with this number. Whom to wake goes into `woken`.
    fn receive(&self, no: u32, reply: Result<Reply, PlainError>, woken: &mut Wakers);
}

/// A command that waits for its turn or its reply.
pub(super) struct Waiting {
    command: Command,
    /// `None`: nobody cares (ASKING).
    to: Option<Arc<dyn Receiver>>,
    no: u32,
    tries: u8,
}

impl Waiting {
    pub(super) fn new(command: Command, to: Arc<dyn Receiver>, no: u32) -> Self {
        Waiting { command, to: Some(to), no, tries: 0 }
    }

    fn end(self, reply: Result<Reply, PlainError>, woken: &mut Wakers) {
        if let Some(to) = self.to {
            to.receive(self.no, reply, woken);
        }
    }
}

#[derive(Default)]
struct Line {
    queued: VecDeque<Waiting>,
    /// The number of the connection that serves it.
    connection: Option<u32>,
    waker: Option<Waker>,
    away_since: Option<Instant>,
    is_closing: bool,
}

#[derive(Default)]
struct Lines {
    /// Whose line it is; `None`: its node is gone, and it may become that of another.
    nodes: Vec<Option<Address>>,
    lines: Vec<Line>,
    /// The line of each slot.
    slots: Vec<usize>,
    topology: Topology,
    /// What rests.
    resting: Vec<Waiting>,
}

/// See the module's text.
pub(super) struct Pool {
    inner: Mutex<Lines>,
    settings: Settings,
    connections: AtomicU32,
    doubts: Notify,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("nodes", &self.inner.lock().nodes).finish_non_exhaustive()
    }
}

impl Lines {
    fn line_of(&mut self, node: &Address) -> usize {
        if let Some(at) = self.nodes.iter().position(|known| known.as_ref() == Some(node)) {
            return at;
        }
        let free = self.nodes.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.nodes.push(None);
            self.lines.push(Line::default());
            self.nodes.len() - 1
        });
        self.nodes[at] = Some(node.clone());
        at
    }

    /// The line of a node of this name.
    fn named(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|known| known.as_ref().is_some_and(|known| known.to_string() == node))
    }

    /// Each slot is where the topology says.
    fn assign(&mut self) {
        self.slots.resize(SLOTS, 0);
        for range in std::mem::take(&mut self.topology.ranges) {
            let at = self.line_of(&range.node);
            self.slots[usize::from(range.first)..=usize::from(range.last)].fill(at);
            self.topology.ranges.push(range);
        }
    }

    fn put(&mut self, at: usize, waiting: Waiting, woken: &mut Wakers) {
        let line = &mut self.lines[at];
        line.queued.push_back(waiting);
        woken.extend(line.waker.take());
    }

    /// Puts a command where its key is; without a key, anywhere.
    fn place(&mut self, waiting: Waiting, woken: &mut Wakers) {
        let slot = waiting.command.slot.unwrap_or_default();
        let at = self.slots[usize::from(slot)];
        self.put(at, waiting, woken);
    }
}

impl Pool {
    pub(super) fn new(settings: Settings) -> Self {
        Pool { inner: Mutex::default(), settings, connections: AtomicU32::new(0), doubts: Notify::new() }
    }

    /// Sends commands, each to where its key is.
    pub(super) fn send(&self, commands: impl IntoIterator<Item = Waiting>) {
        self.with(|lines, woken| commands.into_iter().for_each(|waiting| lines.place(waiting, woken)));
    }

    /// Sends a command to a node. Returns whether there is such a node.
    pub(super) fn send_to(&self, node: &str, waiting: Waiting) -> bool {
        self.with(|lines, woken| {
            let Some(at) = lines.named(node) else { return false };
            lines.put(at, waiting, woken);
            true
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut Lines, &mut Wakers) -> R) -> R {
        let mut woken = Wakers::new();
        let result = act(&mut self.inner.lock(), &mut woken);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// No more commands come: connections close behind the last reply.
    pub(super) fn farewell(&self) {
        self.with(|lines, woken| {
            for line in &mut lines.lines {
                line.is_closing = true;
                woken.extend(line.waker.take());
            }
        });
    }

    /// An error that says where else, or later. Gives the command back if it is the reply after all.
    fn redirect(self: &Arc<Self>, mut waiting: Waiting, error: &ServerError) -> Option<Waiting> {
        let code = error.code();
        let goes = matches!(code, "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING");
        if !goes || wrong::is_too_often(waiting.tries >= TRIES_MAX) || waiting.to.is_none() {
            return Some(waiting);
        }
        waiting.tries += 1;
        if wrong::is_doubtful(code != "ASK") {
            self.doubts.notify_one();
        }
        let target = error.words().nth(1).filter(|_| matches!(code, "MOVED" | "ASK"));
        self.with(|lines, woken| {
            let Some(at) = target.and_then(|target| lines.named(target)) else {
                lines.resting.push(waiting);
                if lines.resting.len() == 1 {
                    tokio::spawn(Arc::clone(self).wake_resting());
                }
                return;
            };
            if wrong::is_announced(code == "ASK") {
                let asking = Waiting { command: Command::new("ASKING"), to: None, no: 0, tries: 0 };
                lines.put(at, asking, woken);
            } else if let Some(slot) = waiting.command.slot.filter(|_| code != "ASK") {
                let slot = usize::from(slot);
                lines.slots[slot] = wrong::line_of_moved(at, lines.slots[slot]);
            }
            wrong::moved(waiting).into_iter().for_each(|waiting| lines.put(at, waiting, woken));
        });
        None
    }

    async fn wake_resting(self: Arc<Self>) {
        tokio::time::sleep(REST).await;
        self.with(|lines, woken| {
            for waiting in wrong::rested(std::mem::take(&mut lines.resting)) {
                lines.place(waiting, woken);
            }
        });
    }
}

impl Office for Pool {
    type Duty = Commands;

    async fn greet(self: Arc<Self>, connection: &mut Connection) -> Result<Commands, ConnectError> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let node = connection.node.clone();
        let line = self.with(|lines, _| {
            let at = lines.line_of(&node);
            lines.lines[at].connection = Some(number);
            lines.lines[at].away_since = None;
            at
        });
        Ok(Commands {
            pool: self,
            node,
            line,
            connection: number,
            taken: VecDeque::new(),
            in_flight: VecDeque::new(),
            broken: None,
        })
    }

    fn adopt(&self, topology: &Topology) {
        self.with(|lines, _| {
            lines.topology = topology.clone();
            lines.assign();
        });
    }

    /// What waits for it waits as long as for a reply, and then hears why.
    fn is_away(&self, node: &Address, error: &ConnectError) {
        self.with(|lines, woken| {
            let at = lines.line_of(node);
            let line = &mut lines.lines[at];
            let since = *line.away_since.get_or_insert_with(Instant::now);
            let is_long = since.elapsed() >= self.settings.response_timeout;
            if wrong::is_told(is_long || !error.is_retryable()) {
                let queued = std::mem::take(&mut line.queued);
                queued.into_iter().for_each(|it| it.end(Err(PlainError::Away(error.clone())), woken));
            }
        });
    }

    /// What waits for it goes to those who have its slots now, whatever other nodes say of it.
    fn is_gone(&self, node: &Address) {
        self.with(|lines, woken| {
            let Some(at) = lines.nodes.iter().position(|known| known.as_ref() == Some(node)) else { return };
            lines.nodes[at] = wrong::nobodys_line(node);
            lines.assign();
            for waiting in wrong::queued(std::mem::take(&mut lines.lines[at]).queued) {
                match waiting.command.slot {
                    Some(_) => lines.place(waiting, woken),
                    None => waiting.end(Err(PlainError::NoSuchNode(node.to_string())), woken),
                }
            }
        });
    }

    fn doubts(&self) -> &Notify {
        &self.doubts
    }
}

/// Carries commands and replies on one connection.
pub(super) struct Commands {
    pool: Arc<Pool>,
    node: Address,
    line: usize,
    connection: u32,
    /// Kept for its room.
    taken: VecDeque<Waiting>,
    /// With the time of the first of each write, to see how long the server owes an answer.
    in_flight: VecDeque<(Instant, Waiting)>,
    /// Why the connection broke.
    broken: Option<ConnectError>,
}

impl Duty for Commands {
    fn fill(&mut self, waker: &Waker, out: &mut BytesMut) -> bool {
        let is_done = {
            let mut lines = self.pool.inner.lock();
            let line = &mut lines.lines[self.line];
            if line.connection != Some(self.connection) {
                return true;
            }
            std::mem::swap(&mut line.queued, &mut self.taken);
            if line.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
                line.waker = Some(waker.clone());
            }
            line.is_closing && self.taken.is_empty() && self.in_flight.is_empty()
        };
        if !self.taken.is_empty() {
            let now = Instant::now();
            for waiting in self.taken.drain(..) {
                resp::encode(out, waiting.command.words());
                self.in_flight.push_back((now, waiting));
            }
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
            let (_, waiting) = wrong::answered(&mut self.in_flight).ok_or_else(unasked)?;
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

impl Drop for Commands {
    fn drop(&mut self) {
        let mut woken = Wakers::new();
        {
            let mut lines = self.pool.inner.lock();
            let line = &mut lines.lines[self.line];
            if line.connection == Some(self.connection) {
                line.connection = None;
            }
        }
        let node = self.node.to_string();
        let reason = match &self.broken {
            Some(error) => error.to_string(),
            None => format!("{node} was left"),
        };
        let in_flight = std::mem::take(&mut self.in_flight);
        for (_, waiting) in wrong::lost(in_flight, |(_, waiting)| self.pool.send([waiting])) {
            waiting.end(Err(PlainError::Lost { node: node.clone(), reason: reason.clone() }), &mut woken);
        }
        woken.into_iter().for_each(Waker::wake);
    }
}

/// A dedicated connection, as WATCH needs it.
#[derive(Debug)]
pub struct Dedicated {
    connection: Connection,
}

impl Dedicated {
    pub(super) async fn open(settings: &Settings, node: &Address) -> Result<Self, ConnectError> {
        let mut connection = Connection::open(settings, node).await?;
        connection.set_bounds(settings.limits.of_work());
        Ok(Dedicated { connection })
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// See [`PlainError`].
    pub async fn ask(&mut self, command: &Command) -> Result<Reply, PlainError> {
        let asked = self.connection.ask(command.words()).await;
        asked.map_err(|error| self.lost(&error))?.map_err(PlainError::Server)
    }

    /// Sends commands in one piece and waits for all replies, each of which may be an error of its own.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn run(&mut self, commands: &[Command]) -> Result<Vec<Result<Reply, ServerError>>, PlainError> {
        let words = commands.iter().map(Command::words);
        self.connection.ask_all(words).await.map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &ConnectError) -> PlainError {
        PlainError::Lost { node: self.node(), reason: error.to_string() }
    }

    /// The node at the other end.
    pub fn node(&self) -> String {
        self.connection.node.to_string()
    }
}

/// The replies to several commands, waited for together.
pub(super) struct Gather {
    inner: Mutex<Gathered>,
}

struct Gathered {
    replies: Vec<Option<Result<Reply, PlainError>>>,
    missing: usize,
    waker: Option<Waker>,
}

impl Gather {
    pub(super) fn new(count: usize) -> Self {
        let replies = std::iter::repeat_with(|| None).take(count).collect();
        Gather { inner: Mutex::new(Gathered { replies, missing: count, waker: None }) }
    }

    /// All replies, once they are there.
    pub(super) fn take(&self, waker: &Waker) -> Option<Vec<Result<Reply, PlainError>>> {
        let mut inner = self.inner.lock();
        if inner.missing > 0 {
            inner.waker = Some(waker.clone());
            return None;
        }
        Some(std::mem::take(&mut inner.replies).into_iter().flatten().collect())
    }
}

impl Receiver for Gather {
    fn receive(&self, no: u32, reply: Result<Reply, PlainError>, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        inner.replies[no as usize] = Some(reply);
        inner.missing -= 1;
        if inner.missing == 0 {
            woken.extend(inner.waker.take());
        }
    }
}

#[cfg(test)]
mod tests;
