//! Departed sessions, as the host reports (P58).
//!
//! The shard forgets what nobody can ask for: noes, because whoever asks hears a no again, and what was applied here
//! alone. What was applied with other participants one of them may be in doubt about. So the shard asks them, about a
//! few decisions at a time and less and less often, and forgets a decision when each has answered that it is not in
//! doubt.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use super::history::Place;
use super::{AttemptId, Output, Participants, PeerMessage, Shard, ShardId, Status, Time};
use crate::backup::Change;
use crate::ids::{Incarnation, SessionId, TxId};
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

    fn put(&mut self, session: SessionId, departed: Departed) {
        self.due.insert((departed.due, session));
        if let Some(before) = self.sessions.insert(session, departed.clone())
            && before.due != departed.due
        {
            self.due.remove(&(before.due, session));
        }
    }

    fn take(&mut self, session: SessionId) -> Option<Departed> {
        let departed = self.sessions.remove(&session)?;
        self.due.remove(&(departed.due, session));
        Some(departed)
    }

    /// Whether it is gone, and part of what it did is still remembered.
    pub(super) fn has(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    pub(super) fn note_stranger(&mut self, now: Time, session: SessionId) {
        self.strangers.push_back((now, session));
    }

    /// Whether only others spoke of it, as far as is known. O(such sessions).
    pub(super) fn is_stranger(&self, session: SessionId) -> bool {
        self.strangers.iter().any(|(_, stranger)| *stranger == session)
    }

    pub(super) fn strangers(&self) -> usize {
        self.strangers.len()
    }
}

impl Shard {
    /// A session comes, of which nobody speaks from before. It is counted under this account, and the shard is to it the
    /// incarnation that it is told, which is later than any that was told before: what it knows of an earlier one
    /// may be forgotten (P59).
    pub fn greet(&mut self, session: SessionId, account: u64, incarnation: Incarnation) {
        let is_forgotten = self.departed.take(session).is_some() || !self.sessions.contains_key(&session);
        let history = self.sessions.entry(session).or_default();
        history.met_as = Some(incarnation);
        if is_forgotten {
            history.since = Some(incarnation);
        }
        let (before, bytes) = (std::mem::replace(&mut history.account, account), history.bytes());
        let since = history.since;
        self.recount(before, bytes, 0);
        self.recount(account, 0, bytes);
        self.tell_replicas(|_| Some(Change::Incarnation(incarnation)));
        self.tell_replicas(|_| Some(Change::Greeted { session, account, since }));
    }

    /// As which incarnation the shard speaks with a session.
    pub fn incarnation_to(&self, session: SessionId) -> Incarnation {
        let met_as = self.sessions.get(&session).and_then(|history| history.met_as);
        met_as.map_or(self.incarnation, |met_as| met_as.max(self.incarnation))
    }

    /// The host knows that no connection of a session is open and none was for long. Nothing of it is under way, and it is to
    /// be greeted anew if it comes back. It is forgotten with the next timeouts, as far as that harms nobody (P58).
    pub fn forget(&mut self, now: Time, session: SessionId) {
        self.latest = now;
        let Some(history) = self.sessions.get_mut(&session) else { return };
        history.met_as = None;
        self.departed.put(session, Departed { after: Bound::Unbounded, pause_us: 0, due: now });
    }

    /// The same for sessions that nobody has greeted for so long.
    pub fn forget_strangers(&mut self, now: Time, after_us: u64) {
        while let Some((since, session)) = self.departed.strangers.front().copied()
            && now.since(since) >= after_us
        {
            self.departed.strangers.pop_front();
            if self.sessions.get(&session).is_some_and(|history| history.met_as.is_none()) {
                self.forget(now, session);
            }
        }
    }

    /// Departed sessions, and of which something is kept.
    pub fn departed(&self) -> usize {
        self.departed.sessions.len()
    }

    /// Forgets what it may of those who are gone, and asks for the rest.
    pub(super) fn see_off(&mut self, now: Time) {
        if now < self.departed.rests_until {
            return;
        }
        while self.at_once > 0
            && let Some((_, session)) = self.departed.due.first().filter(|(due, _)| *due <= now).copied()
        {
            if let Some(departed) = self.departed.take(session) {
                self.see_one_off(now, session, departed);
            }
        }
    }

    fn see_one_off(&mut self, now: Time, session: SessionId, mut departed: Departed) {
        let Some(history) = self.sessions.get_mut(&session) else { return };
        let (account, before) = (history.account, history.bytes());
        history.drop_answers();
        let mut asked: Vec<(AttemptId, Participants)> = Vec::new();
        let is_round_over = loop {
            let Some((place, entry)) = history.next_over(departed.after) else { break true };
            if self.at_once == 0 {
                break false;
            }
            // They may be in doubt about what is decided here: it is forgotten with its session once all of them know (P58).
            let in_doubt = entry.listed.clone().filter(|_| !is_planted(Bug::ForgetsWithSession));
            match in_doubt {
                None => {
                    history.forget(place);
                    self.at_once -= 1;
                }
                Some(listed) => {
                    let attempt = AttemptId { tx: TxId { session, sequence: place.0 }, attempt: place.1 };
                    asked.push((attempt, listed));
                    self.at_once = self.at_once.saturating_sub(ASK_COST);
                }
            }
            departed.after = Bound::Excluded(place);
        };
        let after = history.bytes();
        let is_settled = history.is_settled();
        self.recount(account, before, after);
        for (attempt, listed) in &asked {
            self.departed.rests_until = now.plus(ASKS_APART_US);
            self.ask_all(*attempt, listed);
        }
        if is_settled {
            return self.forget_all(session);
        }
        departed.due = now;
        if is_round_over {
            let (first, longest) = (self.limits.inquire_us, self.limits.inquire_us_max);
            departed.pause_us = departed.pause_us.saturating_mul(2).clamp(first, longest.max(first));
            (departed.after, departed.due) = (Bound::Unbounded, now.plus(departed.pause_us));
        }
        self.departed.put(session, departed);
    }

    /// Asks all other participants what they have written.
    pub(super) fn ask_all(&mut self, attempt: AttemptId, listed: &Participants) {
        let id = self.id;
        for listed in listed.iter().filter(|listed| listed.shard != id) {
            let message = PeerMessage::Inquire { attempt, from: id, listed: listed.incarnation };
            self.outputs.push_back(Output::Tell { shard: listed.shard, message });
        }
    }

    /// Another participant says what it has written of an attempt that is decided here.
    pub(super) fn hear_of_decided(&mut self, attempt: AttemptId, from: ShardId, status: &Status) {
        let session = attempt.tx.session;
        if matches!(status, Status::Prepared | Status::PreparedAt(_))
            || !self.departed.sessions.contains_key(&session)
        {
            return; // It will ask; or whoever began it may.
        }
        let Some(history) = self.sessions.get_mut(&session) else { return };
        let (account, before) = (history.account, history.bytes());
        history.forget_for((attempt.tx.sequence, attempt.attempt), |listed| listed.shard == from);
        let (after, is_settled) = (history.bytes(), history.is_settled());
        self.recount(account, before, after);
        if is_settled {
            self.forget_all(session);
        }
    }

    fn forget_all(&mut self, session: SessionId) {
        self.departed.take(session);
        if let Some(history) = self.sessions.remove(&session) {
            self.recount(history.account, history.bytes(), 0);
            self.close_account(history.account);
            self.tell_replicas(|_| Some(Change::Forgotten(session)));
        }
    }
}
