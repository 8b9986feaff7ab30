//! Rules of locks and queues that a planted bug can take out (`planted.rs`), each by its name.

use claret_types::{Claims, Draw, Effect, Expiry, Held, Mode, Modes, Operation, Room, TypeInfo, Unique};
use smallvec::SmallVec;

use super::deciding::View;
use super::holder::Used;
use super::{
    Birth, Call, Clocks, Fate, Holder, Item, Limits, Lock, LockTable, Member, Owner, Phaser, RecordIx,
    Switches, Time, expiring,
};
use crate::ids::Timestamp;

// --- what an operation may count on ---

/// A member's effects on a record, on which its next call there is executed (P12).
#[inline]
pub(super) fn own_effects<'a>(
    own: Option<&'a Holder>,
    member: Member,
    ops: impl Iterator<Item = &'a Operation>,
) -> SmallVec<[&'a Effect; 4]> {
    own.map_or_else(SmallVec::new, |own| own.effects_for(member, ops))
}

/// Whether somebody who stands before another one in a line has to be carried out before it: they conflict, whether or not its
/// place is final (P75).
#[inline]
pub(super) fn goes_before(lock: &Lock, before: &Holder, _is_final: bool, holder: &Holder) -> bool {
    holder.conflicts_with(lock, before)
}

/// The elder of whom an entry that is final tells whoever stands before it: the eldest who waits for it, itself included (P81).
#[inline]
pub(super) fn eldest_behind(holder: &Holder) -> Option<Birth> {
    Some(holder.told.map_or(holder.birth, |told| told.min(holder.birth)))
}

/// Adds the effect of a call that was granted to the view of its owner (P12). Whether the view is good for the next one.
#[inline]
pub(super) fn extend(
    table: &mut LockTable,
    record: RecordIx,
    view: &mut View,
    call: &Call,
    effect: Effect,
) -> bool {
    table.extend(record, view, call, effect)
}

/// What undoes the effects that were added to a record, in the order in which it is done: last first (P12).
#[inline]
pub(super) fn in_order_of_undoing(undo: SmallVec<[Effect; 2]>) -> impl Iterator<Item = Effect> {
    undo.into_iter().rev()
}

/// What a look did on the way to its answer, and undoes (O1).
#[inline]
pub(super) fn undone_by_looks(undo: SmallVec<[Effect; 2]>) -> SmallVec<[Effect; 2]> {
    undo
}

/// What an operation claims that may have to answer what was seen (O3).
#[inline]
pub(super) fn of_compared(_op: &Operation, claims: Claims) -> Claims {
    claims
}

/// Whether an error counts: what others hold may be committed already, so only who is alone may rely on it (P15).
#[inline]
pub(super) fn does_error_count(is_alone: bool) -> bool {
    is_alone
}

/// Whether the claims of two types can be held against each other (P14).
#[inline]
pub(super) fn share_modes(one: &TypeInfo, other: &TypeInfo) -> bool {
    one.common_modes(other).is_some()
}

/// Whether what is drawn fits into the room beside all that others draw, and `own` besides (P4).
#[inline]
pub(super) fn admits_draw(lock: &Lock, draw: Draw, room: Room, own: (u128, u128)) -> bool {
    lock.held.admits_draw_beside(draw, room, own)
}

/// A number that was never given out before.
#[inline]
pub(super) fn unique(counted: u64) -> Unique {
    Unique(counted)
}

// --- clocks of records, and what is ordered beside locks (P73, P80) ---

/// What a locked call may use in any state, where that counts for clocks: claims of the moment say what commutes in one.
#[inline]
pub(super) fn used_in_any_state(switches: &Switches, call: &Call, expires: bool) -> Option<Used> {
    Some(Used::by(switches, call, expires))
}

/// A vote raises the clocks of a record, whether its owner claims that in order or by locks.
#[inline]
pub(super) fn raise(clocks: &mut Clocks, hash: u64, kind: &'static TypeInfo, holder: &Holder, at: Timestamp) {
    clocks.raise(hash, kind, holder.used, at);
}

/// Whether the order of those who draw counts among each other, too.
#[inline]
pub(super) fn draws(claims: &Claims) -> bool {
    claims.draw != Draw::default()
}

/// The clock of a record for what is of another type than it was used as: that conflicts with all of it (P14).
#[inline]
pub(super) fn clock_for_other_type(latest: Timestamp) -> Timestamp {
    latest
}

/// Up to where anything may have been used of records whose clocks are forgotten.
#[inline]
pub(super) fn floor_after(floor: Timestamp, forgotten: Timestamp) -> Timestamp {
    floor.max(forgotten)
}

/// Whether no lock is in the way of what is claimed in order.
#[inline]
pub(super) fn fits_beside_locks(held: &Held, modes: &Modes, claims: &Claims) -> bool {
    held.admits_modes(modes, claims, std::iter::empty())
}

/// Whether nobody who claims in order is in the way of a lock.
#[inline]
pub(super) fn fits_beside_line(claimed: &Held, modes: &Modes, claims: &Claims) -> bool {
    claimed.admits_modes(modes, claims, std::iter::empty())
}

/// Where an entry that has voted stands at whoever is promoted (S8).
#[inline]
pub(super) fn stands_again(at: Timestamp) -> Option<Timestamp> {
    Some(at)
}

// --- holders and waiters ---

/// Whether who asks for more of a record is not to wait behind others: it holds some of it (P16).
#[inline]
pub(super) fn passes_waiters(lock: &Lock, owner: Owner) -> bool {
    lock.holders.contains_key(&owner.attempt)
}

/// Whether a phase takes nobody in any more who conflicts with an elder that waits (P17).
pub(super) fn is_capped(phaser: &Phaser, now: Time, limits: &Limits) -> bool {
    phaser.is_capped(now, limits.phase_joins_max, limits.phase_us_max)
}

/// The elder of which a new holder is to be told, who knows of one already or of none (P20).
pub(super) fn elder_to_tell_of(phaser: &Phaser, birth: Birth, told: Option<Birth>) -> Option<Birth> {
    phaser.eldest().filter(|elder| *elder < birth && told.is_none_or(|told| *elder < told))
}

/// Whether the queue is looked at once more: somebody moved, who may have been in another's way (P16).
#[inline]
pub(super) fn is_to_look_again(moved: bool) -> bool {
    moved
}

/// Nobody holds the record any more: whoever comes next is not bound by those who did.
#[inline]
pub(super) fn reset(lock: &mut Lock, clocks: &mut Clocks, hash: u64) {
    if lock.vanished {
        super::rules::seal(clocks, hash);
    }
    lock.youngest = None;
    lock.kind = None;
    (lock.vanished, lock.expires) = (false, false);
    lock.before_it_vanished = None;
}

/// Whether an effect is carried out: that of a member that commits (C13).
#[inline]
pub(super) fn is_applied(item: &Item, fate: Fate<'_>) -> bool {
    match fate {
        Fate::Apply(members) => members.includes(item.member),
        Fate::Drop => false,
    }
}

// --- records that vanish (P36) ---

/// Whether effects come to nothing: they were voted on a record that has vanished since.
#[inline]
pub(super) fn drops_effects(lock: &Lock) -> bool {
    lock.vanished
}

/// Whether nobody gets in, whatever its modes: the record vanished, and some who had voted on it are still there.
#[inline]
pub(super) fn keeps_out(lock: &Lock) -> bool {
    lock.vanished
}

/// Nobody holds a record any more that has vanished: whoever comes now is behind all who did (P86).
#[inline]
pub(super) fn seal(clocks: &mut Clocks, hash: u64) {
    clocks.seal(hash);
}

/// When a record vanishes whose expiry was changed (P71).
#[inline]
pub(super) fn vanishes(_before: Option<Expiry>, after: Option<Expiry>) -> Option<Expiry> {
    after
}

/// Whether what a holder voted may be about when the record ends, which waits for it (P71).
#[inline]
pub(super) fn has_a_say(lock: &Lock, holder: &Holder) -> bool {
    expiring::has_a_say(lock, holder)
}

// --- instant transactions (P31, P32) ---

/// The lock that an instant operation is held against: there is none where the host switched locks off.
#[inline]
pub(super) fn lock_to_heed(lock: Option<&Lock>, locking: bool) -> Option<&Lock> {
    lock.filter(|_| locking)
}

/// What was done instantly last, and is undone next.
#[inline]
pub(super) fn next_to_undo(staged: &mut Vec<(RecordIx, Effect)>) -> Option<(RecordIx, Effect)> {
    staged.pop()
}

// --- what is undone (docs/nesting.md) ---

/// What these calls did is undone, and what they claim stays: their user acted on what they answered (N2).
pub(super) fn undo(holder: &mut Holder, _held: &mut Held, places: &[u32]) {
    holder.undo(places);
}

/// What a follower does on a record: what it does whatever is there, for others come before it (K16). `None`: it may not follow.
#[inline]
pub(super) fn blind_effect(op: &Operation, _seen: Option<&Effect>) -> Option<Option<Effect>> {
    op.blind_effect().map(Some)
}

/// Whether one may be followed as far as what is there goes: it changes neither the type of the record nor when that ends (K16).
#[inline]
pub(super) fn leaves_type_and_expiry<'a>(mut claims: impl Iterator<Item = &'a Claims>) -> bool {
    claims.all(|claims| !claims.have(1 << Mode::EXCLUSIVE.0 | 1 << Mode::EXTEND_EXPIRY.0))
}
