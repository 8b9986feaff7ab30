//! How an attempt comes to vote: its prepare locks and executes what is left of its calls, and then yes is written (P1, P2, P9).

use std::vec::IntoIter;

use claret_types::Bytes;

use super::accounts::Taken;
use super::execution::Ran;
use super::history::Decided;
use super::journaling::{begin_note_of_commit, note_commit, note_vote};
use super::lock_table::Fate;
use super::participant::{Calls, Round, Stage, by_key, queues_of};
use super::step::Step;
use super::ways::{Decision, Vote};
use crate::ids::{AttemptId, Birth};
use crate::message::{Asks, KeyedCall, Link, Members, Participants, Refusal, Response, Undone, WayWords};
use crate::planted::{Bug, is_planted};
use crate::switches::Ordered;

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
        let orders = is_stamped && self.may_order(attempt, is_single, &records);
        let round = Round { orders, replies_before, ..Round::of(participants, members, asks) };
        self.attempts[attempt].stage = Stage::Preparing(round);
        self.budget.drop_turn(turn);
        if self.config.has_phases() {
            // Members waited there that left their group (C13).
            queues_of(&left).for_each(|record| self.table.leave_queue(self.now, record, owner));
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
        if !matches!(asks, Asks::Place(_)) && !self.takes_unstamped(&records) {
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

    /// Whether a prepare without a timestamp, of these calls, is taken: all that has one is settled, and none of its records is ordered
    /// (P87).
    fn takes_unstamped(&mut self, records: &[(Bytes, Calls)]) -> bool {
        match self.config.switches().ordering() {
            _ if !self.config.can_order() => true,
            Ordered::Never => true,
            Ordered::Hot => {
                self.safe_time.pass(self.now, self.config);
                self.table.roll_heat(self.now);
                self.safe_time.may_vote_unstamped(self.config, self.table)
                    && !self.table.is_any_ordered(records)
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
            Ran::Waits => self.say_waits(attempt),
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
        let replies = participant.take_replies(round.replies_before);
        let members = round.members;
        let decided = Decided::Applied { replies: Some(replies.clone()), at: None, is_unheard: false };
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
