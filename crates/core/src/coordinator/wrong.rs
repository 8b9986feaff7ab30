//! The rules of `right.rs` with a planted bug in one of them.

use claret_types::{Claims, Modes, Operation};

use super::combining::Frontend;
use super::group::Claimed;
use super::{Coordinator, KeyedCall, Time, right};
use crate::ids::{AttemptId, Member, ShardId, Timestamp};
use crate::message::Members;
use crate::planted::{Bug, is};

/// [`Bug::SmallestVoteIsFinal`].
pub(super) fn final_of(votes: impl Iterator<Item = Timestamp>) -> Timestamp {
    if is(Bug::SmallestVoteIsFinal) { votes.min().unwrap_or_default() } else { right::final_of(votes) }
}

/// [`Bug::UnsettledCounts`], [`Bug::BehindBelowFinal`].
pub(super) fn behind(voted: Timestamp, behind: Timestamp, at: Timestamp) -> Timestamp {
    let voted = if is(Bug::BehindBelowFinal) { at } else { voted };
    match right::behind(voted, behind, at) {
        _ if voted == at && behind < Timestamp::MAX && is(Bug::UnsettledCounts) => Timestamp::default(),
        until => until,
    }
}

/// [`Bug::TentativeCounts`].
pub(super) fn are_void(is_tentative: bool, voted: Timestamp, at: Timestamp) -> bool {
    right::are_void(is_tentative, voted, at) && !is(Bug::TentativeCounts)
}

/// [`Bug::ToldBeforeHorizon`].
pub(super) fn is_told(until: Timestamp, horizon: Timestamp) -> bool {
    right::is_told(until, horizon) || is(Bug::ToldBeforeHorizon)
}

/// [`Bug::ErrorToldAtOnce`].
pub(super) fn may_fail(behind: Timestamp, horizon: Timestamp) -> bool {
    right::may_fail(behind, horizon) || is(Bug::ErrorToldAtOnce)
}

/// [`Bug::EarlierTakenForThis`].
pub(super) fn is_same_attempt(named: u32, running: u32) -> bool {
    right::is_same_attempt(named, running) || is(Bug::EarlierTakenForThis)
}

/// [`Bug::EarlierTakenForThis`], [`Bug::RenewedTakesStale`].
pub(super) fn is_named(coordinator: &Coordinator, attempt: AttemptId) -> bool {
    let running = coordinator.attempt();
    right::is_named(coordinator, attempt)
        || attempt.tx == running.tx && is(Bug::EarlierTakenForThis)
        || attempt.attempt == running.attempt && is(Bug::RenewedTakesStale)
}

/// [`Bug::ClosedTakesCalls`].
pub(super) fn is_open(coordinator: &Coordinator) -> bool {
    right::is_open(coordinator) || is(Bug::ClosedTakesCalls)
}

/// [`Bug::ClosedCommits`].
pub(super) fn may_commit(may_call: bool) -> bool {
    right::may_commit(may_call) || is(Bug::ClosedCommits)
}

/// [`Bug::AttemptsShareNumber`].
pub(super) fn number_after(number: u32) -> u32 {
    if is(Bug::AttemptsShareNumber) { number } else { right::number_after(number) }
}

/// [`Bug::ElderForgotten`].
pub(super) fn eldest_heard_of(coordinator: &Coordinator, elder: Time) -> Option<Time> {
    match is(Bug::ElderForgotten) && !coordinator.may_give_way() {
        true => coordinator.elder,
        false => right::eldest_heard_of(coordinator, elder),
    }
}

/// [`Bug::OneVoteStays`].
pub(super) fn may_give_way_in_prepare(coordinator: &Coordinator) -> bool {
    let stays = is(Bug::OneVoteStays)
        && coordinator.participants.iter().any(|participant| participant.vote.is_some());
    right::may_give_way_in_prepare(coordinator) && !stays
}

/// [`Bug::MembersUnchecked`].
pub(super) fn commutes(used: &Claimed, modes: &Modes, member: Option<Member>, claims: &Claims) -> bool {
    is(Bug::MembersUnchecked) || right::commutes(used, modes, member, claims)
}

/// [`Bug::OwnWriterShares`].
pub(super) fn may_share(has_written: bool) -> bool {
    right::may_share(has_written) || is(Bug::OwnWriterShares)
}

/// [`Bug::GroupForgetsExpiry`].
pub(super) fn claims_of(op: &Operation) -> Claims {
    if is(Bug::GroupForgetsExpiry) { op.footprint() } else { right::claims_of(op) }
}

/// [`Bug::JoinerLosesBuffered`].
pub(super) fn moved_by_joining(buffered: Vec<(ShardId, KeyedCall)>) -> Vec<(ShardId, KeyedCall)> {
    if is(Bug::JoinerLosesBuffered) { Vec::new() } else { right::moved_by_joining(buffered) }
}

/// [`Bug::GroupStaysOpen`].
pub(super) fn close_before_prepare(frontend: &mut Frontend, group: usize) {
    if !is(Bug::GroupStaysOpen) {
        right::close_before_prepare(frontend, group);
    }
}

/// [`Bug::FounderKeepsId`].
pub(super) fn leaves_its_id(home: Option<usize>, group: usize) -> bool {
    right::leaves_its_id(home, group) && !is(Bug::FounderKeepsId)
}

/// [`Bug::BuriesEarly`].
pub(super) fn is_buried(coordinator: &Coordinator) -> bool {
    right::is_buried(coordinator) || is(Bug::BuriesEarly)
}

/// [`Bug::ChecksApplied`].
pub(super) fn of_check() -> Members {
    if is(Bug::ChecksApplied) { Members::All } else { right::of_check() }
}

/// [`Bug::UndoneReliedOn`].
pub(super) fn is_undone(is_it: bool) -> bool {
    right::is_undone(is_it) && !is(Bug::UndoneReliedOn)
}

pub(super) use right::undone;

/// [`Bug::LastAnswersForAll`].
pub(super) fn is_spoken_for(has_answers: bool) -> bool {
    right::is_spoken_for(has_answers) || is(Bug::LastAnswersForAll)
}

/// [`Bug::ResentToUnvoted`].
pub(super) fn is_sent_again(has_voted: bool, is_chain: bool) -> bool {
    right::is_sent_again(has_voted, is_chain && !is(Bug::ResentToUnvoted))
}

/// [`Bug::UnchainedAgain`].
pub(super) fn goes_in_rounds() -> bool {
    right::goes_in_rounds() && !is(Bug::UnchainedAgain)
}

/// Of [`Bug::BatonSentOnce`] and [`Bug::ResentToUnvoted`]: K15 would mend what they break.
pub(super) fn gives_up_broken_chains() -> bool {
    right::gives_up_broken_chains() && !is(Bug::BatonSentOnce) && !is(Bug::ResentToUnvoted)
}
