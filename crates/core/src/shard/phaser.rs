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

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Debug;

use claret_types::{Claims, Held, TypeInfo};
use smallvec::SmallVec;

use super::lock_table::Pass;
use crate::ids::{AttemptId, Birth, Time};
use crate::message::Call;
use crate::planted::{Bug, is_planted};

/// Order of waiters: eldest first.
pub(crate) type Rank = (Birth, AttemptId);

/// A queue, by the type and the modes of what its waiters want.
pub(crate) type QueueId = (TypeId, Wanted);

/// Somebody who waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) call: Call,
    pub(crate) footprint: Claims,
    pub(crate) kind: &'static TypeInfo,
    /// It claims the record in order, not by a lock (P80).
    pub(crate) in_order: bool,
    /// Its owner's.
    pub(crate) pass: Pass,
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
struct Queue {
    kind: &'static TypeInfo,
    modes: Wanted,
    /// The sum of what its waiters want.
    wanted: Held,
    waiters: BTreeMap<Rank, Waiter>,
}

/// All waiters of one record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phaser {
    upgrades: BTreeMap<Rank, Waiter>,
    queues: SmallVec<[Queue; 2]>,
    /// Joiners that this phase took in since somebody waits.
    joins: u32,
    /// Every younger holder knows of a waiter this old or older.
    told: Option<Birth>,
    /// Since when somebody waits for the end of this phase.
    waited_since: Option<Time>,
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

    // --- phases ---

    /// Takes a joiner into the phase, unless others have waited long enough for its end. Whether it did.
    pub(crate) fn join(&mut self, now: Time, joins_max: u32, micros_max: u64) -> bool {
        let is_capped =
            self.joins >= joins_max || self.waited_since.is_some_and(|since| now.since(since) >= micros_max);
        let joins = !is_capped || is_planted(Bug::NeverCapped);
        self.joins += u32::from(joins);
        joins
    }

    /// The next phase begins: with the modes of the eldest waiter.
    pub(crate) fn begin_phase(&mut self, now: Time) {
        self.joins = 0;
        self.waited_since = Some(now);
        self.tidy();
    }

    /// Every younger holder is going to know of this waiter. Whether they did not know of it or an elder one.
    pub(crate) fn tell(&mut self, elder: Birth) -> bool {
        if self.told.is_some_and(|told| told <= elder) {
            return false;
        }
        self.told = Some(elder);
        true
    }

    /// Of the queues not tried yet, the one with the eldest head.
    pub(crate) fn next_queue(&self, tried: &[QueueId]) -> Option<QueueId> {
        let open = self.queues.iter().filter(|queue| !tried.contains(&queue.id()));
        open.filter_map(|queue| Some((queue.waiters.keys().next()?, queue.id())))
            .min_by_key(|(place, _)| **place)
            .map(|(_, queue)| queue)
    }

    /// Who comes next in a queue, eldest first.
    pub(crate) fn next_in(&self, queue: QueueId, after: Option<Rank>) -> Option<(&Rank, &Waiter)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let queue = self.queues.iter().find(|it| it.id() == queue)?;
        queue.waiters.range((after.map_or(Unbounded, Excluded), Unbounded)).next()
    }

    // --- looking ---

    /// Those who hold the record already and wait for more of it, eldest first.
    pub(crate) fn upgrades(&self) -> impl Iterator<Item = (&Rank, &Waiter)> {
        self.upgrades.iter()
    }

    /// The waiters of each queue, eldest first, with their type and the sum of what they want.
    pub(crate) fn queues(
        &self,
    ) -> impl Iterator<Item = (&'static TypeInfo, &Held, impl Iterator<Item = (&Rank, &Waiter)>)> {
        self.queues.iter().map(|queue| (queue.kind, &queue.wanted, queue.waiters.iter()))
    }

    pub(crate) fn waiter(&self, place: Rank, upgrade: bool) -> Option<&Waiter> {
        match upgrade {
            true => self.upgrades.get(&place),
            false => self.queues.iter().find_map(|queue| queue.waiters.get(&place)),
        }
    }

    /// Joiners that this phase took in since somebody waits.
    pub(crate) fn joined(&self) -> u32 {
        self.joins
    }

    pub(crate) fn waited_since(&self) -> Option<Time> {
        self.waited_since
    }

    /// All of it, in order: for digests. Sums are left out: [`Self::check`] compares them with what they sum.
    pub(crate) fn content(&self) -> impl Debug + use<'_> {
        let Phaser { upgrades, queues, joins, told, waited_since } = self;
        let mut waiters: Vec<_> = Vec::new();
        for queue in queues {
            let name = queue.kind.name;
            waiters.extend(queue.waiters.iter().map(|(place, it)| (place, name, Some(queue.modes), it)));
        }
        waiters.extend(upgrades.iter().map(|(place, it)| (place, it.kind.name, None, it)));
        waiters.sort_unstable_by_key(|(place, ..)| **place);
        let waiters: Vec<_> = waiters
            .into_iter()
            .map(|(place, kind, modes, it)| (place, kind, modes, it.kind.name, &it.call, &it.footprint))
            .collect();
        (waiters, joins, told, waited_since)
    }

    /// # Panics
    /// When what a queue wants is not the sum of what its waiters want.
    pub(crate) fn check(&self) {
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
    fn id(&self) -> QueueId {
        (self.kind.id, self.modes)
    }

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
