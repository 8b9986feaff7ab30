//! The server: it listens, lets connections in, and ends in good order.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use claret::Store;
use claret::cluster::{ClusterBuilder, ConnectError};
use claret_planted::{Bug, is_planted};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsAcceptor;

use crate::client::Client;
use crate::limits::GatewayLimits;
use crate::login::Judge;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::registry::{Ends, Registry};
use crate::scripts::{Scripts, ScriptsMode};
use crate::session::{Backing, Nodes, Session};
use crate::shared::{Draining, Here, Identity, Modes, Shared, Times};
use crate::stream::Stream;
use crate::users::{AtNodes, Strangers, Users};
use crate::watch::WatchMode;

/// What is behind a gateway.
#[derive(Clone, Debug)]
pub enum Behind {
    /// A cluster, or a single server, with the module.
    Servers(Box<ClusterBuilder>),
    /// Records in this process.
    Store(Store),
}

/// How a gateway is set up. Made by [`Gateway::new`].
#[must_use]
pub struct Gateway {
    behind: Behind,
    limits: GatewayLimits,
    watch: Duration,
    wait: Duration,
    watch_mode: WatchMode,
    scripts_mode: ScriptsMode,
    drain: Duration,
    is_open: bool,
    is_unprotected: bool,
    password: Option<Vec<u8>>,
    tls: Option<TlsAcceptor>,
    asks_for_certificates: bool,
    logger: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Where clients connect.
#[derive(Debug)]
pub enum Door {
    /// A TCP socket that listens.
    Tcp(std::net::TcpListener),
    /// A Unix socket, made at this path.
    Unix(PathBuf),
}

/// Why a gateway does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The servers cannot be reached, or refuse.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// It cannot listen there.
    #[error("cannot listen at {at}: {reason}; choose another address")]
    Listen {
        /// The address.
        at: String,
        /// What the system said.
        reason: String,
    },
    /// Everybody who reaches the address would be served.
    #[error(
        "at {at} everybody who reaches it would be served, without a password: set one ({how}), listen at 127.0.0.1, have clients show \
         certificates (--tls-ca), or say --unprotected"
    )]
    Unprotected {
        /// The address.
        at: String,
        /// Where a password is set.
        how: &'static str,
    },
    /// The certificate or its key cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
}

/// Ends a gateway, and shows what it counts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct GatewayHandle {
    draining: Arc<Draining>,
    metrics: Arc<Metrics>,
}

impl GatewayHandle {
    /// No more connections come in, and those that are there end when what they are doing is done.
    pub fn stop(&self) {
        self.draining.begin();
    }

    /// What the gateway counts, as Prometheus reads it.
    pub fn prometheus(&self) -> String {
        self.metrics.prometheus()
    }
}

impl Gateway {
    /// Before what is behind it.
    pub fn new(behind: Behind) -> Self {
        Gateway {
            behind,
            limits: GatewayLimits::default(),
            watch: Duration::from_millis(100),
            wait: WAIT,
            watch_mode: WatchMode::default(),
            scripts_mode: ScriptsMode::default(),
            drain: Duration::from_secs(10),
            is_open: false,
            is_unprotected: false,
            password: None,
            tls: None,
            asks_for_certificates: false,
            logger: Arc::new(|_| {}),
        }
    }

    /// What clients may cost.
    pub fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How long whoever has a turn on keys has it, where others want it; by default 100 ms. Zero: there are no turns.
    pub fn watch_time(mut self, time: Duration) -> Self {
        self.watch = time;
        self
    }

    /// What counts of a key that a connection watches, unless it says so itself (`GATEWAY WATCH`); by default all of it.
    pub fn watch_mode(mut self, mode: WatchMode) -> Self {
        self.watch_mode = mode;
        self
    }

    /// Where scripts run: at one node if all their keys are sure to be there, unless it is said.
    pub fn scripts_mode(mut self, mode: ScriptsMode) -> Self {
        self.scripts_mode = mode;
        self
    }

    /// How long a client waits for anything but a command that blocks; three seconds unless it is said. That is shorter than the time
    /// after which clients that were not answered send the same again by themselves.
    pub fn wait_time(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// How long connections have to end after [`GatewayHandle::stop`]; by default 10 s.
    pub fn drain_time(mut self, time: Duration) -> Self {
        self.drain = time;
        self
    }

    /// Clients that have not said who they are act as the user of the URL. Without this they are the servers' default user, if that one
    /// needs no password.
    pub fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Also strangers may come from other machines. Without this a gateway that listens at an address that is not of the loopback
    /// interface alone serves nobody who has not logged in, unless clients show certificates.
    pub fn unprotected(mut self) -> Self {
        self.is_unprotected = true;
        self
    }

    /// Before [`Behind::Store`]: clients have to log in, as the user `default` with this password. Before servers it is theirs to judge.
    pub fn password(mut self, password: impl Into<Vec<u8>>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Clients of TCP speak TLS, with this certificate chain and its key, both PEM files; with `authority`, another PEM file, they have
    /// to show a certificate of it.
    ///
    /// # Errors
    /// [`GatewayError::Tls`].
    pub fn tls(mut self, chain: &str, key: &str, authority: Option<&str>) -> Result<Self, GatewayError> {
        self.tls = Some(crate::tls::acceptor(chain, key, authority).map_err(GatewayError::Tls)?);
        self.asks_for_certificates = authority.is_some();
        Ok(self)
    }

    /// Where lines of its log go.
    pub fn logger(mut self, logger: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.logger = Arc::new(logger);
        self
    }

    /// Serves clients on this thread until [`GatewayHandle::stop`]. `ready` is called once it does.
    ///
    /// # Errors
    /// See [`GatewayError`].
    pub fn run(
        self,
        doors: Vec<Door>,
        handle: &GatewayHandle,
        ready: impl FnOnce(),
    ) -> Result<(), GatewayError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(WORKERS_MAX).build();
        let runtime = runtime
            .map_err(|error| GatewayError::Listen { at: "this process".into(), reason: error.to_string() })?;
        let local = LocalSet::new();
        runtime.block_on(local.run_until(self.serve(doors, handle, ready)))
    }

    async fn serve(
        self,
        doors: Vec<Door>,
        handle: &GatewayHandle,
        ready: impl FnOnce(),
    ) -> Result<(), GatewayError> {
        let users = self.protected_users(&doors, handle).await?;
        let (registry, metrics) = (Arc::<Registry>::default(), Arc::clone(&handle.metrics));
        let logger = Arc::clone(&self.logger);
        let memory =
            Memory::new(&self.limits, Arc::clone(&registry), Arc::clone(&metrics), Arc::clone(&logger));
        let shared = Rc::new(Shared {
            users,
            limits: self.limits,
            times: Times::of(self.watch, self.wait),
            modes: Modes { watch: self.watch_mode, scripts: self.scripts_mode },
            scripts: Scripts::default(),
            functions: Default::default(),
            waiting: Default::default(),
            metrics,
            registry,
            memory: Arc::new(memory),
            arriving: Arc::default(),
            here: Here::default(),
            draining: Arc::clone(&handle.draining),
            identity: Identity::new(doors.iter().find_map(Door::port).unwrap_or(0)),
            logger,
        });
        let mut accepting = JoinSet::new();
        // As long as anybody waits, also while it ends.
        let ends = tokio::task::spawn_local(end_waits(Rc::clone(&shared)));
        let count = Rc::new(Cell::new(0));
        let mut sockets = Vec::new();
        for door in doors {
            let (shared, count, tls) = (Rc::clone(&shared), Rc::clone(&count), self.tls.clone());
            match door {
                Door::Tcp(listener) => {
                    let listener = tcp(listener)?;
                    accepting.spawn_local(accept_tcp(listener, shared, count, tls));
                }
                Door::Unix(path) => {
                    let listener = unix(&path)?;
                    sockets.push(path.clone());
                    accepting.spawn_local(accept_unix(listener, path, shared, count));
                }
            }
        }
        ready();
        handle.draining.ended().await;
        accepting.abort_all();
        let until = Instant::now() + self.drain;
        while count.get() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ends.abort();
        sockets.iter().for_each(|path| drop(std::fs::remove_file(path)));
        if count.get() > 0 {
            shared.log(&format!("{} connections were cut off after {:?}", count.get(), self.drain));
        }
        Ok(())
    }

    /// Who may come in by these doors.
    async fn protected_users(&self, doors: &[Door], handle: &GatewayHandle) -> Result<Users, GatewayError> {
        let open = doors.iter().find_map(Door::open_at).filter(|_| self.is_protected());
        let mut users = self.users(&handle.metrics).await?;
        if let Some(at) = open {
            if users.stranger().await.session.is_some() {
                let how = match self.behind {
                    Behind::Servers(_) => "CONFIG SET requirepass on all nodes; without --open",
                    Behind::Store(_) => "--password-file",
                };
                return Err(GatewayError::Unprotected { at, how });
            }
            // Nor later, should the nodes let them in.
            users.keep_strangers_out();
        }
        Ok(users)
    }

    /// Whether strangers have to come from this machine.
    fn is_protected(&self) -> bool {
        !self.is_unprotected && !self.asks_for_certificates
    }

    /// Connects once, so that what is wrong with the servers is said at the beginning.
    async fn users(&self, metrics: &Arc<Metrics>) -> Result<Users, GatewayError> {
        let builder = match &self.behind {
            Behind::Store(store) => {
                let session = Session::new(Backing::Here(store.clone()));
                return Ok(Users::local(session, self.password.clone()));
            }
            Behind::Servers(builder) => (**builder).clone(),
        };
        let nodes = Nodes::new(builder.clone());
        nodes.plain(crate::resp::Protocol::Resp2).await?;
        let home = Rc::new(Session::new(Backing::Nodes(Box::new(nodes))));
        home.store().await?;
        let logins_max = self.limits.logins_max.max(1);
        let judge = Rc::new(Judge::new(
            builder.connections().clone(),
            Rc::clone(&home),
            logins_max,
            Arc::clone(metrics),
        ));
        judge.learn(&mut judge.own().await?).await;
        let strangers = if self.is_open { Strangers::Home } else { Strangers::Judged };
        let users = Users::at_nodes(home, strangers, AtNodes { builder, judge }, self.limits.users_max);
        users.watch_home();
        Ok(users)
    }
}

impl Door {
    fn port(&self) -> Option<u16> {
        match self {
            Door::Tcp(listener) => Some(listener.local_addr().ok()?.port()),
            Door::Unix(_) => None,
        }
    }

    /// Its address, if others than this machine reach it.
    fn open_at(&self) -> Option<String> {
        match self {
            Door::Tcp(listener) => {
                let at = listener.local_addr().ok()?;
                (!at.ip().to_canonical().is_loopback()).then(|| at.to_string())
            }
            Door::Unix(_) => None,
        }
    }
}

fn tcp(listener: std::net::TcpListener) -> Result<TcpListener, GatewayError> {
    let at = listener.local_addr().map(|at| at.to_string()).unwrap_or_default();
    let failed = |error: io::Error| GatewayError::Listen { at: at.clone(), reason: error.to_string() };
    listener.set_nonblocking(true).map_err(failed)?;
    TcpListener::from_std(listener).map_err(failed)
}

/// A socket that a gateway left which was killed is in nobody's use: nobody answers there.
fn unix(path: &PathBuf) -> Result<UnixListener, GatewayError> {
    let failed =
        |error: io::Error| GatewayError::Listen { at: path.display().to_string(), reason: error.to_string() };
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(failed(error));
            }
            std::fs::remove_file(path).map_err(failed)?;
            UnixListener::bind(path).map_err(failed)
        }
        bound => bound.map_err(failed),
    }
}

/// Ends the waits of commands that were sent to nodes, once they have taken too long.
async fn end_waits(shared: Rc<Shared>) {
    // A part of the time, so that none takes much longer.
    let tick = (shared.times.wait / 16).clamp(Duration::from_millis(1), Duration::from_millis(250));
    loop {
        tokio::time::sleep(tick).await;
        let Some(then) = Instant::now().checked_sub(shared.times.wait.saturating_sub(tick)) else { continue };
        if is_planted(Bug::NodesAwaitedForEver) {
            continue;
        }
        let waiting = shared.waiting.borrow();
        let late = waiting.values().map(|replies| replies.expire(then, shared.times.wait)).sum::<usize>();
        shared.metrics.late.fetch_add(late as u64, Ordering::Relaxed);
    }
}

/// How long a client waits, unless it is said.
const WAIT: Duration = Duration::from_secs(3);

/// Threads for long work of single clients ([`crate::work`]).
const WORKERS_MAX: usize = 4;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long accepting rests when the system has no more sockets.
const REST: Duration = Duration::from_millis(50);

async fn accept_tcp(
    listener: TcpListener,
    shared: Rc<Shared>,
    count: Rc<Cell<usize>>,
    tls: Option<TlsAcceptor>,
) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                shared.log(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let local = stream.local_addr().map(|at| at.to_string()).unwrap_or_default();
        let ends = Ends { address: address.to_string(), local, file: stream.as_raw_fd(), is_unix: false };
        let (shared, count, tls) = (Rc::clone(&shared), Rc::clone(&count), tls.clone());
        tokio::task::spawn_local(async move {
            let Some(_place) = Place::take(&shared, &count) else {
                return reject(Stream::Tcp(stream), &shared).await;
            };
            let stream = match tls {
                None => Stream::Tcp(stream),
                Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                    _ => return,
                },
            };
            serve(stream, shared, ends).await;
        });
    }
}

async fn accept_unix(listener: UnixListener, path: PathBuf, shared: Rc<Shared>, count: Rc<Cell<usize>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        let (shared, count, path) = (Rc::clone(&shared), Rc::clone(&count), path.clone());
        tokio::task::spawn_local(async move {
            let Some(_place) = Place::take(&shared, &count) else {
                return reject(Stream::Unix(stream), &shared).await;
            };
            // Both ends bear the name of the socket, as servers show it.
            let place = format!("{}:0", path.display());
            let ends = Ends { address: place.clone(), local: place, file: stream.as_raw_fd(), is_unix: true };
            serve(Stream::Unix(stream), shared, ends).await;
        });
    }
}

async fn serve(stream: Stream, shared: Rc<Shared>, ends: Ends) {
    let entry = shared.registry.enter(ends);
    let _leave = Leave { registry: Arc::clone(&shared.registry), id: entry.id };
    Client::new(stream, shared, entry).serve().await;
}

/// Takes a connection off the list, however it ends.
struct Leave {
    registry: Arc<Registry>,
    id: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.registry.leave(self.id);
    }
}

async fn reject(mut stream: Stream, shared: &Shared) {
    Metrics::count(&shared.metrics.rejected);
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
    let _ = stream.shutdown().await;
}

/// One of the connections that there may be.
struct Place {
    count: Rc<Cell<usize>>,
    metrics: Arc<Metrics>,
}

impl Place {
    fn take(shared: &Shared, count: &Rc<Cell<usize>>) -> Option<Self> {
        if count.get() >= shared.limits.connections_max {
            return None;
        }
        count.set(count.get() + 1);
        Metrics::count(&shared.metrics.accepted);
        shared.metrics.connected.fetch_add(1, Ordering::Relaxed);
        Some(Place { count: Rc::clone(count), metrics: Arc::clone(&shared.metrics) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.metrics.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
