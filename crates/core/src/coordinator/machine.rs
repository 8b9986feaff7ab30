//! The coordinator as a whole: its parts, what time brings, and what goes out.
//!
//! The parts know their own rules; here and in the files below stands what takes several of them: the application's calls (`calling`),
//! the commit and what shards answer (`committing`), and how attempts end (`ending`). Nobody else sees the fields.

mod calling;
mod committing;
mod ending;

use claret_types::{Bytes, Operation};

use super::blocked::Blocked;
use super::calls::Calls;
use super::closing::Closings;
use super::out::Out;
use super::outstanding::Outstanding;
use super::participants::{Participant, Participants};
use super::retries::Retries;
use super::round::Round;
use super::ways::{Again, Ways};
use super::{Event, Waits};
use crate::asked::Asked;
use crate::coordinator::ways::in_turn::Turns;
use crate::coordinator::ways::ordered::Stamp;
use crate::digest::digest;
use crate::ids::{AttemptId, Birth, CallNo, Incarnation, Member, ShardId, Time, Timestamp};
use crate::limits::Limits;
use crate::message::{KeyedCall, Request};
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;

/// Calls that may sleep for long are sent again so much more rarely.
const ASLEEP_RESENDS: u64 = 16;

/// Where an attempt is.
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
    switches: Switches,
    limits: Limits,
    birth: Birth,
    /// The number of the attempt. Rises with each.
    number: u32,
    state: State,
    participants: Participants,
    calls: Calls,
    round: Round,
    turns: Turns,
    ways: Ways,
    stamp: Stamp,
    blocked: Blocked,
    retries: Retries,
    closing: Closings,
    out: Out,
}

impl Coordinator {
    /// A transaction that begins its first attempt. `seed` is any number, for the jitter of pauses.
    pub fn new(birth: Birth, switches: Switches, limits: Limits, seed: u64) -> Self {
        Coordinator {
            switches,
            limits,
            birth,
            number: 1,
            state: State::Running,
            participants: Participants::default(),
            calls: Calls::default(),
            round: Round::default(),
            turns: Turns::default(),
            ways: Ways::default(),
            stamp: Stamp::default(),
            blocked: Blocked::default(),
            retries: Retries::new(seed),
            closing: Closings::default(),
            out: Out::default(),
        }
    }

    // --- getters ---

    /// The attempt that runs, or ran last.
    pub fn attempt(&self) -> AttemptId {
        AttemptId { tx: self.birth.tx, attempt: self.number }
    }

    /// What can be asked about the attempt, once its prepare has left (P89).
    pub(crate) fn asked(&self) -> Option<Asked> {
        let participants = self.round.listed()?.clone();
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

    fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { .. })
    }

    /// Whether calls are under way that are not answered yet.
    pub fn awaits_answers(&self) -> bool {
        !self.calls.outstanding().is_empty()
    }

    /// Whether every participant of every attempt knows the end of it: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        self.is_idle() && self.closing.is_empty()
    }

    /// Attempts of which some participant may still hold something: they must be kept alive.
    pub fn live(&self) -> impl Iterator<Item = AttemptId> + '_ {
        let running = (!self.is_idle()).then(|| self.attempt());
        running.into_iter().chain(self.closing.live())
    }

    /// Where calls of this attempt on a record are that are not answered, or wait for the commit. O(such calls).
    pub(crate) fn shard_of(&self, key: &Bytes) -> Option<ShardId> {
        self.calls.shard_of(key)
    }

    /// Whether an operation of another transaction conflicts with what this attempt holds, or waits for, whatever the
    /// state of the record. Such an operation may wait until this attempt is over. Draws are not compared, for whether
    /// they fit depends on the state. O(operations that were executed).
    pub fn conflicts_with(&self, key: &Bytes, op: &Operation) -> bool {
        self.member_conflicts_with(Member(0), key, op)
    }

    /// [`Self::conflicts_with`] for what one member has executed.
    pub(crate) fn member_conflicts_with(&self, member: Member, key: &Bytes, op: &Operation) -> bool {
        // One that is over holds nothing any more.
        !self.is_idle() && self.calls.conflict_with(self.switches.discipline(), member, key, op)
    }

    /// What it waits for; `None`: it does not, as far as it has heard. O(calls that are not answered, or commit).
    pub fn waits(&self) -> Option<Waits> {
        self.waits_of(Member(0))
    }

    /// [`Self::waits`] of a member.
    pub(crate) fn waits_of(&self, member: Member) -> Option<Waits> {
        let since = self.blocked.since()?;
        let is_blocked = |shard: ShardId| {
            self.participants.find(shard).is_some_and(|it| match self.state {
                State::Running => it.has_waiting_call(),
                State::Preparing | State::Withdrawing(_) => it.has_waiting_prepare(),
                State::Committed | State::Idle { .. } => false,
            })
        };
        let mut records = Vec::new();
        let mut note = |shard: ShardId, key: &Bytes| {
            if is_blocked(shard) && !records.iter().any(|(_, known)| known == key) {
                records.push((shard, key.clone()));
            }
        };
        if self.state == State::Running {
            let sent = self.calls.outstanding().iter();
            let sent = sent.filter(|it| !it.stale && !it.is_kept_back && it.is_of(member));
            sent.for_each(|it| note(it.shard, &it.key));
        } else {
            self.calls.buffered().iter().for_each(|(shard, it)| note(*shard, &it.key));
        }
        Some(Waits { attempt: self.attempt(), since, records })
    }

    /// Up to where the safe time has to come before the caller is told (P78). `None`: that is not what it waits for.
    pub fn awaits_safe_time(&self) -> Option<Timestamp> {
        self.stamp.awaited().filter(|until| *until > Timestamp::default())
    }

    // --- what the host learns ---

    /// Names a shard's incarnation as the host learned it with its connection, before anything is sent there, and
    /// again whenever it connects anew: an attempt that relies on an earlier one then restarts instead of committing.
    /// The list then carries it for a shard that is met with the prepare only, so that a refusal that died with
    /// an earlier incarnation cannot be followed by a yes of a later one (trap 3). Not needed where shards live
    /// and die with their coordinators.
    pub fn meet(&mut self, shard: ShardId, incarnation: Incarnation) {
        self.participants.meet(shard, incarnation);
    }

    /// The host connected anew: what has no answer is sent again at once, for it may have been lost with the earlier
    /// connection.
    pub fn send_again(&mut self, now: Time) {
        if self.retries.will_resend() {
            self.resend(now);
        }
    }

    /// The attempt is to have a timestamp, about this one. To be said before the commit; the next attempt has none unless it
    /// is said again.
    pub fn stamp(&mut self, suggested: Timestamp) {
        self.stamp.suggest(suggested);
    }

    /// No vote will be as small as that any more, at any shard.
    pub fn hear_safe_time(&mut self, safe_time: Timestamp) {
        if let Some(refusal) = self.stamp.hear_safe_time(safe_time) {
            self.fail(refusal);
        }
        if self.state == State::Committed {
            self.tell_if_due();
            self.end_if_applied();
        }
    }

    // --- time ---

    /// Sends again what was not answered, tries refused locks again, gives way.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.retries.take_due_backoff(now) {
            self.try_again(now);
        }
        if self.retries.is_resend_due(now) {
            self.resend(now);
        }
        self.consider_giving_way(now);
    }

    // --- outputs ---

    /// The next request to send.
    pub fn poll_send(&mut self) -> Option<(ShardId, Request)> {
        self.out.poll_send()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.poll_event()
    }

    /// Whether there is something to send or to tell, or the safe time is waited for.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.stamp.awaited().is_some()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let gives_way = self.blocked.poll_timeout(self.limits.give_way_us).filter(|_| self.may_give_way());
        self.retries.poll_timeout().into_iter().chain(gives_way).min()
    }
}

/// Waiting, and what is sent again.
impl Coordinator {
    fn on_queued(&mut self, now: Time, from: ShardId, no: Option<CallNo>) {
        if !self.switches.is_phased() && self.limits.lock_tries_max == 0 {
            return self.on_busy(now, from); // The shard has phases (P68).
        }
        let is_preparing = self.state == State::Preparing;
        if is_preparing && !self.may_wait_in_prepare(from, no) {
            return; // It is late, of a call that has its answer.
        }
        let participant = self.participants.of(from);
        participant.wait(self.calls.next());
        if is_preparing {
            participant.queue();
        }
        self.blocked.begin(now);
        self.consider_giving_way(now);
    }

    /// Whether the prepare at a shard may wait there, and for this call, if one is named. O(calls that wait for the commit).
    fn may_wait_in_prepare(&self, at: ShardId, no: Option<CallNo>) -> bool {
        let is_open = self.participants.find(at).is_some_and(|it| it.is_asked() && !it.has_voted());
        is_open && no.is_none_or(|no| self.calls.is_buffered(at, no))
    }

    fn on_busy(&mut self, now: Time, from: ShardId) {
        let participant = self.participants.of(from);
        match self.state {
            State::Running if self.calls.outstanding().iter().any(|it| it.shard == from) => {
                let sent = self.calls.outstanding_mut().iter_mut();
                sent.filter(|it| it.shard == from).for_each(|it| it.is_busy = true);
            }
            State::Preparing if !participant.has_voted() => participant.queue(),
            State::Running | State::Preparing | State::Withdrawing(_) => return, // A late double.
            State::Committed | State::Idle { .. } => return,
        }
        if !self.retries.back_off(now, &self.limits) {
            self.end_attempt(now, Goal::Busy);
        }
    }

    /// Something came; whether anything is still blocked shows from what is queued.
    fn unblock(&mut self) {
        if self.blocked.since().is_some() && !self.participants.is_any_waiting() {
            self.blocked.end();
        }
    }

    /// Whether it waits for somebody else at a shard, and a vote is missing.
    fn may_give_way(&self) -> bool {
        match self.state {
            State::Running => self.participants.iter().any(Participant::has_waiting_call),
            // A participant waits and has not voted, however many have.
            State::Preparing => {
                let waits = self.participants.iter().any(Participant::has_waiting_prepare);
                let stays =
                    is_planted(Bug::OneVoteStays) && self.participants.iter().any(Participant::has_voted);
                waits && !stays
            }
            State::Withdrawing(_) | State::Committed | State::Idle { .. } => false,
        }
    }

    /// P21: an elder waits for what this attempt holds, this attempt is blocked itself, a vote is missing, and
    /// about a round trip has passed.
    fn consider_giving_way(&mut self, now: Time) {
        if self.blocked.keeps_elder_waiting(now, self.limits.give_way_us) && self.may_give_way() {
            self.end_attempt(now, Goal::GiveWay);
        }
    }

    /// Without phases: asks again for what was busy.
    fn try_again(&mut self, now: Time) {
        match self.state {
            State::Running => {
                let sent = self.calls.outstanding_mut();
                let is_due = |at: &usize| sent.at(*at).is_busy && !sent.at(*at).is_kept_back;
                let busy: Vec<usize> = (0..sent.len()).filter(is_due).collect();
                sent.iter_mut().for_each(|it| it.is_busy = false);
                busy.into_iter().for_each(|at| self.send_execute(now, at));
            }
            State::Preparing => {
                for at in 0..self.participants.len() {
                    if self.participants.at_mut(at).take_queued() {
                        self.send_prepare(at);
                    }
                }
            }
            State::Withdrawing(_) | State::Committed | State::Idle { .. } => {}
        }
    }

    /// Sends again whatever has no answer.
    fn resend(&mut self, now: Time) {
        self.retries.clear_resend();
        match self.state {
            State::Running => {
                let sent = self.calls.outstanding_mut();
                sent.iter_mut().for_each(|it| it.leave_out_answered());
                let has_left = |at: &usize| !sent.at(*at).is_kept_back;
                let sent: Vec<usize> = (0..sent.len()).filter(has_left).collect();
                sent.into_iter().for_each(|at| self.send_execute(now, at));
            }
            State::Preparing => match self.ways.send_again(&self.participants) {
                Again::GivesUp => return self.withdraw(now, Goal::GiveWay),
                again => self.resend_prepares(again),
            },
            State::Withdrawing(_) => self.send_withdraws(),
            State::Committed => self.resend_applies(),
            State::Idle { .. } => {}
        }
        self.closing.send_again(&mut self.out);
        let rests = self.is_idle() || self.state == State::Running && !self.awaits_answers();
        if !rests || !self.closing.is_empty() {
            match self.sleeps() && !self.switches.is_direct() {
                true => self.retries.resend_at(now.plus(ASLEEP_RESENDS * self.limits.resend_us)),
                false => self.expect_answers(now),
            }
        }
    }

    /// Whether all that it waits for are calls that may sleep for long (P91).
    fn sleeps(&self) -> bool {
        let mut sent = self.calls.outstanding().iter();
        let waits = |it: &Outstanding| it.calls.last().is_some_and(|call| call.op.is_waiting());
        self.state == State::Running && self.closing.is_empty() && sent.all(waits)
    }

    /// Something was sent that is to be answered, where it may be lost.
    fn expect_answers(&mut self, now: Time) {
        if !self.switches.is_direct() {
            self.retries.resend_at(now.plus(self.limits.resend_us));
        }
    }
}

/// For others of the process: contention, and several transactions that are members of one attempt.
impl Coordinator {
    /// About which timestamp the attempt is to have.
    pub(super) fn suggested(&self) -> Option<Timestamp> {
        self.stamp.suggested()
    }

    /// Whether the commit asks this shard.
    pub(super) fn will_ask(&self, shard: ShardId) -> bool {
        self.participants.find(shard).is_some() || self.calls.has_buffered_at(shard)
    }

    /// This shard is asked alone, before all others (P50); none is, if there is none.
    pub(super) fn ask_first(&mut self, shard: Option<ShardId>) {
        self.turns.ask_first(shard);
    }

    /// The transaction commits in two rounds: the process knows of a shard that refuses other ways. To be said before the commit.
    pub(super) fn commit_in_rounds(&mut self) {
        self.ways.commit_in_rounds();
    }

    /// Whether the way of the attempt led nowhere.
    pub(super) fn gave_up_its_way(&self) -> bool {
        self.ways.gave_up()
    }

    /// Calls that wait for the commit, in the order in which they are to be locked.
    pub(super) fn buffered_calls(&self) -> &[(ShardId, KeyedCall)] {
        self.calls.buffered()
    }

    /// Brings the calls that wait for the commit into the order of their keys' ranks. Calls on one key keep theirs.
    pub(super) fn order_buffered<R: Ord>(&mut self, rank: impl FnMut(&Bytes) -> R) {
        self.calls.order_buffered(rank);
    }

    /// The record of a call that was sent to a shard and is not answered, if it is among the latest.
    pub(super) fn executed_lately(&self, at: ShardId, no: CallNo, looked_at_max: usize) -> Option<&Bytes> {
        self.calls.sent_lately(at, no, looked_at_max)
    }

    /// Whether a shard that says that somebody waits says so of its prepare, for the first time.
    pub(super) fn is_first_wait_of_prepare(&self, at: ShardId) -> bool {
        self.participants.find(at).is_some_and(|it| it.is_asked() && !it.is_queued())
    }

    /// The calls that wait for the commit, the last first.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn reverse_buffered(&mut self) {
        self.calls.reverse_buffered();
    }

    /// Whether calls of a member are sent and not answered.
    pub(crate) fn awaits_answers_of(&self, member: Member) -> bool {
        self.calls.outstanding().iter().any(|it| it.is_of(member))
    }

    /// Whether a call of another member on this record is sent and not answered. An attempt waits at most once
    /// on one record, so the next call must not follow yet.
    pub fn is_awaited_by_other(&self, member: Member, key: &Bytes) -> bool {
        let sent = self.calls.outstanding();
        sent.of_key(key).into_iter().any(|at| !sent.at(at).is_of(member))
    }

    /// Whether nothing was ever sent in this attempt.
    pub fn is_untouched(&self) -> bool {
        self.participants.is_empty()
    }

    /// Whether it waits for somebody else at a shard, as far as it has heard.
    pub fn is_blocked(&self) -> bool {
        self.may_give_way()
    }

    /// When the eldest began that waits for what this attempt holds.
    pub fn waiting_elder(&self) -> Option<Time> {
        self.blocked.elder()
    }

    // --- for tests ---

    /// The same for coordinators that behave alike (see `crates/core/src/digest.rs`).
    pub fn digest(&self) -> u64 {
        let Coordinator { switches: _, limits: _, birth, number, state, .. } = self;
        let Coordinator {
            participants,
            calls,
            round,
            turns,
            ways,
            stamp,
            blocked,
            retries,
            closing,
            out,
            ..
        } = self;
        let parts = (participants, calls, round, turns, ways, stamp, blocked, retries, closing, out);
        digest(&(birth, number, state, parts))
    }

    /// Checks the state machine. O(all that it has).
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        self.participants.check();
        self.calls.check();
        self.closing.check();
        let prepares = matches!(self.state, State::Preparing | State::Withdrawing(_) | State::Committed);
        assert!(!prepares || !self.awaits_answers(), "a prepare has left before all calls were answered");
        assert!(!prepares || self.round.listed().is_some(), "a prepare has left, and nobody is listed");
        assert!(!self.is_idle() || self.participants.is_empty(), "an attempt that is over has participants");
    }
}
