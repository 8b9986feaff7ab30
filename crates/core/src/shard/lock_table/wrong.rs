//! The rules of `right.rs` with a planted bug in one of them.

use claret_types::{Access, Claims, Draw, Effect, Expiry, Held, Modes, Operation, Room, TypeInfo, Unique};
use smallvec::SmallVec;

use super::deciding::View;
use super::holder::Used;
use super::{
    Birth, Call, Clocks, Fate, Holder, Item, Limits, Lock, LockTable, Member, Owner, Phaser, RecordIx,
    Switches, Time, right,
};
use crate::ids::Timestamp;
use crate::planted::{Bug, is};

/// [`Bug::NoOverlay`].
pub(super) fn own_effects<'a>(
    own: Option<&'a Holder>,
    member: Member,
    ops: impl Iterator<Item = &'a Operation>,
) -> SmallVec<[&'a Effect; 4]> {
    right::own_effects(own.filter(|_| !is(Bug::NoOverlay)), member, ops)
}

/// [`Bug::NoOverlay`].
pub(super) fn extend(
    table: &mut LockTable,
    record: RecordIx,
    view: &mut View,
    call: &Call,
    effect: Effect,
) -> bool {
    is(Bug::NoOverlay) || right::extend(table, record, view, call, effect)
}

/// [`Bug::PassesVoted`], [`Bug::PassesFinal`].
pub(super) fn goes_before(lock: &Lock, before: &Holder, is_final: bool, holder: &Holder) -> bool {
    let is_passed = is(if is_final { Bug::PassesFinal } else { Bug::PassesVoted });
    right::goes_before(lock, before, is_final, holder) && !is_passed
}

/// [`Bug::OverlayUndoneForwards`], [`Bug::OverlayStays`].
pub(super) fn in_order_of_undoing(mut undo: SmallVec<[Effect; 2]>) -> impl Iterator<Item = Effect> {
    if is(Bug::OverlayUndoneForwards) {
        undo.reverse();
    }
    right::in_order_of_undoing(undo).skip(usize::from(is(Bug::OverlayStays)))
}

/// [`Bug::LookStays`].
pub(super) fn undone_by_looks(undo: SmallVec<[Effect; 2]>) -> SmallVec<[Effect; 2]> {
    if is(Bug::LookStays) { SmallVec::new() } else { right::undone_by_looks(undo) }
}

/// [`Bug::ComparedUnlocked`].
pub(super) fn of_compared(op: &Operation, claims: Claims) -> Claims {
    let is_read = op.is_seen() && op.method().access == Access::Read;
    if is_read && is(Bug::ComparedUnlocked) { Claims::none() } else { right::of_compared(op, claims) }
}

/// [`Bug::ErrorCountsAtOnce`].
pub(super) fn does_error_count(is_alone: bool) -> bool {
    right::does_error_count(is_alone) || is(Bug::ErrorCountsAtOnce)
}

/// [`Bug::TwoTypesShare`].
pub(super) fn share_modes(one: &TypeInfo, other: &TypeInfo) -> bool {
    right::share_modes(one, other) || is(Bug::TwoTypesShare)
}

/// [`Bug::DrawsNotSummed`], [`Bug::DepositsCount`].
pub(super) fn admits_draw(lock: &Lock, draw: Draw, room: Room, own: (u128, u128)) -> bool {
    let room = if is(Bug::DepositsCount) { room_with_deposits(lock, room) } else { room };
    right::admits_draw(lock, draw, room, own) || is(Bug::DrawsNotSummed)
}

/// The room as it will be if all that is pending makes room and nothing takes any.
fn room_with_deposits(lock: &Lock, room: Room) -> Room {
    let draws = || lock.holders.values().flat_map(Holder::claims).map(|claims| claims.draw);
    let (down, up): (u64, u64) = (draws().map(|it| it.down).sum(), draws().map(|it| it.up).sum());
    Room { down: room.down.saturating_add(up), up: room.up.saturating_add(down) }
}

/// [`Bug::UniqueStartsAnew`]: without the bits of the incarnation.
pub(super) fn unique(counted: u64) -> Unique {
    right::unique(if is(Bug::UniqueStartsAnew) { counted & !(0xfff << 31) } else { counted })
}

/// [`Bug::ClocksOfTheMoment`].
pub(super) fn used_in_any_state(switches: &Switches, call: &Call, expires: bool) -> Option<Used> {
    right::used_in_any_state(switches, call, expires).filter(|_| !is(Bug::ClocksOfTheMoment))
}

/// [`Bug::LockedRaiseNothing`].
pub(super) fn raise(clocks: &mut Clocks, hash: u64, kind: &'static TypeInfo, holder: &Holder, at: Timestamp) {
    if holder.is_in_order() || !is(Bug::LockedRaiseNothing) {
        right::raise(clocks, hash, kind, holder, at);
    }
}

/// [`Bug::DrawsUnordered`].
pub(super) fn draws(claims: &Claims) -> bool {
    right::draws(claims) && !is(Bug::DrawsUnordered)
}

/// [`Bug::OtherTypeUnordered`].
pub(super) fn clock_for_other_type(latest: Timestamp) -> Timestamp {
    if is(Bug::OtherTypeUnordered) { Timestamp::default() } else { right::clock_for_other_type(latest) }
}

/// [`Bug::NoFloor`].
pub(super) fn floor_after(floor: Timestamp, forgotten: Timestamp) -> Timestamp {
    if is(Bug::NoFloor) { floor } else { right::floor_after(floor, forgotten) }
}

/// [`Bug::OwnBirthKept`].
pub(super) fn eldest_behind(holder: &Holder) -> Option<Birth> {
    if is(Bug::OwnBirthKept) { holder.told } else { right::eldest_behind(holder) }
}

/// [`Bug::OrderedPassesLocks`].
pub(super) fn fits_beside_locks(held: &Held, modes: &Modes, claims: &Claims) -> bool {
    right::fits_beside_locks(held, modes, claims) || is(Bug::OrderedPassesLocks)
}

/// [`Bug::LocksPassOrdered`].
pub(super) fn fits_beside_line(claimed: &Held, modes: &Modes, claims: &Claims) -> bool {
    right::fits_beside_line(claimed, modes, claims) || is(Bug::LocksPassOrdered)
}

/// [`Bug::PromotedForgetsPlaces`].
pub(super) fn stands_again(at: Timestamp) -> Option<Timestamp> {
    right::stands_again(at).filter(|_| !is(Bug::PromotedForgetsPlaces))
}

/// [`Bug::HoldersQueue`].
pub(super) fn passes_waiters(lock: &Lock, owner: Owner) -> bool {
    right::passes_waiters(lock, owner) && !is(Bug::HoldersQueue)
}

/// [`Bug::NeverCapped`].
pub(super) fn is_capped(phaser: &Phaser, now: Time, limits: &Limits) -> bool {
    right::is_capped(phaser, now, limits) && !is(Bug::NeverCapped)
}

/// [`Bug::GrantTellsNoElder`].
pub(super) fn elder_to_tell_of(phaser: &Phaser, birth: Birth, told: Option<Birth>) -> Option<Birth> {
    right::elder_to_tell_of(phaser, birth, told).filter(|_| !is(Bug::GrantTellsNoElder))
}

/// [`Bug::SettlesOnce`].
pub(super) fn is_to_look_again(moved: bool) -> bool {
    right::is_to_look_again(moved) && !is(Bug::SettlesOnce)
}

/// [`Bug::VanishedWakesNobody`]: those who wait are kept out as if somebody was still there.
pub(super) fn reset(lock: &mut Lock, clocks: &mut Clocks, hash: u64) {
    let stays = lock.vanished && !lock.phaser.is_empty() && is(Bug::VanishedWakesNobody);
    right::reset(lock, clocks, hash);
    lock.vanished = stays;
}

/// [`Bug::VanishedUnsealed`].
pub(super) fn seal(clocks: &mut Clocks, hash: u64) {
    if !is(Bug::VanishedUnsealed) {
        right::seal(clocks, hash);
    }
}

/// [`Bug::PartedCount`].
pub(super) fn is_applied(item: &Item, fate: Fate<'_>) -> bool {
    right::is_applied(item, fate) || matches!(fate, Fate::Apply(_)) && is(Bug::PartedCount)
}

/// [`Bug::VanishedTakesEffects`].
pub(super) fn drops_effects(lock: &Lock) -> bool {
    right::drops_effects(lock) && !is(Bug::VanishedTakesEffects)
}

/// [`Bug::VanishedLetsIn`].
pub(super) fn keeps_out(lock: &Lock) -> bool {
    right::keeps_out(lock) && !is(Bug::VanishedLetsIn)
}

/// [`Bug::VanishesAsBefore`].
pub(super) fn vanishes(before: Option<Expiry>, after: Option<Expiry>) -> Option<Expiry> {
    let after = right::vanishes(before, after);
    if is(Bug::VanishesAsBefore) { after.and(before).or(after) } else { after }
}

/// [`Bug::VoteHoldsNoEnd`].
pub(super) fn has_a_say(lock: &Lock, holder: &Holder) -> bool {
    right::has_a_say(lock, holder) && !is(Bug::VoteHoldsNoEnd)
}

/// [`Bug::InstantPassesHolders`].
pub(super) fn lock_to_heed(lock: Option<&Lock>, locking: bool) -> Option<&Lock> {
    right::lock_to_heed(lock, locking).filter(|_| !is(Bug::InstantPassesHolders))
}

/// [`Bug::InstantUndoneForwards`].
pub(super) fn next_to_undo(staged: &mut Vec<(RecordIx, Effect)>) -> Option<(RecordIx, Effect)> {
    match is(Bug::InstantUndoneForwards) && !staged.is_empty() {
        true => Some(staged.remove(0)),
        false => right::next_to_undo(staged),
    }
}

/// [`Bug::UndoneReadsDropped`], [`Bug::UndoneApplied`].
pub(super) fn undo(holder: &mut Holder, held: &mut Held, places: &[u32]) {
    if is(Bug::UndoneReadsDropped) {
        for place in places {
            held.remove(&std::mem::take(&mut holder.items[*place as usize].claims));
        }
    }
    if !is(Bug::UndoneApplied) {
        right::undo(holder, held, places);
    }
}

/// [`Bug::FollowerLooks`].
pub(super) fn blind_effect(op: &Operation, seen: Option<&Effect>) -> Option<Option<Effect>> {
    let blind = right::blind_effect(op, seen)?;
    Some(if is(Bug::FollowerLooks) { seen.cloned() } else { blind })
}

/// [`Bug::FollowsAnyChange`].
pub(super) fn leaves_type_and_expiry<'a>(claims: impl Iterator<Item = &'a Claims>) -> bool {
    right::leaves_type_and_expiry(claims) || is(Bug::FollowsAnyChange)
}
