//! Plain Redis commands on a cluster, and transactions of mode `none`, which are made of them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use claret_core::message::Refusal;
use claret_core::{CallNo, Event};
use claret_types::{Bytes, OpError, Operation, Reply};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::commands::{command_of, reply_of};
use super::error::ConnectError;
use super::lines::{Command, Dedicated, Gather, PlainError, Pool, Receiver, Waiting};
use super::machine::Wakers;
use super::net::Net;
use super::options::Settings;
use super::slot_of;
use crate::host::{Mailbox, Placed};
use crate::store::Store;

/// Redis commands on a cluster, as they are: no transactions, no promises but Redis's own. The module is not needed.
///
/// Commands of the whole process share one connection to each node, on which they are pipelined: what is sent in one
/// turn of the runtime leaves in one piece. What a node sends elsewhere (MOVED, ASK, TRYAGAIN) is sent again. A handle
/// is cheap to clone.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use claret::Store;
/// use claret::cluster::Command;
/// let plain = Store::cluster("redis://127.0.0.1:7001").connect_plain().await?;
/// let lock = Command::new("SET").key("lock:7").arg("me").arg("NX").arg("PX").arg("1000");
/// let is_mine = plain.ask(lock).await? == claret::Reply::Ok;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Plain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pool: Arc<Pool>,
    net: Arc<Net<Pool>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.net.close();
        self.pool.farewell();
    }
}

impl Plain {
    pub(super) async fn open(settings: Settings) -> Result<Self, ConnectError> {
        let pool = Arc::new(Pool::new(settings.clone()));
        let net = Net::connect(settings, Arc::clone(&pool)).await?;
        Ok(Plain { shared: Arc::new(Shared { pool, net }) })
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.shared.net.runtime
    }

    /// A node that does not answer.
    pub(super) fn away(&self) -> Option<ConnectError> {
        self.shared.net.away()
    }

    pub(super) async fn close(&self) {
        self.shared.net.close();
        self.shared.pool.farewell();
        self.shared.net.closed(self.shared.net.settings.response_timeout).await;
    }

    /// The addresses of the nodes that serve slots.
    pub fn nodes(&self) -> Vec<String> {
        self.shared.net.nodes().iter().map(ToString::to_string).collect()
    }

    /// Sends a command to the node of its first key, and gives the reply. It is on its way when this returns; the
    /// future waits for the reply.
    ///
    /// # Errors
    /// See [`PlainError`].
    pub fn ask(&self, command: Command) -> impl Future<Output = Result<Reply, PlainError>> + use<> {
        let all = self.run(vec![command]);
        async move { all.await.pop().expect("one command, one reply") }
    }

    /// Sends commands, each to the node of its first key, and gives the replies in their order. They are on their way
    /// when this returns; the future waits for the replies.
    pub fn run(
        &self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Vec<Result<Reply, PlainError>>> + use<> {
        let gather = Arc::new(Gather::new(commands.len()));
        let waiting = commands.into_iter().zip(0..).map(|(command, no)| {
            let to: Arc<dyn Receiver> = Arc::clone(&gather) as Arc<dyn Receiver>;
            Waiting::new(command, to, no)
        });
        self.shared.pool.send(waiting);
        replies(gather)
    }

    /// Sends a command to a node of [`Plain::nodes`], whatever its keys.
    ///
    /// # Errors
    /// See [`PlainError`].
    pub async fn ask_at(&self, node: &str, command: Command) -> Result<Reply, PlainError> {
        let gather = Arc::new(Gather::new(1));
        let waiting = Waiting::new(command, Arc::clone(&gather) as Arc<dyn Receiver>, 0);
        if !self.shared.pool.send_to(node, waiting) {
            return Err(PlainError::NoSuchNode(node.to_owned()));
        }
        replies(gather).await.pop().expect("one command, one reply")
    }

    /// A connection of one's own to the node of a key, as WATCH needs it.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn dedicated(&self, key: impl Into<Bytes>) -> Result<Dedicated, ConnectError> {
        let slot = slot_of(&key.into());
        let topology = self.shared.net.topology();
        let range = topology.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        let range = range.ok_or_else(|| ConnectError::Uncovered { slots: vec![(slot, slot)] })?;
        Dedicated::open(&self.shared.net.settings, &range.node).await
    }
}

async fn replies(gather: Arc<Gather>) -> Vec<Result<Reply, PlainError>> {
    poll_fn(|cx| gather.take(cx.waker()).map_or(Poll::Pending, Poll::Ready)).await
}

impl Store {
    /// On a cluster: waits until every shard knows the end of every transaction, tells them that this process ends, and
    /// closes the connections. Dropping the last handle does the same without waiting. In the process: nothing.
    pub async fn close(self) {
        if let crate::host::Host::Cluster(cluster) = &self.host {
            cluster.close().await;
        }
    }
}

/// A transaction of mode `none`: its operations, sent as plain commands.
#[derive(Debug)]
pub(crate) struct PlainSeat {
    plain: Plain,
    mailbox: Arc<Mailbox>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<Sent>,
    /// Those of them that go with the commit.
    later: Vec<CallNo>,
    /// Replies that the commit waits for.
    missing: usize,
    is_committing: bool,
    replies: Vec<(CallNo, Reply)>,
    failed: Option<Event>,
}

#[derive(Debug)]
struct Sent {
    key: Bytes,
    slot: u16,
    op: Operation,
}

impl PlainSeat {
    pub(super) fn new(plain: &Plain, mailbox: &Arc<Mailbox>) -> Arc<Self> {
        let inner = Mutex::default();
        Arc::new(PlainSeat { plain: plain.clone(), mailbox: Arc::clone(mailbox), inner })
    }

    pub(super) fn buffer(&self, calls: &mut Vec<Placed>) {
        let mut inner = self.inner.lock();
        for call in calls.drain(..) {
            let no = inner.add(call);
            inner.later.push(no);
        }
    }

    pub(super) fn execute(self: &Arc<Self>, call: Placed) -> CallNo {
        let no = self.inner.lock().add(call);
        self.send(&[no]);
        no
    }

    pub(super) fn commit(self: &Arc<Self>) {
        let later = {
            let mut inner = self.inner.lock();
            inner.is_committing = true;
            inner.missing = inner.later.len();
            std::mem::take(&mut inner.later)
        };
        if later.is_empty() {
            return self.tell(Event::Committed { replies: Vec::new() });
        }
        self.send(&later);
    }

    /// What is under way cannot be taken back.
    pub(super) fn abort(&self) {
        self.tell(Event::Aborted);
    }

    fn tell(&self, event: Event) {
        let mut woken = Wakers::new();
        self.mailbox.put_event(event, &mut woken);
        woken.into_iter().for_each(std::task::Waker::wake);
    }

    fn send(self: &Arc<Self>, numbers: &[CallNo]) {
        let mut commands = Vec::with_capacity(numbers.len());
        let mut refused = Vec::new();
        {
            let inner = self.inner.lock();
            for no in numbers {
                let Sent { key, slot, op } = &inner.calls[no.0 as usize];
                match command_of(key, *slot, op) {
                    Ok(command) => {
                        let to: Arc<dyn Receiver> = Arc::clone(self) as Arc<dyn Receiver>;
                        commands.push(Waiting::new(command, to, no.0));
                    }
                    Err(error) => refused.push((no.0, error)),
                }
            }
        }
        self.plain.shared.pool.send(commands);
        let mut woken = Wakers::new();
        for (no, error) in refused {
            self.note(no, Err(error_at(self.key_of(no), error)), &mut woken);
        }
        woken.into_iter().for_each(std::task::Waker::wake);
    }

    fn key_of(&self, no: u32) -> Bytes {
        self.inner.lock().calls[no as usize].key.clone()
    }

    fn note(&self, no: u32, reply: Result<Reply, Event>, woken: &mut Wakers) {
        let mut inner = self.inner.lock();
        let event = if inner.is_committing { inner.on_commit(no, reply) } else { inner.on_answer(no, reply) };
        if let Some(event) = event {
            self.mailbox.put_event(event, woken);
        }
    }
}

impl Inner {
    fn add(&mut self, call: Placed) -> CallNo {
        self.calls.push(Sent { key: call.key, slot: call.hash as u16, op: call.op });
        CallNo(self.calls.len() as u32 - 1)
    }

    fn on_answer(&self, no: u32, reply: Result<Reply, Event>) -> Option<Event> {
        let answer = |reply| Event::Answer { no: CallNo(no), reply };
        Some(reply.map_or_else(|event| event, |reply| answer(reply_of(&self.calls[no as usize].op, reply))))
    }

    fn on_commit(&mut self, no: u32, reply: Result<Reply, Event>) -> Option<Event> {
        self.missing = self.missing.saturating_sub(1);
        match reply {
            Ok(reply) => {
                let op = &self.calls[no as usize].op;
                if op.returns() {
                    let reply = reply_of(op, reply);
                    self.replies.push((CallNo(no), reply));
                }
            }
            Err(event) => self.failed = Some(event),
        }
        if self.missing > 0 {
            return None;
        }
        let replies = std::mem::take(&mut self.replies);
        Some(self.failed.take().unwrap_or(Event::Committed { replies }))
    }
}

impl Receiver for PlainSeat {
    fn receive(&self, no: u32, reply: Result<Reply, PlainError>, woken: &mut Wakers) {
        let reply = reply.map_err(|error| match error {
            PlainError::Lost { .. } => Event::Unknown,
            other => error_at(self.key_of(no), OpError::Told(other.to_string())),
        });
        self.note(no, reply, woken);
    }
}

fn error_at(key: Bytes, error: OpError) -> Event {
    Event::Failed { refusal: Refusal::Operation { key, error } }
}
