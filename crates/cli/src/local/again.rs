//! Servers of a local cluster that have ended, started again (`claret cluster start-node`).
//!
//! What such a server had in memory is gone. As long as the others take it for a master its replica would give up what it has and copy
//! that nothing. So it starts when a replica has taken its place, or when it has none that runs.

use std::ops::ControlFlow;
use std::thread::sleep;
use std::time::{Duration, Instant};

use claret_rig::{Node, Server, nodes};

use super::{ClusterDir, Description, Status};

/// What goes on is told here, which may say that it is enough.
pub(crate) type Say<'a> = &'a mut dyn FnMut(&str) -> ControlFlow<()>;

/// How long a replica may take to be elected: a lot longer than the servers' own `cluster-node-timeout`.
const ELECTION_TIME: Duration = Duration::from_secs(30);

/// How long all may take until they are of one mind again.
const SETTLE_TIME: Duration = Duration::from_secs(60);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);

/// How long a server may take to say what it knows of the others.
const ANSWER_TIME: Duration = Duration::from_secs(2);

impl ClusterDir {
    /// Starts the server at this port again, or all that do not run: which were started, and how all stand then.
    ///
    /// # Errors
    /// There is no such server, it runs, or it does not start; or it would take the records of its replica with it.
    pub(crate) fn start_nodes(&self, port: Option<u16>, say: Say<'_>) -> Result<(Vec<u16>, Status), String> {
        let (_locked, described) = self.locked()?;
        let ended = match port {
            None => described.ports.iter().copied().filter(|&port| !self.runs(port)).collect(),
            Some(port) if !described.ports.contains(&port) => {
                let all: Vec<_> = described.ports.iter().map(u16::to_string).collect();
                return Err(format!(
                    "the cluster has no server at port {port}; its ports are {}",
                    all.join(", ")
                ));
            }
            Some(port) if self.runs(port) => return Err(format!("the server at port {port} runs already")),
            Some(port) => vec![port],
        };
        for &port in &ended {
            self.wait_for_election(&described, port, say)?;
            go_on(say, &format!("starting the server at port {port}"))?;
            self.start_node(&described, port)?;
        }
        let status = if ended.is_empty() { self.status()? } else { self.settle(say)? };
        Ok((ended, status))
    }

    /// Waits until all serve transactions, if all run; how they stand then, or after [`SETTLE_TIME`].
    pub(super) fn settle(&self, say: Say<'_>) -> Result<Status, String> {
        let began = Instant::now();
        loop {
            let status = self.status()?;
            let all_run = status.nodes.iter().all(|node| node.pid.is_some());
            if status.is_ok() || !all_run || began.elapsed() > SETTLE_TIME {
                return Ok(status);
            }
            go_on(say, "waiting for the cluster")?;
            sleep(LOOK);
        }
    }

    fn runs(&self, port: u16) -> bool {
        claret_rig::runs_in(&self.node(port), port).is_some()
    }

    fn start_node(&self, described: &Description, port: u16) -> Result<(), String> {
        let mut options = Server::options().dir(self.node(port)).port(port);
        if let Some(program) = &described.server {
            options = options.program(program);
        }
        if let Some(password) = described.password() {
            options = options.password(password);
        }
        if let Some(certificates) = described.certificates() {
            options = options.tls(certificates);
        }
        let started = options.start_again().map_err(|error| error.to_string())?;
        started.leave_running();
        Ok(())
    }

    /// Waits until the others take this server for a master no more, if one of its replicas runs.
    fn wait_for_election(&self, described: &Description, port: u16, say: Say<'_>) -> Result<(), String> {
        let began = Instant::now();
        while let Some(replica) = self.replica_of_master(described, port) {
            if began.elapsed() > ELECTION_TIME {
                return Err(format!(
                    "port {port} was not started: it is a master still, has nothing in memory, and its replica at port {replica} would \
                     copy that. No replica takes over without a majority of the masters. Have this one do it: CLUSTER FAILOVER \
                     TAKEOVER at port {replica} (redis-cli -p {replica}); then start port {port}"
                ));
            }
            go_on(say, &format!("waiting for the replica of port {port} to take over"))?;
            sleep(LOOK);
        }
        Ok(())
    }

    /// The port of a server that runs and follows the one at this port, which is a master to it, or does not say what it follows.
    fn replica_of_master(&self, described: &Description, port: u16) -> Option<u16> {
        let mut others = described.ports.iter().copied().filter(|&it| it != port && self.runs(it));
        others.find(|&it| follows(&described.url_at(it), it, port))
    }
}

/// Whether the server at `own` is, or may be, a replica of the one at `master`, as it sees it.
fn follows(url: &str, own: u16, master: u16) -> bool {
    let view = claret_rig::connect_within(url, ANSWER_TIME).and_then(|mut connection| nodes(&mut connection));
    // One that does not answer may follow it, and would copy what this one has not.
    let Ok(view) = view else { return true };
    let of = |port: u16| view.iter().find(|node: &&Node| node.port == port);
    let (Some(own), Some(master)) = (of(own), of(master)) else { return false };
    own.master.as_ref() == Some(&master.id)
}

fn go_on(say: Say<'_>, what: &str) -> Result<(), String> {
    match say(what) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err("interrupted".into()),
    }
}
