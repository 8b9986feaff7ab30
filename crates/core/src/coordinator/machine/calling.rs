//! The application's calls: operations, savepoints, the abort. The commit is `committing`'s.
//!
//! User code may do anything between two calls, and may keep handles to attempts that are over. So each call names
//! its attempt, and is taken only while that attempt runs; otherwise nothing is done, and the caller hears [`Closed`]
//! (P61).

use claret_types::{Bytes, Claims, Operation, Reply};

use super::{Coordinator, Goal, State};
use crate::coordinator::calls::{Sent, ToSend};
use crate::coordinator::{Cause, Closed, Event};
use crate::ids::{AttemptId, CallNo, Incarnation, Member, ShardId, Time};
use crate::message::{KeyedCall, Refusal, Request, Undone};
use crate::planted::{Bug, is_planted};

/// Operations.
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

    /// [`Self::execute`] for a member of the attempt. Another member's buffered calls stay behind (C4).
    ///
    /// # Errors
    /// [`Closed`] when no attempt runs.
    pub fn execute_for(
        &mut self,
        now: Time,
        member: Member,
        shard: ShardId,
        key: Bytes,
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        self.check_open()?;
        let to_send = self.calls.with_buffered(member, (shard, key), op, reserve);
        let no = to_send.no();
        self.send_calls(now, to_send);
        Ok(no)
    }

    fn send_calls(&mut self, now: Time, to_send: ToSend) {
        // With direct calls nothing overtakes anything, what waits keeps its place, and shards keep no list of calls.
        let repeats = !self.switches.is_direct() || !self.switches.is_phased();
        let no = to_send.no();
        let participant = self.participants.of(to_send.shard());
        match self.calls.send(to_send, repeats) {
            Sent::Joined => {}
            Sent::KeptBack => participant.send(no),
            Sent::Leave(at) => {
                participant.send(no);
                self.send_execute(now, at);
            }
        }
    }

    pub(super) fn send_execute(&mut self, now: Time, at: usize) {
        let (attempt, birth) = (self.attempt(), self.birth);
        let sent = self.calls.outstanding().at(at);
        let (shard, key, calls) = (sent.shard, sent.key.clone(), sent.calls.clone());
        let participant = self.participants.of(shard);
        participant.execute();
        let (incarnation, undone) = (participant.incarnation(), participant.undone().to_vec().into());
        self.out.send(shard, Request::Execute { attempt, birth, incarnation, key, calls, undone });
        self.expect_answers(now);
    }

    pub(super) fn on_granted(
        &mut self,
        now: Time,
        from: ShardId,
        no: CallNo,
        reply: Reply,
        (granted, incarnation): (u32, Incarnation),
    ) {
        let Some(answered) = self.calls.answer(from, no) else { return };
        let participant = self.participants.of(from);
        if answered.finished.is_some() {
            participant.answer(answered.began_with);
        }
        if !participant.grant(granted, incarnation) {
            // Of two answers, one came from an earlier incarnation, and its lock with it (trap 3).
            self.close_attempt(now, None);
            return self.tell_restart(Cause::Refused(Refusal::LostLocks));
        }
        self.unblock();
        self.out.tell(Event::Answer { no, reply });
        if let Some(key) = &answered.finished {
            self.send_kept_back(now, key);
        }
    }

    /// All that was sent on a record may be answered: then what was kept back goes.
    fn send_kept_back(&mut self, now: Time, key: &Bytes) {
        if let Some(at) = self.calls.outstanding_mut().release_next(key) {
            self.send_execute(now, at);
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

    /// [`Self::buffer`] for a member of the attempt.
    ///
    /// # Errors
    /// [`Closed`] when no attempt runs.
    #[inline]
    pub fn buffer_for(
        &mut self,
        member: Member,
        shard: ShardId,
        key: Bytes,
        op: Operation,
    ) -> Result<CallNo, Closed> {
        self.check_open()?;
        Ok(self.calls.buffer(member, shard, key, op))
    }
}

/// Savepoints (`docs/nesting.md`).
impl Coordinator {
    /// From this call on, one that is executed and cannot be done is answered with [`Reply::Failed`](claret_types::Reply) and ends
    /// nothing; so is one that returns nothing (N5). `None`: none is.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn may_fail_from(&mut self, attempt: AttemptId, from: Option<CallNo>) -> Result<(), Closed> {
        self.check_running(attempt)?;
        self.calls.may_fail_from(from);
        Ok(())
    }

    /// Undoes the calls from this one on: what waits for the commit goes, what was executed is not carried out, and what is not
    /// answered is not waited for any more (N1 to N4). It needs no message. O(calls of the attempt).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn undo(&mut self, now: Time, attempt: AttemptId, from: CallNo) -> Result<(), Closed> {
        self.check_running(attempt)?;
        let range = Undone { from, to: self.calls.next() };
        if range.from >= range.to {
            return Ok(());
        }
        let undone = self.calls.undo(from);
        self.participants.undo(&undone.asked, range);
        self.participants.recount(self.calls.outstanding());
        self.unblock();
        undone.keys.iter().for_each(|key| self.send_kept_back(now, key));
        Ok(())
    }

    /// Executes what is buffered, record by record. The last call on each is answered, though it returns nothing, also that it
    /// cannot be done (N8): the numbers of these calls, with their records. O(calls that are buffered, times records).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn settle(&mut self, now: Time, attempt: AttemptId) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        self.check_running(attempt)?;
        let mut settled = Vec::new();
        while let Some(to_send) = self.calls.take_to_settle() {
            settled.push((to_send.no(), to_send.key().clone()));
            self.send_calls(now, to_send);
        }
        Ok(settled)
    }

    /// The buffered calls of these ranges are executed with the commit, so that what they answer is checked, and are not carried
    /// out (N6).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn only_check(&mut self, attempt: AttemptId, ranges: &[Undone]) -> Result<(), Closed> {
        self.check_running(attempt)?;
        self.calls.only_check(ranges);
        Ok(())
    }
}

/// What another carries out.
impl Coordinator {
    /// Takes the buffered calls out, when nothing else was ever sent: the host may do them instantly.
    /// `None` when some shard takes part already, or the attempt does not run.
    pub fn take_buffered(&mut self, attempt: AttemptId) -> Option<Vec<(ShardId, KeyedCall)>> {
        self.check_running(attempt).ok()?;
        self.participants.is_empty().then(|| self.calls.take_buffered())
    }

    /// Puts calls back that [`Self::take_buffered`] gave.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn put_back(&mut self, attempt: AttemptId, calls: Vec<(ShardId, KeyedCall)>) -> Result<(), Closed> {
        self.check_running(attempt)?;
        self.calls.put_back(calls);
        Ok(())
    }

    /// The host carried the whole transaction out by itself: the calls that [`Self::take_buffered`] gave.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or has more than was taken.
    pub fn close_instantly(&mut self, attempt: AttemptId) -> Result<(), Closed> {
        self.check_running(attempt)?;
        if !(self.participants.is_empty() && self.calls.buffered().is_empty()) {
            return Err(Closed);
        }
        self.state = State::Idle { again: false };
        Ok(())
    }

    /// The calls of its first attempt, if it has sent nothing and has some: all of it can be carried by another.
    #[inline]
    pub(crate) fn one_shot(&self) -> Option<&[(ShardId, KeyedCall)]> {
        let is_first = self.number == 1 && self.state == State::Running && self.participants.is_empty();
        (is_first && self.calls.are_all_buffered() && !self.calls.have_commands())
            .then_some(self.calls.buffered())
    }

    /// Buffers all that a one-shot transaction has. Gives the number of the next call.
    pub(crate) fn buffer_all_of(&mut self, other: &Coordinator) -> u32 {
        self.calls.buffer_all_of(&other.calls);
        self.calls.next().0
    }

    /// Whoever carried it was told the end.
    pub(crate) fn close_carried(&mut self) {
        self.calls.clear_buffered();
        self.state = State::Idle { again: false };
    }
}

/// The end of an attempt, as its user wants it, but for the commit.
impl Coordinator {
    /// A member leaves before the prepare: nothing of it counts any more. What it asked for and was not
    /// granted is given up with the prepare, which names the members that stay.
    pub fn leave(&mut self, member: Member) {
        // Once the prepare has left, who is a member is settled.
        if self.is_running() {
            self.calls.leave(member);
        }
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

    /// Ends the attempt without a trace, if that is still possible: [`Event::Aborted`], [`Event::Committed`] or, where a
    /// shard lost its memory, [`Event::Unknown`] follows. Nothing follows if the attempt is over.
    pub fn abort(&mut self, now: Time) {
        match self.state {
            State::Preparing => self.withdraw(now, Goal::Abort),
            State::Running => {
                self.close_attempt(now, None);
                self.out.tell(Event::Aborted);
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
            self.out.tell(Event::Aborted);
        }
    }
}
