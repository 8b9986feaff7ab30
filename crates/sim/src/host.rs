//! The host of a shard in the simulated world: its records, its clock, its replicas.

use std::collections::BTreeMap;

use claret_core::{Incarnation, Shard, ShardId, Survives, Time, Timestamp, key_hash};
use claret_types::{Bytes, Operation, State};

use crate::clock::Clock;
use crate::config::Config;
use crate::replicas::{Replicas, Stale};
use crate::slots::Slots;
use crate::store::Lease;

/// No incarnation executes as many calls.
const EXTERNAL_INCARNATIONS_APART: u64 = 1 << 20;

/// A shard and the timeout it was last promised.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) shard: Shard,
    /// The records, if they are not the shard's own.
    pub(crate) store: Option<Lease>,
    pub(crate) timer: Option<Time>,
    pub(crate) clock: Clock,
    pub(crate) recoveries: u64,
    /// What its replicas have, if it has any.
    pub(crate) replicas: Option<Replicas>,
    /// Primaries before it that do not know that they are none any more, the oldest first.
    pub(crate) stale: Vec<Stale>,
    /// How many of the outputs that wait for replicas the ledger has met.
    pub(crate) met: usize,
    /// Its safe time before the input that it hears.
    pub(crate) settled: Timestamp,
    /// Of which state of the cluster it knows who owns keys, and how often it was looked at since.
    pub(crate) knows: u64,
    pub(crate) behind: u64,
}

impl Host {
    pub(crate) fn new(id: ShardId, config: &Config, slots: &Slots) -> Host {
        let store = config.is_external().then(|| Lease::new(id, slots));
        let (first, switches, limits) = (Incarnation(1), config.switches(), config.limits);
        let shard = match &store {
            Some(store) => Shard::over(store.as_external(), id, first, switches, limits),
            None => Shard::new(id, first, switches, limits),
        };
        Host {
            shard,
            store,
            timer: None,
            clock: Clock::TRUE,
            recoveries: 0,
            replicas: None,
            stale: Vec::new(),
            met: 0,
            settled: Timestamp::default(),
            knows: 0,
            behind: 0,
        }
    }

    /// Does an operation before the run. Returns whether it could be done.
    pub(crate) fn prepare(&mut self, key: &Bytes, op: &Operation) -> bool {
        if let Some(store) = &self.store {
            return store.prepare(key, op);
        }
        let done = self.shard.instant(key_hash(key), key, op).is_ok();
        if done {
            self.shard.finish_instant();
        }
        done
    }

    /// The process ends and begins again.
    pub(crate) fn restart(&mut self, now: Time, survives: Survives) {
        let apart = incarnations_apart(self.store.is_some());
        if survives != Survives::Votes {
            self.recoveries += self.shard.stats().recoveries;
        }
        if let Some(store) = self.store.as_ref().filter(|_| survives == Survives::Nothing) {
            store.lose_all();
        }
        self.shard.restart(now, Incarnation(self.shard.incarnation().0 + apart), survives);
    }

    pub(crate) fn contents(&self) -> BTreeMap<Bytes, State> {
        match &self.store {
            Some(store) => store.records(),
            None => self.shard.contents().map(|(key, state)| (key.clone(), state.clone())).collect(),
        }
    }
}

/// How far apart incarnations are: of external records, unique numbers are counted from the incarnation.
pub(crate) fn incarnations_apart(is_external: bool) -> u64 {
    if is_external { EXTERNAL_INCARNATIONS_APART } else { 1 }
}
