//! The rules of `right.rs` with a planted bug in one of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::outbox::Outbox;
use super::transactions::{Batches, Entry, Left, Table, Transactions};
use super::{Outputs, right};
use crate::coordinator::{Coordinator, Event, TxHandle};
use crate::ids::{Birth, CallNo, Incarnation, SessionId, ShardId, Time, Timestamp};
use crate::message::{Request, Response};
use crate::planted::{Bug, is, run_number};

/// Whose coordinator serves whom: the worst that a table could take for a transaction that is over.
type Heirs = BTreeMap<(SessionId, u64), u64>;

thread_local! {
    /// In which run, and the heirs there.
    static HEIRS: RefCell<(u64, Heirs)> = const { RefCell::new((0, Heirs::new())) };
}

/// Does something with the heirs of this run.
fn with_heirs<T>(read: impl FnOnce(&mut Heirs) -> T) -> T {
    HEIRS.with_borrow_mut(|(run, heirs)| {
        if std::mem::replace(run, run_number()) != run_number() {
            heirs.clear();
        }
        read(heirs)
    })
}

/// [`Bug::RenewedTakesStale`].
pub(super) fn place_of(session: SessionId, handle: u64) -> u64 {
    let mut place = right::place_of(session, handle);
    if is(Bug::RenewedTakesStale) {
        with_heirs(|heirs| {
            while let Some(heir) = heirs.get(&(session, place)) {
                place = *heir;
            }
        });
    }
    place
}

/// [`Bug::RecycledUnmet`]. For [`Bug::RenewedTakesStale`] it notes who is served.
pub(super) fn renew(coordinator: &mut Coordinator, birth: Birth, seed: u64, met: &[(ShardId, Incarnation)]) {
    let (before, now) = (coordinator.birth().tx, birth.tx);
    if before != now && is(Bug::RenewedTakesStale) {
        with_heirs(|heirs| heirs.insert((before.session, before.sequence.0), now.sequence.0));
    }
    let met = if is(Bug::RecycledUnmet) { &[] } else { met };
    right::renew(coordinator, birth, seed, met);
}

/// [`Bug::RecycledUnmet`].
pub(super) fn meet_all(coordinator: &mut Coordinator, met: &[(ShardId, Incarnation)]) {
    if !is(Bug::RecycledUnmet) {
        right::meet_all(coordinator, met);
    }
}

/// [`Bug::RecycledStaysEnded`], [`Bug::RecycledKeepsTimer`].
pub(super) fn reset(entry: &mut Entry) {
    let (ended, timer) = (entry.ended, entry.timer);
    right::reset(entry);
    if is(Bug::RecycledStaysEnded) {
        entry.ended = ended;
    }
    if is(Bug::RecycledKeepsTimer) {
        entry.timer = timer;
    }
}

/// [`Bug::ForgottenWhenTold`].
pub(super) fn is_forgotten(coordinator: &Coordinator) -> bool {
    right::is_forgotten(coordinator) || is(Bug::ForgottenWhenTold)
}

/// [`Bug::AbandonedNotAborted`].
pub(super) fn abort_abandoned(table: &mut Table, now: Time, tx: TxHandle) {
    if !is(Bug::AbandonedNotAborted) {
        right::abort_abandoned(table, now, tx);
    }
}

/// [`Bug::BatchReversed`].
pub(super) fn keep_order(carrier: &mut Coordinator) {
    right::keep_order(carrier);
    if is(Bug::BatchReversed) {
        carrier.reverse_buffered();
    }
}

/// [`Bug::BatchNumbersShared`].
pub(super) fn own_number(no: CallNo, first: u32) -> CallNo {
    if is(Bug::BatchNumbersShared) { no } else { right::own_number(no, first) }
}

/// [`Bug::BatchUnknownAgain`].
pub(super) fn is_unknown(event: &Event) -> bool {
    right::is_unknown(event) && !is(Bug::BatchUnknownAgain)
}

/// [`Bug::RegretToldAtOnce`].
pub(super) fn is_told_at_once() -> bool {
    right::is_told_at_once() || is(Bug::RegretToldAtOnce)
}

/// [`Bug::BatchEndUncounted`].
pub(super) fn end_unheard(batches: &mut Batches, left: &mut Left) {
    if !is(Bug::BatchEndUncounted) {
        right::end_unheard(batches, left);
    }
}

/// [`Bug::OlderHandshakeWins`].
pub(super) fn is_older(connection: u32, outbox: &Outbox) -> bool {
    right::is_older(connection, outbox) && !is(Bug::OlderHandshakeWins)
}

/// [`Bug::OutboxOutlivesConnection`].
pub(super) fn end_connection(outbox: &mut Outbox) -> Option<u32> {
    if is(Bug::OutboxOutlivesConnection) { outbox.unbind() } else { right::end_connection(outbox) }
}

/// [`Bug::NotMet`].
pub(super) fn meet(transactions: &mut Transactions, now: Time, shard: ShardId, incarnation: Incarnation) {
    if !is(Bug::NotMet) {
        right::meet(transactions, now, shard, incarnation);
    }
}

/// [`Bug::AllIsRepetition`].
pub(super) fn end_repetition(outputs: &mut Outputs) {
    if !is(Bug::AllIsRepetition) {
        right::end_repetition(outputs);
    }
}

/// [`Bug::UnheardLeftOut`], [`Bug::OneClockIsHorizon`].
pub(super) fn horizon(clocks: impl Iterator<Item = Timestamp>) -> Timestamp {
    if is(Bug::OneClockIsHorizon) {
        return clocks.max().unwrap_or_default();
    }
    right::horizon(clocks.filter(|clock| *clock > Timestamp::default() || !is(Bug::UnheardLeftOut)))
}

/// [`Bug::RefusedAloneAgain`], [`Bug::FirstIsBlamed`].
pub(super) fn are_suspect(requests: &[Request]) -> bool {
    (right::are_suspect(requests) || is(Bug::RefusedAloneAgain)) && !is(Bug::FirstIsBlamed)
}

/// [`Bug::HeartbeatSentAgain`].
pub(super) fn goes_again(request: &Request) -> bool {
    right::goes_again(request) || is(Bug::HeartbeatSentAgain)
}

/// [`Bug::CallsOfOneRecordPart`].
pub(super) fn moved_under(transactions: &Transactions) -> BTreeSet<TxHandle> {
    if is(Bug::CallsOfOneRecordPart) { BTreeSet::new() } else { right::moved_under(transactions) }
}

/// [`Bug::RemovedKeepsIncarnation`].
pub(super) fn incarnation_after(last: Incarnation) -> Incarnation {
    if is(Bug::RemovedKeepsIncarnation) { last } else { right::incarnation_after(last) }
}

/// [`Bug::RemovedUnanswered`].
pub(super) fn answer_of_removed(request: &Request, shard: ShardId, since: Incarnation) -> Option<Response> {
    right::answer_of_removed(request, shard, since).filter(|_| !is(Bug::RemovedUnanswered))
}

/// [`Bug::ReturnedStaysRemoved`].
pub(super) fn is_back(outbox: &mut Outbox) {
    if !is(Bug::ReturnedStaysRemoved) {
        right::is_back(outbox);
    }
}

/// [`Bug::OtherOwnersCount`].
pub(super) fn knows_owners(said: u64, own: u64) -> bool {
    right::knows_owners(said, own) || is(Bug::OtherOwnersCount)
}
