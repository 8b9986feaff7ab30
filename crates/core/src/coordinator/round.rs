//! The round of votes of an attempt: who is told of whom, whose calls commit, and the answers that came with votes. In which order prepares
//! leave, `ways/in_turn/` says.

use std::collections::BTreeSet;

use claret_types::Reply;

use super::calls::Calls;
use super::participants::Participants;
use crate::ids::CallNo;
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
}

/// Room for so many answers is kept.
const ROOM_MAX: usize = 64;

impl Default for Round {
    fn default() -> Self {
        Round { listed: None, members: Members::All, replies: Vec::new() }
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

    /// Leaves out what was answered with a vote.
    pub(super) fn leave_out_known(&self, replies: &mut Vec<(CallNo, Reply)>) {
        let known: BTreeSet<CallNo> = self.replies.iter().map(|(no, _)| *no).collect();
        replies.retain(|(no, _)| !known.contains(no));
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
    }
}
