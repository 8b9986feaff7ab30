//! What is asked of records and their locks, and changes nothing.

use std::ops::Range;

use claret_types::{Bytes, Claims, Expiry, Operation, State, TypeInfo};

use super::lock::used_by;
use super::records::{Record, RecordIx};
use super::table::LockTable;
use crate::backup::HeldRecord;
use crate::ids::{AttemptId, Birth, CallNo, Timestamp};
use crate::shard::lock_table::Item;
use crate::shard::picture::Wait;

impl LockTable {
    // --- records ---

    pub(crate) fn key(&self, record: RecordIx) -> &Bytes {
        &self.records()[record].key
    }

    pub(crate) fn state(&self, record: RecordIx) -> Option<&State> {
        self.records()[record].state.as_ref()
    }

    /// Every record's key and content, in no useful order.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (&Bytes, &State)> {
        self.records().iter().filter_map(|record| Some((&record.key, record.state.as_ref()?)))
    }

    /// The same of some places, and the next place.
    pub(crate) fn contents_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, &State)>, Option<usize>) {
        let (records, next) = self.records_at(places);
        (records.filter_map(|(key, state)| Some((key, state?))), next)
    }

    /// The same with those that are not there, and only somebody holds them.
    pub(crate) fn records_at(
        &self,
        places: Range<usize>,
    ) -> (impl Iterator<Item = (&Bytes, Option<&State>)>, Option<usize>) {
        let (records, next) = self.records().at(places);
        (records.map(|record| (&record.key, record.state.as_ref())), next)
    }

    /// When the first of the records here expires.
    #[inline]
    pub(crate) fn next_expiry(&self) -> Option<Expiry> {
        self.records().next_expiry()
    }

    /// The keys of the records here whose time is over, the first so many, without those that somebody holds who has voted and
    /// may have changed when they expire. O(how many are over).
    pub(crate) fn expired(
        &self,
        now_ms: u64,
        most: usize,
        has_voted: impl Fn(AttemptId) -> bool,
    ) -> Vec<Bytes> {
        let ends = |record: &&Record| {
            let lock = record.lock.as_ref();
            lock.is_none_or(|lock| !lock.may_end_otherwise(&has_voted))
        };
        self.records().over(now_ms).filter(ends).take(most).map(|record| record.key.clone()).collect()
    }

    // --- who holds them and who waits ---

    /// Records that somebody holds or waits for.
    pub(crate) fn locked(&self) -> usize {
        self.records().iter().filter(|record| record.lock.is_some()).count()
    }

    pub(crate) fn is_held(&self, hash: u64, key: &[u8]) -> bool {
        self.find(hash, key).is_some_and(|record| self.records()[record].held().is_some())
    }

    /// The type whose modes those who hold a record use.
    pub(crate) fn held_as(&self, hash: u64, key: &[u8]) -> Option<&'static TypeInfo> {
        self.records()[self.find(hash, key)?].held()?.kind()
    }

    /// An external record has its place here only while somebody holds it.
    pub(crate) fn is_idle(&self) -> bool {
        self.records().len() == 0 || self.held_keys().next().is_none()
    }

    pub(crate) fn held_keys(&self) -> impl Iterator<Item = &Bytes> {
        self.records().iter().filter(|record| record.held().is_some()).map(|record| &record.key)
    }

    /// Holders and waiters of every record that has any.
    pub(crate) fn waits_for(&self) -> impl Iterator<Item = Wait> + '_ {
        self.records().iter().filter_map(|record| Some(record.lock.as_ref()?.waits(&record.key)))
    }

    /// Who is in the way of an attempt that waits for this record, in order; `None`: it does not wait. O(holders and
    /// waiters).
    pub(crate) fn waits_behind(&self, record: RecordIx, attempt: AttemptId) -> Option<Vec<AttemptId>> {
        self.records().lock(record)?.waits_behind(attempt)
    }

    /// How many hold a record or wait for it. O(1).
    pub(crate) fn crowd(&self, record: RecordIx) -> usize {
        self.records().lock(record).map_or(0, |lock| lock.crowd())
    }

    /// Who holds a record, in the order in which they came.
    pub(crate) fn holders(&self, record: RecordIx) -> impl Iterator<Item = AttemptId> + '_ {
        self.records().lock(record).into_iter().flat_map(|lock| lock.holders())
    }

    /// The eldest waiter that a holder was told of on this record.
    pub(crate) fn told(&self, record: RecordIx, attempt: AttemptId) -> Option<Birth> {
        self.records().lock(record)?.told(attempt)
    }

    /// Whether claims of a command that is no operation, and that is over at once, have to wait for holders.
    pub(crate) fn conflicts_with(&self, hash: u64, key: &[u8], kind: &TypeInfo, claims: &Claims) -> bool {
        let lock = self.find(hash, key).and_then(|record| self.records()[record].held());
        lock.is_some_and(|lock| lock.conflicts_with_any(kind, claims))
    }

    // --- what one attempt holds ---

    /// The granted calls of an attempt on a record, in the order in which they were.
    pub(crate) fn calls(&self, record: RecordIx, attempt: AttemptId) -> impl Iterator<Item = &Item> {
        self.items_of(record, attempt).iter()
    }

    fn items_of(&self, record: RecordIx, attempt: AttemptId) -> &[Item] {
        self.records().lock(record).map_or(&[], |lock| lock.items_of(attempt))
    }

    /// How many calls of an attempt are granted on a record.
    pub(crate) fn calls_of(&self, record: RecordIx, attempt: AttemptId) -> usize {
        self.items_of(record, attempt).len()
    }

    /// The call of an attempt that was granted last on a record.
    pub(crate) fn last_call(&self, record: RecordIx, attempt: AttemptId) -> Option<CallNo> {
        Some(self.items_of(record, attempt).last()?.no)
    }

    /// Whether an attempt claims a record in order.
    pub(crate) fn stands_in(&self, record: RecordIx, attempt: AttemptId) -> bool {
        self.records().lock(record).is_some_and(|lock| lock.stands(attempt))
    }

    /// Whether an attempt has calls in order on a record that answer something.
    pub(crate) fn answers_later(&self, record: RecordIx, attempt: AttemptId) -> bool {
        self.records().lock(record).is_some_and(|lock| lock.answers_later(attempt))
    }

    /// What an attempt holds on a record, for replicas.
    pub(crate) fn held_by(&self, record: RecordIx, attempt: AttemptId) -> Option<HeldRecord> {
        self.records().get(record)?.held_by(attempt)
    }

    /// What those see who stand in the line of a record that vanished.
    pub(crate) fn seen_of(&self, record: RecordIx) -> Option<(Bytes, Option<Box<State>>)> {
        seen_of(self.records().get(record)?)
    }

    /// The same of all such records.
    pub(crate) fn all_seen(&self) -> impl Iterator<Item = (Bytes, Box<State>)> + '_ {
        let all = self.records().iter().filter_map(seen_of);
        all.filter_map(|(key, seen)| Some((key, seen?)))
    }

    // --- clocks ---

    /// The largest clock of a record for what conflicts with what an attempt claims there: its vote has to be larger (P73).
    pub(crate) fn clock_before(&self, record: RecordIx, attempt: AttemptId) -> Timestamp {
        self.records()[record].clock_before(self.clocks(), attempt)
    }

    /// The largest clock of a record for what conflicts with an operation.
    pub(crate) fn clock_before_op(&self, hash: u64, op: &Operation) -> Timestamp {
        self.clocks().before(hash, op.type_info(), used_by(op))
    }
}

fn seen_of(record: &Record) -> Option<(Bytes, Option<Box<State>>)> {
    let seen = record.lock.as_ref()?.seen()?;
    Some((record.key.clone(), seen))
}
