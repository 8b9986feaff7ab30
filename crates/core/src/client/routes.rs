//! Which shard serves which slot, as far as the client knows.
//!
//! A node says which shard it is when a connection to it begins; the topology says which slots a node serves. When a
//! node has left and other shards have all its slots, its shard is gone: nobody of that name remembers anything, and
//! nobody ever will (P56).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::ShardId;
use crate::message::owners_digest;

/// Slots that follow each other and are served by one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
    /// Who serves them: the node's address.
    pub node: Node,
}

/// The name of a node: what its host calls it, as an address.
pub type Node = Arc<str>;

/// A slot that nobody serves.
const NOBODY: ShardId = ShardId(u32::MAX);

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// The shard of each slot.
    slots: Box<[ShardId]>,
    topology: Vec<SlotRange>,
    /// Which shard each node said it is.
    shards: Vec<(Node, ShardId)>,
    /// Shards whose nodes left. They are gone once other shards have all their slots.
    leaving: Vec<ShardId>,
    owners: Option<(Vec<ShardId>, u64)>,
}

impl Routes {
    /// Nobody serves anything.
    pub(super) fn new(slots: usize) -> Self {
        Routes {
            slots: vec![NOBODY; slots].into(),
            topology: Vec::new(),
            shards: Vec::new(),
            leaving: Vec::new(),
            owners: None,
        }
    }

    /// Each slot is a shard of that number, for good.
    pub(super) fn fixed(shards: u32) -> Self {
        Routes { slots: (0..shards).map(ShardId).collect(), ..Routes::new(0) }
    }

    /// The shard of a slot.
    #[inline]
    pub(super) fn shard_of(&self, slot: u16) -> ShardId {
        self.slots[usize::from(slot)]
    }

    /// Which shard a node said it is.
    pub(super) fn shard_at(&self, node: &str) -> Option<ShardId> {
        self.shards.iter().find(|(known, _)| **known == *node).map(|(_, shard)| *shard)
    }

    /// The nodes that said which shard they are.
    pub(super) fn shards(&self) -> &[(Node, ShardId)] {
        &self.shards
    }

    /// The shards that serve slots, and a digest of them. `None`: one of them did not say yet which shard it is.
    pub(super) fn owners(&self) -> Option<(&[ShardId], u64)> {
        self.owners.as_ref().map(|(owners, digest)| (&owners[..], *digest))
    }

    fn find_owners(&self) -> Option<(Vec<ShardId>, u64)> {
        let owners: Option<BTreeSet<ShardId>> =
            self.topology.iter().map(|range| self.shard_at(&range.node)).collect();
        let owners: Vec<ShardId> = owners?.into_iter().collect();
        let digest = owners_digest(owners.iter().copied());
        Some((owners, digest)).filter(|(owners, _)| !owners.is_empty())
    }

    fn serves(&self, node: &str) -> bool {
        self.topology.iter().any(|range| *range.node == *node)
    }

    /// The topology is known anew. Returns whether any slot went to another shard.
    pub(super) fn adopt(&mut self, topology: Vec<SlotRange>) -> bool {
        self.topology = topology;
        let (shards, topology) = (&self.shards, &self.topology);
        let is_back = |shard: &ShardId| {
            shards
                .iter()
                .any(|(node, known)| known == shard && topology.iter().any(|range| range.node == *node))
        };
        self.leaving.retain(|shard| !is_back(shard));
        self.assign()
    }

    /// A node says which shard it is. One of another name is another one, whatever its address. Returns as
    /// [`Self::adopt`].
    pub(super) fn name(&mut self, node: &Node, shard: ShardId) -> bool {
        let renamed = self.shards.iter().filter(|(known, was)| known == node && *was != shard);
        self.leaving.extend(renamed.map(|(_, was)| *was));
        self.shards.retain(|(known, was)| known != node && *was != shard);
        self.shards.push((Arc::clone(node), shard));
        self.leaving.retain(|leaving| *leaving != shard);
        self.assign()
    }

    /// A node left, and what its shard had in memory is lost; not if it is back.
    pub(super) fn part_with(&mut self, node: &str) {
        if self.serves(node) {
            return;
        }
        if let Some(shard) = self.shard_at(node).filter(|shard| !self.leaving.contains(shard)) {
            self.leaving.push(shard);
        }
    }

    /// Slots of nodes that did not say yet which shard they are stay where they were. Returns whether any went to another
    /// shard.
    fn assign(&mut self) -> bool {
        let mut has_moved = false;
        self.owners = self.find_owners();
        for range in &self.topology {
            let said = self.shards.iter().find(|(node, _)| *node == range.node);
            let slots = self.slots.get_mut(usize::from(range.first)..=usize::from(range.last));
            if let (Some((_, shard)), Some(slots)) = (said, slots) {
                has_moved |= slots.iter().any(|slot| slot != shard);
                slots.fill(*shard);
            }
        }
        has_moved
    }

    /// Shards that are removed by now. Who placed a call at one that is not might place it there again.
    pub(super) fn take_removed(&mut self) -> Vec<ShardId> {
        let slots = &self.slots;
        let removed: Vec<ShardId> = self.leaving.extract_if(.., |shard| !slots.contains(shard)).collect();
        self.shards.retain(|(_, shard)| !removed.contains(shard));
        removed
    }
}
