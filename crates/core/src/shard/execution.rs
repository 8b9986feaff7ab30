//! How an attempt executes calls before its prepare, and goes on with calls that waited or were put off. How calls that have come are
//! locked, record after record, is in `preparing.rs`.
//!
//! One input executes at most [`Limits::at_once_max`](crate::Limits) calls. An attempt with more is **put off**, and
//! goes on with a later timeout, in turn with others (P38). Until then it is like a waiter, but waits for nobody.
//!
//! Nothing ends here: who fails or has everything is told so, and the [step](super::step) refuses it or lets it vote.

use std::collections::VecDeque;

use claret_types::{Bytes, OpError, Reply};
use smallvec::SmallVec;

use super::accounts::{Accounts, Taken};
use super::budget::Budget;
use super::config::Config;
use super::key_hash;
use super::lock_table::{LockTable, Owner, RecordIx, Stop, Woken};
use super::outputs::Outputs;
use super::participant::{Blocked, Calls, Heard, Participant, Stage};
use super::picture::Stats;
use super::step::answers_later;
use crate::ids::{CallNo, Time};
use crate::message::{Call, Refusal, Response, Undone};
use crate::planted::{Bug, is_planted};
use crate::shard::ways::ordered::safe_time::SafeTime;

/// How far calls on one record went.
pub(super) enum Ran {
    All,
    Waits,
    /// The rest is executed later, by [`Shard::handle_timeout`](super::Shard::handle_timeout).
    PutOff,
    Busy,
    Failed(Refusal),
}

/// One attempt that executes calls, and the parts of the shard that this concerns.
pub(super) struct Execution<'a> {
    pub(super) now: Time,
    pub(super) config: &'a Config,
    pub(super) owner: Owner,
    pub(super) participant: &'a mut Participant,
    pub(super) table: &'a mut LockTable,
    pub(super) accounts: &'a mut Accounts,
    pub(super) budget: &'a mut Budget,
    pub(super) safe_time: &'a SafeTime,
    pub(super) out: &'a mut Outputs,
    pub(super) stats: &'a mut Stats,
}

/// Calls that are left.
impl Execution<'_> {
    /// [`Self::run`] for calls that were left.
    fn run_rest(&mut self, key: &Bytes, record: RecordIx, mut calls: VecDeque<Call>) -> Ran {
        if self.participant.undone.is_some() {
            return self.run_in_parts(key, record, calls);
        }
        let in_order = self.is_in_order(record, calls.make_contiguous());
        let (granted, stop) = self.run_some(record, calls.make_contiguous(), in_order);
        calls.drain(..granted);
        if calls.is_empty() { Ran::All } else { self.keep_rest(key, record, calls, stop) }
    }

    /// Calls are left: they wait, are put off, or have failed.
    pub(super) fn keep_rest(
        &mut self,
        key: &Bytes,
        record: RecordIx,
        calls: VecDeque<Call>,
        stop: Stop,
    ) -> Ran {
        let ran = match stop {
            Stop::All => {
                self.put_off_all(key, calls);
                return Ran::PutOff;
            }
            Stop::Queued => Ran::Waits,
            Stop::Busy => Ran::Busy,
            Stop::Crowded => return Ran::Failed(Refusal::Crowded(key.clone())),
            Stop::Failed(error) if self.may_sleep(&calls, &error) => {
                self.sleep(key, calls);
                return Ran::Waits;
            }
            Stop::Failed(error) => {
                let key = key.clone();
                return Ran::Failed(self.safe_time.fails(self.config, self.table, key, error));
            }
        };
        self.participant.blocked.insert(key.clone(), Blocked::in_queue(Some(record), calls));
        ran
    }

    /// Whether the first of these calls has failed for want of anything to answer, and waits for that (P91).
    fn may_sleep(&self, calls: &VecDeque<Call>, error: &OpError) -> bool {
        let finds_nothing = calls.front().is_some_and(|call| call.op.finds_nothing(error));
        finds_nothing && self.config.has_phases() && self.participant.may_sleep()
    }

    /// Calls sleep until their record has something for the first of them.
    fn sleep(&mut self, key: &Bytes, calls: VecDeque<Call>) {
        let kind = calls.front().expect("it found nothing").op.type_info();
        let place = (self.owner.birth, self.owner.attempt);
        self.table.sleep(key, kind, place);
        self.participant.blocked.insert(key.clone(), Blocked { record: None, sleeps: true, calls });
    }

    /// There may be something for calls that sleep.
    pub(super) fn rouse(&mut self, key: &Bytes) -> Ran {
        if self.participant.blocked.get(key).is_none_or(|it| !it.sleeps) {
            return Ran::All;
        }
        let Some(Blocked { calls, .. }) = self.participant.blocked.swap_remove(key) else { return Ran::All };
        self.table.wake(key, (self.owner.birth, self.owner.attempt));
        if self.budget.is_spent() {
            self.put_off_all(key, calls);
            return Ran::PutOff;
        }
        let record = self.table.ensure(key_hash(key), key);
        self.run_rest(key, record, calls)
    }

    /// Puts calls on one record off before the first of them.
    pub(super) fn put_off_all(&mut self, key: &Bytes, calls: VecDeque<Call>) {
        self.put_off();
        self.participant.blocked.insert(key.clone(), Blocked::in_queue(None, calls));
    }

    /// Gives the attempt a turn after all others.
    pub(super) fn put_off(&mut self) {
        let is_news = self.budget.put_off(self.owner.attempt, self.participant);
        self.stats.put_off += u64::from(is_news);
    }

    pub(super) fn say_granted(&mut self, no: CallNo, reply: Reply) {
        let attempt = self.owner.attempt;
        let (granted, incarnation) = (self.participant.granted.count, self.participant.met_as);
        self.out.respond(attempt, Response::Granted { attempt, no, reply, granted, incarnation });
    }
}

/// Calls come, or go on.
impl Execution<'_> {
    /// Calls came, before the prepare. Those that came before are answered again, the others are executed.
    pub(super) fn execute(&mut self, key: &Bytes, mut calls: Calls, undone: &[Undone]) -> Ran {
        if self.has_forgotten_undone(undone, calls.iter().map(|call| call.no)) {
            return Ran::Failed(Refusal::LostLocks);
        }
        if !matches!(self.participant.stage, Stage::Open) {
            return Ran::All; // A double of something that was answered before the prepare.
        }
        if let Err(refusal) = self.note_undone(undone) {
            return Ran::Failed(refusal);
        }
        self.leave_out_undone(key, &mut calls);
        let asked: SmallVec<[CallNo; 4]> = calls.iter().map(|call| call.no).collect();
        let fresh = self.participant.unseen(self.config.switches(), calls);
        if fresh.is_empty() {
            self.answer_again(asked);
            return Ran::All;
        }
        let admitted = self.table.admit(key, fresh.iter().map(|call| &call.op));
        let taken = Taken::by_calls(self.config, fresh.iter().map(|call| (&key[..], call)));
        let taken = admitted.and_then(|()| self.accounts.take_in(self.config, self.participant, taken));
        if let Err(refusal) = taken {
            return Ran::Failed(refusal);
        }
        let sleeps_elsewhere = self.participant.blocked.iter().any(|(at, it)| it.sleeps && at != key);
        if sleeps_elsewhere && !is_planted(Bug::SleepersHold) {
            return Ran::Failed(sleeps(key));
        }
        if fresh.last().is_some_and(|call| call.op.is_command()) {
            return Ran::Failed(answers_later(key));
        }
        if let Some(undone) = &mut self.participant.undone {
            // Not before they are taken in: what is left out or refused is not kept.
            undone.note_calls(key, fresh.iter().map(|call| call.no));
        }
        let waiting = self.participant.blocked.get_mut(key).filter(|_| !is_planted(Bug::WaitsTwice));
        if let Some(blocked) = waiting {
            blocked.calls.extend(fresh); // A transaction waits at most once on one record.
            return Ran::Waits;
        }
        if self.budget.is_spent() {
            self.put_off_all(key, fresh.into_iter().collect());
            return Ran::PutOff;
        }
        let record = self.table.ensure(key_hash(key), key);
        self.run(key, record, fresh, false)
    }

    /// The records that stood behind the one for which it waited.
    pub(super) fn run_behind(&mut self) -> Ran {
        let behind = std::mem::take(&mut self.participant.behind);
        self.run_all(behind)
    }

    /// A call that waited was let in, or has failed: goes on with those behind it on the same record.
    pub(super) fn wake(&mut self, woken: Woken) -> Ran {
        let Some((key, blocked)) = self.participant.blocked.swap_remove_entry(&woken.key) else {
            unreachable!("{} was woken and did not wait", woken.attempt)
        };
        let Blocked { record: Some(record), mut calls, .. } = blocked else {
            unreachable!("{} was woken where it did not wait", woken.attempt)
        };
        if let Err(error) = &woken.result
            && self.may_sleep(&calls, error)
        {
            self.sleep(&key, calls);
            return Ran::Waits;
        }
        let call = calls.pop_front().expect("it waited for a call");
        debug_assert_eq!(call.no, woken.no);
        match woken.result {
            Ok((reply, first)) => {
                self.note_grant(record, first, &call, reply);
                self.run_rest(&key, record, calls)
            }
            Err(error) => Ran::Failed(self.safe_time.fails(self.config, self.table, key, error)),
        }
    }

    /// It is its turn: goes on with the calls on one record that were put off, and then with the records behind it unless it waits
    /// for another one. Whether it may vote then.
    pub(super) fn take_up(&mut self) -> (Ran, bool) {
        self.participant.turn = None;
        let put_off = self.participant.blocked.iter().position(|(_, blocked)| blocked.is_put_off());
        let put_off = put_off.and_then(|at| self.participant.blocked.swap_remove_index(at));
        let mut ran = match put_off {
            Some((key, Blocked { calls, .. })) => {
                let record = self.table.ensure(key_hash(&key), &key);
                self.run_rest(&key, record, calls)
            }
            None => Ran::All,
        };
        let prepares =
            matches!(self.participant.stage, Stage::Preparing(_)) && self.participant.blocked.is_empty();
        if matches!(ran, Ran::All) && prepares {
            ran = self.run_behind();
        }
        (ran, prepares)
    }

    /// What is still put off after its turn gets another one.
    pub(super) fn put_off_again(&mut self) {
        if self.participant.blocked.values().any(Blocked::is_put_off) {
            self.put_off();
        }
    }

    /// Without phases: tries again what was busy.
    ///
    /// # Errors
    /// A call has failed.
    pub(super) fn try_again(&mut self) -> Result<(), Refusal> {
        let blocked = std::mem::take(&mut self.participant.blocked);
        for (key, Blocked { calls, .. }) in blocked {
            // Nobody waited in the record, so it may have left the table.
            let record = self.table.ensure(key_hash(&key), &key);
            if let Ran::Failed(refusal) = self.run_rest(&key, record, calls) {
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Without phases: the coordinator asks again, and what is blocked is forgotten until then.
    pub(super) fn busy(&mut self) {
        let participant = &mut *self.participant;
        if matches!(participant.stage, Stage::Open) {
            let again = std::mem::take(&mut participant.blocked).into_values().flat_map(|it| it.calls);
            for call in again {
                participant.seen.remove(&call.no);
                participant.calls = participant.calls.saturating_sub(1);
            }
        }
        let attempt = self.owner.attempt;
        self.out.respond(attempt, Response::Busy { attempt });
    }
}

/// What is said again, to who did not hear it.
impl Execution<'_> {
    /// Calls came again: those that return something and are done are answered once more. The last one first: the
    /// others came along with it, and may be known by now.
    pub(super) fn answer_again(&mut self, mut asked: SmallVec<[CallNo; 4]>) {
        asked.sort_unstable();
        asked.dedup(); // Each is said once, however often it was asked for.
        let attempt = self.owner.attempt;
        let mut waits = false;
        for no in asked.iter().rev() {
            match self.participant.seen.get(no) {
                // The rest is as if it was lost: it is asked for again.
                Some(Heard::Answered(_)) if !self.budget.says_again() => {}
                Some(Heard::Answered(at)) => {
                    let (no, reply) = self.participant.replies[*at as usize].clone();
                    self.budget.charge_again(reply.size());
                    self.say_granted(no, reply);
                }
                Some(Heard::Waits) => waits = true,
                Some(Heard::Granted) | None => {}
            }
        }
        if waits {
            // Of which call was said when it began to wait.
            self.out.respond(attempt, Response::Queued { attempt, no: None });
        }
    }

    /// Whether the answers that it voted with are said again. Nothing is looked at when the input has done its share.
    pub(super) fn says_answers_again(&mut self) -> bool {
        if !self.budget.says_again() {
            return false;
        }
        let voted = self.participant.voted_answers();
        let bytes: usize = voted.iter().map(|(_, reply)| reply.size()).sum();
        self.stats.visits += voted.len() as u64;
        self.budget.charge_again(bytes);
        true
    }
}

/// An attempt of which a call sleeps asks for another record.
fn sleeps(key: &Bytes) -> Refusal {
    let error = "ERR an earlier call of this transaction waits until its record has something, and holds nothing meanwhile";
    Refusal::Operation { key: key.clone(), error: Box::new(OpError::Told(error.into())) }
}
