//! Versions of records (O10 of `docs/optimistic.md`): which of the keys that somebody asked about have not changed since.
//!
//! A key that is asked about gets a number that nobody got before, and keeps it until something changes the record. Then the
//! number is forgotten, and whoever asks next gets another one. So to forget is always safe, and the table is bounded: beyond that
//! what was asked about longest ago is forgotten, as if it had changed.
//!
//! Numbers are counted, and never go back; the epoch in front of them is the host's, and no other table has it. What is not asked
//! about costs nothing.

use std::collections::BTreeMap;

use claret_types::Bytes;
use hashbrown::HashMap;

/// Which versions were told of which keys: for a host of records.
#[derive(Clone, Debug)]
pub struct Versions {
    epoch: u64,
    /// The number that was given last.
    given: u64,
    known: HashMap<Bytes, Known, foldhash::fast::FixedState>,
    /// The same keys by when they were asked about last.
    by_use: BTreeMap<u64, Bytes>,
    /// How often anything was asked.
    asked: u64,
    /// What the keys take.
    bytes: usize,
    bytes_max: usize,
    evicted: u64,
}

/// A key that has not changed since it got its number.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    /// When it was asked about last.
    used: u64,
}

/// What a key takes in two tables, about.
fn size_of(key: &[u8]) -> usize {
    2 * key.len() + ENTRY_BYTES
}

const ENTRY_BYTES: usize = 128;

impl Versions {
    /// Of an epoch that no other table has, or had. All keys together take at most so many bytes.
    pub fn new(epoch: u64, bytes_max: usize) -> Self {
        Versions {
            epoch,
            given: 0,
            known: HashMap::default(),
            by_use: BTreeMap::new(),
            asked: 0,
            bytes: 0,
            bytes_max,
            evicted: 0,
        }
    }

    /// The version of a record, there or not: the same until [`Self::changed`]. O(log of the keys that are known).
    pub fn of(&mut self, key: &[u8]) -> Bytes {
        self.asked += 1;
        let number = match self.known.get_mut(key) {
            Some(known) => {
                let key = self.by_use.remove(&known.used).expect("it is in both");
                self.by_use.insert(self.asked, key);
                known.used = self.asked;
                known.number
            }
            None => self.begin(key),
        };
        self.shown(number)
    }

    fn begin(&mut self, key: &[u8]) -> u64 {
        self.given += 1;
        let key = Bytes::copy_from(key);
        self.bytes += size_of(&key);
        self.by_use.insert(self.asked, key.clone());
        self.known.insert(key, Known { number: self.given, used: self.asked });
        self.keep_within();
        self.given
    }

    /// A version that is that of nothing: for where the next change could not be seen.
    pub fn of_nothing(&mut self) -> Bytes {
        self.given += 1;
        self.shown(self.given)
    }

    fn shown(&self, number: u64) -> Bytes {
        let mut version = Bytes::copy_from(&self.epoch.to_be_bytes());
        version.extend(&number.to_be_bytes());
        version
    }

    /// Something changed the record, or may have.
    #[inline]
    pub fn changed(&mut self, key: &[u8]) {
        if !self.known.is_empty() {
            self.forget(key);
        }
    }

    /// The same of all records.
    pub fn all_changed(&mut self) {
        self.known.clear();
        self.by_use.clear();
        self.bytes = 0;
    }

    fn forget(&mut self, key: &[u8]) {
        let Some(Known { used, .. }) = self.known.remove(key) else { return };
        self.by_use.remove(&used);
        self.bytes -= size_of(key);
    }

    /// How many bytes all keys take at most from now on.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.keep_within();
    }

    fn keep_within(&mut self) {
        while self.bytes > self.bytes_max
            && let Some((_, key)) = self.by_use.pop_first()
        {
            self.forget(&key);
            self.evicted += 1;
        }
    }

    /// Whether no key is known: then nothing need be told.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// How many keys are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many were forgotten that had not changed.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}

#[cfg(test)]
mod tests {
    use super::{Versions, size_of};

    const ROOM: usize = 1 << 20;

    #[test]
    fn a_version_stays_until_the_record_changes_and_never_comes_back() {
        let mut versions = Versions::new(7, ROOM);
        let first = versions.of(b"k");
        assert_eq!(versions.of(b"k"), first);
        assert_ne!(versions.of(b"other"), first);
        versions.changed(b"unknown");
        assert_eq!(versions.of(b"k"), first);
        versions.changed(b"k");
        let second = versions.of(b"k");
        assert_ne!(second, first);
        versions.all_changed();
        let third = versions.of(b"k");
        assert!(third != second && third != first);
        assert!(first.len() <= 24);
    }

    #[test]
    fn no_two_epochs_have_a_version_in_common() {
        let (mut one, mut other) = (Versions::new(1, ROOM), Versions::new(2, ROOM));
        assert_ne!(one.of(b"k"), other.of(b"k"));
    }

    #[test]
    fn what_is_asked_about_where_no_change_is_seen_is_never_met() {
        let mut versions = Versions::new(7, ROOM);
        let kept = versions.of(b"k");
        let nothing = versions.of_nothing();
        assert!(nothing != kept && versions.of_nothing() != nothing);
        assert_eq!(versions.of(b"k"), kept);
        assert_eq!(versions.len(), 1);
    }

    #[test]
    fn beyond_the_bound_what_was_asked_longest_ago_is_as_if_it_had_changed() {
        let mut versions = Versions::new(7, 3 * size_of(b"a"));
        let [a, b, _] = [b"a", b"b", b"c"].map(|key| versions.of(key));
        assert_eq!((versions.of(b"a"), versions.evicted()), (a.clone(), 0));
        versions.of(b"d");
        assert_eq!((versions.len(), versions.evicted()), (3, 1));
        assert_eq!(versions.of(b"a"), a, "asked again before");
        assert_ne!(versions.of(b"b"), b);
        versions.set_bytes_max(0);
        assert_eq!((versions.len(), versions.bytes()), (0, 0));
        assert_ne!(versions.of(b"a"), versions.of(b"a"), "without room nothing is kept");
    }

    #[test]
    fn what_is_kept_is_counted() {
        let mut versions = Versions::new(7, ROOM);
        for number in 0..100 {
            versions.of(format!("key {number:03}").as_bytes());
        }
        assert_eq!(versions.bytes(), 100 * size_of(b"key 000"));
        for number in 0..100 {
            versions.changed(format!("key {number:03}").as_bytes());
        }
        assert!(versions.is_empty() && versions.by_use.is_empty());
        assert_eq!((versions.bytes(), versions.evicted()), (0, 0));
    }
}
