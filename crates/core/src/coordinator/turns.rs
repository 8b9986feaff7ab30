//! Round one: prepares leave all at once, or in turn.
//!
//! At once costs one round trip, and two transactions over the same shards may each be first at one of them. One of
//! the two gives way. If its next attempt did the same, the two, or it and the next one, would meet in the same
//! manner again and again. So from then on its prepares leave in the order of shards, each when the one before
//! it is answered: those that go in turn wait for each other at the first shard that they share, holding nothing
//! at later ones. Participants that have nothing left to lock are asked at once.

use super::{Coordinator, Request};

impl Coordinator {
    /// Begins round one; the participants are listed.
    pub(super) fn begin_prepares(&mut self) {
        if self.in_turn {
            self.parties.sort_by_key(|party| party.shard);
        }
        self.send_prepares();
    }

    /// Sends the prepares that have not left and may.
    pub(super) fn send_prepares(&mut self) {
        if !self.in_turn {
            return (0..self.parties.len()).for_each(|at| self.send_prepare_once(at));
        }
        let mut may_lock = true;
        for at in 0..self.parties.len() {
            let shard = self.parties[at].shard;
            let locks = self.buffered.iter().any(|(to, _)| *to == shard);
            if may_lock || !locks {
                self.send_prepare_once(at);
            }
            may_lock &= !locks || self.parties[at].vote.is_some();
        }
    }

    fn send_prepare_once(&mut self, at: usize) {
        if !self.parties[at].asked {
            self.send_prepare(at);
        }
    }

    pub(super) fn send_prepare(&mut self, at: usize) {
        let attempt = self.attempt();
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
        };
        self.sends.push_back((shard, request));
    }
}
