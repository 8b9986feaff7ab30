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
//! Rules it keeps: once a prepare has left, an attempt ends only by a recorded no (or by one who was never asked), by
//! all yes, or unknown to all when a shard lost its memory (trap 1), and the last of these is not run again; the next
//! attempt starts after that (trap 2); a coordinator gives way only while a vote is missing (trap 9). Once it gave way
//! while its prepares were out, the prepares of later attempts leave one after the other, in the order of shards.

mod closing;
mod combining;
mod digest;
mod event;
mod giving_way;
mod group;
mod heat;
mod held_reads;
mod incarnations;
mod members;
mod outcome;
mod reserves;
mod reuse;
mod session;
mod turns;

use std::collections::VecDeque;

use claret_types::{Bytes, Claims, Operation, Reply};
use smallvec::SmallVec;

use crate::ids::{AttemptId, Birth, CallNo, Incarnation, Member, ShardId, Time};
use crate::limits::Limits;
use crate::message::{Call, KeyedCall, Listed, Members, Participants, Refusal, Request, Response, Status};
use crate::planted::{Bug, Planted};
use crate::switches::{Delivery, Switches};

use closing::Closing;
pub use combining::{Frontend, TxHandle};
pub use event::{Cause, Event};
pub use group::FrontendStats;
pub use heat::Heat;
use reserves::{Reserves, add_modes, bounded};
pub use session::Session;

/// One shard that takes part in the attempt.
#[derive(Clone, Debug)]
struct Party {
    shard: ShardId,
    incarnation: Option<Incarnation>,
    granted: u32,
    /// Something was executed there, or waits to be.
    executed: bool,
    vote: Option<bool>,
    /// It lost its memory since the prepare left: what it voted is not known.
    lost: bool,
    applied: bool,
    /// It said that the prepare waits.
    queued: bool,
    /// Its prepare has left.
    asked: bool,
    /// Its prepare leaves when all of an earlier turn have voted.
    turn: u32,
}

/// A call that was sent for execution and is not answered.
#[derive(Clone, Debug)]
struct Outstanding {
    /// Calls that return something and are not answered.
    unanswered: SmallVec<[CallNo; 1]>,
    shard: ShardId,
    key: Bytes,
    calls: SmallVec<[Call; 1]>,
    queued: bool,
    /// Its member left the group: nobody waits for the answer (R16).
    stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Preparing,
    /// Prepares have left, and this attempt is to end.
    Withdrawing(Goal),
    Committed,
    /// Between attempts, or over.
    Idle,
}

/// Why an attempt is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Abort,
    GiveWay,
    Busy,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Coordinator {
    birth: Birth,
    number: u32,
    switches: Switches,
    limits: Limits,
    state: State,
    parties: SmallVec<[Party; 4]>,
    /// Incarnations that the host learned with its connections.
    met: SmallVec<[(ShardId, Incarnation); 4]>,
    outstanding: SmallVec<[Outstanding; 1]>,
    /// Calls that wait for the commit.
    buffered: Vec<(ShardId, KeyedCall)>,
    /// What was used on records that were executed on, for the next attempt's first touch (trap 12).
    touched: Vec<(Bytes, Operation)>,
    reserves: Reserves,
    participants: Option<Participants>,
    members: Members,
    next_call: u32,
    /// An earlier attempt gave way between prepares: they leave in turn, so that two that met do not meet again.
    in_turn: bool,
    /// Asked alone, before all others (P22b).
    first: Option<ShardId>,
    /// When the eldest began that waits for what this attempt holds. A shard tells of elders only (P20), so whoever is
    /// told of has precedence, whatever the clocks say.
    elder: Option<Time>,
    blocked_since: Option<Time>,
    resend_at: Option<Time>,
    backoff_at: Option<Time>,
    tries: u32,
    jitter: u64,
    replies: Vec<(CallNo, Reply)>,
    closing: Vec<Closing>,
    sends: VecDeque<(ShardId, Request)>,
    events: VecDeque<Event>,
    pub(crate) planted: Planted,
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
            parties: SmallVec::new(),
            met: SmallVec::new(),
            outstanding: SmallVec::new(),
            buffered: Vec::new(),
            touched: Vec::new(),
            reserves: Reserves::default(),
            participants: None,
            members: Members::All,
            next_call: 0,
            in_turn: false,
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
            planted: Planted::NONE,
        }
    }

    // --- getters ---

    /// The attempt that runs, or ran last.
    pub fn attempt(&self) -> AttemptId {
        AttemptId { tx: self.birth.tx, attempt: self.number }
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
        self.state == State::Idle && self.closing.is_empty()
    }

    /// Attempts of which some participant may still hold something: they must be kept alive.
    pub fn live(&self) -> impl Iterator<Item = AttemptId> + '_ {
        let running = (self.state != State::Idle).then(|| self.attempt());
        let closing = self.closing.iter().filter(|closing| !closing.is_unknown);
        running.into_iter().chain(closing.map(|closing| closing.attempt))
    }

    // --- the application's calls ---

    /// Sends an operation whose answer is wanted now, behind what the transaction has buffered for its record
    /// (R3). `reserve` are claims to take besides its own.
    pub fn execute(
        &mut self,
        now: Time,
        shard: ShardId,
        key: Bytes,
        op: Operation,
        reserve: Option<Claims>,
    ) -> CallNo {
        self.execute_for(now, Member(0), shard, key, op, reserve)
    }

    /// [`Self::execute`] for a member of the group. Another member's buffered calls stay behind (R16).
    fn execute_for(
        &mut self,
        now: Time,
        member: Member,
        shard: ShardId,
        key: Bytes,
        op: Operation,
        reserve: Option<Claims>,
    ) -> CallNo {
        debug_assert_eq!(self.state, State::Running);
        let mut calls: SmallVec<[Call; 1]> = SmallVec::new();
        let is_due = |buffered: &KeyedCall| buffered.key == key && buffered.call.member == member;
        if self.buffered.iter().any(|(_, buffered)| is_due(buffered)) {
            let all = std::mem::take(&mut self.buffered);
            let (mine, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, buffered)| is_due(buffered));
            self.buffered = rest;
            calls.extend(mine.into_iter().map(|(_, buffered)| buffered.call));
        }
        for call in &calls {
            self.touched.push((key.clone(), call.op.clone()));
        }
        self.touched.push((key.clone(), op.clone()));
        let no = self.number_call();
        calls.push(Call { no, op, member, reserve: reserve.map(bounded) });
        if let Some(known) = self.reserves.take(&key, &calls[0].op) {
            add_modes(calls[0].reserve.get_or_insert_default(), &known);
        }
        self.party(shard);
        let unanswered = calls.iter().filter(|call| call.op.returns()).map(|call| call.no).collect();
        self.repeat_unanswered(&key, &mut calls);
        self.outstanding.push(Outstanding { unanswered, shard, key, calls, queued: false, stale: false });
        self.send_execute(now, self.outstanding.len() - 1);
        no
    }

    /// Puts what is under way to the same record before new calls: two messages may overtake each other, and calls
    /// of one transaction on one record are executed in the order in which they were made. The shard knows doubles.
    fn repeat_unanswered(&self, key: &Bytes, calls: &mut SmallVec<[Call; 1]>) {
        let overtake = self.planted.is(Bug::CallsOvertake);
        if self.switches.delivery == Delivery::Direct && self.switches.phasing || overtake {
            return; // Nothing overtakes anything, what waits keeps its place, and shards keep no list of calls.
        }
        let earlier = || self.outstanding.iter().filter(|it| it.key == *key && !it.stale);
        if earlier().next().is_none() {
            return;
        }
        let earlier = earlier().flat_map(|it| &it.calls).cloned();
        let mut earlier: SmallVec<[Call; 1]> = earlier.collect();
        earlier.sort_by_key(|call| call.no);
        earlier.dedup_by_key(|call| call.no);
        earlier.append(calls);
        *calls = earlier;
    }

    /// Keeps an operation until the commit, or until its record is executed on. O(1).
    pub fn buffer(&mut self, shard: ShardId, key: Bytes, op: Operation) -> CallNo {
        self.buffer_for(Member(0), shard, key, op)
    }

    fn buffer_for(&mut self, member: Member, shard: ShardId, key: Bytes, op: Operation) -> CallNo {
        debug_assert_eq!(self.state, State::Running);
        let no = self.number_call();
        let call = Call { no, op, member, reserve: None };
        self.buffered.push((shard, KeyedCall { key, call }));
        no
    }

    /// Takes the buffered calls out, when nothing else was ever sent: the host may do them instantly.
    /// `None` when some shard takes part already.
    pub fn take_buffered(&mut self) -> Option<Vec<(ShardId, KeyedCall)>> {
        self.parties.is_empty().then(|| std::mem::take(&mut self.buffered))
    }

    /// Puts calls back that [`Self::take_buffered`] gave.
    pub fn put_back(&mut self, calls: Vec<(ShardId, KeyedCall)>) {
        self.buffered = calls;
    }

    /// The host carried the whole transaction out by itself.
    pub fn close_instantly(&mut self) {
        debug_assert!(self.parties.is_empty());
        self.state = State::Idle;
    }

    /// Starts the commit: one message with one participant (R13), otherwise round one (R12), in which `hot` shards are
    /// asked last, in this order (P22): see [`Heat`].
    pub fn commit(&mut self, now: Time, hot: &[ShardId]) {
        self.outstanding.retain(|it| !it.stale);
        self.unblock();
        debug_assert!(self.state == State::Running && self.outstanding.is_empty());
        for at in 0..self.buffered.len() {
            self.party(self.buffered[at].0);
            if !self.reserves.is_empty() {
                let KeyedCall { key, call } = self.buffered[at].1.clone();
                self.buffered[at].1.call.reserve = self.reserves.take(&key, &call.op);
            }
        }
        if self.parties.is_empty() {
            self.state = State::Idle;
            self.events.push_back(Event::Committed { replies: Vec::new() });
            return;
        }
        if self.parties.iter().any(|party| self.is_gone(party)) {
            // No prepare has left, so the incarnation that is gone cannot have voted.
            self.close_attempt(now, None);
            self.events.push_back(Event::Restart { cause: Cause::Refused(Refusal::LostLocks) });
            return;
        }
        let named = !self.planted.is(Bug::ListNamesNoIncarnation);
        let listed =
            |party: &Party| Listed { shard: party.shard, incarnation: party.incarnation.filter(|_| named) };
        self.participants = Some(self.parties.iter().map(listed).collect());
        self.state = State::Preparing;
        self.begin_prepares(hot);
        self.expect_answers(now);
    }

    /// Ends the attempt without a trace, if that is still possible: [`Event::Aborted`], [`Event::Committed`] or, where a
    /// shard lost its memory, [`Event::Unknown`] follows.
    pub fn abort(&mut self, now: Time) {
        match self.state {
            State::Preparing if !self.planted.is(Bug::AbortByFiat) => self.withdraw(now, Goal::Abort),
            State::Running | State::Preparing => {
                self.close_attempt(now, None);
                self.events.push_back(Event::Aborted);
            }
            State::Withdrawing(_) => self.state = State::Withdrawing(Goal::Abort),
            State::Committed | State::Idle => {}
        }
    }

    /// Begins the next attempt, after [`Event::Restart`]. The birth stays (R11).
    pub fn restart(&mut self) {
        debug_assert_eq!(self.state, State::Idle);
        let buffered = self.buffered.iter().map(|(_, it)| (&it.key, &it.call.op));
        let touched = self.touched.iter().map(|(key, op)| (key, op));
        self.reserves.note(self.switches.locks, touched.chain(buffered));
        self.number += u32::from(!self.planted.is(Bug::AttemptsShareNumber));
        self.state = State::Running;
        self.members = Members::All;
        self.buffered.clear();
        self.touched.clear();
        self.next_call = 0;
        self.elder = None;
        self.tries = 0;
        self.replies.clear();
        self.participants = None;
    }

    // --- the shards' responses ---

    /// Takes one response. Late, doubled and reordered ones are told by their attempt and the state.
    pub fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        let stale = response.attempt() != self.attempt()
            && !(self.planted.is(Bug::StaleVoteCounts) && matches!(response, Response::Voted { .. }));
        if stale || self.state == State::Idle {
            return self.handle_closing(from, &response);
        }
        match response {
            Response::Granted { no, reply, granted, incarnation, .. } => {
                self.on_granted(now, from, no, reply, granted, incarnation);
            }
            Response::Queued { .. } => self.on_queued(now, from),
            Response::Busy { .. } => self.on_busy(now, from),
            Response::Elder { birth, .. } => {
                let heard = self.may_give_way() || !self.planted.is(Bug::ElderForgotten);
                if self.elder.is_none_or(|known| birth < known) && heard {
                    self.elder = Some(birth);
                }
                self.consider_giving_way(now);
            }
            Response::Voted { replies, .. } => self.on_vote(now, from, replies, false),
            Response::Committed { replies, .. } => self.on_vote(now, from, replies, true),
            Response::Refused { refusal, since, .. } => self.on_refused(now, from, refusal, since),
            Response::Applied { .. } => self.on_applied(from),
            Response::Asked { status, since, .. } => self.on_asked(now, from, status, since),
            Response::Aborted { .. } => {} // Only closed attempts are aborted.
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
        let Some(at) = self.outstanding.iter().position(|it| it.unanswered.contains(&no)) else { return };
        let unanswered = &mut self.outstanding[at].unanswered;
        unanswered.retain(|waiting| *waiting != no);
        if unanswered.is_empty() {
            self.outstanding.swap_remove(at);
        }
        let party = self.party(from);
        if *party.incarnation.get_or_insert(incarnation) != incarnation {
            // Of two answers, one came from an incarnation that is gone, and its lock with it (trap 3).
            self.close_attempt(now, None);
            self.events.push_back(Event::Restart { cause: Cause::Refused(Refusal::LostLocks) });
            return;
        }
        party.granted = party.granted.max(granted);
        self.unblock();
        self.events.push_back(Event::Answer { no, reply });
    }

    fn on_queued(&mut self, now: Time, from: ShardId) {
        for waiting in self.outstanding.iter_mut().filter(|it| it.shard == from) {
            waiting.queued = true;
        }
        if self.state == State::Preparing {
            let party = self.party(from);
            party.queued = party.asked;
        }
        self.blocked_since.get_or_insert(now);
        self.consider_giving_way(now);
    }

    fn on_busy(&mut self, now: Time, from: ShardId) {
        let voted = self.party(from).vote.is_some();
        match self.state {
            State::Running if self.outstanding.iter().any(|it| it.shard == from) => {
                self.outstanding.iter_mut().filter(|it| it.shard == from).for_each(|it| it.queued = true);
            }
            State::Preparing if !voted => self.party(from).queued = true,
            State::Running | State::Preparing | State::Withdrawing(_) => return, // A late double.
            State::Committed | State::Idle => return,
        }
        self.tries += 1;
        if self.tries > self.limits.lock_tries_max {
            return self.end_attempt(now, Goal::Busy);
        }
        let pause = self.pause();
        self.backoff_at = Some(now.plus(pause));
    }

    /// A yes. It may have been the last one, and is carried out there already.
    fn on_vote(&mut self, now: Time, from: ShardId, replies: Vec<(CallNo, Reply)>, applied: bool) {
        let deaf = self.planted.is(Bug::WithdrawingDeafToVotes) && self.state != State::Preparing;
        if !matches!(self.state, State::Preparing | State::Withdrawing(_)) || deaf {
            return;
        }
        let missing = self.parties.iter().find(|party| party.vote.is_none());
        let counted = missing.filter(|_| self.planted.is(Bug::DoubledVoteCounts)).map(|party| party.shard);
        let party = self.party(counted.unwrap_or(from));
        if party.vote.is_some() {
            return; // A double.
        }
        party.vote = Some(true);
        party.applied = applied;
        party.queued = false;
        match self.replies.is_empty() {
            true => self.replies = replies,
            false => self.replies.extend(replies),
        }
        let writes = |shard| self.buffered.iter().any(|(to, _)| *to == shard);
        let counts = |shard| !self.planted.is(Bug::ReadersDoNotVote) || writes(shard);
        let missing = self.parties.iter().filter(|it| it.vote != Some(true) && counts(it.shard)).count();
        if missing <= usize::from(self.planted.is(Bug::ToldBeforeLastVote)) {
            self.state = State::Committed;
            let replies = std::mem::take(&mut self.replies);
            self.events.push_back(Event::Committed { replies });
            let attempt = self.attempt();
            for party in self.parties.iter().filter(|party| !party.applied) {
                self.sends.push_back((party.shard, Request::Apply { attempt }));
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

    fn on_refused(&mut self, now: Time, from: ShardId, refusal: Refusal, since: Incarnation) {
        let goal = match self.state {
            State::Withdrawing(goal) => Some(goal),
            State::Running | State::Preparing => None,
            State::Committed | State::Idle => return,
        };
        let forgot = self.party(from).incarnation.is_some_and(|listed| listed < since);
        if refusal == Refusal::LostLocks || forgot {
            self.forget_met(from);
        }
        if self.state != State::Running && (forgot || refusal == Refusal::Unknown) {
            return self.on_lost_memory(now, from);
        }
        self.party(from).vote = Some(false);
        self.close_attempt(now, Some(from));
        let event = match goal {
            Some(Goal::Abort) => Event::Aborted,
            _ if !refusal.is_retryable() => Event::Failed { refusal },
            Some(Goal::GiveWay) => {
                self.in_turn = true;
                Event::Restart { cause: Cause::GaveWay }
            }
            Some(Goal::Busy) => Event::Restart { cause: Cause::Busy },
            None => Event::Restart { cause: Cause::Refused(refusal) },
        };
        self.events.push_back(event);
    }

    fn on_applied(&mut self, from: ShardId) {
        if self.state != State::Committed {
            return;
        }
        self.party(from).applied = true;
        self.end_if_applied();
    }

    fn end_if_applied(&mut self) {
        if self.parties.iter().all(|party| party.applied) || self.planted.is(Bug::OverWhenTold) {
            self.state = State::Idle;
            self.forget_attempt();
        }
    }

    fn on_asked(&mut self, now: Time, from: ShardId, status: Status, since: Incarnation) {
        match status {
            Status::Prepared | Status::Applied => self.on_vote(now, from, Vec::new(), false),
            Status::Refused => self.on_refused(now, from, Refusal::Recovered, since),
            Status::Lost => self.on_refused(now, from, Refusal::Unknown, since),
            Status::Forgotten => {}
        }
    }

    // --- sending ---

    fn send_execute(&mut self, now: Time, at: usize) {
        let attempt = self.attempt();
        let Outstanding { shard, key, calls, .. } = &self.outstanding[at];
        let (shard, key, calls) = (*shard, key.clone(), calls.clone());
        let party = self.party(shard);
        party.executed = true;
        let incarnation = party.incarnation;
        let birth = self.birth;
        self.sends.push_back((shard, Request::Execute { attempt, birth, incarnation, key, calls }));
        self.expect_answers(now);
    }

    /// Without phases: asks again for what was busy.
    fn try_again(&mut self, now: Time) {
        match self.state {
            State::Running => {
                for at in 0..self.outstanding.len() {
                    if std::mem::take(&mut self.outstanding[at].queued) {
                        self.send_execute(now, at);
                    }
                }
            }
            State::Preparing => {
                for at in 0..self.parties.len() {
                    if std::mem::take(&mut self.parties[at].queued) {
                        self.send_prepare(at);
                    }
                }
            }
            State::Withdrawing(_) | State::Committed | State::Idle => {}
        }
    }

    /// Sends again whatever has no answer.
    fn resend(&mut self, now: Time) {
        self.resend_at = None;
        let attempt = self.attempt();
        match self.state {
            State::Running => (0..self.outstanding.len()).for_each(|at| self.send_execute(now, at)),
            State::Preparing if self.planted.is(Bug::PrepareNotResent) => {}
            State::Preparing => {
                for at in 0..self.parties.len() {
                    if self.parties[at].vote.is_none() && self.parties[at].asked {
                        self.send_prepare(at);
                    }
                }
            }
            State::Withdrawing(_) => {
                for party in self.parties.iter().filter(|party| party.vote.is_none() && !party.lost) {
                    self.sends.push_back((party.shard, Request::Withdraw { attempt }));
                }
            }
            State::Committed if self.planted.is(Bug::ApplyNotResent) => {}
            State::Committed => {
                for party in self.parties.iter().filter(|party| !party.applied) {
                    self.sends.push_back((party.shard, Request::Apply { attempt }));
                }
            }
            State::Idle => {}
        }
        for closing in self.closing.iter().filter(|_| !self.planted.is(Bug::AbortNotResent)) {
            closing.send(&mut self.sends);
        }
        let waits =
            self.state != State::Idle && !(self.state == State::Running && self.outstanding.is_empty());
        if waits || !self.closing.is_empty() {
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
        let holds = |party: &&Party| match party.asked || is_running {
            true => forgets || Some(party.shard) != refused_by,
            false => party.executed,
        };
        let waiting: SmallVec<[ShardId; 4]> =
            self.parties.iter().filter(holds).map(|party| party.shard).collect();
        let closing = Closing { attempt, refused_by, is_unknown: false, waiting };
        if !closing.waiting.is_empty() {
            closing.send(&mut self.sends);
            self.closing.push(closing);
            self.expect_answers(now);
        }
        self.state = State::Idle;
        self.forget_attempt();
    }

    fn forget_attempt(&mut self) {
        self.parties.clear();
        self.outstanding.clear();
        self.blocked_since = None;
        self.backoff_at = None;
        if self.closing.is_empty() {
            self.resend_at = None;
        }
    }

    // --- small things ---

    fn number_call(&mut self) -> CallNo {
        let no = CallNo(self.next_call);
        self.next_call += 1;
        no
    }

    fn party(&mut self, shard: ShardId) -> &mut Party {
        let at = self.parties.iter().position(|party| party.shard == shard).unwrap_or_else(|| {
            let met = self.met.iter().find(|(known, _)| *known == shard);
            self.parties.push(Party {
                shard,
                incarnation: met.map(|(_, incarnation)| *incarnation),
                granted: 0,
                executed: false,
                vote: None,
                lost: false,
                applied: false,
                queued: false,
                asked: false,
                turn: 0,
            });
            self.parties.len() - 1
        });
        &mut self.parties[at]
    }

    /// Something came; whether anything is still blocked shows from what is queued.
    fn unblock(&mut self) {
        let blocked = self.outstanding.iter().any(|it| it.queued)
            || self.parties.iter().any(|party| party.queued && party.vote.is_none());
        if !blocked {
            self.blocked_since = None;
        }
    }

    /// A pause that doubles with each refusal, with jitter (R2).
    fn pause(&mut self) -> u64 {
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let doubled = self.limits.backoff_us_min << self.tries.min(20);
        let longest = doubled.min(self.limits.backoff_us_max);
        longest / 2 + self.jitter % (longest / 2 + 1)
    }
}
