//! What shards wrote of an attempt, and whether they still know it.

use std::collections::BTreeSet;

use claret_core::ShardId;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Votes {
    yes: BTreeSet<ShardId>,
    no: BTreeSet<ShardId>,
    /// Some shard wrote no, though it may have forgotten that.
    is_void: bool,
    /// Where a yes was written, and forgotten before everybody had carried it out.
    lost: BTreeSet<ShardId>,
}

impl Votes {
    /// Whether a shard has written yes, and knows it.
    pub(super) fn is_yes(&self, shard: ShardId) -> bool {
        self.yes.contains(&shard)
    }

    /// Whether a shard has written no, and knows it.
    pub(super) fn is_no(&self, shard: ShardId) -> bool {
        self.no.contains(&shard)
    }

    /// Whether a shard has written yes, even if that is lost.
    pub(super) fn was_yes(&self, shard: ShardId) -> bool {
        self.yes.contains(&shard) || self.lost.contains(&shard)
    }

    pub(super) fn is_void(&self) -> bool {
        self.is_void
    }

    /// Some of them were lost before they were carried out: the attempt may be committed in part, or not at all.
    pub(super) fn is_torn(&self) -> bool {
        !self.lost.is_empty()
    }

    /// What is lost stays so.
    pub(super) fn note_yes(&mut self, shard: ShardId) {
        if !self.lost.contains(&shard) {
            self.yes.insert(shard);
        }
    }

    pub(super) fn note_no(&mut self, shard: ShardId) {
        self.no.insert(shard);
        self.is_void = true;
    }

    /// It will not commit, whatever a shard wrote.
    pub(super) fn note_void(&mut self) {
        self.is_void = true;
    }

    /// A shard forgets what it wrote. A yes is lost that is not carried out everywhere.
    pub(super) fn forget(&mut self, shard: ShardId, is_carried_out: bool) {
        if !is_carried_out && self.yes.remove(&shard) {
            self.lost.insert(shard);
        }
        self.no.remove(&shard);
    }
}
