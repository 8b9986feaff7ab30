//! In turn: in which order the prepares of an attempt leave (P22, P49, P50).
//!
//! Sending all prepares at once costs one round trip, but two transactions over the same shards may each be first at one of them. One
//! of the two gives way. If its next attempt did the same, it would meet the other, or the next one, in the same way again and again.
//! So from then on its prepares leave in the order of shards, each when the one before it is answered. Transactions that go in turn
//! wait for each other at the first shard that they share, and hold nothing at later ones. Participants that have nothing left to lock
//! are asked at once.
//!
//! Shards with hot records come after all others, in turn, the hottest last (`contention`). The participant that is asked when all
//! others have voted yes hears so, and decides. A shard that rests is asked before all others, alone (P50).

mod contention;

pub use contention::Contention;

use crate::coordinator::calls::Calls;
use crate::coordinator::participants::Participants;
use crate::ids::ShardId;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::coordinator) struct Turns {
    /// An earlier attempt gave way between prepares: they leave in turn, so that two that met do not meet again.
    in_turn: bool,
    /// Asked alone, before all others (P50).
    first: Option<ShardId>,
}

impl Turns {
    /// From now on prepares of the transaction leave in turn.
    pub(in crate::coordinator) fn go_in_turn(&mut self) {
        self.in_turn = true;
    }

    /// This shard is asked alone, before all others (P50); none is, if there is none.
    pub(in crate::coordinator) fn ask_first(&mut self, shard: Option<ShardId>) {
        self.first = shard;
    }

    /// Who is asked alone, before all others.
    pub(in crate::coordinator) fn first(&self) -> Option<ShardId> {
        self.first
    }

    /// Says when the prepare of each participant leaves; `hot` shards come last, in this order.
    pub(in crate::coordinator) fn give(
        &self,
        participants: &mut Participants,
        calls: &Calls,
        hot: &[ShardId],
    ) {
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

    /// Another transaction begins.
    pub(in crate::coordinator) fn reset(&mut self) {
        *self = Turns::default();
    }
}
