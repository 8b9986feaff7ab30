//! The frontend: all transactions of one client process, and combining between them (C1 to C16, `claret-2015` s.4.3
//! and s.5.3). The rules, numbered, are in `docs/combining.md`.
//!
//! Sans I/O, like [`Coordinator`], which it drives: one for each transaction that speaks to shards under its own id.
//! A read is sent nowhere if another transaction of this process holds the lock of a read that answers it; the reader
//! becomes a member of the holder's group and commits with it.
//!
//! Invariants ([`Frontend::check_invariants`]): a transaction is a member of one group or of none; no shard knows
//! it under two ids in one attempt; present members commute on every record; held reads are of open groups.
//!
//! Other files have the messages of a group (`mod.rs`), what its members use (`group`), which reads are held
//! (`held_reads`), and the end of a group (`outcome`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use claret_types::{Access, Bytes, Claims, Operation, Reply};
use hashbrown::HashMap;
use indexmap::IndexMap;
use slab::Slab;
use smallvec::SmallVec;

use super::contention::Contention;
use super::group::{Called, Deferred, FrontendStats, Group, Uses};
use super::held_reads::HeldReads;
use super::{Cause, Closed, Coordinator, Event, Session, Unheard, Waits};
use crate::asked::Asked;
use crate::ids::{AttemptId, Birth, CallNo, Incarnation, Member, Sequence, ShardId, Time, Timestamp, TxId};
use crate::limits::Limits;
use crate::message::{Refusal, Request, Response};
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;

/// A transaction of a frontend, over all its attempts. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxHandle(pub u64);

/// What a transaction does on one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Touch {
    ops: SmallVec<[Operation; 1]>,
    wrote: bool,
}

type Log = IndexMap<Bytes, Touch, foldhash::fast::FixedState>;

/// One transaction.
#[derive(Clone, Debug)]
pub(super) struct Tx {
    pub(super) birth: Birth,
    seed: u64,
    /// The group under its own id; `None` when it founded one and left it.
    pub(super) home: Option<usize>,
    /// The group it is a member of; `None` between attempts.
    pub(super) place: Option<(usize, Member)>,
    /// Retries neither join nor are joined: the livelock that way is not worth the messages saved.
    retries: u32,
    next_call: u32,
    /// What this attempt did, while it may combine.
    log: Log,
    /// What the last attempt did, when it was a member of a group.
    pub(super) used: Option<Vec<(Bytes, Operation)>>,
}

impl Tx {
    /// The number of the attempt, as its user knows it. Under another id the shards may know it by another number.
    fn attempt(&self) -> u32 {
        self.retries + 1
    }
}

/// All transactions of one client process, and combining between them: a read that another transaction's held read answers
/// is sent nowhere, and both commit together. It drives a [`Coordinator`] for each that speaks to shards.
#[derive(Clone, Debug)]
pub struct Frontend {
    pub(super) session: Session,
    pub(super) switches: Switches,
    pub(super) limits: Limits,
    pub(super) groups: Slab<Group>,
    pub(super) by_id: HashMap<TxId, usize, foldhash::fast::FixedState>,
    pub(super) txs: HashMap<TxHandle, Tx, foldhash::fast::FixedState>,
    pub(super) reads: HeldReads,
    pub(super) deadlines: BTreeSet<(Time, usize)>,
    /// Groups to be looked at, whether they are needed.
    pub(super) ended: Vec<usize>,
    pub(super) sends: VecDeque<(ShardId, Request)>,
    /// As far as is known (P78).
    horizon: Timestamp,
    pub(super) events: VecDeque<(TxHandle, Event)>,
    /// Incarnations that the host learned with its connections.
    met: BTreeMap<ShardId, Incarnation>,
    contention: Contention,
    next: u64,
    /// What can be asked about those whose outcome nobody knows.
    pub(super) unheard: Unheard,
    pub(super) stats: FrontendStats,
}

impl Frontend {
    /// A frontend without transactions. It numbers them itself, since a transaction may need a second id.
    pub fn new(session: Session, switches: Switches, limits: Limits) -> Self {
        Frontend {
            session,
            switches,
            limits,
            groups: Slab::new(),
            by_id: HashMap::default(),
            txs: HashMap::default(),
            reads: HeldReads::default(),
            deadlines: BTreeSet::new(),
            ended: Vec::new(),
            sends: VecDeque::new(),
            horizon: Timestamp::default(),
            events: VecDeque::new(),
            met: BTreeMap::new(),
            contention: Contention::new(switches, limits),
            next: 0,
            unheard: Unheard::default(),
            stats: FrontendStats::default(),
        }
    }
}

/// Getters.
impl Frontend {
    /// Counts.
    pub fn stats(&self) -> FrontendStats {
        self.stats
    }

    /// Under which attempt a transaction speaks to the shards now, its own or its group's founder's: what to
    /// ask about when its end is unknown. `None` between attempts and afterwards.
    pub fn attempt(&self, tx: TxHandle) -> Option<AttemptId> {
        let (group, _) = self.txs.get(&tx)?.place?;
        Some(self.groups[group].coordinator.attempt())
    }

    /// What can be asked about a transaction that is committing, or whose user heard that nobody knows its outcome (P89).
    pub(crate) fn asked(&mut self, now: Time, tx: TxHandle) -> Option<Asked> {
        let place = self.txs.get(&tx).and_then(|it| it.place);
        let asked = place.and_then(|(group, _)| self.groups[group].coordinator.asked());
        let asked = asked.or_else(|| self.unheard.take(tx))?;
        self.session.keep(asked.attempt.tx, now, self.limits.outcome_us);
        Some(asked)
    }

    /// Whether calls of a transaction are under way that are not answered yet: it must not commit before.
    pub fn awaits_answers(&self, tx: TxHandle) -> bool {
        let Some((at, member)) = self.txs.get(&tx).and_then(|it| it.place) else { return false };
        let group = &self.groups[at];
        group.coordinator.awaits_answers_of(member) || group.deferred.iter().any(|deferred| deferred.tx == tx)
    }

    /// Where calls of a transaction, or of its mates, on a record are that are not answered, or wait for the commit.
    pub(crate) fn shard_of(&self, tx: TxHandle, key: &Bytes) -> Option<ShardId> {
        let (at, _) = self.txs.get(&tx)?.place?;
        let group = &self.groups[at];
        let deferred = group.deferred.iter().find(|call| call.key == *key).map(|call| call.shard);
        deferred.or_else(|| group.coordinator.shard_of(key))
    }

    /// [`Coordinator::conflicts_with`] for what a transaction has executed itself, not its mates.
    pub(crate) fn conflicts_with(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        let place = self.txs.get(&tx).and_then(|it| it.place);
        place.is_some_and(|(at, member)| self.groups[at].coordinator.member_conflicts_with(member, key, op))
    }

    /// What itself waits for, or the commit of its group: see [`Coordinator::waits`].
    pub(crate) fn waits(&self, tx: TxHandle) -> Option<Waits> {
        let (at, member) = self.txs.get(&tx)?.place?;
        self.groups[at].coordinator.waits_of(member)
    }

    /// The transactions whose users do not know the end, in the order of their handles.
    #[expect(clippy::disallowed_methods, reason = "they are sorted")]
    pub(crate) fn handles(&self) -> Vec<TxHandle> {
        let mut handles: Vec<TxHandle> = self.txs.keys().copied().collect();
        handles.sort_unstable();
        handles
    }

    /// Attempts of which some participant may still hold something: they must be kept alive.
    pub fn live(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.groups.iter().flat_map(|(_, group)| group.coordinator.live())
    }

    /// No earlier transaction of the session is open.
    pub fn low_water(&self) -> Sequence {
        self.session.low_water()
    }

    /// Whether every participant of every attempt knows the end of it, and every transaction has ended.
    pub fn is_over(&self) -> bool {
        self.txs.is_empty() && self.groups.is_empty()
    }

    /// Names a shard's incarnation as the host learned it with its connection: see [`Coordinator::meet`].
    pub fn meet(&mut self, shard: ShardId, incarnation: Incarnation) {
        self.met.insert(shard, incarnation);
        self.groups.iter_mut().for_each(|(_, group)| group.coordinator.meet(shard, incarnation));
    }

    /// The host connected anew: see [`Coordinator::send_again`].
    pub fn send_again(&mut self, now: Time) {
        let all: Vec<usize> = self.groups.iter().map(|(at, _)| at).collect();
        for at in all {
            self.groups[at].coordinator.send_again(now);
            self.settle(now, at);
        }
    }
}

/// The application's calls.
impl Frontend {
    /// Begins a transaction. `seed` is any number, for the jitter of pauses.
    pub fn begin(&mut self, now: Time, seed: u64) -> TxHandle {
        let birth = self.session.begin(now);
        let tx = TxHandle(self.next);
        self.next += 1;
        let home = Some(self.found(birth, seed, tx));
        let place = home.map(|home| (home, Member(0)));
        let fresh =
            Tx { birth, seed, home, place, retries: 0, next_call: 0, log: Log::default(), used: None };
        self.txs.insert(tx, fresh);
        tx
    }

    /// An operation whose answer is wanted now: shared if somebody's held read answers it, else sent. See
    /// [`Coordinator::execute`].
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), wants to commit already, or ends by this very call, as the
    /// transaction conflicts with its mates: an event tells of that.
    pub fn execute(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        shard: ShardId,
        key: Bytes,
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        let (group, _) = self.running(tx, attempt)?;
        let no = self.number_call(tx)?;
        let shareable = reserve.is_none() && self.may_share(tx, &key, &op);
        if shareable && let Some(reply) = self.share(tx, &key, &op) {
            self.note(tx, &key, &op);
            self.events.push_back((tx, Event::Answer { no, reply }));
            return Ok(no);
        }
        if !self.admit_or_part(now, tx, &key, &op) {
            return Err(Closed);
        }
        let deferred = Deferred { tx, no, shard, key, op, reserve, shareable };
        self.send_or_defer(now, group, deferred);
        self.settle(now, group);
        Ok(no)
    }

    /// Keeps an operation until the commit, or until its record is executed on.
    ///
    /// # Errors
    /// As of [`Self::execute`].
    pub fn buffer(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        shard: ShardId,
        key: Bytes,
        op: Operation,
    ) -> Result<CallNo, Closed> {
        let (at, member) = self.running(tx, attempt)?;
        let no = self.number_call(tx)?;
        if !self.admit_or_part(now, tx, &key, &op) {
            return Err(Closed);
        }
        let group = &mut self.groups[at];
        group.coordinator.buffer_for(member, shard, key, op)?;
        group.calls.push(Called { member, no, read: None });
        Ok(no)
    }

    /// The transaction wants to commit. All its calls are answered. In a group, the prepare leaves once everybody
    /// wants to.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or calls of it are not answered: then it is aborted.
    pub fn commit(&mut self, now: Time, (tx, attempt): (TxHandle, u32)) -> Result<(), Closed> {
        let (at, member) = self.running(tx, attempt)?;
        if self.awaits_answers(tx) {
            self.abort(now, tx);
            return Err(Closed);
        }
        let group = &mut self.groups[at];
        group.ready.push(member);
        group.ready_since.get_or_insert(now);
        self.prepare_if_ready(now, at);
        self.settle(now, at);
        Ok(())
    }

    /// As [`Self::commit`], of calls that are executed and not carried out: see [`Coordinator::check`].
    ///
    /// # Errors
    /// As of [`Self::commit`].
    pub fn check(&mut self, now: Time, (tx, attempt): (TxHandle, u32)) -> Result<(), Closed> {
        let (at, member) = self.running(tx, attempt)?;
        self.groups[at].checking.push(member);
        self.commit(now, (tx, attempt))
    }

    /// The attempt's user has found that it cannot commit, and may run it again: [`Event::Restart`] follows.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    pub fn renounce(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        refusal: Refusal,
    ) -> Result<(), Closed> {
        let (at, _) = self.running(tx, attempt)?;
        if self.groups[at].present.len() > 1 {
            self.part_to_restart(tx);
            self.prepare_if_ready(now, at);
        } else {
            let coordinator = &mut self.groups[at].coordinator;
            coordinator.renounce(now, coordinator.attempt(), refusal)?;
        }
        self.settle(now, at);
        Ok(())
    }

    /// Ends the transaction without a trace, if that is still possible: [`Event::Aborted`] or
    /// [`Event::Committed`] follows. Its group goes on without it; once the group's prepare left, it is
    /// withdrawn only if all members ask for it.
    pub fn abort(&mut self, now: Time, tx: TxHandle) {
        let Some(it) = self.txs.get(&tx) else { return };
        let Some((at, member)) = it.place else {
            self.events.push_back((tx, Event::Aborted));
            self.end(tx);
            return self.bury_ended();
        };
        let group = &mut self.groups[at];
        if group.coordinator.is_running() && group.present.len() > 1 {
            self.part(tx);
            self.events.push_back((tx, Event::Aborted));
            self.end(tx);
            self.prepare_if_ready(now, at);
        } else {
            if !group.regretting.contains(&member) {
                group.regretting.push(member);
            }
            if group.regretting.len() == group.present.len() {
                group.coordinator.abort(now);
            }
        }
        self.settle(now, at);
    }

    /// Begins the next attempt, after [`Event::Restart`] of this one, and gives its number. It keeps the time of the
    /// birth, and the id as well unless a group that the transaction founded goes on under it.
    ///
    /// # Errors
    /// [`Closed`] when the transaction's user was not told so of that attempt, or it runs again already.
    pub fn restart(&mut self, now: Time, (tx, ended): (TxHandle, u32)) -> Result<u32, Closed> {
        let it = self.txs.get_mut(&tx).ok_or(Closed)?;
        if it.place.is_some() || it.attempt() != ended {
            return Err(Closed);
        }
        it.retries += 1;
        it.next_call = 0;
        it.log.clear();
        let used = it.used.take();
        let (seed, mut birth) = (it.seed, it.birth);
        let home = match it.home {
            Some(home) => home,
            None => {
                birth.tx = self.session.begin(now).tx;
                let home = self.found(birth, seed, tx);
                self.groups[home].coordinator.park();
                home
            }
        };
        let group = &mut self.groups[home];
        match used {
            Some(used) => group.coordinator.restart_after(&used)?,
            None => group.coordinator.restart(group.coordinator.attempt())?,
        }
        self.met.iter().for_each(|(shard, incarnation)| group.coordinator.meet(*shard, *incarnation));
        group.found(tx);
        let it = self.txs.get_mut(&tx).expect("just seen");
        (it.birth, it.home, it.place) = (birth, Some(home), Some((home, Member(0))));
        let attempt = it.attempt();
        self.settle(now, home);
        Ok(attempt)
    }
}

/// The shards' responses.
impl Frontend {
    /// Takes one response.
    pub fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        let Some(attempt) = response.attempt() else { return };
        let Some(at) = self.by_id.get(&attempt.tx).copied() else { return }; // Long over.
        let group = &self.groups[at];
        if let Response::Elder { attempt, .. } = &response
            && *attempt == group.coordinator.attempt()
            && group.coordinator.is_blocked()
        {
            // Rather than all give way, those who are ready go on without those who block.
            self.cut(now, at);
        }
        self.contention.learn(&self.groups[at].coordinator, from, &response);
        let (coordinator, horizon) = (&mut self.groups[at].coordinator, self.horizon);
        coordinator.handle_response(now, from, response);
        coordinator.hear_horizon(horizon);
        self.settle(now, at);
    }

    /// About which timestamp commits are to have from now on, if any (P73).
    pub fn suggest(&mut self, suggested: Option<Timestamp>) {
        self.contention.suggest(suggested);
    }

    /// How far a vote was lifted above what was suggested, if one came since the last time, in microseconds.
    pub(crate) fn take_lifted(&mut self) -> Option<u64> {
        self.contention.take_lifted()
    }

    /// The largest timestamp that some caller waits for (P79).
    pub fn want(&self) -> Option<Timestamp> {
        let waiting = self.groups.iter().filter_map(|(_, group)| group.coordinator.awaits_horizon());
        waiting.max()
    }

    /// No vote will be as small as that any more, at any shard (P78). O(groups).
    pub fn hear_horizon(&mut self, now: Time, horizon: Timestamp) {
        self.horizon = self.horizon.max(horizon);
        let waits = |at: &usize| self.groups[*at].coordinator.awaits_horizon().is_some();
        let waiting: SmallVec<[usize; 8]> = self.groups.iter().map(|(at, _)| at).filter(waits).collect();
        for at in waiting {
            self.groups[at].coordinator.hear_horizon(horizon);
            self.settle(now, at);
        }
    }

    /// Ends what is due: waits for mates, for answers, for elders.
    pub fn handle_timeout(&mut self, now: Time) {
        self.session.release(now);
        let due: SmallVec<[usize; 8]> =
            self.deadlines.range(..=(now, usize::MAX)).map(|(_, group)| *group).collect();
        for at in due {
            let Some(group) = self.groups.get(at) else { continue };
            let impatient = group.patience_ends(&self.limits).is_some_and(|end| end <= now);
            let coordinator = &group.coordinator;
            if impatient || coordinator.is_blocked() && coordinator.waiting_elder().is_some() {
                self.cut(now, at);
            }
            self.groups[at].coordinator.handle_timeout(now);
            self.settle(now, at);
        }
    }
}

/// Outputs.
impl Frontend {
    /// The next request to send.
    pub fn poll_send(&mut self) -> Option<(ShardId, Request)> {
        self.sends.pop_front()
    }

    /// The next event, and whose. After [`Event::Committed`], [`Event::Aborted`], [`Event::Failed`] and
    /// [`Event::Unknown`] the handle
    /// is over.
    pub fn poll_event(&mut self) -> Option<(TxHandle, Event)> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|(due, _)| *due)
    }
}

/// Sharing.
impl Frontend {
    /// Whether a call of this transaction may be answered by another's read: it returns something and only
    /// reads, and the transaction has no writes of its own on the record (trap 13).
    fn may_share(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        let it = &self.txs[&tx];
        self.combines(it)
            && op.returns()
            && op.method().access == Access::Read
            && (!it.log.get(key).is_some_and(|touch| touch.wrote) || is_planted(Bug::OwnWriterShares))
    }

    /// Whether a transaction may combine in this attempt.
    pub(super) fn combines_yet(&self, tx: TxHandle) -> bool {
        self.txs.get(&tx).is_some_and(|it| self.combines(it))
    }

    pub(super) fn combines(&self, it: &Tx) -> bool {
        self.switches.combining && it.retries == 0
    }

    /// Answers a read from one that is held, by the transaction's own group or by one that it then joins.
    fn share(&mut self, tx: TxHandle, key: &Bytes, op: &Operation) -> Option<Reply> {
        let answers = self.reads.answers(key, op, self.limits.combine_misses_max);
        for (at, reply) in answers {
            let (home, member) = self.txs[&tx].place.expect("running");
            let uses = self.groups[at].uses.as_ref();
            let fits = match at == home {
                true => uses.is_none_or(|uses| uses.admit(Some(member), key, op)),
                false => self.may_join(tx, at, key, op),
            };
            if !fits {
                continue;
            }
            if at != home {
                self.join(tx, at);
            }
            self.stats.combined += 1;
            return Some(reply);
        }
        None
    }

    /// Whether a transaction that holds nothing anywhere may become a member of an open group.
    fn may_join(&mut self, tx: TxHandle, at: usize, key: &Bytes, op: &Operation) -> bool {
        let it = &self.txs[&tx];
        let (own, member) = it.place.expect("running");
        let alone = it.home == Some(own)
            && member == Member(0)
            && !self.groups[own].is_combined()
            && self.groups[own].coordinator.is_untouched();
        let group = &self.groups[at];
        // Joiners must not prolong a phase for ever while an elder waits for its end (C6).
        let overtakes = group.coordinator.waiting_elder().is_some_and(|elder| elder <= it.birth.time);
        if !alone || overtakes || group.joined >= self.limits.group_members_max {
            return false;
        }
        self.note_uses(at);
        let uses = self.groups[at].uses.as_ref().expect("just noted");
        let ops = it_ops(&self.txs[&tx].log);
        uses.admit(None, key, op) && ops.into_iter().all(|(key, op)| uses.admit(None, key, op))
    }

    /// From now on the group's uses are kept: the founder's, and then everybody's.
    fn note_uses(&mut self, at: usize) {
        let group = &mut self.groups[at];
        if group.uses.is_some() {
            return;
        }
        let mut uses = Uses::new(self.switches.locks);
        for (member, tx) in &group.present {
            for (key, op) in it_ops(&self.txs[tx].log) {
                uses.add(*member, key, op);
            }
        }
        group.uses = Some(uses);
    }

    /// Moves a transaction, with what it has buffered, into another group.
    fn join(&mut self, tx: TxHandle, at: usize) {
        let it = self.txs.get_mut(&tx).expect("running");
        let (home, _) = it.place.expect("running");
        let parked = &mut self.groups[home];
        let attempt = parked.coordinator.attempt();
        let calls = parked.coordinator.take_buffered(attempt).expect("nothing was sent");
        parked.coordinator.park();
        let numbers: Vec<CallNo> =
            calls.iter().map(|(_, keyed)| parked.calls[keyed.call.no.0 as usize].no).collect();
        parked.dissolve();
        let group = &mut self.groups[at];
        let member = group.admit(tx);
        let moved = if is_planted(Bug::JoinerLosesBuffered) { Vec::new() } else { calls };
        for ((shard, keyed), no) in moved.into_iter().zip(numbers) {
            if group.coordinator.buffer_for(member, shard, keyed.key, keyed.call.op).is_ok() {
                group.calls.push(Called { member, no, read: None });
            }
        }
        let uses = group.uses.as_mut().expect("noted before anybody joins");
        it_ops(&it.log).into_iter().for_each(|(key, op)| uses.add(member, key, op));
        it.place = Some((at, member));
        self.stats.joined += 1;
    }
}

/// Conflicts.
impl Frontend {
    /// Notes what a transaction does. If it conflicts with its mates it is taken out and restarted.
    fn admit_or_part(&mut self, now: Time, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        let (at, member) = self.txs[&tx].place.expect("running");
        let uses = self.groups[at].uses.as_ref();
        let fits = uses.is_none_or(|uses| uses.admit(Some(member), key, op));
        self.note(tx, key, op);
        if !fits {
            self.part_to_restart(tx);
            self.prepare_if_ready(now, at);
            self.settle(now, at);
        }
        fits
    }

    fn note(&mut self, tx: TxHandle, key: &Bytes, op: &Operation) {
        if !self.combines(&self.txs[&tx]) {
            return;
        }
        let it = self.txs.get_mut(&tx).expect("running");
        let touch = it.log.entry(key.clone()).or_default();
        touch.wrote |= op.method().access == Access::Write;
        touch.ops.push(op.clone());
        if let Some((at, member)) = it.place
            && let Some(uses) = &mut self.groups[at].uses
        {
            uses.add(member, key, op);
        }
    }

    /// Takes a member out of a group in which others stay.
    fn part(&mut self, tx: TxHandle) {
        let it = self.txs.get_mut(&tx).expect("a member");
        let (at, member) = it.place.take().expect("a member");
        let group = &mut self.groups[at];
        group.part(member);
        // The founder leaves its id behind: the others go on under it (C14).
        if it.home == Some(at) && !is_planted(Bug::FounderKeepsId) {
            it.home = None;
            group.owner = None;
        }
    }

    fn part_to_restart(&mut self, tx: TxHandle) {
        self.part(tx);
        self.keep_used(tx);
        self.stats.parted += 1;
        self.events.push_back((tx, Event::Restart { cause: Cause::Parted }));
    }

    /// Keeps what the attempt did, for the restart to take at first touch (trap 12).
    pub(super) fn keep_used(&mut self, tx: TxHandle) {
        let it = self.txs.get_mut(&tx).expect("it restarts");
        let log = std::mem::take(&mut it.log).into_iter();
        let used = log.flat_map(|(key, touch)| touch.ops.into_iter().map(move |op| (key.clone(), op)));
        it.used = Some(used.collect());
    }

    /// Takes out whoever is not ready, if somebody is and the prepare has not left.
    fn cut(&mut self, now: Time, at: usize) {
        let group = &self.groups[at];
        if group.ready.is_empty() || !group.coordinator.is_running() {
            return;
        }
        let slow: SmallVec<[TxHandle; 4]> = group
            .present
            .iter()
            .filter(|(member, _)| !group.ready.contains(member))
            .map(|(_, tx)| *tx)
            .collect();
        slow.into_iter().for_each(|tx| self.part_to_restart(tx));
        self.prepare_if_ready(now, at);
    }
}

/// Sending.
impl Frontend {
    /// Sends a call that was admitted, unless another member's call on the record is unanswered.
    pub(super) fn send_or_defer(&mut self, now: Time, at: usize, call: Deferred) {
        let (_, member) = self.txs[&call.tx].place.expect("a member");
        let group = &mut self.groups[at];
        if group.coordinator.is_awaited_by_other(member, &call.key) {
            group.deferred.push(call);
            return;
        }
        let read = call.shareable.then(|| (call.key.clone(), call.op.clone()));
        let coordinator = &mut group.coordinator;
        let sent = coordinator.execute_for(now, member, call.shard, call.key, call.op, call.reserve);
        // A group whose attempt is over is about to tell its members so.
        if sent.is_ok() {
            group.calls.push(Called { member, no: call.no, read });
        }
    }

    /// Closes the group and sends its prepare, once all members want to commit (trap 14).
    fn prepare_if_ready(&mut self, now: Time, at: usize) {
        if !self.groups[at].is_ready() {
            return;
        }
        // Nobody joins it from now on, and its reads are shared no more (C5).
        if !is_planted(Bug::GroupStaysOpen) {
            self.close(at);
        }
        let group = &mut self.groups[at];
        let members = group.members();
        let hot = self.contention.arrange(&mut group.coordinator);
        // Where it is not taken the attempt is over, and its members hear so.
        let _ = group.coordinator.commit_for(now, members, &hot);
    }
}

/// Small things.
impl Frontend {
    /// A new id, and the group under it.
    fn found(&mut self, birth: Birth, seed: u64, owner: TxHandle) -> usize {
        let mut coordinator = Coordinator::new(birth, self.switches, self.limits, seed);
        self.met.iter().for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
        let at = self.groups.insert(Group::new(coordinator, owner));
        self.by_id.insert(birth.tx, at);
        at
    }

    fn number_call(&mut self, tx: TxHandle) -> Result<CallNo, Closed> {
        let it = self.txs.get_mut(&tx).ok_or(Closed)?;
        let no = CallNo(it.next_call);
        it.next_call += 1;
        Ok(no)
    }

    /// Where the named attempt may still do something (P61).
    pub(super) fn running(&self, tx: TxHandle, attempt: u32) -> Result<(usize, Member), Closed> {
        let it = self.txs.get(&tx).ok_or(Closed)?;
        let is_meant = attempt == it.attempt() || is_planted(Bug::EarlierTakenForThis);
        let (at, member) = it.place.filter(|_| is_meant).ok_or(Closed)?;
        let group = &self.groups[at];
        let is_open = group.coordinator.is_running() && !group.ready.contains(&member);
        if is_open { Ok((at, member)) } else { Err(Closed) }
    }

    /// Checks the state machine. Called after every simulated step.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check_invariants(&self) {
        for (at, group) in &self.groups {
            group.coordinator.check_invariants();
            for (member, tx) in &group.present {
                assert_eq!(self.txs[tx].place, Some((at, *member)), "{tx:?} is elsewhere");
            }
            assert!(group.ready.iter().all(|member| group.tx_of(*member).is_some()));
            assert!(group.coordinator.is_running() || group.read_keys.is_empty(), "a closed group shares");
            if let Some(uses) = &group.uses {
                uses.check_invariants();
            }
        }
        let open = self.groups.iter().any(|(_, group)| !group.read_keys.is_empty());
        assert!(open || self.reads.is_empty(), "a held read without a group");
    }
}

fn it_ops(log: &Log) -> Vec<(&Bytes, &Operation)> {
    log.iter().flat_map(|(key, touch)| touch.ops.iter().map(move |op| (key, op))).collect()
}
