//! The lives of a shard: what it tells its replicas, how one of them goes on as the shard (S3, S4, S6, S8 of `docs/replication.md`), and
//! how it restarts (P26, traps 3, 5, 8).
//!
//! Whoever is promoted stands where the shard stood: what had voted holds its locks again, stands in its lines again where it
//! voted or where it is final, and has said what it had said. Nothing is carried out before the first input: then the records are
//! there, and the host takes what is done to them as ever.
//!
//! Of a restart the host says what is lost. In any case attempts that have not voted are gone without a refusal, because nobody
//! may take an unrecorded no for a recorded one. Their coordinators learn it from the new incarnation. Invariant:
//! with [`Survives::Votes`] every yes and every no that was written stays written.

use std::collections::BTreeMap;

use claret_types::{Bytes, TypeInfo};

use super::lock_table::Fate;
use super::machine::Shard;
use super::participant::{Participant, Place};
use super::step::Step;
use super::ways::Ways;
use crate::backup::{Backup, Change, Changes, HeldRecord, Vote};
use crate::ids::{AttemptId, Incarnation, Time, Timestamp};
use crate::limits::Limits;
use crate::message::Output;
use crate::planted::{Bug, is_planted};
use crate::records::Records;
use crate::switches::Switches;

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

/// Replicas.
impl Shard {
    /// From now on changes are told, and what counts waits for [`Self::replicated`]. All that there is comes with the next batch, also
    /// if it was told before: a replica may have come that knows nothing of it.
    pub fn replicate(&mut self) {
        self.parts().out.replicate();
        self.tell_used();
        let changes: Changes = self.all_changes().collect();
        self.parts().out.replicate().tell_all(changes);
    }

    /// Whether it has replicas for which it waits.
    pub fn is_replicated(&self) -> bool {
        self.view().out.is_replicated()
    }

    /// The next batch for the replicas, and its number; `None` if nothing was written and nothing waits for an answer of theirs.
    pub fn poll_changes(&mut self) -> Option<(u64, Changes)> {
        self.tell_used();
        self.parts().out.replication_mut()?.poll_changes()
    }

    /// What is written here now counts when the replicas have the batch of this number, which is going to be there, if only an empty one
    /// (S5): for what the host itself tells. `None`: nothing has to wait.
    pub fn ask_replicas(&mut self) -> Option<u64> {
        self.tell_used();
        Some(self.parts().out.replication_mut()?.ask())
    }

    /// What the host wants whoever is promoted to know ([`Backup::of_host`](crate::Backup::of_host)), instead of what it wanted before.
    /// Whether replicas have to hear of it.
    pub fn note_of_host(&mut self, note: Bytes) -> bool {
        self.parts().out.replication_mut().is_some_and(|replication| replication.note_of_host(note))
    }

    /// Whether all replicas have all batches up to this one; without replicas nothing has to wait.
    pub fn is_replicated_to(&self, batch: u64) -> bool {
        self.view().out.replication().is_none_or(|replication| replication.has_confirmed(batch))
    }

    /// All replicas have all batches up to this one.
    pub fn replicated(&mut self, batch: u64) {
        if let Some(replication) = self.parts().out.replication_mut() {
            replication.confirm(batch);
        }
    }

    /// How much waits for the replicas.
    pub fn unreplicated(&self) -> usize {
        self.view().out.replication().map_or(0, |replication| replication.held().len())
    }

    /// What waits for the replicas, from such a place on, in the order in which it leaves.
    pub fn waiting_outputs(&self, from: usize) -> impl Iterator<Item = &Output> {
        let held = self.view().out.replication().into_iter().flat_map(|replication| replication.held());
        held.skip(from)
    }

    /// The shard's clock as far as it survives its host: up to where all replicas know that timestamps may be used (S17).
    pub fn clock_for_certain(&self) -> Timestamp {
        let known = self.view().out.replication().map(|replication| replication.known());
        known.map_or(self.clock(), |known| self.clock().min(known))
    }

    /// Tells the replicas that more timestamps may be used, before all are of which they know (S17).
    pub(super) fn tell_used(&mut self) {
        if !self.is_replicated() {
            return;
        }
        let used = self.hand_over();
        let step = self.parts();
        let ahead_us = step.config.limits().told_ahead_us;
        if let Some(replication) = step.out.replication_mut() {
            replication.note_used(used, step.now, ahead_us);
        }
    }

    /// All that a replica has to know, as changes.
    pub fn all_changes(&self) -> impl Iterator<Item = Change> + '_ {
        let view = self.view();
        let began = Change::Began { shard: self.id(), since: view.memory.remembers_since() };
        let incarnation = Change::Incarnation(view.memory.highest_incarnation(view.config));
        let (attempts, table) = (view.attempts, view.table);
        let voted = attempts.sorted(Participant::is_prepared);
        let votes = voted.iter().filter_map(|attempt| attempts[*attempt].vote(table));
        let votes: Vec<Change> = votes.map(|vote| Change::Voted(Box::new(vote))).collect();
        let placed = voted.into_iter().filter_map(|attempt| {
            let at = attempts.placed_at(attempt)?;
            Some(Change::Placed { attempt, at })
        });
        let seen = table.all_seen().map(|(key, seen)| Change::Vanished { key, seen: Some(seen) });
        let used = view.out.told_used();
        let is_told = used > Timestamp::default() && !is_planted(Bug::UsedUntold);
        let used = is_told.then_some(Change::Used(used));
        let ordered = placed.chain(seen).chain(used);
        let of_host = view.out.replication().and_then(|replication| replication.of_host());
        let told = [began, incarnation].into_iter().chain(of_host).chain(view.memory.changes());
        told.chain(votes).chain(ordered)
    }
}

/// Other lives.
impl Shard {
    /// A replica goes on as its shard, in another incarnation, over the records that came with the changes: external ones, or none
    /// yet ([`Self::load`]). What had voted holds its locks again before anybody else gets in. `None`: the backup is of no shard.
    ///
    /// The incarnation must be larger than [`Backup::incarnation`], by more than the shard can have gone on without being heard of.
    pub fn promote(
        backup: Backup,
        records: Option<&'static dyn Records>,
        now: Time,
        incarnation: Incarnation,
        switches: Switches,
        limits: Limits,
    ) -> Option<Shard> {
        let (id, since) = backup.of?;
        let heard_of = backup.incarnation.unwrap_or(since);
        let incarnation = heard_of.next(incarnation);
        let mut shard = match records {
            Some(records) => Shard::over(records, id, incarnation, switches, limits),
            None => Shard::new(id, incarnation, switches, limits),
        };
        shard.remember_since(since);
        let mut step = shard.step(now);
        step.budget.note_time(now);
        for (session, known) in backup.sessions {
            step.memory.restore(now, step.config, step.accounts, session, known);
        }
        let mut used = backup.used;
        let mut placed = backup.placed;
        let mut kinds = Kinds::default();
        for vote in backup.votes.into_values().filter(is_restored) {
            if !kinds.admit(&vote.held) {
                continue;
            }
            let (attempt, voted) = (vote.attempt, vote.place.map(|place| place.at));
            used = used.max(voted.unwrap_or_default());
            restore_vote(&mut step, vote);
            // The vote of a single participant is final.
            if let Some(at) = voted.filter(|_| step.is_single(attempt)) {
                placed.entry(attempt).or_insert(at);
            }
        }
        used = placed.values().copied().fold(used, Timestamp::max);
        backup.seen.into_iter().for_each(|(key, seen)| step.table.see_again(&key, *seen));
        if used > Timestamp::default() {
            step.safe_time.begin_at(step.table, used);
        }
        // All stand in their lines: now it shows whose turn has come.
        for (attempt, at) in placed {
            if step.attempts.voted_at(attempt).is_some() {
                step.place(attempt, at);
            }
        }
        step.end_with_their_records();
        Some(shard)
    }

    /// Goes on as another incarnation, which was never used before. O(everything that is held).
    pub fn restart(&mut self, now: Time, incarnation: Incarnation, survives: Survives) {
        if survives == Survives::Votes {
            // Clocks are among what was written.
            self.begin_again(incarnation);
            let mut step = self.step(now);
            keep_votes(&mut step);
            return step.out.tell_replicas(|| Some(Change::Incarnation(step.config.incarnation())));
        }
        self.parts().table.forget_sleepers();
        let table = self.begin_empty(incarnation);
        self.begin_clock(now);
        table.let_all_end();
        if survives == Survives::Records {
            self.parts().table.load(table.into_contents());
        }
    }
}

/// A vote that a replica knows holds its locks again.
fn restore_vote(step: &mut Step<'_>, vote: Vote) {
    let attempt = vote.attempt;
    let participant = Participant::restored(vote, step.config.incarnation(), step.table);
    step.accounts.recount(participant.account, 0, participant.bytes);
    for record in &participant.held {
        // One whose time was over has ended, and the vote comes before that.
        let _ = step.table.hold_ends(&[*record], attempt);
    }
    if let Some(Place { at, .. }) = participant.place() {
        step.safe_time.note_vote();
        participant.held.iter().for_each(|record| step.table.stand_again(*record, attempt, at));
    }
    step.memory.reopen(attempt);
    step.attempts.insert(attempt, participant);
    step.attempts.renew(step.now, step.config, attempt);
}

/// Drops whatever has not voted, and begins the leases of the rest anew.
fn keep_votes(step: &mut Step<'_>) {
    let open: Vec<AttemptId> = step.attempts.sorted(|participant| !participant.is_prepared());
    for attempt in &open {
        let participant = &step.attempts[*attempt];
        for record in participant.blocked.values().filter_map(|blocked| blocked.record) {
            step.table.cancel(record, participant.owner);
        }
    }
    for attempt in open {
        let participant = step.attempts.remove(attempt).expect("just seen");
        step.accounts.recount(participant.account, participant.bytes, 0);
        // Nobody waits any more, so nobody is let in.
        let waited = participant.blocked.values().filter_map(|blocked| blocked.record);
        for record in participant.held.iter().copied().chain(waited) {
            step.table.release(step.now, record, attempt, Fate::Drop);
        }
    }
    step.table.forget_sleepers();
    step.attempts.drop_deadlines();
    step.budget.drop_turns();
    *step.ways = Ways::default();
    step.memory.part_from_all(step.now);
    for attempt in step.attempts.sorted(|_| true) {
        step.memory.reopen(attempt);
        step.attempts.renew(step.now, step.config, attempt);
    }
    step.table.outbox().drop_notices();
}

/// The types of held records. No shard lets two in that share no modes; the tables of one are not for the other.
#[derive(Default)]
struct Kinds(BTreeMap<Bytes, &'static TypeInfo>);

impl Kinds {
    fn admit(&mut self, held: &[HeldRecord]) -> bool {
        let is_of_another = |record: &HeldRecord| {
            self.0.get(&record.key).is_some_and(|kind| kind.common_modes(record.kind).is_none())
        };
        if held.iter().any(is_of_another) {
            return false;
        }
        for record in held {
            let kind = self.0.entry(record.key.clone()).or_insert(record.kind);
            if kind.is_of_any() {
                *kind = record.kind;
            }
        }
        true
    }
}

/// Whoever is promoted holds again what had voted (S3).
fn is_restored(vote: &Vote) -> bool {
    let writes =
        |held: &HeldRecord| !held.in_order.is_empty() || held.granted.iter().any(|it| it.effect.is_some());
    let forgets_reads = is_planted(Bug::PromotedForgetsReads) && !vote.held.iter().any(writes);
    !forgets_reads && !is_planted(Bug::PromotedForgetsVotes)
}
