//! The simulated world: shards, clients, the network between them, and virtual time.
//!
//! All events are in one queue, ordered by (time, number); nothing else orders anything, and nothing is read from
//! outside. Each step hands one event to one state machine, drains what comes out, and checks that machine's
//! invariants (`steps.rs`, `shards.rs`). `drive.rs` has what clients do. Here are the parts, and how others find them.

use std::collections::BTreeMap;

use claret_core::{Client, SessionId, Shard, ShardId, Time, Timestamp};
use claret_types::Bytes;

use crate::asking::Asking;
use crate::check::Ledger;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::draws::Draws;
use crate::event::SimEvent;
use crate::faults::Faults;
use crate::host::Host;
use crate::lines::Lines;
use crate::network::Network;
use crate::outcome::Outcome;
use crate::plant::Plant;
use crate::process::{Process, Transaction};
use crate::queue::Queue;
use crate::random::Stream;
use crate::run::RunId;
use crate::seat::Stageplay;
use crate::store::Store;
use crate::trace::Trace;
use crate::workload::Workload;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) now: Time,
    pub(crate) queue: Queue,
    pub(crate) draws: Draws,
    pub(crate) cluster: Cluster,
    pub(crate) processes: BTreeMap<SessionId, Process>,
    pub(crate) lines: Lines,
    pub(crate) workload: Workload,
    pub(crate) stageplay: Stageplay,
    pub(crate) ledger: Ledger,
    pub(crate) asking: Asking,
    pub(crate) faults: Faults,
    /// When a transaction was last over for its user, and after how many steps.
    pub(crate) last_end: (Time, u64),
    pub(crate) outcome: Outcome,
    pub(crate) trace: Trace,
}

impl World {
    /// An empty one.
    pub(crate) fn new(
        seed: u64,
        config: Config,
        (plant, stageplay, workload): (Plant, Stageplay, Workload),
        in_words: bool,
    ) -> Self {
        let draws = Draws::new(seed);
        let until = Time(config.faults.until_us);
        let network = Network::new(config.network.clone(), draws.stream(Stream::Network), until);
        World {
            now: Time(0),
            queue: Queue::default(),
            draws,
            cluster: Cluster::new(&config),
            processes: BTreeMap::new(),
            lines: Lines::new(network),
            workload,
            stageplay,
            ledger: Ledger::new(config.is_ordered(), config.limits.answers_bytes_max),
            asking: Asking::default(),
            faults: Faults::new(plant, config.faults.deaths.clone()),
            last_end: (Time(0), 0),
            outcome: Outcome::default(),
            trace: Trace::new(in_words),
            config,
        }
    }

    pub(crate) fn schedule(&mut self, at: Time, event: SimEvent) {
        self.queue.push(at.max(self.now), event);
    }

    /// Up to here nobody votes at this moment, or later (P79).
    pub(crate) fn passed(&self) -> Timestamp {
        Timestamp(self.now.0.saturating_sub(self.config.limits.passed_us).saturating_sub(1))
    }
}

/// Shards.
impl World {
    pub(crate) fn shard_of(&self, key: &Bytes) -> ShardId {
        self.cluster.owner(key)
    }

    pub(crate) fn shard_time(&self, id: ShardId) -> Time {
        self.cluster.shows(id, self.now)
    }

    pub(crate) fn host(&mut self, id: ShardId) -> &mut Host {
        self.cluster.host_mut(id)
    }

    pub(crate) fn shard(&mut self, id: ShardId) -> &mut Shard {
        &mut self.host(id).shard
    }

    /// The external store of a shard, if it has one.
    pub(crate) fn store(&self, id: ShardId) -> Option<&Store> {
        self.cluster.host(id).store.as_deref()
    }
}

/// Processes.
impl World {
    /// What a session's clock shows.
    pub(crate) fn local(&self, session: SessionId) -> Time {
        self.processes.get(&session).map_or(self.now, |process| process.clock.shows(self.now))
    }

    pub(crate) fn client(&mut self, session: SessionId) -> Option<&mut Client> {
        self.processes.get_mut(&session)?.client.as_mut()
    }

    /// A transaction, if this is the run it is at and its user was not told the end.
    pub(crate) fn running(&mut self, run: RunId) -> Option<&mut Transaction> {
        let process = self.processes.get_mut(&run.session).filter(|process| process.client.is_some())?;
        process.transactions.get_mut(&run.tx).filter(|it| it.run == run.run)
    }
}
