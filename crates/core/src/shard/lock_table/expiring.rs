//! When records in a shard's own memory expire: the lock table's part.

use claret_types::{Bytes, Expiry, State};

use super::{LockTable, RecordIx, rules};

impl LockTable {
    /// When the first of the records here expires.
    pub(crate) fn next_expiry(&self) -> Option<Expiry> {
        self.expiring.first().map(|(expiry, _)| *expiry)
    }

    /// The keys of the records here whose time is over. O(how many).
    pub(crate) fn expired(&self, now_ms: u64) -> Vec<Bytes> {
        let are_over = self.expiring.iter().take_while(|(expiry, _)| expiry.ms() <= now_ms);
        are_over.map(|(_, record)| self.records[*record].key.clone()).collect()
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

pub(super) fn expiry_of(state: &Option<State>) -> Option<Expiry> {
    state.as_ref().and_then(State::expiry)
}
