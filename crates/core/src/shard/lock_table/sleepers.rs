//! Calls that sleep until their record has something for them (P91). They hold nothing and are in nobody's way.
//!
//! A record is *stirred* when it changes or somebody who held it leaves. Then the eldest sleeper of each type is woken: it asks for
//! its lock like a call that has just come, and sleeps again if there is still nothing. Who got the lock stirs the record again when
//! it leaves. So whatever comes to a record wakes one, and not all of those who sleep there.
//!
//! Invariant ([`Sleepers::check`]): only records on which somebody sleeps are stirred.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use claret_types::{Bytes, TypeInfo};
use smallvec::SmallVec;

use crate::ids::AttemptId;
use crate::planted::{Bug, is_planted};
use crate::shard::phaser::{Rank, same};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sleepers {
    by_key: BTreeMap<Bytes, SmallVec<[Line; 1]>>,
    stirred: BTreeSet<Bytes>,
}

/// Those of one type on a record, eldest first.
#[derive(Clone, Debug)]
struct Line {
    kind: &'static TypeInfo,
    sleepers: BTreeSet<Rank>,
}

impl Sleepers {
    /// A call sleeps on a record. Whether it is the first one there.
    pub(crate) fn add(&mut self, key: &Bytes, kind: &'static TypeInfo, place: Rank) -> bool {
        let lines = self.by_key.entry(key.clone()).or_default();
        let is_first = lines.is_empty();
        let at = lines.iter().position(|line| same(line.kind, kind)).unwrap_or_else(|| {
            lines.push(Line { kind, sleepers: BTreeSet::new() });
            lines.len() - 1
        });
        lines[at].sleepers.insert(place);
        is_first
    }

    /// It sleeps no more: it is woken, or ends. Whether it was the last one there.
    pub(crate) fn remove(&mut self, key: &Bytes, place: Rank) -> bool {
        let Some(lines) = self.by_key.get_mut(key) else { return false };
        lines.retain(|line| {
            line.sleepers.remove(&place);
            !line.sleepers.is_empty()
        });
        let is_last = lines.is_empty();
        if is_last {
            self.by_key.remove(key);
            self.stirred.remove(key);
        }
        is_last
    }

    /// The record changed, or somebody left it. O(1) where nobody sleeps at all, otherwise O(log of the records where somebody does).
    #[inline]
    pub(crate) fn stir(&mut self, key: &[u8]) {
        if !self.by_key.is_empty() {
            self.stir_awaited(key);
        }
    }

    fn stir_awaited(&mut self, key: &[u8]) {
        if let Some((key, _)) = self.by_key.get_key_value(key).filter(|_| !is_planted(Bug::SleepersForgotten))
        {
            self.stirred.insert(key.clone());
        }
    }

    #[inline]
    pub(crate) fn has_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// The next record whose sleepers are to be woken.
    pub(crate) fn poll_stirred(&mut self) -> Option<Bytes> {
        self.stirred.pop_first()
    }

    /// The eldest of each type.
    pub(crate) fn eldest(&self, key: &Bytes) -> SmallVec<[AttemptId; 2]> {
        let lines = self.by_key.get(key).into_iter().flatten();
        let most = if is_planted(Bug::AllSleepersWoken) { usize::MAX } else { 1 };
        let next = |line: &Line| match is_planted(Bug::YoungestSleeperFirst) {
            true => line.sleepers.iter().rev().take(most).copied().collect::<SmallVec<[Rank; 1]>>(),
            false => line.sleepers.iter().take(most).copied().collect(),
        };
        lines.flat_map(next).map(|(_, attempt)| attempt).collect()
    }

    /// All are gone. On which records they slept.
    pub(crate) fn forget(&mut self) -> Vec<Bytes> {
        self.stirred.clear();
        std::mem::take(&mut self.by_key).into_keys().collect()
    }

    /// How many sleep.
    pub(crate) fn len(&self) -> usize {
        self.by_key.values().flatten().map(|line| line.sleepers.len()).sum()
    }

    /// For digests.
    pub(super) fn content(&self) -> impl Debug + '_ {
        let of = |lines: &SmallVec<[Line; 1]>| -> BTreeSet<Rank> {
            lines.iter().flat_map(|line| line.sleepers.iter().copied()).collect()
        };
        (self.by_key.iter().map(|(key, lines)| (key, of(lines))).collect::<Vec<_>>(), &self.stirred)
    }

    /// `sleeps`: whether an attempt sleeps on a record, as far as it knows.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub(crate) fn check(&self, sleeps: impl Fn(&Bytes, AttemptId) -> bool) {
        assert!(self.stirred.iter().all(|key| self.by_key.contains_key(key)), "stirred for nobody");
        for (key, lines) in &self.by_key {
            assert!(!lines.is_empty() && lines.iter().all(|line| !line.sleepers.is_empty()));
            for (_, attempt) in lines.iter().flat_map(|line| &line.sleepers) {
                assert!(sleeps(key, *attempt), "{attempt} sleeps on '{key}' and does not know it");
            }
        }
    }
}
