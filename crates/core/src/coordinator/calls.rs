//! The application's calls: operations, the commit, the abort, the next attempt.
//!
//! User code may do anything between two calls, and may keep handles to attempts that are over. So each call names
//! its attempt, and is taken only while that attempt runs; otherwise nothing is done, and the caller hears [`Closed`]
//! (P61).

use claret_types::{Bytes, Claims, Operation};
use smallvec::SmallVec;

use super::outstanding::{Outstanding, REPEATS_MAX};
use super::reserves::{add_modes, bounded};
use super::touched::Touched;
use super::{Cause, Closed, Coordinator, Event, Goal, ParticipantState, State};
use crate::ids::{AttemptId, CallNo, Member, ShardId, Time};
use crate::message::{Call, KeyedCall, Listed, Members, Refusal};
use crate::planted::{Bug, is_planted};

impl Coordinator {
    /// Lets in what names the attempt that runs, and nothing else (P61).
    #[inline]
    pub(super) fn check_running(&self, attempt: AttemptId) -> Result<(), Closed> {
        let running = self.attempt();
        let is_tx = attempt.tx == running.tx || is_planted(Bug::RenewedTakesStale);
        let is_attempt = attempt.attempt == running.attempt || is_planted(Bug::EarlierTakenForThis);
        if is_tx && is_attempt { self.check_open() } else { Err(Closed) }
    }

    /// Lets in what is of the attempt that runs.
    #[inline]
    pub(super) fn check_open(&self) -> Result<(), Closed> {
        if self.is_running() || is_planted(Bug::ClosedTakesCalls) { Ok(()) } else { Err(Closed) }
    }

    /// Sends an operation whose answer is wanted now, behind what the transaction has buffered for its record
    /// (P12). `reserve` are claims to take besides its own.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn execute(
        &mut self,
        now: Time,
        attempt: AttemptId,
        shard: ShardId,
        key: Bytes,
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        self.check_running(attempt)?;
        self.execute_for(now, Member(0), shard, key, op, reserve)
    }

    /// [`Self::execute`] for a member of the group. Another member's buffered calls stay behind (C4).
    pub(super) fn execute_for(
        &mut self,
        now: Time,
        member: Member,
        shard: ShardId,
        key: Bytes,
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        self.check_open()?;
        let mut calls = self.take_due(&key, member);
        let no = self.number_call();
        calls.push(Call { no, op, member, reserve: reserve.map(bounded).map(Box::new) });
        self.send_calls(now, member, shard, key, calls);
        Ok(no)
    }

    /// Takes out what a member has buffered for a record.
    pub(super) fn take_due(&mut self, key: &Bytes, member: Member) -> SmallVec<[Call; 1]> {
        let mut calls: SmallVec<[Call; 1]> = SmallVec::new();
        let is_due = |buffered: &KeyedCall| buffered.key == *key && buffered.call.member == member;
        if self.buffered.iter().any(|(_, buffered)| is_due(buffered)) {
            let all = std::mem::take(&mut self.buffered);
            let (mine, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, buffered)| is_due(buffered));
            self.buffered = rest;
            calls.extend(mine.into_iter().map(|(_, buffered)| buffered.call));
        }
        calls
    }

    /// Sends calls of a member on one record, of which the last one is answered.
    pub(super) fn send_calls(
        &mut self,
        now: Time,
        member: Member,
        shard: ShardId,
        key: Bytes,
        mut calls: SmallVec<[Call; 1]>,
    ) {
        let Some(no) = calls.last().map(|call| call.no) else { return };
        self.try_inside(&mut calls);
        if let Some(known) = self.reserves.take(&key, &calls[0].op) {
            add_modes(calls[0].reserve.get_or_insert_default(), &known);
        }
        self.touched.extend(calls.iter().map(|Call { no, op, member, reserve }| Touched {
            no: *no,
            shard,
            is_undone: false,
            was_heard: false,
            key: key.clone(),
            op: op.clone(),
            member: *member,
            reserve: reserve.clone(),
        }));
        self.participant(shard);
        let (under_way, kept_back) = self.under_way(&key, member);
        if let Some(at) = kept_back {
            return self.outstanding.add(at, calls);
        }
        let is_kept_back = under_way.len() >= REPEATS_MAX;
        let returning = calls.iter().filter(|call| call.op.returns()).map(|call| call.no).collect();
        if !is_kept_back {
            self.repeat_unanswered(&under_way, &mut calls);
        }
        let (began_with, answered, is_busy, stale) = (no, 0, false, false);
        let it =
            Outstanding { began_with, returning, answered, shard, key, calls, is_busy, stale, is_kept_back };
        self.outstanding.push(it);
        let participant = self.participant(shard);
        participant.outstanding += 1;
        // What settles has an older number than a call that waits: it counts as that.
        participant.waiting += usize::from(no < participant.waiting_below);
        if !is_kept_back {
            self.send_execute(now, self.outstanding.len() - 1);
        }
    }

    /// Keeps an operation until the commit, or until its record is executed on. O(1).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    #[inline]
    pub fn buffer(
        &mut self,
        attempt: AttemptId,
        shard: ShardId,
        key: Bytes,
        op: Operation,
    ) -> Result<CallNo, Closed> {
        self.check_running(attempt)?;
        self.buffer_for(Member(0), shard, key, op)
    }

    /// [`Self::buffer`] of calls that come together.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub(crate) fn buffer_all(
        &mut self,
        attempt: AttemptId,
        calls: impl Iterator<Item = (ShardId, Bytes, Operation)>,
    ) -> Result<(), Closed> {
        self.check_running(attempt)?;
        for (shard, key, op) in calls {
            self.buffer_for(Member(0), shard, key, op)?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn buffer_for(
        &mut self,
        member: Member,
        shard: ShardId,
        key: Bytes,
        op: Operation,
    ) -> Result<CallNo, Closed> {
        self.check_open()?;
        let no = self.number_call();
        let call = Call { no, op, member, reserve: None };
        self.buffered.push((shard, KeyedCall { key, call }));
        Ok(no)
    }

    /// Takes the buffered calls out, when nothing else was ever sent: the host may do them instantly.
    /// `None` when some shard takes part already, or the attempt does not run.
    pub fn take_buffered(&mut self, attempt: AttemptId) -> Option<Vec<(ShardId, KeyedCall)>> {
        self.check_running(attempt).ok()?;
        self.participants.is_empty().then(|| std::mem::take(&mut self.buffered))
    }

    /// Puts calls back that [`Self::take_buffered`] gave.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn put_back(
        &mut self,
        attempt: AttemptId,
        mut calls: Vec<(ShardId, KeyedCall)>,
    ) -> Result<(), Closed> {
        self.check_running(attempt)?;
        // Before what came meanwhile.
        calls.append(&mut self.buffered);
        self.buffered = calls;
        Ok(())
    }

    /// The host carried the whole transaction out by itself: the calls that [`Self::take_buffered`] gave.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or has more than was taken.
    pub fn close_instantly(&mut self, attempt: AttemptId) -> Result<(), Closed> {
        self.check_running(attempt)?;
        if !(self.participants.is_empty() && self.buffered.is_empty()) {
            return Err(Closed);
        }
        self.state = State::Idle { again: false };
        Ok(())
    }

    /// The calls of its first attempt, if it has sent nothing and has some: all of it can be carried by another.
    #[inline]
    pub(crate) fn one_shot(&self) -> Option<&[(ShardId, KeyedCall)]> {
        let is_one_shot = self.number == 1
            && self.state == State::Running
            && self.participants.is_empty()
            && self.only_checked.is_empty()
            && self.next_call as usize == self.buffered.len();
        (is_one_shot && !self.buffered.is_empty()).then_some(&self.buffered[..])
    }

    /// Buffers all that a one-shot transaction has. Gives the number of the next call.
    pub(crate) fn buffer_all_of(&mut self, other: &Coordinator) -> u32 {
        for (shard, KeyedCall { key, call }) in &other.buffered {
            let no = self.number_call();
            let call = Call { no, op: call.op.clone(), member: Member(0), reserve: None };
            self.buffered.push((*shard, KeyedCall { key: key.clone(), call }));
        }
        self.next_call
    }

    /// Whoever carried it was told the end.
    pub(crate) fn close_carried(&mut self) {
        self.buffered.clear();
        self.state = State::Idle { again: false };
    }

    /// Starts the commit: one message with one participant (P9), otherwise round one (P1), in which `hot` shards are
    /// asked last, in this order (P22): see [`Contention`](super::Contention).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or calls of it are not answered: then it is aborted.
    pub fn commit(&mut self, now: Time, attempt: AttemptId, hot: &[ShardId]) -> Result<(), Closed> {
        self.check_commit(attempt)?;
        self.commit_open(now, hot)
    }

    /// As [`Self::commit`], of calls that are executed and not carried out: [`Event::Committed`] says that all of them can be done
    /// together, in real time, and nothing is done (O5).
    ///
    /// # Errors
    /// As of [`Self::commit`].
    pub fn check(&mut self, now: Time, attempt: AttemptId, hot: &[ShardId]) -> Result<(), Closed> {
        self.check_commit(attempt)?;
        let nobody = Members::Only(SmallVec::new());
        self.members = if is_planted(Bug::ChecksApplied) { Members::All } else { nobody };
        self.commit_open(now, hot)
    }

    /// The attempt's user has found that it cannot commit, and may run it again: [`Event::Restart`] follows.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn renounce(&mut self, now: Time, attempt: AttemptId, refusal: Refusal) -> Result<(), Closed> {
        self.check_running(attempt)?;
        self.close_attempt(now, None);
        self.tell_restart(Cause::Refused(refusal));
        Ok(())
    }

    /// Whether a commit in the name of this attempt is taken: to be asked before [`Contention::arrange`](super::Contention).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn check_commit(&self, attempt: AttemptId) -> Result<(), Closed> {
        if is_planted(Bug::ClosedCommits) { Ok(()) } else { self.check_running(attempt) }
    }

    /// [`Self::commit`] of the attempt that runs.
    pub(super) fn commit_open(&mut self, now: Time, hot: &[ShardId]) -> Result<(), Closed> {
        self.forget_stale();
        self.unblock();
        if !self.outstanding.is_empty() {
            // Its user committed what it has not heard of: no vote may cover that.
            self.close_attempt(now, None);
            self.events.push_back(Event::Aborted);
            return Err(Closed);
        }
        for at in 0..self.buffered.len() {
            self.participant(self.buffered[at].0);
            if !self.reserves.is_empty() {
                let KeyedCall { key, call } = self.buffered[at].1.clone();
                self.buffered[at].1.call.reserve = self.reserves.take(&key, &call.op).map(Box::new);
            }
        }
        if self.participants.is_empty() {
            self.state = State::Idle { again: false };
            self.events.push_back(Event::Committed { replies: Vec::new() });
            return Ok(());
        }
        if self.participants.iter().any(|participant| self.is_removed(participant)) {
            // No prepare has left, so the earlier incarnation cannot have voted.
            self.close_attempt(now, None);
            self.tell_restart(Cause::Refused(Refusal::LostLocks));
            return Ok(());
        }
        self.arrange_chain(hot);
        let enlist = |participant: &ParticipantState| Listed {
            shard: participant.shard,
            incarnation: participant.incarnation,
        };
        self.listed = Some(self.participants.iter().map(enlist).collect());
        self.state = State::Preparing;
        self.begin_prepares(hot);
        self.expect_answers(now);
        Ok(())
    }

    /// Ends the attempt without a trace, if that is still possible: [`Event::Aborted`], [`Event::Committed`] or, where a
    /// shard lost its memory, [`Event::Unknown`] follows. Nothing follows if the attempt is over.
    pub fn abort(&mut self, now: Time) {
        match self.state {
            State::Preparing => self.withdraw(now, Goal::Abort),
            State::Running => {
                self.close_attempt(now, None);
                self.events.push_back(Event::Aborted);
            }
            State::Withdrawing(_) => self.state = State::Withdrawing(Goal::Abort),
            State::Committed | State::Idle { .. } => {}
        }
    }

    /// Gives the transaction up where its user was told that he may run it again: [`Event::Aborted`] follows. Otherwise
    /// nothing changes.
    pub(crate) fn give_up(&mut self) {
        if self.state == (State::Idle { again: true }) {
            self.state = State::Idle { again: false };
            self.events.push_back(Event::Aborted);
        }
    }

    /// Begins the next attempt, after [`Event::Restart`] of this one, or [`Event::Failed`]. The birth stays (P22).
    ///
    /// # Errors
    /// [`Closed`] when the transaction's user was told neither of that attempt, or it runs again already.
    pub fn restart(&mut self, ended: AttemptId) -> Result<(), Closed> {
        if ended != self.attempt() || self.state != (State::Idle { again: true }) {
            return Err(Closed);
        }
        self.begin_next();
        Ok(())
    }

    pub(super) fn begin_next(&mut self) {
        let buffered = self.buffered.iter().map(|(_, it)| (&it.key, &it.call.op));
        let touched = self.touched.iter().map(|it| (&it.key, &it.op));
        self.reserves.note(self.switches.locks, touched.chain(buffered));
        self.number += u32::from(!is_planted(Bug::AttemptsShareNumber));
        self.state = State::Running;
        self.members = Members::All;
        self.buffered.clear();
        self.touched.clear();
        self.next_call = 0;
        self.inside = None;
        self.only_checked.clear();
        self.elder = None;
        self.tries = 0;
        self.replies.clear();
        (self.suggested, self.placed_at, self.told_at, self.lost_answers) = (None, None, None, false);
        self.forget_chain();
        self.listed = None;
    }
}
