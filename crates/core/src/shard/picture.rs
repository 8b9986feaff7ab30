//! Who holds, who waits and how often, for display: this explains a stuck shard.

use claret_types::Bytes;
use smallvec::SmallVec;

use super::{Shard, key_hash};
use crate::ids::AttemptId;
use crate::message::Response;

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
    /// Elements that were read of records for calls, or answered.
    pub elements_read: u64,
    /// Bytes that were read of records for calls, or answered.
    pub bytes_read: u64,
    /// Calls of an attempt, records that it holds, and answers that it has, that were looked at for a message besides what that is
    /// about.
    pub visits: u64,
    /// How often a transaction was put off, since it had more calls than are executed at once.
    pub put_off: u64,
    /// Attempts committed here.
    pub commits: u64,
    /// Of these, those that are counted here: of its participants the one with the smallest number counts a transaction. So
    /// the sum over all shards is how many transactions there were; those of a combined group are one.
    pub transactions: u64,
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

/// So many records are named to an attempt that asks whom it waits for: mostly it waits for one.
const BEHIND_MAX: usize = 8;

/// So many holders and waiters of a record are looked through in about the time of one call.
const LOOKED_THROUGH_WORTH: usize = 16;

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

    /// Tells an attempt whom it waits for (P72). Only of records that it waits for itself, which its session may use; so
    /// nobody learns of others'. When the input has done its share (P38), the question is as if lost.
    pub(super) fn tell_behind(&mut self, attempt: AttemptId) {
        let mut records = SmallVec::new();
        let participant = self.attempts.get(&attempt);
        let waits = participant.into_iter().flat_map(|participant| &participant.blocked);
        let waits = waits.filter_map(|(key, blocked)| Some((key, blocked.record?)));
        for (key, record) in waits.take(BEHIND_MAX) {
            if self.at_once == 0 {
                return;
            }
            let looked_through = self.table.crowd(record) / LOOKED_THROUGH_WORTH;
            self.at_once = self.at_once.saturating_sub(1 + looked_through);
            if let Some(behind) = self.table.waits_behind(record, attempt) {
                records.push((key.clone(), behind.first().copied()));
            }
        }
        self.respond(attempt, Response::Behind { attempt, records });
    }
}
