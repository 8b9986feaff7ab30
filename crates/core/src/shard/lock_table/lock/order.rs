//! Holders in an order: a call may be granted behind others whose claims conflict with its own, where its way to commit vouches for that
//! (`ways`). Its holder leaves after them, and its later calls on the record have to be granted behind them, too.
//!
//! Invariant: holders whose claims conflict stand one behind the other; whoever stands before somebody is a holder.

use claret_types::Bytes;

use super::Lock;
use crate::ids::AttemptId;
use crate::shard::lock_table::outbox::Outbox;

impl Lock {
    /// A holder was granted a call behind others.
    pub(super) fn stand_behind(&mut self, attempt: AttemptId, others: Vec<AttemptId>) {
        let Some(own) = self.holders.get_mut(&attempt).filter(|_| !others.is_empty()) else { return };
        self.behind += usize::from(own.behind.is_empty());
        for other in others {
            if !own.is_behind(other) {
                own.behind.push(other);
            }
        }
    }

    /// A holder has left: it stands behind nobody, and nobody behind it. O(holders).
    pub(super) fn leave_order(&mut self, left: AttemptId, outbox: &mut Outbox) {
        if self.behind == 0 {
            return; // Mostly.
        }
        self.behind = 0;
        for (attempt, holder) in &mut self.holders {
            let before = holder.behind.len();
            holder.behind.retain(|other| *other != left);
            if holder.behind.is_empty() && before > 0 {
                outbox.say_foremost(*attempt);
            }
            self.behind += usize::from(!holder.behind.is_empty());
        }
    }

    /// # Panics
    /// When somebody stands behind one that is not there.
    pub(super) fn check_order(&self, key: &Bytes) {
        let mut behind = 0;
        for (attempt, holder) in &self.holders {
            behind += usize::from(!holder.behind.is_empty());
            for other in &holder.behind {
                let is_there = self.holders.contains_key(other);
                assert!(is_there, "'{key}': {attempt} stands behind {other}, which holds nothing here");
            }
        }
        assert_eq!(behind, self.behind, "'{key}': who stands behind others");
    }
}
