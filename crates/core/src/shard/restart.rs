//! Restarting a shard as another incarnation (P26, traps 3, 5, 8): its process restarted, or another took its place.
//!
//! The host says what is lost. In any case attempts that have not voted are gone without a refusal, because nobody
//! may take an unrecorded no for a recorded one. Their coordinators learn it from the new incarnation. Invariant:
//! with [`Survives::Votes`] every yes and every no that was written stays written.

use crate::backup::Change;

use super::lock_table::Fate;
use super::{AllDeparted, AttemptId, Awaited, Batons, Incarnation, Shard, Time, VecDeque};

/// What a restart leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// Records, votes with the locks that they keep, decisions and low-water marks: what a log or a replica had, which was
    /// written before anybody heard of it. No transaction is torn.
    Votes,
    /// Records alone. A transaction over several shards may be torn (`docs/protocol.md`, "What is promised").
    Records,
    /// Nothing.
    Nothing,
}

impl Shard {
    /// Goes on as another incarnation, which was never used before. O(everything that is held).
    pub fn restart(&mut self, now: Time, incarnation: Incarnation, survives: Survives) {
        let incarnation = self.incarnation.next(incarnation);
        let mut fresh = Shard::new(self.id, incarnation, self.switches, self.limits);
        fresh.attach(self.table.external());
        fresh.horizon = std::mem::take(&mut self.horizon);
        let old = std::mem::replace(self, fresh);
        match survives {
            // Clocks are among what was written.
            Survives::Votes => {
                let unique = self.table.unique();
                let horizon = std::mem::take(&mut self.horizon);
                *self = Shard { incarnation, horizon, outputs: VecDeque::new(), ..old };
                self.table.count_unique_from(unique);
                self.keep_votes(now);
                self.tell_replicas(|_| Some(Change::Incarnation(incarnation)));
            }
            Survives::Records => {
                self.begin_clock(now);
                old.table.let_all_end();
                self.table.load(old.table.into_contents());
            }
            Survives::Nothing => {
                self.begin_clock(now);
                old.table.let_all_end();
            }
        }
    }

    /// Drops whatever has not voted, and begins the leases of the rest anew.
    fn keep_votes(&mut self, now: Time) {
        let mut open: Vec<AttemptId> = Vec::new();
        let mut voted: Vec<AttemptId> = Vec::new();
        // In any order: both are sorted.
        for (attempt, participant) in &self.attempts {
            if participant.is_prepared() { &mut voted } else { &mut open }.push(*attempt);
        }
        open.sort_unstable();
        voted.sort_unstable();
        for attempt in &open {
            let participant = &self.attempts[attempt];
            for record in participant.blocked.values().filter_map(|blocked| blocked.record) {
                self.table.cancel(record, participant.owner);
            }
        }
        for attempt in open {
            let participant = self.attempts.remove(&attempt).expect("just seen");
            self.recount(participant.account, participant.bytes, 0);
            // Nobody waits any more, so nobody is let in.
            let waited = participant.blocked.values().filter_map(|blocked| blocked.record);
            for record in participant.held.iter().copied().chain(waited) {
                self.table.release(now, record, attempt, Fate::Drop);
            }
        }
        self.deadlines.clear();
        self.put_off.clear();
        self.deserted.clear();
        self.batons = Batons::default();
        self.awaited = Awaited::default();
        self.held_off = 0;
        // Whoever comes again is greeted again; whoever does not is forgotten in time.
        self.departed = AllDeparted::default();
        for (session, history) in &mut self.sessions {
            (history.connection, history.met_as) = (0, None);
            history.close_all();
            self.departed.note_stranger(now, *session);
        }
        for attempt in voted {
            let place = (attempt.tx.sequence, attempt.attempt);
            self.sessions.entry(attempt.tx.session).or_default().open(place);
            self.participant(attempt).deadline = None;
            self.renew(now, attempt);
        }
        self.table.outbox().drop_notices();
    }
}
