//! When records in a shard's own memory expire: the lock table's part.

use claret_types::{Bytes, Claims, Expiry, Mode, Modes, State};

use super::{AttemptId, Holder, LockTable, RecordIx, rules};

impl LockTable {
    /// When the first of the records here expires.
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
            let modes = lock.kind.map(|kind| &kind.modes);
            let has_a_say = |holder: &Holder| {
                holder.claims().any(|claims| modes.is_none_or(|modes| claims_expiry(claims, modes)))
            };
            !lock.holders.iter().any(|(attempt, holder)| has_voted(*attempt) && has_a_say(holder))
        });
        keys.take(most).map(|(_, record)| self.records[*record].key.clone()).collect()
    }

    /// A record's content has changed for good.
    pub(super) fn note_expiry(&mut self, record: RecordIx, before: Option<Expiry>, after: Option<Expiry>) {
        if before != after {
            let vanishes = rules::vanishes(before, after);
            before.map(|expiry| self.expiring.remove(&(expiry, record)));
            vanishes.map(|expiry| self.expiring.insert((expiry, record)));
        }
    }
}

/// Whether these are claims of what sets, clears or puts off the expiry, or puts another record in place of this one.
fn claims_expiry(claims: &Claims, modes: &Modes) -> bool {
    claims.conflict_with(&Claims::record(Mode::READ_EXPIRY), modes)
}

pub(super) fn expiry_of(state: &Option<State>) -> Option<Expiry> {
    state.as_ref().and_then(State::expiry)
}
