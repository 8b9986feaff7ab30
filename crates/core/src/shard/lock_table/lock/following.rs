//! Who follows others on a record: a blind call of a chain is granted though others hold what it conflicts with, and is carried out
//! after them (K16 of `docs/chains.md`).
//!
//! Invariant: holders whose claims conflict follow one another, and whoever is followed has voted.

use claret_types::{Bytes, Claims, Effect, Mode};

use super::{Holder, Lock, Owner};
use crate::ids::{AttemptId, ShardId};
use crate::message::Call;
use crate::planted::{Bug, is_planted};
use crate::shard::lock_table::outbox::Outbox;
use crate::shard::phaser::same;

/// A record with more holders is followed on by nobody.
pub(crate) const FOLLOWED_MAX: usize = 8;

/// Nor is one of whose holders one claims more, and who claims more himself follows nobody: claims are compared one by one.
const CLAIMS_MAX: usize = 16;

impl Lock {
    /// What a call that is not admitted claims and does if it follows all that are in its way; `None`: it waits. O(holders, each with its
    /// claims), of which there are a few.
    pub(super) fn to_follow(
        &self,
        owner: Owner,
        call: &Call,
        claims: &Claims,
        seen: Option<&Effect>,
    ) -> Option<(Claims, Option<Effect>)> {
        let decider = owner.follows_at?;
        if self.holders.len() > FOLLOWED_MAX || self.line.is_some() || self.vanished || self.expires {
            return None;
        }
        let is_of_type = self.kind.is_some_and(|kind| same(kind, call.op.type_info()));
        // What it does whatever is there, for others come before it. None: it may not follow.
        let blind = call.op.blind_effect().filter(|_| is_of_type)?;
        let effect = if is_planted(Bug::FollowerLooks) { seen.cloned() } else { Some(blind) };
        // What is there decides nothing, so it claims what it may claim anywhere; with more the record expires.
        let mut footprint = call.op.footprint();
        let modes = footprint.list.iter().fold(0u16, |bits, claim| bits | 1 << claim.mode.0);
        let reserved = call.reserve.iter().flat_map(|reserve| &reserve.list);
        let reserved_modes = reserved.clone().fold(modes, |bits, claim| bits | 1 << claim.mode.0);
        if claims.list.iter().any(|claim| reserved_modes & 1 << claim.mode.0 == 0) {
            return None;
        }
        reserved.for_each(|claim| footprint.push(claim.scope, claim.mode));
        if footprint.list.len() > CLAIMS_MAX {
            return None;
        }
        let mut others = self.holders.iter().filter(|(attempt, _)| **attempt != owner.attempt);
        let may_follow = |holder: &Holder| {
            (leaves_type_and_expiry(holder) || is_planted(Bug::FollowsAnyChange))
                && holder.claims().map(|claims| claims.list.len()).sum::<usize>() <= CLAIMS_MAX
                && (holder.decider == Some(decider) || !self.conflicts(holder, &footprint))
        };
        let has_few = |holder: &Holder| holder.items.len() <= CLAIMS_MAX;
        others.all(|(_, holder)| has_few(holder) && may_follow(holder)).then_some((footprint, effect))
    }

    /// Blind calls draw nothing, and draws of others fit or they would not be granted.
    fn conflicts(&self, holder: &Holder, claims: &Claims) -> bool {
        let modes = &self.kind.expect("somebody holds it").modes;
        holder.claims().any(|held| held.conflict_with(claims, modes))
    }

    /// One was granted a call behind others: notes whom it follows. As [`Self::to_follow`].
    pub(super) fn note_followed(&mut self, attempt: AttemptId) {
        let Some(claims) = self.holders.get(&attempt).and_then(|own| own.items.last()).map(|it| &it.claims)
        else {
            return;
        };
        let others = self.holders.iter().filter(|(other, _)| **other != attempt);
        let conflicting = others.filter(|(_, holder)| self.conflicts(holder, claims));
        let conflicting: Vec<AttemptId> = conflicting.map(|(other, _)| *other).collect();
        let own = self.holders.get_mut(&attempt).expect("it was just granted something");
        if conflicting.is_empty() {
            return;
        }
        self.followers += usize::from(own.follows.is_empty());
        for followed in conflicting {
            if !own.follows(followed) {
                own.follows.push(followed);
            }
        }
    }

    /// A holder has left: it follows nobody, and nobody follows it. O(holders).
    pub(super) fn leave_followers(&mut self, left: AttemptId, outbox: &mut Outbox) {
        if self.followers == 0 {
            return; // Mostly.
        }
        self.followers = 0;
        for (attempt, holder) in &mut self.holders {
            let before = holder.follows.len();
            holder.follows.retain(|followed| *followed != left);
            if holder.follows.is_empty() && before > 0 {
                outbox.say_unled(*attempt);
            }
            self.followers += usize::from(!holder.follows.is_empty());
        }
    }

    /// A holder has voted in a chain that `decider` decides: others may follow it now. Whether it is one.
    pub(in super::super) fn lead(&mut self, attempt: AttemptId, decider: ShardId) -> bool {
        let holder = self.holders.get_mut(&attempt);
        holder.map(|holder| holder.decider = Some(decider)).is_some()
    }

    /// Whom an attempt follows here.
    pub(in super::super) fn followed_by(&self, attempt: AttemptId) -> &[AttemptId] {
        if self.followers == 0 {
            return &[]; // Mostly.
        }
        self.holders.get(&attempt).map_or(&[], |holder| &holder.follows)
    }

    /// # Panics
    /// When somebody follows one that is not there or has not voted.
    pub(super) fn check_followers(&self, key: &Bytes) {
        let mut followers = 0;
        for (attempt, holder) in &self.holders {
            followers += usize::from(!holder.follows.is_empty());
            for followed in &holder.follows {
                let has_voted = self.holders.get(followed).is_some_and(|it| it.decider.is_some());
                assert!(has_voted, "'{key}': {attempt} follows {followed}, which has not voted here");
            }
        }
        assert_eq!(followers, self.followers, "'{key}': who follows others");
    }
}

/// Whether a holder changes neither the type of the record nor when that ends (K16).
fn leaves_type_and_expiry(holder: &Holder) -> bool {
    holder.claims().all(|claims| !claims.have(1 << Mode::EXCLUSIVE.0 | 1 << Mode::EXTEND_EXPIRY.0))
}
