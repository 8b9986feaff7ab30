//! Redis commands on a cluster, over connections that the whole process shares.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use claret_types::{Bytes, Reply};

use crate::command::{Command, CommandError};
use crate::dedicated::Dedicated;
use crate::error::ConnectError;
use crate::forward::Forward;
use crate::gather::Gather;
use crate::net::Net;
use crate::pool::{Pool, Waiting};
use crate::raw::Raw;
use crate::settings::Settings;
use crate::topology::{SLOTS, slot_of};

/// Redis commands on a cluster, as they are: no transactions, no promises but Redis's own. The module is not needed.
///
/// Commands of the whole process share one connection to each node, on which they are pipelined: what is sent in one
/// turn of the runtime leaves in one piece. What a node sends elsewhere (MOVED, ASK, TRYAGAIN) is sent again. A handle
/// is cheap to clone.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use claret_redis::{Builder, Command};
/// let cluster = Builder::new("redis://127.0.0.1:7001").connect().await?;
/// let lock = Command::new("SET").key("lock:7").arg("me").arg("NX").arg("PX").arg("1000");
/// let is_mine = cluster.ask(lock).await? == claret_types::Reply::Ok;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Cluster {
    shared: Arc<Connections>,
}

#[derive(Debug)]
struct Connections {
    pool: Arc<Pool>,
    net: Arc<Net<Pool>>,
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.net.close();
        self.pool.farewell();
    }
}

impl Cluster {
    /// Connects to all nodes.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open(settings: Settings) -> Result<Self, ConnectError> {
        let pool = Arc::new(Pool::new(settings.clone()));
        let net = Net::connect(settings, Arc::clone(&pool)).await?;
        Ok(Cluster { shared: Arc::new(Connections { pool, net }) })
    }

    /// Its nodes and the tasks that keep their connections.
    pub fn net(&self) -> &Arc<Net<Pool>> {
        &self.shared.net
    }

    /// Its queues. Whoever keeps them keeps no connection open.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.shared.pool
    }

    /// The addresses of the nodes that serve slots.
    pub fn nodes(&self) -> Vec<String> {
        self.net().nodes().iter().map(ToString::to_string).collect()
    }

    /// Sends a command to the node of its first key, and gives the reply. It is on its way when this returns; the
    /// future waits for the reply.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub fn ask(&self, command: Command) -> impl Future<Output = Result<Reply, CommandError>> + use<> {
        let all = self.run(vec![command]);
        async move { all.await.pop().expect("one command, one reply") }
    }

    /// Sends commands, each to the node of its first key, and gives the replies in their order. They are on their way
    /// when this returns; the future waits for the replies.
    pub fn run(
        &self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Vec<Result<Reply, CommandError>>> + use<> {
        let gather = Arc::new(Gather::new(commands));
        self.pool().send(gather.waiting());
        replies(gather)
    }

    /// Sends a command to a node of [`Cluster::nodes`], whatever its keys.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn ask_at(&self, node: &str, command: Command) -> Result<Reply, CommandError> {
        let gather = Arc::new(Gather::new(vec![command]));
        let waiting = gather.waiting().next().expect("one command");
        if !self.pool().send_to(node, waiting) {
            return Err(CommandError::NoSuchNode(node.to_owned()));
        }
        replies(gather).await.pop().expect("one command, one reply")
    }

    /// A connection of one's own to the node of a key, as WATCH needs it.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn dedicated(&self, key: impl Into<Bytes>) -> Result<Dedicated, ConnectError> {
        let slot = slot_of(&key.into());
        let topology = self.net().topology();
        let range = topology.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        let range = range.ok_or_else(|| ConnectError::Uncovered { slots: vec![(slot, slot)] })?;
        Dedicated::open(self.net().settings(), &range.node).await
    }
}

/// Commands that are passed on as bytes, and connections of one's own.
impl Cluster {
    /// Passes a command on to the node of this slot ([`slot_of`](crate::slot_of)); without a slot to any node. It is on its
    /// way when this returns.
    ///
    /// What a node sends elsewhere or cannot do for the moment (MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING) is sent again, up to 16
    /// times, and then that is the reply. A command must be done soon: one that waits on the server (BLPOP) would hold up the
    /// replies to all others, and the connection would be given up after the response timeout. For these there is [`Cluster::raw`].
    ///
    /// # Order
    /// Commands for one slot leave in the order in which they were passed on. One that is sent again may be overtaken by a later
    /// one. Whoever must not be overtaken (a pipeline) waits for the replies to all that it has under way whenever
    /// [`Cluster::topology_version`] has changed, and sends on with [`Cluster::forward_all_since`]. Only what had left together with a
    /// command that rests (TRYAGAIN, CLUSTERDOWN, LOADING) may be carried out before it even so.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn forward(&self, to: Arc<dyn Forward>, no: u32, slot: Option<u16>) {
        self.pool().send([waiting(to, no, slot)]);
    }

    /// Passes commands on under one lock, as [`Cluster::forward`] does with each: numbers and slots.
    ///
    /// # Panics
    /// There is no such slot.
    pub fn forward_all(&self, to: &Arc<dyn Forward>, commands: impl IntoIterator<Item = (u32, Option<u16>)>) {
        self.pool().send(commands.into_iter().map(|(no, slot)| waiting(Arc::clone(to), no, slot)));
    }

    /// The same, if [`Cluster::topology_version`] is still the one given. Returns whether it is; if not, nothing is passed on, and
    /// `commands` is left as it was.
    ///
    /// # Panics
    /// There is no such slot.
    #[must_use]
    pub fn forward_all_since(
        &self,
        version: u64,
        to: &Arc<dyn Forward>,
        commands: impl IntoIterator<Item = (u32, Option<u16>)>,
    ) -> bool {
        let commands = commands.into_iter().map(|(no, slot)| waiting(Arc::clone(to), no, slot));
        self.pool().send_since(version, commands)
    }

    /// Passes a command on to a node of [`Cluster::nodes`], whatever its keys. Whatever that answers is the reply, also where it would
    /// send a command elsewhere. Returns whether there is such a node: if not, nothing is heard.
    #[must_use]
    pub fn forward_to(&self, node: &str, to: Arc<dyn Forward>, no: u32) -> bool {
        self.pool().send_to(node, Waiting::raw_for_node(to, no))
    }

    /// Counts what may put a command before one that was passed on earlier: each slot that turns out to have moved (MOVED), each
    /// topology that is not the one before, and each command passed on that rests before it is sent again. O(1), without a lock.
    pub fn topology_version(&self) -> u64 {
        self.pool().version()
    }

    /// The node that serves a slot, as far as it is known here. `None`: there is no such slot.
    pub fn node_of(&self, slot: u16) -> Option<String> {
        self.pool().node_of(slot).map(|node| node.to_string())
    }

    /// A connection of one's own, through which everything goes as it is, to the node of a slot; without a slot to any node.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn raw(&self, slot: Option<u16>) -> Result<Raw, ConnectError> {
        let slot = slot.unwrap_or_default();
        let node = self.pool().node_of(slot);
        let node = node.ok_or_else(|| ConnectError::Uncovered { slots: vec![(slot, slot)] })?;
        Raw::open(self.net().settings(), &node).await
    }

    /// The same to a node by its address.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn raw_at(&self, node: &str) -> Result<Raw, ConnectError> {
        Raw::to(self.net().settings(), Some(node)).await
    }
}

async fn replies(gather: Arc<Gather>) -> Vec<Result<Reply, CommandError>> {
    poll_fn(|cx| gather.take(cx.waker()).map_or(Poll::Pending, Poll::Ready)).await
}

fn waiting(to: Arc<dyn Forward>, no: u32, slot: Option<u16>) -> Waiting {
    assert!(slot.is_none_or(|slot| usize::from(slot) < SLOTS), "slot {slot:?} of {SLOTS}");
    Waiting::raw(to, no, slot)
}
