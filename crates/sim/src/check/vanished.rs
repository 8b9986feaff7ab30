//! Records that vanished by themselves, and where that stands in the order of decisions (P36).
//!
//! A transaction of its own removes the record. It comes after the transactions that had voted on the record by then,
//! and before those that got the record later, because these wait for the former. So its place is behind the last
//! decision of those that had voted; transactions that use the record after that are decided later.

use std::collections::BTreeMap;

use claret_core::{AttemptId, ShardId, Time};
use claret_types::Bytes;

use super::{AttemptEntry, Ledger};
use crate::check::Violation;
use crate::reference::Reference;

/// One record vanished.
#[derive(Debug)]
pub(super) struct Vanished {
    shard: ShardId,
    key: Bytes,
    at: Time,
    /// So many decisions were there by then.
    place: usize,
    /// Who had voted on it, decided or not.
    voted: Vec<AttemptId>,
    /// It ended by its time, at this millisecond by the shard's clock.
    by_time: Option<u64>,
}

impl Ledger {
    /// Records of a shard vanished, each by itself.
    pub(crate) fn note_vanished(&mut self, shard: ShardId, keys: &[Bytes], now: Time, by_time: Option<u64>) {
        for key in keys {
            let voted = self.attempts.iter().filter(|(_, entry)| self.has_voted_on(entry, shard, key));
            let voted = voted.map(|(attempt, _)| *attempt).collect();
            let place = self.order.len();
            self.vanished.push(Vanished { shard, key: key.clone(), at: now, place, voted, by_time });
        }
    }

    fn has_voted_on(&self, entry: &AttemptEntry, shard: ShardId, key: &Bytes) -> bool {
        let uses = |run| self.runs[run].issued.iter().any(|issued| issued.key == *key);
        entry.yes.contains(&shard) && entry.members.iter().any(uses)
    }

    /// Whether a record of the shard ever vanished.
    pub(super) fn has_vanished(&self, shard: ShardId, key: &Bytes) -> bool {
        self.vanished.iter().any(|it| it.shard == shard && it.key == *key)
    }

    /// Behind how many decisions, and by when, everybody was decided who comes before it. Where a shard forgot a vote
    /// before it carried it out, nobody waited for it.
    fn settled(&self, vanished: &Vanished) -> (usize, Time) {
        let Vanished { shard, at, place, voted, .. } = vanished;
        let entries = voted.iter().map(|attempt| &self.attempts[attempt]);
        let remembered = entries.filter(|entry| !entry.lost.contains(shard) || entry.applied.contains(shard));
        let decided = remembered.filter_map(|entry| entry.decided);
        decided
            .fold((*place, *at), |(place, at), decision| (place.max(decision.place + 1), at.max(decision.at)))
    }

    /// The records that vanished, by the number of decisions that come before; with each the millisecond, if only its time ended
    /// it.
    pub(super) fn vanished_by_place(&self) -> BTreeMap<usize, BTreeMap<&Bytes, Option<u64>>> {
        let mut by_place: BTreeMap<usize, BTreeMap<&Bytes, Option<u64>>> = BTreeMap::new();
        for vanished in &self.vanished {
            let here = by_place.entry(self.settled(vanished).0).or_default();
            let by_time = here.entry(&vanished.key).or_insert(vanished.by_time);
            *by_time = by_time.and(vanished.by_time);
        }
        by_place
    }

    /// These records are lost here. One that only its time ended must have one by then (P71): a transaction that was committed
    /// before may have put that off.
    pub(super) fn forget_vanished(
        &self,
        reference: &mut Reference,
        lost: BTreeMap<&Bytes, Option<u64>>,
    ) -> Result<(), Violation> {
        for (key, by_time) in &lost {
            let Some(now_ms) = by_time.filter(|_| self.torn() == 0 && !self.is_wiped()) else { continue };
            let Some(state) = reference.records().get(*key) else { continue };
            if state.expiry().is_none_or(|expiry| expiry.ms() > now_ms) {
                let until =
                    state.expiry().map_or("for ever".to_owned(), |expiry| format!("until {}", expiry.ms()));
                return Err(format!("'{key}' ended by its time at {now_ms} ms, and is to be there {until}"));
            }
        }
        reference.forget(|key| lost.contains_key(key));
        Ok(())
    }

    /// The records that vanished: when that began, and by when it was over.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&Bytes, Time, Time)> {
        self.vanished.iter().map(|it| (&it.key, it.at, self.settled(it).1))
    }
}
