//! When records in a shard's own memory expire: the lock table's part.

use claret_types::{Bytes, Expiry, Mode, State};

use super::{AttemptId, External, Holder, Item, Lock, LockTable, Record, RecordIx};
use crate::planted::{Bug, is_planted};
use crate::records::HeldEnd;

impl LockTable {
    /// When the first of the records here expires.
    #[inline]
    pub(crate) fn next_expiry(&self) -> Option<Expiry> {
        self.expiring.first().map(|(expiry, _)| *expiry)
    }

    /// The keys of the records here whose time is over, the first so many, without those that somebody holds who has voted and
    /// may have changed when they expire. O(how many are over).
    pub(crate) fn expired(
        &self,
        now_ms: u64,
        most: usize,
        has_voted: impl Fn(AttemptId) -> bool,
    ) -> Vec<Bytes> {
        let are_over = self.expiring.iter().take_while(|(expiry, _)| expiry.ms() <= now_ms);
        let keys = are_over.filter(|(_, record)| {
            let Some(lock) = &self.records[*record].lock else { return true };
            !lock.holders.iter().any(|(attempt, holder)| has_voted(*attempt) && has_a_say(lock, holder))
        });
        keys.take(most).map(|(_, record)| self.records[*record].key.clone()).collect()
    }

    /// Of these records, which somebody holds who votes, each whose end the effects may be about is kept from its end by the host,
    /// until the holder leaves. Whether all are there: one whose time was over before has ended, and those who hold it hear that
    /// before anybody is let in.
    pub(crate) fn hold_ends(&mut self, held: &[RecordIx], attempt: AttemptId) -> bool {
        let Some(External(records)) = self.external else { return true };
        for record in held {
            let Record { key, lock: Some(lock), .. } = &mut self.records[*record] else { continue };
            if !may_have_a_say(lock) {
                continue; // Mostly.
            }
            let has_a_say = lock.holders.get(&attempt).is_some_and(|holder| has_a_say(lock, holder));
            match has_a_say.then(|| records.hold_end(key)) {
                Some(HeldEnd::Over) => {
                    lock.vanished = true;
                    self.ended.push(key.clone());
                    return false;
                }
                Some(HeldEnd::Held) => {
                    let holder = lock.holders.get_mut(&attempt);
                    holder.into_iter().for_each(|holder| holder.holds_end = true);
                }
                Some(HeldEnd::Free) | None => {}
            }
        }
        true
    }

    /// The shard forgets who holds its records: all of them may end by their time again.
    pub(crate) fn let_all_end(&self) {
        let Some(External(records)) = self.external else { return };
        for (_, Record { key, lock, .. }) in &self.records {
            let holders = lock.iter().flat_map(|lock| lock.holders.values());
            for _ in holders.filter(|holder| holder.holds_end) {
                let _ = records.let_end(key); // Nobody is left to hear that it has ended.
            }
        }
    }

    /// A record's content has changed for good.
    #[inline]
    pub(super) fn note_expiry(&mut self, record: RecordIx, before: Option<Expiry>, after: Option<Expiry>) {
        if before != after {
            self.note_other_expiry(record, before, after);
        }
    }

    #[cold]
    fn note_other_expiry(&mut self, record: RecordIx, before: Option<Expiry>, after: Option<Expiry>) {
        let vanishes = match is_planted(Bug::VanishesAsBefore) {
            true => after.and(before).or(after),
            false => after,
        };
        before.map(|expiry| self.expiring.remove(&(expiry, record)));
        vanishes.map(|expiry| self.expiring.insert((expiry, record)));
    }
}

/// Whether a holder's effects may be about when the record ends: they set, clear or put off its expiry, or put another record in
/// its place.
pub(super) fn has_a_say(lock: &Lock, holder: &Holder) -> bool {
    let Some(about_it) = about_expiry(lock) else { return !is_planted(Bug::VoteHoldsNoEnd) };
    let may_do = |item: &Item| item.effect.is_some() && item.claims.have(about_it);
    may_have_a_say(lock) && holder.items.iter().any(may_do) && !is_planted(Bug::VoteHoldsNoEnd)
}

/// Whether that may be so of any holder. Who stands in line has none: such a record has no expiry.
fn may_have_a_say(lock: &Lock) -> bool {
    about_expiry(lock).is_none_or(|about_it| lock.held.have(about_it))
}

/// Modes of what may be about when the record ends; `None`: nobody knows them.
fn about_expiry(lock: &Lock) -> Option<u16> {
    lock.kind.map(|kind| kind.modes.conflicts_of(Mode::READ_EXPIRY))
}

#[inline]
pub(super) fn expiry_of(state: &Option<State>) -> Option<Expiry> {
    state.as_ref().and_then(State::expiry)
}
