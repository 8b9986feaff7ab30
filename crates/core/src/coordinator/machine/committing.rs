//! The commit: prepares leave, what shards answer comes, and what all agree on is carried out (P1 to P9, P73 to P78).
//!
//! ```text
//! Preparing --all yes--> Committed: Apply, or ApplyAt with the final timestamp, leaves
//!    with a timestamp, the caller is told when all answers are in and the safe time has come as far as it has to
//! ```

use claret_types::Reply;
use smallvec::SmallVec;

use super::{Coordinator, Goal, State};
use crate::coordinator::participants::Placed;
use crate::coordinator::ways::{Again, Heard};
use crate::coordinator::{Cause, Closed, Event};
use crate::ids::{AttemptId, CallNo, Incarnation, ShardId, Time, Timestamp};
use crate::message::{Members, Refusal, Request, Response, Status};
use crate::planted::{Bug, is_planted};

/// The commit, as the user asks for it.
impl Coordinator {
    /// Starts the commit: one message with one participant (P9), otherwise round one (P1), in which `hot` shards are
    /// asked last, in this order (P22): see [`Contention`](crate::Contention).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or calls of it are not answered: then it is aborted.
    pub fn commit(&mut self, now: Time, attempt: AttemptId, hot: &[ShardId]) -> Result<(), Closed> {
        self.check_commit(attempt)?;
        self.begin_round(now, hot)
    }

    /// As [`Self::commit`], of calls that are executed and not carried out: [`Event::Committed`] says that all of them can be done
    /// together, in real time, and nothing is done (O5).
    ///
    /// # Errors
    /// As of [`Self::commit`].
    pub fn check(&mut self, now: Time, attempt: AttemptId, hot: &[ShardId]) -> Result<(), Closed> {
        self.check_commit(attempt)?;
        let nobody = Members::Only(SmallVec::new());
        self.round.commit_for(if is_planted(Bug::ChecksApplied) { Members::All } else { nobody });
        self.begin_round(now, hot)
    }

    /// Starts the commit of those who are members now.
    ///
    /// # Errors
    /// [`Closed`] when no attempt runs, or calls of it are not answered: then it is aborted.
    pub fn commit_for(&mut self, now: Time, members: Members, hot: &[ShardId]) -> Result<(), Closed> {
        self.check_open()?;
        self.round.commit_for(members);
        self.begin_round(now, hot)
    }

    /// Whether a commit in the name of this attempt is taken: to be asked before [`Contention::arrange`](crate::Contention).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn check_commit(&self, attempt: AttemptId) -> Result<(), Closed> {
        if is_planted(Bug::ClosedCommits) { Ok(()) } else { self.check_running(attempt) }
    }
}

/// Round one.
impl Coordinator {
    /// The commit of the attempt that runs.
    fn begin_round(&mut self, now: Time, hot: &[ShardId]) -> Result<(), Closed> {
        if self.calls.outstanding_mut().forget_stale() {
            self.participants.recount(self.calls.outstanding());
        }
        self.unblock();
        if self.awaits_answers() {
            // Its user committed what it has not heard of: no vote may cover that.
            self.close_attempt(now, None);
            self.out.tell(Event::Aborted);
            return Err(Closed);
        }
        for (shard, _) in self.calls.buffered() {
            self.participants.of(*shard);
        }
        self.calls.take_reserves();
        if self.participants.is_empty() {
            self.state = State::Idle { again: false };
            self.out.tell(Event::Committed { replies: Vec::new() });
            return Ok(());
        }
        if self.participants.has_removed() {
            // No prepare has left, so the earlier incarnation cannot have voted.
            self.close_attempt(now, None);
            self.tell_restart(Cause::Refused(Refusal::LostLocks));
            return Ok(());
        }
        let is_stamped = self.stamp.suggested().is_some();
        let order = (self.turns.first(), hot);
        // Commands of the server go in two rounds (A20).
        let goes_another_way = !self.calls.have_commands()
            && self.ways.begin(&self.switches, is_stamped, &mut self.participants, order);
        self.round.list(self.participants.listed());
        self.state = State::Preparing;
        if goes_another_way {
            self.participants.give_turns(|_| 0);
        } else {
            // A stamped attempt holds nothing that others wait for (P83).
            let mut hot: SmallVec<[ShardId; 4]> = if is_stamped { SmallVec::new() } else { hot.into() };
            if let Some(decides) = self.calls.only_shard_with_commands().filter(|_| !is_stamped) {
                // Its answers come with the decision, and nobody waits for them behind that (A23).
                hot.retain(|shard| *shard != decides);
                hot.push(decides);
            }
            self.turns.give(&mut self.participants, &self.calls, &hot);
        }
        self.send_prepares();
        self.expect_answers(now);
        Ok(())
    }

    /// Sends the prepares that have not left and may.
    fn send_prepares(&mut self) {
        self.participants.due().into_iter().for_each(|at| self.send_prepare(at));
    }

    pub(super) fn send_prepare(&mut self, at: usize) {
        let is_last = self.participants.is_last(at);
        let of_way = self.ways.asks(self.participants.at(at).shard());
        let asks = of_way.unwrap_or_else(|| self.stamp.asks(is_last));
        let attempt = self.attempt();
        let participant = self.participants.at_mut(at);
        participant.ask();
        let (shard, undone) = (participant.shard(), participant.undone());
        let is_any_undone = !undone.is_empty();
        let request = Request::Prepare {
            attempt,
            birth: self.birth,
            participants: self.round.listed().expect("listed").clone(),
            relies_on: if is_any_undone { self.calls.count_kept_at(shard) } else { participant.granted() },
            calls: self.calls.buffered_at(shard).cloned().collect(),
            members: self.round.members().clone(),
            asks,
            undone: self.calls.not_carried_out_at(shard, undone).into(),
        };
        self.out.send(shard, request);
    }

    pub(super) fn resend_prepares(&mut self, again: Again) {
        for at in 0..self.participants.len() {
            let participant = self.participants.at(at);
            if (again == Again::ToAll || !participant.has_voted()) && participant.is_asked() {
                self.send_prepare(at);
            }
        }
    }
}

/// What shards answer, of whatever it is.
impl Coordinator {
    /// Takes one response. Late, doubled and reordered ones are told by their attempt and the state.
    pub fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        if response.attempt() != Some(self.attempt()) || self.is_idle() {
            self.closing.handle_response(from, &response);
            if response.attempt().is_some() && self.is_over() {
                self.retries.clear_resend();
            }
            return;
        }
        if self.participants.find(from).is_none() {
            return; // Nobody asked it: whatever it says is of nothing that it has.
        }
        if self.is_heard_by_way(from, &response) {
            return;
        }
        match response {
            Response::Granted { no, reply, granted, incarnation, .. } => {
                self.on_granted(now, from, no, reply, (granted, incarnation));
            }
            Response::Queued { no, .. } => self.on_queued(now, from, no),
            Response::Busy { .. } => self.on_busy(now, from),
            Response::Elder { birth, .. } => {
                // It counts whether or not the attempt is blocked by now (P20).
                if !is_planted(Bug::ElderForgotten) || self.may_give_way() {
                    self.blocked.hear_elder(birth);
                }
                self.consider_giving_way(now);
            }
            Response::Voted { replies, .. } => self.on_vote(now, from, replies, false),
            Response::Committed { replies, .. } if self.state == State::Committed => {
                self.on_late(from, replies)
            }
            Response::Committed { replies, .. } => self.on_vote(now, from, replies, true),
            Response::Refused { refusal, since, .. } => self.on_refused(now, from, refusal, since),
            Response::Applied { .. } => self.on_applied(from),
            Response::Asked { status, since, .. } => self.on_asked(now, from, status, since),
            Response::Placed { at, behind, replies, is_tentative, .. } => {
                self.on_placed(now, from, Placed { at, behind, replies, is_tentative }, false);
            }
            Response::Done { at, behind, replies, .. } => {
                self.on_placed(now, from, Placed { at, behind, replies, is_tentative: false }, true);
            }
            // Only closed attempts are aborted; who is in the way is for whoever asked.
            Response::Aborted { .. }
            | Response::Behind { .. }
            | Response::Ticked { .. }
            | Response::Looked { .. } => {}
        }
    }

    /// Whether the way of this attempt has heard all of what a participant says.
    fn is_heard_by_way(&mut self, from: ShardId, response: &Response) -> bool {
        let is_voting = matches!(self.state, State::Preparing | State::Withdrawing(_));
        let listed = self.round.listed();
        let (participants, calls) = (&mut self.participants, &self.calls);
        self.ways.hear(Heard { from, response, is_voting, listed, participants, calls })
    }

    fn on_asked(&mut self, now: Time, from: ShardId, status: Status, since: Incarnation) {
        match status {
            Status::Prepared | Status::Applied => self.on_vote(now, from, Vec::new(), false),
            // Its answers are still to come, with the acknowledgement of the apply.
            Status::PreparedAt(at) | Status::AppliedAt(at) => {
                let placed = Placed { at, behind: Timestamp::MAX, replies: None, is_tentative: false };
                self.on_placed(now, from, placed, false);
            }
            Status::Refused => self.on_refused(now, from, Refusal::Recovered, since),
            Status::Lost => self.on_refused(now, from, Refusal::Unknown, since),
            Status::Forgotten => {}
        }
    }
}

/// Votes.
impl Coordinator {
    /// A yes. It may have been the last one, and is carried out there already.
    fn on_vote(&mut self, now: Time, from: ShardId, mut replies: Vec<(CallNo, Reply)>, applied: bool) {
        self.calls.keep_own(from, self.participants.len() > 1, &mut replies);
        if !matches!(self.state, State::Preparing | State::Withdrawing(_)) {
            return;
        }
        let participant = self.participants.of(from);
        if participant.has_voted() {
            return; // A double.
        }
        participant.vote_yes(applied);
        if !applied && self.calls.answer_late_at(from, &replies) {
            participant.answer_late();
        }
        self.round.add_replies(replies, &self.participants, &self.calls);
        if self.participants.have_all_voted_yes() {
            self.begin_applying();
            self.blocked.end();
            self.expect_answers(now);
            self.end_if_applied();
        } else if self.participants.nobody_knows() {
            self.end_unknown(now);
        } else {
            self.unblock();
            if self.state == State::Preparing {
                self.send_prepares();
            }
        }
    }

    /// A vote with a timestamp; `done`: it has been carried out there, too.
    fn on_placed(&mut self, now: Time, from: ShardId, mut placed: Placed, done: bool) {
        if let Some(replies) = &mut placed.replies {
            self.calls.keep_own(from, self.participants.len() > 1, replies);
        }
        let participant = self.participants.of(from);
        match self.state {
            State::Preparing | State::Withdrawing(_) => {
                // What was answered with a vote that was lost comes with the next word.
                let is_whole = !done || placed.replies.is_some();
                if !participant.has_voted() && is_whole {
                    participant.place(placed);
                    self.on_vote(now, from, Vec::new(), done);
                }
            }
            // Otherwise a double.
            State::Committed if done && !participant.has_applied() => {
                if !participant.apply_with(placed.replies) {
                    self.stamp.lose_answers();
                }
                self.tell_if_due();
                self.end_if_applied();
            }
            State::Committed | State::Running | State::Idle { .. } => {}
        }
    }
}

/// Round two.
impl Coordinator {
    /// All have voted yes.
    fn begin_applying(&mut self) {
        self.state = State::Committed;
        let attempt = self.attempt();
        if self.stamp.suggested().is_some() {
            let (at, until) = self.participants.final_place();
            for shard in self.participants.unapplied() {
                self.out.send(shard, Request::ApplyAt { attempt, at });
            }
            self.stamp.place(at, until);
            return self.tell_if_due();
        }
        if self.participants.iter().all(|it| it.has_answered()) || is_planted(Bug::ToldBeforeLateAnswers) {
            let replies = self.round.take_replies();
            self.out.tell(Event::Committed { replies });
        } else {
            self.stamp.await_answers();
        }
        if self.ways.tells_decision(&self.participants) {
            for shard in self.participants.unapplied() {
                self.out.send(shard, Request::Apply { attempt });
            }
        }
    }

    pub(super) fn resend_applies(&mut self) {
        let attempt = self.attempt();
        for shard in self.participants.unapplied() {
            let request = match self.stamp.placed_at() {
                Some(at) => Request::ApplyAt { attempt, at },
                None => Request::Apply { attempt },
            };
            self.out.send(shard, request);
        }
    }

    fn on_applied(&mut self, from: ShardId) {
        if self.state != State::Committed {
            return;
        }
        let are_answers_known = self.participants.of(from).apply();
        if !are_answers_known {
            self.stamp.lose_answers();
        }
        self.tell_if_due();
        self.end_if_applied();
    }

    /// It has carried out the attempt, and says what commands of the server answered (A23).
    fn on_late(&mut self, from: ShardId, mut replies: Vec<(CallNo, Reply)>) {
        self.calls.keep_own(from, self.participants.len() > 1, &mut replies);
        self.round.leave_out_known(&mut replies);
        let are_answers_known = self.participants.of(from).apply_with(Some(replies));
        debug_assert!(are_answers_known, "they are here");
        self.tell_if_due();
        self.end_if_applied();
    }

    /// Tells the caller, once nothing is in the way of that (P78).
    pub(super) fn tell_if_due(&mut self) {
        if !self.stamp.is_settled() || !self.participants.iter().all(|it| it.has_answered()) {
            return;
        }
        if !self.stamp.tell() {
            return self.out.tell(Event::Unknown);
        }
        let mut replies = self.round.take_replies();
        self.participants.take_placed_replies(&mut replies);
        self.out.tell(Event::Committed { replies });
    }

    pub(super) fn end_if_applied(&mut self) {
        if self.stamp.awaited().is_none() && self.participants.have_all_applied() {
            self.state = State::Idle { again: false };
            self.forget_attempt();
        }
    }
}

/// What ends an attempt whose prepares have left (P6, P21, P26, P55, traps 1, 3, 8, 9).
impl Coordinator {
    fn on_refused(&mut self, now: Time, from: ShardId, refusal: Refusal, since: Incarnation) {
        let goal = match self.state {
            State::Withdrawing(goal) => Some(goal),
            State::Running | State::Preparing => None,
            // It has carried it out, and does not know any more what it answered.
            State::Committed if refusal == Refusal::Unknown => return self.on_applied(from),
            State::Committed | State::Idle { .. } => return,
        };
        let forgot = self.participants.of(from).incarnation().is_some_and(|listed| listed < since);
        if refusal == Refusal::OnlyRounds {
            self.ways.commit_in_rounds();
        }
        if refusal == Refusal::LostLocks || forgot {
            self.participants.forget_met(from);
        }
        if self.state != State::Running && (forgot || refusal == Refusal::Unknown) {
            return self.on_lost_memory(now, from);
        }
        self.participants.of(from).vote_no();
        self.close_attempt(now, Some(from));
        match goal {
            Some(Goal::Abort) => self.out.tell(Event::Aborted),
            _ if !refusal.is_retryable() => self.fail(refusal),
            Some(Goal::GiveWay) => {
                self.turns.go_in_turn();
                self.tell_restart(Cause::GaveWay);
            }
            Some(Goal::Busy) => self.tell_restart(Cause::Busy),
            None => self.tell_restart(Cause::Refused(refusal)),
        }
    }

    /// A participant may have voted yes and does not know it, or gave up since another one does not. Only a no that is
    /// certain shows that the attempt is void; where all others voted yes, nobody knows.
    fn on_lost_memory(&mut self, now: Time, from: ShardId) {
        self.participants.of(from).lose();
        if self.participants.nobody_knows() {
            self.end_unknown(now);
        } else if self.state == State::Preparing {
            self.withdraw(now, Goal::GiveWay);
        }
    }

    /// Prepares have left: only a recorded no ends the attempt now (trap 1). One is enough; those that wait are
    /// asked for it.
    pub(super) fn withdraw(&mut self, now: Time, goal: Goal) {
        self.state = State::Withdrawing(goal);
        self.blocked.end();
        self.retries.clear_backoff();
        if let Some(unasked) = self.participants.iter().find(|participant| !participant.is_asked()) {
            // No prepare went there, so it never says yes: as good as a no that it has written.
            return self.on_refused(now, unasked.shard(), Refusal::Withdrawn, Incarnation(0));
        }
        self.send_withdraws();
        self.expect_answers(now);
    }

    pub(super) fn send_withdraws(&mut self) {
        let attempt = self.attempt();
        for shard in self.participants.voters() {
            self.out.send(shard, Request::Withdraw { attempt });
        }
    }
}
