//! Who follows others on a record: a blind call of a chain is granted though others hold what it conflicts with, and is carried out
//! after them (K16 of `docs/chains.md`).
//!
//! Invariant: whoever is followed has voted.

use claret_types::{Claims, Effect, Mode};

use crate::ids::{AttemptId, ShardId, Time};
use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::lock::admitting::{Behind, Way};
use crate::shard::lock_table::lock::{Holder, Lock, Owner};
use crate::shard::lock_table::{LockTable, RecordIx};
use crate::shard::phaser::same;

/// Nor is one of whose holders one claims more, and who claims more himself follows nobody: claims are compared one by one.
const CLAIMS_MAX: usize = 16;

/// The owner may follow those who have voted and whom this shard decides (K16).
pub(super) type Pass = Option<ShardId>;

/// Who decides the chain in which the holder has voted, if others may follow it.
pub(super) type Mark = Option<ShardId>;

/// Chains, at a lock.
pub(in crate::shard::lock_table::lock) struct Chain;

impl Way for Chain {
    /// O(holders, each with its claims), of which there are a few.
    fn admits(
        lock: &Lock,
        owner: Owner,
        call: &Call,
        claims: &Claims,
        seen: Option<&Effect>,
    ) -> Option<Behind> {
        let decider = owner.pass.chain?;
        if lock.holders.len() > LockTable::FOLLOWED_MAX
            || lock.line.is_some()
            || lock.vanished
            || lock.expires
        {
            return None;
        }
        let is_of_type = lock.kind.is_some_and(|kind| same(kind, call.op.type_info()));
        // What it does whatever is there, for others come before it. None: it may not follow.
        let blind = call.op.blind_effect().filter(|_| is_of_type)?;
        let effect = if is_planted(Bug::FollowerLooks) { seen.cloned() } else { Some(blind) };
        let footprint = footprint_of(call, claims)?;
        let mut others = lock.holders.iter().filter(|(attempt, _)| **attempt != owner.attempt);
        let may_follow = |holder: &Holder| {
            (leaves_type_and_expiry(holder) || is_planted(Bug::FollowsAnyChange))
                && holder.claims().map(|claims| claims.list.len()).sum::<usize>() <= CLAIMS_MAX
                && (holder.mark.chain == Some(decider) || !conflicts(lock, holder, &footprint))
        };
        let has_few = |holder: &Holder| holder.items.len() <= CLAIMS_MAX;
        if !others.all(|(_, holder)| has_few(holder) && may_follow(holder)) {
            return None;
        }
        let others = lock.holders.iter().filter(|(attempt, _)| **attempt != owner.attempt);
        let conflicting = others.filter(|(_, holder)| conflicts(lock, holder, &footprint));
        let others = conflicting.map(|(other, _)| *other).collect();
        Some(Behind { claims: footprint, effect, others })
    }
}

/// What is there decides nothing, so a call claims what it may claim anywhere; `None`: with more the record expires, or it is too much.
fn footprint_of(call: &Call, claims: &Claims) -> Option<Claims> {
    let mut footprint = call.op.footprint();
    let modes = footprint.list.iter().fold(0u16, |bits, claim| bits | 1 << claim.mode.0);
    let reserved = call.reserve.iter().flat_map(|reserve| &reserve.list);
    let reserved_modes = reserved.clone().fold(modes, |bits, claim| bits | 1 << claim.mode.0);
    if claims.list.iter().any(|claim| reserved_modes & 1 << claim.mode.0 == 0) {
        return None;
    }
    reserved.for_each(|claim| footprint.push(claim.scope, claim.mode));
    (footprint.list.len() <= CLAIMS_MAX).then_some(footprint)
}

/// Blind calls draw nothing, and draws of others fit or they would not be granted.
fn conflicts(lock: &Lock, holder: &Holder, claims: &Claims) -> bool {
    let modes = &lock.kind.expect("somebody holds it").modes;
    holder.is_in_the_way_of(modes, claims)
}

/// Whether a holder changes neither the type of the record nor when that ends (K16).
fn leaves_type_and_expiry(holder: &Holder) -> bool {
    holder.claims().all(|claims| !claims.have(1 << Mode::EXCLUSIVE.0 | 1 << Mode::EXTEND_EXPIRY.0))
}

/// Whom an attempt follows on a record.
fn before(lock: &Lock, attempt: AttemptId) -> &[AttemptId] {
    if lock.behind == 0 {
        return &[]; // Mostly.
    }
    lock.holders.get(&attempt).map_or(&[], |holder| &holder.behind)
}

impl LockTable {
    /// A record with more holders is followed on by nobody.
    pub(crate) const FOLLOWED_MAX: usize = 8;

    /// An attempt has voted in a chain that `decider` decides: those may follow it now that waited for its records.
    pub(crate) fn lead(&mut self, now: Time, held: &[RecordIx], attempt: AttemptId, decider: ShardId) {
        for record in held {
            let Some((led, mut around)) = self.at(*record) else { continue };
            let holder = led.lock.as_mut().and_then(|lock| lock.holders.get_mut(&attempt));
            if holder.map(|holder| holder.mark.chain = Some(decider)).is_some() {
                led.settle(&mut around, now);
            }
        }
    }

    /// Whom an attempt follows on these records, each once. O(records).
    pub(crate) fn followed(&self, held: &[RecordIx], attempt: AttemptId) -> Vec<AttemptId> {
        let locks = held.iter().filter_map(|record| self.records().lock(*record));
        let mut all: Vec<AttemptId> = locks.flat_map(|lock| before(lock, attempt)).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// # Panics
    /// When somebody follows one that has not voted.
    pub(crate) fn check_followers(&self) {
        for lock in self.records().iter().filter_map(|record| record.lock.as_ref()) {
            for (attempt, holder) in &lock.holders {
                for followed in &holder.behind {
                    let has_voted = lock.holders.get(followed).is_some_and(|it| it.mark.chain.is_some());
                    assert!(has_voted, "{attempt} follows {followed}, which has not voted here");
                }
            }
        }
    }
}
