//! Round one: in which order prepares leave.
//!
//! Sending all at once costs one round trip, but two transactions over the same shards may each be first at one of
//! them. One of the two gives way. If its next attempt did the same, it would meet the other, or the next one, in the
//! same way again and again. So from then on its prepares leave in the order of shards, each when the one before it
//! is answered. Transactions that go in turn wait for each other at the first shard that they share, and hold nothing
//! at later ones. Participants that have nothing left to lock are asked at once.
//!
//! Shards with hot records come after all others, in turn, the hottest last (`contention.rs`). The participant that is
//! asked when all others have voted yes hears so, and decides.
//!
//! A shard that rests is asked before all others, alone (P50).

use claret_types::Bytes;

use super::{Coordinator, ParticipantState, Request};
use crate::ids::{CallNo, ShardId};
use crate::message::KeyedCall;

impl Coordinator {
    /// Begins round one; the participants are listed.
    pub(super) fn begin_prepares(&mut self, hot: &[ShardId]) {
        // A stamped attempt holds nothing that others wait for (P83).
        let hot = if self.suggested.is_some() { &[] } else { hot };
        if self.is_chain() {
            // They hold nothing before the baton comes (K3).
            self.participants.iter_mut().for_each(|participant| participant.turn = 0);
            return self.send_prepares();
        }
        // After the one that is asked alone.
        let begin = u32::from(self.first.is_some());
        let mut turn = begin;
        if self.in_turn {
            self.participants.sort_by_key(|participant| participant.shard);
        }
        for participant in &mut self.participants {
            let locks = self.buffered.iter().any(|(to, _)| *to == participant.shard);
            let place = hot.iter().position(|shard| *shard == participant.shard);
            participant.turn = match place {
                _ if self.first == Some(participant.shard) => 0,
                Some(place) => u32::MAX - (hot.len() - place) as u32,
                None if locks => turn,
                None => begin,
            };
            turn += u32::from(self.in_turn && locks && place.is_none());
        }
        self.send_prepares();
    }

    /// Sends the prepares that have not left and may.
    pub(super) fn send_prepares(&mut self) {
        if self.participants.iter().all(|participant| participant.asked) {
            return;
        }
        let missing = self.participants.iter().filter(|participant| participant.vote != Some(true));
        let turn = missing.map(|participant| participant.turn).min().unwrap_or_default();
        for at in 0..self.participants.len() {
            if self.participants[at].turn <= turn && !self.participants[at].asked {
                self.send_prepare(at);
            }
        }
    }

    // --- what contention asks and arranges (`contention.rs`) ---

    /// Whether the commit asks this shard.
    pub(super) fn will_ask(&self, shard: ShardId) -> bool {
        self.participants.iter().any(|it| it.shard == shard)
            || self.buffered.iter().any(|(to, _)| *to == shard)
    }

    /// This shard is asked alone, before all others (P50); none is, if there is none.
    pub(super) fn ask_first(&mut self, shard: Option<ShardId>) {
        self.first = shard;
    }

    /// Calls that wait for the commit, in the order in which they are to be locked.
    pub(super) fn buffered_calls(&self) -> &[(ShardId, KeyedCall)] {
        &self.buffered
    }

    /// Brings the calls that wait for the commit into the order of their keys' ranks. Calls on one key keep theirs.
    pub(super) fn order_buffered<R: Ord>(&mut self, mut rank: impl FnMut(&Bytes) -> R) {
        self.buffered.sort_by_cached_key(|(_, call)| rank(&call.key));
    }

    /// The calls that wait for the commit, the last first.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn reverse_buffered(&mut self) {
        self.buffered.reverse();
    }

    /// The record of a call that was sent to a shard and is not answered, if it is among the latest.
    pub(super) fn executed_lately(&self, at: ShardId, no: CallNo, looked_at_max: usize) -> Option<&Bytes> {
        let mut latest = self.outstanding.iter().rev().take(looked_at_max);
        let found = latest.find(|it| it.shard == at && it.calls.iter().any(|call| call.no == no));
        found.map(|it| &it.key)
    }

    /// Whether a shard that says that somebody waits says so of its prepare, for the first time.
    pub(super) fn is_first_wait_of_prepare(&self, at: ShardId) -> bool {
        self.participants.iter().any(|it| it.shard == at && it.asked && !it.queued)
    }

    /// Whether the prepare at a shard may wait there, and for this call, if one is named. O(calls that wait for the commit).
    pub(super) fn may_wait_in_prepare(&self, at: ShardId, no: Option<CallNo>) -> bool {
        let is_open = self.participants.iter().any(|it| it.shard == at && it.asked && it.vote.is_none());
        let is_of_prepare =
            |no: CallNo| self.buffered.iter().any(|(shard, it)| *shard == at && it.call.no == no);
        is_open && no.is_none_or(is_of_prepare)
    }

    // --- sending ---

    /// Whether everybody else has voted yes.
    fn is_last(&self, at: usize) -> bool {
        let has_voted =
            |(other, participant): (usize, &ParticipantState)| other == at || participant.vote == Some(true);
        self.participants.iter().enumerate().all(has_voted)
    }

    pub(super) fn send_prepare(&mut self, at: usize) {
        let (attempt, asks) = (self.attempt(), self.asks(self.is_last(at)));
        let (relies_on, undone) = (self.relies_on(at), self.undone_at(at));
        let participant = &mut self.participants[at];
        participant.asked = true;
        let shard = participant.shard;
        let mine = self.buffered.iter().filter(|(to, _)| *to == shard);
        let request = Request::Prepare {
            attempt,
            birth: self.birth,
            participants: self.listed.clone().expect("listed"),
            relies_on,
            calls: mine.map(|(_, call)| call.clone()).collect(),
            members: self.members.clone(),
            asks,
            undone: undone.into(),
        };
        self.sends.push_back((shard, request));
    }
}
