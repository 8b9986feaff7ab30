//! The hot records of a lock table: see `shard/top.rs`. Every loop here has a bound that no user moves.

use claret_types::{Bytes, Claims, Held, TypeInfo};
use smallvec::SmallVec;

use super::hot::KEY_BYTES_MAX;
use super::{AttemptId, Birth, Lock, LockTable, Record, RecordIx, Time, Waited};
use crate::shard::key_hash;
use crate::shard::phaser::Waiter;
use crate::shard::top::{Behind, Counted, HotRecord, Top};

/// So many places of the table are looked through at a time.
const PLACES_MAX: usize = 2048;
/// So many of the records that were found there are considered.
const FOUND_MAX: usize = 256;
/// Of a record so many are shown who wait; so many queues are looked into for the eldest.
const BEHIND_MAX: usize = 8;
const QUEUES_MAX: usize = 16;
/// So many holders are compared with somebody who waits, so many claims of each, and so many in all.
const HOLDERS_MAX: usize = 32;
const ITEMS_MAX: usize = 8;
const COMPARED_MAX: usize = 65_536;
/// Larger claims are not compared: they are taken to conflict.
const CLAIMS_MAX: usize = 64;

/// A record that may be shown.
struct Candidate {
    key: Bytes,
    record: Option<RecordIx>,
    waits: SmallVec<[Waited; 2]>,
    recent: u64,
    waited_us: u64,
}

impl LockTable {
    /// See [`Shard::top`](crate::Shard::top).
    pub(crate) fn top(
        &self,
        now: Time,
        count: usize,
        from: usize,
        mut may_see: impl FnMut(&Bytes) -> bool,
    ) -> Top {
        let mut candidates = self.counted(now);
        let (looked_at, next) = self.look_through(now, from, &mut candidates);
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
        let records = candidates.into_iter().map(|it| self.describe(now, it, &mut compared)).collect();
        Top { records, known: self.records.len(), looked_at, next, hidden }
    }

    /// What the table of waits has, by record.
    fn counted(&self, now: Time) -> Vec<Candidate> {
        let mut all: Vec<_> = self.hot.counted(now).collect();
        all.sort_by(|(a, waited), (b, other)| (&a.key, other.total).cmp(&(&b.key, waited.total)));
        let mut candidates: Vec<Candidate> = Vec::new();
        for (entry, waited) in all {
            if candidates.last().is_none_or(|last| last.key != entry.key) {
                let record = self.find(entry.hash, &entry.key);
                let (key, waited_us) = (entry.key.clone(), self.waited_us(now, record));
                candidates.push(Candidate { key, record, waits: SmallVec::new(), recent: 0, waited_us });
            }
            let last = candidates.last_mut().expect("just pushed");
            last.recent += waited.recent;
            last.waits.push(waited);
        }
        candidates
    }

    /// Adds records that somebody waits for. How many records were looked at, and the next place.
    fn look_through(&self, now: Time, from: usize, candidates: &mut Vec<Candidate>) -> (usize, usize) {
        let places = self.records.capacity();
        let from = if from < places { from } else { 0 };
        let counted = candidates.len();
        let (mut looked_at, mut place) = (0, from);
        let end = places.min(from + PLACES_MAX);
        while place < end && candidates.len() < counted + FOUND_MAX {
            let record = place;
            place += 1;
            let Some(Record { key, lock, .. }) = self.records.get(record) else { continue };
            looked_at += 1;
            let is_waited_for = lock.as_ref().is_some_and(|lock| !lock.phaser.is_empty());
            if !is_waited_for || key.len() > KEY_BYTES_MAX {
                continue;
            }
            // Those that are counted are sorted by key.
            if candidates[..counted].binary_search_by(|it| it.key.cmp(key)).is_err() {
                let (key, waited_us) = (key.clone(), self.waited_us(now, Some(record)));
                let waits = SmallVec::new();
                candidates.push(Candidate { key, record: Some(record), waits, recent: 0, waited_us });
            }
        }
        (looked_at, if place < places { place } else { 0 })
    }

    fn lock(&self, record: Option<RecordIx>) -> Option<&Lock> {
        self.records.get(record?)?.lock.as_deref()
    }

    /// At least 1 where somebody waits.
    fn waited_us(&self, now: Time, record: Option<RecordIx>) -> u64 {
        let since = self.lock(record).and_then(|lock| lock.phaser.waited_since);
        since.map_or(0, |since| now.since(since).max(1))
    }

    fn describe(&self, now: Time, candidate: Candidate, compared: &mut usize) -> HotRecord {
        let Candidate { key, record, waits, .. } = candidate;
        debug_assert!(record.is_none_or(|record| self.find(key_hash(&key), &key) == Some(record)));
        let mut shown = HotRecord {
            key,
            waits: waits.into_vec(),
            kind: None,
            held: Vec::new(),
            wanted: Vec::new(),
            holders: 0,
            waiters: 0,
            joined: 0,
            waited_us: self.waited_us(now, record),
            in_line: 0,
            behind: Vec::new(),
        };
        let Some(lock) = self.lock(record) else { return shown };
        shown.kind = lock.kind.map(|kind| kind.name);
        if let Some(kind) = lock.kind {
            add_held(&mut shown.held, kind, &lock.held);
            lock.line.iter().for_each(|line| add_held(&mut shown.held, kind, &line.claimed));
        }
        for queue in lock.phaser.queues.iter().take(QUEUES_MAX) {
            add_held(&mut shown.wanted, queue.kind, &queue.wanted);
        }
        for waiter in lock.phaser.upgrades.values().take(QUEUES_MAX) {
            for claim in waiter.footprint.list.iter().take(CLAIMS_MAX) {
                add(&mut shown.wanted, waiter.kind.modes.name_of(claim.mode), 1);
            }
        }
        shown.holders = lock.holders.len();
        shown.waiters = lock.phaser.len();
        shown.joined = lock.phaser.joins;
        shown.in_line = lock.line.as_ref().map_or(0, |line| line.len());
        shown.behind = behind(lock, compared);
        shown
    }
}

fn add_held(counts: &mut Vec<Counted>, kind: &TypeInfo, held: &Held) {
    for (mode, claims) in held.counts() {
        add(counts, kind.modes.name_of(mode), claims.into());
    }
}

fn add(counts: &mut Vec<Counted>, mode: &'static str, claims: u64) {
    match counts.iter_mut().find(|counted| counted.mode == mode) {
        Some(counted) => counted.claims += claims,
        None => counts.push(Counted { mode, claims }),
    }
}

/// The eldest who wait, each with one who is in its way.
fn behind(lock: &Lock, compared: &mut usize) -> Vec<Behind> {
    let queues = lock.phaser.queues.iter().take(QUEUES_MAX);
    let heads = queues.flat_map(|queue| queue.waiters.iter().take(BEHIND_MAX));
    let mut eldest: Vec<(&(Birth, AttemptId), &Waiter)> =
        lock.phaser.upgrades.iter().take(BEHIND_MAX).chain(heads).collect();
    eldest.sort_by_key(|(place, _)| **place);
    let one = |((_, waiter), it): (&(Birth, AttemptId), &Waiter)| Behind {
        waiter: *waiter,
        method: it.call.op.method().name,
        holder: in_the_way(lock, *waiter, it, compared),
    };
    eldest.into_iter().take(BEHIND_MAX).map(one).collect()
}

/// Somebody who holds what this one waits for.
fn in_the_way(lock: &Lock, own: AttemptId, waiter: &Waiter, compared: &mut usize) -> Option<AttemptId> {
    let kind = lock.kind.unwrap_or(waiter.kind);
    let others = lock.holders.iter().filter(|(attempt, _)| **attempt != own).take(HOLDERS_MAX);
    for (attempt, holder) in others {
        for claims in holder.claims().take(ITEMS_MAX) {
            *compared += 1;
            if *compared > COMPARED_MAX {
                return None;
            }
            let is_large = |claims: &Claims| claims.list.len() > CLAIMS_MAX;
            if is_large(&waiter.footprint) || is_large(claims) || waiter.conflicts(kind, claims) {
                return Some(*attempt);
            }
        }
    }
    None
}
