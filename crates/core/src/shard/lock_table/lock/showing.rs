//! A lock as people see it: who holds it, who waits, and who is in whose way. Every loop for the hot records has a bound that no user
//! moves.

use claret_types::{Bytes, Claims, Held, TypeInfo};

use super::Lock;
use crate::ids::{AttemptId, Time};
use crate::shard::phaser::{Rank, Waiter};
use crate::shard::picture::Wait;
use crate::shard::top::{Behind, Counted, HotRecord};

/// Of a record so many are shown who wait; so many queues are looked into for the eldest.
const BEHIND_MAX: usize = 8;
const QUEUES_MAX: usize = 16;
/// So many holders are compared with somebody who waits, so many claims of each, and so many in all.
const HOLDERS_MAX: usize = 32;
const ITEMS_MAX: usize = 8;
const COMPARED_MAX: usize = 65_536;
/// Larger claims are not compared: they are taken to conflict.
const CLAIMS_MAX: usize = 64;

impl Lock {
    /// Who holds it and who waits.
    pub(in super::super) fn waits(&self, key: &Bytes) -> Wait {
        Wait { key: key.clone(), holders: self.holders().collect(), waiters: self.waiters().collect() }
    }

    /// Who is in the way of an attempt that waits, in order; `None`: it does not wait. O(holders and waiters).
    pub(in super::super) fn waits_behind(&self, attempt: AttemptId) -> Option<Vec<AttemptId>> {
        let (_, waiter) = self.phaser.waiters().find(|((_, waiting), _)| *waiting == attempt)?;
        let kind = self.kind.unwrap_or(waiter.kind);
        let others = self.holders.iter().filter(|(holding, _)| **holding != attempt);
        let conflict = others.filter(|(_, holder)| holder.claims().any(|it| waiter.conflicts(kind, it)));
        let mut behind: Vec<AttemptId> = conflict.map(|(holding, _)| *holding).collect();
        behind.sort_unstable();
        Some(behind)
    }

    pub(in super::super) fn is_waited_for(&self) -> bool {
        !self.phaser.is_empty()
    }

    /// How long somebody waits for the end of this phase: at least 1 where anybody does.
    pub(in super::super) fn waited_us(&self, now: Time) -> u64 {
        self.phaser.waited_since().map_or(0, |since| now.since(since).max(1))
    }

    /// Shows what is held and wanted, and who waits. `compared`: claims that were compared for all records that are shown.
    pub(in super::super) fn show(&self, shown: &mut HotRecord, compared: &mut usize) {
        shown.kind = self.kind.map(|kind| kind.name);
        if let Some(kind) = self.kind {
            add_held(&mut shown.held, kind, &self.held);
            self.line.iter().for_each(|line| add_held(&mut shown.held, kind, line.claimed()));
        }
        for (kind, wanted, _) in self.phaser.queues().take(QUEUES_MAX) {
            add_held(&mut shown.wanted, kind, wanted);
        }
        for (_, waiter) in self.phaser.upgrades().take(QUEUES_MAX) {
            for claim in waiter.footprint.list.iter().take(CLAIMS_MAX) {
                add(&mut shown.wanted, waiter.kind.modes.name_of(claim.mode), 1);
            }
        }
        shown.holders = self.holders.len();
        shown.waiters = self.phaser.len();
        shown.joined = self.phaser.joined();
        shown.in_line = self.line.as_ref().map_or(0, |line| line.len());
        shown.behind = self.behind(compared);
    }

    /// The eldest who wait, each with one who is in its way.
    fn behind(&self, compared: &mut usize) -> Vec<Behind> {
        let queues = self.phaser.queues().take(QUEUES_MAX);
        let heads = queues.flat_map(|(_, _, waiters)| waiters.take(BEHIND_MAX));
        let mut eldest: Vec<(&Rank, &Waiter)> =
            self.phaser.upgrades().take(BEHIND_MAX).chain(heads).collect();
        eldest.sort_by_key(|(place, _)| **place);
        let one = |((_, waiter), it): (&Rank, &Waiter)| Behind {
            waiter: *waiter,
            method: it.call.op.method().name,
            holder: self.in_the_way(*waiter, it, compared),
        };
        eldest.into_iter().take(BEHIND_MAX).map(one).collect()
    }

    /// Somebody who holds what this one waits for.
    fn in_the_way(&self, own: AttemptId, waiter: &Waiter, compared: &mut usize) -> Option<AttemptId> {
        let kind = self.kind.unwrap_or(waiter.kind);
        let others = self.holders.iter().filter(|(attempt, _)| **attempt != own).take(HOLDERS_MAX);
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
