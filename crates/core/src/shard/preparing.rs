//! How an attempt comes to vote: its prepare locks and executes what is left of its calls, as far as locks and the input's share (P38) let
//! it, and then yes is written (P1, P2, P9).
//!
//! A prepare locks its records in the order of its calls, and stops at the first for which it has to wait (P47).

use std::vec::IntoIter;

use claret_types::{Bytes, Reply};

use super::accounts::Taken;
use super::execution::{Execution, Ran};
use super::history::Decided;
use super::journaling::{begin_note_of_commit, note_commit, note_vote};
use super::key_hash;
use super::lock_table::{Answers, Fate, RecordIx, Stop};
use super::participant::{Calls, Heard, Round, Stage, by_key, leave_beds, queues_of};
use super::step::Step;
use super::ways::{Decision, Vote};
use crate::ids::{AttemptId, Birth, CallNo};
use crate::message::{
    Asks, Call, KeyedCall, Link, Members, Participants, Refusal, Response, Undone, WayWords,
};
use crate::planted::{Bug, is_planted};
use crate::switches::Ordered;

/// Whoever was put off executes at least one call for so many that it made on the record before.
const BEGIN_AGAIN: usize = 8;

/// To read and sort so many calls costs as much as to execute one.
const SORTED_WORTH: usize = 16;

impl Step<'_> {
    #[allow(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn prepare(
        &mut self,
        link: Link,
        attempt: AttemptId,
        birth: Birth,
        participants: Participants,
        relies_on: u32,
        calls: Vec<KeyedCall>,
        members: Members,
        asks: Asks,
        undone: &[Undone],
    ) {
        let listed = participants.iter().find(|listed| listed.shard == self.config.id());
        let incarnation = listed.and_then(|listed| listed.incarnation);
        // A single participant is always the last (P9): there is nobody whom it could ask.
        let is_single = self.config.is_only_one(&participants);
        let (asks, words) = asked_of(asks, is_single);
        let Some(owner) = self.admit(link, attempt, birth, incarnation) else {
            return self.tell_applied(attempt, asks == Asks::Decision);
        };
        // A sign of life; the vote, which may come long afterwards, is none.
        self.attempts.renew(self.now, self.config, attempt);
        match self.attempts[attempt].stage {
            Stage::Open => {}
            Stage::Preparing(_) => return self.prepare_again(attempt),
            Stage::Prepared { .. } | Stage::Placed { .. } => return self.prepared_again(attempt),
        }
        if words.is_some()
            && let Err(refusal) = self.prepare_in_way(attempt, words.as_ref(), None)
        {
            return self.refuse(attempt, refusal);
        }
        let (calls, grants) = match self.execution(attempt).take_undone(undone, calls) {
            Ok(taken) => taken,
            Err(refusal) => return self.refuse(attempt, refusal),
        };
        let answering = calls.iter().filter(|it| it.call.op.returns()).count();
        let has_commands = calls.iter().any(|it| it.call.op.is_command());
        let records = match self.admit_calls(attempt, calls, &asks) {
            Ok(records) => records,
            Err(refusal) => return self.refuse(attempt, refusal),
        };
        let participant = &mut self.attempts[attempt];
        let left = participant.leave_behind(&members);
        if !grants.are_as_many(relies_on, &members) || !participant.blocked.is_empty() {
            participant.blocked.extend(left);
            return self.refuse(attempt, Refusal::LostLocks);
        }
        let (replies_before, turn) = (participant.replies.len(), participant.turn.take());
        participant.replies.reserve_exact(answering); // They are kept, and counted for what they are.
        participant.held.reserve(records.len());
        let is_stamped = matches!(asks, Asks::Place(_)) && members == Members::All;
        // Where it has commands it locks all of its records, so that all is carried out together (A20).
        let has_commands = has_commands || participant.granted.has_commands;
        let orders = is_stamped && !has_commands && self.may_order(attempt, is_single, &records);
        let round = Round { orders, replies_before, ..Round::of(participants, members, asks) };
        self.attempts[attempt].stage = Stage::Preparing(round);
        self.budget.drop_turn(turn);
        if self.config.has_phases() {
            // Members waited there that left their group (C13).
            queues_of(&left).for_each(|record| self.table.leave_queue(self.now, record, owner));
            leave_beds(self.table, owner, &left);
        }
        self.begin_to_lock(attempt, records, words);
    }

    /// Whether the calls of a prepare may be taken: if so, they are counted, and grouped by their records.
    fn admit_calls(
        &mut self,
        attempt: AttemptId,
        calls: Vec<KeyedCall>,
        asks: &Asks,
    ) -> Result<Vec<(Bytes, Calls)>, Refusal> {
        // As many as one input may execute cost nothing else.
        let beyond = calls.len().saturating_sub(self.config.limits().at_once_max);
        self.budget.charge(beyond / SORTED_WORTH);
        // Before they are sorted: in the order in which they lie in memory.
        let taken = Taken::by_calls(self.config, calls.iter().map(|it| (&it.key[..], &it.call)));
        let records = by_key(calls);
        if self.is_stamped_in_vain(asks) {
            return Err(Refusal::ReadOnly);
        }
        if !matches!(asks, Asks::Place(_)) && !self.takes_unstamped() {
            self.ask_clocks(false);
            return Err(Refusal::Unstamped);
        }
        records
            .iter()
            .try_for_each(|(key, calls)| self.table.admit(key, calls.iter().map(|call| &call.op)))?;
        self.accounts.take_in(self.config, &mut self.attempts[attempt], taken)?;
        Ok(records)
    }

    /// Whether an attempt asks for a place in an order of a shard whose replicas are to know it, and that orders nothing (S8).
    fn is_stamped_in_vain(&self, asks: &Asks) -> bool {
        self.out.is_replicated() && !self.config.can_order() && matches!(asks, Asks::Place(_))
    }

    /// Whether calls of a stamped prepare are ordered where they can be. A single participant orders all or nothing, so that it
    /// carries out all at once (P83).
    fn may_order(&self, attempt: AttemptId, is_single: bool, records: &[(Bytes, Calls)]) -> bool {
        let participant = &self.attempts[attempt];
        participant.undone.is_none()
            && self.config.can_order()
            && (!is_single || participant.held.is_empty() && self.table.may_order_all(records))
    }

    /// Whether a prepare without a timestamp is taken: the shard asks for none, and all that has one is settled (P87).
    fn takes_unstamped(&mut self) -> bool {
        match self.config.switches().ordering() {
            _ if !self.config.can_order() => true,
            Ordered::Never => true,
            Ordered::Adaptive => {
                self.safe_time.pass(self.now, self.config);
                !self.asks_for_timestamps() && self.safe_time.may_vote_unstamped(self.config, self.table)
            }
            Ordered::Always => false,
        }
    }

    /// A prepare came again: a double while it waits, or, without phases, another try.
    fn prepare_again(&mut self, attempt: AttemptId) {
        if self.config.has_phases() {
            return self.say_waits(attempt);
        }
        if let Err(refusal) = self.execution(attempt).try_again() {
            return self.refuse(attempt, refusal);
        }
        if self.attempts[attempt].blocked.is_empty() {
            self.vote(attempt);
        } else {
            self.execution(attempt).busy();
        }
    }

    /// The prepare came again, after the vote: that is said again.
    fn prepared_again(&mut self, attempt: AttemptId) {
        self.vote_again(attempt);
        self.vote_in_way(attempt, Vote::YesAgain);
    }

    /// A prepare has come: it locks what it asks for, unless its way has it wait.
    fn begin_to_lock(&mut self, attempt: AttemptId, records: Vec<(Bytes, Calls)>, words: Option<WayWords>) {
        if let Err(refusal) = self.prepare_in_way(attempt, words.as_ref(), Some(records.len())) {
            return self.refuse(attempt, refusal);
        }
        let records = records.into_iter();
        if self.attempts[attempt].waits_to_lock() {
            self.attempts[attempt].behind = records;
        } else {
            self.lock_all(attempt, records);
        }
    }

    /// Locks what a prepare asks for, as far as it goes, and then votes.
    pub(super) fn lock_all(&mut self, attempt: AttemptId, records: IntoIter<(Bytes, Calls)>) {
        match self.execution(attempt).run_all(records) {
            Ran::All => self.vote(attempt),
            Ran::PutOff => {}
            Ran::Waits => {
                self.adaptive.note_wait();
                self.say_waits(attempt);
            }
            Ran::Busy => self.execution(attempt).busy(),
            Ran::Failed(refusal) => self.refuse(attempt, refusal),
        }
    }

    /// Writes yes. The last one's yes is the decision, and it is carried out (P9).
    pub(super) fn vote(&mut self, attempt: AttemptId) {
        self.execution(attempt).undo_all();
        let participant = &self.attempts[attempt];
        if !participant.may_vote() {
            debug_assert!(false, "{attempt} votes and has calls left");
            return self.refuse(attempt, Refusal::LostLocks); // No is always safe.
        }
        let Stage::Preparing(Round { asks, .. }) = &participant.stage else {
            unreachable!("only a preparing one votes")
        };
        let (decides, place) = match asks {
            Asks::Place(suggested) => (false, Some(*suggested)),
            asks => (*asks == Asks::Decision, None),
        };
        if !decides && !self.table.hold_ends(&participant.held, attempt) {
            return; // It is refused with all who hold that record, before anything else.
        }
        if let Some(suggested) = place {
            return self.vote_in_place(attempt, suggested);
        }
        let may_vote = self.safe_time.may_vote_unstamped(self.config, self.table);
        if !may_vote && !is_planted(Bug::UnstampedVotesBeside) {
            self.ask_clocks(false);
            return self.refuse(attempt, Refusal::Unstamped); // Meanwhile somebody was ordered.
        }
        match decides {
            true => self.decide(attempt),
            false => self.vote_unstamped(attempt),
        }
    }

    /// The last one's yes: it is over here, and needs its answers no more.
    fn decide(&mut self, attempt: AttemptId) {
        self.decide_in_way(attempt, Decision::Yes);
        let participant = &mut self.attempts[attempt];
        let stage = std::mem::replace(&mut participant.stage, Stage::Open);
        let Stage::Preparing(round) = stage else { unreachable!("only a preparing one votes") };
        let members = round.members;
        self.run_commands(attempt, None, &members);
        let replies = self.attempts[attempt].take_replies(round.replies_before);
        let is_unacknowledged = self.attempts[attempt].granted.has_commands;
        let decided = Decided::Applied { replies: Some(replies.clone()), at: None, is_unacknowledged };
        let listed = Some(round.participants);
        begin_note_of_commit(self.table);
        self.finish(attempt, Fate::Apply(&members), decided, listed);
        note_commit(self.table, attempt);
        self.out.respond(attempt, Response::Committed { attempt, replies });
    }

    /// A yes with which others are to agree.
    fn vote_unstamped(&mut self, attempt: AttemptId) {
        let participant = &mut self.attempts[attempt];
        participant.write_yes(None);
        let replies = participant.voted_replies();
        note_vote(self.table, attempt, participant);
        self.tell_vote(attempt);
        if self.vote_in_way(attempt, Vote::Yes) {
            self.out.respond(attempt, Response::Voted { attempt, shard: self.config.id(), replies });
        }
    }

    /// Tells replicas of the yes that an attempt has just written.
    pub(super) fn tell_vote(&mut self, attempt: AttemptId) {
        self.out.tell_replicas(|| {
            let vote = self.attempts.get(attempt)?.vote(self.table)?;
            Some(crate::backup::Change::Voted(Box::new(vote)))
        });
    }
}

/// What a prepare locks and executes, record after record; a call before the prepare goes the same way on its one record.
impl Execution<'_> {
    /// Locks and executes, record after record. Later ones are not held while it waits for an earlier one.
    pub(super) fn run_all(&mut self, mut groups: IntoIter<(Bytes, Calls)>) -> Ran {
        let mut ran = Ran::All;
        loop {
            if self.budget.is_spent() && groups.len() > 0 {
                self.put_off();
                self.participant.behind = groups;
                return Ran::PutOff;
            }
            let Some((key, mut calls)) = groups.next() else { break };
            let record = self.table.ensure(key_hash(&key), &key);
            let in_order = self.is_in_order(record, &calls);
            if !in_order {
                self.table.reserve_for_all(&mut calls);
            }
            match self.run(&key, record, calls, in_order) {
                Ran::All => {}
                Ran::Busy => ran = Ran::Busy,
                stopped @ (Ran::Waits | Ran::PutOff) => {
                    self.participant.behind = groups;
                    return stopped;
                }
                failed @ Ran::Failed(_) => return failed,
            }
        }
        ran
    }

    /// Locks and executes calls on one record, as far as they go. What is left is kept with the participant. `in_order`: what
    /// [`Self::is_in_order`] says of them.
    pub(super) fn run(&mut self, key: &Bytes, record: RecordIx, calls: Calls, in_order: bool) -> Ran {
        if self.participant.undone.is_some() {
            return self.run_in_parts(key, record, calls.into_iter().collect());
        }
        // Mostly.
        if let [call] = &calls[..] {
            return match self.run_one(record, call, in_order) {
                Ok(()) => Ran::All,
                Err(stop) => self.keep_rest(key, record, calls.into_iter().collect(), stop),
            };
        }
        let (granted, stop) = self.run_some(record, &calls, in_order);
        if granted == calls.len() {
            return Ran::All;
        }
        let rest = calls.into_iter().skip(granted).collect();
        self.keep_rest(key, record, rest, stop)
    }

    /// [`Self::run_some`] for a single call.
    fn run_one(&mut self, record: RecordIx, call: &Call, in_order: bool) -> Result<(), Stop> {
        let before = self.table.dearness();
        let answer = self.table.request_one(self.now, record, self.owner, call, in_order);
        let begun_again = (self.table.dearness() - before).saturating_sub(u64::from(answer.is_ok()));
        self.budget.charge(1);
        self.budget.charge(begun_again as usize);
        let (reply, first) = answer?;
        self.note_grant(record, first, call, reply);
        Ok(())
    }

    /// Executes as many as may be executed at once; how many were granted, and why no more.
    pub(super) fn run_some(&mut self, record: RecordIx, calls: &[Call], in_order: bool) -> (usize, Stop) {
        if in_order {
            return self.run_in_line(record, calls);
        }
        // To begin again costs as much as the attempt did on the record before, so with that there are more at once.
        let before = self.table.calls_of(record, self.owner.attempt);
        let some = &calls[..calls.len().min(self.budget.left().max(before / BEGIN_AGAIN + 1))];
        let mut answers = Answers::new();
        let (dearness, enough) =
            (self.table.dearness(), before.saturating_add(some.len()).saturating_add(self.budget.left()));
        let stop = self.table.request(self.now, record, self.owner, some, enough as u64, &mut answers);
        let granted = answers.len();
        // One effect of each call is what it costs to go on to the next one.
        let begun_again = (self.table.dearness() - dearness).saturating_sub(granted as u64);
        self.budget.charge(some.len());
        self.budget.charge(begun_again as usize);
        for ((reply, first), call) in answers.into_iter().zip(some) {
            self.note_grant(record, first, call, reply);
        }
        (granted, stop)
    }

    /// Whether these calls, which come together, claim the record in order (P80): only a stamped prepare's do.
    pub(super) fn is_in_order(&self, record: RecordIx, calls: &[Call]) -> bool {
        match &self.participant.stage {
            Stage::Preparing(round) if round.orders => self.table.is_in_order(record, self.owner, calls),
            _ => false, // Mostly.
        }
    }

    /// [`Self::run_some`] for calls that claim the record in order.
    fn run_in_line(&mut self, record: RecordIx, calls: &[Call]) -> (usize, Stop) {
        let some = &calls[..calls.len().min(self.budget.left().max(1))];
        for (granted, call) in some.iter().enumerate() {
            self.budget.charge(1);
            match self.table.request_one(self.now, record, self.owner, call, true) {
                Ok((reply, first)) => self.note_grant(record, first, call, reply),
                Err(stop) => return (granted, stop),
            }
        }
        (some.len(), Stop::All)
    }

    /// Notes a granted call, and answers it if somebody waits for the answer.
    pub(super) fn note_grant(&mut self, record: RecordIx, first: bool, call: &Call, reply: Option<Reply>) {
        let (no, returns, is_command) = (call.no, call.op.returns(), call.op.is_command());
        // A command answers when it is carried out, unless it is known that it cannot be done.
        let reply = reply.filter(|reply| {
            !is_command || matches!(reply, Reply::Failed(_)) || is_planted(Bug::CommandsAnswerEarly)
        });
        let keep = !self.config.is_direct();
        let participant = &mut *self.participant;
        participant.granted.count += 1;
        participant.granted.has_commands |= is_command;
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
        // It is executed already; only the next call may be too much.
        self.accounts.recount(participant.account, 0, kept);
        if let Some(reply) = reply.filter(|_| returns && open) {
            self.say_granted(no, reply);
        }
    }
}

/// What the yes of a participant is to be, by what its prepare asks for, and what its way says. A single one is always the last (P9),
/// and goes no other way.
fn asked_of(asks: Asks, is_single: bool) -> (Asks, Option<WayWords>) {
    match asks {
        Asks::Vote | Asks::Way { .. } if is_single => (Asks::Decision, None),
        Asks::Way { decides, number, body } => {
            let asks = if decides { Asks::Decision } else { Asks::Vote };
            (asks, Some(WayWords { number, body }))
        }
        asks => (asks, None),
    }
}
