//! What an optimistic transaction undoes, and what it settles (`docs/nesting.md`).

use std::collections::BTreeSet;
use std::ops::Range;

use claret_types::{Bytes, Operation};
use smallvec::SmallVec;

use super::{Entry, FIRST, Observations, Place};
use crate::ids::CallNo;
use crate::planted::{Bug, is_planted};

impl Observations {
    /// Where the next call is going to stand: for [`Self::undo`].
    pub fn here(&self) -> Place {
        self.next_place
    }

    /// The places of [`Self::to_commit`]. O(calls).
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.log.iter().map(|entry| entry.place)
    }

    /// Undoes the calls from this place on. What was seen is checked all the same, with what was done before on its record; the
    /// rest goes (N6). The looks for which nobody waits any more. O(calls of the attempt).
    pub fn undo(&mut self, from: Place) -> Vec<CallNo> {
        let to = self.next_place;
        let mut seen_later: BTreeSet<Bytes> = BTreeSet::new();
        let mut abandoned = Vec::new();
        let mut kept: Vec<Entry> = Vec::with_capacity(self.log.len());
        for mut entry in std::mem::take(&mut self.log).into_iter().rev() {
            if entry.place >= from {
                abandoned.extend(entry.awaits.take());
                // What was seen is checked though it is undone (N6).
                if entry.op.is_seen() && !is_planted(Bug::SeenUndoneUnchecked) {
                    seen_later.insert(entry.key.clone());
                }
                if !seen_later.contains(&entry.key) {
                    continue;
                }
                entry.undone_at.get_or_insert(to);
            }
            kept.push(entry);
        }
        self.by_key.clear();
        kept.into_iter().rev().for_each(|entry| self.push(entry));
        let is_any = self.log.iter().any(|entry| entry.place >= from);
        // What is checked and undone is not carried out (N6).
        if is_any && from < to && !is_planted(Bug::CheckedUndoneApplied) {
            self.undone.push((from, to));
        }
        abandoned
    }

    /// How many ranges of calls are undone and checked.
    pub fn ranges_undone(&self) -> usize {
        self.undone.len()
    }

    /// Whether a record cannot be locked from here on: what was done there is undone, or was done before this place, behind which
    /// all may be undone. Then the next attempt locks it at its first touch (N7).
    pub fn is_to_lock_from_start(&mut self, key: &Bytes, innermost: Option<Place>) -> bool {
        let is_before = |entry: &Entry| innermost.is_some_and(|innermost| entry.place < innermost);
        let is_so = self.of(key).any(|entry| entry.is_undone() || is_before(entry));
        if is_so {
            self.beside.insert(key.clone());
        }
        is_so
    }

    /// Whether a call that answers nothing is to be kept with the locked ones: its record is locked, and nothing was done there
    /// without a lock.
    pub fn is_locked_alone(&self, key: &Bytes) -> bool {
        self.locks(key) && self.of(key).len() == 0
    }

    /// Looks at each record on which the last call answers nothing, to see whether it can be done (N8).
    pub fn settle(&mut self) -> Vec<(CallNo, Bytes, SmallVec<[Operation; 1]>)> {
        let is_last = |at: &usize| {
            let places = self.by_key.get(&self.log[*at].key);
            places.and_then(|places| places.last()) == Some(at)
        };
        let last: Vec<usize> = (0..self.log.len()).filter(is_last).collect();
        let mut looks = Vec::new();
        for at in last {
            let entry = &mut self.log[at];
            if entry.op.returns() || entry.is_undone() || entry.awaits.is_some() {
                continue;
            }
            let no = CallNo(FIRST + self.next);
            self.next = (self.next + 1) % FIRST;
            entry.awaits = Some(no);
            let key = entry.key.clone();
            let ops = self.ops_of(&key);
            looks.push((no, key, ops));
        }
        looks
    }

    /// Of [`Self::to_commit`], by their places there, the ranges of calls that are executed and not carried out.
    pub fn undone_in_commit(&self) -> Vec<Range<u32>> {
        self.ranges(self.log.iter())
    }

    /// The same of [`Self::to_check`].
    pub fn undone_in_check(&self) -> Vec<Range<u32>> {
        self.ranges(self.checked().into_iter())
    }

    fn ranges<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Vec<Range<u32>> {
        let places: Vec<Place> = entries.map(|entry| entry.place).collect();
        let at = |place: Place| places.partition_point(|known| *known < place) as u32;
        let ranges = self.undone.iter().map(|(from, to)| at(*from)..at(*to));
        ranges.filter(|range| !range.is_empty()).collect()
    }
}
