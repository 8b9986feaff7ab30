//! Stamped attempts: votes with timestamps, the final one, and when the caller is told (P73 to P78).
//!
//! ```text
//! Preparing --all yes--> Committed: ApplyAt(final) leaves
//!    answers that came with votes count where the vote is final; the others come with Done
//!    told when all answers are in and the horizon has come as far as it has to
//! ```

use claret_types::Reply;

use super::{Coordinator, Event, State};
use crate::ids::{CallNo, ShardId, Time, Timestamp};
use crate::message::{Asks, Refusal, Request};
use crate::planted::{Bug, is_planted};

/// What a participant said of its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) at: Timestamp,
    pub(super) behind: Timestamp,
    /// `None` as long as they are not known.
    pub(super) replies: Option<Vec<(CallNo, Reply)>>,
    pub(super) is_tentative: bool,
}

impl Coordinator {
    /// The attempt is to have a timestamp, about this one. To be said before the commit; the next attempt has none unless it
    /// is said again.
    pub fn stamp(&mut self, suggested: Timestamp) {
        self.suggested = Some(suggested);
    }

    /// About which timestamp the attempt is to have.
    pub(super) fn suggested(&self) -> Option<Timestamp> {
        self.suggested
    }

    /// Up to where the horizon has to come before the caller is told (P78). `None`: that is not what it waits for.
    pub fn awaits_horizon(&self) -> Option<Timestamp> {
        self.told_at
    }

    /// No vote will be as small as that any more, at any shard.
    pub fn hear_horizon(&mut self, horizon: Timestamp) {
        self.horizon = self.horizon.max(horizon);
        if let Some(refusal) = self.failure.take() {
            self.fail(refusal);
        }
        if self.state == State::Committed {
            self.tell_if_due();
            self.end_if_applied();
        }
    }

    /// The transaction cannot be done. That tells of a state, as an answer does (P78).
    pub(super) fn fail(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::OperationBehind { behind, .. }
                if self.horizon < behind && !is_planted(Bug::ErrorToldAtOnce) =>
            {
                self.state = State::Idle { again: false };
                (self.told_at, self.failure) = (Some(behind), Some(refusal));
            }
            refusal => {
                self.state = State::Idle { again: true };
                self.told_at = None;
                self.events.push_back(Event::Failed { refusal: refusal.without_timestamp() });
            }
        }
    }

    /// What a prepare asks for, when it leaves.
    pub(super) fn asks(&self, is_last: bool) -> Asks {
        match (self.suggested, is_last) {
            _ if self.is_chain() => Asks::Chain,
            (Some(suggested), _) => Asks::Place(suggested),
            (None, true) => Asks::Decision,
            (None, false) => Asks::Vote,
        }
    }

    /// A vote with a timestamp; `done`: it has been carried out there, too.
    pub(super) fn on_placed(&mut self, now: Time, from: ShardId, mut placed: Placed, done: bool) {
        if let Some(replies) = &mut placed.replies {
            self.keep_own(from, replies);
        }
        match self.state {
            State::Preparing | State::Withdrawing(_) => {
                let participant = self.participant(from);
                // What was answered with a vote that was lost comes with the next word.
                let is_whole = !done || placed.replies.is_some();
                if participant.vote.is_none() && is_whole {
                    participant.placed = Some(placed);
                    self.on_vote(now, from, Vec::new(), done);
                }
            }
            State::Committed if done => {
                let participant = self.participant(from);
                if participant.applied {
                    return; // A double.
                }
                participant.applied = true;
                if let Some(known) = participant.placed.as_mut().filter(|known| known.replies.is_none()) {
                    let are_lost = placed.replies.is_none();
                    known.replies = Some(placed.replies.unwrap_or_default());
                    self.lost_answers |= are_lost;
                }
                self.tell_if_due();
                self.end_if_applied();
            }
            State::Committed | State::Running | State::Idle { .. } => {}
        }
    }

    /// All have voted, with timestamps: the largest is final (P74).
    pub(super) fn place_all(&mut self) {
        let placed = || self.participants.iter().filter_map(|participant| participant.placed.as_ref());
        let votes = placed().map(|placed| placed.at);
        let at = if is_planted(Bug::SmallestVoteIsFinal) { votes.min() } else { votes.max() };
        let at = at.unwrap_or_default();
        // Up to where the horizon has to come because of one vote: what it stands behind, if it is the final one (P77).
        let behind = |placed: &Placed| {
            let is_final = placed.at == at || is_planted(Bug::BehindBelowFinal);
            match is_final {
                true if placed.behind < Timestamp::MAX && is_planted(Bug::UnsettledCounts) => {
                    Timestamp::default()
                }
                true => placed.behind.min(at),
                false => at,
            }
        };
        let until = placed().map(behind).max().unwrap_or_default();
        // One without a timestamp has said so by other ways, such as a question; what it stands behind nobody knows.
        let until = if placed().count() < self.participants.len() { at } else { until };
        for participant in &mut self.participants {
            if let Some(placed) = &mut participant.placed
                // They were given before the place was final, which is another (P76).
                && placed.is_tentative
                && placed.at != at
                && !is_planted(Bug::TentativeCounts)
                && !participant.applied
            {
                placed.replies = None;
            }
        }
        let attempt = self.attempt();
        for participant in self.participants.iter().filter(|participant| !participant.applied) {
            self.sends.push_back((participant.shard, Request::ApplyAt { attempt, at }));
        }
        (self.placed_at, self.told_at) = (Some(at), Some(until));
        self.tell_if_due();
    }

    /// The second round once more.
    pub(super) fn apply_again(&self) -> Request {
        let attempt = self.attempt();
        match self.placed_at {
            Some(at) => Request::ApplyAt { attempt, at },
            None => Request::Apply { attempt },
        }
    }

    /// Tells the caller, once nothing is in the way of that (P78).
    pub(super) fn tell_if_due(&mut self) {
        let Some(until) = self.told_at else { return };
        let is_in = |participant: &super::ParticipantState| {
            participant.placed.as_ref().is_none_or(|placed| placed.replies.is_some())
        };
        let is_settled = self.horizon >= until || is_planted(Bug::ToldBeforeHorizon);
        if !is_settled || !self.participants.iter().all(is_in) {
            return;
        }
        self.told_at = None;
        if self.lost_answers {
            return self.events.push_back(Event::Unknown);
        }
        let mut replies = std::mem::take(&mut self.replies);
        let placed = self.participants.iter_mut().filter_map(|participant| participant.placed.as_mut());
        placed.filter_map(|placed| placed.replies.as_mut()).for_each(|more| replies.append(more));
        self.events.push_back(Event::Committed { replies });
    }
}
