//! Looks: what operations would answer now, for optimistic transactions (O1, O2 of `docs/optimistic.md`). Nothing is locked, done or
//! kept.

use claret_types::{Bytes, Operation};

use super::lock_table::Look;
use super::{Shard, key_hash};
use crate::message::Seen;
use crate::planted::{Bug, is_planted};

/// So many of those who hold a record are looked through for one who has voted.
const LOOKED_THROUGH_MAX: usize = 64;

impl Shard {
    /// What the last of these operations on a record would answer, behind the others. `at_once`: also where somebody has voted who is
    /// in the way. O(operations); with an external store more, where its partial states are good for few.
    pub fn look(&mut self, key: &Bytes, ops: &[Operation], at_once: bool) -> Seen {
        // What is answered is not kept, and so counts as what is said again (P38).
        if self.at_once == 0 || self.again_bytes == 0 {
            return Seen::Later;
        }
        if let Err(refusal) = self.table.admit(key, ops.iter()) {
            return Seen::Refused(refusal);
        }
        let before = self.table.dearness();
        let looked = self.table.look(key_hash(key), key, ops, self.again_bytes, self.at_once);
        let dearness = (self.table.dearness() - before) as usize;
        self.at_once = self.at_once.saturating_sub(ops.len()).saturating_sub(dearness);
        let Look { result, unique, record, bytes, .. } = looked;
        self.again_bytes = self.again_bytes.saturating_sub(bytes);
        if let Some(record) = record.filter(|_| !at_once) {
            let voted = |attempt| self.attempts.get(&attempt).is_some_and(|it| it.is_prepared());
            let holders = self.table.holders(record).take(LOOKED_THROUGH_MAX);
            if holders.into_iter().any(voted) && !is_planted(Bug::LooksPastVotes) {
                return Seen::Later;
            }
        }
        match result {
            Ok(reply) => Seen::Answer { reply, unique: unique.0 },
            Err((at, error)) => Seen::Fails { at: at as u32, error: Box::new(error), unique: unique.0 },
        }
    }
}
