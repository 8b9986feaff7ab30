//! Who holds, who waits and how often, for display: this explains a stuck shard.

use claret_types::Bytes;

use super::{Shard, key_hash};
use crate::ids::AttemptId;

/// Counts since the shard began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How often an operation was executed to see whether its lock is free.
    pub looks: u64,
    /// Operations that got their lock.
    pub grants: u64,
    /// Requests that had to wait, or were refused as busy.
    pub waits: u64,
    /// Phases that began with waiters.
    pub phases: u64,
    /// Effects of a transaction's own earlier calls that were added to a record before a call of it was executed there.
    pub replays: u64,
    /// How often a transaction was put off, since it had more calls than are executed at once.
    pub put_off: u64,
    /// Attempts committed here.
    pub commits: u64,
    /// Attempts refused or aborted here.
    pub aborts: u64,
    /// Attempts in doubt that were resolved by asking the other participants.
    pub recoveries: u64,
    /// Questions of other shards that were not answered, since there was no room to write a no.
    pub unanswered: u64,
}

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

    /// Who holds what an attempt waits for on a record, in order; `None`: it does not wait there. Empty where it stands
    /// behind others who wait. O(holders and waiters of the record).
    pub fn waits_behind(&self, key: &Bytes, attempt: AttemptId) -> Option<Vec<AttemptId>> {
        self.table.waits_behind(self.table.find(key_hash(key), key)?, attempt)
    }
}
