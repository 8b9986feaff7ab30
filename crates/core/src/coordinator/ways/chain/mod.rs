//! Chains, on the side that commits (K1, K2, K6, K8 and K9 of `docs/chains.md`): which commits are chains, in which order, and what
//! the last one's word says.

use std::collections::BTreeSet;

use super::{Course, Heard, Leaving, Sends, Way};
use crate::coordinator::calls::Calls;
use crate::coordinator::participants::{Participant, Participants};
use crate::ids::ShardId;
use crate::message::Response;
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;
use crate::ways::chain::{self, Switch};

/// How an attempt goes on in a chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// The attempt whose prepares have left is a chain.
    is_chain: bool,
    /// How often its prepares were sent again, and nobody had said that it waits.
    resends: u8,
}

/// After so many in vain, the way of its tokens is broken.
const RESENDS_MAX: u8 = 3;

impl Way for Chain {
    fn sends(&mut self, leaving: &mut Leaving<'_>) -> Sends {
        match leaving {
            Leaving::Prepares { switches, is_stamped, in_rounds, participants, first, hot } => {
                let in_rounds = *in_rounds && !is_planted(Bug::UnchainedAgain);
                self.is_chain =
                    !*is_stamped && !in_rounds && is_wanted(switches, hot) && participants.len() > 1;
                if !self.is_chain {
                    return Sends::AsInRounds;
                }
                Sends::Prepares(arrange(participants, *first, hot))
            }
            _ if !self.is_chain => Sends::AsInRounds,
            Leaving::PreparesAgain(participants) if self.is_broken(participants) => Sends::GivesUp,
            Leaving::PreparesAgain(_) if is_planted(Bug::ResentToUnvoted) => Sends::AsInRounds,
            // The token may be lost behind a vote that is known (K8).
            Leaving::PreparesAgain(_) => Sends::ToAll,
            // Where the last one has decided, it tells the others itself (K6).
            Leaving::Decision(participants)
                if participants.iter().last().is_some_and(Participant::has_applied) =>
            {
                Sends::Nothing
            }
            Leaving::Decision(_) => Sends::AsInRounds,
        }
    }

    fn hears(&mut self, heard: &mut Heard<'_>) -> bool {
        let Heard { from, response, is_voting: true, listed, participants, calls } = heard else {
            return false;
        };
        match response {
            Response::Committed { .. } if !participants.of(*from).has_voted() => {
                let is_last = listed.and_then(|listed| listed.last()).is_some_and(|last| last.shard == *from);
                if self.is_chain && is_last {
                    hear_decision(*from, participants, calls);
                }
                false
            }
            // The last one has told it, whose own word is not here yet.
            Response::Applied { .. } if self.is_chain => {
                let _ = participants.of(*from).apply();
                true
            }
            _ => false,
        }
    }
}

impl Chain {
    /// Prepares are sent again. Whether that has been in vain too often, while nobody said that it waits for a lock: then tokens do not
    /// arrive, and only the client has another way (K15).
    fn is_broken(&mut self, participants: &Participants) -> bool {
        if participants.iter().any(Participant::is_queued) {
            return false;
        }
        // K15 would mend what these break.
        if is_planted(Bug::TokenSentOnce) || is_planted(Bug::ResentToUnvoted) {
            return false;
        }
        self.resends = (self.resends + 1).min(RESENDS_MAX + 1);
        self.resends > RESENDS_MAX
    }
}

/// Whether chains are switched on for a commit with these hot shards (K1).
fn is_wanted(switches: &Switches, hot: &[ShardId]) -> bool {
    match switches.ways().chain {
        Switch::Never => false,
        Switch::Hot => !hot.is_empty(),
        Switch::Always => true,
    }
}

/// Brings the participants into the order of the chain, the hottest last (K2). They hold nothing before the token comes (K3).
fn arrange(participants: &mut Participants, first: Option<ShardId>, hot: &[ShardId]) -> Course {
    participants.sort_by_key(|shard| {
        let heat = hot.iter().position(|hot| *hot == shard).map_or(0, |at| at + 1);
        (first != Some(shard), heat, shard)
    });
    let decider = participants.at(participants.len() - 1).shard();
    Course { decider, words: chain::words() }
}

/// The last one has decided, so all others have voted yes, too. Those who answer something say so themselves (K6).
fn hear_decision(last: ShardId, participants: &mut Participants, calls: &Calls) {
    let answering = calls.buffered().iter().filter(|(_, it)| it.call.op.returns());
    let answering: BTreeSet<ShardId> = answering.map(|(shard, _)| *shard).collect();
    for at in 0..participants.len() {
        let participant = participants.at_mut(at);
        let shard = participant.shard();
        if shard != last && (!answering.contains(&shard) || is_planted(Bug::LastAnswersForAll)) {
            participant.vote_yes(false);
        }
    }
}
