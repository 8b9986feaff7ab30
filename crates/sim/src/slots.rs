//! Who serves which slot in truth, and which slots are about to leave.

use std::collections::BTreeSet;

use claret_core::{Node, ShardId, SlotRange, key_hash};
use claret_types::Bytes;

use crate::config::Config;

/// Slots of one shard at the beginning.
const SLOTS_OF_A_SHARD: u16 = 4;

/// Who uses a slot that is to leave is asked for it again when shards that give slots away were looked at so often.
const ASKED_BACK_STEPS: u64 = 16;

/// A slot that is about to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) slot: u16,
    /// Where it goes.
    pub(crate) to: ShardId,
    /// Nobody uses anything in it, and it goes when the replicas have this batch (S16).
    pub(crate) batch: Option<u64>,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Slots {
    owners: Vec<ShardId>,
    pub(crate) leaving: Vec<Leaving>,
    /// The shard that gives all its slots away.
    pub(crate) leaver: Option<ShardId>,
    /// Counts the slots that have gone.
    gone: u64,
    /// How often shards that give slots away were looked at.
    looks: u64,
}

impl Slots {
    pub(crate) fn new(config: &Config) -> Self {
        let each = if config.is_external() { SLOTS_OF_A_SHARD } else { 1 };
        let owners = (0..each).flat_map(|_| (0..config.shards).map(ShardId)).collect();
        Slots { owners, leaving: Vec::new(), leaver: None, gone: 0, looks: 0 }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u16 {
        self.owners.len() as u16
    }

    /// That of a key.
    pub(crate) fn of(&self, key: &Bytes) -> u16 {
        slot_of(key, self.count())
    }

    /// Who serves a slot now.
    pub(crate) fn owner(&self, slot: u16) -> ShardId {
        self.owners[usize::from(slot)]
    }

    /// The shards that own keys.
    pub(crate) fn owners(&self) -> BTreeSet<ShardId> {
        self.owners.iter().copied().collect()
    }

    /// Another number for another state of the cluster.
    pub(crate) fn version(&self) -> u64 {
        self.gone
    }

    pub(crate) fn serves(&self, shard: ShardId) -> bool {
        self.owners.contains(&shard)
    }

    /// A slot has gone to another shard.
    pub(crate) fn go(&mut self, slot: u16, to: ShardId) {
        self.owners[usize::from(slot)] = to;
        self.gone += 1;
    }

    /// The slots of a shard that are to leave.
    pub(crate) fn leaving_from(&self, shard: ShardId) -> BTreeSet<u16> {
        self.leaving.iter().map(|it| it.slot).filter(|slot| self.owner(*slot) == shard).collect()
    }

    /// A shard is looked at. Whether those who use what is to leave it are asked again.
    pub(crate) fn is_to_ask_back(&mut self, shard: ShardId) -> bool {
        if self.leaving.iter().all(|it| self.owner(it.slot) != shard) {
            return false; // Mostly.
        }
        self.looks += 1;
        self.looks.is_multiple_of(ASKED_BACK_STEPS)
    }

    /// A slot that was to leave stays with a shard: who is promoted has not heard of that.
    pub(crate) fn stay(&mut self, shard: ShardId) {
        let Slots { owners, leaving, .. } = self;
        leaving.retain(|it| owners[usize::from(it.slot)] != shard);
    }

    /// As every node tells it.
    pub(crate) fn topology(&self) -> Vec<SlotRange> {
        let range = |slot| SlotRange { first: slot, last: slot, node: name_of(self.owner(slot)) };
        (0..self.count()).map(range).collect()
    }
}

/// A key's slot.
pub(crate) fn slot_of(key: &Bytes, slots: u16) -> u16 {
    (key_hash(key) % u64::from(slots)) as u16
}

/// A shard's node.
pub(crate) fn name_of(shard: ShardId) -> Node {
    shard.to_string().into()
}
