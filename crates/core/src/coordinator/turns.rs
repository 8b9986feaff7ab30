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

use super::{Coordinator, Party, Request};
use crate::ids::ShardId;

impl Coordinator {
    /// Begins round one; the participants are listed.
    pub(super) fn begin_prepares(&mut self, hot: &[ShardId]) {
        // After the one that is asked alone.
        let begin = u32::from(self.first.is_some());
        let mut turn = begin;
        if self.in_turn {
            self.parties.sort_by_key(|party| party.shard);
        }
        for party in &mut self.parties {
            let locks = self.buffered.iter().any(|(to, _)| *to == party.shard);
            let place = hot.iter().position(|shard| *shard == party.shard);
            party.turn = match place {
                _ if self.first == Some(party.shard) => 0,
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
        let missing = self.parties.iter().filter(|party| party.vote != Some(true));
        let turn = missing.map(|party| party.turn).min().unwrap_or_default();
        for at in 0..self.parties.len() {
            if self.parties[at].turn <= turn && !self.parties[at].asked {
                self.send_prepare(at);
            }
        }
    }

    /// Whether everybody else has voted yes.
    fn is_last(&self, at: usize) -> bool {
        let has_voted = |(other, party): (usize, &Party)| other == at || party.vote == Some(true);
        self.parties.iter().enumerate().all(has_voted)
    }

    pub(super) fn send_prepare(&mut self, at: usize) {
        let (attempt, is_last) = (self.attempt(), self.is_last(at));
        let party = &mut self.parties[at];
        party.asked = true;
        let shard = party.shard;
        let mine = self.buffered.iter().filter(|(to, _)| *to == shard);
        let request = Request::Prepare {
            attempt,
            birth: self.birth,
            participants: self.participants.clone().expect("listed"),
            relies_on: party.granted,
            calls: mine.map(|(_, call)| call.clone()).collect(),
            members: self.members.clone(),
            is_last,
        };
        self.sends.push_back((shard, request));
    }
}
