//! The phaser of one record: who waits for its lock, in which mode (P16 to P18).
//!
//! Each set of modes has one queue, eldest first, so that a release looks at a handful of heads, however many wait.
//! When a phase ends, the eldest waiter's modes begin the next one, and all waiters that want these modes and commute
//! are granted at once. A waiter that already holds the record (an upgrade) is kept apart and overtakes all. A
//! request that draws the same way as a waiter conflicts with it; otherwise a stream of small withdrawals would pass
//! a big one for ever.
//!
//! Invariants: a transaction waits at most once on one record; `wanted` is the sum of the footprints of the
//! queue's waiters; whoever waits for somebody younger than itself waits for a holder that has been told
//! (traps 10, 11); `told` spares looking at all holders for that.

use std::collections::BTreeMap;

use claret_types::{Claims, Held, TypeInfo};
use smallvec::SmallVec;

use crate::ids::{AttemptId, Birth, ShardId, Time};
use crate::message::Call;

/// Order of waiters: eldest first.
type Rank = (Birth, AttemptId);

/// Somebody who waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) call: Call,
    pub(crate) footprint: Claims,
    pub(crate) kind: &'static TypeInfo,
    /// It claims the record in order, not by a lock (P80).
    pub(crate) in_order: bool,
    /// As its owner's.
    pub(crate) follows_at: Option<ShardId>,
}

impl Waiter {
    /// Whether it may have to wait for somebody who holds `claims` of `kind`.
    pub(crate) fn conflicts(&self, kind: &TypeInfo, claims: &Claims) -> bool {
        self.kind.common_modes(kind).is_none_or(|modes| self.footprint.conflict_with(claims, modes))
            || self.footprint.draw.meets(claims.draw)
    }
}

/// The modes that the waiters of one queue want, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted(u16);

impl Wanted {
    fn by(footprint: &Claims) -> Self {
        Wanted(footprint.list.iter().fold(0, |bits, claim| bits | 1 << claim.mode.0))
    }
}

/// The waiters of one set of modes.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) kind: &'static TypeInfo,
    pub(crate) modes: Wanted,
    pub(crate) wanted: Held,
    pub(crate) waiters: BTreeMap<Rank, Waiter>,
}

/// All waiters of one record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phaser {
    pub(crate) upgrades: BTreeMap<Rank, Waiter>,
    pub(crate) queues: SmallVec<[Queue; 2]>,
    /// Joiners that this phase took in since somebody waits.
    pub(crate) joins: u32,
    /// Every younger holder knows of a waiter this old or older.
    pub(crate) told: Option<Birth>,
    /// Since when somebody waits for the end of this phase.
    pub(crate) waited_since: Option<Time>,
}

impl Phaser {
    pub(crate) fn is_empty(&self) -> bool {
        self.upgrades.is_empty() && self.queues.is_empty()
    }

    /// Whether nobody waits and nothing is left of those who did.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_empty() && self.joins == 0 && self.told.is_none() && self.waited_since.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.upgrades.len() + self.queues.iter().map(|queue| queue.waiters.len()).sum::<usize>()
    }

    /// Puts a waiter in the queue of its mode; `upgrade` for one that holds the record already.
    pub(crate) fn enqueue(&mut self, now: Time, place: Rank, waiter: Waiter, upgrade: bool) {
        self.waited_since.get_or_insert(now);
        if upgrade {
            self.upgrades.insert(place, waiter);
            return;
        }
        let modes = Wanted::by(&waiter.footprint);
        let at = self.queues.iter().position(|queue| queue.modes == modes && same(queue.kind, waiter.kind));
        let queue = match at {
            Some(at) => &mut self.queues[at],
            None => {
                let kind = waiter.kind;
                self.queues.push(Queue { kind, modes, wanted: Held::default(), waiters: BTreeMap::new() });
                self.queues.last_mut().expect("just pushed")
            }
        };
        queue.wanted.add(&waiter.footprint);
        queue.waiters.insert(place, waiter);
    }

    /// Takes a waiter out. Returns whether it was there.
    pub(crate) fn remove(&mut self, place: Rank) -> bool {
        // Holders that come from now on do not hear of this one.
        self.told = self.told.filter(|told| *told < place.0);
        if self.upgrades.remove(&place).is_some() {
            self.tidy();
            return true;
        }
        let found = self.queues.iter_mut().any(|queue| match queue.waiters.remove(&place) {
            Some(waiter) => {
                queue.wanted.remove(&waiter.footprint);
                true
            }
            None => false,
        });
        self.tidy();
        found
    }

    pub(crate) fn tidy(&mut self) {
        self.queues.retain(|queue| !queue.waiters.is_empty());
        if self.is_empty() {
            self.joins = 0;
            self.told = None;
            self.waited_since = None;
        }
    }

    /// The birth of the eldest waiter.
    pub(crate) fn eldest(&self) -> Option<Birth> {
        let heads = self.queues.iter().filter_map(|queue| queue.waiters.keys().next());
        heads.chain(self.upgrades.keys().next()).map(|(birth, _)| *birth).min()
    }

    /// The birth of the eldest waiter that `footprint` conflicts with, mode by mode: an upper bound on what
    /// really conflicts. `waits`: who asks is itself among the waiters, and not in its own way.
    pub(crate) fn eldest_conflicting(
        &self,
        kind: &TypeInfo,
        footprint: &Claims,
        waits: bool,
    ) -> Option<Birth> {
        let upgrades = self
            .upgrades
            .iter()
            .filter(|(_, waiter)| waiter.conflicts(kind, footprint))
            .map(|((birth, _), _)| *birth);
        let queues = self.queues.iter().filter(|queue| queue.conflicts(kind, footprint, waits));
        let heads = queues.filter_map(|queue| queue.waiters.keys().next().map(|(birth, _)| *birth));
        upgrades.chain(heads).min()
    }

    /// Whether the phase takes in no more joiners, because others have waited long enough for its end.
    pub(crate) fn is_capped(&self, now: Time, joins_max: u32, micros_max: u64) -> bool {
        self.joins >= joins_max || self.waited_since.is_some_and(|since| now.since(since) >= micros_max)
    }

    /// # Panics
    /// When what a queue wants is not the sum of what its waiters want.
    pub(crate) fn check_invariants(&self) {
        for queue in &self.queues {
            let mut sum = Held::default();
            queue.waiters.values().for_each(|waiter| sum.add(&waiter.footprint));
            assert!(sum == queue.wanted, "what is wanted does not add up: {sum:?} {:?}", queue.wanted);
        }
    }

    /// Everybody who waits, in no useful order.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (&Rank, &Waiter)> {
        self.upgrades.iter().chain(self.queues.iter().flat_map(|queue| queue.waiters.iter()))
    }
}

impl Queue {
    /// Whether anything in this queue conflicts with `footprint`, the asker's own place in it aside.
    fn conflicts(&self, kind: &TypeInfo, footprint: &Claims, waits: bool) -> bool {
        let Some(modes) = self.kind.common_modes(kind) else { return true };
        if waits && self.modes == Wanted::by(footprint) && same(self.kind, kind) {
            let own = std::iter::once(footprint);
            return self.waiters.len() > 1
                && (footprint.draw.meets(footprint.draw)
                    || !self.wanted.admits_modes(modes, footprint, own));
        }
        self.wanted.draws_beside(footprint.draw)
            || !self.wanted.admits_modes(modes, footprint, std::iter::empty())
    }
}

/// Whether two types are one.
pub(crate) fn same(a: &TypeInfo, b: &TypeInfo) -> bool {
    std::ptr::eq(a, b) || a.id == b.id
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use claret_types::{Set, TypeInfo};

    use super::same;

    /// Bug: types were told apart by their names. Consequence: a custom type with the name of another had its locks held
    /// against that one's table. Mend: by what they are.
    #[test]
    fn types_that_are_called_alike_are_not_the_same() {
        let set = TypeInfo::of::<Set>();
        let namesake = TypeInfo { id: TypeId::of::<()>(), ..*set };
        assert!(same(set, set) && same(set, &TypeInfo { ..*set }));
        assert!(!same(set, &namesake) && !same(&namesake, set));
    }
}
