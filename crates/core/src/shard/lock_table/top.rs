//! The hot records of a lock table: see `shard/top.rs`. Every loop here has a bound that no user moves.

use claret_types::Bytes;
use smallvec::SmallVec;

use super::hot::{Hot, KEY_BYTES_MAX, Waited};
use super::records::{Record, RecordIx, Records};
use crate::ids::Time;
use crate::shard::key_hash;
use crate::shard::top::{HotRecord, Top};

/// So many places of the table are looked through at a time.
const PLACES_MAX: usize = 2048;
/// So many of the records that were found there are considered.
const FOUND_MAX: usize = 256;

/// A record that may be shown.
struct Candidate {
    key: Bytes,
    record: Option<RecordIx>,
    waits: SmallVec<[Waited; 2]>,
    recent: u64,
    waited_us: u64,
}

/// What records are chosen from.
pub(super) struct Search<'a> {
    pub(super) records: &'a Records,
    pub(super) hot: &'a Hot,
    pub(super) now: Time,
}

impl Search<'_> {
    /// See [`Shard::top`](crate::Shard::top).
    pub(super) fn top(&self, count: usize, from: usize, mut may_see: impl FnMut(&Bytes) -> bool) -> Top {
        let mut candidates = self.counted();
        let (looked_at, next) = self.look_through(from, &mut candidates);
        let before = candidates.len();
        candidates.retain(|candidate| may_see(&candidate.key));
        let hidden = before - candidates.len();
        // Among equals by key, so that nobody's place depends on a hash.
        candidates.sort_by(|a, b| (b.recent, b.waited_us, &a.key).cmp(&(a.recent, a.waited_us, &b.key)));
        let hot = candidates.len().min(count);
        candidates[hot..].sort_by(|a, b| (b.waited_us, &a.key).cmp(&(a.waited_us, &b.key)));
        let longest = candidates[hot..].iter().take_while(|candidate| candidate.waited_us > 0).count();
        candidates.truncate(hot + longest.min(count));
        let mut compared = 0;
        let records = candidates.into_iter().map(|it| self.describe(it, &mut compared)).collect();
        Top { records, known: self.records.len(), looked_at, next, hidden }
    }

    /// What the table of waits has, by record.
    fn counted(&self) -> Vec<Candidate> {
        let mut all: Vec<_> = self.hot.counted(self.now).collect();
        all.sort_by(|(a, waited), (b, other)| (&a.key, other.total).cmp(&(&b.key, waited.total)));
        let mut candidates: Vec<Candidate> = Vec::new();
        for (entry, waited) in all {
            if candidates.last().is_none_or(|last| last.key != entry.key) {
                let record = self.records.find(entry.hash, &entry.key);
                let (key, waited_us) = (entry.key.clone(), self.waited_us(record));
                candidates.push(Candidate { key, record, waits: SmallVec::new(), recent: 0, waited_us });
            }
            let last = candidates.last_mut().expect("just pushed");
            last.recent += waited.recent;
            last.waits.push(waited);
        }
        candidates
    }

    /// Adds records that somebody waits for. How many records were looked at, and the next place.
    fn look_through(&self, from: usize, candidates: &mut Vec<Candidate>) -> (usize, usize) {
        let places = self.records.places();
        let from = if from < places { from } else { 0 };
        let counted = candidates.len();
        let (mut looked_at, mut place) = (0, from);
        let end = places.min(from + PLACES_MAX);
        while place < end && candidates.len() < counted + FOUND_MAX {
            let record = place;
            place += 1;
            let Some(Record { key, lock, .. }) = self.records.get(record) else { continue };
            looked_at += 1;
            let is_waited_for = lock.as_ref().is_some_and(|lock| lock.is_waited_for());
            if !is_waited_for || key.len() > KEY_BYTES_MAX {
                continue;
            }
            // Those that are counted are sorted by key.
            if candidates[..counted].binary_search_by(|it| it.key.cmp(key)).is_err() {
                let (key, waited_us) = (key.clone(), self.waited_us(Some(record)));
                let waits = SmallVec::new();
                candidates.push(Candidate { key, record: Some(record), waits, recent: 0, waited_us });
            }
        }
        (looked_at, if place < places { place } else { 0 })
    }

    /// At least 1 where somebody waits.
    fn waited_us(&self, record: Option<RecordIx>) -> u64 {
        let lock = record.and_then(|record| self.records.lock(record));
        lock.map_or(0, |lock| lock.waited_us(self.now))
    }

    fn describe(&self, candidate: Candidate, compared: &mut usize) -> HotRecord {
        let Candidate { key, record, waits, .. } = candidate;
        debug_assert!(record.is_none_or(|record| self.records.find(key_hash(&key), &key) == Some(record)));
        let mut shown = HotRecord {
            key,
            waits: waits.into_vec(),
            kind: None,
            held: Vec::new(),
            wanted: Vec::new(),
            holders: 0,
            waiters: 0,
            joined: 0,
            waited_us: self.waited_us(record),
            in_line: 0,
            behind: Vec::new(),
        };
        if let Some(lock) = record.and_then(|record| self.records.lock(record)) {
            lock.show(&mut shown, compared);
        }
        shown
    }
}
