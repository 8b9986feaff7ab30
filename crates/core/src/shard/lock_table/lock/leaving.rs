//! How a holder leaves a record: what it did there is applied or dropped, and its claims are given back.

use claret_types::{Bytes, OpError, Reply, Run};

use super::Lock;
use crate::ids::AttemptId;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::Fate;
use crate::shard::lock_table::around::Around;
use crate::shard::lock_table::outbox::Outbox;
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
            lock.end(key, around.outbox);
        }
        if lock.holders.is_empty() {
            debug_assert!(lock.held.is_empty(), "claims without a holder");
            lock.reset(around.clocks, *hash);
        }
        lock.leave_order(attempt, around.outbox);
    }

    /// A holder is about to leave that runs commands of the server: all else that it did is carried out now, and the commands are
    /// added to `runs`.
    pub(in super::super) fn apply_before_commands(
        &mut self,
        around: &mut Around<'_>,
        attempt: AttemptId,
        fate: Fate<'_>,
        runs: &mut Vec<Run>,
    ) {
        let Record { key, state, lock: Some(lock), .. } = self else { return };
        let Some(holder) = lock.holders.get_mut(&attempt) else { return };
        if lock.vanished {
            // They were voted on a record that has vanished since (P36); whoever waits for an answer hears so.
            let applied = holder.items.iter().filter(|item| item.is_applied(fate));
            return runs.extend(applied.filter_map(|item| item.effect.as_ref()?.run().cloned()));
        }
        let has_ended = around.executor.apply_before_commands(key, state, holder, fate, runs);
        match has_ended {
            true if lock.holders.len() > 1 => lock.end(key, around.outbox),
            // Its commands come behind that.
            true => lock.vanished = true,
            false => {}
        }
    }

    /// Carries out a command of such a holder: its answer.
    pub(in super::super) fn run(&mut self, around: &mut Around<'_>, run: &Run) -> Reply {
        let Record { key, state, lock: Some(lock), .. } = self else { return Reply::Nil };
        if lock.vanished {
            return Reply::Failed(Box::new(OpError::Told(VANISHED.into())));
        }
        around.executor.run(around.counts, key, state, run)
    }
}

impl Lock {
    /// The record has ended by itself. Before anybody is let in; the shard refuses those who have not voted.
    fn end(&mut self, key: &Bytes, outbox: &mut Outbox) {
        self.vanished = true;
        outbox.say_ended(key.clone());
    }
}

/// Why a command was not carried out (A25).
const VANISHED: &str = "ERR the key expired or was removed before the commit was carried out, so this command was not; the others were";
