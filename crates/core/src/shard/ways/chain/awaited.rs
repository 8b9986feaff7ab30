//! Who awaits whom (K16 to K18 of `docs/chains.md`): deposits whose tokens are here, and who follow others that are not decided.
//!
//! Invariant: whom an attempt awaits is awaited by it, and the other way round.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use smallvec::SmallVec;

use crate::ids::{AttemptId, SessionId};

pub(super) type Few = SmallVec<[AttemptId; 2]>;

/// So many are looked at for who is held up. With more, some stand until what they wait for is said again, or their leases are over.
const REACHED_MAX: usize = 64;

/// Deposits whose tokens are here, and that wait until those are decided whom they follow.
#[derive(Clone, Default)]
pub(super) struct Awaited {
    /// Whom each awaits.
    of: BTreeMap<AttemptId, Few>,
    /// Who awaits each.
    by: BTreeMap<AttemptId, Few>,
    /// They await nobody any more, and go on.
    free: VecDeque<AttemptId>,
}

impl Awaited {
    /// From now on it awaits these.
    pub(super) fn set(&mut self, attempt: AttemptId, awaited: &[AttemptId]) {
        self.forget(attempt);
        if !awaited.is_empty() {
            self.of.insert(attempt, awaited.into());
            awaited.iter().for_each(|it| self.by.entry(*it).or_default().push(attempt));
        }
    }

    /// It awaits nobody.
    pub(super) fn forget(&mut self, attempt: AttemptId) {
        for awaited in self.of.remove(&attempt).unwrap_or_default() {
            if let Some(waiting) = self.by.get_mut(&awaited) {
                waiting.retain(|it| *it != attempt);
                if waiting.is_empty() {
                    self.by.remove(&awaited);
                }
            }
        }
    }

    /// It is decided: nobody awaits it.
    pub(super) fn decide(&mut self, attempt: AttemptId) {
        for waiting in self.by.remove(&attempt).unwrap_or_default() {
            let Some(awaited) = self.of.get_mut(&waiting) else { continue };
            awaited.retain(|it| *it != attempt);
            if awaited.is_empty() {
                self.of.remove(&waiting);
                self.free.push_back(waiting);
            }
        }
    }

    /// Whether an attempt awaits others.
    pub(super) fn has(&self, attempt: AttemptId) -> bool {
        self.of.contains_key(&attempt)
    }

    /// Something is written of an attempt: nobody awaits it, and it awaits nobody.
    pub(super) fn end(&mut self, attempt: AttemptId) {
        if !self.of.is_empty() {
            self.forget(attempt);
            self.decide(attempt);
        }
    }

    /// One that awaits nobody any more.
    pub(super) fn pop_free(&mut self) -> Option<AttemptId> {
        self.free.pop_front()
    }

    /// Attempts of a session that somebody awaits. O(who is awaited).
    pub(super) fn awaited_of(&self, session: SessionId) -> Vec<AttemptId> {
        // Mostly none.
        self.by.keys().copied().filter(|it| it.tx.session == session).collect()
    }

    /// Whom an attempt awaits, and whom these await, as far as they are looked at.
    pub(super) fn before(&self, attempt: AttemptId) -> Vec<AttemptId> {
        self.reach(attempt, |awaited, it| awaited.of.get(&it))
    }

    /// Who awaits an attempt, and who awaits those, as far as they are looked at.
    pub(super) fn behind(&self, attempt: AttemptId) -> Vec<AttemptId> {
        self.reach(attempt, |awaited, it| awaited.by.get(&it))
    }

    /// All that are reached from one, without it. O(what is looked at), of which there is a bound.
    fn reach<'a>(
        &'a self,
        from: AttemptId,
        next: impl Fn(&'a Awaited, AttemptId) -> Option<&'a Few>,
    ) -> Vec<AttemptId> {
        let mut reached = vec![from];
        let mut at = 0;
        while at < reached.len() && reached.len() < REACHED_MAX {
            for it in next(self, reached[at]).into_iter().flatten() {
                if reached.len() < REACHED_MAX && !reached.contains(it) {
                    reached.push(*it);
                }
            }
            at += 1;
        }
        reached.swap_remove(0);
        reached
    }

    /// Who awaits others.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (AttemptId, &[AttemptId])> {
        self.of.iter().map(|(attempt, awaited)| (*attempt, &awaited[..]))
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self) {
        assert!(self.free.is_empty(), "a follower was not let go on");
        let counted: usize = self.by.values().map(SmallVec::len).sum();
        assert_eq!(self.of.values().map(SmallVec::len).sum::<usize>(), counted, "who awaits whom");
    }
}

/// For digests: who awaits each is whom each awaits.
impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.fmt(f)
    }
}
