//! What a coordinator knows of its shards' incarnations, and what it does when one has lost its memory (P26, P55,
//! traps 3, 8): before a prepare has left it runs the attempt again; afterwards the outcome may be unknown.

use super::{Coordinator, Event, Goal, ParticipantState, State};
use crate::ids::{Incarnation, ShardId, Time};

impl Coordinator {
    /// Names a shard's incarnation as the host learned it with its connection, before anything is sent there, and
    /// again whenever it connects anew: an attempt that relies on an earlier one then restarts instead of committing.
    /// The list then carries it for a shard that is met with the prepare only, so that a refusal that died with
    /// an earlier incarnation cannot be followed by a yes of a later one (trap 3). Not needed where shards live
    /// and die with their coordinators.
    pub fn meet(&mut self, shard: ShardId, incarnation: Incarnation) {
        let known = self.met.iter().find(|(known, _)| *known == shard).map(|(_, incarnation)| *incarnation);
        self.met.retain(|(known, _)| *known != shard);
        self.met.push((shard, known.map_or(incarnation, |known| known.max(incarnation))));
    }

    /// The host connected anew: what has no answer is sent again at once, for it may have been lost with the earlier
    /// connection.
    pub fn send_again(&mut self, now: Time) {
        if self.resend_at.is_some() {
            self.resend(now);
        }
    }

    /// Whether its grants are of an incarnation that is known to be gone.
    pub(super) fn is_removed(&self, participant: &ParticipantState) -> bool {
        let met = self.met.iter().find(|(known, _)| *known == participant.shard);
        met.is_some_and(|(_, incarnation)| {
            participant.incarnation.is_some_and(|relied| relied < *incarnation)
        })
    }

    /// The incarnation that was relied on is gone. One that the host has learned of since stays known.
    pub(super) fn forget_met(&mut self, shard: ShardId) {
        let relied = self.participant(shard).incarnation;
        let is_news = |incarnation: Incarnation| relied.is_some_and(|relied| relied < incarnation);
        self.met.retain(|(known, incarnation)| *known != shard || is_news(*incarnation));
    }

    /// A participant may have voted yes and does not know it, or gave up since another one does not. Only a no that is
    /// certain shows that the attempt is void; where all others voted yes, nobody knows.
    pub(super) fn on_lost_memory(&mut self, now: Time, from: ShardId) {
        let participant = self.participant(from);
        participant.lost = true;
        participant.queued = false;
        if self.nobody_knows() {
            self.end_unknown(now);
        } else if self.state == State::Preparing {
            self.withdraw(now, Goal::GiveWay);
        }
    }

    /// Whether all have voted yes but for those who lost their memory.
    pub(super) fn nobody_knows(&self) -> bool {
        self.participants.iter().all(|participant| participant.lost || participant.vote == Some(true))
    }

    /// Those who voted ask each other and find out, once this attempt is not kept alive any more (P25): one of them may
    /// have applied it.
    pub(super) fn end_unknown(&mut self, now: Time) {
        let attempt = self.attempt();
        self.close_attempt(now, None);
        self.closing.iter_mut().filter(|it| it.attempt == attempt).for_each(|it| it.is_unknown = true);
        self.events.push_back(Event::Unknown);
    }
}
