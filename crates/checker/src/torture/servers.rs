//! The servers of a cluster of the run's own: how they start, who is who, and waiting for what is to be.

use std::path::Path;
use std::time::{Duration, Instant};

use claret_rig::{Cluster, Module, RigError, SecretFile, ShiftedClock, field};

use super::children::Process;
use super::network::Network;
use super::plan::Durability;
use super::run::Run;
use super::slots::Homes;

/// A node that is silent for so long counts as failed.
pub(super) const NODE_TIMEOUT_MS: u32 = 2_000;

/// How long a failover may take, and the cluster until all is well after a fault.
pub(super) const FAILOVER_TIME: Duration = Duration::from_secs(40);
pub(super) const HEAL_TIME: Duration = Duration::from_secs(90);

pub(super) const LOOK: Duration = Duration::from_millis(30);

/// The cluster.
pub(super) struct Servers {
    pub(super) rig: Cluster,
    pub(super) network: Network,
    pub(super) homes: Homes,
    /// Nodes write to append-only files.
    pub(super) has_files: bool,
    /// Clocks of nodes can be shifted.
    pub(super) has_clocks: bool,
    pub(super) replicas: usize,
    /// In the durability strict.
    pub(super) secret: Option<SecretFile>,
}

pub(super) fn text(error: RigError) -> String {
    error.to_string()
}

impl Servers {
    /// Starts it. Nodes write to append-only files, so that one that is killed comes back with its records, or to none.
    ///
    /// # Errors
    /// The servers'.
    pub(super) fn start(
        shards: u16,
        replicas: u16,
        server: Option<&Path>,
        (durability, has_files): (Durability, bool),
        say: &dyn Fn(&str),
    ) -> Result<Self, String> {
        let module = Module::find().map_err(text)?;
        let mut options =
            Cluster::options(shards, replicas).module(module).node_timeout_ms(NODE_TIMEOUT_MS).bears_limits();
        if has_files {
            // What was reported is to outlive the death of all nodes of a shard.
            let sync = if durability == Durability::Strict { "always" } else { "everysec" };
            options = options.config("appendonly yes").config(&format!("appendfsync {sync}"));
        } else if replicas == 0 {
            return Err("without files a node that dies has lost all: take --replicas 1 or more".to_owned());
        }
        let clock = ShiftedClock::find();
        let has_clocks = clock.is_ok();
        match clock {
            Ok(clock) => options = options.clock(clock),
            Err(error) => say(&format!("clocks do not jump: {error}")),
        }
        let mut secret = None;
        if durability == Durability::Strict {
            if replicas == 0 {
                return Err("the durability strict needs replicas: take --replicas 1 or more".to_owned());
            }
            let file = SecretFile::write().map_err(text)?;
            options = options.strict().config(&file.setting());
            secret = Some(file);
        }
        if let Some(server) = server {
            options = options.program(server);
        }
        let mut rig = options.start().map_err(text)?;
        let network = Network::start(&mut rig)?;
        Ok(Servers {
            rig,
            network,
            homes: Homes::default(),
            has_files,
            has_clocks,
            replicas: replicas.into(),
            secret,
        })
    }

    /// What clients connect to: all nodes, of which some are down at times.
    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.network.hosts().join(","))
    }

    pub(super) fn set_ordering(&self, ordering: usize) -> Result<(), String> {
        for node in 0..self.rig.servers().len() {
            let words = ["CONFIG", "SET", "claret.ordering", &ordering.to_string()];
            self.rig.query::<()>(node, &words).map_err(text)?;
        }
        Ok(())
    }

    /// Whether a primary that is back before anybody took its place still is its shard.
    pub(super) fn outlives_restart(&self) -> bool {
        self.has_files || self.secret.is_some()
    }

    /// The nodes of a shard, whatever they are at the moment.
    pub(super) fn nodes(&self, shard: usize) -> Vec<usize> {
        std::iter::once(shard).chain((0..self.replicas).map(|at| self.rig.replica(shard, at))).collect()
    }

    /// One of them.
    pub(super) fn any_node(&self, shard: usize, run: &mut Run<'_>) -> usize {
        let nodes = self.nodes(shard);
        nodes[run.below(nodes.len())]
    }

    /// The nodes that say that they are the primaries, where one is silent.
    pub(super) fn primary_but(&self, shard: usize, silent: Option<usize>) -> Option<usize> {
        let says_so = |node: &usize| {
            Some(*node) != silent
                && self
                    .rig
                    .query::<String>(*node, &["INFO", "replication"])
                    .is_ok_and(|info| field(&info, "role").as_deref() == Some("master"))
        };
        self.nodes(shard).into_iter().find(says_so)
    }

    /// The primary of each shard, when all is well.
    pub(super) fn primaries(&self) -> Result<Vec<usize>, String> {
        let of = |shard| {
            self.primary_but(shard, None).ok_or_else(|| format!("shard {shard} has no primary that answers"))
        };
        (0..self.rig.masters()).map(of).collect()
    }

    pub(super) fn wait(
        &self,
        run: &mut Run<'_>,
        processes: &mut [Process],
        time: Duration,
        what: &str,
        holds: impl Fn() -> bool,
    ) -> Result<(), String> {
        let since = Instant::now();
        while !holds() {
            if since.elapsed() > time {
                return Err(format!("{what}: not within {time:?}"));
            }
            processes.iter_mut().try_for_each(Process::check)?;
            run.tell();
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}
