//! The round of votes of an attempt: who is told of whom, whose calls commit, in which order prepares leave, and the answers that came
//! with votes.
//!
//! Sending all prepares at once costs one round trip, but two transactions over the same shards may each be first at one of them. One
//! of the two gives way. If its next attempt did the same, it would meet the other, or the next one, in the same way again and again.
//! So from then on its prepares leave in the order of shards, each when the one before it is answered. Transactions that go in turn
//! wait for each other at the first shard that they share, and hold nothing at later ones. Participants that have nothing left to lock
//! are asked at once.
//!
//! Shards with hot records come after all others, in turn, the hottest last (`contention.rs`). The participant that is asked when all
//! others have voted yes hears so, and decides. A shard that rests is asked before all others, alone (P50).

use claret_types::Reply;

use super::calls::Calls;
use super::participants::Participants;
use crate::ids::{CallNo, ShardId};
use crate::message::{self, Members};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// All participants, as each is told of them. Set from the first prepare to the next attempt.
    listed: Option<message::Participants>,
    /// Whose calls commit. All until the prepare leaves.
    members: Members,
    /// Answers that came with votes, until all have voted.
    replies: Vec<(CallNo, Reply)>,
    /// An earlier attempt gave way between prepares: they leave in turn, so that two that met do not meet again.
    in_turn: bool,
    /// Asked alone, before all others (P50).
    first: Option<ShardId>,
}

/// Room for so many answers is kept.
const ROOM_MAX: usize = 64;

impl Default for Round {
    fn default() -> Self {
        Round { listed: None, members: Members::All, replies: Vec::new(), in_turn: false, first: None }
    }
}

impl Round {
    /// The calls of these commit, those of others are only checked.
    pub(super) fn commit_for(&mut self, members: Members) {
        self.members = members;
    }

    /// Whose calls commit.
    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// The participants are these.
    pub(super) fn list(&mut self, listed: message::Participants) {
        self.listed = Some(listed);
    }

    /// The participants, once the first prepare has left.
    pub(super) fn listed(&self) -> Option<&message::Participants> {
        self.listed.as_ref()
    }

    // --- the order ---

    /// From now on prepares of the transaction leave in turn.
    pub(super) fn go_in_turn(&mut self) {
        self.in_turn = true;
    }

    /// This shard is asked alone, before all others (P50); none is, if there is none.
    pub(super) fn ask_first(&mut self, shard: Option<ShardId>) {
        self.first = shard;
    }

    /// Who is asked alone, before all others.
    pub(super) fn first(&self) -> Option<ShardId> {
        self.first
    }

    /// When the prepare of each participant leaves; `hot` shards come last, in this order.
    pub(super) fn give_turns(&self, participants: &mut Participants, calls: &Calls, hot: &[ShardId]) {
        // After the one that is asked alone.
        let begin = u32::from(self.first.is_some());
        let mut turn = begin;
        if self.in_turn {
            participants.sort_by_key(|shard| shard);
        }
        participants.give_turns(|shard| {
            let locks = calls.has_buffered_at(shard);
            let place = hot.iter().position(|hot| *hot == shard);
            let own = match place {
                _ if self.first == Some(shard) => 0,
                Some(place) => u32::MAX - (hot.len() - place) as u32,
                None if locks => turn,
                None => begin,
            };
            turn += u32::from(self.in_turn && locks && place.is_none());
            own
        });
    }

    // --- answers ---

    /// Answers of one shard more. There is room for those of all others from the first on.
    pub(super) fn add_replies(
        &mut self,
        replies: Vec<(CallNo, Reply)>,
        participants: &Participants,
        calls: &Calls,
    ) {
        if replies.is_empty() {
            return;
        }
        if participants.len() == 1 {
            self.replies = replies;
            return;
        }
        if self.replies.is_empty() {
            self.replies.reserve_exact(calls.count_returning());
        }
        self.replies.extend(replies);
    }

    /// All that was answered with votes.
    pub(super) fn take_replies(&mut self) -> Vec<(CallNo, Reply)> {
        std::mem::take(&mut self.replies)
    }

    // --- the next one ---

    /// The next attempt begins.
    pub(super) fn begin_next(&mut self) {
        (self.listed, self.members) = (None, Members::All);
        self.replies.clear();
    }

    /// Another transaction begins.
    pub(super) fn reset(&mut self) {
        self.begin_next();
        self.replies.shrink_to(ROOM_MAX);
        (self.in_turn, self.first) = (false, None);
    }
}
