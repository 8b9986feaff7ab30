//! How an attempt ends here: a no is written, or what was voted is applied or dropped; and the decision is
//! remembered.

use std::collections::BTreeSet;

use claret_types::Reply;

use super::participant::{Participant, Place};
use super::recovery::runs;
use super::{
    AttemptId, CallNo, Decided, Delivery, Fate, Incarnation, Participants, RecordIx, Refusal, Remembered,
    Response, SessionId, Shard, ShardId, Stage, Status, Time,
};
use crate::planted::{Bug, is_planted};

impl Shard {
    /// Writes no: everything it held or waited for here is free.
    pub(super) fn refuse(&mut self, now: Time, attempt: AttemptId, refusal: Refusal) {
        debug_assert!(!self.attempts.get(&attempt).is_some_and(|it| it.is_prepared()), "yes is written");
        let before = self.those_before(attempt);
        self.finish(now, attempt, Fate::Drop, Decided::Refused(refusal.clone()), None);
        self.tell_listed(attempt, &before, Status::Refused);
        if !self.switches.phasing && self.switches.delivery == Delivery::Direct {
            self.refused.insert(attempt);
        }
        self.respond_refused(attempt, refusal);
    }

    /// With direct calls what is over is not remembered: nothing is late. But without phases a coordinator asks again by itself,
    /// maybe before it has heard of a refusal. That stays one until it says that it knows (P68).
    pub(super) fn admit_directly(&self, attempt: AttemptId) -> Option<Incarnation> {
        (!self.refused.contains(&attempt)).then_some(self.incarnation)
    }

    pub(super) fn respond_refused(&mut self, attempt: AttemptId, refusal: Refusal) {
        let (shard, since) = (self.id, self.remembers_for(attempt.tx.session));
        self.respond(attempt, Response::Refused { attempt, shard, refusal, since });
    }

    /// A prepare came again after the decision: if that is yes, it is told again.
    pub(super) fn tell_applied(&mut self, attempt: AttemptId, is_last: bool) {
        let Some(Decided::Applied { replies, at, .. }) = self.decided(attempt) else { return };
        if at.is_some() {
            return self.tell_done(attempt);
        }
        if self.again_bytes == 0 {
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
            false => Response::Voted { attempt, shard: self.id, replies },
        };
        self.respond(attempt, response);
    }

    pub(super) fn apply(&mut self, now: Time, attempt: AttemptId) {
        // A double, if nobody is here; it was applied, or the low-water mark has passed it.
        if self.attempts.contains_key(&attempt) && self.holds_back(now, attempt) {
            return;
        }
        if let Some(participant) = self.attempts.get_mut(&attempt) {
            match std::mem::replace(&mut participant.stage, Stage::Open) {
                // Its coordinator tore it (P88): it stays where it voted.
                stage @ Stage::Prepared { place: Some(Place { at, .. }), .. } => {
                    participant.stage = stage;
                    return self.place(now, attempt, at);
                }
                stage @ Stage::Placed { .. } => {
                    participant.stage = stage;
                    return;
                }
                Stage::Prepared { round, .. } => {
                    let mut replies = participant.take_replies(round.replies_before);
                    replies.shrink_to_fit(); // Mostly they fit: see `prepare`.
                    // In a chain the last one decides, whatever the client has heard.
                    let is_unheard = round.chained.is_some();
                    let decided = Decided::Applied { replies: Some(replies), at: None, is_unheard };
                    let listed = Some(round.participants);
                    self.finish(now, attempt, Fate::Apply(&round.members), decided, listed);
                    self.note_apply(attempt);
                }
                // It is decided, so the vote was given: by an earlier incarnation. What is here came late
                // and must not keep locks.
                Stage::Open | Stage::Preparing(_) => {
                    self.finish(now, attempt, Fate::Drop, Decided::Refused(Refusal::Unknown), None);
                }
            }
        }
        self.respond(attempt, Response::Applied { attempt, shard: self.id });
    }

    /// Writes no, unless something is written, and answers with what is.
    pub(super) fn write_no(&mut self, now: Time, attempt: AttemptId, refusal: Refusal) {
        match self.attempts.get(&attempt) {
            // It has voted, and says so again (P6).
            Some(participant) if participant.is_prepared() && !is_planted(Bug::WithdrawUnvotes) => {
                self.vote_again(attempt);
            }
            Some(_) => self.refuse(now, attempt, refusal),
            None => match self.decided(attempt) {
                Some(Decided::Applied { .. }) => self.tell_applied(attempt, false),
                Some(Decided::Refused(refusal)) => {
                    let refusal = refusal.clone();
                    self.respond_refused(attempt, refusal);
                }
                // Nothing is late here: whatever became of it has been said.
                None if self.switches.delivery == Delivery::Direct => {}
                // So late that nobody listens; what was written may have been yes.
                None if self.is_below_low_water(attempt) || is_planted(Bug::NoTombstone) => {
                    self.respond_refused(attempt, Refusal::Stale);
                }
                // Its prepare is late, or lost: a tombstone awaits it.
                None => self.refuse(now, attempt, refusal),
            },
        }
    }

    pub(super) fn abort(&mut self, now: Time, attempt: AttemptId, refused_by: Option<ShardId>) {
        self.refused.remove(&attempt);
        match self.attempts.get(&attempt) {
            Some(participant) if participant.is_held_back() => return, // It is committed.
            // Yes is written, and nobody is named who wrote no: this may be committed elsewhere (trap 1).
            Some(participant) if participant.is_prepared() && refused_by.is_none() => {
                return self.vote_again(attempt);
            }
            // It is committed.
            Some(participant) if matches!(participant.stage, Stage::Placed { .. }) => return,
            Some(_) => self.finish(now, attempt, Fate::Drop, Decided::Refused(Refusal::Withdrawn), None),
            None if self.decided(attempt).is_none() => {
                self.remember(attempt, Decided::Refused(Refusal::Withdrawn), None);
            }
            None => {}
        }
        self.respond(attempt, Response::Aborted { attempt, shard: self.id });
    }

    /// Ends an attempt here: locks go, the decision is remembered, with those who may be in doubt.
    pub(super) fn finish(
        &mut self,
        now: Time,
        attempt: AttemptId,
        fate: Fate<'_>,
        decided: Decided,
        listed: Option<Participants>,
    ) {
        match &decided {
            Decided::Applied { .. } => {
                self.stats.commits += 1;
                let first = listed.as_ref().and_then(|listed| listed.iter().map(|it| it.shard).min());
                self.stats.transactions += u64::from(first == Some(self.id));
            }
            Decided::Refused(_) => self.stats.aborts += 1,
        }
        let participant = self.attempts.remove(&attempt);
        if let Some(participant) = &participant {
            self.stamped -= usize::from(participant.is_stamped());
            self.recount(participant.account, participant.bytes, 0);
        }
        let had_voted = participant.as_ref().is_some_and(|it| it.is_prepared());
        self.tell_end(attempt, had_voted, &decided, listed.as_ref());
        self.remember(attempt, decided, listed);
        let Some(participant) = participant else { return };
        if participant.is_prepared() {
            self.note_drop(attempt);
        }
        if let Some(deadline) = participant.deadline {
            self.deadlines.remove((deadline, attempt), runs(&self.attempts));
        }
        if let Some(turn) = participant.turn {
            self.put_off.remove(&turn);
        }
        if self.switches.phasing && !participant.blocked.is_empty() {
            self.leave_queues(now, &participant);
        }
        // Its effects are carried out on each of its records, or on none (P3).
        for (at, record) in participant.held.iter().enumerate() {
            let fate = if at > 0 && is_planted(Bug::ApplySkipsRecords) { Fate::Drop } else { fate };
            self.table.release(now, *record, participant.owner.attempt, fate);
        }
    }

    /// An attempt that ends leaves all queues in which it waits (P30).
    fn leave_queues(&mut self, now: Time, participant: &Participant) {
        let held: BTreeSet<RecordIx> = participant.held.iter().copied().collect();
        let owner = participant.owner;
        for record in participant.blocked.values().filter_map(|blocked| blocked.record) {
            if is_planted(Bug::StepGrantStays) {
                self.table.leave_queue(now, record, owner);
            } else if !is_planted(Bug::QueuePlacesStay) {
                self.table.cancel(record, owner);
                // It may have been granted already, in this very step: what it got there goes too.
                if !held.contains(&record) {
                    self.table.release(now, record, owner.attempt, Fate::Drop);
                }
            }
        }
    }

    /// The first incarnation whose votes and decisions are remembered for a session.
    pub(super) fn remembers_for(&self, session: SessionId) -> Incarnation {
        let since = self.sessions.get(&session).and_then(|history| history.since);
        since.map_or(self.remembers_since, |since| since.max(self.remembers_since))
    }

    /// Whether what another shard asks about is known, or may be noted.
    pub(super) fn may_note(&mut self, now: Time, attempt: AttemptId) -> bool {
        let Some(history) = self.sessions.get(&attempt.tx.session) else {
            let is_room = self.departed.strangers() < self.limits.strangers_max;
            if is_room {
                self.departed.note_stranger(now, attempt.tx.session);
            }
            return is_room;
        };
        let is_known = attempt.tx.sequence < history.low_water
            || self.attempts.contains_key(&attempt)
            || history.end_of((attempt.tx.sequence, attempt.attempt)).is_some();
        is_known || self.full(history.account).is_none()
    }

    pub(super) fn remember(&mut self, attempt: AttemptId, decided: Decided, listed: Option<Participants>) {
        self.forget_batons(attempt);
        if self.switches.delivery == Delivery::Direct {
            return;
        }
        let barred = match &decided {
            Decided::Refused(_) if listed.is_none() => {
                let account = self.sessions.get(&attempt.tx.session).map_or(0, |history| history.account);
                self.full(account)
            }
            Decided::Refused(_) | Decided::Applied { .. } => None,
        };
        let is_range = barred.is_some();
        let history = self.sessions.entry(attempt.tx.session).or_default();
        let place = (attempt.tx.sequence, attempt.attempt);
        history.close(place);
        // A decision is kept until the low-water mark passes it (P28).
        let is_forgotten = match decided {
            Decided::Applied { .. } => is_planted(Bug::ForgetsApplied),
            Decided::Refused(_) => is_planted(Bug::ForgetsRefused),
        };
        if attempt.tx.sequence >= history.low_water && !is_forgotten {
            let before = history.bytes();
            match barred {
                Some(refusal) => history.bar(place, refusal),
                None => {
                    let entry = Remembered { decided, listed: listed.filter(|listed| listed.len() > 1) };
                    history.decide(place, entry, self.limits.answers_bytes_max);
                }
            }
            let (account, after) = (history.account, history.bytes());
            self.recount(account, before, after);
            if is_range {
                self.forget_barred_batons(attempt.tx.session);
            }
        }
    }
}

/// The answers of what is applied, for a prepare that comes again. `None`: nobody knows them any more (P57).
pub(super) fn known_answers(kept: &Option<Vec<(CallNo, Reply)>>) -> Option<Vec<(CallNo, Reply)>> {
    let invented = is_planted(Bug::ForgottenAnswersAreNone).then(Vec::new);
    kept.clone().or(invented)
}
