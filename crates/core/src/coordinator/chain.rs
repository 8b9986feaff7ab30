//! Chains, on the side that commits (K1, K2, K6, K8 and K9 of `docs/chains.md`): which commits are chains, in which order, and what
//! the last one's word says.

use super::participants::{Participant, Participants};
use crate::ids::ShardId;
use crate::message;
use crate::planted::{Bug, is_planted};
use crate::switches::{Commit, Delivery, Switches};

/// How a transaction commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// The attempt whose prepares have left is a chain.
    is_chain: bool,
    /// A shard said that it takes no chains, or the process knows of one.
    in_rounds: bool,
    /// How often its prepares were sent again, and nobody had said that it waits.
    resends: u8,
}

/// After so many in vain, the way of its batons is broken.
const RESENDS_MAX: u8 = 3;

impl Chain {
    /// The transaction commits in two rounds: the process knows of a shard that takes no chains (K9). To be said before the
    /// commit.
    pub(super) fn commit_in_rounds(&mut self) {
        self.in_rounds = true;
    }

    /// Whether the attempt whose prepares have left is a chain.
    pub(super) fn is_chain(&self) -> bool {
        self.is_chain
    }

    /// Prepares of a chain are sent again. Whether that has been in vain too often, while nobody said that it waits for a lock: then
    /// batons do not arrive, and only the client has another way (K15).
    pub(super) fn is_broken(&mut self, participants: &Participants) -> bool {
        if !self.is_chain || participants.iter().any(Participant::is_queued) {
            return false;
        }
        // K15 would mend what these break.
        if is_planted(Bug::BatonSentOnce) || is_planted(Bug::ResentToUnvoted) {
            return false;
        }
        self.resends = (self.resends + 1).min(RESENDS_MAX + 1);
        self.resends > RESENDS_MAX
    }

    /// Whether batons of the attempt got lost again and again.
    pub(super) fn has_lost_batons(&self) -> bool {
        self.resends > RESENDS_MAX
    }

    /// A shard takes no chains.
    pub(super) fn note_unchained(&mut self) {
        self.in_rounds |= !is_planted(Bug::UnchainedAgain);
    }

    /// All participants are known, and none is listed: decides whether they are a chain, and brings them into its order (K1, K2).
    pub(super) fn arrange(
        &mut self,
        switches: &Switches,
        is_stamped: bool,
        participants: &mut Participants,
        (first, hot): (Option<ShardId>, &[ShardId]),
    ) {
        let is_wanted = match switches.commit {
            Commit::Rounds => false,
            Commit::HotChain => !hot.is_empty(),
            Commit::Chain => true,
        };
        self.is_chain = is_wanted
            && switches.phasing
            && switches.delivery == Delivery::Network
            && !self.in_rounds
            && !is_stamped
            && participants.len() > 1;
        if self.is_chain {
            participants.sort_by_key(|shard| {
                let heat = hot.iter().position(|hot| *hot == shard).map_or(0, |at| at + 1);
                (first != Some(shard), heat, shard)
            });
        }
    }

    /// Whether a word of this shard decides a chain: it is the last one on the list.
    pub(super) fn is_decided_by(&self, from: ShardId, listed: Option<&message::Participants>) -> bool {
        self.is_chain && listed.and_then(|listed| listed.last()).is_some_and(|last| last.shard == from)
    }

    /// Of another attempt than this one nothing is known.
    pub(super) fn begin_next(&mut self) {
        (self.is_chain, self.resends) = (false, 0);
    }
}
