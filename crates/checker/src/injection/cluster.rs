//! A cluster that faults can be injected into: clients reach its nodes through proxies, which can cut connections, and
//! log in as a user of their own, whose rights can be withdrawn.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use claret_rig::{Cluster, Module, RigError, Server};

use crate::moves::Operator;
use crate::proxy::Proxy;

/// How long a process may be silent: its locks are free after this and a round of asking.
pub(crate) const LEASE: Duration = Duration::from_millis(2_000);

/// A node that is silent for less than this is not taken for dead: stopped by a fault, or starved on a machine with other
/// things to do. No fault asks for a failover.
const NODE_TIMEOUT_MS: u32 = 60_000;

/// How long all nodes may take to hear of the proxies.
const JOIN_TIME: Duration = Duration::from_secs(60);

/// How long a script may run that does not end.
const SCRIPT_TIME: Duration = Duration::from_secs(30);

/// So much of a node's log is shown.
const LOG_LINES: usize = 40;

/// And so much of its `CLUSTER INFO`: its state, and how many slots are well.
const CLUSTER_INFO_LINES: usize = 5;

pub(super) const USER: &str = "checker";

/// See the module's text.
#[derive(Debug)]
pub(crate) struct FaultyCluster {
    pub(super) rig: Cluster,
    pub(super) proxies: Vec<Proxy>,
    /// Where slots are that are not where they began.
    pub(super) moved: Mutex<BTreeMap<u16, usize>>,
}

fn text(error: RigError) -> String {
    error.to_string()
}

/// Another fault runs a script there; nothing was done.
fn is_busy(error: &str) -> bool {
    error.contains("is busy running")
}

/// Another fault cut the connection; it may have been done.
fn is_cut(error: &str) -> bool {
    ["end of file", "Broken pipe", "reset by peer"].iter().any(|it| error.contains(it))
}

impl Operator for FaultyCluster {
    /// A command of an operator, which a script that another fault runs there keeps waiting. Where another fault cuts the
    /// connection it is given again, and does no more the second time.
    fn ask<T: redis::FromRedisValue>(&self, node: usize, words: &[&str]) -> Result<T, String> {
        self.ask_again_while(node, words, |error| is_busy(error) || is_cut(error))
    }
}

impl FaultyCluster {
    /// Starts it.
    ///
    /// # Errors
    /// The servers'.
    pub(crate) fn start(shards: u16, replicas: u16, server: Option<&Path>) -> Result<Self, String> {
        let module = Module::find().map_err(text)?;
        let mut options = Cluster::options(shards, replicas)
            .module(module)
            .node_timeout_ms(NODE_TIMEOUT_MS)
            .config(&format!("claret.lease-ms {}", LEASE.as_millis()))
            // A script that runs for longer is told of to others.
            .config("busy-reply-threshold 50");
        if let Some(server) = server {
            options = options.program(server);
        }
        let rig = options.start().map_err(text)?;
        let proxies = rig.servers().iter().map(|server| Proxy::start(server.port()));
        let proxies = proxies.collect::<Result<Vec<_>, _>>()?;
        let faulty = FaultyCluster { rig, proxies, moved: Mutex::default() };
        faulty.announce()?;
        Ok(faulty)
    }

    fn announce(&self) -> Result<(), String> {
        let nodes = self.rig.servers().len();
        for node in 0..nodes {
            let port = self.proxies[node].port().to_string();
            self.say(node, &["CONFIG", "SET", "cluster-announce-port", &port])?;
            self.say(node, &["ACL", "SETUSER", USER, "on", ">fault", "+@all", "~*", "&*"])?;
        }
        let since = Instant::now();
        let knows = |node: usize| -> Result<bool, String> {
            let nodes: String = self.rig.query(node, &["CLUSTER", "NODES"]).map_err(text)?;
            Ok(self.proxies.iter().all(|proxy| nodes.contains(&format!("127.0.0.1:{}@", proxy.port()))))
        };
        for node in 0..nodes {
            while !knows(node)? {
                if since.elapsed() > JOIN_TIME {
                    return Err("the nodes do not hear of their proxies".into());
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// What clients connect to.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<String> =
            self.proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
        format!("redis://{USER}:fault@{}/?response-timeout-ms=1500", hosts.join(","))
    }

    /// A command that answers OK, or something that does not matter.
    pub(super) fn say(&self, node: usize, words: &[&str]) -> Result<(), String> {
        self.ask::<redis::Value>(node, words).map(drop)
    }

    /// The same for one that is not to be done twice: an error may mean that it was done.
    pub(super) fn say_once(&self, node: usize, words: &[&str]) -> Result<(), String> {
        self.ask_again_while::<redis::Value>(node, words, is_busy).map(drop)
    }

    fn ask_again_while<T: redis::FromRedisValue>(
        &self,
        node: usize,
        words: &[&str],
        passes: impl Fn(&str) -> bool,
    ) -> Result<T, String> {
        let since = Instant::now();
        loop {
            match self.rig.query(node, words).map_err(text) {
                Err(error) if passes(&error) && since.elapsed() < SCRIPT_TIME => {
                    sleep(Duration::from_millis(5));
                }
                // A server that is gone takes no connection.
                Err(error) if error.contains("refused") => {
                    let log = self.rig.servers()[node].log(LOG_LINES);
                    return Err(format!("{error}; the end of the node's log:\n{log}"));
                }
                done => return done,
            }
        }
    }

    pub(super) fn masters(&self) -> usize {
        self.rig.masters()
    }

    /// Where a slot is now.
    pub(super) fn owner(&self, slot: u16) -> usize {
        let moved = self.moved.lock().expect("nobody panics with it").get(&slot).copied();
        let began = |master: &usize| slot <= self.rig.slots(*master).1;
        moved.unwrap_or_else(|| (0..self.masters()).find(began).expect("all slots have a master"))
    }

    /// How each node sees the cluster, and the end of its log: for whoever wants to know why it does not answer.
    pub(crate) fn describe(&self) -> String {
        let describe = |(node, server): (usize, &Server)| {
            let state = self.rig.query::<String>(node, &["CLUSTER", "INFO"]).unwrap_or_else(text);
            let state: Vec<&str> = state.lines().take(CLUSTER_INFO_LINES).collect();
            format!("node {node}: {}; the end of its log:\n{}\n", state.join(", "), server.log(LOG_LINES))
        };
        self.rig.servers().iter().enumerate().map(describe).collect()
    }

    /// Waits until nothing is held anywhere, so long at most; how long it took.
    ///
    /// # Errors
    /// It takes longer, or a node is gone, or not what it was.
    pub(crate) fn wait_until_free(&self, bound: Duration) -> Result<Duration, String> {
        let since = Instant::now();
        for node in 0..self.masters() {
            while let Some(held) = self.held(node)? {
                if since.elapsed() > bound {
                    return Err(format!(
                        "{bound:?} after all clients had come to rest node {node} has {held}"
                    ));
                }
                sleep(Duration::from_millis(2));
            }
        }
        Ok(since.elapsed())
    }

    /// What is held at a node that lives and is well.
    fn held(&self, node: usize) -> Result<Option<String>, String> {
        let server = &self.rig.servers()[node];
        let gone = |error: RigError| {
            format!("node {node} does not answer: {error}; the end of its log:\n{}", server.log(30))
        };
        let info: String = self.rig.query(node, &["INFO", "everything"]).map_err(gone)?;
        let field = |name: &str| claret_rig::field(&info, name).unwrap_or_default();
        if field("role") != "master" {
            return Err(format!("node {node} is a {} now: a failover that nobody asked for", field("role")));
        }
        if field("claret_panics") != "0" {
            return Err(format!(
                "a panic was caught at node {node}; the end of its log:\n{}",
                server.log(30)
            ));
        }
        let held =
            ["claret_held_keys", "claret_open_attempts", "claret_in_doubt"].map(|name| (name, field(name)));
        let still: Vec<String> = held
            .iter()
            .filter(|(_, count)| count != "0")
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        Ok((!still.is_empty()).then(|| still.join(", ")))
    }

    /// Removes the records of a round, when nobody works.
    ///
    /// # Errors
    /// A node's.
    pub(crate) fn clear(&self) -> Result<(), String> {
        (0..self.masters()).try_for_each(|node| self.say(node, &["FLUSHALL"]))
    }
}
