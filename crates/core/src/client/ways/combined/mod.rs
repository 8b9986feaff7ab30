//! Combining (C1 to C16, `claret-2015` s.4.3 and s.5.3): transactions of one client process share locks and answers. The rules,
//! numbered, are in `docs/combining.md`.
//!
//! A read is sent nowhere if another transaction of this process holds the lock of a read that answers it; the reader becomes a member
//! of the holder's group and commits with it. A group has a [`Coordinator`](crate::Coordinator), which speaks to shards under the id
//! of its leader.
//!
//! Invariants: a transaction is a member of one group or of none; no shard knows it under two ids in one attempt; present members
//! commute on every record; held reads are of open groups.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the calls of the application, what comes from outside, and joining, parting, sending |
//! | `group` | a group, and what its members use |
//! | `groups` | all of them, by id and by when they are due |
//! | `held_reads` | which reads are held |
//! | `outcome` | the end of a group, and who hears of it |

mod group;
mod groups;
mod held_reads;
mod outcome;

use std::collections::VecDeque;

use claret_types::{Access, Bytes, Operation, Reply};
use hashbrown::HashMap;
use indexmap::IndexMap;
use smallvec::SmallVec;

use crate::client::Outputs;
use crate::client::keeper::{Act, Keeper, Kept, Speaker, When};
use crate::client::process::Process;
use crate::coordinator::{Cause, Closed, Event};
use crate::ids::{Birth, CallNo, Incarnation, Member, ShardId, Time, TxHandle};
use crate::message::{Refusal, Request, Response};
use crate::planted::{Bug, is_planted};
use crate::ways::ProcessWay;
use crate::ways::combined::Stats;

use group::{Called, Deferred, Uses};
use groups::Groups;
use held_reads::HeldReads;

/// What a transaction does on one record.
#[derive(Clone, Debug, Default)]
struct Touch {
    ops: SmallVec<[Operation; 1]>,
    wrote: bool,
}

type Log = IndexMap<Bytes, Touch, foldhash::fast::FixedState>;

/// One transaction.
#[derive(Clone, Debug)]
struct Tx {
    birth: Birth,
    seed: u64,
    /// The group under its own id; `None` when it founded one and left it.
    home: Option<usize>,
    /// The group it is a member of; `None` between attempts.
    place: Option<(usize, Member)>,
    /// Retries neither join nor are joined: the livelock that way is not worth the messages saved.
    retries: u32,
    next_call: u32,
    /// What this attempt did, while it may combine.
    log: Log,
    /// What the last attempt did, when it was a member of a group.
    used: Option<Vec<(Bytes, Operation)>>,
}

impl Tx {
    /// The number of the attempt, as its user knows it. Under another id the shards may know it by another number.
    fn attempt(&self) -> u32 {
        self.retries + 1
    }

    /// Whether it may combine in this attempt.
    fn combines(&self) -> bool {
        self.retries == 0
    }
}

/// See the module's text. Each transaction has a group of its own, in which it mostly stays alone.
#[derive(Clone, Debug, Default)]
pub(in crate::client) struct Combined {
    groups: Groups,
    txs: HashMap<TxHandle, Tx, foldhash::fast::FixedState>,
    next: u64,
    reads: HeldReads,
    /// Groups to be looked at, whether they are needed.
    ended: Vec<usize>,
    sends: VecDeque<(ShardId, Request)>,
    events: VecDeque<(TxHandle, Event)>,
    stats: Stats,
}

impl Combined {
    /// Where transactions of the process combine.
    pub(in crate::client) fn new(process: &Process) -> Option<Self> {
        (process.switches().process_way() == Some(ProcessWay::Combined)).then(Combined::default)
    }
}

impl crate::Client {
    /// What combining came to, where it is switched on.
    pub fn combining(&self) -> Option<Stats> {
        self.transactions.ways().combined.as_ref().map(|it| it.stats)
    }
}

impl Keeper for Combined {
    fn begin(&mut self, process: &mut Process, now: Time, seed: u64) -> TxHandle {
        let birth = process.begin(now);
        let tx = TxHandle(self.next);
        self.next += 1;
        let home = Some(self.groups.found(process, birth, seed, tx));
        let place = home.map(|home| (home, Member(0)));
        let fresh =
            Tx { birth, seed, home, place, retries: 0, next_call: 0, log: Log::default(), used: None };
        self.txs.insert(tx, fresh);
        tx
    }

    fn call(
        &mut self,
        process: &mut Process,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        place: (ShardId, Bytes),
        op: Operation,
        when: When,
    ) -> Result<CallNo, Closed> {
        let (group, member) = self.running(tx, attempt)?;
        let no = self.number_call(tx)?;
        let (shard, key) = place;
        match when {
            // Shared if somebody's held read answers it, else sent.
            When::Now(reserve) => {
                let shareable = reserve.is_none() && self.may_share(tx, &key, &op);
                if shareable && let Some(reply) = self.share(process, tx, &key, &op) {
                    self.note(tx, &key, &op);
                    self.events.push_back((tx, Event::Answer { no, reply }));
                    return Ok(no);
                }
                if !self.admit_or_part(process, now, tx, &key, &op) {
                    return Err(Closed);
                }
                let deferred = Deferred { tx, no, shard, key, op, reserve, shareable };
                self.send_or_defer(now, group, deferred);
                self.settle(process, now, group);
            }
            When::AtCommit => {
                if !self.admit_or_part(process, now, tx, &key, &op) {
                    return Err(Closed);
                }
                let group = &mut self.groups[group];
                group.coordinator.buffer_for(member, shard, key, op)?;
                group.calls.push(Called { member, no, read: None });
            }
        }
        Ok(no)
    }

    /// Calls of a member are not numbered one after the other, and its mates may use what it has read, so whoever undoes anything is a
    /// member of no group: the first attempt is restarted, and later ones never combine (N9 of `docs/nesting.md`).
    fn alone(
        &mut self,
        process: &mut Process,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        must: bool,
        act: Act<'_>,
    ) -> Result<(), Closed> {
        let (at, _) = self.running(tx, attempt)?;
        if self.txs[&tx].combines() {
            if !must {
                return Ok(());
            }
            self.renounce(process, now, (tx, attempt), Refusal::Withdrawn)?;
            return Err(Closed);
        }
        let coordinator = &mut self.groups[at].coordinator;
        act(coordinator, coordinator.attempt())?;
        self.settle(process, now, at);
        Ok(())
    }

    /// The transaction wants to commit. All its calls are answered. In a group, the prepare leaves once everybody
    /// wants to.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or calls of it are not answered: then it is aborted.
    fn commit(
        &mut self,
        process: &mut Process,
        now: Time,
        (tx, attempt): (TxHandle, u32),
    ) -> Result<(), Closed> {
        let (at, member) = self.running(tx, attempt)?;
        if self
            .speaker(tx, None)
            .is_some_and(|it| it.kept_back.is_some() || it.own().awaits_answers_of(member))
        {
            self.abort(process, now, tx);
            return Err(Closed);
        }
        let group = &mut self.groups[at];
        group.ready.push(member);
        group.ready_since.get_or_insert(now);
        self.prepare_if_ready(process, now, at);
        self.settle(process, now, at);
        Ok(())
    }

    fn check(&mut self, process: &mut Process, now: Time, named: (TxHandle, u32)) -> Result<(), Closed> {
        let (at, member) = self.running(named.0, named.1)?;
        self.groups[at].checking.push(member);
        self.commit(process, now, named)
    }

    /// The attempt's user has found that it cannot commit, and may run it again: [`Event::Restart`] follows.
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more).
    fn renounce(
        &mut self,
        process: &mut Process,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        refusal: Refusal,
    ) -> Result<(), Closed> {
        let (at, _) = self.running(tx, attempt)?;
        if self.groups[at].present.len() > 1 {
            self.part_to_restart(tx);
            self.prepare_if_ready(process, now, at);
        } else {
            let coordinator = &mut self.groups[at].coordinator;
            coordinator.renounce(now, coordinator.attempt(), refusal)?;
        }
        self.settle(process, now, at);
        Ok(())
    }

    /// Begins the next attempt, after [`Event::Restart`] of this one. It keeps the time of the
    /// birth, and the id as well unless a group that the transaction founded goes on under it.
    ///
    /// # Errors
    /// [`Closed`] when the transaction's user was not told so of that attempt, or it runs again already.
    fn restart(
        &mut self,
        process: &mut Process,
        now: Time,
        (tx, ended): (TxHandle, u32),
    ) -> Result<(), Closed> {
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
                birth.tx = process.begin(now).tx;
                let home = self.groups.found(process, birth, seed, tx);
                self.groups[home].coordinator.park();
                home
            }
        };
        let group = &mut self.groups[home];
        match used {
            Some(used) => group.coordinator.restart_after(&used)?,
            None => group.coordinator.restart(group.coordinator.attempt())?,
        }
        process.met().iter().for_each(|(shard, incarnation)| group.coordinator.meet(*shard, *incarnation));
        group.found(tx);
        let it = self.txs.get_mut(&tx).expect("just seen");
        (it.birth, it.home, it.place) = (birth, Some(home), Some((home, Member(0))));
        self.settle(process, now, home);
        Ok(())
    }

    /// Ends the transaction without a trace, if that is still possible: [`Event::Aborted`] or
    /// [`Event::Committed`] follows. Its group goes on without it; once the group's prepare left, it is
    /// withdrawn only if all members ask for it.
    fn abort(&mut self, process: &mut Process, now: Time, tx: TxHandle) {
        let Some(it) = self.txs.get(&tx) else { return };
        let Some((at, member)) = it.place else {
            self.events.push_back((tx, Event::Aborted));
            self.end(tx);
            return self.bury_ended(process);
        };
        let group = &mut self.groups[at];
        if group.coordinator.is_running() && group.present.len() > 1 {
            self.part(tx);
            self.events.push_back((tx, Event::Aborted));
            self.end(tx);
            self.prepare_if_ready(process, now, at);
        } else {
            if !group.regretting.contains(&member) {
                group.regretting.push(member);
            }
            if group.regretting.len() == group.present.len() {
                group.coordinator.abort(now);
            }
        }
        self.settle(process, now, at);
    }

    /// Takes one response.
    fn handle_response(&mut self, process: &mut Process, now: Time, from: ShardId, response: Response) {
        let Some(attempt) = response.attempt() else { return };
        let Some(at) = self.groups.place_of(attempt.tx) else { return }; // Long over.
        let group = &self.groups[at];
        if let Response::Elder { attempt, .. } = &response
            && *attempt == group.coordinator.attempt()
            && group.coordinator.is_blocked()
        {
            // Rather than all give way, those who are ready go on without those who block.
            self.cut(process, now, at);
        }
        process.contention().learn(&self.groups[at].coordinator, from, &response);
        let coordinator = &mut self.groups[at].coordinator;
        coordinator.handle_response(now, from, response);
        coordinator.hear_safe_time(process.safe_time());
        self.settle(process, now, at);
    }

    fn meet(&mut self, process: &mut Process, now: Time, shard: ShardId, incarnation: Incarnation) {
        self.groups.iter_mut().for_each(|(_, group)| group.coordinator.meet(shard, incarnation));
        for at in self.groups.places(|_| true) {
            self.groups[at].coordinator.send_again(now);
            self.settle(process, now, at);
        }
    }

    fn hear_safe_time(&mut self, process: &mut Process, now: Time) {
        for at in self.groups.places(|group| group.coordinator.awaits_safe_time().is_some()) {
            self.groups[at].coordinator.hear_safe_time(process.safe_time());
            self.settle(process, now, at);
        }
    }

    /// Ends what is due: waits for mates, for answers, for elders.
    fn handle_timeout(&mut self, process: &mut Process, now: Time) {
        for at in self.groups.due(now) {
            let Some(group) = self.groups.get(at) else { continue };
            let impatient = group.patience_ends(process.limits()).is_some_and(|end| end <= now);
            let coordinator = &group.coordinator;
            if impatient || coordinator.is_blocked() && coordinator.waiting_elder().is_some() {
                self.cut(process, now, at);
            }
            self.groups[at].coordinator.handle_timeout(now);
            self.settle(process, now, at);
        }
    }

    fn drain(&mut self, _process: &mut Process, _now: Time, outputs: &mut Outputs) {
        while let Some((to, request)) = self.sends.pop_front() {
            outputs.send(to, request);
        }
        while let Some((tx, event)) = self.events.pop_front() {
            outputs.tell(tx, event);
        }
    }

    /// Under its own id, or that of its group's leader.
    fn speaker(&self, tx: TxHandle, key: Option<&Bytes>) -> Option<Speaker<'_>> {
        let (at, member) = self.txs.get(&tx)?.place?;
        let group = &self.groups[at];
        let is_meant = |call: &&Deferred| key.map_or(call.tx == tx, |key| call.key == *key);
        let kept_back = group.deferred.iter().find(is_meant).map(|call| call.shard);
        Some(Speaker { coordinator: &group.coordinator, member, carried: None, kept_back })
    }

    #[expect(clippy::disallowed_methods, reason = "whoever asks for handles sorts them")]
    fn each(&self, see: &mut dyn FnMut(Kept<'_>)) {
        self.txs.keys().for_each(|tx| see(Kept::Tx(*tx)));
        self.groups.iter().for_each(|(_, group)| see(Kept::Coordinator(&group.coordinator)));
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.groups.poll_timeout()
    }

    fn check_invariants(&self) {
        for (at, group) in self.groups.iter() {
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

/// What users want of attempts.
impl Combined {}

/// What comes from outside.
impl Combined {}

/// Sharing.
impl Combined {
    /// Whether a call of this transaction may be answered by another's read: it returns something and only
    /// reads, and the transaction has no writes of its own on the record (trap 13).
    fn may_share(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        let it = &self.txs[&tx];
        it.combines()
            && op.returns()
            && op.method().access == Access::Read
            && (!it.log.get(key).is_some_and(|touch| touch.wrote) || is_planted(Bug::OwnWriterShares))
    }

    /// Answers a read from one that is held, by the transaction's own group or by one that it then joins.
    fn share(&mut self, process: &mut Process, tx: TxHandle, key: &Bytes, op: &Operation) -> Option<Reply> {
        let answers = self.reads.answers(key, op, process.limits().combine_misses_max);
        for (at, reply) in answers {
            let (home, member) = self.txs[&tx].place.expect("running");
            let uses = self.groups[at].uses.as_ref();
            let fits = match at == home {
                true => uses.is_none_or(|uses| uses.admit(Some(member), key, op)),
                false => self.may_join(process, tx, at, key, op),
            };
            if !fits {
                continue;
            }
            if at != home {
                self.join(tx, at);
            }
            process.note_shared_answer();
            return Some(reply);
        }
        None
    }

    /// Whether a transaction that holds nothing anywhere may become a member of an open group.
    fn may_join(&mut self, process: &Process, tx: TxHandle, at: usize, key: &Bytes, op: &Operation) -> bool {
        let it = &self.txs[&tx];
        let (own, member) = it.place.expect("running");
        let alone = it.home == Some(own)
            && member == Member(0)
            && !self.groups[own].is_combined()
            && self.groups[own].coordinator.is_untouched();
        let group = &self.groups[at];
        // Joiners must not prolong a phase for ever while an elder waits for its end (C6).
        let overtakes = group.coordinator.waiting_elder().is_some_and(|elder| elder <= it.birth.time);
        if !alone || overtakes || group.joined >= process.limits().group_members_max {
            return false;
        }
        self.note_uses(at);
        let uses = self.groups[at].uses.as_ref().expect("just noted");
        let ops = it_ops(&self.txs[&tx].log);
        uses.admit(None, key, op) && ops.into_iter().all(|(key, op)| uses.admit(None, key, op))
    }

    /// From now on the group's uses are kept: the leader's, and then everybody's.
    fn note_uses(&mut self, at: usize) {
        let group = &mut self.groups[at];
        if group.uses.is_some() {
            return;
        }
        let mut uses = Uses::default();
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
impl Combined {
    /// Notes what a transaction does. If it conflicts with its mates it is taken out and restarted.
    fn admit_or_part(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: TxHandle,
        key: &Bytes,
        op: &Operation,
    ) -> bool {
        let (at, member) = self.txs[&tx].place.expect("running");
        let uses = self.groups[at].uses.as_ref();
        let fits = uses.is_none_or(|uses| uses.admit(Some(member), key, op));
        self.note(tx, key, op);
        if !fits {
            self.part_to_restart(tx);
            self.prepare_if_ready(process, now, at);
            self.settle(process, now, at);
        }
        fits
    }

    fn note(&mut self, tx: TxHandle, key: &Bytes, op: &Operation) {
        if !self.txs[&tx].combines() {
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
        // The leader leaves its id behind: the others go on under it (C14).
        if it.home == Some(at) && !is_planted(Bug::LeaderKeepsId) {
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
    fn keep_used(&mut self, tx: TxHandle) {
        let it = self.txs.get_mut(&tx).expect("it restarts");
        let log = std::mem::take(&mut it.log).into_iter();
        let used = log.flat_map(|(key, touch)| touch.ops.into_iter().map(move |op| (key.clone(), op)));
        it.used = Some(used.collect());
    }

    /// Takes out whoever is not ready, if somebody is and the prepare has not left.
    fn cut(&mut self, process: &mut Process, now: Time, at: usize) {
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
        self.prepare_if_ready(process, now, at);
    }
}

/// Sending.
impl Combined {
    /// Sends a call that was admitted, unless another member's call on the record is unanswered.
    fn send_or_defer(&mut self, now: Time, at: usize, call: Deferred) {
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
    fn prepare_if_ready(&mut self, process: &mut Process, now: Time, at: usize) {
        if !self.groups[at].is_ready() {
            return;
        }
        // Nobody joins it from now on, and its reads are shared no more (C5).
        if !is_planted(Bug::GroupStaysOpen) {
            self.close(at);
        }
        let group = &mut self.groups[at];
        let members = group.members();
        let hot = process.contention().arrange(&mut group.coordinator);
        // Where it is not taken the attempt is over, and its members hear so.
        let _ = group.coordinator.commit_for(now, members, &hot);
    }
}

/// Small things.
impl Combined {
    fn number_call(&mut self, tx: TxHandle) -> Result<CallNo, Closed> {
        let it = self.txs.get_mut(&tx).ok_or(Closed)?;
        let no = CallNo(it.next_call);
        it.next_call += 1;
        Ok(no)
    }

    /// Where the named attempt may still do something (P61).
    fn running(&self, tx: TxHandle, attempt: u32) -> Result<(usize, Member), Closed> {
        let it = self.txs.get(&tx).ok_or(Closed)?;
        let is_meant = attempt == it.attempt() || is_planted(Bug::EarlierTakenForThis);
        let (at, member) = it.place.filter(|_| is_meant).ok_or(Closed)?;
        let group = &self.groups[at];
        let is_open = group.coordinator.is_running() && !group.ready.contains(&member);
        if is_open { Ok((at, member)) } else { Err(Closed) }
    }
}

fn it_ops(log: &Log) -> Vec<(&Bytes, &Operation)> {
    log.iter().flat_map(|(key, touch)| touch.ops.iter().map(move |op| (key, op))).collect()
}
