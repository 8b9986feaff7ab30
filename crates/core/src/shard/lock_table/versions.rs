//! Versions of the records in a shard's own memory (O10 of `docs/optimistic.md`): what is answered, and what changes them.

use claret_types::{Operation, State};

use super::{LockTable, RecordIx};

impl LockTable {
    /// What an operation is executed on that asks which version of a record is here. Its transaction's own effects are none: they
    /// are not committed.
    #[inline]
    pub(super) fn version_for(&mut self, key: &[u8], op: &Operation) -> Option<State> {
        // Mostly not.
        op.asks_version().then(|| State::of_version(self.versions.of(key)))
    }

    /// A record was changed for good.
    #[inline]
    pub(super) fn has_changed(&mut self, record: RecordIx) {
        if let Some(record) = self.records.get(record) {
            self.versions.changed(&record.key);
        }
    }
}
