//! Plain Redis commands on a cluster, by themselves and as the operations of transactions of mode `none`.

mod command;
mod dedicated;
mod forward;
mod gather;
mod passing;
mod pool;
mod raw;
mod refused;
mod together;
mod translate;
mod unlocked;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use claret_types::{Bytes, Reply};

pub use command::{Command, PlainError};
pub use dedicated::Dedicated;
pub use forward::Forward;
pub use raw::{Raw, Said};
pub use translate::reply_of;
pub(super) use unlocked::Unlocked;

use super::error::ConnectError;
use super::net::Net;
use super::settings::Settings;
use super::topology::slot_of;
use gather::Gather;
use pool::Pool;

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

impl Plain {
    pub(super) async fn open(settings: Settings) -> Result<Self, ConnectError> {
        let pool = Arc::new(Pool::new(settings.clone()));
        let net = Net::connect(settings, Arc::clone(&pool)).await?;
        Ok(Plain { shared: Arc::new(Connections { pool, net }) })
    }

    fn net(&self) -> &Arc<Net<Pool>> {
        &self.shared.net
    }

    fn pool(&self) -> &Arc<Pool> {
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
        let gather = Arc::new(Gather::new(commands));
        self.pool().send(gather.waiting());
        replies(gather)
    }

    /// Sends a command to a node of [`Plain::nodes`], whatever its keys.
    ///
    /// # Errors
    /// See [`PlainError`].
    pub async fn ask_at(&self, node: &str, command: Command) -> Result<Reply, PlainError> {
        let gather = Arc::new(Gather::new(vec![command]));
        let waiting = gather.waiting().next().expect("one command");
        if !self.pool().send_to(node, waiting) {
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
        let topology = self.net().topology();
        let range = topology.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        let range = range.ok_or_else(|| ConnectError::Uncovered { slots: vec![(slot, slot)] })?;
        Dedicated::open(&self.net().settings, &range.node).await
    }
}

async fn replies(gather: Arc<Gather>) -> Vec<Result<Reply, PlainError>> {
    poll_fn(|cx| gather.take(cx.waker()).map_or(Poll::Pending, Poll::Ready)).await
}
