//! Faults of the network: between clients and nodes, and between nodes. All ends by itself but what is held: that is delivered up to
//! a minute later, while other faults strike.

use std::time::{Duration, Instant};

use rand::RngExt;

use super::children::Process;
use super::run::Run;
use super::servers::{FAILOVER_TIME, NODE_TIMEOUT_MS, Servers};
use super::url::replace;
use crate::proxy::Directions;

/// How long messages are held at most, in milliseconds: far longer than a lease, and than what anybody waits for.
const HELD_MS_MAX: u64 = 60_000;

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// What clients and nodes send each other is late.
    Slow,
    /// Connections of clients are closed, some of them in the middle of a message.
    Closed,
    /// Nothing passes between clients and a node for a while, in one direction or in both.
    Clients,
    /// What clients have sent is held, and one of their processes is killed. It is delivered up to a minute later.
    Late,
    /// A primary and one of its replicas do not hear each other.
    Link,
    /// A node is cut off from all others, for less than would count as failed. Clients reach it.
    Blink,
    /// A primary is cut off from all others until a replica has taken over, and longer. Clients reach it.
    Off,
    /// A whole shard is cut off from all others.
    Shard,
    /// All others hear a primary no more, and it hears them.
    Mute,
    /// A primary hears all others no more, and they hear it.
    Deaf,
}

impl Cut {
    pub(super) fn name(self) -> &'static str {
        match self {
            Cut::Slow => "clients' network slow",
            Cut::Closed => "clients' connections closed",
            Cut::Clients => "node cut off from clients",
            Cut::Late => "messages held, client killed",
            Cut::Link => "replica cut off from its primary",
            Cut::Blink => "node cut off for a moment",
            Cut::Off => "primary cut off, replica took over",
            Cut::Shard => "shard cut off",
            Cut::Mute => "primary not heard by nodes",
            Cut::Deaf => "primary does not hear nodes",
        }
    }

    /// Whether it may cost what was acknowledged, where the cluster keeps what Redis keeps.
    pub(super) fn may_lose(self) -> bool {
        self == Cut::Off
    }

    /// Whether it is one between nodes of a shard, and needs a replica.
    pub(super) fn needs_replica(self) -> bool {
        matches!(self, Cut::Link | Cut::Off)
    }
}

impl Servers {
    /// Strikes once; whom.
    ///
    /// # Errors
    /// Nobody takes over in time, or a client says what is wrong.
    pub(super) fn cut(
        &self,
        cut: Cut,
        (shard, primary): (usize, usize),
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<String, String> {
        match cut {
            Cut::Slow | Cut::Closed | Cut::Clients => self.cut_clients(cut, primary, run, processes),
            Cut::Late => self.hold_and_kill(primary, run, processes),
            Cut::Link => {
                let replicas = self.nodes(shard).into_iter().filter(|node| *node != primary);
                let replicas: Vec<usize> = replicas.collect();
                let replica = replicas[run.below(replicas.len())];
                self.parted(&[primary], &[replica], || run.rest((300, 8_000), processes))
            }
            Cut::Blink => {
                let node = self.any_node(shard, run);
                let most = u64::from(NODE_TIMEOUT_MS / 2);
                self.parted(&[node], &self.others(&[node]), || run.rest((100, most), processes))
            }
            Cut::Off => {
                let cut_off = self.parted(&[primary], &self.others(&[primary]), || {
                    self.wait_for_another(shard, primary, run, processes)?;
                    run.rest((0, 4_000), processes)
                })?;
                // It learns that it was replaced.
                let what = format!("node {primary} follows its successor");
                self.wait(run, processes, FAILOVER_TIME, &what, || {
                    let role = self.rig.servers()[primary].info("replication", "role");
                    role.is_ok_and(|role| role.as_deref() == Some("slave"))
                })?;
                Ok(cut_off)
            }
            Cut::Shard => {
                let nodes = self.nodes(shard);
                self.parted(&nodes, &self.others(&nodes), || run.rest((300, 8_000), processes))
            }
            Cut::Mute | Cut::Deaf => {
                let others = self.others(&[primary]);
                let cut_in = |is_cut| match cut {
                    Cut::Mute => self.network.mute(primary, &others, is_cut),
                    _ => self.network.deafen(primary, &others, is_cut),
                };
                cut_in(true);
                let rested = run.rest((300, 8_000), processes);
                cut_in(false);
                rested.map(|()| format!("node {primary}"))
            }
        }
    }

    /// All nodes but these.
    fn others(&self, nodes: &[usize]) -> Vec<usize> {
        (0..self.rig.servers().len()).filter(|node| !nodes.contains(node)).collect()
    }

    /// Does something while the ways between these nodes are cut; which they were.
    fn parted(
        &self,
        these: &[usize],
        those: &[usize],
        meanwhile: impl FnOnce() -> Result<(), String>,
    ) -> Result<String, String> {
        self.network.part(these, those, true);
        let done = meanwhile();
        self.network.part(these, those, false);
        done.map(|()| format!("nodes {these:?} from {those:?}"))
    }

    fn cut_clients(
        &self,
        cut: Cut,
        primary: usize,
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<String, String> {
        let nodes = if run.below(2) == 0 { self.others(&[]) } else { vec![primary] };
        let whom = format!("nodes {nodes:?}");
        let done = match cut {
            Cut::Slow => {
                let most = Duration::from_millis(run.random.random_range(20..600));
                nodes.iter().for_each(|node| self.network.delay_clients(*node, most));
                let rested = run.rest((1_000, 4_000), processes);
                nodes.iter().for_each(|node| self.network.delay_clients(*node, Duration::ZERO));
                rested
            }
            Cut::Clients => {
                let directions = [Directions::Both, Directions::Requests, Directions::Answers][run.below(3)];
                nodes.iter().for_each(|node| self.network.part_from_clients(*node, directions, true));
                let rested = run.rest((100, 4_000), processes);
                nodes.iter().for_each(|node| self.network.part_from_clients(*node, directions, false));
                rested
            }
            _ => (0..run.random.random_range(2..8)).try_for_each(|_| {
                let node = nodes[run.below(nodes.len())];
                self.network.close_clients(node, &mut run.random);
                run.rest((20, 250), processes)
            }),
        };
        done.map(|()| whom)
    }

    /// Of a process that is killed half of what it has under way is on the network for up to a minute more.
    fn hold_and_kill(
        &self,
        primary: usize,
        run: &mut Run<'_>,
        processes: &mut [Process],
    ) -> Result<String, String> {
        let held = Duration::from_millis(run.random.random_range(1_000..=HELD_MS_MAX));
        let nodes = if run.below(2) == 0 { self.others(&[]) } else { vec![primary] };
        let connections: usize =
            nodes.iter().map(|node| self.network.hold(*node, Instant::now() + held)).sum();
        // What is sent meanwhile is what comes late.
        run.rest((5, 400), processes)?;
        let at = run.below(processes.len());
        let life = replace(run, processes, at)?;
        Ok(format!("nodes {nodes:?}, {connections} connections for {held:?}; process {life} took its place"))
    }
}
