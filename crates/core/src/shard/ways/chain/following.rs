//! Followers (K16 to K18 of `docs/chains.md`): who may follow, who awaits whom, and who is held up by somebody's lock.

use super::awaited::Few;
use super::{RECORDS_MAX, Standing, is_over, round_mut, standing};
use crate::ids::{AttemptId, Birth};
use crate::message::Response;
use crate::planted::{Bug, is_planted};
use crate::shard::participant::Stage;
use crate::shard::step::Step;

/// Who follows.
impl Step<'_> {
    /// A prepare has come: right before the last one of a chain it may follow others whom that decides (K16).
    pub(super) fn let_follow(&mut self, attempt: AttemptId, standing: Standing, records: usize) {
        let may_follow = standing.is_last_but_one() && records <= RECORDS_MAX;
        self.attempts[attempt].owner.pass.chain = may_follow.then_some(standing.last);
    }

    /// Yes is written in a chain: others may follow it from now on (K16).
    pub(super) fn lead(&mut self, attempt: AttemptId) {
        let participant = &self.attempts[attempt];
        // It has nothing more to wait for but the place where all of them are decided.
        let may_be_followed = |it: &Standing| it.is_last_but_one() || is_planted(Bug::FollowsAnyVoted);
        if let Some(standing) = standing(participant).filter(may_be_followed) {
            self.table.lead(self.now, &participant.held, attempt, standing.last);
        }
    }

    /// A token is here that says whom its attempt follows: whether it goes on at once. Otherwise it awaits them.
    pub(super) fn is_unled(&mut self, attempt: AttemptId, follows: &[AttemptId]) -> bool {
        let is_open = |it: &AttemptId| !is_over(self.memory, *it) && *it != attempt;
        let mut open: Few = follows.iter().copied().filter(is_open).collect();
        if is_planted(Bug::FollowsOne) {
            open.truncate(1);
        }
        self.ways.chain.awaited.set(attempt, &open);
        if !open.is_empty() {
            self.note_held_up(attempt);
        }
        open.is_empty()
    }

    /// Whether an attempt that is committed comes after others that are not decided here: it is carried out once they are (K18). If
    /// that is news, they are asked about: it was decided after them, so somebody knows.
    pub(super) fn is_held_back(&mut self, attempt: AttemptId) -> bool {
        let Some(participant) = self.attempts.get(attempt) else { return false };
        if !matches!(participant.stage, Stage::Prepared { .. }) {
            return false;
        }
        let followed = self.table.followed(&participant.held, attempt);
        if followed.is_empty() || is_planted(Bug::FollowerFirst) {
            return false;
        }
        let Some(round) = self.attempts.get_mut(attempt).and_then(round_mut) else { return false };
        if std::mem::replace(&mut round.waits_to_apply, true) {
            return true;
        }
        let is_unasked = |it: &AttemptId| match self.attempts.get(*it).map(|it| &it.stage) {
            Some(Stage::Prepared { asked_us, .. }) => *asked_us == 0,
            _ => false,
        };
        let unasked: Vec<AttemptId> = followed.into_iter().filter(is_unasked).collect();
        unasked.into_iter().for_each(|it| self.inquire_now(it));
        true
    }
}

/// Who waits.
impl Step<'_> {
    /// A prepare waits, or came again while it does: for somebody's lock, or a deposit for those whom it awaits. One that has no token
    /// says nothing.
    pub(super) fn say_waits_in_chain(&mut self, attempt: AttemptId) {
        if self.ways.chain.awaited.has(attempt) {
            // Those who are held up hear of it again.
            self.say_held_up(attempt);
            self.note_held_up(attempt);
        } else if !self.attempts[attempt].waits_to_lock() {
            self.say_held_up(attempt);
            self.hold_up_followers(attempt);
        }
    }

    /// Says that a prepare waits.
    fn say_held_up(&mut self, attempt: AttemptId) {
        if let Some(round) = round_mut(&mut self.attempts[attempt])
            && let Some(crate::shard::ways::Standing::Chain(standing)) = &mut round.way
        {
            standing.said_waits = true;
        }
        self.say_queued(attempt, None);
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

    /// One waits for a lock, so those are held up that await it: their clients are to know, and it hears of the eldest of them
    /// (K18).
    fn hold_up_followers(&mut self, attempt: AttemptId) {
        let Some(participant) = self.attempts.get(attempt) else { return };
        let birth = participant.owner.birth;
        let followers = self.ways.chain.awaited.behind(attempt);
        let eldest = self.eldest(&followers).filter(|eldest| *eldest < birth);
        followers.into_iter().for_each(|it| self.say_held_up(it));
        self.say_elder(attempt, eldest);
    }

    /// One awaits others: if one of those waits for a lock, it is held up, and so is who awaits it (K18).
    fn note_held_up(&mut self, attempt: AttemptId) {
        let mut followed = self.ways.chain.awaited.before(attempt);
        followed.retain(|it| self.attempts.get(*it).is_some_and(|it| !it.blocked.is_empty()));
        if followed.is_empty() {
            return; // Mostly.
        }
        let mut held_up = self.ways.chain.awaited.behind(attempt);
        held_up.push(attempt);
        let eldest = self.eldest(&held_up);
        held_up.into_iter().for_each(|it| self.say_held_up(it));
        for it in followed {
            let elder = eldest.filter(|eldest| *eldest < self.attempts[it].owner.birth);
            self.say_elder(it, elder);
        }
    }
}
