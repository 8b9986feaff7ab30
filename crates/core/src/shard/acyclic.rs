//! Chains (K3 to K11 of `docs/chains.md`): prepares that wait for a baton, batons that wait for a prepare, and what goes on to the
//! next one on the list.
//!
//! A deposited prepare is a participant that prepares, has all its records still before it, and waits for no lock. So whatever
//! ends attempts that have not voted ends it, too.
//!
//! Invariant: a baton that waits is of no attempt that is decided here, or whose prepare is here.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::IntoIter;

use super::following::NAMED_MAX;
use super::participant::{Calls, Chained, Stage};
use super::{AttemptId, Bytes, Delivery, Owner, Shard, ShardId, Status, Time};
use crate::ids::SessionId;
use crate::message::{Asks, Listed, Output, PeerMessage, Response};
use crate::planted::{Bug, is_planted};
use crate::switches::Commit;

/// Batons that wait for their prepares (K11), by attempt and by whom they come from: who has a right to one only the prepare tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Batons {
    waiting: BTreeMap<(AttemptId, ShardId), Waiting>,
    due: BTreeSet<(Time, AttemptId, ShardId)>,
    /// How many each session has here.
    of_sessions: BTreeMap<SessionId, usize>,
}

/// A baton that waits: until when, and whom its attempt follows.
#[derive(Clone, Debug)]
struct Waiting {
    due: Time,
    follows: Vec<AttemptId>,
}

/// One session has at most this part of all that may wait: it costs nobody else his place.
const SHARE: usize = 64;

impl Batons {
    /// Keeps one, as long as there are not too many.
    fn keep(
        &mut self,
        attempt: AttemptId,
        from: ShardId,
        due: Time,
        follows: Vec<AttemptId>,
        batons_max: usize,
    ) {
        let of_session = self.of_sessions.get(&attempt.tx.session).copied().unwrap_or_default();
        let has_room = self.waiting.len() < batons_max && of_session < batons_max.div_ceil(SHARE);
        if has_room && !self.waiting.contains_key(&(attempt, from)) {
            *self.of_sessions.entry(attempt.tx.session).or_default() += 1;
            self.waiting.insert((attempt, from), Waiting { due, follows });
            self.due.insert((due, attempt, from));
        }
    }

    /// Takes out all of an attempt; who they came from, and whom it follows as these say.
    fn take(&mut self, attempt: AttemptId) -> Vec<(ShardId, Vec<AttemptId>)> {
        if self.waiting.is_empty() {
            return Vec::new(); // Mostly.
        }
        let all = self.waiting.range((attempt, ShardId(0))..=(attempt, ShardId(u32::MAX)));
        let from: Vec<ShardId> = all.map(|((_, from), _)| *from).collect();
        let mut all = Vec::with_capacity(from.len());
        for from in from {
            let Some(Waiting { due, follows }) = self.waiting.remove(&(attempt, from)) else { continue };
            self.due.remove(&(due, attempt, from));
            all.push((from, follows));
        }
        if let Some(of_session) = self.of_sessions.get_mut(&attempt.tx.session) {
            *of_session = of_session.saturating_sub(all.len());
            if *of_session == 0 {
                self.of_sessions.remove(&attempt.tx.session);
            }
        }
        all
    }

    /// When the first has waited for long enough.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|(due, ..)| *due)
    }

    fn pop_due(&mut self, now: Time) -> Option<AttemptId> {
        let (_, attempt, _) = *self.due.first().filter(|(due, ..)| *due <= now)?;
        self.take(attempt);
        Some(attempt)
    }

    /// Those that wait, and whom their attempts follow.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&(AttemptId, ShardId), &[AttemptId])> {
        self.waiting.iter().map(|(place, it)| (place, &it.follows[..]))
    }
}

/// What the yes of a participant is to be, by what its prepare asks for: a single one is always the last (P9), and so is the end of
/// a chain (K6).
pub(super) fn asked_of(asks: Asks, is_single: bool, chained: Option<Chained>) -> Asks {
    match (asks, chained) {
        (Asks::Vote | Asks::Chain, _) if is_single => Asks::Decision,
        (Asks::Chain, Some(chained)) if chained.next.is_none() => Asks::Decision,
        (Asks::Chain, _) => Asks::Vote,
        (asks, _) => asks,
    }
}

impl Shard {
    /// Batons that wait for their prepares.
    pub fn waiting_batons(&self) -> usize {
        self.batons.waiting.len()
    }

    /// Whether it takes part in chains: what it writes counts at once, and whoever speaks for another shard is known (K9).
    pub(super) fn takes_chains(&self) -> bool {
        self.switches.commit != Commit::Rounds
            && self.switches.phasing
            && self.switches.delivery == Delivery::Network
            && !self.is_replicated()
    }

    /// Where this shard stands on the list of a prepare that asks for a chain; `None` where it is no chain.
    pub(super) fn chained(&self, asks: Asks, list: &[Listed]) -> Option<Chained> {
        let at = list.iter().position(|listed| listed.shard == self.id)?;
        let is_chain = asks == Asks::Chain && list.len() > 1;
        is_chain.then(|| Chained {
            before: at.checked_sub(1).map(|before| list[before].shard),
            next: list.get(at + 1).map(|next| next.shard),
            last: list[list.len() - 1].shard,
            is_deposited: at > 0 && !is_planted(Bug::LocksWithoutBaton),
            said_waits: false,
            is_committed: false,
        })
    }

    /// Whether a prepare that has just come waits for its baton; if that is here already, it does not.
    fn waits_for_baton(&mut self, attempt: AttemptId) -> bool {
        let came = self.batons.take(attempt);
        let Some(chained) = self.participant(attempt).chained() else { return false };
        let of_right_one = came.into_iter().find(|(from, _)| chained.takes_baton_of(*from));
        let is_here = of_right_one.is_some_and(|(_, follows)| self.is_unled(attempt, &follows));
        if is_here && let Some(chained) = self.participant(attempt).chained_mut() {
            chained.is_deposited = false;
        }
        chained.is_deposited && !is_here
    }

    /// The baton comes: its prepare goes on, or it waits for that.
    pub(super) fn take_baton(
        &mut self,
        now: Time,
        attempt: AttemptId,
        from: ShardId,
        follows: Vec<AttemptId>,
    ) {
        if follows.len() > NAMED_MAX {
            return; // As if it was lost.
        }
        let Some(participant) = self.attempts.get(&attempt) else {
            return self.keep_baton(now, attempt, from, follows);
        };
        match &participant.stage {
            Stage::Open => self.keep_baton(now, attempt, from, follows),
            Stage::Preparing(round) => {
                let is_taken = round.chained.is_some_and(|it| it.is_deposited && it.takes_baton_of(from));
                // Otherwise a double, or of one who has no right to it.
                if is_taken && self.is_unled(attempt, &follows) {
                    self.go_on_with_baton(now, attempt);
                }
            }
            Stage::Prepared { .. } | Stage::Placed { .. } => {} // A double.
        }
    }

    /// The baton is here, and nobody comes before it who is not decided.
    pub(super) fn go_on_with_baton(&mut self, now: Time, attempt: AttemptId) {
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        let Some(chained) = participant.chained_mut().filter(|chained| chained.is_deposited) else { return };
        chained.is_deposited = false;
        let (owner, records) = (participant.owner, std::mem::take(&mut participant.behind));
        self.lock_all(now, owner, records);
    }

    fn keep_baton(&mut self, now: Time, attempt: AttemptId, from: ShardId, follows: Vec<AttemptId>) {
        if self.takes_chains() && self.decided(attempt).is_none() && !self.is_below_low_water(attempt) {
            let due = now.plus(self.limits.lease_us);
            self.batons.keep(attempt, from, due, follows, self.limits.batons_max);
        }
    }

    /// Something is written of an attempt: nobody waits for its batons any more.
    pub(super) fn forget_batons(&mut self, attempt: AttemptId) {
        self.batons.take(attempt);
        self.decide_for_followers(attempt);
    }

    /// A no was written for a range of a session's attempts (P60): it is of those, too, whose batons wait. O(batons of the session).
    pub(super) fn forget_barred_batons(&mut self, session: SessionId) {
        self.settle_awaited_of(session);
        if self.batons.waiting.is_empty() {
            return; // Mostly.
        }
        let of_session = self.batons.waiting().filter(|((attempt, _), _)| attempt.tx.session == session);
        let barred: Vec<AttemptId> = of_session
            .map(|((attempt, _), _)| *attempt)
            .filter(|attempt| self.decided(*attempt).is_some())
            .collect();
        barred.into_iter().for_each(|attempt| self.forget_batons(attempt));
    }

    /// Of batons whose prepares did not come for a lease a no is written, as if somebody had asked (K11).
    pub(super) fn drop_batons(&mut self, now: Time) {
        while self.at_once > 0
            && let Some(attempt) = self.batons.pop_due(now)
        {
            self.charge_for(attempt);
            if self.may_note(now, attempt) {
                self.status_or_refuse(now, attempt, None);
            }
        }
    }

    /// Says that a prepare waits for somebody's lock.
    pub(super) fn say_waits(&mut self, attempt: AttemptId) {
        self.say_held_up(attempt);
        self.hold_up_followers(attempt);
    }

    /// Says that a prepare waits.
    pub(super) fn say_held_up(&mut self, attempt: AttemptId) {
        if let Some(chained) = self.participant(attempt).chained_mut() {
            chained.said_waits = true;
        }
        self.say_queued(attempt, None);
    }

    /// Says that a call waits: on this record, or on the last one that was blocked.
    pub(super) fn say_queued(&mut self, attempt: AttemptId, key: Option<&Bytes>) {
        let blocked = &self.participant(attempt).blocked;
        let waits = match key {
            Some(key) => blocked.get(key),
            None => blocked.values().rev().find(|it| !it.is_put_off()),
        };
        let no = waits.and_then(|it| it.calls.front()).map(|call| call.no);
        self.respond(attempt, Response::Queued { attempt, no });
    }

    /// Yes is written: the baton goes on (K5), and names those who come before (K17).
    pub(super) fn pass_baton(&mut self, attempt: AttemptId, chained: Option<Chained>) {
        let Some(Chained { next: Some(next), .. }) = chained else { return };
        let follows = match chained.is_some_and(|it| it.is_last_but_one()) {
            true if is_planted(Bug::FollowedUnnamed) => Vec::new(),
            true => self.table.followed(&self.attempts[&attempt].held, attempt),
            false => Vec::new(), // It follows nobody.
        };
        let message = PeerMessage::Baton { attempt, from: self.id, follows };
        self.outputs.push_back(Output::Tell { shard: next, message });
    }

    /// Yes is written in a chain: others may follow it from now on (K16).
    pub(super) fn lead(&mut self, now: Time, attempt: AttemptId, chained: Option<Chained>) {
        // It has nothing more to wait for but the place where all of them are decided.
        let may_be_followed = |it: &Chained| it.is_last_but_one() || is_planted(Bug::FollowsAnyVoted);
        if let Some(chained) = chained.filter(may_be_followed) {
            let held = std::mem::take(&mut self.participant(attempt).held);
            self.table.lead(now, &held, attempt, chained.last);
            self.participant(attempt).held = held;
        }
    }

    /// A prepare has come: it locks what it asks for, or waits for its baton (K3).
    pub(super) fn begin_to_lock(&mut self, now: Time, owner: Owner, records: IntoIter<(Bytes, Calls)>) {
        if self.waits_for_baton(owner.attempt) {
            self.participant(owner.attempt).behind = records;
        } else {
            self.lock_all(now, owner, records);
        }
    }

    /// The prepare came again, after the vote: that is said again, and the baton may be lost (K8).
    pub(super) fn prepared_again(&mut self, attempt: AttemptId) {
        self.vote_again(attempt);
        if !is_planted(Bug::BatonSentOnce) {
            let chained = self.participant(attempt).chained();
            self.pass_baton(attempt, chained);
        }
    }

    /// Tells others on a list what is written here, as if they had asked (K6, K7).
    pub(super) fn tell_listed(&mut self, attempt: AttemptId, list: &[Listed], status: Status) {
        let from = self.id;
        for listed in list.iter().filter(|listed| listed.shard != from) {
            let message = PeerMessage::Answer { attempt, from, status: status.clone() };
            self.outputs.push_back(Output::Tell { shard: listed.shard, message });
        }
    }

    /// A no is about to be written: those before it in a chain are to hear of it (K7). A no of an incarnation that is not the one
    /// listed says nothing of what that one wrote (P55).
    pub(super) fn those_before(&self, attempt: AttemptId) -> Vec<Listed> {
        let Some(Stage::Preparing(round)) = self.attempts.get(&attempt).map(|it| &it.stage) else {
            return Vec::new(); // Mostly.
        };
        let list = &round.participants;
        let Some(at) = list.iter().position(|listed| listed.shard == self.id) else { return Vec::new() };
        let is_lost = list[at].incarnation.is_some_and(|listed| listed < self.remembers_since);
        // Whoever has no baton does not know that any of them has voted.
        let has_baton = |chained: Chained| !chained.is_deposited || self.awaits(attempt);
        let tells = round.chained.is_some_and(has_baton) && !is_lost;
        if tells { list[..at].to_vec() } else { Vec::new() }
    }

    pub(super) fn check_batons(&self) {
        assert_eq!(self.batons.waiting.len(), self.batons.due.len(), "batons that wait");
        assert!(self.batons.waiting.len() <= self.limits.batons_max, "too many batons wait");
        let of_sessions: usize = self.batons.of_sessions.values().sum();
        assert_eq!(self.batons.waiting.len(), of_sessions, "batons of all sessions");
        for ((attempt, _), _) in self.batons.waiting() {
            assert!(self.decided(*attempt).is_none(), "{attempt} is decided, and a baton of it waits");
            let is_open = |stage: &Stage| matches!(stage, Stage::Open);
            let waits = self.attempts.get(attempt).is_none_or(|it| is_open(&it.stage));
            assert!(waits, "the prepare of {attempt} is here, and a baton of it waits");
        }
        self.check_awaited();
    }
}
