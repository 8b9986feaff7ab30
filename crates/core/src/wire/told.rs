//! What a change may say of a shard (S3): a replica keeps nothing of which no shard could be made.
//!
//! Who can tell changes is trusted with all records. Still a file may be damaged, and a primary of another version may say what this
//! one does not mean: that is refused where it is read, and not when a replica is to go on as the shard.

use std::collections::BTreeSet;

use super::{PARTICIPANTS_MAX, is_mode_of};
use crate::backup::{Change, HeldRecord, Vote, VotedAnswers, VotedPlace};
use crate::ids::{Incarnation, ShardId, Timestamp};
use crate::message::Call;

/// Incarnations count microseconds, some ahead of the clock: one as large as this leaves no room for those after it.
const INCARNATION_END: Incarnation = Incarnation(1 << 62);

/// A vote takes less. So the sum of all that can be told has room in a number.
const VOTE_BYTES_END: u64 = 1 << 44;

/// A host notes little.
const NOTE_BYTES_END: usize = 1 << 16;
/// Timestamps count microseconds, too, and are larger than that nowhere but where they stand for everything.
const TIMESTAMP_END: Timestamp = Timestamp(1 << 62);

/// What is wrong with a change, if anything is.
pub(super) fn check(change: &Change) -> Result<(), &'static str> {
    let incarnation = match change {
        Change::Began { since, .. } => Some(*since),
        Change::Incarnation(incarnation) => Some(*incarnation),
        Change::Greeted { since, .. } => *since,
        Change::Voted(vote) => return vote_is_one(vote),
        Change::Placed { at, .. } | Change::Used(at) | Change::Decided { at: Some(at), .. } => {
            return hold(*at < TIMESTAMP_END, "a timestamp after which there is none");
        }
        Change::Dropped(_)
        | Change::Decided { at: None, .. }
        | Change::Passed { .. }
        | Change::Forgotten(_)
        | Change::AnsweredLate(_)
        | Change::Vanished { .. } => None,
        Change::OfHost(note) => {
            return hold(note.len() < NOTE_BYTES_END, "a note of the host that is too long");
        }
    };
    hold(incarnation.is_none_or(|it| it < INCARNATION_END), "an incarnation after which there is none")
}

fn vote_is_one(vote: &Vote) -> Result<(), &'static str> {
    hold(vote.birth.tx == vote.attempt.tx, "the birth of another transaction")?;
    hold(vote.bytes < VOTE_BYTES_END, "a vote of more bytes than there are")?;
    // Who is alone decides, and votes for nobody, but for a place in an order.
    let (count, least) = (vote.participants.len(), if vote.place.is_some() { 1 } else { 2 });
    hold((least..=PARTICIPANTS_MAX).contains(&count), "a vote for nobody else, or for too many")?;
    let shards: BTreeSet<ShardId> = vote.participants.iter().map(|listed| listed.shard).collect();
    hold(shards.len() == vote.participants.len(), "a participant that is listed twice")?;
    let keys: BTreeSet<_> = vote.held.iter().map(|held| &held.key).collect();
    hold(keys.len() == vote.held.len(), "a record that is held twice")?;
    match &vote.place {
        Some(place) => place_is_one(vote, place)?,
        None => {
            hold(vote.held.iter().all(|held| held.in_order.is_empty()), "calls in order without a timestamp")?
        }
    }
    vote.held.iter().try_for_each(held_is_one)
}

fn place_is_one(vote: &Vote, place: &VotedPlace) -> Result<(), &'static str> {
    hold(place.at < TIMESTAMP_END, "a timestamp after which there is none")?;
    let locked = if let VotedAnswers::Tentative(locked) = place.answers { locked } else { 0 };
    hold(locked as usize <= vote.replies.len(), "more answers than there are")
}

fn held_is_one(held: &HeldRecord) -> Result<(), &'static str> {
    hold(!held.key.is_empty(), "an empty key")?;
    let mut claims = held.granted.iter().flat_map(|granted| &granted.claims.list);
    hold(claims.all(|claim| is_mode_of(held.kind, claim.mode)), "a lock mode that the type does not have")?;
    hold(held.in_order.is_empty() || held.granted.is_empty(), "a record that is held in two ways")?;
    held.in_order.iter().try_for_each(|call| call_is_one(held, call))
}

fn call_is_one(held: &HeldRecord, call: &Call) -> Result<(), &'static str> {
    let is_ordered = call.op.is_lasting() && call.op.type_info().id == held.kind.id;
    hold(is_ordered && call.op.check(usize::MAX).is_ok(), "a call that is never ordered")?;
    let mut reserved = call.reserve.iter().flat_map(|claims| &claims.list);
    hold(reserved.all(|claim| is_mode_of(held.kind, claim.mode)), "a lock mode that the type does not have")
}

fn hold(is_so: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if is_so { Ok(()) } else { Err(otherwise) }
}
