//! What an attempt has undone of what it did on a record (`docs/nesting.md`).

use claret_types::Held;
use smallvec::SmallVec;

use super::{AttemptId, CallNo, Holder, Item, LockTable, Record, RecordIx};
use crate::planted::{Bug, is_planted};

impl LockTable {
    /// What these calls of an attempt did on a record is undone (N2). O(calls of the attempt on the record).
    pub(crate) fn undo_calls(
        &mut self,
        record: RecordIx,
        attempt: AttemptId,
        is_undone: impl Fn(CallNo) -> bool,
    ) {
        let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) else { return };
        let lock = &mut **lock;
        if let Some(holder) = lock.holders.get_mut(&attempt) {
            self.visits += holder.items.len() as u64;
            let places = holder.places_where(is_undone);
            undo(holder, &mut lock.held, &places);
        }
    }

    /// The same for calls with these numbers. O(these calls), and the first time O(calls of the attempt on the record).
    pub(crate) fn undo_numbers(&mut self, record: RecordIx, attempt: AttemptId, numbers: &[CallNo]) {
        let Some(Record { lock: Some(lock), .. }) = self.records.get_mut(record) else { return };
        let lock = &mut **lock;
        if let Some(holder) = lock.holders.get_mut(&attempt) {
            self.visits += (numbers.len() + holder.to_index()) as u64;
            let places = holder.places_of(numbers);
            undo(holder, &mut lock.held, &places);
        }
    }

    /// Which of these calls of an attempt are granted on a record, in order. O(these calls), and the first time O(calls of the
    /// attempt on the record).
    pub(crate) fn granted_of(
        &mut self,
        record: RecordIx,
        attempt: AttemptId,
        numbers: impl Iterator<Item = CallNo>,
    ) -> SmallVec<[CallNo; 4]> {
        let mut granted: SmallVec<[CallNo; 4]> = numbers.collect();
        let lock = self.records.get_mut(record).and_then(|record| record.lock.as_mut());
        let holder = lock.and_then(|lock| lock.holders.get_mut(&attempt)).filter(|_| !granted.is_empty());
        let Some(holder) = holder else { return SmallVec::new() };
        self.visits += holder.to_index() as u64;
        granted.retain(|no| holder.has_call(*no));
        granted.sort_unstable();
        granted
    }

    /// The call of an attempt that was granted last on a record.
    pub(crate) fn last_call(&self, record: RecordIx, attempt: AttemptId) -> Option<CallNo> {
        let lock = self.records.get(record)?.lock.as_ref()?;
        Some(lock.holders.get(&attempt)?.items.last()?.no)
    }

    /// The granted calls of an attempt on a record.
    pub(crate) fn calls(&self, record: RecordIx, attempt: AttemptId) -> impl Iterator<Item = &Item> {
        let lock = self.records.get(record).and_then(|record| record.lock.as_ref());
        let holder = lock.and_then(|lock| lock.holders.get(&attempt));
        holder.into_iter().flat_map(|holder| &holder.items)
    }
}

/// What these calls did is undone, and what they claim stays: their user acted on what they answered (N2).
fn undo(holder: &mut Holder, held: &mut Held, places: &[u32]) {
    if is_planted(Bug::UndoneReadsDropped) {
        for place in places {
            held.remove(&std::mem::take(&mut holder.items[*place as usize].claims));
        }
    }
    if !is_planted(Bug::UndoneApplied) {
        holder.undo(places);
    }
}
