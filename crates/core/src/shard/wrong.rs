//! The rules of `right.rs` with a planted bug in one of them.

use claret_types::{Bytes, Reply};
use smallvec::SmallVec;

use super::history::{Decided, History, Place, Remembered};
use super::lock_table::{Fate, LockTable, RecordIx};
use super::participant::{AllBlocked, Blocked, Calls, Chained, Participant};
use super::undone::Undoing;
use super::{AttemptId, CallNo, Incarnation, Participants, Shard, ShardId, Switches, Time, right};
use crate::backup::{HeldRecord, Vote, VotedAnswers};
use crate::ids::{Birth, Sequence, Timestamp};
use crate::planted::{Bug, is};

/// [`Bug::VoteBeforeLastGrant`].
pub(super) fn may_vote(participant: &Participant) -> bool {
    right::may_vote(participant) || is(Bug::VoteBeforeLastGrant)
}

/// [`Bug::LeaseEndsPrepared`].
pub(super) fn outlives_lease(participant: &Participant) -> bool {
    right::outlives_lease(participant) && !is(Bug::LeaseEndsPrepared)
}

/// [`Bug::UnlistedPreparedEnds`].
pub(super) fn outlives_heartbeat(participant: &Participant) -> bool {
    right::outlives_heartbeat(participant) && !is(Bug::UnlistedPreparedEnds)
}

/// [`Bug::WithdrawUnvotes`].
pub(super) fn outlives_withdraw(participant: &Participant) -> bool {
    right::outlives_withdraw(participant) && !is(Bug::WithdrawUnvotes)
}

/// [`Bug::VanishedRefusesNobody`], [`Bug::VanishedRefusesVoted`].
pub(super) fn ends_with_its_record(shard: &Shard, attempt: AttemptId) -> bool {
    if is(Bug::VanishedRefusesVoted) {
        return shard.is_open(attempt);
    }
    right::ends_with_its_record(shard, attempt) && !is(Bug::VanishedRefusesNobody)
}

/// [`Bug::SilentRestart`].
pub(super) fn incarnation_after(before: Incarnation, named: Incarnation) -> Incarnation {
    if is(Bug::SilentRestart) { before } else { right::incarnation_after(before, named) }
}

pub(super) use right::{is_torn, passed, takes_unstamped};

/// [`Bug::VotesInThePast`].
pub(super) fn not_in_the_past(suggested: Timestamp, now: Time) -> Timestamp {
    if is(Bug::VotesInThePast) { suggested } else { right::not_in_the_past(suggested, now) }
}

/// [`Bug::UnstampedVotesBeside`].
pub(super) fn may_vote_unstamped(shard: &Shard) -> bool {
    right::may_vote_unstamped(shard) || is(Bug::UnstampedVotesBeside)
}

/// [`Bug::AnyFinalBelieved`].
pub(super) fn is_likely(at: Timestamp, largest: Timestamp) -> bool {
    right::is_likely(at, largest) || is(Bug::AnyFinalBelieved)
}

/// [`Bug::OtherOwnersCount`].
pub(super) fn knows_owners(said: u64, own: u64) -> bool {
    right::knows_owners(said, own) || is(Bug::OtherOwnersCount)
}

/// [`Bug::VoteBelowClock`], [`Bug::VoteBelowRecords`].
pub(super) fn vote_after(suggested: Timestamp, clock: Timestamp, before: Timestamp) -> Timestamp {
    let clock = if is(Bug::VoteBelowClock) { Timestamp::default() } else { clock };
    let before = if is(Bug::VoteBelowRecords) { Timestamp::default() } else { before };
    right::vote_after(suggested, clock, before)
}

/// [`Bug::PresentIsSettled`].
pub(super) fn stands_behind(before: Timestamp, is_alone: bool) -> Timestamp {
    right::stands_behind(before, is_alone || is(Bug::PresentIsSettled))
}

/// [`Bug::ErrorUnnoted`].
pub(super) fn note_error(table: &mut LockTable, hash: u64) {
    if !is(Bug::ErrorUnnoted) {
        right::note_error(table, hash);
    }
}

/// [`Bug::TentativeCounts`].
pub(super) fn are_good(voted: Timestamp, at: Timestamp) -> bool {
    right::are_good(voted, at) || is(Bug::TentativeCounts)
}

/// [`Bug::LockedKeepVote`].
pub(super) fn locked_until(voted: Timestamp, at: Timestamp) -> Timestamp {
    if is(Bug::LockedKeepVote) { voted } else { right::locked_until(voted, at) }
}

/// [`Bug::WatchersForgotten`].
pub(super) fn who_stood_behind(watchers: SmallVec<[AttemptId; 2]>) -> SmallVec<[AttemptId; 4]> {
    if is(Bug::WatchersForgotten) { SmallVec::new() } else { right::who_stood_behind(watchers) }
}

/// [`Bug::OwnVoteAfterDeath`].
pub(super) fn final_after_death(own: Timestamp, others: impl Iterator<Item = Timestamp>) -> Timestamp {
    right::final_after_death(own, others.filter(|_| !is(Bug::OwnVoteAfterDeath)))
}

/// [`Bug::ElderNotPassedOn`].
pub(super) fn pass_on(table: &mut LockTable, record: RecordIx, attempt: AttemptId, elder: Birth) {
    if !is(Bug::ElderNotPassedOn) {
        right::pass_on(table, record, attempt, elder);
    }
}

/// [`Bug::ClockNotKept`].
pub(super) fn clock_after(before: Timestamp, published: Timestamp) -> Timestamp {
    if is(Bug::ClockNotKept) { before } else { right::clock_after(before, published) }
}

/// [`Bug::RestartsAtOwnTime`].
pub(super) fn clock_at_first(own: Timestamp, far_ahead: Timestamp) -> Timestamp {
    if is(Bug::RestartsAtOwnTime) { own } else { right::clock_at_first(own, far_ahead) }
}

/// [`Bug::BeginsUnasked`].
pub(super) fn is_in_doubt(shard: &Shard) -> bool {
    right::is_in_doubt(shard) && !is(Bug::BeginsUnasked)
}

/// [`Bug::TakerStaysLow`].
pub(super) fn clock_of_taker(clock: Timestamp, used: Timestamp) -> Timestamp {
    if is(Bug::TakerStaysLow) { clock } else { right::clock_of_taker(clock, used) }
}

/// [`Bug::BelowLowWaterIsNew`].
pub(super) fn is_below_low_water(history: &History, sequence: Sequence) -> bool {
    right::is_below_low_water(history, sequence) && !is(Bug::BelowLowWaterIsNew)
}

/// [`Bug::RefusedLetIn`], [`Bug::PrepareTwice`].
pub(super) fn end_of(history: &History, place: Place) -> Option<&Decided> {
    right::end_of(history, place).filter(|decided| match decided {
        Decided::Refused(_) => !is(Bug::RefusedLetIn),
        Decided::Applied { .. } => !is(Bug::PrepareTwice),
    })
}

/// [`Bug::NoTombstone`].
pub(super) fn is_too_late(shard: &Shard, attempt: AttemptId) -> bool {
    right::is_too_late(shard, attempt) || is(Bug::NoTombstone)
}

/// [`Bug::ForgetsApplied`], [`Bug::ForgetsRefused`].
pub(super) fn is_remembered(history: &History, sequence: Sequence, decided: &Decided) -> bool {
    let is_forgotten = match decided {
        Decided::Applied { .. } => is(Bug::ForgetsApplied),
        Decided::Refused(_) => is(Bug::ForgetsRefused),
    };
    right::is_remembered(history, sequence, decided) && !is_forgotten
}

/// [`Bug::ForgottenAnswersAreNone`].
pub(super) fn known_answers(kept: &Option<Vec<(CallNo, Reply)>>) -> Option<Vec<(CallNo, Reply)>> {
    right::known_answers(kept).or_else(|| is(Bug::ForgottenAnswersAreNone).then(Vec::new))
}

/// [`Bug::ForgetsWithSession`].
pub(super) fn whom_to_ask(entry: &Remembered) -> Option<Participants> {
    right::whom_to_ask(entry).filter(|_| !is(Bug::ForgetsWithSession))
}

/// [`Bug::ExecuteTwice`].
pub(super) fn unseen(participant: &mut Participant, switches: &Switches, calls: Calls) -> Calls {
    if is(Bug::ExecuteTwice) { calls } else { right::unseen(participant, switches, calls) }
}

/// [`Bug::WaitsTwice`].
pub(super) fn waiting_for<'a>(participant: &'a mut Participant, key: &Bytes) -> Option<&'a mut Blocked> {
    right::waiting_for(participant, key).filter(|_| !is(Bug::WaitsTwice))
}

/// [`Bug::PartedWaits`].
pub(super) fn queues_of(left: &AllBlocked) -> impl Iterator<Item = RecordIx> {
    right::queues_of(left).filter(|_| !is(Bug::PartedWaits))
}

/// [`Bug::QueuePlacesStay`], [`Bug::StepGrantStays`].
pub(super) fn leave_queues(table: &mut LockTable, now: Time, participant: &Participant) {
    if is(Bug::StepGrantStays) {
        let waited = participant.blocked.values().filter_map(|blocked| blocked.record);
        waited.for_each(|record| table.leave_queue(now, record, participant.owner));
    } else if !is(Bug::QueuePlacesStay) {
        right::leave_queues(table, now, participant);
    }
}

/// [`Bug::ApplySkipsRecords`].
pub(super) fn release_all(table: &mut LockTable, now: Time, participant: &Participant, fate: Fate<'_>) {
    if !is(Bug::ApplySkipsRecords) {
        return right::release_all(table, now, participant, fate);
    }
    for (at, record) in participant.held.iter().enumerate() {
        let fate = if at == 0 { fate } else { Fate::Drop };
        table.release(now, *record, participant.owner.attempt, fate);
    }
}

/// [`Bug::AnswersBeforeReplicas`].
pub(super) fn waits_for_replicas(counts: bool) -> bool {
    right::waits_for_replicas(counts) && !is(Bug::AnswersBeforeReplicas)
}

/// [`Bug::ClockBeforeReplicas`].
pub(super) fn clock_waits(clock: Timestamp, known: Timestamp) -> bool {
    right::clock_waits(clock, known) && !is(Bug::ClockBeforeReplicas)
}

pub(super) use right::told_after;

/// [`Bug::UsedUntold`].
pub(super) fn told_used(told: Timestamp) -> Option<Timestamp> {
    right::told_used(told).filter(|_| !is(Bug::UsedUntold))
}

/// [`Bug::FinalToldAsVoted`].
pub(super) fn told_place(voted: Timestamp, at: Timestamp) -> Timestamp {
    if is(Bug::FinalToldAsVoted) { voted } else { right::told_place(voted, at) }
}

/// [`Bug::PromotedAnswersAnew`].
pub(super) fn answers_again(answers: VotedAnswers) -> VotedAnswers {
    match right::answers_again(answers) {
        VotedAnswers::Tentative(_) if is(Bug::PromotedAnswersAnew) => VotedAnswers::All,
        answers => answers,
    }
}

/// [`Bug::PromotedForgetsVotes`], [`Bug::PromotedForgetsReads`].
pub(super) fn is_restored(vote: &Vote) -> bool {
    let writes = || {
        let writes = |held: &HeldRecord| {
            !held.in_order.is_empty() || held.granted.iter().any(|it| it.effect.is_some())
        };
        vote.held.iter().any(writes)
    };
    right::is_restored(vote) && !is(Bug::PromotedForgetsVotes) && (writes() || !is(Bug::PromotedForgetsReads))
}

/// [`Bug::PromotedForgetsDecisions`].
pub(super) fn restores(is_applied: bool) -> bool {
    right::restores(is_applied) && !is(Bug::PromotedForgetsDecisions)
}

/// [`Bug::LooksPastVotes`].
pub(super) fn waits_for_voted(has_voted: bool) -> bool {
    right::waits_for_voted(has_voted) && !is(Bug::LooksPastVotes)
}

pub(super) use right::{does_not_count, says_vote};

/// [`Bug::LocksWithoutBaton`].
pub(super) fn needs_baton(place: usize) -> bool {
    right::needs_baton(place) && !is(Bug::LocksWithoutBaton)
}

/// [`Bug::AnyBatonCounts`].
pub(super) fn is_right_before(chained: Chained, from: ShardId) -> bool {
    right::is_right_before(chained, from) || is(Bug::AnyBatonCounts)
}

/// [`Bug::BatonSentOnce`].
pub(super) fn passes_again() -> bool {
    right::passes_again() && !is(Bug::BatonSentOnce)
}

/// [`Bug::FollowersUnheard`].
pub(super) fn follower_told_of(eldest: Option<Birth>) -> Option<Birth> {
    right::follower_told_of(eldest).filter(|_| !is(Bug::FollowersUnheard))
}

/// [`Bug::FollowsAnyVoted`].
pub(super) fn may_be_followed(chained: Chained) -> bool {
    right::may_be_followed(chained) || is(Bug::FollowsAnyVoted)
}

/// [`Bug::FollowedUnnamed`].
pub(super) fn named(followed: Vec<AttemptId>) -> Vec<AttemptId> {
    if is(Bug::FollowedUnnamed) { Vec::new() } else { right::named(followed) }
}

/// [`Bug::FollowsOne`].
pub(super) fn awaited(mut open: SmallVec<[AttemptId; 2]>) -> SmallVec<[AttemptId; 2]> {
    if is(Bug::FollowsOne) {
        open.truncate(1);
    }
    right::awaited(open)
}

/// [`Bug::FollowerFirst`].
pub(super) fn comes_after(followed: &[AttemptId]) -> bool {
    right::comes_after(followed) && !is(Bug::FollowerFirst)
}

/// [`Bug::LateUndoneExecuted`].
pub(super) fn is_undone_late(undone: &Undoing, no: CallNo) -> bool {
    right::is_undone_late(undone, no) && !is(Bug::LateUndoneExecuted)
}

/// [`Bug::UndoneApplied`].
pub(super) fn is_dropped(undone: &Undoing, no: CallNo) -> bool {
    right::is_dropped(undone, no) && !is(Bug::UndoneApplied)
}
