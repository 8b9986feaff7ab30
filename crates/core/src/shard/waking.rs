//! How an attempt goes on from record to record: at once with its prepare, and later when it gets what it waited for.
//!
//! A prepare locks its records in the order of its calls, and stops at the first for which it has to wait (P47).
//!
//! One input executes at most [`Limits::at_once_max`](crate::Limits) calls. An attempt with more is **put off**, and
//! goes on with a later timeout, in turn with others (P38). Until then it is like a waiter, but waits for nobody.

use std::collections::VecDeque;
use std::vec;

use super::lock_table::Notice;
use super::{
    Answers, Blocked, Bytes, Call, CallNo, Calls, Delivery, Heard, Owner, Participant, RecordIx, Refusal,
    Reply, Response, Shard, Stage, Stop, Time, Woken, key_hash,
};
use crate::ids::AttemptId;

/// How far calls on one record went.
pub(super) enum Ran {
    All,
    Waits,
    /// The rest is executed later, by [`Shard::handle_timeout`].
    PutOff,
    Busy,
    Failed(Refusal),
}

/// Whoever was put off executes at least one call for so many that it made on the record before.
const BEGIN_AGAIN: usize = 8;

impl Shard {
    /// An input begins: a request, or what came together, and is taken with [`Self::handle_further`].
    pub fn begin(&mut self, now: Time) {
        (self.latest, self.heard_of) = (now, None);
        // Who calls a shard directly waits for it, and nobody calls it when its time is over.
        let divides = self.switches.phasing && self.switches.delivery == Delivery::Network;
        self.at_once = match (self.held_off, divides) {
            (0, true) => self.limits.at_once_max,
            (0, false) => usize::MAX,
            _ => 0,
        };
        self.again_bytes = if divides { self.limits.again_bytes_max } else { usize::MAX };
    }

    /// Counts what ending an attempt costs.
    pub(super) fn charge_for(&mut self, attempt: AttemptId) {
        let held = self.attempts.get(&attempt).map_or(0, |participant| participant.held.len());
        self.at_once = self.at_once.saturating_sub(held + 1);
    }

    /// Locks and executes calls on one record, as far as they go. What is left is kept with the participant. `in_order`: what
    /// [`Self::is_in_order`] says of them.
    pub(super) fn run(
        &mut self,
        now: Time,
        owner: Owner,
        key: &Bytes,
        record: RecordIx,
        calls: Calls,
        in_order: bool,
    ) -> Ran {
        if self.has_undone(owner.attempt) {
            return self.run_in_parts(now, owner, key, record, calls.into_iter().collect());
        }
        // Mostly.
        if let [call] = &calls[..] {
            return match self.run_one(now, owner, record, call, in_order) {
                Ok(()) => Ran::All,
                Err(stop) => self.keep_rest(owner, key, record, calls.into_iter().collect(), stop),
            };
        }
        let (granted, stop) = self.run_some(now, owner, record, &calls, in_order);
        if granted == calls.len() {
            return Ran::All;
        }
        let rest = calls.into_iter().skip(granted).collect();
        self.keep_rest(owner, key, record, rest, stop)
    }

    /// The same for those that were left.
    pub(super) fn run_rest(
        &mut self,
        now: Time,
        owner: Owner,
        key: &Bytes,
        record: RecordIx,
        mut calls: VecDeque<Call>,
    ) -> Ran {
        if self.has_undone(owner.attempt) {
            return self.run_in_parts(now, owner, key, record, calls);
        }
        let in_order = self.is_in_order(record, owner, calls.make_contiguous());
        let (granted, stop) = self.run_some(now, owner, record, calls.make_contiguous(), in_order);
        calls.drain(..granted);
        if calls.is_empty() { Ran::All } else { self.keep_rest(owner, key, record, calls, stop) }
    }

    /// Puts calls on one record off before the first of them.
    pub(super) fn put_off_all(&mut self, attempt: AttemptId, key: &Bytes, calls: VecDeque<Call>) {
        self.put_off(attempt);
        self.participant(attempt).blocked.insert(key.clone(), Blocked { record: None, calls });
    }

    /// [`Self::run_some`] for a single call.
    fn run_one(
        &mut self,
        now: Time,
        owner: Owner,
        record: RecordIx,
        call: &Call,
        in_order: bool,
    ) -> Result<(), Stop> {
        let before = self.table.dearness();
        let answer = self.table.request_one(now, record, owner, call, in_order);
        let begun_again = (self.table.dearness() - before).saturating_sub(u64::from(answer.is_ok()));
        self.at_once = self.at_once.saturating_sub(1).saturating_sub(begun_again as usize);
        let (reply, first) = answer?;
        self.note_grant(owner.attempt, record, first, call.no, call.op.returns(), reply);
        Ok(())
    }

    /// Executes as many as may be executed at once; how many were granted, and why no more.
    pub(super) fn run_some(
        &mut self,
        now: Time,
        owner: Owner,
        record: RecordIx,
        calls: &[Call],
        in_order: bool,
    ) -> (usize, Stop) {
        if in_order {
            return self.run_in_line(now, owner, record, calls);
        }
        // To begin again costs as much as the attempt did on the record before, so with that there are more at once.
        let before = self.table.calls_of(record, owner.attempt);
        let some = &calls[..calls.len().min(self.at_once.max(before / BEGIN_AGAIN + 1))];
        let mut answers = Answers::new();
        let (dearness, enough) =
            (self.table.dearness(), before.saturating_add(some.len()).saturating_add(self.at_once));
        let stop = self.table.request(now, record, owner, some, enough as u64, &mut answers);
        let granted = answers.len();
        // One effect of each call is what it costs to go on to the next one.
        let begun_again = (self.table.dearness() - dearness).saturating_sub(granted as u64);
        self.at_once = self.at_once.saturating_sub(some.len()).saturating_sub(begun_again as usize);
        for ((reply, first), call) in answers.into_iter().zip(some) {
            self.note_grant(owner.attempt, record, first, call.no, call.op.returns(), reply);
        }
        (granted, stop)
    }

    /// Whether these calls, which come together, claim the record in order (P80): only a stamped prepare's do.
    fn is_in_order(&self, record: RecordIx, owner: Owner, calls: &[Call]) -> bool {
        if !self.can_order() || !self.table.may_be_in_order(record) {
            return false; // Mostly.
        }
        let Some(Participant { stage: Stage::Preparing(round), .. }) =
            self.attempts.get(&owner.attempt).map(|it| &**it)
        else {
            return false;
        };
        round.orders && self.table.is_in_order(record, owner, calls)
    }

    /// [`Self::run_some`] for calls that claim the record in order.
    fn run_in_line(&mut self, now: Time, owner: Owner, record: RecordIx, calls: &[Call]) -> (usize, Stop) {
        let some = &calls[..calls.len().min(self.at_once.max(1))];
        for (granted, call) in some.iter().enumerate() {
            self.at_once = self.at_once.saturating_sub(1);
            match self.table.request_one(now, record, owner, call, true) {
                Ok((reply, first)) => {
                    self.note_grant(owner.attempt, record, first, call.no, call.op.returns(), reply);
                }
                Err(stop) => return (granted, stop),
            }
        }
        (some.len(), Stop::All)
    }

    pub(super) fn keep_rest(
        &mut self,
        owner: Owner,
        key: &Bytes,
        record: RecordIx,
        calls: VecDeque<Call>,
        stop: Stop,
    ) -> Ran {
        let ran = match stop {
            Stop::All => Ran::PutOff,
            Stop::Queued => Ran::Waits,
            Stop::Busy => Ran::Busy,
            Stop::Crowded => return Ran::Failed(Refusal::Crowded(key.clone())),
            Stop::Failed(error) => {
                return Ran::Failed(self.fails(key.clone(), error));
            }
        };
        match ran {
            Ran::PutOff => self.put_off_all(owner.attempt, key, calls),
            _ => {
                let blocked = Blocked { record: Some(record), calls };
                self.participant(owner.attempt).blocked.insert(key.clone(), blocked);
            }
        }
        ran
    }

    /// Gives it a turn after all others.
    fn put_off(&mut self, attempt: AttemptId) {
        let turn = self.put_off.last_key_value().map_or(0, |(last, _)| last + 1);
        let participant = self.participant(attempt);
        if participant.turn.is_none() {
            participant.turn = Some(turn);
            self.put_off.insert(turn, attempt);
            self.stats.put_off += 1;
        }
    }

    /// Notes a granted call, and answers it if somebody waits for the answer.
    fn note_grant(
        &mut self,
        attempt: AttemptId,
        record: RecordIx,
        first: bool,
        no: CallNo,
        returns: bool,
        reply: Option<Reply>,
    ) {
        let keep = self.switches.delivery == Delivery::Network;
        let participant = self.participant(attempt);
        let (account, incarnation) = (participant.account, participant.met_as);
        participant.granted += 1;
        if first {
            participant.held.push(record);
        }
        let open = matches!(participant.stage, Stage::Open);
        let (mut heard, mut kept) = (Heard::Granted, 0);
        if let Some(reply) = reply.as_ref().filter(|_| returns && (keep || !open)) {
            heard = Heard::Answered(participant.replies.len() as u32);
            kept = if keep { size_of::<CallNo>() + reply.size() } else { 0 };
            participant.bytes += kept;
            participant.replies.push((no, reply.clone()));
        }
        if let Some(known) = participant.seen.get_mut(&no) {
            *known = heard;
        }
        let asked = reply.filter(|_| returns && open);
        let granted = participant.granted;
        // It is executed already; only the next call may be too much.
        self.recount(account, 0, kept);
        if let Some(reply) = asked {
            self.respond(attempt, Response::Granted { attempt, no, reply, granted, incarnation });
        }
    }

    /// Without phases: the coordinator asks again, and what is blocked is forgotten until then.
    pub(super) fn busy(&mut self, attempt: AttemptId) {
        let participant = self.participant(attempt);
        if matches!(participant.stage, Stage::Open) {
            let again = std::mem::take(&mut participant.blocked).into_values().flat_map(|it| it.calls);
            for call in again {
                participant.seen.remove(&call.no);
                participant.calls = participant.calls.saturating_sub(1);
            }
        }
        self.respond(attempt, Response::Busy { attempt });
    }

    /// Locks and executes, record after record. Later ones are not held while it waits for an earlier one.
    pub(super) fn run_in_order(
        &mut self,
        now: Time,
        owner: Owner,
        mut groups: vec::IntoIter<(Bytes, Calls)>,
    ) -> Ran {
        let mut ran = Ran::All;
        loop {
            if self.at_once == 0 && groups.len() > 0 {
                self.put_off(owner.attempt);
                self.participant(owner.attempt).behind = groups;
                return Ran::PutOff;
            }
            let Some((key, mut calls)) = groups.next() else { break };
            let record = self.table.ensure(key_hash(&key), &key);
            let in_order = self.is_in_order(record, owner, &calls);
            if !in_order {
                self.table.reserve_for_all(&mut calls);
            }
            match self.run(now, owner, &key, record, calls, in_order) {
                Ran::All => {}
                Ran::Busy => ran = Ran::Busy,
                stopped @ (Ran::Waits | Ran::PutOff) => {
                    self.participant(owner.attempt).behind = groups;
                    return stopped;
                }
                failed @ Ran::Failed(_) => return failed,
            }
        }
        ran
    }

    /// Locks what a prepare asks for, as far as it goes, and then votes.
    pub(super) fn lock_all(&mut self, now: Time, owner: Owner, records: vec::IntoIter<(Bytes, Calls)>) {
        let attempt = owner.attempt;
        match self.run_in_order(now, owner, records) {
            Ran::All => self.vote(now, attempt),
            Ran::PutOff => {}
            Ran::Waits => self.say_waits(attempt),
            Ran::Busy => self.busy(attempt),
            Ran::Failed(refusal) => self.refuse(now, attempt, refusal),
        }
    }

    /// Carries on with everybody whom the last input let in. What a grant or an error was decided on may not change
    /// before it is written, so all of these come first, and then those who go on to further records.
    pub(super) fn drain(&mut self, now: Time) {
        loop {
            if self.table.outbox().has_ended() {
                self.end_with_their_records(now);
            } else if let Some(woken) = self.table.outbox().poll_woken() {
                self.wake(now, woken);
            } else if let Some(attempt) = self.table.outbox().poll_ready() {
                self.come_ready(now, attempt);
            } else if let Some(attempt) = self.going_on.pop_front() {
                self.go_on(now, attempt);
            } else if self.let_follower_go_on(now) {
            } else {
                break;
            }
        }
        // To pass one on makes others.
        while let Some(Notice { attempt, elder }) = self.table.outbox().poll_notice() {
            if !self.attempts.contains_key(&attempt) {
                continue; // Decided meanwhile.
            }
            match self.placed_at(attempt) {
                None => self.respond(attempt, Response::Elder { attempt, shard: self.id, birth: elder.time }),
                // It cannot give way any more, and waits itself.
                Some(_) => self.pass_on(attempt, elder),
            }
        }
    }

    fn wake(&mut self, now: Time, woken: Woken) {
        let Some(participant) = self.attempts.get_mut(&woken.attempt) else { return };
        let owner = participant.owner;
        let Some((key, blocked)) = participant.blocked.swap_remove_entry(&woken.key) else {
            unreachable!("{} was woken and did not wait", woken.attempt)
        };
        let Blocked { record: Some(record), mut calls } = blocked else {
            unreachable!("{} was woken where it did not wait", woken.attempt)
        };
        let call = calls.pop_front().expect("it waited for a call");
        debug_assert_eq!(call.no, woken.no);
        let ran = match woken.result {
            Ok((reply, first)) => {
                self.note_grant(owner.attempt, record, first, call.no, call.op.returns(), reply);
                self.run_rest(now, owner, &key, record, calls)
            }
            Err(error) => Ran::Failed(self.fails(key, error)),
        };
        if let Ran::Failed(refusal) = ran {
            return self.refuse(now, owner.attempt, refusal);
        }
        let participant = self.participant(owner.attempt);
        if !matches!(participant.stage, Stage::Preparing(_)) {
            return;
        }
        if participant.may_vote() {
            self.vote(now, owner.attempt);
        } else if participant.blocked.is_empty() {
            self.going_on.push_back(owner.attempt);
        }
    }

    /// Goes on with those who were put off, in turn.
    pub(super) fn take_turns(&mut self, now: Time) {
        while self.at_once > 0
            && let Some((_, attempt)) = self.put_off.pop_first()
        {
            self.take_up(now, attempt);
            self.drain(now);
        }
    }

    /// Goes on with one that was put off: with the calls on one record, and then with the records behind it unless it
    /// waits for another one.
    fn take_up(&mut self, now: Time, attempt: AttemptId) {
        let participant = self.participant(attempt);
        participant.turn = None;
        let owner = participant.owner;
        let put_off = participant.blocked.iter().position(|(_, blocked)| blocked.is_put_off());
        let put_off = put_off.and_then(|at| participant.blocked.swap_remove_index(at));
        let mut ran = match put_off {
            Some((key, Blocked { calls, .. })) => {
                let record = self.table.ensure(key_hash(&key), &key);
                self.run_rest(now, owner, &key, record, calls)
            }
            None => Ran::All,
        };
        let participant = self.participant(attempt);
        let prepares = matches!(participant.stage, Stage::Preparing(_)) && participant.blocked.is_empty();
        if matches!(ran, Ran::All) && prepares {
            let behind = std::mem::take(&mut participant.behind);
            ran = self.run_in_order(now, owner, behind);
        }
        match ran {
            Ran::All if prepares => return self.vote(now, attempt),
            Ran::All | Ran::PutOff => {}
            Ran::Waits => self.say_waits(attempt),
            Ran::Busy => self.busy(attempt),
            Ran::Failed(refusal) => return self.refuse(now, attempt, refusal),
        }
        if self.participant(attempt).blocked.values().any(Blocked::is_put_off) {
            self.put_off(attempt);
        }
    }

    /// Locks the records that stood behind the one for which it waited.
    fn go_on(&mut self, now: Time, attempt: AttemptId) {
        let Some(participant) = self.attempts.get_mut(&attempt) else { return };
        let (owner, behind) = (participant.owner, std::mem::take(&mut participant.behind));
        match self.run_in_order(now, owner, behind) {
            Ran::All => self.vote(now, attempt),
            Ran::Waits | Ran::PutOff | Ran::Busy => {}
            Ran::Failed(refusal) => self.refuse(now, attempt, refusal),
        }
    }
}
