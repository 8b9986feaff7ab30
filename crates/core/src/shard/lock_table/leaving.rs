//! How a holder leaves a record: what it did there is applied or dropped, and others are let in.

use super::{
    AttemptId, Fate, Holder, IDLE_HOLDERS_MAX, Item, Lock, LockTable, Record, RecordIx, Time, expiry_of,
};
use crate::message::Members;
use crate::planted::{Bug, is_planted};
use crate::records::{Applied, External};

impl LockTable {
    /// Leaves: applies or drops what was executed, gives the claims back, and lets waiters in.
    pub(crate) fn release(&mut self, now: Time, record: RecordIx, attempt: AttemptId, fate: Fate<'_>) {
        let external = self.external;
        let Some(Record { key, hash, state, lock: Some(lock) }) = self.records.get_mut(record) else {
            return;
        };
        if lock.line.is_some() && lock.holders.get(&attempt).is_some_and(Holder::is_in_order) {
            // What it was going to do is dropped: it is carried out by `finish_place` alone.
            let watchers = self.leave_line(record, attempt);
            return self.look_at(now, record, watchers.into_iter().collect());
        }
        let (before, mut has_ended) = (expiry_of(state), false);
        // They were voted on a record that has vanished since (P36).
        let drops_effects = lock.vanished && !is_planted(Bug::VanishedTakesEffects);
        let Lock { held, holders, .. } = &mut **lock;
        let is_last = holders.len() == 1;
        if let Some(holder) = holders.get_mut(&attempt) {
            let holds_end = holder.holds_end;
            match is_last {
                true => held.clear(),
                false => holder.claims().for_each(|claims| held.remove(claims)),
            }
            let is_applied = |item: &Item| item.is_applied(fate);
            match external {
                _ if drops_effects => {}
                None => {
                    let applied = std::mem::take(&mut holder.items).into_iter().filter(is_applied);
                    for effect in applied.filter_map(|item| item.effect) {
                        if let Some(journal) = self.journal.as_mut().filter(|journal| journal.writes) {
                            journal.write(key, &effect);
                        }
                        effect.apply(state);
                        self.versions.changed(key);
                    }
                }
                Some(external) => has_ended = external.carry_out(key, &holder.items, fate),
            }
            if let Some(External(records)) = external.filter(|_| holds_end) {
                has_ended |= records.let_end(key) == Applied::Ended;
            }
            // To take one out moves it.
            match is_last && holders.capacity() <= IDLE_HOLDERS_MAX {
                true => holders.clear(),
                false => drop(holders.swap_remove(&attempt)),
            }
        }
        if has_ended && !lock.holders.is_empty() {
            // Before anybody is let in. The shard refuses those who have not voted.
            lock.vanished = true;
            self.ended.push(key.clone());
        }
        if lock.holders.is_empty() {
            debug_assert!(lock.held.is_empty(), "claims without a holder");
            lock.reset(&mut self.clocks, *hash);
        }
        let after = expiry_of(state);
        lock.leave_followers(attempt, &mut self.unled);
        self.note_expiry(record, before, after);
        self.settle(now, record);
        self.tidy(record);
    }

    /// An attempt votes: what it is going to do on these records is noted, if anybody wants to know.
    pub(crate) fn note_votes(&mut self, held: &[RecordIx], attempt: AttemptId, members: &Members) {
        let Some(journal) = &mut self.journal else { return };
        for record in held {
            let Some(Record { key, lock: Some(lock), .. }) = self.records.get(*record) else { continue };
            let Some(holder) = lock.holders.get(&attempt) else { continue };
            let applied = holder.items.iter().filter(|item| item.is_applied(Fate::Apply(members)));
            applied.filter_map(|item| item.effect.as_ref()).for_each(|effect| journal.write(key, effect));
        }
    }
}
