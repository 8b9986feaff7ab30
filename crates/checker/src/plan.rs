//! What is to be run, what of it one process does in one round, and how far it has come.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::fault::Fault;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Clients over all processes, each with one transaction at a time; every eighth works at the bank.
    pub clients: u64,
    /// Clients beside them that use plain commands, over all processes.
    pub plain: u64,
    /// Gateways before the store, in this process.
    pub gateways: u64,
    /// Clients beside them that speak to the gateways, in this process.
    pub gateway_clients: u64,
    /// How many processes share them, this one included.
    pub processes: u64,
    /// Records in use at one time, a quarter of each kind that gives way to others.
    pub keys: u64,
    /// How long a record is in use.
    pub rotation: Duration,
    /// Whether clients pause between calls, up to a second.
    pub pauses: bool,
    /// For what the clients do, and what is done to them.
    pub seed: u64,
    /// Before every key; nobody else's begin like this.
    pub prefix: String,
    /// How long clients work. With faults a run may take longer: each strikes at least once.
    pub time: Duration,
    /// The faults that strike meanwhile; each needs a [`Target`](crate::Target) that was started for them.
    pub faults: Vec<Fault>,
    /// Where what was seen is written, a JSON document; of several rounds, the last one.
    pub history: Option<PathBuf>,
}

impl Plan {
    /// The part of a process, from 0.
    pub(crate) fn settings(&self, process: u64) -> Settings {
        Settings {
            clients: self.clients.div_ceil(self.processes) as usize,
            plain: self.plain.div_ceil(self.processes) as usize,
            gateway_clients: self.gateway_clients as usize,
            until: 0,
            round: 0,
            keys: self.keys,
            rotation: self.rotation,
            pauses: self.pauses,
            process,
            processes: self.processes,
            seed: self.seed,
            prefix: self.prefix.clone(),
        }
    }
}

/// What the clients of one process do in one round.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Clients of this process, each one transaction at a time.
    pub(crate) clients: usize,
    /// Clients of this process that use plain commands.
    pub(crate) plain: usize,
    /// Clients of gateways, of the process that has gateways; the others number their clients as if they had them.
    pub(crate) gateway_clients: usize,
    /// When the round ends, by the run's [`Clock`](crate::clock::Clock).
    pub(crate) until: u64,
    /// The round, from 0.
    pub(crate) round: u64,
    /// As in the [`Plan`].
    pub(crate) keys: u64,
    /// As in the [`Plan`].
    pub(crate) rotation: Duration,
    /// As in the [`Plan`].
    pub(crate) pauses: bool,
    /// Which of the processes this is, from 0.
    pub(crate) process: u64,
    /// How many processes take part.
    pub(crate) processes: u64,
    /// As in the [`Plan`].
    pub(crate) seed: u64,
    /// As in the [`Plan`].
    pub(crate) prefix: String,
}

/// How far it has come, for those who watch.
#[derive(Debug, Default)]
pub struct Progress {
    /// Transactions of this process that ended.
    pub ended: AtomicU64,
    /// Clients are to stop; what they saw is judged all the same.
    pub stop: AtomicBool,
}
