//! What a change may say of a shard (S3): a replica keeps nothing of which no shard could be made.
//!
//! Who can tell changes is trusted with all records. Still a file may be damaged, and a primary of another version may say what this
//! one does not mean: that is refused where it is read, and not when a replica is to go on as the shard.

use std::collections::BTreeSet;

use super::{PARTICIPANTS_MAX, is_mode_of};
use crate::backup::{Change, HeldRecord, Vote};
use crate::ids::{Incarnation, ShardId};

/// Incarnations count microseconds, some ahead of the clock: one as large as this leaves no room for those after it.
const INCARNATION_END: Incarnation = Incarnation(1 << 62);

/// A vote takes less. So the sum of all that can be told has room in a number.
const VOTE_BYTES_END: u64 = 1 << 44;

/// A host notes little.
const NOTE_BYTES_END: usize = 1 << 16;

/// What is wrong with a change, if anything is.
pub(super) fn check(change: &Change) -> Result<(), &'static str> {
    let incarnation = match change {
        Change::Began { since, .. } => Some(*since),
        Change::Incarnation(incarnation) => Some(*incarnation),
        Change::Greeted { since, .. } => *since,
        Change::Voted(vote) => return vote_is_one(vote),
        Change::Dropped(_)
        | Change::Decided { .. }
        | Change::Passed { .. }
        | Change::Forgotten(_)
        | Change::Vanished(_) => None,
        Change::OfHost(note) => {
            return hold(note.len() < NOTE_BYTES_END, "a note of the host that is too long");
        }
    };
    hold(incarnation.is_none_or(|it| it < INCARNATION_END), "an incarnation after which there is none")
}

fn vote_is_one(vote: &Vote) -> Result<(), &'static str> {
    hold(vote.birth.tx == vote.attempt.tx, "the birth of another transaction")?;
    hold(vote.bytes < VOTE_BYTES_END, "a vote of more bytes than there are")?;
    // Who is alone decides, and votes for nobody.
    let count = vote.participants.len();
    hold((2..=PARTICIPANTS_MAX).contains(&count), "a vote for nobody else, or for too many")?;
    let shards: BTreeSet<ShardId> = vote.participants.iter().map(|listed| listed.shard).collect();
    hold(shards.len() == vote.participants.len(), "a participant that is listed twice")?;
    let keys: BTreeSet<_> = vote.held.iter().map(|held| &held.key).collect();
    hold(keys.len() == vote.held.len(), "a record that is held twice")?;
    vote.held.iter().try_for_each(held_is_one)
}

fn held_is_one(held: &HeldRecord) -> Result<(), &'static str> {
    hold(!held.key.is_empty(), "an empty key")?;
    let mut claims = held.granted.iter().flat_map(|granted| &granted.claims.list);
    hold(claims.all(|claim| is_mode_of(held.kind, claim.mode)), "a lock mode that the type does not have")
}

fn hold(is_so: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if is_so { Ok(()) } else { Err(otherwise) }
}
