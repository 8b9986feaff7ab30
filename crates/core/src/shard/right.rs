//! Rules of the participant's side that a planted bug can take out (`planted.rs`), each by its name. `recovery.rs`
//! says how attempts in doubt are decided.

use std::collections::{BTreeSet, btree_map};

use claret_types::{Bytes, Reply};
use smallvec::SmallVec;

use super::history::{Decided, History, Place, Remembered};
use super::lock_table::{Fate, LockTable, RecordIx};
use super::participant::{AllBlocked, Blocked, Calls, Chained, Heard, Participant};
use super::undone::Undoing;
use super::{AttemptId, CallNo, Delivery, Incarnation, Participants, Shard, ShardId, Switches, Time};
use crate::backup::{Vote, VotedAnswers};
use crate::ids::{Birth, Sequence, Timestamp};

// --- the vote record: yes or no, written once (P2) ---

/// Whether a participant may vote: everything is locked and executed (P1).
#[inline]
pub(super) fn may_vote(participant: &Participant) -> bool {
    participant.lacks_nothing()
}

/// Whether an attempt stays here when its lease is over: it has voted, and asks the others (P23).
pub(super) fn outlives_lease(participant: &Participant) -> bool {
    participant.is_prepared()
}

/// Whether an attempt stays here though its session does not list it any more: it has voted (P23).
pub(super) fn outlives_heartbeat(participant: &Participant) -> bool {
    participant.is_prepared()
}

/// Whether an attempt stays here though it is withdrawn: it has voted, and says so again (P6).
pub(super) fn outlives_withdraw(participant: &Participant) -> bool {
    participant.is_prepared()
}

/// Whether an attempt ends with a record that vanished, which it holds or waits for: it has not voted (P36).
pub(super) fn ends_with_its_record(shard: &Shard, attempt: AttemptId) -> bool {
    shard.is_unvoted(attempt)
}

/// The incarnation as which a shard goes on: the one that its host names, and never one that it was before (P26).
pub(super) fn incarnation_after(before: Incarnation, named: Incarnation) -> Incarnation {
    named.max(Incarnation(before.0 + 1))
}

// --- timestamps (P73 to P86) ---

/// The timestamp of a vote: not below what is suggested, and above the shard's clock and those of its records (P73).
#[inline]
pub(super) fn vote_after(suggested: Timestamp, clock: Timestamp, before: Timestamp) -> Timestamp {
    suggested.max(clock.next()).max(before.next())
}

/// Nobody votes before the own time: so what is long ago is settled, whoever is silent (P79).
#[inline]
pub(super) fn not_in_the_past(suggested: Timestamp, now: Time) -> Timestamp {
    suggested.max(Timestamp(now.0))
}

/// Up to where nobody votes any more. Who votes now may have this very microsecond.
#[inline]
pub(super) fn passed(now: Time, passed_us: u64) -> Timestamp {
    Timestamp(now.0.saturating_sub(passed_us).saturating_sub(1))
}

/// Whether a prepare without a timestamp may be taken, given whether all that has one is settled (P87).
#[inline]
pub(super) fn takes_unstamped(is_settled: bool) -> bool {
    is_settled
}

/// The same when it votes, which may be long after it was taken (P87).
#[inline]
pub(super) fn may_vote_unstamped(shard: &Shard) -> bool {
    shard.may_vote_unstamped()
}

/// Whether a coordinator is believed what the final timestamp is, which an honest one knows to be no larger than that (P88).
#[inline]
pub(super) fn is_likely(at: Timestamp, largest: Timestamp) -> bool {
    at <= largest
}

/// Whether another shard's clock counts, which knows these owners of keys (P79).
#[inline]
pub(super) fn knows_owners(said: u64, own: u64) -> bool {
    said == own
}

/// What a vote stands behind: the clocks of its records, or everything, if somebody who conflicts is present (P77).
#[inline]
pub(super) fn stands_behind(before: Timestamp, is_alone: bool) -> Timestamp {
    if is_alone { before } else { Timestamp::MAX }
}

/// An error was said that tells of all of a record: whoever votes from now on has a larger timestamp than what it tells of (P78).
pub(super) fn note_error(table: &mut LockTable, hash: u64) {
    table.seal(hash);
}

/// Whether a single participant would carry out some of its calls at once, and others in their turn: what was all to be ordered
/// cannot be any more (P83).
#[inline]
pub(super) fn is_torn(is_single: bool, in_order: usize, held: usize) -> bool {
    is_single && in_order > 0 && in_order < held
}

/// Whether answers that came with a vote are good: it is the final one (P76).
#[inline]
pub(super) fn are_good(voted: Timestamp, at: Timestamp) -> bool {
    voted == at
}

/// The timestamp to which a locked claim raises the clocks of its record, before the lock goes: the final one (P75, P84).
#[inline]
pub(super) fn locked_until(_voted: Timestamp, at: Timestamp) -> Timestamp {
    at
}

/// Who stood behind one that has been carried out, and is looked at again (P75).
#[inline]
pub(super) fn who_stood_behind(watchers: SmallVec<[AttemptId; 2]>) -> SmallVec<[AttemptId; 4]> {
    watchers.into_iter().collect()
}

/// The final timestamp of whom its participants decide: the largest of their votes (P84).
pub(super) fn final_after_death(own: Timestamp, others: impl Iterator<Item = Timestamp>) -> Timestamp {
    others.fold(own, Timestamp::max)
}

/// An elder waits for somebody who has its final place: who stands before that one on a record hears of the elder (P81).
pub(super) fn pass_on(table: &mut LockTable, record: RecordIx, attempt: AttemptId, elder: Birth) {
    table.pass_on(record, attempt, elder);
}

/// The shard's clock after it published one: no later vote is that small (P79).
#[inline]
pub(super) fn clock_after(_before: Timestamp, published: Timestamp) -> Timestamp {
    published
}

/// With which clock an incarnation begins that remembers nothing: as far ahead as any earlier one can have gone (P85).
pub(super) fn clock_at_first(_own: Timestamp, far_ahead: Timestamp) -> Timestamp {
    far_ahead
}

/// Whether nobody is let in: the shard lost its memory, and others have not said how far it may have been (P85).
#[inline]
pub(super) fn is_in_doubt(shard: &Shard) -> bool {
    shard.is_in_doubt()
}

/// The clock of a shard to which keys came, on which timestamps were used up to `used` (P86).
pub(super) fn clock_of_taker(clock: Timestamp, used: Timestamp) -> Timestamp {
    clock.max(used)
}

// --- what is remembered (P28) ---

/// Whether all attempts of a transaction are known to be over everywhere.
#[inline]
pub(super) fn is_below_low_water(history: &History, sequence: Sequence) -> bool {
    sequence < history.low_water
}

/// What is written for an attempt: nobody is let in for whom something is (P2).
#[inline]
pub(super) fn end_of(history: &History, place: Place) -> Option<&Decided> {
    history.end_of(place)
}

/// Whether a withdraw is too late to be noted. Any other leaves a no, for the prepare that may come behind it (P6).
pub(super) fn is_too_late(shard: &Shard, attempt: AttemptId) -> bool {
    shard.is_below_low_water(attempt)
}

/// Whether a decision is kept: until the low-water mark passes it.
#[inline]
pub(super) fn is_remembered(history: &History, sequence: Sequence, _: &Decided) -> bool {
    !is_below_low_water(history, sequence)
}

/// The answers of what is applied, for a prepare that comes again. `None`: nobody knows them any more (P57).
pub(super) fn known_answers(kept: &Option<Vec<(CallNo, Reply)>>) -> Option<Vec<(CallNo, Reply)>> {
    kept.clone()
}

/// Who may be in doubt about what is decided here: it is forgotten with its session once all of these know (P58).
pub(super) fn whom_to_ask(entry: &Remembered) -> Option<Participants> {
    entry.listed.clone()
}

// --- calls (P10, P19) ---

/// The calls that did not come before. They come again when a message is doubled or sent again, and, without
/// phases, when one of them was busy.
#[inline]
pub(super) fn unseen(participant: &mut Participant, switches: &Switches, calls: Calls) -> Calls {
    if switches.delivery == Delivery::Direct && switches.phasing {
        return calls;
    }
    let mut fresh = calls;
    fresh.retain(|call| match participant.seen.entry(call.no) {
        btree_map::Entry::Vacant(entry) => {
            entry.insert(Heard::Waits);
            true
        }
        btree_map::Entry::Occupied(_) => false,
    });
    fresh
}

/// The calls of an attempt that wait for a record: further ones stand behind them.
#[inline]
pub(super) fn waiting_for<'a>(participant: &'a mut Participant, key: &Bytes) -> Option<&'a mut Blocked> {
    participant.blocked.get_mut(key)
}

/// The queues in which members waited that left their group: their places there go (C13).
pub(super) fn queues_of(left: &AllBlocked) -> impl Iterator<Item = RecordIx> {
    left.values().filter_map(|blocked| blocked.record)
}

// --- what is undone (docs/nesting.md) ---

/// Whether a call that comes was undone before: it is not executed (N4).
pub(super) fn is_undone_late(undone: &Undoing, no: CallNo) -> bool {
    undone.has(no)
}

/// Whether a call that was granted does not count among those on which a prepare relies: it is undone (N4).
pub(super) fn does_not_count(undone: &Undoing, no: CallNo) -> bool {
    undone.has(no)
}

/// Whether what a call did is not carried out: it is undone (N3).
pub(super) fn is_dropped(undone: &Undoing, no: CallNo) -> bool {
    undone.has(no)
}

// --- an attempt leaves ---

/// It leaves all queues in which it waits (P30).
pub(super) fn leave_queues(table: &mut LockTable, now: Time, participant: &Participant) {
    let held: BTreeSet<RecordIx> = participant.held.iter().copied().collect();
    let owner = participant.owner;
    for record in participant.blocked.values().filter_map(|blocked| blocked.record) {
        table.cancel(record, owner);
        // It may have been granted already, in this very step: what it got there goes too.
        if !held.contains(&record) {
            table.release(now, record, owner.attempt, Fate::Drop);
        }
    }
}

/// It leaves all records that it holds: its effects are carried out on each, or on none (P3).
#[inline]
pub(super) fn release_all(table: &mut LockTable, now: Time, participant: &Participant, fate: Fate<'_>) {
    for record in &participant.held {
        table.release(now, *record, participant.owner.attempt, fate);
    }
}

// --- chains (docs/chains.md) ---

/// Whether the participant at this place of a chain waits for a baton (K3).
#[inline]
pub(super) fn needs_baton(place: usize) -> bool {
    place > 0
}

/// Whether a baton comes from who may pass it on to this participant (K10).
#[inline]
pub(super) fn is_right_before(chained: Chained, from: ShardId) -> bool {
    chained.before == Some(from)
}

/// Whether the client hears of a vote: in a chain only where it would not do without (K5).
#[inline]
pub(super) fn says_vote(chained: Option<Chained>, replies: &[(CallNo, Reply)]) -> bool {
    chained.is_none_or(|chained| chained.said_waits || !replies.is_empty())
}

/// Whether the baton goes on again when the prepare comes again (K8).
#[inline]
pub(super) fn passes_again() -> bool {
    true
}

/// Whether others may follow one that has voted at this place: it has nothing more to wait for but where all of them are decided (K16).
#[inline]
pub(super) fn may_be_followed(chained: Chained) -> bool {
    chained.is_last_but_one()
}

/// Of whose birth somebody hears who waits for a lock, while others await it (K18).
#[inline]
pub(super) fn follower_told_of(eldest: Option<Birth>) -> Option<Birth> {
    eldest
}

/// Whom a baton names: all that its attempt follows (K17).
#[inline]
pub(super) fn named(followed: Vec<AttemptId>) -> Vec<AttemptId> {
    followed
}

/// Whom a deposit awaits whose baton is here: all that are not decided of those whom it follows (K17).
#[inline]
pub(super) fn awaited<T>(open: T) -> T {
    open
}

/// Whether what is committed is carried out later: it follows somebody who is not decided here (K18).
#[inline]
pub(super) fn comes_after(followed: &[AttemptId]) -> bool {
    !followed.is_empty()
}

// --- replicas (docs/replication.md) ---

/// Whether an output waits until the replicas have what the shard had written (S1).
#[inline]
pub(super) fn waits_for_replicas(counts: bool) -> bool {
    counts
}

/// Whether a clock waits for the replicas: they do not all know that it may be used (S17).
#[inline]
pub(super) fn clock_waits(clock: Timestamp, known: Timestamp) -> bool {
    clock > known
}

/// Up to where the replicas are told that timestamps may be used, in time before they are (S17).
#[inline]
pub(super) fn told_after(told: Timestamp, used: Timestamp, now: Time, ahead_us: u64) -> Timestamp {
    // Not ahead of what is ahead of the time already: or each promotion would come further.
    let next = used.max(Timestamp(now.plus(ahead_us).0));
    let half = ahead_us / 2;
    let is_soon = used.0.saturating_add(half) > told.0 && next.0 > told.0.saturating_add(half);
    if used > told || used > Timestamp::default() && is_soon { next } else { told }
}

/// The same, as the replicas hear it.
#[inline]
pub(super) fn told_used(told: Timestamp) -> Option<Timestamp> {
    Some(told)
}

/// The final timestamp, as the replicas are told (S8).
#[inline]
pub(super) fn told_place(_voted: Timestamp, at: Timestamp) -> Timestamp {
    at
}

/// Which answers a vote brought, as whoever is promoted has it (S8).
#[inline]
pub(super) fn answers_again(answers: VotedAnswers) -> VotedAnswers {
    answers
}

/// Whether whoever is promoted holds again what had voted (S3).
#[inline]
pub(super) fn is_restored(_: &Vote) -> bool {
    true
}

/// Whether whoever is promoted remembers a decision (S3).
#[inline]
pub(super) fn restores(_is_applied: bool) -> bool {
    true
}

/// Whether a look waits, as one of these has voted who are in its way (O2).
#[inline]
pub(super) fn waits_for_voted(has_voted: bool) -> bool {
    has_voted
}
