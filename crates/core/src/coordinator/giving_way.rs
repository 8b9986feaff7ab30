//! When an attempt gives way to an elder, and how an attempt ends once its prepares have left (P6, P21, traps 1, 9).

use super::{Cause, Coordinator, Goal, State};
use crate::ids::{Incarnation, Time};
use crate::message::{Refusal, Request};
use crate::planted::{Bug, is_planted};

impl Coordinator {
    /// Whether it waits for somebody else at a shard, and a vote is missing.
    pub(super) fn may_give_way(&self) -> bool {
        match self.state {
            State::Running => self.participants.iter().any(|participant| participant.waiting > 0),
            // A participant waits and has not voted, however many have.
            State::Preparing => {
                let waits = self.participants.iter().any(|it| it.queued && it.vote.is_none());
                let stays =
                    is_planted(Bug::OneVoteStays) && self.participants.iter().any(|it| it.vote.is_some());
                waits && !stays
            }
            State::Withdrawing(_) | State::Committed | State::Idle { .. } => false,
        }
    }

    /// P21: an elder waits for what this attempt holds, this attempt is blocked itself, a vote is missing, and
    /// about a round trip has passed.
    pub(super) fn consider_giving_way(&mut self, now: Time) {
        let waited = self.blocked_since.is_some_and(|since| now.since(since) >= self.limits.give_way_us);
        if self.elder.is_some() && waited && self.may_give_way() {
            self.end_attempt(now, Goal::GiveWay);
        }
    }

    /// Ends an attempt that should be run again.
    pub(super) fn end_attempt(&mut self, now: Time, goal: Goal) {
        if self.state == State::Preparing {
            return self.withdraw(now, goal);
        }
        self.close_attempt(now, None);
        let cause = if goal == Goal::Busy { Cause::Busy } else { Cause::GaveWay };
        self.tell_restart(cause);
    }

    /// Prepares have left: only a recorded no ends the attempt now (trap 1). One is enough; those that wait are
    /// asked for it.
    pub(super) fn withdraw(&mut self, now: Time, goal: Goal) {
        self.state = State::Withdrawing(goal);
        self.blocked_since = None;
        self.backoff_at = None;
        if let Some(participant) = self.participants.iter().find(|participant| !participant.asked) {
            // No prepare went there, so it never says yes: as good as a no that it has written.
            return self.on_refused(now, participant.shard, Refusal::Withdrawn, Incarnation(0));
        }
        let attempt = self.attempt();
        for participant in
            self.participants.iter().filter(|participant| participant.vote.is_none() && !participant.lost)
        {
            self.sends.push_back((participant.shard, Request::Withdraw { attempt }));
        }
        self.expect_answers(now);
    }
}
