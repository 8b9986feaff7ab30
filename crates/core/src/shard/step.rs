//! One step of a shard: what an input does to its parts.
//!
//! This file routes requests and answers, lets attempts in, and carries on with everybody whom an input let in. How attempts come
//! to vote is in `preparing.rs`, how votes get their places in `placing.rs`, how attempts end in `ending.rs`.

use claret_types::{Bytes, OpError, Operation};
use smallvec::SmallVec;

use super::accounts::Accounts;
use super::attempts::Attempts;
use super::budget::Budget;
use super::config::Config;
use super::departed::SeeingOff;
use super::execution::{Execution, Ran};
use super::key_hash;
use super::lock_table::{LockTable, Look, Notice, Owner, Woken};
use super::memory::{Admission, Memory};
use super::outputs::Outputs;
use super::participant::{Calls, Participant, Stage};
use super::picture::Stats;
use super::ways::{Heard, Occasion, Vote, Ways};
use crate::ids::{AttemptId, Birth, Incarnation, ShardId, Time, Timestamp};
use crate::message::{Link, PeerMessage, Refusal, Request, Response, Seen, Undone};
use crate::planted::{Bug, is_planted};
use crate::shard::ways::ordered::adaptive::Adaptive;
use crate::shard::ways::ordered::safe_time::SafeTime;

/// So many of those who hold a record are looked through for one who has voted.
const LOOKED_THROUGH_MAX: usize = 64;

/// So many records are named to an attempt that asks whom it waits for: mostly it waits for one.
const BEHIND_MAX: usize = 8;

/// So many holders and waiters of a record are looked through in about the time of one call.
const LOOKED_THROUGH_WORTH: usize = 16;

/// An input at its time, and the parts of the shard.
pub(super) struct Step<'a> {
    pub(super) now: Time,
    pub(super) config: &'a Config,
    pub(super) table: &'a mut LockTable,
    pub(super) attempts: &'a mut Attempts,
    pub(super) accounts: &'a mut Accounts,
    pub(super) memory: &'a mut Memory,
    pub(super) budget: &'a mut Budget,
    pub(super) safe_time: &'a mut SafeTime,
    pub(super) adaptive: &'a mut Adaptive,
    pub(super) ways: &'a mut Ways,
    pub(super) out: &'a mut Outputs,
    pub(super) stats: &'a mut Stats,
}

/// What only some of the parts are needed for.
impl Step<'_> {
    /// An attempt that is here executes calls.
    #[inline]
    pub(super) fn execution(&mut self, attempt: AttemptId) -> Execution<'_> {
        let participant = &mut self.attempts[attempt];
        Execution {
            now: self.now,
            config: self.config,
            owner: participant.owner,
            participant,
            table: self.table,
            accounts: self.accounts,
            budget: self.budget,
            safe_time: self.safe_time,
            out: self.out,
            stats: self.stats,
        }
    }

    /// What concerns sessions that have departed.
    pub(super) fn seeing_off(&mut self) -> SeeingOff<'_> {
        SeeingOff {
            now: self.now,
            config: self.config,
            memory: self.memory,
            accounts: self.accounts,
            budget: self.budget,
            out: self.out,
        }
    }
}

/// Messages.
impl Step<'_> {
    /// Takes one request.
    pub(super) fn take(&mut self, link: Link, request: Request) {
        match request {
            // As if it was lost: it comes again.
            Request::Execute { .. } | Request::Prepare { .. }
                if self.safe_time.is_in_doubt() && !is_planted(Bug::BeginsUnasked) => {}
            Request::Execute { attempt, birth, incarnation, key, calls, undone } => {
                if let Some(owner) = self.admit(link, attempt, birth, incarnation) {
                    self.execute(owner, &key, calls, &undone);
                }
            }
            Request::Prepare { attempt, birth, participants, relies_on, calls, members, asks, undone } => {
                self.prepare(link, attempt, birth, participants, relies_on, calls, members, asks, &undone);
            }
            Request::Apply { attempt } => self.apply(attempt),
            Request::Withdraw { attempt } => self.write_no(attempt, Refusal::Withdrawn),
            Request::Abort { attempt, refused_by } => self.abort(attempt, refused_by),
            Request::Heartbeat { live, low_water } => self.heartbeat(link, &live, low_water),
            Request::Ask { attempt } => {
                let status = self.status_or_refuse(attempt, None);
                // To whoever asks, not to the session that began it.
                let since = self.memory.remembers_for(attempt.tx.session);
                self.out.respond_to(link.session, Response::Asked { attempt, status, since });
            }
            Request::AskBehind { attempt } => self.tell_behind(attempt),
            Request::ApplyAt { attempt, at } => self.apply_at(attempt, at),
            Request::Tick { want } => self.tick(link, want),
            Request::Look { look, key, ops, at_once } => {
                let seen = self.look(&key, &ops, at_once);
                self.out.respond_to(link.session, Response::Looked { look, seen });
            }
        }
        self.drain();
    }

    /// Takes one message of another shard.
    pub(super) fn take_peer(&mut self, message: PeerMessage) {
        match message {
            // To write a no takes room; it asks again, and there may be some.
            PeerMessage::Inquire { attempt, .. } if !self.may_note(attempt) => self.stats.unanswered += 1,
            PeerMessage::Inquire { attempt, from, listed } => {
                let status = self.status_or_refuse(attempt, listed);
                let answer = PeerMessage::Answer { attempt, from: self.config.id(), status };
                self.out.tell(from, answer);
            }
            PeerMessage::Answer { attempt, from, status } => self.hear_answer(attempt, from, status),
            PeerMessage::Way { attempt, from, words } => {
                self.tell_ways(&Heard::Words { attempt, from, words: &words });
            }
            // What is said of clocks lets nobody in, and a host takes it where nothing may be written: so nothing is carried out.
            PeerMessage::AskClock { from, incarnation, want } => {
                return self.tell_clock(from, incarnation, want);
            }
            PeerMessage::Clock { from, incarnation, clock, owners } => {
                self.safe_time.hear_clock(self.now, self.config, from, clock, owners);
                return self.safe_time.hear_in_doubt(self.config, self.table, from, incarnation, clock);
            }
        }
        self.drain();
    }

    /// Time has passed. See [`Shard::handle_timeout`](super::Shard::handle_timeout).
    pub(super) fn take_time(&mut self) {
        self.begin();
        self.safe_time.see_to_doubt(self.now, self.config, self.table, self.out);
        while !self.budget.is_spent()
            && let Some(attempt) = self.attempts.pop_due(self.now)
        {
            self.charge_for(attempt);
            self.end_wait(attempt);
        }
        while !self.budget.is_spent() && self.go_on_in_way(Occasion::Time) {}
        self.begin();
        self.end_deserted();
        self.drain();
        self.begin();
        while let Some(attempt) = self.budget.next_turn() {
            self.take_up(attempt);
            self.drain();
        }
        self.begin();
        self.seeing_off().see_off();
    }

    /// What one input may do begins.
    fn begin(&mut self) {
        self.budget.begin(self.now, self.config);
    }

    /// Counts what ending an attempt costs.
    pub(super) fn charge_for(&mut self, attempt: AttemptId) {
        let held = self.attempts.get(attempt).map_or(0, |participant| participant.held.len());
        self.budget.charge(held + 1);
    }
}

/// Clocks.
impl Step<'_> {
    /// A client process wants the clock (P79).
    fn tick(&mut self, link: Link, want: Timestamp) {
        let clock = self.safe_time.raise_clock(self.now, self.config, self.table, want);
        let orders = self.asks_for_timestamps();
        let is_unsettled = !self.safe_time.has_stamped() && !self.safe_time.is_settled(self.table);
        if is_unsettled && !orders || clock < want {
            self.ask_clocks(clock < want);
        }
        let (passed, owners) = self.safe_time.passed_and_owners();
        let response = Response::Ticked { clock, now: self.now, passed, orders, owners };
        self.out.respond_to(link.session, response);
    }

    /// Asks the others how far they are. See [`SafeTime::ask_clocks`].
    pub(super) fn ask_clocks(&mut self, is_beyond: bool) {
        let used = self.table.clocks().used();
        self.safe_time.ask_clocks(self.now, self.config, used, is_beyond, self.out);
    }

    /// Another shard wants the clock.
    fn tell_clock(&mut self, asking: ShardId, incarnation: Incarnation, want: Timestamp) {
        if !self.config.can_order() {
            return;
        }
        let (clock, owners) = match want {
            // It lost its memory. What it had from here, or from where this one had it, is no further ahead. That is no clock.
            Timestamp::MAX => {
                let used = self.safe_time.clock().max(self.table.clocks().used()).max(self.out.told_used());
                (self.safe_time.far_ahead(self.now, self.config).max(used), 0)
            }
            want => {
                self.safe_time.vouch(self.now, self.config, want);
                let clock = self.safe_time.raise_clock(self.now, self.config, self.table, want);
                (clock, self.safe_time.passed_and_owners().1)
            }
        };
        self.out.tell(asking, PeerMessage::Clock { from: self.config.id(), incarnation, clock, owners });
    }
}

/// Who comes.
impl Step<'_> {
    /// Lets an attempt in, or answers why not.
    pub(super) fn admit(
        &mut self,
        link: Link,
        attempt: AttemptId,
        birth: Birth,
        incarnation: Option<Incarnation>,
    ) -> Option<Owner> {
        let (account, own) = match self.config.is_direct() {
            false => self.admit_from_network(link, attempt)?,
            true if self.memory.is_refused(attempt) => return None,
            true => (0, self.config.incarnation()),
        };
        let (owner, has_voted) = match self.attempts.get(attempt) {
            // Its first birth counts: under another one it would wait where nobody looks for it.
            Some(participant) => (participant.owner, participant.is_prepared()),
            None => {
                let owner = Owner::of(attempt, birth);
                self.attempts.insert(attempt, Participant::new(owner, account, own));
                self.attempts.renew(self.now, self.config, attempt);
                (owner, false)
            }
        };
        // One that has voted did so as the incarnation that was relied on, and its vote outlived that.
        if incarnation.is_some_and(|relied| relied != own) && !has_voted {
            self.refuse(attempt, Refusal::LostLocks);
            return None;
        }
        Some(owner)
    }

    /// The account, and the incarnation that the shard is to the session.
    fn admit_from_network(&mut self, link: Link, attempt: AttemptId) -> Option<(u64, Incarnation)> {
        match self.memory.admit(self.config, link, attempt) {
            Admission::LetIn { account, own, older } => {
                self.stats.visits += older.len() as u64;
                for number in older {
                    let stale = AttemptId { tx: attempt.tx, attempt: number };
                    if self.attempts.is_unvoted(stale) {
                        self.refuse(stale, Refusal::Stale);
                    }
                }
                Some((account, own))
            }
            Admission::Refused(refusal) => {
                self.respond_refused(attempt, refusal);
                None
            }
            Admission::Dropped => None,
        }
    }

    /// Calls of an attempt are to be executed.
    fn execute(&mut self, owner: Owner, key: &Bytes, calls: Calls, undone: &[Undone]) {
        let attempt = owner.attempt;
        match self.execution(attempt).execute(key, calls, undone) {
            Ran::All | Ran::PutOff => {}
            Ran::Waits => self.say_queued(attempt, Some(key)),
            Ran::Busy => self.execution(attempt).busy(),
            Ran::Failed(refusal) => self.refuse(attempt, refusal),
        }
    }

    /// What the last of these operations on a record would answer, behind the others (O1, O2 of `docs/optimistic.md`). Nothing is
    /// locked, done or kept. `at_once`: also where somebody has voted who is in the way. O(operations); with an external store more,
    /// where its partial states are good for few.
    pub(super) fn look(&mut self, key: &Bytes, ops: &[Operation], at_once: bool) -> Seen {
        // What is answered is not kept, and so counts as what is said again (P38).
        if self.budget.is_spent() || !self.budget.says_again() {
            return Seen::Later;
        }
        if let Err(refusal) = self.table.admit(key, ops.iter()) {
            return Seen::Refused(refusal);
        }
        if ops.iter().any(Operation::is_command) {
            return Seen::Refused(answers_later(key));
        }
        let before = self.table.dearness();
        let looked = self.table.look(key_hash(key), key, ops, self.budget.again_left(), self.budget.left());
        let dearness = (self.table.dearness() - before) as usize;
        self.budget.charge(ops.len());
        self.budget.charge(dearness);
        let Look { result, unique, record, bytes, .. } = looked;
        self.budget.charge_again(bytes);
        if let Some(record) = record.filter(|_| !at_once) {
            let voted = |attempt| self.attempts.has_voted(attempt);
            let holders = self.table.holders(record).take(LOOKED_THROUGH_MAX);
            if holders.into_iter().any(voted) && !is_planted(Bug::LooksPastVotes) {
                return Seen::Later;
            }
        }
        match result {
            Ok(reply) => Seen::Answer { reply, unique: unique.0 },
            Err((at, error)) => Seen::Fails { at: at as u32, error: Box::new(error), unique: unique.0 },
        }
    }

    /// Tells an attempt whom it waits for (P72). Only of records that it waits for itself, which its session may use; so
    /// nobody learns of others'. When the input has done its share (P38), the question is as if lost.
    fn tell_behind(&mut self, attempt: AttemptId) {
        let mut records = SmallVec::new();
        let participant = self.attempts.get(attempt);
        let waits = participant.into_iter().flat_map(|participant| &participant.blocked);
        let waits = waits.filter_map(|(key, blocked)| Some((key, blocked.record?)));
        for (key, record) in waits.take(BEHIND_MAX) {
            if self.budget.is_spent() {
                return;
            }
            let looked_through = self.table.crowd(record) / LOOKED_THROUGH_WORTH;
            self.budget.charge(1 + looked_through);
            if let Some(behind) = self.table.waits_behind(record, attempt) {
                records.push((key.clone(), behind.first().copied()));
            }
        }
        self.out.respond(attempt, Response::Behind { attempt, records });
    }
}

/// Who goes on.
impl Step<'_> {
    /// Carries on with everybody whom the last input let in. What a grant or an error was decided on may not change
    /// before it is written, so all of these come first, and then those who go on to further records.
    pub(super) fn drain(&mut self) {
        loop {
            if self.table.outbox().has_ended() {
                self.end_with_their_records();
            } else if let Some(woken) = self.table.outbox().poll_woken() {
                self.wake(woken);
            } else if let Some(attempt) = self.table.outbox().poll_ready() {
                self.come_ready(attempt);
            } else if let Some(attempt) = self.attempts.next_to_go_on() {
                self.go_on(attempt);
            } else if self.go_on_in_way(Occasion::Input) {
            } else if let Some(attempt) = self.table.outbox().poll_foremost() {
                self.apply_later(attempt);
            } else if let Some(key) = self.table.sleepers_mut().poll_stirred() {
                self.rouse(&key);
            } else {
                break;
            }
        }
        self.say_notices();
    }

    /// Tells holders that elders wait for them.
    fn say_notices(&mut self) {
        // To pass one on makes others.
        while let Some(Notice { attempt, elder }) = self.table.outbox().poll_notice() {
            if !self.attempts.has(attempt) {
                continue; // Decided meanwhile.
            }
            match self.attempts.placed_at(attempt) {
                None => {
                    let shard = self.config.id();
                    self.out.respond(attempt, Response::Elder { attempt, shard, birth: elder.time });
                }
                // It cannot give way any more, and waits itself.
                Some(_) => self.pass_on(attempt, elder),
            }
        }
    }

    fn wake(&mut self, woken: Woken) {
        let attempt = woken.attempt;
        if !self.attempts.has(attempt) {
            return;
        }
        let mut execution = self.execution(attempt);
        if let Ran::Failed(refusal) = execution.wake(woken) {
            return self.refuse(attempt, refusal);
        }
        let participant = &*execution.participant;
        if !matches!(participant.stage, Stage::Preparing(_)) {
            return;
        }
        if participant.may_vote() {
            self.vote(attempt);
        } else if participant.blocked.is_empty() {
            self.attempts.let_go_on(attempt);
        }
    }

    /// A record changed, or somebody left it, and calls sleep there: the eldest of each type looks again (P91).
    fn rouse(&mut self, key: &Bytes) {
        for attempt in self.table.sleepers().eldest(key) {
            if !self.attempts.has(attempt) {
                continue;
            }
            match self.execution(attempt).rouse(key) {
                Ran::All | Ran::Waits | Ran::PutOff => {}
                Ran::Busy => self.execution(attempt).busy(),
                Ran::Failed(refusal) => self.refuse(attempt, refusal),
            }
        }
    }

    /// Locks the records that stood behind the one for which it waited.
    fn go_on(&mut self, attempt: AttemptId) {
        if !self.attempts.has(attempt) {
            return;
        }
        match self.execution(attempt).run_behind() {
            Ran::All => self.vote(attempt),
            Ran::Waits | Ran::PutOff | Ran::Busy => {}
            Ran::Failed(refusal) => self.refuse(attempt, refusal),
        }
    }

    /// Goes on with one that was put off, whose turn it is.
    fn take_up(&mut self, attempt: AttemptId) {
        match self.execution(attempt).take_up() {
            (Ran::All, true) => return self.vote(attempt),
            (Ran::All | Ran::PutOff, _) => {}
            (Ran::Waits, _) => self.say_waits(attempt),
            (Ran::Busy, _) => self.execution(attempt).busy(),
            (Ran::Failed(refusal), _) => return self.refuse(attempt, refusal),
        }
        self.execution(attempt).put_off_again();
    }

    /// Nobody comes before an attempt on a record any more: if it is committed, it is carried out once that is so on all of them.
    fn apply_later(&mut self, attempt: AttemptId) {
        if self.attempts.get(attempt).is_some_and(Participant::waits_to_apply) {
            self.apply(attempt);
        }
    }

    /// Says that a prepare waits.
    pub(super) fn say_waits(&mut self, attempt: AttemptId) {
        if self.vote_in_way(attempt, Vote::Waits) {
            self.say_queued(attempt, None);
        }
    }

    /// Says that a call waits: on this record, or on the last one that was blocked.
    pub(super) fn say_queued(&mut self, attempt: AttemptId, key: Option<&Bytes>) {
        let blocked = &self.attempts[attempt].blocked;
        let waits = match key {
            Some(key) => blocked.get(key),
            None => blocked.values().rev().find(|it| !it.is_put_off()),
        };
        let no = waits.and_then(|it| it.calls.front()).map(|call| call.no);
        self.out.respond(attempt, Response::Queued { attempt, no });
    }
}

/// Somebody asks at once what a command of the server answers.
pub(super) fn answers_later(key: &Bytes) -> Refusal {
    let error = "ERR a command of the server is carried out with the commit, and answers then";
    Refusal::Operation { key: key.clone(), error: Box::new(OpError::Told(error.into())) }
}
