//! A cluster on loopback: masters that share the slots evenly, and replicas of each.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};

use crate::server::{LOOK, field, query};
use crate::topology::slot_of;
use crate::{Certificates, Module, Node, RigError, SLOTS, Server, ServerOptions, ShiftedClock, nodes};

/// How long the nodes may take until they are of one mind.
const JOIN_TIME: Duration = Duration::from_secs(60);

/// How often another port is tried when somebody else took the one that was free.
const PORT_TRIES: usize = 5;

/// How many lines of each log are shown.
const LOG_LINES: usize = 5;

/// How long a node may be silent before it counts as failed, unless it is said otherwise.
const NODE_TIMEOUT_MS: u32 = 2_000;

/// What is told while a cluster starts. It may say that it is enough.
pub type Progress<'a> = &'a mut dyn FnMut(&str) -> ControlFlow<()>;

/// How to start a cluster. What is not said is chosen as for a [`Server`].
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    masters: u16,
    replicas: u16,
    node_timeout_ms: u32,
    first_port: Option<u16>,
    dir: Option<PathBuf>,
    server: ServerOptions,
}

impl ClusterOptions {
    /// So many masters, and so many replicas of each.
    pub fn new(masters: u16, replicas: u16) -> Self {
        assert!(masters > 0, "a cluster has a master");
        let server = ServerOptions::default();
        ClusterOptions {
            masters,
            replicas,
            node_timeout_ms: NODE_TIMEOUT_MS,
            first_port: None,
            dir: None,
            server,
        }
    }

    /// This program instead of [`server_program`](crate::server_program).
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.server = self.server.program(program);
        self
    }

    /// Each node in a directory of its own in this one; they stay.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// This port and those above it.
    #[must_use]
    pub fn first_port(mut self, port: u16) -> Self {
        self.first_port = Some(port);
        self
    }

    /// With this module loaded everywhere.
    #[must_use]
    pub fn module(mut self, module: Module) -> Self {
        self.server = self.server.module(module);
        self
    }

    /// With this password everywhere.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.server = self.server.password(password);
        self
    }

    /// With TLS and nothing else everywhere, between the nodes too.
    #[must_use]
    pub fn tls(mut self, certificates: Certificates) -> Self {
        self.server = self.server.tls(certificates);
        self
    }

    /// How long a node may be silent before it counts as failed.
    #[must_use]
    pub fn node_timeout_ms(mut self, time: u32) -> Self {
        self.node_timeout_ms = time;
        self
    }

    /// In the durability strict, with all replicas of each shard, which stay in it. Nodes need a secret for that, too.
    #[must_use]
    pub fn strict(self) -> Self {
        let replicas = self.replicas;
        self.config("claret.durability strict")
            .config(&format!("claret.replicas {replicas}"))
            .config(&format!("cluster-migration-barrier {replicas}"))
    }

    /// With this line more in each configuration.
    #[must_use]
    pub fn config(mut self, line: &str) -> Self {
        self.server = self.server.config(line);
        self
    }

    /// With clocks that can be [shifted](Server::shift_clock).
    #[must_use]
    pub fn clock(mut self, clock: ShiftedClock) -> Self {
        self.server = self.server.clock(clock);
        self
    }

    /// As nodes that [bear a full disk](ServerOptions::bears_limits).
    #[must_use]
    pub fn bears_limits(mut self) -> Self {
        self.server = self.server.bears_limits();
        self
    }

    /// Starts it and waits until all nodes say that all is well.
    ///
    /// # Errors
    /// See [`RigError`]; nothing is left running.
    pub fn start(&self) -> Result<Cluster, RigError> {
        self.start_seen(&mut |_| ControlFlow::Continue(()))
    }

    /// The same, telling what goes on.
    ///
    /// # Errors
    /// The same.
    pub fn start_seen(&self, seen: Progress<'_>) -> Result<Cluster, RigError> {
        let count = usize::from(self.masters) * (1 + usize::from(self.replicas));
        tell(seen, &format!("starting {count} servers"))?;
        let mut servers = Vec::with_capacity(count);
        for number in 0..count {
            servers.push(self.node(number)?.launch()?);
        }
        for (number, server) in servers.iter_mut().enumerate() {
            let mut tries = 1;
            while let Err(error) = server.wait_ready() {
                tell(seen, "starting a server again")?;
                if self.first_port.is_some() || tries == PORT_TRIES || !error.is_about_port() {
                    return Err(error);
                }
                tries += 1;
                *server = self.node(number)?.launch()?;
            }
        }
        let mut cluster = Cluster { servers, masters: self.masters.into(), replicas: self.replicas.into() };
        tell(seen, "joining them")?;
        cluster.join(seen)?;
        cluster.wait(JOIN_TIME, seen)?;
        Ok(cluster)
    }

    fn node(&self, number: usize) -> Result<ServerOptions, RigError> {
        let mut options = self.server.clone();
        let mut name = format!("node-{number}");
        if let Some(first) = self.first_port {
            let port = first.checked_add(number as u16).ok_or(RigError::PortTooHigh(u16::MAX))?;
            options = options.port(port);
            name = port.to_string();
        }
        if let Some(dir) = &self.dir {
            options = options.dir(dir.join(name));
        }
        Ok(options
            .config("cluster-enabled yes")
            .config("cluster-config-file nodes.conf")
            .config(&format!("cluster-node-timeout {}", self.node_timeout_ms))
            // A replica need not wait for others that might come.
            .config("repl-diskless-sync-delay 0"))
    }
}

fn tell(seen: Progress<'_>, what: &str) -> Result<(), RigError> {
    match seen(what) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(RigError::Interrupted),
    }
}

/// A cluster of this process. It ends when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    masters: usize,
    replicas: usize,
}

impl Cluster {
    /// How to start one of so many masters, each with so many replicas.
    pub fn options(masters: u16, replicas: u16) -> ClusterOptions {
        ClusterOptions::new(masters, replicas)
    }

    /// What clients connect to: its first node.
    pub fn url(&self) -> String {
        self.servers[0].url()
    }

    /// All nodes: those that began as masters, in the order of their slots, then the replicas of the first, of the
    /// second, and so on.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One of [`servers`](Cluster::servers), to be killed or restarted.
    pub fn server_mut(&mut self, number: usize) -> &mut Server {
        &mut self.servers[number]
    }

    /// How many nodes began as masters.
    pub fn masters(&self) -> usize {
        self.masters
    }

    /// The place in [`servers`](Cluster::servers) of a master's replica.
    pub fn replica(&self, master: usize, number: usize) -> usize {
        assert!(master < self.masters && number < self.replicas, "there is no such replica");
        self.masters + master * self.replicas + number
    }

    /// First and last of the slots that a master began with.
    pub fn slots(&self, master: usize) -> (u16, u16) {
        let first = |master: usize| (master * usize::from(SLOTS) / self.masters) as u16;
        (first(master), first(master + 1) - 1)
    }

    /// The master that a key began at.
    pub fn owner(&self, key: &str) -> usize {
        let slot = slot_of(key);
        (0..self.masters).find(|&master| slot <= self.slots(master).1).expect("all slots have a master")
    }

    /// A key that begins so and is at this master.
    pub fn key_at(&self, master: usize, prefix: &str) -> String {
        let names = (0_u32..).map(|number| format!("{prefix}{number}"));
        names.into_iter().find(|name| self.owner(name) == master).expect("every master has slots")
    }

    /// One command at one node.
    ///
    /// # Errors
    /// As [`Server::query`].
    pub fn query<T: FromRedisValue>(&self, number: usize, words: &[&str]) -> Result<T, RigError> {
        self.servers[number].query(words)
    }

    /// Leaves all processes and their directories alone from now on; answers the pids.
    pub fn leave_running(self) -> Vec<u32> {
        self.servers.into_iter().filter_map(Server::leave_running).collect()
    }

    /// Waits until every node that runs says that all slots are served, they all agree who is who, replicas have
    /// their master's records, and the nodes that do not run are known to have failed.
    ///
    /// # Errors
    /// It takes longer than this; how it stood at the end.
    pub fn wait_until_ok(&mut self, time: Duration) -> Result<(), RigError> {
        self.wait(time, &mut |_| ControlFlow::Continue(()))
    }

    fn join(&self, seen: Progress<'_>) -> Result<(), RigError> {
        let mut open = self.servers.iter().map(Server::connection).collect::<Result<Vec<_>, _>>()?;
        let mut say =
            |number: usize, words: &[&str]| -> Result<(), RigError> { query(&mut open[number], words) };
        for number in 0..self.servers.len() {
            // Epochs of their own: otherwise they would first have to settle who is the younger.
            say(number, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
        }
        for master in 0..self.masters {
            let (first, last) = self.slots(master);
            say(master, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
        for one in 0..self.servers.len() {
            for other in &self.servers[..one] {
                say(one, &["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()])?;
            }
        }
        for master in 0..self.masters {
            let id: String = self.query(master, &["CLUSTER", "MYID"])?;
            for number in 0..self.replicas {
                self.follow(&mut open[self.replica(master, number)], &id, seen)?;
            }
        }
        Ok(())
    }

    /// Makes a node a replica, as soon as it has heard of its master.
    fn follow(&self, replica: &mut Connection, master: &str, seen: Progress<'_>) -> Result<(), RigError> {
        let began = Instant::now();
        loop {
            match query(replica, &["CLUSTER", "REPLICATE", master]) {
                Err(RigError::Redis { error, .. })
                    if error.to_string().contains("Unknown node") && began.elapsed() < JOIN_TIME => {}
                done => return done,
            }
            tell(seen, "joining them")?;
            sleep(LOOK);
        }
    }

    fn wait(&mut self, time: Duration, seen: Progress<'_>) -> Result<(), RigError> {
        let began = Instant::now();
        let running: Vec<bool> = self.servers.iter_mut().map(Server::is_running).collect();
        while let Err(how_it_stands) = self.is_ok(&running) {
            tell(seen, "waiting for the cluster")?;
            if began.elapsed() > time {
                let what = format!("waiting for the cluster ({how_it_stands})");
                return Err(RigError::TooLong { what, seconds: time.as_secs(), log: self.logs() });
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// What is not well yet.
    fn is_ok(&self, running: &[bool]) -> Result<(), String> {
        let mut views = Vec::with_capacity(self.servers.len());
        let alive = self.servers.iter().zip(running).filter(|(_, running)| **running);
        for (server, _) in alive {
            views.push((server, self.view(server, running)?));
        }
        let Some(((first, view), others)) = views.split_first() else { return Err("no node runs".into()) };
        match others.iter().find(|(_, other)| other != view) {
            Some((other, _)) => Err(format!("{} and {} do not agree", first.address(), other.address())),
            None => Ok(()),
        }
    }

    /// The nodes as this one sees them, if it finds nothing amiss.
    fn view(&self, server: &Server, running: &[bool]) -> Result<Vec<Node>, String> {
        let address = server.address();
        let mut connection = server.connection().map_err(|error| error.to_string())?;
        let mut text = |words: &[&str]| -> Result<String, String> {
            query(&mut connection, words).map_err(|error| error.to_string())
        };
        let state = field(&text(&["CLUSTER", "INFO"])?, "cluster_state");
        if state.as_deref() != Some("ok") {
            return Err(format!("{address} says that the cluster is not well"));
        }
        let replication = text(&["INFO", "replication"])?;
        if field(&replication, "master_link_status").is_some_and(|status| status != "up") {
            return Err(format!("{address} has not got its master's records"));
        }
        let view = nodes(&mut connection).map_err(|error| error.to_string())?;
        if view.len() != self.servers.len() {
            return Err(format!("{address} knows {} nodes of {}", view.len(), self.servers.len()));
        }
        for node in &view {
            let at = self.servers.iter().position(|server| server.announced_port() == node.port);
            let is_running = at.is_some_and(|at| running[at]);
            if is_running == node.has_failed || is_running && node.is_uncertain {
                return Err(format!("{address} is not right about port {}", node.port));
            }
        }
        let slots: u32 = view.iter().filter(|node| !node.has_failed).map(Node::slot_count).sum();
        match slots == u32::from(SLOTS) {
            true => Ok(view),
            false => Err(format!("{address} knows who serves {slots} slots of {SLOTS}")),
        }
    }

    fn logs(&self) -> String {
        let of = |server: &Server| format!("\n{}:\n{}", server.address(), server.log(LOG_LINES));
        format!("; the end of each log:{}", self.servers.iter().map(of).collect::<String>())
    }
}
