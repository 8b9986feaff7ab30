//! The coordinator of one transaction, over all its attempts (`docs/protocol.md`).
//!
//! Sans I/O, like the shard: the application's calls and the shards' responses go in with the time; requests
//! ([`Coordinator::poll_send`]) and events for the application ([`Coordinator::poll_event`]) are drained, and
//! [`Coordinator::poll_timeout`] says when to come back.
//!
//! ```text
//!  Running --commit--> Preparing --all yes--> Committed --all applied--> over
//!     |                   |  \--a no--> over for this attempt: Restart or Failed
//!     |                   `--give way, abort--> Withdrawing --a no--> the same; all yes --> Committed
//!     `--abort, give way, a refusal--> over for this attempt
//! ```
//!
//! Rules it keeps: once a prepare has left, an attempt ends only by a recorded no (or because a participant was never
//! asked), by all yes, or with an unknown outcome when a shard lost its memory (trap 1); a transaction with an
//! unknown outcome is not run again. The next attempt starts after that (trap 2). A coordinator gives way only while
//! a vote is missing (trap 9). Once it gave way while its prepares were out, the prepares of later attempts leave one
//! after another, in the order of shards. Calls, commits and restarts name their attempt, and are taken only in the
//! right state of that attempt (P61).

mod acyclic;
mod calls;
mod closing;
mod combining;
mod contention;
mod digest;
mod event;
mod giving_way;
mod group;
mod held_reads;
mod incarnations;
mod members;
mod nesting;
mod outcome;
mod outstanding;
mod placing;
mod reserves;
mod reuse;
mod session;
mod touched;
mod turns;
mod undoing;
mod unheard;
mod waits;

use std::collections::VecDeque;

use claret_types::{Bytes, Reply};
use smallvec::SmallVec;

use crate::asked::Asked;
use crate::ids::{AttemptId, Birth, CallNo, Incarnation, ShardId, Time, Timestamp};
use crate::limits::Limits;
use crate::message::{KeyedCall, Members, Participants, Refusal, Request, Response, Status, Undone};
use crate::planted::{Bug, is_planted};
use crate::switches::{Delivery, Switches};

use acyclic::Chaining;
use closing::Closing;
pub use combining::{Frontend, TxHandle};
pub use contention::Contention;
pub use event::{Cause, Closed, Event};
pub use group::FrontendStats;
use outstanding::{Outstanding, Outstandings};
use placing::Placed;
use reserves::Reserves;
pub use session::Session;
use touched::Touched;
pub(crate) use unheard::Unheard;
pub use waits::Waits;

/// One shard that takes part in the attempt.
#[derive(Clone, Debug)]
struct ParticipantState {
    shard: ShardId,
    /// The one that is relied on. Once an answer came from it, no answer of another counts (P26).
    incarnation: Option<Incarnation>,
    /// How many calls it granted, as far as it said so: the prepare relies on them. Never falls.
    granted: u32,
    /// Something was executed there, or waits to be.
    executed: bool,
    /// Messages to it with calls that are not answered.
    outstanding: usize,
    /// Of these, those that wait, as far as it said so: those that began below.
    waiting: usize,
    waiting_below: CallNo,
    /// What was undone of what it was asked to execute.
    undone: Vec<Undone>,
    /// What it voted, once that is known.
    vote: Option<bool>,
    /// It lost its memory since the prepare left: what it voted is not known.
    lost: bool,
    /// What it said of its place, if the attempt is stamped.
    placed: Option<Placed>,
    /// It has carried out the attempt. Only after it voted yes.
    applied: bool,
    /// It said that the prepare waits.
    queued: bool,
    /// Its prepare has left.
    asked: bool,
    /// Its prepare leaves when all of an earlier turn have voted.
    turn: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Preparing,
    /// Prepares have left, and this attempt is to end.
    Withdrawing(Goal),
    Committed,
    /// The attempt is over. `again`: nothing of it will be applied, and its user was told so and may run it again.
    Idle {
        again: bool,
    },
}

/// Why an attempt is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Abort,
    GiveWay,
    Busy,
}

/// The coordinator of one transaction, over all its attempts: it executes calls at shards, commits or withdraws, and tells
/// when to run it again. Calls and responses go in with the time; requests ([`Coordinator::poll_send`]) and events
/// ([`Coordinator::poll_event`]) are drained.
#[derive(Clone, Debug)]
pub struct Coordinator {
    birth: Birth,
    /// The number of the attempt. Rises with each.
    number: u32,
    switches: Switches,
    limits: Limits,
    state: State,
    /// Each shard that was asked for anything, once. Empty when the attempt is over.
    participants: SmallVec<[ParticipantState; 4]>,
    /// Incarnations that the host learned with its connections.
    met: SmallVec<[(ShardId, Incarnation); 4]>,
    /// Calls that were sent and are not answered. None once a prepare has left.
    outstanding: Outstandings,
    /// Calls that wait for the commit. They change no more once a prepare has left.
    buffered: Vec<(ShardId, KeyedCall)>,
    /// What was used on records that were executed on, for the next attempt's first touch (trap 12).
    touched: Vec<Touched>,
    /// What earlier attempts needed, to be taken at the first touch.
    reserves: Reserves,
    /// All participants, as each is told of them. Set from the first prepare to the next attempt.
    listed: Option<Participants>,
    /// Whose calls commit. All until the prepare leaves.
    members: Members,
    /// The number of the next call: each is given once in an attempt.
    next_call: u32,
    /// From this call on, one that cannot be done is no end of the attempt (N5).
    inside: Option<CallNo>,
    /// Buffered calls that are executed with the commit, and not carried out (N6).
    only_checked: Vec<Undone>,
    chaining: Chaining,
    /// An earlier attempt gave way between prepares: they leave in turn, so that two that met do not meet again.
    in_turn: bool,
    /// About which timestamp it is to have (P73).
    suggested: Option<Timestamp>,
    /// Its final timestamp, once that is known.
    placed_at: Option<Timestamp>,
    /// Up to where the horizon has to come before its caller is told. Set until then (P78).
    told_at: Option<Timestamp>,
    /// As far as is known.
    horizon: Timestamp,
    /// It failed for this, which its caller may not hear before.
    failure: Option<Refusal>,
    /// It was carried out, and what it answered nobody knows any more (P57).
    lost_answers: bool,
    /// Asked alone, before all others (P50).
    first: Option<ShardId>,
    /// When the eldest began that waits for what this attempt holds. A shard tells of elders only (P20), so whoever is
    /// told of has precedence, whatever the clocks say.
    elder: Option<Time>,
    /// Since when it waits for others. Set only while a call or a prepare does.
    blocked_since: Option<Time>,
    /// When what has no answer is sent again. Set while anything has none, where messages may be lost.
    resend_at: Option<Time>,
    /// When busy locks are tried again, where there are no queues.
    backoff_at: Option<Time>,
    /// How often they were, in this attempt.
    tries: u32,
    jitter: u64,
    /// Answers that came with votes, until all have voted.
    replies: Vec<(CallNo, Reply)>,
    /// Earlier attempts, and this one if it is over, of which some participant may not know the end.
    closing: Vec<Closing>,
    sends: VecDeque<(ShardId, Request)>,
    events: VecDeque<Event>,
}

impl Coordinator {
    /// A transaction that begins its first attempt. `seed` is any number, for the jitter of pauses.
    pub fn new(birth: Birth, switches: Switches, limits: Limits, seed: u64) -> Self {
        Coordinator {
            birth,
            number: 1,
            switches,
            limits,
            state: State::Running,
            participants: SmallVec::new(),
            met: SmallVec::new(),
            outstanding: Outstandings::default(),
            buffered: Vec::new(),
            touched: Vec::new(),
            reserves: Reserves::default(),
            listed: None,
            members: Members::All,
            next_call: 0,
            inside: None,
            only_checked: Vec::new(),
            chaining: Chaining::default(),
            in_turn: false,
            suggested: None,
            placed_at: None,
            told_at: None,
            horizon: Timestamp::default(),
            failure: None,
            lost_answers: false,
            first: None,
            elder: None,
            blocked_since: None,
            resend_at: None,
            backoff_at: None,
            tries: 0,
            jitter: seed | 1,
            replies: Vec::new(),
            closing: Vec::new(),
            sends: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    // --- getters ---

    /// The attempt that runs, or ran last.
    pub fn attempt(&self) -> AttemptId {
        AttemptId { tx: self.birth.tx, attempt: self.number }
    }

    /// What can be asked about the attempt, once its prepare has left (P89).
    pub(crate) fn asked(&self) -> Option<Asked> {
        let participants = self.listed.clone()?;
        Some(Asked { attempt: self.attempt(), participants })
    }

    /// When it first began.
    pub fn birth(&self) -> Birth {
        self.birth
    }

    /// Whether the application may still issue operations.
    pub fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Whether calls are under way that are not answered yet.
    pub fn awaits_answers(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Whether every participant of every attempt knows the end of it: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        self.is_idle() && self.closing.is_empty()
    }

    /// Attempts of which some participant may still hold something: they must be kept alive.
    pub fn live(&self) -> impl Iterator<Item = AttemptId> + '_ {
        let running = (!self.is_idle()).then(|| self.attempt());
        let closing = self.closing.iter().filter(|closing| !closing.is_unknown);
        running.into_iter().chain(closing.map(|closing| closing.attempt))
    }

    /// Where calls of this attempt on a record are that are not answered, or wait for the commit. O(such calls).
    pub(crate) fn shard_of(&self, key: &Bytes) -> Option<ShardId> {
        let buffered = self.buffered.iter().find(|(_, call)| call.key == *key).map(|(shard, _)| *shard);
        buffered.or_else(|| self.outstanding.iter().find(|it| it.key == *key).map(|it| it.shard))
    }

    // --- the shards' responses ---

    /// Takes one response. Late, doubled and reordered ones are told by their attempt and the state.
    pub fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        if response.attempt() != Some(self.attempt()) || self.is_idle() {
            return self.handle_closing(from, &response);
        }
        if !self.participants.iter().any(|participant| participant.shard == from) {
            return; // Nobody asked it: whatever it says is of nothing that it has.
        }
        match response {
            Response::Granted { no, reply, granted, incarnation, .. } => {
                self.on_granted(now, from, no, reply, granted, incarnation);
            }
            Response::Queued { no, .. } => self.on_queued(now, from, no),
            Response::Busy { .. } => self.on_busy(now, from),
            Response::Elder { birth, .. } => {
                // It counts whether or not the attempt is blocked by now (P20).
                if !is_planted(Bug::ElderForgotten) || self.may_give_way() {
                    self.elder = Some(self.elder.map_or(birth, |known| known.min(birth)));
                }
                self.consider_giving_way(now);
            }
            Response::Voted { replies, .. } => self.on_vote(now, from, replies, false),
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

    /// Sends again what was not answered, tries refused locks again, gives way.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.backoff_at.is_some_and(|at| at <= now) {
            self.backoff_at = None;
            self.try_again(now);
        }
        if self.resend_at.is_some_and(|at| at <= now) {
            self.resend(now);
        }
        self.consider_giving_way(now);
    }

    // --- outputs ---

    /// The next request to send.
    pub fn poll_send(&mut self) -> Option<(ShardId, Request)> {
        self.sends.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether there is something to send or to tell, or the horizon is waited for.
    pub(crate) fn has_output(&self) -> bool {
        !self.sends.is_empty() || !self.events.is_empty() || self.told_at.is_some()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let mut first = self.resend_at;
        let mut also = |at: Time| first = Some(first.map_or(at, |first| first.min(at)));
        if let Some(at) = self.backoff_at {
            also(at);
        }
        if let (Some(_), Some(since)) = (self.elder, self.blocked_since)
            && self.may_give_way()
        {
            also(since.plus(self.limits.give_way_us));
        }
        first
    }

    // --- handling ---

    fn on_granted(
        &mut self,
        now: Time,
        from: ShardId,
        no: CallNo,
        reply: Reply,
        granted: u32,
        incarnation: Incarnation,
    ) {
        let Some(answered) = self.outstanding.answer(from, no) else { return };
        if answered.finished.is_some() {
            let participant = self.participant(answered.shard);
            participant.outstanding -= 1;
            participant.waiting -= usize::from(answered.began_with < participant.waiting_below);
        }
        let participant = self.participant(from);
        if *participant.incarnation.get_or_insert(incarnation) != incarnation {
            // Of two answers, one came from an earlier incarnation, and its lock with it (trap 3).
            self.close_attempt(now, None);
            self.tell_restart(Cause::Refused(Refusal::LostLocks));
            return;
        }
        participant.granted = participant.granted.max(granted);
        self.unblock();
        self.events.push_back(Event::Answer { no, reply });
        if let Some(key) = &answered.finished {
            self.send_kept_back(now, key);
        }
    }

    fn on_queued(&mut self, now: Time, from: ShardId, no: Option<CallNo>) {
        if !self.switches.phasing && self.limits.lock_tries_max == 0 {
            return self.on_busy(now, from); // The shard has phases (P68).
        }
        if self.state == State::Preparing && !self.may_wait_in_prepare(from, no) {
            return; // It is late, of a call that has its answer.
        }
        let waiting_below = CallNo(self.next_call);
        let participant = self.participant(from);
        (participant.waiting, participant.waiting_below) = (participant.outstanding, waiting_below);
        if self.state == State::Preparing {
            self.participant(from).queued = true;
        }
        self.blocked_since.get_or_insert(now);
        self.consider_giving_way(now);
    }

    fn on_busy(&mut self, now: Time, from: ShardId) {
        let voted = self.participant(from).vote.is_some();
        match self.state {
            State::Running if self.outstanding.iter().any(|it| it.shard == from) => {
                self.outstanding.iter_mut().filter(|it| it.shard == from).for_each(|it| it.is_busy = true);
            }
            State::Preparing if !voted => self.participant(from).queued = true,
            State::Running | State::Preparing | State::Withdrawing(_) => return, // A late double.
            State::Committed | State::Idle { .. } => return,
        }
        self.tries += 1;
        if self.tries > self.limits.lock_tries_max {
            return self.end_attempt(now, Goal::Busy);
        }
        let pause = self.pause();
        self.backoff_at = Some(now.plus(pause));
    }

    /// A yes. It may have been the last one, and is carried out there already.
    fn on_vote(&mut self, now: Time, from: ShardId, mut replies: Vec<(CallNo, Reply)>, applied: bool) {
        self.keep_own(from, &mut replies);
        if !matches!(self.state, State::Preparing | State::Withdrawing(_)) {
            return;
        }
        let participant = self.participant(from);
        if participant.vote.is_some() {
            return; // A double.
        }
        participant.vote = Some(true);
        participant.applied |= applied;
        participant.queued = false;
        if applied && self.decides(from) {
            self.hear_decision();
        }
        self.add_replies(replies);
        if self.participants.iter().all(|participant| participant.vote == Some(true)) {
            self.state = State::Committed;
            if self.suggested.is_some() {
                self.place_all();
            } else {
                let replies = std::mem::take(&mut self.replies);
                self.events.push_back(Event::Committed { replies });
                self.send_applies();
            }
            self.blocked_since = None;
            self.expect_answers(now);
            self.end_if_applied();
        } else if self.nobody_knows() {
            self.end_unknown(now);
        } else {
            self.unblock();
            if self.state == State::Preparing {
                self.send_prepares();
            }
        }
    }

    /// Round two. Where the last one of a chain has decided, it tells the others itself (K6).
    fn send_applies(&mut self) {
        let last = self.participants.last().is_some_and(|last| last.applied);
        if self.is_chain() && last {
            return;
        }
        let attempt = self.attempt();
        for participant in self.participants.iter().filter(|participant| !participant.applied) {
            self.sends.push_back((participant.shard, Request::Apply { attempt }));
        }
    }

    /// Answers of one shard more. There is room for those of all others from the first on.
    fn add_replies(&mut self, replies: Vec<(CallNo, Reply)>) {
        if replies.is_empty() {
            return;
        }
        if self.participants.len() == 1 {
            self.replies = replies;
            return;
        }
        if self.replies.is_empty() {
            self.replies.reserve_exact(self.buffered.iter().filter(|(_, it)| it.call.op.returns()).count());
        }
        self.replies.extend(replies);
    }

    /// Keeps the answers to calls that a shard's prepare had. Whoever reads them looks for each where its call was.
    fn keep_own(&self, from: ShardId, replies: &mut Vec<(CallNo, Reply)>) {
        replies.retain(|(no, _)| no.0 < self.next_call);
        if self.participants.len() < 2 || replies.is_empty() {
            return;
        }
        // Mostly each call stands at its number.
        let is_own = |no: CallNo| {
            let at = self.buffered.get(no.0 as usize).filter(|(_, it)| it.call.no == no);
            at.is_some_and(|(shard, it)| *shard == from && it.call.op.returns())
        };
        if replies.iter().all(|(no, _)| is_own(*no)) {
            return;
        }
        let asked = self.buffered.iter().filter(|(shard, it)| *shard == from && it.call.op.returns());
        let mut asked: SmallVec<[CallNo; 16]> = asked.map(|(_, it)| it.call.no).collect();
        asked.sort_unstable();
        replies.retain(|(no, _)| asked.binary_search(no).is_ok());
    }

    fn on_refused(&mut self, now: Time, from: ShardId, refusal: Refusal, since: Incarnation) {
        let goal = match self.state {
            State::Withdrawing(goal) => Some(goal),
            State::Running | State::Preparing => None,
            // It has carried it out, and does not know any more what it answered.
            State::Committed if refusal == Refusal::Unknown => return self.on_applied(from),
            State::Committed | State::Idle { .. } => return,
        };
        let forgot = self.participant(from).incarnation.is_some_and(|listed| listed < since);
        if refusal == Refusal::Unchained {
            self.note_unchained();
        }
        if refusal == Refusal::LostLocks || forgot {
            self.forget_met(from);
        }
        if self.state != State::Running && (forgot || refusal == Refusal::Unknown) {
            return self.on_lost_memory(now, from);
        }
        self.participant(from).vote = Some(false);
        self.close_attempt(now, Some(from));
        match goal {
            Some(Goal::Abort) => self.events.push_back(Event::Aborted),
            _ if !refusal.is_retryable() => self.fail(refusal),
            Some(Goal::GiveWay) => {
                self.in_turn = true;
                self.tell_restart(Cause::GaveWay);
            }
            Some(Goal::Busy) => self.tell_restart(Cause::Busy),
            None => self.tell_restart(Cause::Refused(refusal)),
        }
    }

    fn on_applied(&mut self, from: ShardId) {
        if self.state != State::Committed {
            return self.hear_applied_early(from);
        }
        let participant = self.participant(from);
        participant.applied = true;
        if let Some(placed) = participant.placed.as_mut().filter(|placed| placed.replies.is_none()) {
            placed.replies = Some(Vec::new());
            self.lost_answers = true;
        }
        self.tell_if_due();
        self.end_if_applied();
    }

    fn end_if_applied(&mut self) {
        if self.told_at.is_none() && self.participants.iter().all(|participant| participant.applied) {
            self.state = State::Idle { again: false };
            self.forget_attempt();
        }
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

    // --- sending ---

    fn send_execute(&mut self, now: Time, at: usize) {
        let attempt = self.attempt();
        let Outstanding { shard, key, calls, .. } = self.outstanding.at(at);
        let (shard, key, calls) = (*shard, key.clone(), calls.clone());
        let participant = self.participant(shard);
        participant.executed = true;
        let (incarnation, undone) = (participant.incarnation, participant.undone.clone().into());
        let birth = self.birth;
        self.sends.push_back((shard, Request::Execute { attempt, birth, incarnation, key, calls, undone }));
        self.expect_answers(now);
    }

    /// Without phases: asks again for what was busy.
    fn try_again(&mut self, now: Time) {
        match self.state {
            State::Running => {
                let busy: Vec<usize> = (0..self.outstanding.len())
                    .filter(|at| self.outstanding.at(*at).is_busy && !self.outstanding.at(*at).is_kept_back)
                    .collect();
                self.outstanding.iter_mut().for_each(|it| it.is_busy = false);
                busy.into_iter().for_each(|at| self.send_execute(now, at));
            }
            State::Preparing => {
                for at in 0..self.participants.len() {
                    if std::mem::take(&mut self.participants[at].queued) {
                        self.send_prepare(at);
                    }
                }
            }
            State::Withdrawing(_) | State::Committed | State::Idle { .. } => {}
        }
    }

    /// Sends again whatever has no answer.
    fn resend(&mut self, now: Time) {
        self.resend_at = None;
        let attempt = self.attempt();
        match self.state {
            State::Running => {
                self.outstanding.iter_mut().for_each(Outstanding::leave_out_answered);
                let is_sent = |at: &usize| !self.outstanding.at(*at).is_kept_back;
                let sent: Vec<usize> = (0..self.outstanding.len()).filter(is_sent).collect();
                sent.into_iter().for_each(|at| self.send_execute(now, at));
            }
            State::Preparing => {
                if self.is_broken_chain() {
                    self.note_unchained();
                    return self.withdraw(now, Goal::GiveWay);
                }
                for at in 0..self.participants.len() {
                    let has_voted = self.participants[at].vote.is_some();
                    // In a chain the baton may be lost behind a vote that is known (K8).
                    let may_be_lost = self.is_chain() && !is_planted(Bug::ResentToUnvoted);
                    if (may_be_lost || !has_voted) && self.participants[at].asked {
                        self.send_prepare(at);
                    }
                }
            }
            State::Withdrawing(_) => {
                for participant in self
                    .participants
                    .iter()
                    .filter(|participant| participant.vote.is_none() && !participant.lost)
                {
                    self.sends.push_back((participant.shard, Request::Withdraw { attempt }));
                }
            }
            State::Committed => {
                for participant in self.participants.iter().filter(|participant| !participant.applied) {
                    self.sends.push_back((participant.shard, self.apply_again()));
                }
            }
            State::Idle { .. } => {}
        }
        for closing in &self.closing {
            closing.send(&mut self.sends);
        }
        let rests = self.is_idle() || self.state == State::Running && self.outstanding.is_empty();
        if !rests || !self.closing.is_empty() {
            self.expect_answers(now);
        }
    }

    fn expect_answers(&mut self, now: Time) {
        if self.switches.delivery == Delivery::Network {
            self.resend_at.get_or_insert(now.plus(self.limits.resend_us));
        }
    }

    // --- ends of attempts ---

    /// Aborts the attempt at everybody who may hold something of it.
    fn close_attempt(&mut self, now: Time, refused_by: Option<ShardId>) {
        let attempt = self.attempt();
        // Direct delivery keeps no record of what is over: a call that followed the refused one, or was asked for
        // again beside it, began the attempt anew there. So whoever refused hears of the end as well.
        let forgets = self.switches.delivery == Delivery::Direct;
        let is_running = self.state == State::Running;
        let holds = |participant: &&ParticipantState| match participant.asked || is_running {
            true => forgets || Some(participant.shard) != refused_by,
            false => participant.executed,
        };
        let waiting: SmallVec<[ShardId; 4]> =
            self.participants.iter().filter(holds).map(|participant| participant.shard).collect();
        let closing = Closing { attempt, refused_by, is_unknown: false, waiting };
        if !closing.waiting.is_empty() {
            closing.send(&mut self.sends);
            self.closing.push(closing);
            self.expect_answers(now);
        }
        self.state = State::Idle { again: false };
        self.forget_attempt();
    }

    /// The attempt is over, and its user may run the transaction again.
    fn tell_restart(&mut self, cause: Cause) {
        self.state = State::Idle { again: true };
        self.events.push_back(Event::Restart { cause });
    }

    fn forget_attempt(&mut self) {
        self.participants.clear();
        self.outstanding.clear();
        self.blocked_since = None;
        self.backoff_at = None;
        if self.closing.is_empty() {
            self.resend_at = None;
        }
    }

    // --- small things ---

    fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { .. })
    }

    fn number_call(&mut self) -> CallNo {
        let no = CallNo(self.next_call);
        self.next_call += 1;
        no
    }

    #[inline]
    fn participant(&mut self, shard: ShardId) -> &mut ParticipantState {
        let known = self.participants.iter().position(|participant| participant.shard == shard);
        let at = known.unwrap_or_else(|| self.add_participant(shard));
        &mut self.participants[at]
    }

    /// One that was asked for nothing so far: its place.
    fn add_participant(&mut self, shard: ShardId) -> usize {
        let met = self.met.iter().find(|(known, _)| *known == shard);
        self.participants.push(ParticipantState {
            shard,
            incarnation: met.map(|(_, incarnation)| *incarnation),
            granted: 0,
            executed: false,
            outstanding: 0,
            waiting: 0,
            waiting_below: CallNo(0),
            undone: Vec::new(),
            vote: None,
            placed: None,
            lost: false,
            applied: false,
            queued: false,
            asked: false,
            turn: 0,
        });
        self.participants.len() - 1
    }

    /// Something came; whether anything is still blocked shows from what is queued.
    fn unblock(&mut self) {
        if self.blocked_since.is_none() {
            return;
        }
        let blocked = self.participants.iter().any(|participant| participant.waiting > 0)
            || self.participants.iter().any(|participant| participant.queued && participant.vote.is_none());
        if !blocked {
            self.blocked_since = None;
        }
    }

    /// A pause that doubles with each refusal, with jitter (P68).
    fn pause(&mut self) -> u64 {
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let doubled = self.limits.backoff_us_min << self.tries.min(20);
        let longest = doubled.min(self.limits.backoff_us_max);
        longest / 2 + self.jitter % (longest / 2 + 1)
    }
}
