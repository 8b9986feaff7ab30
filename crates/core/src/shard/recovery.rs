//! Leases and the recovery of attempts in doubt (P23 to P25; traps 1, 3, 6, 7, 8).
//!
//! Only a prepared participant asks, and it asks all others on its list. A shard that is asked and has written
//! nothing writes no, so that its answer never becomes untrue. What the answers decide:
//!
//! | answers | decision |
//! |---|---|
//! | any `Applied` | apply |
//! | any `Refused`, or `Forgotten` | abort |
//! | all `Prepared` | apply: everybody voted yes, so it is committed |
//! | the rest `Lost` (their memory is gone), everybody answered | abort: the one case in which a shard without durable votes loses atomicity (trap 8) |
//! | otherwise | stay in doubt, keep the locks, ask again |
//!
//! A shard that aborts because others lost their memory writes `Refusal::Unknown`. The attempt may be applied where
//! nobody remembers, so this no is `Lost` to whoever asks next, and no recorded no to a coordinator.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::{
    AttemptId, Attempts, Decided, Delivery, Fate, Incarnation, Link, Refusal, Response, Shard, ShardId,
    Stage, Status, Time,
};
use crate::asked::{Told, Written};
use crate::backup::Change;
use crate::ids::{Birth, Sequence, SessionId, Timestamp, TxId};
use crate::planted::{Bug, is_planted};

/// A deserted session whose leases are being ended: after which attempt, and up to which.
#[derive(Clone, Debug)]
pub(super) struct Deserted {
    session: SessionId,
    after: Bound<(Sequence, u32)>,
    last: (Sequence, u32),
}

impl Shard {
    /// What is written for an attempt; writes no where nothing is.
    pub(super) fn status_or_refuse(
        &mut self,
        now: Time,
        attempt: AttemptId,
        listed: Option<Incarnation>,
    ) -> Status {
        let status = self.written_or_refuse(now, attempt);
        // A no of this incarnation says nothing of what one wrote that is not remembered.
        let lost = status == Status::Refused && listed.is_some_and(|listed| listed < self.remembers_since);
        if lost { Status::Lost } else { status }
    }

    fn written_or_refuse(&mut self, now: Time, attempt: AttemptId) -> Status {
        if let Some(decided) = self.decided(attempt) {
            return match decided {
                Decided::Applied { at: Some(at), .. } => Status::AppliedAt(*at),
                Decided::Applied { .. } => Status::Applied,
                // It may be applied where nobody remembers.
                Decided::Refused(Refusal::Unknown) => Status::Lost,
                Decided::Refused(_) => Status::Refused,
            };
        }
        if let Some(at) = self.placed_at(attempt) {
            return Status::AppliedAt(at);
        }
        if let Some(at) = self.voted_at(attempt) {
            return Status::PreparedAt(at);
        }
        match self.attempts.get(&attempt) {
            Some(participant) if participant.is_held_back() => Status::Applied,
            Some(participant) if participant.is_prepared() => Status::Prepared,
            None if self.is_below_low_water(attempt) => Status::Forgotten,
            Some(_) | None => {
                self.refuse(now, attempt, Refusal::Recovered);
                Status::Refused
            }
        }
    }

    /// What is written for an attempt, for somebody who only wants to know (P89). Looking writes nothing. `greets`: the host
    /// greets each session that the shard does not know (P59), so that such a one can do nothing that it began before.
    pub fn tell_written(&self, attempt: AttemptId, greets: bool) -> Told {
        let session = attempt.tx.session;
        // What was decided may be forgotten, and a no written since because another one asked.
        let is_gone = self.departed.has(session)
            || match self.sessions.get(&session) {
                Some(history) if greets => history.met_as.is_none(),
                Some(_) => self.departed.is_stranger(session),
                None => greets,
            };
        let written = match self.written_or_placed(attempt) {
            Written::Refused | Written::Nothing if is_gone => Written::Lost,
            written => written,
        };
        Told { shard: self.id, written, since: self.remembers_for(session) }
    }

    fn written_or_placed(&self, attempt: AttemptId) -> Written {
        match self.decided(attempt) {
            Some(Decided::Applied { .. }) => Written::Applied,
            // It may be applied where nobody remembers.
            Some(Decided::Refused(Refusal::Unknown)) => Written::Lost,
            Some(Decided::Refused(_)) => Written::Refused,
            None if self.placed_at(attempt).is_some() => Written::Applied,
            None if self.voted_at(attempt).is_some() => Written::Prepared,
            None => match self.attempts.get(&attempt) {
                Some(participant) if participant.is_prepared() => Written::Prepared,
                Some(_) => Written::Nothing,
                None if self.is_below_low_water(attempt) => Written::Forgotten,
                None => Written::Nothing,
            },
        }
    }

    /// The same at once, instead of at the end of its lease.
    pub(super) fn inquire_now(&mut self, now: Time, attempt: AttemptId) {
        self.set_deadline(attempt, None);
        self.inquire(now, attempt);
    }

    /// Asks all others of a prepared attempt, again and again until it is decided.
    pub(super) fn inquire(&mut self, now: Time, attempt: AttemptId) {
        let (first, longest) = (self.limits.inquire_us, self.limits.inquire_us_max);
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        let Stage::Prepared { round, answers, asked_us, .. } = &mut participant.stage else { return };
        answers.clear();
        *asked_us = asked_us.saturating_mul(2).clamp(first, longest.max(first));
        let again = now.plus(*asked_us);
        let listed = round.participants.clone();
        self.set_deadline(attempt, Some(again));
        self.ask_all(attempt, &listed);
    }

    pub(super) fn handle_answer(&mut self, now: Time, attempt: AttemptId, from: ShardId, status: Status) {
        let id = self.id;
        let Some(participant) = self.attempts.get_mut(&attempt) else {
            return self.hear_of_decided(attempt, from, &status); // Decided meanwhile.
        };
        if participant.is_held_back() {
            return; // It is committed, whatever others forgot since.
        }
        let Stage::Prepared { round, place, answers, asked_us } = &mut participant.stage else { return };
        if from == id || round.participants.iter().all(|listed| listed.shard != from) {
            return; // Not one that was asked.
        }
        answers.retain(|(shard, _)| *shard != from);
        answers.push((from, status));
        let others = round.participants.iter().filter(|listed| listed.shard != id).count();
        let any = |wanted: Status| answers.iter().any(|(_, status)| *status == wanted);
        let applied_at = answers.iter().find_map(|(_, status)| match status {
            Status::AppliedAt(at) => Some(*at),
            _ => None,
        });
        let voted_at = answers.iter().filter_map(|(_, status)| match status {
            Status::PreparedAt(at) => Some(*at),
            _ => None,
        });
        let final_at = place.map(|place| applied_at.unwrap_or_else(|| final_after_death(place.at, voted_at)));
        let everybody = answers.len() == others;
        let refusal = if any(Status::Applied) || applied_at.is_some() {
            None
        } else if any(Status::Refused) || any(Status::Forgotten) {
            Some(Refusal::Recovered)
        } else if everybody && !any(Status::Lost) {
            None
        } else if everybody {
            Some(Refusal::Unknown)
        } else {
            return;
        };
        // In a chain who decides says so unasked (K6, K7).
        self.stats.recoveries += u64::from(*asked_us > 0);
        match refusal {
            None => match final_at {
                Some(at) => self.place(now, attempt, at),
                None => self.apply(now, attempt),
            },
            Some(refusal) => {
                // What is unknown to this one, another may have to know that is in doubt.
                let listed = (refusal == Refusal::Unknown).then(|| round.participants.clone());
                self.finish(now, attempt, Fate::Drop, Decided::Refused(refusal), listed);
            }
        }
    }

    /// The session lives: leases of what it lists are renewed; what it does not list and has not voted is
    /// dropped (trap 19); decisions below the low-water mark are forgotten.
    pub(super) fn heartbeat(&mut self, now: Time, link: Link, live: &[AttemptId], low_water: Sequence) {
        let history = self.sessions.entry(link.session).or_default();
        // One says all; another that came with it would cost as much again, and is as if it was lost (P38).
        if link.connection < history.connection || self.heard_of == Some(link.session) {
            return;
        }
        self.heard_of = Some(link.session);
        history.connection = link.connection;
        let (account, before) = (history.account, history.bytes());
        let is_raised = low_water > history.low_water;
        history.raise(low_water);
        let after = history.bytes();
        let named = |(sequence, attempt)| AttemptId { tx: TxId { session: link.session, sequence }, attempt };
        let open: Vec<AttemptId> = history.open_after(Bound::Unbounded).map(named).collect();
        self.stats.visits += open.len() as u64;
        self.recount(account, before, after);
        let session = link.session;
        if is_raised {
            self.settle_awaited_of(session);
        }
        self.tell_replicas(|_| is_raised.then_some(Change::Passed { session, low_water }));
        let live: BTreeSet<AttemptId> = live.iter().copied().collect();
        for attempt in open {
            if live.contains(&attempt) {
                self.renew(now, attempt);
                self.tell_again(attempt);
            } else {
                // It stays if it has voted (P23).
                let is_prepared = self.attempts.get(&attempt).is_some_and(|it| it.is_prepared());
                if !is_prepared || is_planted(Bug::UnlistedPreparedEnds) {
                    self.refuse(now, attempt, Refusal::Stale);
                }
            }
        }
    }

    /// That an elder waits is a level: it is told again, in case the first word was lost (trap 11).
    fn tell_again(&mut self, attempt: AttemptId) {
        let Some(participant) = self.attempts.get(&attempt) else { return };
        self.stats.visits += participant.held.len() as u64;
        let told = participant.held.iter().filter_map(|record| self.table.told(*record, attempt)).min();
        if let Some(Birth { time: birth, .. }) = told {
            self.respond(attempt, Response::Elder { attempt, shard: self.id, birth });
        }
    }

    /// The host learned that a session is gone, from its last connection: its leases are over at once (P52). What has
    /// not voted is refused, what has asks the others, with the next timeouts (P38).
    pub fn deserted(&mut self, now: Time, session: SessionId) {
        self.latest = now;
        let last = self.sessions.get(&session).and_then(|history| history.last_open());
        // It may connect again before all is ended: what it begins then is none of it.
        self.deserted.extend(last.map(|last| Deserted { session, after: Bound::Unbounded, last }));
    }

    /// Ends leases of sessions that are deserted, as many as may be ended at once.
    pub(super) fn end_deserted(&mut self, now: Time) {
        while let Some(Deserted { session, mut after, last }) = self.deserted.pop_front() {
            let next = |shard: &Shard, after| {
                let history = shard.sessions.get(&session)?;
                history.open_after(after).next().filter(|open| *open <= last)
            };
            while let Some((sequence, number)) = next(self, after) {
                if self.at_once == 0 {
                    return self.deserted.push_front(Deserted { session, after, last });
                }
                let attempt = AttemptId { tx: TxId { session, sequence }, attempt: number };
                self.charge_for(attempt);
                if self.timeout_of(attempt).is_some() {
                    self.end_wait(now, attempt);
                }
                after = Bound::Excluded((sequence, number));
            }
        }
    }

    /// Starts a lease anew.
    pub(super) fn renew(&mut self, now: Time, attempt: AttemptId) {
        if self.switches.delivery == Delivery::Direct {
            return;
        }
        let due = now.plus(self.limits.lease_us);
        // Mostly it is: who can vote does so in the step that lets it in.
        if self.timeout_of(attempt) != Some(due) {
            self.set_deadline(attempt, Some(due));
        }
    }

    /// When the time of an attempt that is here is over.
    pub(super) fn set_deadline(&mut self, attempt: AttemptId, deadline: Option<Time>) {
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        let before = std::mem::replace(&mut participant.deadline, deadline);
        if let Some(before) = before {
            self.deadlines.remove((before, attempt), runs(&self.attempts));
        }
        if let Some(due) = deadline {
            self.deadlines.insert((due, attempt), self.attempts.len(), runs(&self.attempts));
        }
    }
}

/// Whether an attempt's time still runs until then.
pub(super) fn runs(attempts: &Attempts) -> impl Fn(&(Time, AttemptId)) -> bool {
    |(due, attempt)| attempts.get(attempt).is_some_and(|it| it.deadline == Some(*due))
}

/// The final timestamp of whom its participants decide: the largest of their votes (P84).
fn final_after_death(own: Timestamp, others: impl Iterator<Item = Timestamp>) -> Timestamp {
    if is_planted(Bug::OwnVoteAfterDeath) { own } else { others.fold(own, Timestamp::max) }
}
