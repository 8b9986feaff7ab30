//! Departed sessions, as the host reports (P58).
//!
//! The shard forgets what nobody can ask for: noes, because whoever asks hears a no again, and what was applied here
//! alone. What was applied with other participants one of them may be in doubt about. So the shard asks them, about a
//! few decisions at a time and less and less often, and forgets a decision when each has answered that it is not in
//! doubt.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use super::accounts::Accounts;
use super::budget::Budget;
use super::config::Config;
use super::history::Place;
use super::memory::Memory;
use super::outputs::Outputs;
use crate::backup::Change;
use crate::ids::{AttemptId, SessionId, ShardId, Time, TxId};
use crate::message::{Participants, Status};
use crate::planted::{Bug, is_planted};

/// To ask the others of one decision costs as much as so many calls.
const ASK_COST: usize = 16;

/// How long it is before more are asked, in microseconds.
const ASKS_APART_US: u64 = 10_000;

/// One departed session.
#[derive(Clone, Debug)]
struct Departed {
    /// Up to which decision it was looked at in this round.
    after: Bound<Place>,
    /// How long it waited after the last round, in microseconds.
    pause_us: u64,
    due: Time,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct AllDeparted {
    sessions: BTreeMap<SessionId, Departed>,
    due: BTreeSet<(Time, SessionId)>,
    /// Nothing is done before.
    rests_until: Time,
    /// Sessions that nobody has greeted, and since when: others asked about them, or they were known to an earlier incarnation.
    strangers: VecDeque<(Time, SessionId)>,
}

impl AllDeparted {
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| (*due).max(self.rests_until))
    }

    /// A session has departed.
    pub(super) fn begin(&mut self, now: Time, session: SessionId) {
        self.put(session, Departed { after: Bound::Unbounded, pause_us: 0, due: now });
    }

    /// Whom to see off next.
    fn first_due(&self, now: Time) -> Option<SessionId> {
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, session)| *session)
    }

    fn put(&mut self, session: SessionId, departed: Departed) {
        self.due.insert((departed.due, session));
        if let Some(before) = self.sessions.insert(session, departed.clone())
            && before.due != departed.due
        {
            self.due.remove(&(before.due, session));
        }
    }

    /// A session is none of them any more. Whether it was.
    pub(super) fn end(&mut self, session: SessionId) -> bool {
        self.take(session).is_some()
    }

    fn take(&mut self, session: SessionId) -> Option<Departed> {
        let departed = self.sessions.remove(&session)?;
        self.due.remove(&(departed.due, session));
        Some(departed)
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether it is gone, and part of what it did is still remembered.
    pub(super) fn has(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    pub(super) fn note_stranger(&mut self, now: Time, session: SessionId) {
        self.strangers.push_back((now, session));
    }

    /// Takes one that nobody has greeted for so long.
    pub(super) fn pop_stranger(&mut self, now: Time, after_us: u64) -> Option<SessionId> {
        let (since, session) = self.strangers.front().copied()?;
        let is_due = now.since(since) >= after_us;
        is_due.then(|| self.strangers.pop_front()).map(|_| session)
    }

    /// Whether only others spoke of it, as far as is known. O(such sessions).
    pub(super) fn is_stranger(&self, session: SessionId) -> bool {
        self.strangers.iter().any(|(_, stranger)| *stranger == session)
    }

    pub(super) fn strangers(&self) -> usize {
        self.strangers.len()
    }
}

/// The departed, what they left, and whom that concerns.
pub(super) struct SeeingOff<'a> {
    pub(super) now: Time,
    pub(super) config: &'a Config,
    pub(super) memory: &'a mut Memory,
    pub(super) accounts: &'a mut Accounts,
    pub(super) budget: &'a mut Budget,
    pub(super) out: &'a mut Outputs,
}

impl SeeingOff<'_> {
    /// Forgets what may be forgotten of those who are gone, and asks for the rest.
    pub(super) fn see_off(&mut self) {
        if self.now < self.memory.departed().rests_until {
            return;
        }
        while !self.budget.is_spent()
            && let Some(session) = self.memory.departed().first_due(self.now)
        {
            if let Some(departed) = self.memory.departed_mut().0.take(session) {
                self.see_one_off(session, departed);
            }
        }
    }

    fn see_one_off(&mut self, session: SessionId, mut departed: Departed) {
        let (_, sessions) = self.memory.departed_mut();
        let Some(history) = sessions.get_mut(&session) else { return };
        let (account, before) = (history.account(), history.bytes());
        history.drop_answers();
        let mut asked: Vec<(AttemptId, Participants)> = Vec::new();
        let is_round_over = loop {
            let Some((place, entry)) = history.next_over(departed.after) else { break true };
            if self.budget.is_spent() {
                break false;
            }
            // They may be in doubt about what is decided here: it is forgotten with its session once all of them know (P58).
            let in_doubt = entry.listed.clone().filter(|_| !is_planted(Bug::ForgetsWithSession));
            match in_doubt {
                None => {
                    history.forget(place);
                    self.budget.charge(1);
                }
                Some(listed) => {
                    let attempt = AttemptId { tx: TxId { session, sequence: place.0 }, attempt: place.1 };
                    asked.push((attempt, listed));
                    self.budget.charge(ASK_COST);
                }
            }
            departed.after = Bound::Excluded(place);
        };
        let is_settled = history.is_settled();
        self.accounts.recount(account, before, history.bytes());
        for (attempt, listed) in &asked {
            self.memory.departed_mut().0.rests_until = self.now.plus(ASKS_APART_US);
            self.out.inquire(*attempt, listed);
        }
        if is_settled {
            return self.forget_all(session);
        }
        departed.due = self.now;
        if is_round_over {
            let limits = self.config.limits();
            let (first, longest) = (limits.inquire_us, limits.inquire_us_max);
            departed.pause_us = departed.pause_us.saturating_mul(2).clamp(first, longest.max(first));
            (departed.after, departed.due) = (Bound::Unbounded, self.now.plus(departed.pause_us));
        }
        self.memory.departed_mut().0.put(session, departed);
    }

    /// Another participant says what it has written of an attempt that is decided here.
    pub(super) fn hear_of_decided(&mut self, attempt: AttemptId, from: ShardId, status: &Status) {
        let session = attempt.tx.session;
        if matches!(status, Status::Prepared | Status::PreparedAt(_)) || !self.memory.departed().has(session)
        {
            return; // It will ask; or whoever began it may.
        }
        let (_, sessions) = self.memory.departed_mut();
        let Some(history) = sessions.get_mut(&session) else { return };
        let (account, before) = (history.account(), history.bytes());
        history.forget_for((attempt.tx.sequence, attempt.attempt), |listed| listed.shard == from);
        let is_settled = history.is_settled();
        self.accounts.recount(account, before, history.bytes());
        if is_settled {
            self.forget_all(session);
        }
    }

    fn forget_all(&mut self, session: SessionId) {
        let (departed, sessions) = self.memory.departed_mut();
        departed.end(session);
        if let Some(history) = sessions.remove(&session) {
            self.accounts.recount(history.account(), history.bytes(), 0);
            self.accounts.close(history.account());
            self.out.tell_replicas(|| Some(Change::Forgotten(session)));
        }
    }
}
