//! Chains (K3 to K11 and K16 to K18 of `docs/chains.md`): prepares that wait for a baton, batons that wait for a prepare, and what
//! goes on to the next one on the list; and followers, whose baton went on though others come before them on their records.
//!
//! A deposited prepare is a participant that prepares, has all its records still before it, and waits for no lock. So whatever
//! ends attempts that have not voted ends it, too.
//!
//! Invariants: a baton that waits is of no attempt that is decided here, or whose prepare is here. Who awaits others is deposited,
//! and its baton is here; nobody awaits what is decided here.

use claret_types::Bytes;

use super::attempts::Attempts;
use super::awaited::{Awaited, Few};
use super::batons::Batons;
use super::config::Config;
use super::lock_table::{FOLLOWED_MAX, LockTable};
use super::memory::Memory;
use super::outputs::Outputs;
use super::participant::{Chained, Stage};
use crate::ids::{AttemptId, Birth, SessionId, ShardId, Time};
use crate::message::{Asks, Listed, PeerMessage, Response};
use crate::planted::{Bug, is_planted};

/// A prepare of more records follows nobody.
const RECORDS_MAX: usize = 128;

/// A baton that names more is as if it was lost: on each record a call follows a few.
const NAMED_MAX: usize = RECORDS_MAX * FOLLOWED_MAX;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    batons: Batons,
    awaited: Awaited,
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

impl Chains {
    /// Batons that wait for their prepares.
    pub(super) fn waiting_batons(&self) -> usize {
        self.batons.len()
    }

    /// When the first baton has waited for long enough.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.batons.poll_timeout()
    }

    /// An attempt whose prepare did not come for a lease. Its batons are dropped.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<AttemptId> {
        self.batons.pop_due(now)
    }

    /// One that followed others, as these are decided now: it goes on.
    pub(super) fn pop_free(&mut self) -> Option<AttemptId> {
        self.awaited.pop_free()
    }

    /// Whether a deposit's baton is here, and it awaits others.
    pub(super) fn awaits(&self, attempt: AttemptId) -> bool {
        self.awaited.has(attempt)
    }

    /// Something is written of an attempt: nobody waits for its batons any more, nobody awaits it, and it awaits nobody.
    pub(super) fn end(&mut self, attempt: AttemptId) {
        self.batons.take(attempt);
        self.awaited.end(attempt);
    }

    /// Of this session more is decided or forgotten than attempts that were named: who awaited these goes on.
    pub(super) fn settle(&mut self, session: SessionId, memory: &Memory) {
        for attempt in self.awaited.awaited_of(session) {
            if memory.is_over(attempt) {
                self.awaited.decide(attempt);
            }
        }
    }

    /// A no was written for a range of a session's attempts (P60): it is of those, too, whose batons wait. O(batons of the session).
    pub(super) fn end_barred(&mut self, session: SessionId, memory: &Memory) {
        self.settle(session, memory);
        if self.batons.len() == 0 {
            return; // Mostly.
        }
        let of_session = self.batons.waiting().filter(|((attempt, _), _)| attempt.tx.session == session);
        let barred: Vec<AttemptId> = of_session
            .map(|((attempt, _), _)| *attempt)
            .filter(|attempt| memory.decided(*attempt).is_some())
            .collect();
        barred.into_iter().for_each(|attempt| self.end(attempt));
    }

    /// What influences what comes next, for a digest.
    pub(super) fn content(&self) -> impl std::fmt::Debug + use<'_> {
        let Chains { batons, awaited } = self;
        (batons.waiting().collect::<Vec<_>>(), awaited.all())
    }

    /// # Panics
    /// When an invariant does not hold.
    pub(super) fn check(&self, config: &Config, attempts: &Attempts, memory: &Memory) {
        self.batons.check(config.limits().batons_max);
        for ((attempt, _), _) in self.batons.waiting() {
            assert!(memory.decided(*attempt).is_none(), "{attempt} is decided, and a baton of it waits");
            let waits = attempts.get(*attempt).is_none_or(|it| matches!(it.stage, Stage::Open));
            assert!(waits, "the prepare of {attempt} is here, and a baton of it waits");
        }
        self.awaited.check();
        for (attempt, awaited) in self.awaited.waiting() {
            let is_deposited = attempts.get(attempt).is_some_and(|it| it.is_deposited());
            assert!(is_deposited, "{attempt} awaits others, and is not deposited");
            for it in awaited {
                assert!(memory.decided(*it).is_none(), "{attempt} awaits {it}, which is decided");
            }
        }
    }
}

/// The chains, and the parts of the shard that they concern.
pub(super) struct Chaining<'a> {
    pub(super) config: &'a Config,
    pub(super) chains: &'a mut Chains,
    pub(super) table: &'a mut LockTable,
    pub(super) attempts: &'a mut Attempts,
    pub(super) memory: &'a Memory,
    pub(super) out: &'a mut Outputs,
}

/// Batons.
impl Chaining<'_> {
    /// Whether the shard takes part in chains (K9).
    pub(super) fn takes_chains(&self) -> bool {
        self.config.can_chain() && !self.out.is_replicated()
    }

    /// Where this shard stands on the list of a prepare that asks for a chain; `None` where it is no chain.
    pub(super) fn chained(&self, asks: Asks, list: &[Listed]) -> Option<Chained> {
        let at = list.iter().position(|listed| listed.shard == self.config.id())?;
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
    pub(super) fn waits_for_baton(&mut self, attempt: AttemptId) -> bool {
        let came = self.chains.batons.take(attempt);
        let Some(chained) = self.attempts[attempt].chained() else { return false };
        let of_right_one = came.into_iter().find(|(from, _)| chained.takes_baton_of(*from));
        let is_here = of_right_one.is_some_and(|(_, follows)| self.is_unled(attempt, &follows));
        if is_here && let Some(chained) = self.attempts[attempt].chained_mut() {
            chained.is_deposited = false;
        }
        chained.is_deposited && !is_here
    }

    /// The baton comes: whether its prepare goes on. Otherwise the baton waits for the prepare.
    pub(super) fn take_baton(
        &mut self,
        now: Time,
        attempt: AttemptId,
        from: ShardId,
        follows: Vec<AttemptId>,
    ) -> bool {
        if follows.len() > NAMED_MAX {
            return false; // As if it was lost.
        }
        match self.attempts.get(attempt).map(|participant| &participant.stage) {
            None | Some(Stage::Open) => {
                self.keep_baton(now, attempt, from, follows);
                false
            }
            Some(Stage::Preparing(round)) => {
                let is_taken = round.chained.is_some_and(|it| it.is_deposited && it.takes_baton_of(from));
                // Otherwise a double, or of one who has no right to it.
                is_taken && self.is_unled(attempt, &follows)
            }
            Some(Stage::Prepared { .. } | Stage::Placed { .. }) => false, // A double.
        }
    }

    fn keep_baton(&mut self, now: Time, attempt: AttemptId, from: ShardId, follows: Vec<AttemptId>) {
        if self.takes_chains() && !self.memory.is_over(attempt) {
            let limits = self.config.limits();
            let due = now.plus(limits.lease_us);
            self.chains.batons.keep(attempt, from, due, follows, limits.batons_max);
        }
    }

    /// Yes is written: the baton goes on (K5), and names those who come before (K17).
    pub(super) fn pass_baton(&mut self, attempt: AttemptId, chained: Option<Chained>) {
        let Some(Chained { next: Some(next), .. }) = chained else { return };
        let follows = match chained.is_some_and(|it| it.is_last_but_one()) {
            true if is_planted(Bug::FollowedUnnamed) => Vec::new(),
            true => self.table.followed(&self.attempts[attempt].held, attempt),
            false => Vec::new(), // It follows nobody.
        };
        self.out.tell(next, PeerMessage::Baton { attempt, from: self.config.id(), follows });
    }

    /// A no is about to be written: those before it in a chain are to hear of it (K7). A no of an incarnation that is not the one
    /// listed says nothing of what that one wrote (P55).
    pub(super) fn those_before(&self, attempt: AttemptId) -> Vec<Listed> {
        let Some(Stage::Preparing(round)) = self.attempts.get(attempt).map(|it| &it.stage) else {
            return Vec::new(); // Mostly.
        };
        let list = &round.participants;
        let Some(at) = list.iter().position(|listed| listed.shard == self.config.id()) else {
            return Vec::new();
        };
        let is_lost = self.memory.may_have_lost(list[at].incarnation);
        // Whoever has no baton does not know that any of them has voted.
        let has_baton = |chained: Chained| !chained.is_deposited || self.chains.awaits(attempt);
        let tells = round.chained.is_some_and(has_baton) && !is_lost;
        if tells { list[..at].to_vec() } else { Vec::new() }
    }
}

/// Who waits.
impl Chaining<'_> {
    /// Says that a prepare waits for somebody's lock.
    pub(super) fn say_waits(&mut self, attempt: AttemptId) {
        self.say_held_up(attempt);
        self.hold_up_followers(attempt);
    }

    /// A deposit that awaits others came again: those who are held up hear of it again. Whether it was one.
    pub(super) fn say_awaits(&mut self, attempt: AttemptId) -> bool {
        let awaits = self.chains.awaits(attempt);
        if awaits {
            self.say_held_up(attempt);
            self.note_held_up(attempt);
        }
        awaits
    }

    /// Says that a prepare waits.
    fn say_held_up(&mut self, attempt: AttemptId) {
        if let Some(chained) = self.attempts[attempt].chained_mut() {
            chained.said_waits = true;
        }
        self.say_queued(attempt, None);
    }

    /// Says that a call waits: on this record, or on the last one that was blocked.
    pub(super) fn say_queued(&mut self, attempt: AttemptId, key: Option<&Bytes>) {
        let blocked = &self.attempts[attempt].blocked;
        let waits = match key {
            Some(key) => blocked.get(key),
            None => blocked.values().rev().find(|it| !it.is_put_off()),
        };
        let no = waits.and_then(|it| it.calls.front()).map(|call| call.no);
        self.out.respond(attempt, Response::Queued { attempt, no });
    }

    /// Says that an elder waits for an attempt, or for one that awaits it.
    fn say_elder(&mut self, attempt: AttemptId, elder: Option<Birth>) {
        if let Some(elder) = elder.filter(|_| !is_planted(Bug::FollowersUnheard)) {
            let shard = self.config.id();
            self.out.respond(attempt, Response::Elder { attempt, shard, birth: elder.time });
        }
    }

    /// The eldest of those who are here.
    fn eldest(&self, attempts: &[AttemptId]) -> Option<Birth> {
        attempts.iter().filter_map(|it| Some(self.attempts.get(*it)?.owner.birth)).min()
    }
}

/// Followers.
impl Chaining<'_> {
    /// A prepare has come: right before the last one of a chain it may follow others whom that decides (K16).
    pub(super) fn let_follow(&mut self, attempt: AttemptId, records: usize) {
        let participant = &mut self.attempts[attempt];
        let chained = participant.chained().filter(|it| it.is_last_but_one() && records <= RECORDS_MAX);
        participant.owner.follows_at = chained.map(|chained| chained.last);
    }

    /// Yes is written in a chain: others may follow it from now on (K16).
    pub(super) fn lead(&mut self, now: Time, attempt: AttemptId, chained: Option<Chained>) {
        // It has nothing more to wait for but the place where all of them are decided.
        let may_be_followed = |it: &Chained| it.is_last_but_one() || is_planted(Bug::FollowsAnyVoted);
        if let Some(chained) = chained.filter(may_be_followed) {
            self.table.lead(now, &self.attempts[attempt].held, attempt, chained.last);
        }
    }

    /// A baton is here that says whom its attempt follows: whether it goes on at once. Otherwise it awaits them.
    fn is_unled(&mut self, attempt: AttemptId, follows: &[AttemptId]) -> bool {
        let is_open = |it: &AttemptId| !self.memory.is_over(*it) && *it != attempt;
        let mut open: Few = follows.iter().copied().filter(is_open).collect();
        if is_planted(Bug::FollowsOne) {
            open.truncate(1);
        }
        self.chains.awaited.set(attempt, &open);
        if !open.is_empty() {
            self.note_held_up(attempt);
        }
        open.is_empty()
    }

    /// Whether an attempt that is committed comes after others that are not decided here: it is carried out once they are (K18). If
    /// that is news, whom to ask about: it was decided after them, so somebody knows.
    pub(super) fn holds_back(&mut self, attempt: AttemptId) -> Option<Vec<AttemptId>> {
        let Some(Stage::Prepared { round, .. }) = self.attempts.get(attempt).map(|it| &it.stage) else {
            return None;
        };
        round.chained?; // Mostly there is none.
        let followed = self.table.followed(&self.attempts[attempt].held, attempt);
        if followed.is_empty() || is_planted(Bug::FollowerFirst) {
            return None;
        }
        let chained = self.attempts[attempt].chained_mut()?;
        if std::mem::replace(&mut chained.is_committed, true) {
            return Some(Vec::new());
        }
        let is_unasked = |it: &AttemptId| match self.attempts.get(*it).map(|it| &it.stage) {
            Some(Stage::Prepared { asked_us, .. }) => *asked_us == 0,
            _ => false,
        };
        Some(followed.into_iter().filter(is_unasked).collect())
    }

    /// One waits for a lock, so those are held up that await it: their clients are to know, and it hears of the eldest of them
    /// (K18).
    fn hold_up_followers(&mut self, attempt: AttemptId) {
        let Some(participant) = self.attempts.get(attempt) else { return };
        let birth = participant.owner.birth;
        let followers = self.chains.awaited.behind(attempt);
        let eldest = self.eldest(&followers).filter(|eldest| *eldest < birth);
        followers.into_iter().for_each(|it| self.say_held_up(it));
        self.say_elder(attempt, eldest);
    }

    /// One awaits others: if one of those waits for a lock, it is held up, and so is who awaits it (K18).
    fn note_held_up(&mut self, attempt: AttemptId) {
        let mut followed = self.chains.awaited.before(attempt);
        followed.retain(|it| self.attempts.get(*it).is_some_and(|it| !it.blocked.is_empty()));
        if followed.is_empty() {
            return; // Mostly.
        }
        let mut held_up = self.chains.awaited.behind(attempt);
        held_up.push(attempt);
        let eldest = self.eldest(&held_up);
        held_up.into_iter().for_each(|it| self.say_held_up(it));
        for it in followed {
            let elder = eldest.filter(|eldest| *eldest < self.attempts[it].owner.birth);
            self.say_elder(it, elder);
        }
    }
}
