//! Planted bugs of sessions, rights, keys that expire, and the shard's life.

use std::collections::VecDeque;

use claret_core::{Incarnation, Survives, Time};
use claret_planted::{Bug, is_planted};
use claret_types::Bytes;

// --- hellos ---

/// How a connection is whose proof is looked at: [`Bug::ProvesAgain`].
pub(crate) fn until_let_in<T>(refused: T, asked: T) -> T {
    if is_planted(Bug::ProvesAgain) { asked } else { refused }
}

/// Whether a proof is right: [`Bug::ProofUnchecked`].
pub(crate) fn is_proved(is_proved: bool) -> bool {
    is_proved || is_planted(Bug::ProofUnchecked)
}

/// Whether a session is the user's: [`Bug::AnybodysSession`].
pub(crate) fn is_its_user(is: bool) -> bool {
    is || is_planted(Bug::AnybodysSession)
}

/// Whether a connection is older than the session's newest: [`Bug::OldConnectionLetIn`].
pub(crate) fn is_old(is_old: bool) -> bool {
    is_old && !is_planted(Bug::OldConnectionLetIn)
}

/// Whether there are as many sessions as may be: [`Bug::SessionsUnbounded`].
pub(crate) fn are_many(are_many: bool) -> bool {
    are_many && !is_planted(Bug::SessionsUnbounded)
}

/// Whether a user has as many as one may have: [`Bug::UserSessionsUnbounded`].
pub(crate) fn has_many(has_many: bool) -> bool {
    has_many && !is_planted(Bug::UserSessionsUnbounded)
}

/// How many of a user's sessions are forgotten: [`Bug::ForgottenStayCounted`].
pub(crate) fn forgotten(count: u64) -> u64 {
    if is_planted(Bug::ForgottenStayCounted) { 0 } else { count }
}

/// Whether a connection only listens: [`Bug::ListenerEndsSession`].
pub(crate) fn listens(listens: bool) -> bool {
    listens && !is_planted(Bug::ListenerEndsSession)
}

/// The session that is left without a connection: [`Bug::DeadClientHolds`].
pub(crate) fn deserted<T>(session: Option<T>) -> Option<T> {
    session.filter(|_| !is_planted(Bug::DeadClientHolds))
}

/// Whether a request is of another session: [`Bug::SpeaksForOthers`].
pub(crate) fn is_foreign(is_foreign: bool) -> bool {
    is_foreign && !is_planted(Bug::SpeaksForOthers)
}

/// Whether a prepare lists somebody who is no shard of this cluster: [`Bug::StrangersListed`].
pub(crate) fn is_unlisted(is_unlisted: bool) -> bool {
    is_unlisted && !is_planted(Bug::StrangersListed)
}

/// The birth that counts: [`Bug::BirthsUnbounded`].
pub(crate) fn birth(within: Time, claimed: Time) -> Time {
    if is_planted(Bug::BirthsUnbounded) { claimed } else { within }
}

/// Whether a message of the bus is of the node that sent it: [`Bug::SenderUnchecked`].
pub(crate) fn is_senders(is: bool) -> bool {
    is || is_planted(Bug::SenderUnchecked)
}

// --- outboxes and polls ---

/// The responses that wait, one of which was put back in front: [`Bug::PutBackBehind`].
pub(crate) fn put_back<T>(queue: &mut VecDeque<T>) {
    if is_planted(Bug::PutBackBehind) {
        queue.rotate_left(1);
    }
}

/// The response that is dropped: [`Bug::NewestDropped`].
pub(crate) fn dropped<T>(oldest: Option<T>, behind: &mut VecDeque<T>) -> Option<T> {
    match oldest {
        Some(oldest) if is_planted(Bug::NewestDropped) => {
            behind.push_front(oldest);
            behind.pop_back()
        }
        oldest => oldest,
    }
}

/// Whether more waits for all sessions than may: [`Bug::ShareIgnored`].
pub(crate) fn is_over_all(is_over: bool) -> bool {
    is_over && !is_planted(Bug::ShareIgnored)
}

/// How many bytes wait no more: [`Bug::TakenStayCounted`].
pub(crate) fn taken(bytes: usize) -> usize {
    if is_planted(Bug::TakenStayCounted) { 0 } else { bytes }
}

/// Whether a poller's time is over: [`Bug::PollsForEver`].
pub(crate) fn is_late(is_late: bool) -> bool {
    is_late && !is_planted(Bug::PollsForEver)
}

/// The poller that a newer one replaces: [`Bug::EarlierPollForgotten`].
pub(crate) fn replaced<T>(before: Option<T>) -> Option<T> {
    before.filter(|_| !is_planted(Bug::EarlierPollForgotten))
}

/// Whether a poller that is gone still waited: [`Bug::DeadPollKept`].
pub(crate) fn waited(waited: bool) -> bool {
    waited && !is_planted(Bug::DeadPollKept)
}

// --- transactions of one go ---

/// Whether the transaction of a client that left is late: [`Bug::DepartedExecGoesOn`].
pub(crate) fn is_departed(is_departed: bool) -> bool {
    is_departed && !is_planted(Bug::DepartedExecGoesOn)
}

/// Whether it may be tried again: [`Bug::TriedForEver`].
pub(crate) fn may_try(may: bool) -> bool {
    may || is_planted(Bug::TriedForEver)
}

/// The eldest that is open: [`Bug::LowWaterAboveOpen`].
pub(crate) fn low_water(eldest: u64, next: u64) -> u64 {
    if is_planted(Bug::LowWaterAboveOpen) { next } else { eldest }
}

// --- rights ---

/// A user's name: [`Bug::NamesLossy`].
pub(crate) fn name(name: Bytes) -> Bytes {
    if is_planted(Bug::NamesLossy) {
        Bytes::copy_from(String::from_utf8_lossy(&name).as_bytes())
    } else {
        name
    }
}

/// Whether what was seen counts still: [`Bug::RightsForEver`].
pub(crate) fn counts(counts: bool) -> bool {
    counts || is_planted(Bug::RightsForEver)
}

/// Whether a user may do other things: [`Bug::LostRightsUntold`], [`Bug::RefusedChangeCounts`].
pub(crate) fn have_changed(have: bool) -> bool {
    (have || is_planted(Bug::RefusedChangeCounts)) && !is_planted(Bug::LostRightsUntold)
}

/// Whether a client has said who it is: [`Bug::StrangersKnown`].
pub(crate) fn is_known(is_known: bool) -> bool {
    is_known || is_planted(Bug::StrangersKnown)
}

/// Who is named in the server's log: [`Bug::DenialUnlogged`].
pub(crate) fn logged<T>(user: Option<T>) -> Option<T> {
    user.filter(|_| !is_planted(Bug::DenialUnlogged))
}

/// Whether a user may do an operation: [`Bug::RightsUnasked`].
pub(crate) fn may(may: bool) -> bool {
    may || is_planted(Bug::RightsUnasked)
}

/// What else a user needs a right to: [`Bug::SideRightUnasked`].
pub(crate) fn beside<T>(beside: Option<T>) -> Option<T> {
    beside.filter(|_| !is_planted(Bug::SideRightUnasked))
}

/// Whether the server has no memory left: [`Bug::MemoryIgnored`].
pub(crate) fn is_out_of_memory(is_out: bool) -> bool {
    is_out && !is_planted(Bug::MemoryIgnored)
}

/// Whether a channel is the user's own: [`Bug::ChannelsOfOthers`].
pub(crate) fn is_own_channel(is_own: bool) -> bool {
    is_own || is_planted(Bug::ChannelsOfOthers)
}

// --- keys that vanish, and the shard's life ---

/// The end that is looked at first: [`Bug::LatestEndCounts`].
pub(crate) fn next_end<T>(first: Option<T>, last: Option<T>) -> Option<T> {
    if is_planted(Bug::LatestEndCounts) { last } else { first }
}

/// Ends below this are over: [`Bug::GoneForAMillisecond`].
pub(crate) fn ends_before(millis: i64) -> i64 {
    millis - i64::from(is_planted(Bug::GoneForAMillisecond))
}

/// The keys whose time has come: [`Bug::OneExpiresAtATime`].
pub(crate) fn ripe<T>(ripe: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    ripe.take(if is_planted(Bug::OneExpiresAtATime) { 1 } else { usize::MAX })
}

/// When a key ends that is about to be decided on: [`Bug::EndUnnoted`].
pub(crate) fn end(end: Option<i64>) -> Option<i64> {
    end.filter(|_| !is_planted(Bug::EndUnnoted))
}

/// Whether whoever looked at a key found it gone: [`Bug::FoundGoneTold`].
pub(crate) fn is_found_gone(is: bool) -> bool {
    is && !is_planted(Bug::FoundGoneTold)
}

/// In how many milliseconds the shard hears of a change: [`Bug::IdleNodeUntold`].
pub(crate) fn soon(millis: u64) -> u64 {
    if is_planted(Bug::IdleNodeUntold) { 3_600_000 } else { millis }
}

/// Whether a flush is of the records' database: [`Bug::FlushUnheard`].
pub(crate) fn is_of_records(is: bool) -> bool {
    is && !is_planted(Bug::FlushUnheard)
}

/// What is left of a shard whose slots left: [`Bug::VotesForgotten`].
pub(crate) fn survives(what: Survives) -> Survives {
    if is_planted(Bug::VotesForgotten) { Survives::Records } else { what }
}

/// The last incarnation before the server started: [`Bug::EarlierLivesForgotten`].
pub(crate) fn of_file(last: Incarnation) -> Incarnation {
    if is_planted(Bug::EarlierLivesForgotten) { Incarnation(0) } else { last }
}

/// Whether a node serves all that it served before: [`Bug::LostSlotsUnseen`].
pub(crate) fn keeps(keeps: bool) -> bool {
    keeps || is_planted(Bug::LostSlotsUnseen)
}

/// What nobody heard: [`Bug::UnheardPushLost`].
pub(crate) fn unheard<T>(mut responses: Vec<T>) -> Vec<T> {
    if is_planted(Bug::UnheardPushLost) {
        responses.clear();
    }
    responses
}

/// Whether a shard was ever heard of: [`Bug::GoneUnheardOf`].
pub(crate) fn was_heard_of(was: bool) -> bool {
    was && !is_planted(Bug::GoneUnheardOf)
}

/// Whether the node is drained: [`Bug::DrainIgnored`].
pub(crate) fn is_draining(is: bool) -> bool {
    is && !is_planted(Bug::DrainIgnored)
}

/// Whether a caller may see to the server itself: [`Bug::AnybodyOperates`].
pub(crate) fn is_operator(is: bool) -> bool {
    is || is_planted(Bug::AnybodyOperates)
}

/// Whether a caller may end what holds a key: [`Bug::EndsForeignKeys`].
pub(crate) fn may_end(may: bool) -> bool {
    may || is_planted(Bug::EndsForeignKeys)
}

/// Whether a key is of this node: [`Bug::PlacementUnchecked`].
pub(crate) fn is_mine(is: bool) -> bool {
    is || is_planted(Bug::PlacementUnchecked)
}

/// Whether a node is no primary: [`Bug::ReplicaServes`].
pub(crate) fn is_no_primary(is: bool) -> bool {
    is && !is_planted(Bug::ReplicaServes)
}

/// Of which database a command is: [`Bug::AnyDatabaseTaken`].
pub(crate) fn database(number: i32) -> i32 {
    if is_planted(Bug::AnyDatabaseTaken) { 0 } else { number }
}

/// The keys that are touched: [`Bug::EndsUntouched`].
pub(crate) fn touched<T>(mut ripe: Vec<T>) -> Vec<T> {
    if is_planted(Bug::EndsUntouched) {
        ripe.clear();
    }
    ripe
}

/// Whether a caller may change a key: [`Bug::ReadersReserve`].
pub(crate) fn may_change(may: bool) -> bool {
    may || is_planted(Bug::ReadersReserve)
}

/// How long a frame may be: [`Bug::FramesUnbounded`].
pub(crate) fn frame_bytes_max(max: u64) -> u64 {
    if is_planted(Bug::FramesUnbounded) { u64::MAX } else { max }
}
