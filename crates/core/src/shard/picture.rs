//! Who holds and who waits, for people: a stuck shard is understood from this.

use claret_types::Bytes;

use super::Shard;
use crate::ids::AttemptId;

/// One record that somebody holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The record.
    pub key: Bytes,
    /// Who holds it, in no useful order.
    pub holders: Vec<AttemptId>,
    /// Who waits for it, in no useful order.
    pub waiters: Vec<AttemptId>,
}

impl Shard {
    /// Every record that is held or waited for. O(records).
    pub fn waits(&self) -> impl Iterator<Item = Wait> + '_ {
        self.table.waits_for()
    }
}
