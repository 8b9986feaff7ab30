//! What planted bugs do in a client process (`planted.rs`). Without the feature all of it is what is right.

use std::collections::BTreeMap;

use super::transactions::Entry;
use crate::coordinator::Coordinator;
use crate::ids::{AttemptId, Incarnation, Sequence, ShardId};
use crate::message::{Request, Response};
use crate::planted::{Bug, Planted};

/// Whose coordinator serves whom now: the worst that a table could take for a transaction that is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Aliases(BTreeMap<u64, u64>);

impl Aliases {
    pub(super) fn note(&mut self, planted: Planted, before: Sequence, now: Sequence) {
        if before != now && planted.is(Bug::RenewedTakesStale) {
            self.0.insert(before.0, now.0);
        }
    }

    pub(super) fn resolve(&self, planted: Planted, mut tx: u64) -> u64 {
        while planted.is(Bug::RenewedTakesStale)
            && let Some(heir) = self.0.get(&tx)
        {
            tx = *heir;
        }
        tx
    }
}

/// The floor, or one above it: [`Bug::FloorPassesOpen`].
pub(super) fn floor(planted: Planted, floor: Sequence) -> Sequence {
    Sequence(floor.0 + u64::from(planted.is(Bug::FloorPassesOpen)))
}

/// What a heartbeat lists: all that is live, or of those that wait for nothing none, [`Bug::HeartbeatOmitsIdle`].
pub(super) fn listed(
    planted: Planted,
    mut live: Vec<AttemptId>,
    waits: impl Fn(&AttemptId) -> bool,
) -> Vec<AttemptId> {
    if planted.is(Bug::HeartbeatOmitsIdle) {
        live.retain(waits);
    }
    live
}

/// The incarnations that a transaction begins with: all that are known, or none, [`Bug::RecycledUnmet`].
pub(super) fn met(planted: Planted, met: &[(ShardId, Incarnation)]) -> &[(ShardId, Incarnation)] {
    if planted.is(Bug::RecycledUnmet) { &[] } else { met }
}

/// Makes an entry as good as new, but for [`Bug::RecycledStaysEnded`] and [`Bug::RecycledKeepsTimer`].
pub(super) fn reset(planted: Planted, entry: &mut Entry) {
    entry.ended &= planted.is(Bug::RecycledStaysEnded);
    entry.is_ready = false;
    entry.timer = entry.timer.filter(|_| planted.is(Bug::RecycledKeepsTimer));
}

/// Whether the table may forget a transaction: when all shards know its end, or at once, [`Bug::ForgottenWhenTold`].
pub(super) fn is_over(planted: Planted, coordinator: &Coordinator) -> bool {
    coordinator.is_over() || planted.is(Bug::ForgottenWhenTold)
}

/// The incarnation as which a client answers for a shard that is gone: one after the last, or the last itself,
/// [`Bug::GoneKeepsIncarnation`].
pub(super) fn after(planted: Planted, last: Incarnation) -> Incarnation {
    Incarnation(last.0 + u64::from(!planted.is(Bug::GoneKeepsIncarnation)))
}

/// What a client answers for a shard that is gone; nothing, [`Bug::GoneUnanswered`].
pub(super) fn answer_of_the_gone(
    planted: Planted,
    request: &Request,
    shard: ShardId,
    since: Incarnation,
) -> Option<Response> {
    request.answer_of_the_gone(shard, since).filter(|_| !planted.is(Bug::GoneUnanswered))
}

/// Whether an outbox is cleared when its connection is gone; not with [`Bug::OutboxOutlivesConnection`].
pub(super) fn clears(planted: Planted) -> bool {
    !planted.is(Bug::OutboxOutlivesConnection)
}

/// Whether it is not clear which request of a refused frame is to blame: there are several. With [`Bug::FirstIsBlamed`] it
/// is the first, and with [`Bug::RefusedAloneAgain`] never clear.
pub(super) fn is_suspect(planted: Planted, requests: &[Request]) -> bool {
    (requests.len() > 1 || planted.is(Bug::RefusedAloneAgain)) && !planted.is(Bug::FirstIsBlamed)
}

/// Whether heartbeats of a refused frame are sent again: [`Bug::HeartbeatSentAgain`].
pub(super) fn heartbeats_again(planted: Planted) -> bool {
    planted.is(Bug::HeartbeatSentAgain)
}
