//! Rules of a transaction's side that a planted bug can take out (`planted.rs`), each by its name. The commit itself stands
//! where the votes are counted: `Coordinator::on_vote`.

use claret_types::{Claims, Modes, Operation};
use smallvec::SmallVec;

use super::combining::Frontend;
use super::group::Claimed;
use super::{Coordinator, KeyedCall, Time};
use crate::ids::{AttemptId, Member, ShardId, Timestamp};
use crate::message::{Members, Undone};

// --- which attempt is meant (P61) ---

/// Whether this number is that of the attempt that runs.
#[inline]
pub(super) fn is_same_attempt(named: u32, running: u32) -> bool {
    named == running
}

/// Whether an attempt is the one that runs, or ran last.
#[inline]
pub(super) fn is_named(coordinator: &Coordinator, attempt: AttemptId) -> bool {
    let running = coordinator.attempt();
    attempt.tx == running.tx && is_same_attempt(attempt.attempt, running.attempt)
}

/// Whether the application may still do something in it.
#[inline]
pub(super) fn is_open(coordinator: &Coordinator) -> bool {
    coordinator.is_running()
}

/// Whether a commit is taken, as a call of its attempt is taken or not.
#[inline]
pub(super) fn may_commit(may_call: bool) -> bool {
    may_call
}

/// The number of the attempt after this one: no two have the same (P8).
pub(super) fn number_after(number: u32) -> u32 {
    number + 1
}

// --- giving way (P20, P21) ---

/// When the eldest began that is known to wait for this attempt, now that one is heard of that began then. It counts
/// whether or not the attempt is blocked by now.
pub(super) fn eldest_heard_of(coordinator: &Coordinator, elder: Time) -> Option<Time> {
    Some(coordinator.elder.map_or(elder, |known| known.min(elder)))
}

/// Whether an attempt whose prepares have left may give way: a participant waits and has not voted, however many have.
pub(super) fn may_give_way_in_prepare(coordinator: &Coordinator) -> bool {
    coordinator.participants.iter().any(|participant| participant.queued && participant.vote.is_none())
}

// --- timestamps (P76 to P78) ---

/// The final timestamp: the largest of the votes (P74).
#[inline]
pub(super) fn final_of(votes: impl Iterator<Item = Timestamp>) -> Timestamp {
    votes.max().unwrap_or_default()
}

/// Up to where the horizon has to come because of one vote: what it stands behind, if it is the final one (P77).
#[inline]
pub(super) fn behind(voted: Timestamp, behind: Timestamp, at: Timestamp) -> Timestamp {
    if voted == at { behind.min(at) } else { at }
}

/// Whether answers come to nothing that were given before the place was final (P76).
#[inline]
pub(super) fn are_void(is_tentative: bool, voted: Timestamp, at: Timestamp) -> bool {
    is_tentative && voted != at
}

/// Whether the caller is told (P78).
#[inline]
pub(super) fn is_told(until: Timestamp, horizon: Timestamp) -> bool {
    horizon >= until
}

/// Whether the caller is told of an error, which tells of what it was seen behind (P78).
#[inline]
pub(super) fn may_fail(behind: Timestamp, horizon: Timestamp) -> bool {
    horizon >= behind
}

// --- combining ---

/// Whether an operation commutes with all that other members use the record for (C3).
pub(super) fn commutes(used: &Claimed, modes: &Modes, member: Option<Member>, claims: &Claims) -> bool {
    used.admit(modes, member, claims)
}

/// What an operation may claim on a record that may expire (P71).
pub(super) fn claims_of(op: &Operation) -> Claims {
    op.footprint_with_expiry()
}

/// Whether a transaction may share another's read of a record: not once it has written there itself (C4).
pub(super) fn may_share(has_written: bool) -> bool {
    !has_written
}

/// Of the calls that a transaction has buffered, those that go with it into the group that it joins: all (C2).
pub(super) fn moved_by_joining(buffered: Vec<(ShardId, KeyedCall)>) -> Vec<(ShardId, KeyedCall)> {
    buffered
}

/// A group is to prepare: nobody joins it from now on, and its reads are shared no more (C5).
pub(super) fn close_before_prepare(frontend: &mut Frontend, group: usize) {
    frontend.close(group);
}

/// Whether a member that leaves this group leaves its id behind: the founder, under whose id the others go on (C14).
pub(super) fn leaves_its_id(home: Option<usize>, group: usize) -> bool {
    home == Some(group)
}

/// Whether an id may be forgotten: every participant knows the end of all its attempts (P28, C14).
pub(super) fn is_buried(coordinator: &Coordinator) -> bool {
    coordinator.is_over()
}

/// Whose effects count where calls are only checked (O5): nobody's.
#[inline]
pub(super) fn of_check() -> Members {
    Members::Only(SmallVec::new())
}

// --- chains (docs/chains.md) ---

/// Whether the last one's word stands for the vote of a participant, given whether calls with its prepare are answered (K6).
#[inline]
pub(super) fn is_spoken_for(has_answers: bool) -> bool {
    !has_answers
}

/// Whether a prepare is sent again, given whether its participant's vote is known: in a chain the baton may be lost behind it (K8).
#[inline]
pub(super) fn is_sent_again(has_voted: bool, is_chain: bool) -> bool {
    is_chain || !has_voted
}

/// Whether the next attempts go in two rounds, after a shard said that it takes no chains (K9).
#[inline]
pub(super) fn goes_in_rounds() -> bool {
    true
}

/// Whether a chain is given up whose batons get lost again and again (K15).
#[inline]
pub(super) fn gives_up_broken_chains() -> bool {
    true
}

// --- what is undone (docs/nesting.md) ---

/// Whether a call does not count among those on which a prepare relies (N4).
#[inline]
pub(super) fn is_undone(is: bool) -> bool {
    is
}

/// What a prepare says is undone (N3).
#[inline]
pub(super) fn undone(ranges: Vec<Undone>) -> Vec<Undone> {
    ranges
}
