//! The shards of a run, who serves which slot, and who has left.

use std::collections::{BTreeMap, BTreeSet};

use claret_core::{Shard, ShardId, Time};
use claret_types::{Bytes, State};

use crate::config::Config;
use crate::host::Host;
use crate::slots::Slots;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Cluster {
    hosts: Vec<Host>,
    pub(crate) slots: Slots,
    /// Shards whose nodes have left for good.
    removed: BTreeSet<ShardId>,
}

impl Cluster {
    pub(crate) fn new(config: &Config) -> Self {
        let slots = Slots::new(config);
        let hosts = (0..config.shards).map(|number| Host::new(ShardId(number), config, &slots)).collect();
        Cluster { hosts, slots, removed: BTreeSet::new() }
    }

    pub(crate) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    pub(crate) fn host(&self, id: ShardId) -> &Host {
        &self.hosts[id.0 as usize]
    }

    pub(crate) fn host_mut(&mut self, id: ShardId) -> &mut Host {
        &mut self.hosts[id.0 as usize]
    }

    pub(crate) fn shard(&self, id: ShardId) -> &Shard {
        &self.host(id).shard
    }

    /// What a shard's clock shows at a moment of the world.
    pub(crate) fn shows(&self, id: ShardId, now: Time) -> Time {
        self.host(id).clock.shows(now)
    }

    /// Who serves a key now.
    pub(crate) fn owner(&self, key: &Bytes) -> ShardId {
        self.slots.owner(self.slots.of(key))
    }

    /// A node leaves for good.
    pub(crate) fn remove(&mut self, id: ShardId) {
        self.removed.insert(id);
    }

    pub(crate) fn has_left(&self, id: ShardId) -> bool {
        self.removed.contains(&id)
    }

    /// Whether no shard that is there has an attempt.
    pub(crate) fn is_quiet(&self) -> bool {
        self.hosts.iter().all(|host| host.shard.open_attempts() == 0 || self.has_left(host.shard.id()))
    }

    /// All records.
    pub(crate) fn contents(&self) -> BTreeMap<Bytes, State> {
        self.hosts.iter().flat_map(Host::contents).collect()
    }
}
