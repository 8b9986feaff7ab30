//! Followers (K16 to K18 of `docs/chains.md`): an attempt whose baton went on though others come before it on its records, and its
//! baton where it arrives.
//!
//! Invariants: who awaits others is deposited, and its baton is here; nobody awaits what is decided here.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use super::lock_table::FOLLOWED_MAX;
use super::participant::Stage;
use super::{AttemptId, Owner, Response, SessionId, Shard, Time};
use crate::planted::{Bug, is_planted};

type Few = SmallVec<[AttemptId; 2]>;

/// A prepare of more records follows nobody.
const RECORDS_MAX: usize = 128;

/// A baton that names more is as if it was lost: on each record a call follows a few.
pub(super) const NAMED_MAX: usize = RECORDS_MAX * FOLLOWED_MAX;

/// So many are looked at for who is held up. With more, some stand until what they wait for is said again, or their leases are over.
const REACHED_MAX: usize = 64;

/// Deposits whose batons are here, and that wait until those are decided whom they follow.
#[derive(Clone, Debug, Default)]
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
    fn set(&mut self, attempt: AttemptId, awaited: &[AttemptId]) {
        self.forget(attempt);
        if !awaited.is_empty() {
            self.of.insert(attempt, awaited.into());
            awaited.iter().for_each(|it| self.by.entry(*it).or_default().push(attempt));
        }
    }

    /// It awaits nobody.
    fn forget(&mut self, attempt: AttemptId) {
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
    fn decide(&mut self, attempt: AttemptId) {
        for waiting in self.by.remove(&attempt).unwrap_or_default() {
            let Some(awaited) = self.of.get_mut(&waiting) else { continue };
            awaited.retain(|it| *it != attempt);
            if awaited.is_empty() {
                self.of.remove(&waiting);
                self.free.push_back(waiting);
            }
        }
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

    /// Whom each awaits.
    pub(super) fn all(&self) -> &BTreeMap<AttemptId, impl std::fmt::Debug + use<>> {
        &self.of
    }
}

impl Shard {
    /// A prepare has come: right before the last one of a chain it may follow others whom that decides (K16).
    pub(super) fn let_follow(&mut self, attempt: AttemptId, records: usize) -> Owner {
        let participant = self.participant(attempt);
        let chained = participant.chained().filter(|it| it.is_last_but_one() && records <= RECORDS_MAX);
        participant.owner.follows_at = chained.map(|chained| chained.last);
        participant.owner
    }

    /// A baton is here that says whom its attempt follows: whether it goes on at once. Otherwise it awaits them.
    pub(super) fn is_unled(&mut self, attempt: AttemptId, follows: &[AttemptId]) -> bool {
        let is_open = |it: &AttemptId| !self.is_over(*it) && *it != attempt;
        let mut open: Few = follows.iter().copied().filter(is_open).collect();
        if is_planted(Bug::FollowsOne) {
            open.truncate(1);
        }
        self.awaited.set(attempt, &open);
        if !open.is_empty() {
            self.note_held_up(attempt);
        }
        open.is_empty()
    }

    /// Whether a deposit's baton is here, and it awaits others.
    pub(super) fn awaits(&self, attempt: AttemptId) -> bool {
        self.awaited.of.contains_key(&attempt)
    }

    /// Something is written of an attempt: nobody awaits it, and it awaits nobody.
    pub(super) fn decide_for_followers(&mut self, attempt: AttemptId) {
        if !self.awaited.of.is_empty() {
            self.awaited.forget(attempt);
            self.awaited.decide(attempt);
        }
    }

    /// Goes on with one that followed others, as these are decided now. Whether there was one.
    pub(super) fn let_follower_go_on(&mut self, now: Time) -> bool {
        if let Some(attempt) = self.awaited.free.pop_front() {
            self.go_on_with_baton(now, attempt);
            return true;
        }
        let Some(attempt) = self.table.outbox().poll_unled() else { return false };
        let chained = self.attempts.get(&attempt).and_then(|it| it.chained());
        if chained.is_some_and(|chained| chained.is_committed) {
            self.apply(now, attempt);
        }
        true
    }

    /// It is committed, and comes after others that are not decided here: it is carried out once they are (K18). Asks about these.
    pub(super) fn holds_back(&mut self, now: Time, attempt: AttemptId) -> bool {
        let participant = self.participant(attempt);
        if !matches!(&participant.stage, Stage::Prepared { round, .. } if round.chained.is_some()) {
            return false; // Mostly.
        }
        let held = participant.held.clone();
        let followed = self.table.followed(&held, attempt);
        if followed.is_empty() || is_planted(Bug::FollowerFirst) {
            return false;
        }
        let Stage::Prepared { round, .. } = &mut self.participant(attempt).stage else { return false };
        let Some(chained) = &mut round.chained else { return false };
        if !std::mem::replace(&mut chained.is_committed, true) {
            // It was decided after them, so somebody knows.
            let is_unasked = |it: &AttemptId| match self.attempts.get(it).map(|it| &it.stage) {
                Some(Stage::Prepared { asked_us, .. }) => *asked_us == 0,
                _ => false,
            };
            let unasked: Vec<AttemptId> = followed.into_iter().filter(is_unasked).collect();
            unasked.into_iter().for_each(|it| self.inquire_now(now, it));
        }
        true
    }

    /// One waits for a lock, so those are held up that await it: their clients are to know, and it hears of the eldest of them
    /// (K18).
    pub(super) fn hold_up_followers(&mut self, attempt: AttemptId) {
        let Some(participant) = self.attempts.get(&attempt) else { return };
        let birth = participant.owner.birth;
        let followers = self.awaited.reach(attempt, |awaited, it| awaited.by.get(&it));
        let births = followers.iter().filter_map(|it| Some(self.attempts.get(it)?.owner.birth));
        let eldest = births.min().filter(|eldest| *eldest < birth);
        followers.into_iter().for_each(|it| self.say_held_up(it));
        if let Some(elder) = eldest.filter(|_| !is_planted(Bug::FollowersUnheard)) {
            self.respond(attempt, Response::Elder { attempt, shard: self.id, birth: elder.time });
        }
    }

    /// One awaits others: if one of those waits for a lock, it is held up, and so is who awaits it (K18).
    pub(super) fn note_held_up(&mut self, attempt: AttemptId) {
        let mut followed = self.awaited.reach(attempt, |awaited, it| awaited.of.get(&it));
        followed.retain(|it| self.attempts.get(it).is_some_and(|it| !it.blocked.is_empty()));
        if followed.is_empty() {
            return; // Mostly.
        }
        let mut held_up = self.awaited.reach(attempt, |awaited, it| awaited.by.get(&it));
        held_up.push(attempt);
        let eldest = held_up.iter().filter_map(|it| Some(self.attempts.get(it)?.owner.birth)).min();
        held_up.into_iter().for_each(|it| self.say_held_up(it));
        for it in followed {
            let elder = eldest.filter(|eldest| *eldest < self.attempts[&it].owner.birth);
            if let Some(elder) = elder.filter(|_| !is_planted(Bug::FollowersUnheard)) {
                self.respond(it, Response::Elder { attempt: it, shard: self.id, birth: elder.time });
            }
        }
    }

    /// Of this session more is decided or forgotten than attempts that were named: who awaited these goes on. O(who is awaited).
    pub(super) fn settle_awaited_of(&mut self, session: SessionId) {
        if self.awaited.by.is_empty() {
            return; // Mostly.
        }
        let of_session = self.awaited.by.keys().copied().filter(|it| it.tx.session == session);
        let over: Vec<AttemptId> = of_session.filter(|it| self.is_over(*it)).collect();
        over.into_iter().for_each(|it| self.awaited.decide(it));
    }

    fn is_over(&self, attempt: AttemptId) -> bool {
        self.decided(attempt).is_some() || self.is_below_low_water(attempt)
    }

    pub(super) fn check_awaited(&self) {
        let Awaited { of, by, free } = &self.awaited;
        assert!(free.is_empty(), "a follower was not let go on");
        let counted: usize = by.values().map(SmallVec::len).sum();
        assert_eq!(of.values().map(SmallVec::len).sum::<usize>(), counted, "who awaits whom");
        for (attempt, awaited) in of {
            let is_deposited = self.attempts.get(attempt).is_some_and(|it| it.is_deposited());
            assert!(is_deposited, "{attempt} awaits others, and is not deposited");
            for it in awaited {
                assert!(self.decided(*it).is_none(), "{attempt} awaits {it}, which is decided");
            }
        }
    }
}
