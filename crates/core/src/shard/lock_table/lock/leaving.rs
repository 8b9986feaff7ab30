//! How a holder leaves a record: what it did there is applied or dropped, and its claims are given back.

use super::Lock;
use crate::ids::AttemptId;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::Fate;
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::records::Record;

impl Record {
    /// A holder by claims leaves: applies or drops what was executed. Others may be let in after that.
    #[inline]
    pub(in super::super) fn leave(&mut self, around: &mut Around<'_>, attempt: AttemptId, fate: Fate<'_>) {
        let Record { key, hash, state, lock: Some(lock) } = self else { return };
        let mut has_ended = false;
        // They were voted on a record that has vanished since (P36).
        let drops_effects = lock.vanished && !is_planted(Bug::VanishedTakesEffects);
        let is_small = lock.is_small();
        let Lock { held, holders, .. } = &mut **lock;
        let is_last = holders.len() == 1;
        if let Some(holder) = holders.get_mut(&attempt) {
            let holds_end = holder.holds_end;
            match is_last {
                true => held.clear(),
                false => holder.claims().for_each(|claims| held.remove(claims)),
            }
            if !drops_effects {
                has_ended = around.executor.apply(key, state, holder, fate);
            }
            if holds_end {
                has_ended |= around.executor.let_end(key);
            }
            // To take one out moves it.
            match is_last && is_small {
                true => holders.clear(),
                false => drop(holders.swap_remove(&attempt)),
            }
        }
        if has_ended && !lock.holders.is_empty() {
            // Before anybody is let in. The shard refuses those who have not voted.
            lock.vanished = true;
            around.outbox.say_ended(key.clone());
        }
        if lock.holders.is_empty() {
            debug_assert!(lock.held.is_empty(), "claims without a holder");
            lock.reset(around.clocks, *hash);
        }
        lock.leave_order(attempt, around.outbox);
    }
}
