//! Leases and the recovery of attempts in doubt (P23 to P25; traps 1, 3, 6, 7, 8).
//!
//! Only a prepared participant asks, and it asks all others on its list. A shard that is asked and has written
//! nothing writes no, so that its answer never becomes untrue. What the answers decide:
//!
//! | answers | decision |
//! |---|---|
//! | any `Applied` | apply |
//! | any `Refused`, or `Forgotten` | abort |
//! | all `Prepared` | apply: everybody voted yes, so it is committed |
//! | the rest `Lost` (their memory is gone), everybody answered | abort: the one case in which a shard without durable votes loses atomicity (trap 8) |
//! | otherwise | stay in doubt, keep the locks, ask again |
//!
//! A shard that aborts because others lost their memory writes `Refusal::Unknown`. The attempt may be applied where
//! nobody remembers, so this no is `Lost` to whoever asks next, and no recorded no to a coordinator.

use super::attempts::Attempts;
use super::config::Config;
use super::history::Decided;
use super::memory::Memory;
use super::participant::{Participant, Stage};
use crate::asked::Written;
use crate::ids::{AttemptId, ShardId, Time, Timestamp};
use crate::message::{Participants, Refusal, Status};
use crate::planted::{Bug, is_planted};

/// What a participant in doubt does, by the answers of the others.
pub(super) struct Verdict {
    pub(super) fate: Decision,
    /// It had asked. In some ways who decides says so unasked.
    pub(super) is_recovery: bool,
}

/// How an attempt in doubt ends.
pub(super) enum Decision {
    Apply,
    /// Apply with this final timestamp.
    ApplyAt(Timestamp),
    /// Abort. What is unknown to this one, another may have to know that is in doubt.
    Abort(Refusal, Option<Participants>),
}

impl Participant {
    /// A participant that has voted is going to ask all others. Whom, and when it asks again.
    pub(super) fn inquire(&mut self, now: Time, config: &Config) -> Option<(Participants, Time)> {
        let (first, longest) = (config.limits().inquire_us, config.limits().inquire_us_max);
        let Stage::Prepared { round, answers, asked_us, .. } = &mut self.stage else { return None };
        answers.clear();
        *asked_us = asked_us.saturating_mul(2).clamp(first, longest.max(first));
        Some((round.participants.clone(), now.plus(*asked_us)))
    }

    /// Another participant says what it has written. What that decides, if it decides anything.
    pub(super) fn hear_answer(&mut self, config: &Config, from: ShardId, status: Status) -> Option<Verdict> {
        if self.waits_to_apply() {
            return None; // It is committed, whatever others forgot since.
        }
        let Stage::Prepared { round, place, answers, asked_us } = &mut self.stage else { return None };
        if from == config.id() || round.participants.iter().all(|listed| listed.shard != from) {
            return None; // Not one that was asked.
        }
        answers.retain(|(shard, _)| *shard != from);
        answers.push((from, status));
        let others = round.participants.iter().filter(|listed| listed.shard != config.id()).count();
        let any = |wanted: Status| answers.iter().any(|(_, status)| *status == wanted);
        let applied_at = answers.iter().find_map(|(_, status)| match status {
            Status::AppliedAt(at) => Some(*at),
            _ => None,
        });
        let voted_at = answers.iter().filter_map(|(_, status)| match status {
            Status::PreparedAt(at) => Some(*at),
            _ => None,
        });
        let final_at = place.map(|place| applied_at.unwrap_or_else(|| final_after_death(place.at, voted_at)));
        let apply = final_at.map_or(Decision::Apply, Decision::ApplyAt);
        let everybody = answers.len() == others;
        let fate = if any(Status::Applied) || applied_at.is_some() {
            apply
        } else if any(Status::Refused) || any(Status::Forgotten) {
            Decision::Abort(Refusal::Recovered, None)
        } else if everybody && !any(Status::Lost) {
            apply
        } else if everybody {
            Decision::Abort(Refusal::Unknown, Some(round.participants.clone()))
        } else {
            return None;
        };
        Some(Verdict { fate, is_recovery: *asked_us > 0 })
    }
}

/// The final timestamp of whom its participants decide: the largest of their votes (P84).
fn final_after_death(own: Timestamp, others: impl Iterator<Item = Timestamp>) -> Timestamp {
    if is_planted(Bug::OwnVoteAfterDeath) { own } else { others.fold(own, Timestamp::max) }
}

/// What is written for an attempt, for a participant or a coordinator that asks; `None`: nothing is.
pub(super) fn status_of(attempts: &Attempts, memory: &Memory, attempt: AttemptId) -> Option<Status> {
    match memory.decided(attempt) {
        Some(Decided::Applied { at: Some(at), .. }) => return Some(Status::AppliedAt(*at)),
        Some(Decided::Applied { .. }) => return Some(Status::Applied),
        // It may be applied where nobody remembers.
        Some(Decided::Refused(Refusal::Unknown)) => return Some(Status::Lost),
        Some(Decided::Refused(_)) => return Some(Status::Refused),
        None => {}
    }
    match attempts.get(attempt) {
        Some(participant) => match participant.stage {
            Stage::Placed { at, .. } => Some(Status::AppliedAt(at)),
            Stage::Prepared { place: Some(place), .. } => Some(Status::PreparedAt(place.at)),
            _ if participant.waits_to_apply() => Some(Status::Applied),
            Stage::Prepared { .. } => Some(Status::Prepared),
            Stage::Open | Stage::Preparing(_) => None,
        },
        None => memory.is_below_low_water(attempt).then_some(Status::Forgotten),
    }
}

/// The same for somebody who only wants to know (P89).
pub(super) fn written_of(attempts: &Attempts, memory: &Memory, attempt: AttemptId) -> Written {
    match memory.decided(attempt) {
        Some(Decided::Applied { .. }) => return Written::Applied,
        // It may be applied where nobody remembers.
        Some(Decided::Refused(Refusal::Unknown)) => return Written::Lost,
        Some(Decided::Refused(_)) => return Written::Refused,
        None => {}
    }
    match attempts.get(attempt).map(|participant| &participant.stage) {
        Some(Stage::Placed { .. }) => Written::Applied,
        Some(Stage::Prepared { .. }) => Written::Prepared,
        Some(Stage::Open | Stage::Preparing(_)) => Written::Nothing,
        None if memory.is_below_low_water(attempt) => Written::Forgotten,
        None => Written::Nothing,
    }
}
