//! The lock of one record: who holds it and what they claim, and who waits for it.
//!
//! A record is claimed by one of two disciplines, and one decision about a call stands above both: it is granted, it waits, or it
//! fails ([`Verdict`], in `lock/asking.rs`).
//!
//! - **Claims in phases**: a call is executed, and its claims commute with the sum of all others ([`Held`]) or it waits (P11 to P20).
//! - **The timestamp queue** ([`Line`]): a call claims its footprint and is executed later, in the order of timestamps (P73 to P77).
//!
//! Both have the same holders, so that a record is held by whoever claims it either way, and the same waiters ([`Phaser`]).
//!
//! Granting, checking and releasing cost the same for ten holders as for ten thousand, because claims are summed. Effects of a
//! holder are kept beside its claims and applied at release (deferred update).
//!
//! Invariants ([`Lock::check`]): the sum of the holders' claims is what `held` and the line say; claims of different holders do not
//! conflict, but where one stands behind the other (`order`); nobody waits for a lock that nobody holds; nobody waits twice.

mod admitting;
mod asking;
mod expiring;
mod holder;
mod instant;
mod leaving;
mod order;
mod replicating;
mod settling;
mod showing;
mod undoing;
pub(in crate::shard::lock_table) mod ways;

use std::collections::BTreeSet;
use std::fmt::Debug;

use claret_types::{Bytes, Held, State, TypeInfo};
use indexmap::IndexMap;

pub(super) use asking::Verdict;
pub(crate) use asking::{Answer, Answers, Stop};
pub(super) use holder::Holder;
pub(crate) use holder::Item;
pub(super) use instant::Instantly;
pub(crate) use ways::Pass;
pub(crate) use ways::ordered::line::Carried;
use ways::ordered::line::Line;
pub(super) use ways::ordered::locking::may_order;
pub(super) use ways::ordered::used::Used;
pub(super) use ways::ordered::used::used_by;

use super::Owner;
use crate::ids::{AttemptId, Birth};
use crate::planted::{Bug, is_planted};
use crate::shard::phaser::Phaser;
use ways::ordered::clocks::Clocks;

/// With room for more holders a lock is not kept for another record.
const SMALL_HOLDERS_MAX: usize = 64;

/// See the module's text. Only a record that somebody holds or waits for has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    /// The type whose modes are held: the first holder's that has modes of its own.
    kind: Option<&'static TypeInfo>,
    /// What is claimed in phases.
    held: Held,
    /// Those who claim it in order.
    line: Option<Box<Line>>,
    holders: IndexMap<AttemptId, Holder, foldhash::fast::FixedState>,
    /// Nobody who holds the record was born later.
    youngest: Option<Birth>,
    /// How many of its holders stand behind others.
    behind: usize,
    /// Somebody was found to claim more than a footprint says, for the record expires: see [`footprint`](super::footprint).
    expires: bool,
    /// The record vanished by itself: who holds it still has voted and comes before that, everybody else after (P36).
    vanished: bool,
    /// What it held, while somebody is still to be executed on that.
    before_it_vanished: Option<State>,
    phaser: Phaser,
}

impl Lock {
    /// What an attempt holds.
    #[inline]
    pub(super) fn holder(&self, attempt: AttemptId) -> Option<&Holder> {
        self.holders.get(&attempt)
    }

    /// Who holds it, in the order in which they came.
    pub(super) fn holders(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.holders.keys().copied()
    }

    /// Who waits for it, in no useful order.
    pub(super) fn waiters(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.phaser.waiters().map(|((_, attempt), _)| *attempt)
    }

    /// The type whose modes are held.
    pub(super) fn kind(&self) -> Option<&'static TypeInfo> {
        self.kind
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Whether nobody holds it and nobody waits for it.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.phaser.is_empty()
    }

    /// How many hold it or wait for it. O(1).
    pub(super) fn crowd(&self) -> usize {
        self.holders.len() + self.phaser.len()
    }

    /// The eldest waiter that a holder was told of.
    pub(super) fn told(&self, attempt: AttemptId) -> Option<Birth> {
        self.holders.get(&attempt)?.told
    }

    /// Whether who asks for more of the record is not to wait behind others: it holds some of it (P16).
    #[inline]
    fn passes_waiters(&self, owner: Owner) -> bool {
        self.holders.contains_key(&owner.attempt) && !is_planted(Bug::HoldersQueue)
    }

    /// Somebody holds it from now on, if it did not before.
    fn hold(&mut self, owner: Owner) -> &mut Holder {
        self.youngest = self.youngest.max(Some(owner.birth));
        self.holders.entry(owner.attempt).or_insert_with(|| Holder::new(owner.birth))
    }

    /// Nobody holds the record any more: whoever comes next is not bound by those who did, and is behind all of them if it vanished
    /// (P86).
    #[inline]
    fn reset(&mut self, clocks: &mut Clocks, hash: u64) {
        if self.vanished {
            clocks.seal(hash);
        }
        self.youngest = None;
        self.kind = None;
        // Planted, those who wait are kept out as if somebody was still there.
        self.vanished &= !self.phaser.is_empty() && is_planted(Bug::VanishedWakesNobody);
        self.expires = false;
        self.before_it_vanished = None;
    }

    /// Somebody is granted a call of this type. Until one of a type with modes of its own is, there are none.
    fn take_modes_of(&mut self, kind: &'static TypeInfo) {
        if self.kind.is_none_or(TypeInfo::is_of_any) {
            self.kind = Some(kind);
        }
    }

    /// Stops waiting.
    pub(super) fn cancel(&mut self, owner: Owner) {
        self.phaser.remove((owner.birth, owner.attempt));
    }

    // --- records that vanish ---

    #[inline]
    pub(super) fn has_vanished(&self) -> bool {
        self.vanished
    }

    /// Whether what the record holds has to be kept when it vanishes: for those who stand in line.
    pub(super) fn wants_copy(&self) -> bool {
        self.line.is_some() && !self.vanished
    }

    pub(super) fn keep_copy(&mut self, state: Option<State>) {
        self.before_it_vanished = state;
    }

    /// The record is gone: from now on nobody gets in until everybody who holds it now has left. Returns its waiters and then its
    /// holders.
    pub(super) fn vanish(&mut self) -> Vec<AttemptId> {
        self.vanished = true;
        let mut waiters: Vec<AttemptId> = self.waiters().collect();
        let mut holders: Vec<AttemptId> = self.holders().collect();
        waiters.sort_unstable();
        holders.sort_unstable();
        waiters.append(&mut holders);
        waiters
    }

    // --- keeping house ---

    /// Whether it is worth keeping for another record.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        self.holders.capacity() <= SMALL_HOLDERS_MAX
    }

    /// Whether the next record that takes this lock finds nothing of the last one in it.
    pub(super) fn is_blank(&self) -> bool {
        self.kind.is_none()
            && self.held.is_empty()
            && self.holders.is_empty()
            && self.youngest.is_none()
            && !self.vanished
            && !self.expires
            && self.line.is_none()
            && self.before_it_vanished.is_none()
            && self.behind == 0
            && self.phaser.is_quiet()
    }

    /// All of it, in order: for digests. The sums of claims are left out: [`Self::check`] compares them with what they sum.
    pub(super) fn content(&self) -> impl Debug + use<'_> {
        let Lock {
            kind,
            held: _,
            line,
            holders,
            youngest,
            behind: _, // As the holders have them.
            expires,
            vanished,
            before_it_vanished,
            phaser,
        } = self;
        let mut holders: Vec<_> = holders.iter().collect();
        holders.sort_unstable_by_key(|(attempt, _)| **attempt);
        let line = line.as_ref().map(|line| line.content());
        let kind = kind.map(|kind| kind.name);
        (kind, line, holders, youngest, expires, vanished, before_it_vanished, phaser.content())
    }

    /// See the module's text. O(holders squared).
    ///
    /// # Panics
    /// When one does not hold.
    pub(super) fn check(&self, key: &Bytes) {
        assert!(self.is_held() || self.phaser.is_empty(), "'{key}' is idle and somebody waits for it");
        assert!(self.is_held() || self.kind.is_none());
        let (mut sum, mut in_order) = (Held::default(), Held::default());
        for holder in self.holders.values() {
            let sum = if holder.is_in_order() { &mut in_order } else { &mut sum };
            holder.claims().for_each(|claims| sum.add(claims));
            holder.check();
        }
        self.check_order(key);
        assert!(sum == self.held, "'{key}': the claims do not add up: {sum:?} {:?}", self.held);
        self.check_line(key, &in_order);
        self.phaser.check();
        let Some(kind) = self.kind else { return };
        for (i, (first, a)) in self.holders.iter().enumerate() {
            for (second, b) in self.holders.iter().skip(i + 1) {
                if a.is_in_order() && b.is_in_order() || a.is_behind(*second) || b.is_behind(*first) {
                    continue;
                }
                let conflict = a.claims().any(|a| b.claims().any(|b| a.conflict_with(b, &kind.modes)));
                assert!(!conflict, "'{key}': holders conflict: {a:?} and {b:?}");
            }
        }
        let mut seen = BTreeSet::new();
        for attempt in self.waiters() {
            assert!(seen.insert(attempt), "'{key}': {attempt} waits twice");
        }
    }
}
