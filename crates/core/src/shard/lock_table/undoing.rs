//! What an attempt has undone of what it did on a record (`docs/nesting.md`).

use super::{AttemptId, CallNo, Item, LockTable, Record, RecordIx, rules};

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
            rules::undo(holder, &mut lock.held, is_undone);
        }
    }

    /// The granted calls of an attempt on a record.
    pub(crate) fn calls(&self, record: RecordIx, attempt: AttemptId) -> impl Iterator<Item = &Item> {
        let lock = self.records.get(record).and_then(|record| record.lock.as_ref());
        let holder = lock.and_then(|lock| lock.holders.get(&attempt));
        holder.into_iter().flat_map(|holder| &holder.items)
    }
}
