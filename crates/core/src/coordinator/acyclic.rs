//! Chains, on the side that commits (K1, K2, K6, K8 and K9 of `docs/chains.md`): which commits are chains, in which order, and what
//! the last one's word says.

use std::collections::BTreeSet;

use super::{Coordinator, Delivery, State};
use crate::ids::ShardId;
use crate::planted::{Bug, is_planted};
use crate::switches::Commit;

/// How a transaction commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chaining {
    /// The attempt whose prepares have left is a chain.
    is_chain: bool,
    /// A shard said that it takes no chains, or the process knows of one.
    in_rounds: bool,
    /// How often its prepares were sent again, and nobody had said that it waits.
    resends: u8,
}

/// After so many in vain, the way of its batons is broken.
const RESENDS_MAX: u8 = 3;

impl Coordinator {
    /// The transaction commits in two rounds: the process knows of a shard that takes no chains (K9). To be said before the
    /// commit.
    pub(super) fn commit_in_rounds(&mut self) {
        self.chaining.in_rounds = true;
    }

    /// Whether the attempt whose prepares have left is a chain.
    pub(super) fn is_chain(&self) -> bool {
        self.chaining.is_chain
    }

    /// Of another attempt than this one nothing is known.
    pub(super) fn forget_chain(&mut self) {
        (self.chaining.is_chain, self.chaining.resends) = (false, 0);
    }

    /// Prepares of a chain are sent again. Whether that has been in vain too often, while nobody said that it waits for a lock: then
    /// batons do not arrive, and only the client has another way (K15).
    pub(super) fn is_broken_chain(&mut self) -> bool {
        if !self.is_chain() || self.participants.iter().any(|participant| participant.queued) {
            return false;
        }
        // K15 would mend what these break.
        if is_planted(Bug::BatonSentOnce) || is_planted(Bug::ResentToUnvoted) {
            return false;
        }
        self.chaining.resends = (self.chaining.resends + 1).min(RESENDS_MAX + 1);
        self.chaining.resends > RESENDS_MAX
    }

    /// Whether batons of the attempt got lost again and again.
    pub(super) fn has_lost_batons(&self) -> bool {
        self.chaining.resends > RESENDS_MAX
    }

    /// A shard takes no chains.
    pub(super) fn note_unchained(&mut self) {
        self.chaining.in_rounds |= !is_planted(Bug::UnchainedAgain);
    }

    /// All participants are known, and none is listed: decides whether they are a chain, and brings them into its order (K1, K2).
    pub(super) fn arrange_chain(&mut self, hot: &[ShardId]) {
        let is_wanted = match self.switches.commit {
            Commit::Rounds => false,
            Commit::HotChain => !hot.is_empty(),
            Commit::Chain => true,
        };
        self.chaining.is_chain = is_wanted
            && self.switches.phasing
            && self.switches.delivery == Delivery::Network
            && !self.chaining.in_rounds
            && self.suggested.is_none()
            && self.participants.len() > 1;
        if !self.chaining.is_chain {
            return;
        }
        let first = self.first;
        self.participants.sort_by_key(|participant| {
            let heat = hot.iter().position(|shard| *shard == participant.shard).map_or(0, |at| at + 1);
            (first != Some(participant.shard), heat, participant.shard)
        });
    }

    /// Whether a word of this shard decides a chain: it is the last one on the list.
    pub(super) fn decides(&self, from: ShardId) -> bool {
        let last = self.listed.as_ref().and_then(|listed| listed.last());
        self.is_chain() && last.is_some_and(|last| last.shard == from)
    }

    /// The last one has decided, so all have voted yes. Those who answer something say so themselves (K6). O(calls that waited for
    /// the commit).
    pub(super) fn hear_decision(&mut self) {
        let answering = self.buffered.iter().filter(|(_, it)| it.call.op.returns());
        let answering: BTreeSet<ShardId> = answering.map(|(shard, _)| *shard).collect();
        for participant in &mut self.participants {
            if !answering.contains(&participant.shard) || is_planted(Bug::LastAnswersForAll) {
                participant.vote = Some(true);
                (participant.queued, participant.lost) = (false, false);
            }
        }
    }

    /// A participant has carried it out before the last one's word is here: it heard of the decision itself.
    pub(super) fn hear_applied_early(&mut self, from: ShardId) {
        if self.is_chain() && matches!(self.state, State::Preparing | State::Withdrawing(_)) {
            self.participant(from).applied = true;
        }
    }
}
