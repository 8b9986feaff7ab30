//! What a replica of a strict primary knows, and what a node without a shard has heard of others (S11, S14 of
//! `docs/replication.md`).

use std::collections::BTreeMap;

use claret_core::Backup;

use crate::ffi::Timer;
use crate::parts::seals::Position;

/// What a replica keeps.
#[derive(Default)]
pub(crate) struct Following {
    pub(crate) backup: Backup,
    /// The node that told it, and its last batch.
    pub(crate) source: Option<String>,
    pub(crate) position: Option<Position>,
    /// Whom this node followed last, as a replica.
    pub(crate) followed: Option<String>,
    /// Set while the primary is to hear that everything was carried out.
    pub(crate) ack: Option<Timer>,
    /// What this node's replicas said that they know, since it has no shard.
    pub(crate) known: BTreeMap<String, Option<Position>>,
    /// The number of the question to which they said so.
    pub(crate) asks: u64,
    /// What was logged of what this node waits for before it begins.
    pub(crate) said: String,
}

impl Following {
    /// How much it knows, if it knows everything that somebody knew once.
    pub(crate) fn complete(&self) -> Option<Position> {
        self.position.filter(|_| self.backup.shard().is_some())
    }

    /// The same, if that is what the very node has told that this one followed: nobody can know more who counts.
    pub(crate) fn whole(&self) -> Option<Position> {
        let is_of_primary = self.source.is_some() && self.source == self.followed;
        self.complete().filter(|_| is_of_primary)
    }

    pub(crate) fn votes(&self) -> usize {
        self.backup.votes()
    }
}
