//! The records of a lock table: each has a key, what is committed of it if that is here, and a lock while somebody holds it or
//! waits for it.
//!
//! Invariants ([`Records::check`]): a record is there only with content or a lock; each is found by its key; those that expire are
//! in `expiring`, by when.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::{Index, IndexMut, Range};

use claret_types::{Bytes, Expiry, State};
use hashbrown::HashTable;
use slab::Slab;

use super::executor::Executor;
use super::idle::IdleLocks;
use super::lock::Lock;
use crate::planted::{Bug, is_planted};

/// A record's place in the table, stable while it is held.
pub(crate) type RecordIx = usize;

/// One record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) key: Bytes,
    pub(super) hash: u64,
    /// Changed for good within [`Records::change`] alone. In between effects may be added to it, and are taken off again.
    pub(super) state: Option<State>,
    pub(super) lock: Option<Box<Lock>>,
}

impl Record {
    pub(super) fn expiry(&self) -> Option<Expiry> {
        self.state.as_ref().and_then(State::expiry)
    }

    /// Its lock, which it gets if it has none.
    #[inline]
    pub(super) fn lock_or_take(&mut self, idle: &mut IdleLocks) -> &mut Lock {
        self.lock.get_or_insert_with(|| idle.take())
    }

    /// Whether nobody gets in until those have left who hold the record.
    #[inline]
    pub(super) fn has_vanished(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.has_vanished() && !is_planted(Bug::VanishedLetsIn))
    }

    /// Its lock, if somebody holds it.
    pub(super) fn held(&self) -> Option<&Lock> {
        self.lock.as_deref().filter(|lock| lock.is_held())
    }
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    slab: Slab<Record>,
    index: HashTable<RecordIx>,
    /// The records here that expire, by when.
    expiring: BTreeSet<(Expiry, RecordIx)>,
}

impl Index<RecordIx> for Records {
    type Output = Record;

    #[inline]
    fn index(&self, record: RecordIx) -> &Record {
        &self.slab[record]
    }
}

impl IndexMut<RecordIx> for Records {
    #[inline]
    fn index_mut(&mut self, record: RecordIx) -> &mut Record {
        &mut self.slab[record]
    }
}

impl Records {
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<RecordIx> {
        self.index.find(hash, |ix| &*self.slab[*ix].key == key).copied()
    }

    #[inline]
    pub(super) fn get(&self, record: RecordIx) -> Option<&Record> {
        self.slab.get(record)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, record: RecordIx) -> Option<&mut Record> {
        self.slab.get_mut(record)
    }

    /// The lock of a record, if that is there and has one.
    #[inline]
    pub(super) fn lock(&self, record: RecordIx) -> Option<&Lock> {
        self.slab.get(record)?.lock.as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Places of records are below.
    pub(super) fn places(&self) -> usize {
        self.slab.capacity()
    }

    /// All of them, in no useful order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.slab.iter().map(|(_, record)| record)
    }

    /// Those at some places, and the next place.
    pub(super) fn at(&self, places: Range<usize>) -> (impl Iterator<Item = &Record>, Option<usize>) {
        let next = Some(places.end).filter(|end| *end < self.slab.capacity());
        (places.filter_map(|place| self.slab.get(place)), next)
    }

    /// The place of a key's record, made if there is none. Paired with [`Self::tidy`].
    #[inline]
    pub(super) fn ensure(&mut self, hash: u64, key: &Bytes) -> RecordIx {
        match self.find(hash, key) {
            Some(record) => record,
            None => {
                let record = self.slab.insert(Record { key: key.clone(), hash, state: None, lock: None });
                self.index.insert_unique(hash, record, |ix| self.slab[*ix].hash);
                record
            }
        }
    }

    /// Gives back the memory of an idle lock, and the record of a key that does not exist.
    pub(super) fn tidy(&mut self, record: RecordIx, idle: &mut IdleLocks, executor: &mut Executor) {
        let Some(entry) = self.slab.get_mut(record) else { return };
        if entry.lock.as_ref().is_some_and(|lock| lock.is_idle()) {
            idle.put(entry.lock.take().expect("just seen"));
        }
        if entry.lock.is_none() && entry.state.is_none() {
            let hash = entry.hash;
            if let Ok(found) = self.index.find_entry(hash, |ix| *ix == record) {
                found.remove();
            }
            executor.note_gone(self.slab.remove(record).key);
        }
    }

    /// Does what may change the content of a record for good.
    #[inline]
    pub(super) fn change<T>(&mut self, record: RecordIx, change: impl FnOnce(&mut Record) -> T) -> T {
        let changed = &mut self.slab[record];
        let before = changed.expiry();
        let result = change(changed);
        let after = changed.expiry();
        if before != after {
            self.note_expiry(record, before, after);
        }
        result
    }

    #[cold]
    fn note_expiry(&mut self, record: RecordIx, before: Option<Expiry>, after: Option<Expiry>) {
        let vanishes = match is_planted(Bug::VanishesAsBefore) {
            true => after.and(before).or(after),
            false => after,
        };
        before.map(|expiry| self.expiring.remove(&(expiry, record)));
        vanishes.map(|expiry| self.expiring.insert((expiry, record)));
    }

    /// When the first of the records here expires.
    #[inline]
    pub(super) fn next_expiry(&self) -> Option<Expiry> {
        self.expiring.first().map(|(expiry, _)| *expiry)
    }

    /// The records here whose time is over, by when. O(how many there are).
    pub(super) fn over(&self, now_ms: u64) -> impl Iterator<Item = &Record> {
        let over = self.expiring.iter().take_while(move |(expiry, _)| expiry.ms() <= now_ms);
        over.map(|(_, record)| &self.slab[*record])
    }

    /// The committed records, without their locks.
    pub(super) fn into_contents(self) -> impl Iterator<Item = (u64, Bytes, State)> {
        self.slab.into_iter().filter_map(|(_, record)| Some((record.hash, record.key, record.state?)))
    }

    /// Records and locks by key: for digests.
    pub(super) fn content(&self) -> impl Debug + '_ {
        let mut records: Vec<&Record> = self.iter().collect();
        records.sort_unstable_by_key(|record| &*record.key);
        let mut all = Vec::new();
        for Record { key, hash: _, state, lock } in records {
            all.push((key, state, lock.as_deref().map(Lock::content)));
        }
        all
    }

    /// # Panics
    /// When an invariant does not hold, or one of a lock.
    pub(super) fn check(&self) {
        assert_eq!(self.index.len(), self.slab.len(), "a record is not found by its key");
        let expires = |(record, content): (RecordIx, &Record)| Some((content.expiry()?, record));
        let expiring: BTreeSet<_> = self.slab.iter().filter_map(expires).collect();
        assert!(expiring == self.expiring, "records expire that are not noted, or the other way round");
        for Record { key, hash, state, lock } in self.iter() {
            assert!(state.is_some() || lock.is_some(), "'{key}' is nothing and yet there");
            assert!(self.find(*hash, key).is_some(), "'{key}' is not found");
            lock.iter().for_each(|lock| lock.check(key));
        }
    }
}
