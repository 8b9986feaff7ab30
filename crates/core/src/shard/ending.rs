//! How an attempt ends here: a no is written, or what was voted is applied or dropped; and the decision is remembered. What ends
//! attempts are coordinators, other participants, sessions that are gone, and records that vanish.

use std::collections::BTreeSet;

use claret_types::{Bytes, Reply};

use super::history::Decided;
use super::journaling::{note_apply, note_drop};
use super::key_hash;
use super::lock_table::{Fate, RecordIx};
use super::participant::{Participant, Place, Stage, leave_beds};
use super::recovery::{self, Verdict, status_of};
use super::step::Step;
use super::ways::{Decision, Heard};
use crate::backup::Change;
use crate::ids::{AttemptId, Birth, CallNo, Incarnation, Sequence, ShardId};
use crate::message::{Link, Participants, Refusal, Response, Status};
use crate::planted::{Bug, is_planted};

/// The end.
impl Step<'_> {
    /// Writes no: everything it held or waited for here is free.
    pub(super) fn refuse(&mut self, attempt: AttemptId, refusal: Refusal) {
        debug_assert!(!self.attempts.has_voted(attempt), "yes is written");
        self.decide_in_way(attempt, Decision::No);
        self.finish(attempt, Fate::Drop, Decided::Refused(refusal.clone()), None);
        if !self.config.has_phases() && self.config.is_direct() {
            self.memory.note_refused(attempt);
        }
        self.respond_refused(attempt, refusal);
    }

    pub(super) fn respond_refused(&mut self, attempt: AttemptId, refusal: Refusal) {
        let (shard, since) = (self.config.id(), self.memory.remembers_for(attempt.tx.session));
        self.out.respond(attempt, Response::Refused { attempt, shard, refusal, since });
    }

    /// Ends an attempt here: locks go, the decision is remembered, with those who may be in doubt.
    pub(super) fn finish(
        &mut self,
        attempt: AttemptId,
        fate: Fate<'_>,
        decided: Decided,
        listed: Option<Participants>,
    ) {
        match &decided {
            Decided::Applied { .. } => {
                self.stats.commits += 1;
                let first = listed.as_ref().and_then(|listed| listed.iter().map(|it| it.shard).min());
                self.stats.transactions += u64::from(first == Some(self.config.id()));
            }
            Decided::Refused(_) => self.stats.aborts += 1,
        }
        let participant = self.attempts.remove(attempt);
        if let Some(participant) = &participant {
            self.safe_time.note_end(participant.is_stamped());
            if matches!(decided, Decided::Applied { .. }) && self.config.can_order() {
                let (limits, is_stamped) = (self.config.limits(), participant.is_stamped());
                self.adaptive.note_done(self.now, limits, participant.calls, is_stamped);
            }
            self.accounts.recount(participant.account, participant.bytes, 0);
        }
        let had_voted = participant.as_ref().is_some_and(|it| it.is_prepared());
        self.out.tell_end(attempt, had_voted, &decided, listed.as_ref());
        self.remember(attempt, decided, listed);
        let Some(participant) = participant else { return };
        if had_voted {
            note_drop(self.table, attempt);
        }
        self.budget.drop_turn(participant.turn);
        if self.config.has_phases() && !participant.blocked.is_empty() {
            self.leave_queues(&participant);
            leave_beds(self.table, participant.owner, &participant.blocked);
        }
        // Its effects are carried out on each of its records, or on none (P3).
        for (at, record) in participant.held.iter().enumerate() {
            let fate = if at > 0 && is_planted(Bug::ApplySkipsRecords) { Fate::Drop } else { fate };
            self.table.release(self.now, *record, participant.owner.attempt, fate);
        }
    }

    /// An attempt that ends leaves all queues in which it waits (P30).
    fn leave_queues(&mut self, participant: &Participant) {
        let held: BTreeSet<RecordIx> = participant.held.iter().copied().collect();
        let owner = participant.owner;
        for record in participant.blocked.values().filter_map(|blocked| blocked.record) {
            if is_planted(Bug::StepGrantStays) {
                self.table.leave_queue(self.now, record, owner);
            } else if !is_planted(Bug::QueuePlacesStay) {
                self.table.cancel(record, owner);
                // It may have been granted already, in this very step: what it got there goes too.
                if !held.contains(&record) {
                    self.table.release(self.now, record, owner.attempt, Fate::Drop);
                }
            }
        }
    }

    /// Remembers how an attempt ended: nobody waits for it any more.
    fn remember(&mut self, attempt: AttemptId, decided: Decided, listed: Option<Participants>) {
        self.tell_ways(&Heard::Over(attempt));
        if self.config.is_direct() {
            return;
        }
        let is_range = self.memory.remember(self.config, self.accounts, attempt, decided, listed);
        if is_range {
            self.tell_ways(&Heard::Passed(attempt.tx.session));
        }
    }
}

/// What coordinators ask for.
impl Step<'_> {
    /// It is committed, and is carried out.
    pub(super) fn apply(&mut self, attempt: AttemptId) {
        // A double, if nobody is here; it was applied, or the low-water mark has passed it.
        if !self.decide_in_way(attempt, Decision::Apply) {
            return; // Others come before it.
        }
        if let Some(participant) = self.attempts.get_mut(attempt) {
            match std::mem::replace(&mut participant.stage, Stage::Open) {
                // Its coordinator tore it (P88): it stays where it voted.
                stage @ Stage::Prepared { place: Some(Place { at, .. }), .. } => {
                    participant.stage = stage;
                    return self.place(attempt, at);
                }
                stage @ Stage::Placed { .. } => {
                    participant.stage = stage;
                    return;
                }
                Stage::Prepared { round, .. } => {
                    let runs_commands = participant.granted.has_commands;
                    self.run_commands(attempt, None, &round.members);
                    let mut replies = self.attempts[attempt].take_replies(round.replies_before);
                    replies.shrink_to_fit(); // Mostly they fit: see `prepare`.
                    // In another way shards may decide, whatever the client has heard.
                    // So they may where commands answer now.
                    let is_unacknowledged = round.way.is_some() || runs_commands;
                    let late = runs_commands.then(|| replies.clone());
                    let decided = Decided::Applied { replies: Some(replies), at: None, is_unacknowledged };
                    let listed = Some(round.participants);
                    self.finish(attempt, Fate::Apply(&round.members), decided, listed);
                    note_apply(self.table, attempt);
                    if let Some(replies) = late {
                        return self.out.respond(attempt, Response::Committed { attempt, replies });
                    }
                }
                // It is decided, so the vote was given: by an earlier incarnation. What is here came late
                // and must not keep locks.
                Stage::Open | Stage::Preparing(_) => {
                    self.finish(attempt, Fate::Drop, Decided::Refused(Refusal::Unknown), None);
                }
            }
        } else if self.answered_late(attempt) {
            return self.tell_applied(attempt, true);
        }
        self.out.respond(attempt, Response::Applied { attempt, shard: self.config.id() });
    }

    /// Writes no, unless something is written, and answers with what is.
    pub(super) fn write_no(&mut self, attempt: AttemptId, refusal: Refusal) {
        match self.attempts.get(attempt) {
            // It has voted, and says so again (P6).
            Some(participant) if participant.is_prepared() && !is_planted(Bug::WithdrawUnvotes) => {
                self.vote_again(attempt);
            }
            Some(_) => self.refuse(attempt, refusal),
            None => match self.memory.decided(attempt) {
                Some(Decided::Applied { .. }) => self.tell_applied(attempt, false),
                Some(Decided::Refused(refusal)) => {
                    let refusal = refusal.clone();
                    self.respond_refused(attempt, refusal);
                }
                // Nothing is late here: whatever became of it has been said.
                None if self.config.is_direct() => {}
                // So late that nobody listens; what was written may have been yes.
                None if self.memory.is_below_low_water(attempt) || is_planted(Bug::NoTombstone) => {
                    self.respond_refused(attempt, Refusal::Stale);
                }
                // Its prepare is late, or lost: a tombstone awaits it.
                None => self.refuse(attempt, refusal),
            },
        }
    }

    /// Its coordinator aborts it. `refused_by`: a participant that wrote no, if it knows of one.
    pub(super) fn abort(&mut self, attempt: AttemptId, refused_by: Option<ShardId>) {
        self.memory.forget_refused(attempt);
        match self.attempts.get(attempt) {
            Some(participant) if participant.waits_to_apply() => return, // It is committed.
            // Yes is written, and nobody is named who wrote no: this may be committed elsewhere (trap 1).
            Some(participant) if participant.is_prepared() && refused_by.is_none() => {
                return self.vote_again(attempt);
            }
            // It is committed.
            Some(participant) if matches!(participant.stage, Stage::Placed { .. }) => return,
            Some(_) => self.finish(attempt, Fate::Drop, Decided::Refused(Refusal::Withdrawn), None),
            None if self.memory.decided(attempt).is_none() => {
                self.remember(attempt, Decided::Refused(Refusal::Withdrawn), None);
            }
            None => {}
        }
        self.out.respond(attempt, Response::Aborted { attempt, shard: self.config.id() });
    }
}

/// What is said again.
impl Step<'_> {
    /// A prepare came again after the decision: if that is yes, it is told again.
    pub(super) fn tell_applied(&mut self, attempt: AttemptId, is_last: bool) {
        let Some(Decided::Applied { replies, at, .. }) = self.memory.decided(attempt) else { return };
        if at.is_some() {
            return self.tell_done(attempt);
        }
        if !self.budget.says_again() {
            return; // It is as if that word was lost, and nothing is copied for it.
        }
        // It is applied, and what was answered nobody knows any more.
        let Some(replies) = known_answers(replies) else {
            return self.respond_refused(attempt, Refusal::Unknown);
        };
        if !self.says_again(&replies) {
            return;
        }
        let response = match is_last {
            true => Response::Committed { attempt, replies },
            false => Response::Voted { attempt, shard: self.config.id(), replies },
        };
        self.out.respond(attempt, response);
    }

    /// A vote is said once more.
    pub(super) fn vote_again(&mut self, attempt: AttemptId) {
        if self.attempts.placed_at(attempt).is_some() && self.is_single(attempt) {
            return; // It is done soon, and says so.
        }
        if !self.execution(attempt).says_answers_again() {
            return;
        }
        let participant = &self.attempts[attempt];
        if participant.place().is_some() {
            return self.say_place(attempt);
        }
        let (shard, replies) = (self.config.id(), participant.voted_replies());
        self.out.respond(attempt, Response::Voted { attempt, shard, replies });
    }

    /// Whether answers are said again; if not, it is as if that word was lost.
    pub(super) fn says_again(&mut self, replies: &[(CallNo, Reply)]) -> bool {
        let is_said = self.budget.says_again();
        if is_said {
            self.budget.charge_again(replies.iter().map(|(_, reply)| reply.size()).sum());
        }
        is_said
    }
}

/// Doubt.
impl Step<'_> {
    /// What is written for an attempt; writes no where nothing is.
    pub(super) fn status_or_refuse(&mut self, attempt: AttemptId, listed: Option<Incarnation>) -> Status {
        let status = status_of(self.attempts, self.memory, attempt).unwrap_or_else(|| {
            self.refuse(attempt, Refusal::Recovered);
            Status::Refused
        });
        // A no of this incarnation says nothing of what one wrote that is not remembered.
        let lost = status == Status::Refused && self.memory.may_have_lost(listed);
        if lost { Status::Lost } else { status }
    }

    /// Whether what another shard asks about is known, or may be noted.
    pub(super) fn may_note(&mut self, attempt: AttemptId) -> bool {
        let is_open = self.attempts.has(attempt);
        self.memory.may_note(self.now, self.config, self.accounts, attempt, is_open)
    }

    /// The time of an attempt is over.
    pub(super) fn end_wait(&mut self, attempt: AttemptId) {
        self.attempts.set_deadline(attempt, None);
        let Some(participant) = self.attempts.get(attempt) else { return };
        if participant.waits_to_apply() {
            return; // It is committed, and those who come before it ask.
        }
        // It has voted, and asks the others (P23).
        if participant.is_prepared() && !is_planted(Bug::LeaseEndsPrepared) {
            self.inquire(attempt);
        } else {
            self.refuse(attempt, Refusal::LeaseExpired);
        }
    }

    /// Asks all others at once, instead of at the end of a lease.
    pub(super) fn inquire_now(&mut self, attempt: AttemptId) {
        self.attempts.set_deadline(attempt, None);
        self.inquire(attempt);
    }

    /// Asks all others of a prepared attempt, again and again until it is decided.
    fn inquire(&mut self, attempt: AttemptId) {
        let participant = self.attempts.get_mut(attempt);
        let Some((listed, again)) = participant.and_then(|it| it.inquire(self.now, self.config)) else {
            return;
        };
        self.attempts.set_deadline(attempt, Some(again));
        self.out.inquire(attempt, &listed);
    }

    /// Another participant says what it has written.
    pub(super) fn hear_answer(&mut self, attempt: AttemptId, from: ShardId, status: Status) {
        let Some(participant) = self.attempts.get_mut(attempt) else {
            return self.seeing_off().hear_of_decided(attempt, from, &status); // Decided meanwhile.
        };
        let Some(Verdict { fate, is_recovery }) = participant.hear_answer(self.config, from, status) else {
            return;
        };
        self.stats.recoveries += u64::from(is_recovery);
        match fate {
            recovery::Decision::Apply => self.apply(attempt),
            recovery::Decision::ApplyAt(at) => self.place(attempt, at),
            recovery::Decision::Abort(refusal, listed) => {
                self.finish(attempt, Fate::Drop, Decided::Refused(refusal), listed);
            }
        }
    }
}

/// Sessions and records.
impl Step<'_> {
    /// The session lives: leases of what it lists are renewed; what it does not list and has not voted is
    /// dropped (trap 19); decisions below the low-water mark are forgotten.
    pub(super) fn heartbeat(&mut self, link: Link, live: &[AttemptId], low_water: Sequence) {
        let session = link.session;
        // One says all; another that came with it is as if it was lost (P38).
        if !self.memory.is_newest(link) || !self.budget.hears_of(session) {
            return;
        }
        let heard = self.memory.raise(self.accounts, link, low_water);
        self.stats.visits += heard.open.len() as u64;
        if heard.is_raised {
            self.tell_ways(&Heard::Passed(session));
            self.out.tell_replicas(|| Some(Change::Passed { session, low_water }));
        }
        let live: BTreeSet<AttemptId> = live.iter().copied().collect();
        for attempt in heard.open {
            if live.contains(&attempt) {
                self.attempts.renew(self.now, self.config, attempt);
                self.tell_again(attempt);
            } else if !self.attempts.has_voted(attempt) || is_planted(Bug::UnlistedPreparedEnds) {
                // What has voted stays (P23).
                self.refuse(attempt, Refusal::Stale);
            }
        }
    }

    /// That an elder waits is a level: it is told again, in case the first word was lost (trap 11).
    fn tell_again(&mut self, attempt: AttemptId) {
        let Some(participant) = self.attempts.get(attempt) else { return };
        self.stats.visits += participant.held.len() as u64;
        let told = participant.held.iter().filter_map(|record| self.table.told(*record, attempt)).min();
        if let Some(Birth { time: birth, .. }) = told {
            self.out.respond(attempt, Response::Elder { attempt, shard: self.config.id(), birth });
        }
    }

    /// Ends leases of sessions that are deserted, as many as may be ended at once.
    pub(super) fn end_deserted(&mut self) {
        while let Some(attempt) = self.memory.next_deserted() {
            if self.budget.is_spent() {
                return;
            }
            self.memory.skip_deserted(attempt);
            self.charge_for(attempt);
            if self.attempts.timeout_of(attempt).is_some() {
                self.end_wait(attempt);
            }
        }
    }

    /// The same as [`Self::vanish`] for what ended when effects were carried out.
    pub(super) fn end_with_their_records(&mut self) {
        let ended = self.table.outbox().take_ended();
        self.vanish(&ended);
    }

    /// Records vanished. See [`Shard::vanished`](super::Shard::vanished).
    pub(super) fn vanish(&mut self, keys: &[Bytes]) {
        let mut refused: Vec<(AttemptId, &Bytes)> = Vec::new();
        for key in keys {
            let hash = key_hash(key);
            let Some(record) = self.table.find(hash, key) else {
                self.table.clocks_mut().seal(hash);
                continue;
            };
            refused.extend(self.table.vanish(record).into_iter().map(|attempt| (attempt, key)));
            self.tell_seen(record);
        }
        for (attempt, key) in refused {
            // It holds the record or waits for it, and has not voted (P36).
            let is_over = match is_planted(Bug::VanishedRefusesVoted) {
                true => self.attempts.has(attempt),
                false => self.attempts.is_unvoted(attempt) && !is_planted(Bug::VanishedRefusesNobody),
            };
            if is_over {
                self.refuse(attempt, Refusal::Vanished { key: key.clone() });
            }
        }
    }

    /// An attempt was carried out on a record that had vanished: those who stand behind it see that.
    pub(super) fn tell_seen(&mut self, record: RecordIx) {
        self.out.tell_replicas(|| {
            let (key, seen) = self.table.seen_of(record)?;
            Some(Change::Vanished { key, seen })
        });
    }

    /// Refuses these attempts, all of them before any lets others in.
    pub(super) fn refuse_all(&mut self, attempts: &[AttemptId], refusal: &Refusal) {
        for attempt in attempts {
            if self.attempts.is_unvoted(*attempt) {
                self.refuse(*attempt, refusal.clone());
            }
        }
        self.drain();
    }
}

/// The answers of what is applied, for a prepare that comes again. `None`: nobody knows them any more (P57).
pub(super) fn known_answers(kept: &Option<Vec<(CallNo, Reply)>>) -> Option<Vec<(CallNo, Reply)>> {
    let invented = is_planted(Bug::ForgottenAnswersAreNone).then(Vec::new);
    kept.clone().or(invented)
}
