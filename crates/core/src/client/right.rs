//! Rules of a client process that a planted bug can take out (`planted.rs`), each by its name.

use std::collections::BTreeSet;

use super::Outputs;
use super::outbox::Outbox;
use super::transactions::{Batches, Carriage, Entry, Left, Table, Transactions};
use crate::coordinator::{Coordinator, Event, TxHandle};
use crate::ids::{Birth, CallNo, Incarnation, SessionId, ShardId, Time, Timestamp};
use crate::message::{Request, Response};

/// The incarnations that connections told.
type Met = [(ShardId, Incarnation)];

// --- the table of transactions (P45) ---

/// Where a transaction stands: under its handle, and nowhere else (P61).
#[inline]
pub(super) fn place_of(_: SessionId, handle: u64) -> u64 {
    handle
}

/// A coordinator begins another transaction, and knows the incarnations that are known (P26).
#[inline]
pub(super) fn renew(coordinator: &mut Coordinator, birth: Birth, seed: u64, met: &Met) {
    coordinator.renew(birth, seed, met);
}

/// A transaction begins its next attempt: it knows the incarnations that are known by now (P26).
pub(super) fn meet_all(coordinator: &mut Coordinator, met: &Met) {
    met.iter().for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
}

/// An entry is good for another transaction: nothing of the last one is in it.
#[inline]
pub(super) fn reset(entry: &mut Entry) {
    entry.ended = false;
    entry.is_ready = false;
    entry.timer = None;
    entry.carriage = Carriage::Alone;
    entry.left = Left::No;
    (entry.committing_since, entry.breaks_at) = (None, None);
}

/// Whether a transaction whose user knows the end may leave the table: all shards know the end, too (P28).
#[inline]
pub(super) fn is_forgotten(coordinator: &Coordinator) -> bool {
    coordinator.is_over()
}

/// A transaction's user has left: it is aborted (P39).
pub(super) fn abort_abandoned(table: &mut Table, now: Time, tx: TxHandle) {
    table.abort(now, tx.0);
}

// --- batches (docs/batches.md) ---

/// The calls of a batch are all there: one transaction's after the other's (B3).
#[inline]
pub(super) fn keep_order(_: &mut Coordinator) {}

/// The number of a call as the transaction knows it whose first call in the batch has this number (B4).
#[inline]
pub(super) fn own_number(no: CallNo, first: u32) -> CallNo {
    CallNo(no.0 - first)
}

/// Whether those in a batch hear that nobody knows how it ended (B6).
pub(super) fn is_unknown(event: &Event) -> bool {
    matches!(event, Event::Unknown)
}

/// Whether a transaction that is given up in a batch hears at once that it is aborted, whatever becomes of that (B7).
pub(super) fn is_told_at_once() -> bool {
    false
}

/// A transaction that left is over, and whoever began it has not heard how: it is not under way any more (B9).
#[inline]
pub(super) fn end_unheard(batches: &mut Batches, left: &mut Left) {
    batches.note_end(left);
}

// --- connections (P40) ---

/// Whether the shard listens to another connection that was begun after this one (P29).
pub(super) fn is_older(connection: u32, outbox: &Outbox) -> bool {
    outbox.connection.is_some_and(|newer| newer > connection)
}

/// A connection is closed, and with it what waited to go over it. Returns the connection that wanted to hear of something
/// to take.
pub(super) fn end_connection(outbox: &mut Outbox) -> Option<u32> {
    outbox.end_connection()
}

/// All transactions hear as which incarnation the shard met a new connection (P26).
pub(super) fn meet(transactions: &mut Transactions, now: Time, shard: ShardId, incarnation: Incarnation) {
    transactions.meet(now, shard, incarnation);
}

/// What was due is done: what is sent from now on was not sent before (P42).
#[inline]
pub(super) fn end_repetition(outputs: &mut Outputs) {
    outputs.repeats_after = None;
}

// --- clocks (P78, P79) ---

/// The horizon: the smallest clock of all shards that own keys. One that said nothing yet has none.
pub(super) fn horizon(clocks: impl Iterator<Item = Timestamp>) -> Timestamp {
    clocks.min().unwrap_or_default()
}

// --- frames that are refused (P43) ---

/// Whether it is not clear which request of a refused frame is to blame: they go again, each alone.
pub(super) fn are_suspect(requests: &[Request]) -> bool {
    requests.len() > 1
}

/// Whether a request of a refused frame goes again. A heartbeat would come behind requests of transactions that it does not
/// list.
pub(super) fn goes_again(request: &Request) -> bool {
    !matches!(request, Request::Heartbeat { .. })
}

// --- slots that move, removed shards (P44, P56) ---

/// The transactions under which slots have just moved: each keeps a record's calls at one shard.
pub(super) fn moved_under(transactions: &Transactions) -> BTreeSet<TxHandle> {
    transactions.handles()
}

/// The incarnation as which the client answers for a removed shard: none that anybody ever relied on.
pub(super) fn incarnation_after(last: Incarnation) -> Incarnation {
    Incarnation(last.0 + 1)
}

/// What the client answers for a removed shard, to a request that asks for an answer.
pub(super) fn answer_of_removed(request: &Request, shard: ShardId, since: Incarnation) -> Option<Response> {
    request.answer_of_removed(shard, since)
}

/// A connection serves the shard: it answers for itself.
pub(super) fn is_back(outbox: &mut Outbox) {
    outbox.is_removed = false;
}

// --- clocks (P79) ---

/// Whether the clock of a shard counts that knows these owners of keys, where the process knows those of the other digest: one
/// that gave keys away may be further ahead than who has them now.
pub(super) fn knows_owners(said: u64, own: u64) -> bool {
    said == own
}
