//! Where operations had to wait lately, by record and operation: what makes a shard slow, for display.
//!
//! A bounded table of frequent items (Space-Saving: Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k
//! elements in data streams", ICDT 2005, section 3). Who is not in a full table takes the place of the one with the lowest
//! count, and inherits that count as its possible error. Counts are halved as time passes, so what was hot yesterday goes.
//!
//! Counting is done only where somebody has to wait, which costs a lot more than this.
//!
//! Invariants ([`Hot::check`]): counts fall from the first to the last; an error is at most its count; there is
//! one tag for each entry.

use std::hash::BuildHasher;

use claret_types::Bytes;

use crate::ids::Time;

/// So many records and operations are told apart.
pub(super) const ENTRIES_MAX: usize = 128;

/// Records with longer keys are not counted one by one: the table must not keep large keys of records that are gone.
pub(super) const KEY_BYTES_MAX: usize = 1024;

/// Counts are halved this often, counted from the first wait: one alone is shown for so long, whenever it was.
const HALVED_US: u64 = 10_000_000;

/// One operation on one record.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Bytes,
    pub(super) hash: u64,
    pub(super) method: &'static str,
    count: u64,
    /// So much of the count may be of others, whose place it took.
    error: u64,
    /// Waits since it came into the table.
    total: u64,
}

/// What was counted of one operation on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The operation's name.
    pub method: &'static str,
    /// Waits of the last ten or twenty seconds, at least so many.
    pub recent: u64,
    /// Waits since it is counted here; it begins at 0 when it was forgotten meanwhile.
    pub total: u64,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Hot {
    /// Hashes of records and operations, beside the entries: they are looked through.
    tags: Vec<u64>,
    entries: Vec<Entry>,
    /// When counts were halved last, or the first was made.
    halved: Time,
}

fn tag_of(hash: u64, method: &str) -> u64 {
    foldhash::fast::FixedState::with_seed(hash).hash_one(method)
}

impl Hot {
    /// An operation has to wait for a record with this hash. O(entries), which are few.
    pub(super) fn note(&mut self, now: Time, hash: u64, key: &Bytes, method: &'static str) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        match self.due(now) {
            0 => {}
            times => self.halve(times),
        }
        if self.entries.is_empty() {
            self.halved = now;
        }
        let tag = tag_of(hash, method);
        let is_it = |entry: &Entry| entry.method == method && entry.key == *key;
        let at = (0..self.tags.len()).find(|at| self.tags[*at] == tag && is_it(&self.entries[*at]));
        let at = at.unwrap_or_else(|| self.take_place(tag, hash, key, method));
        // Among equals it comes first, and then may have one more.
        let count = self.entries[at].count;
        let first = self.entries.partition_point(|entry| entry.count > count);
        self.tags.swap(at, first);
        self.entries.swap(at, first);
        self.entries[first].count += 1;
        self.entries[first].total += 1;
    }

    /// The place of a new entry: a free one, or that of the last.
    fn take_place(&mut self, tag: u64, hash: u64, key: &Bytes, method: &'static str) -> usize {
        let count = match self.entries.len() {
            ENTRIES_MAX.. => {
                self.tags.pop();
                self.entries.pop().map_or(0, |last| last.count)
            }
            _ => 0,
        };
        self.tags.push(tag);
        self.entries.push(Entry { key: key.clone(), hash, method, count, error: count, total: 0 });
        self.entries.len() - 1
    }

    /// How often counts are to be halved by now.
    fn due(&self, now: Time) -> u64 {
        now.0.saturating_sub(self.halved.0) / HALVED_US
    }

    fn halve(&mut self, times: u64) {
        for entry in &mut self.entries {
            entry.count >>= times.min(63);
            entry.error >>= times.min(63);
        }
        self.halved = Time(self.halved.0 + times * HALVED_US);
        // Those of which nothing is left are the last.
        let left = self.entries.partition_point(|entry| entry.count > 0);
        self.entries.truncate(left);
        self.tags.truncate(left);
    }

    /// Everything that is counted as of now, in no useful order.
    pub(super) fn counted(&self, now: Time) -> impl Iterator<Item = (&Entry, Waited)> {
        let times = self.due(now).min(63);
        self.entries.iter().filter_map(move |entry| {
            let recent = (entry.count >> times) - (entry.error >> times);
            let is_left = entry.count >> times > 0;
            is_left.then_some((entry, Waited { method: entry.method, recent, total: entry.total }))
        })
    }

    /// # Panics
    /// When one does not hold.
    pub(super) fn check(&self) {
        assert!(self.entries.len() <= ENTRIES_MAX && self.tags.len() == self.entries.len());
        for (tag, entry) in self.tags.iter().zip(&self.entries) {
            assert!(*tag == tag_of(entry.hash, entry.method), "'{}' has the tag of another", entry.key);
            assert!(entry.key.len() <= KEY_BYTES_MAX && entry.error <= entry.count && entry.total > 0);
        }
        assert!(self.entries.is_sorted_by(|a, b| a.count >= b.count), "counts rise");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::key_hash;

    fn note(hot: &mut Hot, seconds: u64, key: &str, method: &'static str) {
        let key = Bytes::from(key);
        hot.note(Time(seconds * 1_000_000), key_hash(&key), &key, method);
        hot.check();
    }

    fn recent(hot: &Hot, seconds: u64, key: &str, method: &str) -> Option<(u64, u64)> {
        let mut all = hot.counted(Time(seconds * 1_000_000));
        let found = all.find(|(entry, waited)| *entry.key == *key.as_bytes() && waited.method == method);
        found.map(|(_, waited)| (waited.recent, waited.total))
    }

    #[test]
    fn waits_are_counted_by_record_and_operation() {
        let mut hot = Hot::default();
        for _ in 0..3 {
            note(&mut hot, 1, "a", "GET");
        }
        note(&mut hot, 1, "a", "SET");
        note(&mut hot, 1, "b", "SET");
        assert_eq!(recent(&hot, 1, "a", "GET"), Some((3, 3)));
        assert_eq!(recent(&hot, 1, "a", "SET"), Some((1, 1)));
        assert_eq!(recent(&hot, 1, "b", "SET"), Some((1, 1)));
        assert_eq!(recent(&hot, 1, "b", "GET"), None);
    }

    #[test]
    fn counts_fade_and_then_go_and_totals_stay_as_long_as_they_are_there() {
        let mut hot = Hot::default();
        for _ in 0..8 {
            note(&mut hot, 1, "a", "GET");
        }
        note(&mut hot, 1, "b", "GET");
        // Looking changes nothing.
        assert_eq!(recent(&hot, 11, "a", "GET"), Some((4, 8)));
        assert_eq!(recent(&hot, 11, "b", "GET"), None);
        note(&mut hot, 12, "a", "GET");
        assert_eq!(recent(&hot, 12, "a", "GET"), Some((5, 9)));
        assert_eq!(recent(&hot, 9_999_999, "a", "GET"), None);
        note(&mut hot, 9_999_999, "c", "GET");
        assert_eq!((hot.entries.len(), recent(&hot, 9_999_999, "c", "GET")), (1, Some((1, 1))));
        // A clock that stands, or goes back, halves nothing.
        note(&mut hot, 1, "c", "GET");
        assert_eq!(recent(&hot, 1, "c", "GET"), Some((2, 2)));
    }

    #[test]
    fn what_had_to_wait_is_shown_for_ten_seconds_whenever_it_was() {
        for began in [9, 10, 19] {
            let mut hot = Hot::default();
            note(&mut hot, began, "a", "GET");
            assert_eq!(recent(&hot, began + 9, "a", "GET"), Some((1, 1)));
            assert_eq!(recent(&hot, began + 10, "a", "GET"), None);
            // Also of the first one after all were gone.
            note(&mut hot, began + 35, "a", "GET");
            assert_eq!(recent(&hot, began + 44, "a", "GET"), Some((1, 1)));
        }
    }

    #[test]
    fn what_is_frequent_stays_whatever_else_comes_and_the_table_has_a_bound() {
        let mut hot = Hot::default();
        let count = 40 * ENTRIES_MAX;
        for step in 0..count {
            note(&mut hot, 1, &format!("rare-{step}"), "SET");
            if step % 16 == 0 {
                note(&mut hot, 1, "often", "INCR");
            }
        }
        assert_eq!(hot.entries.len(), ENTRIES_MAX);
        // What has more than its share of all waits is there, and is not said to have more than it had.
        let often = (count / 16) as u64;
        let (recent, total) = recent(&hot, 1, "often", "INCR").expect("it is frequent");
        assert!(recent <= often && total <= often && recent > often / 2, "{recent} {total} of {often}");
        for (entry, waited) in hot.counted(Time(1_000_000)) {
            assert!(waited.recent >= 1 && waited.total >= 1, "{entry:?}");
            assert!(entry.method == "INCR" || waited.recent == 1, "a rare one is taken for a frequent one");
        }
    }

    #[test]
    fn large_keys_are_not_kept() {
        let mut hot = Hot::default();
        note(&mut hot, 1, &"k".repeat(KEY_BYTES_MAX + 1), "GET");
        assert!(hot.entries.is_empty());
        note(&mut hot, 1, &"k".repeat(KEY_BYTES_MAX), "GET");
        assert_eq!(hot.entries.len(), 1);
    }

    #[test]
    fn records_whose_hashes_are_alike_are_told_apart() {
        let mut hot = Hot::default();
        for key in ["a", "b", "a"] {
            hot.note(Time(1), 7, &Bytes::from(key), "GET");
        }
        assert_eq!(recent(&hot, 0, "a", "GET"), Some((2, 2)));
        assert_eq!(recent(&hot, 0, "b", "GET"), Some((1, 1)));
    }
}
