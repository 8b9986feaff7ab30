//! The connections to all nodes of a cluster: the tasks that keep them, and the task that finds out which nodes there
//! are.
//!
//! Each node has one task, its keeper, that connects, serves the connection until it breaks, and connects again. The
//! keeper of a node that serves nothing any more goes on as long as the node answers, and then ends; if the node
//! comes back it gets another keeper. One more task asks for the topology now and then, and when somebody has a
//! reason to doubt it. A [`Service`] decides what is done on the connections.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use claret_planted::{Bug, is_planted};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::address::Address;
use crate::backoff::Backoff;
use crate::bounds::ReplyLimits;
use crate::connection::{Connection, Handler, refusal, unreachable_at};
use crate::error::ConnectError;
use crate::settings::Settings;
use crate::topology::Topology;

/// The topology is asked for this often, at most.
const REFRESH_GAP: Duration = Duration::from_millis(100);
/// And this often, at least.
const REFRESH_AFTER: Duration = Duration::from_secs(60);

/// So many of the nodes that were named are compared at the beginning, all at once, for so long at most.
const SEEDS_COMPARED_MAX: usize = 16;
const COMPARE_TIME: Duration = Duration::from_millis(1_000);

/// How long a node that serves nothing any more has, at least, to answer what it was asked.
const PARTING: Duration = Duration::from_secs(1);

/// What the connections are for.
pub trait Service: Send + Sync + 'static {
    /// What is done on one connection.
    type Handler: Handler + Send;

    /// A connection is new: does what comes before anything else on it, and answers its handler.
    fn handshake(
        self: Arc<Self>,
        connection: &mut Connection,
    ) -> impl Future<Output = Result<Self::Handler, ConnectError>> + Send;

    /// The nodes, and what they serve, are known anew.
    fn adopt(&self, topology: &Topology);

    /// A node cannot be reached. What waits for it may be told.
    fn is_away(&self, node: &Address, error: &ConnectError);

    /// A node serves nothing any more, and answers no more.
    fn is_gone(&self, node: &Address);

    /// Rung by whoever has a reason to believe that the topology changed.
    fn doubts(&self) -> &Notify;
}

/// How a node's connection is.
#[derive(Clone, Debug)]
enum Standing {
    Connecting,
    Up,
    Down(ConnectError),
}

#[derive(Debug)]
struct Known {
    node: Address,
    standing: Standing,
    keeper: JoinHandle<()>,
    terms: Arc<Terms>,
}

/// What a keeper and those who watch it tell each other.
#[derive(Debug, Default)]
struct Terms {
    /// The node serves nothing any more.
    has_left: AtomicBool,
    /// It answered the handshake, and the connection is not broken.
    is_up: AtomicBool,
}

/// The connections to all nodes, and who they are.
#[derive(Debug)]
pub struct Net<S> {
    service: Arc<S>,
    settings: Settings,
    runtime: Handle,
    known: Mutex<Vec<Known>>,
    topology: Mutex<Topology>,
    /// Why nobody could tell the topology, where that stays so.
    unreported: Mutex<Option<ConnectError>>,
    /// Counts what changed, for those who wait for the nodes.
    changes: watch::Sender<u64>,
    is_closing: AtomicBool,
}

struct CloseOnDrop<'a, S: Service>(&'a Net<S>);

impl<S: Service> Drop for CloseOnDrop<'_, S> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<S: Service> Net<S> {
    /// Connects to all nodes, waiting for those that are not ready.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect(settings: Settings, service: Arc<S>) -> Result<Arc<Self>, ConnectError> {
        let until = Instant::now() + settings.connect_timeout;
        let net = Arc::new(Net {
            service,
            settings,
            runtime: Handle::current(),
            known: Mutex::default(),
            topology: Mutex::default(),
            unreported: Mutex::default(),
            changes: watch::Sender::new(0),
            is_closing: AtomicBool::new(false),
        });
        // Also where nobody waits for it any more.
        let unless_connected = CloseOnDrop(&net);
        net.first_contact(until).await?;
        std::mem::forget(unless_connected);
        Ok(net)
    }

    async fn first_contact(self: &Arc<Self>, until: Instant) -> Result<(), ConnectError> {
        let mut backoff = Backoff::new(u64::from(std::process::id()));
        loop {
            let error = match self.ask_topology().await {
                Ok(topology) => match topology.missing() {
                    missing if missing.is_empty() => {
                        self.compare_seeds(&topology, until).await?;
                        self.adopt(topology);
                        // A node that is not the one that was told may be so by now.
                        self.runtime.spawn(Arc::clone(self).watch_topology());
                        return self.await_all(until).await;
                    }
                    slots => ConnectError::Uncovered { slots },
                },
                Err(error) => error,
            };
            let pause = backoff.pause();
            if !error.is_retryable() || Instant::now() + pause > until {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    /// Waits until all nodes are connected.
    async fn await_all(&self, until: Instant) -> Result<(), ConnectError> {
        let mut changes = self.changes.subscribe();
        loop {
            let mut missing = None;
            for known in self.known.lock().iter() {
                match &known.standing {
                    Standing::Up => {}
                    Standing::Down(error) if !error.is_retryable() => return Err(error.clone()),
                    Standing::Down(error) => missing = Some(error.clone()),
                    Standing::Connecting => {
                        let reason = "no answer within the connect timeout".to_owned();
                        missing.get_or_insert(unreachable_at(&known.node, reason));
                    }
                }
            }
            let Some(error) = missing else { return Ok(()) };
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(until) => return Err(error),
            }
        }
    }

    /// Closes all connections, each once its handler is done.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.service.doubts().notify_one();
        for known in self.known.lock().iter().filter(|known| !matches!(known.standing, Standing::Up)) {
            known.keeper.abort();
        }
    }

    /// Waits until the connections are closed, for so long at most.
    pub async fn closed(&self, patience: Duration) {
        let keepers: Vec<JoinHandle<()>> = self.known.lock().drain(..).map(|known| known.keeper).collect();
        let all = async {
            for keeper in keepers {
                // It ended, or it was stopped: both will do.
                let _ = keeper.await;
            }
        };
        let _ = timeout(patience, all).await;
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}

/// Nodes.
impl<S: Service> Net<S> {
    /// What the connections are told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The runtime that the connections live on.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The nodes that serve slots.
    pub fn nodes(&self) -> Vec<Address> {
        self.topology.lock().nodes()
    }

    /// Which node serves which slot.
    pub fn topology(&self) -> Topology {
        self.topology.lock().clone()
    }

    /// A node that cannot be reached now, and why.
    pub fn away(&self) -> Option<ConnectError> {
        let away = self.known.lock().iter().find_map(|known| match &known.standing {
            Standing::Down(error) => Some(error.clone()),
            Standing::Connecting | Standing::Up => None,
        })?;
        Some(self.unreported.lock().clone().unwrap_or(away))
    }

    fn stands(&self, node: &Address, standing: Standing) {
        if let Some(known) = self.known.lock().iter_mut().find(|known| known.node == *node) {
            known.standing = standing;
        }
        self.changes.send_modify(|count| *count += 1);
    }

    async fn keep(self: Arc<Self>, node: Address, terms: Arc<Terms>) {
        let seed = node
            .host()
            .bytes()
            .fold(u64::from(node.port()), |sum, byte| sum.rotate_left(7) ^ u64::from(byte));
        let mut backoff = Backoff::new(seed ^ u64::from(std::process::id()));
        while !self.is_closing() {
            let served = self.serve(&node, &mut backoff, &terms).await;
            terms.is_up.store(false, Ordering::Release);
            let has_left = terms.has_left.load(Ordering::Acquire);
            match served {
                // Its handler is done: the store closes, or the node has another keeper.
                Ok(()) if has_left || self.is_closing() => return,
                // An earlier keeper was in the way, and gave up.
                Ok(()) => {}
                Err(error) => {
                    if !has_left {
                        self.service.is_away(&node, &error);
                        self.stands(&node, Standing::Down(error));
                    }
                    self.service.doubts().notify_one();
                }
            }
            sleep(if is_planted(Bug::NeverConnectedAgain) {
                Duration::from_secs(3_600)
            } else {
                backoff.pause()
            })
            .await;
            if terms.has_left.load(Ordering::Acquire) && self.serves(&node) {
                return; // It is back, and has another keeper.
            }
        }
    }

    fn serves(&self, node: &Address) -> bool {
        self.topology.lock().nodes().contains(node)
    }

    /// Waits for the end of a node that serves nothing any more: one that gave its slots away and lives answers for
    /// itself (P56).
    async fn part_with(self: Arc<Self>, mut left: Known) {
        loop {
            if timeout(PARTING, &mut left.keeper).await.is_ok() {
                break;
            }
            if self.is_closing() {
                return;
            }
            if !left.terms.is_up.load(Ordering::Acquire) || self.serves(&left.node) {
                left.keeper.abort();
                // Stopped in the midst of a handshake it may have said something: that is over then.
                let _ = left.keeper.await;
                break;
            }
        }
        if !self.serves(&left.node) {
            self.service.is_gone(&left.node);
        }
    }

    async fn serve(&self, node: &Address, backoff: &mut Backoff, terms: &Terms) -> Result<(), ConnectError> {
        let mut connection = Connection::open(&self.settings, node).await?;
        let handshake = Arc::clone(&self.service).handshake(&mut connection);
        let late = |_| unreachable_at(node, "no answer within the connect timeout".into());
        let mut handler = timeout(self.settings.connect_timeout, handshake).await.map_err(late)??;
        backoff.reset();
        terms.is_up.store(true, Ordering::Release);
        if !terms.has_left.load(Ordering::Acquire) {
            self.stands(node, Standing::Up);
        }
        connection.set_bounds(self.settings.limits.of_work());
        connection.serve(&mut handler, self.settings.response_timeout).await
    }
}

/// Topology.
impl<S: Service> Net<S> {
    async fn watch_topology(self: Arc<Self>) {
        while !self.is_closing() {
            tokio::select! {
                () = self.service.doubts().notified() => {}
                () = sleep(REFRESH_AFTER) => {}
            }
            if self.is_closing() {
                return;
            }
            // While a cluster fails over it contradicts itself: what is not whole is not believed.
            match self.ask_topology().await {
                Ok(topology) if topology.missing().is_empty() || is_planted(Bug::HolesBelieved) => {
                    self.adopt(topology)
                }
                Err(error) if !error.is_retryable() => *self.unreported.lock() = Some(error),
                Ok(_) | Err(_) => {}
            }
            sleep(REFRESH_GAP).await;
        }
    }

    /// Asks the nodes that are known, and then those that were named at the beginning.
    async fn ask_topology(&self) -> Result<Topology, ConnectError> {
        let mut nodes = self.nodes();
        nodes.extend_from_slice(if is_planted(Bug::OtherSeedsUnasked) {
            &self.settings.seeds[..1]
        } else {
            &self.settings.seeds
        });
        // One that is silent leaves time for the others.
        let share = self.settings.connect_timeout / (nodes.len() as u32 + 1);
        let mut failed = None;
        for node in nodes {
            let late = |_| Err(unreachable_at(&node, format!("no answer within {share:?}")));
            match timeout(share, self.ask_topology_at(&node)).await.unwrap_or_else(late) {
                Ok(topology) => return Ok(topology),
                // Of several errors the first final one tells most.
                Err(error) => {
                    if failed.as_ref().is_none_or(ConnectError::is_retryable) {
                        failed = Some(error);
                    }
                }
            }
        }
        Err(failed.expect("there is a node to ask"))
    }

    async fn ask_topology_at(&self, node: &Address) -> Result<Topology, ConnectError> {
        self.ask_topology_of_cluster(node, &self.topology()).await
    }

    /// What a node says of its cluster is to be of that which is known: else its records would be taken for those of another one.
    async fn ask_topology_of_cluster(
        &self,
        node: &Address,
        known: &Topology,
    ) -> Result<Topology, ConnectError> {
        let mut connection = Connection::open(&self.settings, node).await?;
        let topology = topology_of(&mut connection, &self.settings.limits).await?;
        if !topology.may_be_of_another_cluster(known) || is_planted(Bug::AnotherClusterBelieved) {
            return Ok(topology);
        }
        match connection.ask(&["CLUSTER", "NODES"]).await? {
            Ok(nodes) if known.has_one_of(&nodes) => Ok(topology),
            Err(error) => Err(refusal(node, error)),
            Ok(_) => {
                let other = known.nodes().first().map(Address::to_string).unwrap_or_default();
                Err(ConnectError::AnotherCluster { node: node.to_string(), other })
            }
        }
    }

    /// Nodes of two clusters may have been named. One that does not answer soon is asked when it is needed.
    async fn compare_seeds(
        self: &Arc<Self>,
        topology: &Topology,
        until: Instant,
    ) -> Result<(), ConnectError> {
        // Most of the time is for the nodes.
        let patience = COMPARE_TIME.min(until.saturating_duration_since(Instant::now()) / 4);
        let nodes = topology.nodes();
        let seeds = self.settings.seeds.iter().filter(|seed| !nodes.contains(seed)).take(SEEDS_COMPARED_MAX);
        let mut answers = JoinSet::new();
        for seed in seeds {
            let (net, seed, known) = (Arc::clone(self), seed.clone(), topology.clone());
            let asked = async move { net.ask_topology_of_cluster(&seed, &known).await };
            answers.spawn(timeout(patience, asked));
        }
        while let Some(answer) = answers.join_next().await {
            if let Ok(Ok(Err(error @ ConnectError::AnotherCluster { .. }))) = answer {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Begins to keep new nodes, and parts with those that serve nothing any more.
    fn adopt(self: &Arc<Self>, topology: Topology) {
        let nodes = topology.nodes();
        *self.topology.lock() = topology.clone();
        *self.unreported.lock() = None;
        // Before any connection says hello by it.
        self.service.adopt(&topology);
        let mut known = self.known.lock();
        for left in known.extract_if(.., |known| !nodes.contains(&known.node)) {
            left.terms.has_left.store(true, Ordering::Release);
            self.runtime.spawn(Arc::clone(self).part_with(left));
        }
        for node in nodes {
            if known.iter().all(|known| known.node != node) {
                let terms = Arc::<Terms>::default();
                let keeper = self.runtime.spawn(Arc::clone(self).keep(node.clone(), Arc::clone(&terms)));
                known.push(Known { node, standing: Standing::Connecting, keeper, terms });
            }
        }
    }
}

/// Asks the node at the other end which nodes there are.
pub(crate) async fn topology_of(
    connection: &mut Connection,
    limits: &ReplyLimits,
) -> Result<Topology, ConnectError> {
    connection.set_bounds(limits.of_topology());
    let answer = connection.ask(&["CLUSTER", "SLOTS"]).await?;
    let node = connection.node();
    match answer {
        Ok(reply) => Topology::parse(&reply, node, limits).map_err(|error| error.at(node)),
        Err(error) if error.to_string().contains("cluster support disabled") => {
            Ok(Topology::alone(node.clone()))
        }
        Err(error) => Err(refusal(node, error)),
    }
}
