//! The transactions of a client process: a coordinator for each, or one frontend that combines them.
//!
//! A transaction stays here until every shard knows its outcome. That is longer than its user waits: one that was
//! dropped in mid-commit still gets answers. Afterwards its coordinator serves another transaction, and calls in the
//! old one's name are not taken: each call names the transaction, by a handle that is never given twice, and the
//! attempt (P61).

mod batches;
mod entry;
mod optimistic;
mod trial;

use std::collections::BTreeSet;

use claret_types::{Bytes, Claims, Operation};
use smallvec::SmallVec;

use super::by_sequence::BySequence;
use super::timers::Timers;
use crate::asked::Asked;
use crate::coordinator::{
    Closed, Contention, Coordinator, Event, Frontend, Session, TxHandle, Unheard, Waits,
};
use crate::ids::{AttemptId, CallNo, Incarnation, Sequence, SessionId, ShardId, Time, Timestamp, TxId};
use crate::limits::Limits;
use crate::message::{KeyedCall, Request, Response};
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;

use batches::{Batches, Carriage};
use entry::Entry;

/// Coordinators that are kept for transactions to come, at most.
const SPARE_MAX: usize = 256;

/// Makes seeds differ that are near each other: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Takes what comes of it: requests to send, and events for users.
pub(super) trait Outlet {
    fn send(&mut self, to: ShardId, request: Request);
    fn tell(&mut self, tx: TxHandle, event: Event);
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) enum Transactions {
    Single(Box<Table>),
    Combined(Box<Frontend>),
}

/// A coordinator for each transaction; its handle is its sequence.
#[derive(Clone, Debug)]
pub(super) struct Table {
    session: Session,
    switches: Switches,
    limits: Limits,
    /// The shards' incarnations, as their connections told them.
    met: Vec<(ShardId, Incarnation)>,
    contention: Contention,
    /// Of transactions that are over: room for others.
    #[expect(clippy::vec_box, reason = "an entry is large and stays where it is")]
    spare: Vec<Box<Entry>>,
    entries: BySequence<Box<Entry>>,
    /// Those that may have something to say.
    ready: Vec<u64>,
    batches: Batches,
    /// Whose callers wait for the horizon to come to where (P78), and where it is.
    telling: BTreeSet<(Timestamp, u64)>,
    horizon: Timestamp,
    /// What can be asked about those whose outcome nobody knows.
    unheard: Unheard,
    /// When each is due. A timer counts if its entry names it.
    timers: Timers,
}

impl Transactions {
    pub(super) fn new(id: SessionId, switches: Switches, limits: Limits) -> Self {
        let session = Session::new(id);
        if switches.combining {
            return Transactions::Combined(Box::new(Frontend::new(session, switches, limits)));
        }
        Transactions::Single(Box::new(Table {
            session,
            switches,
            limits,
            met: Vec::new(),
            contention: Contention::new(switches, limits),
            spare: Vec::new(),
            entries: BySequence::default(),
            ready: Vec::new(),
            batches: Batches::new(switches),
            telling: BTreeSet::new(),
            horizon: Timestamp::default(),
            unheard: Unheard::default(),
            timers: Timers::default(),
        }))
    }
}

/// Getters.
impl Transactions {
    pub(super) fn attempt(&self, tx: TxHandle) -> Option<AttemptId> {
        match self {
            Transactions::Single(table) => table.speaker(tx.0).map(|entry| entry.coordinator.attempt()),
            Transactions::Combined(frontend) => frontend.attempt(tx),
        }
    }

    /// What can be asked about a transaction that is committing, or whose user heard that nobody knows its outcome (P89).
    pub(super) fn asked(&mut self, now: Time, tx: TxHandle) -> Option<Asked> {
        match self {
            Transactions::Single(table) => table.asked(now, tx),
            Transactions::Combined(frontend) => frontend.asked(now, tx),
        }
    }

    pub(super) fn awaits_answers(&self, tx: TxHandle) -> bool {
        match self {
            Transactions::Single(table) => {
                table.entries.get(tx.0).is_some_and(|entry| entry.coordinator.awaits_answers())
            }
            Transactions::Combined(frontend) => frontend.awaits_answers(tx),
        }
    }

    /// All that are not over.
    pub(super) fn handles(&self) -> BTreeSet<TxHandle> {
        match self {
            Transactions::Single(table) => table.handles(),
            Transactions::Combined(frontend) => frontend.handles().into_iter().collect(),
        }
    }

    /// Where calls on a record are that are not answered, or wait for the commit.
    pub(super) fn shard_of(&self, tx: TxHandle, key: &Bytes) -> Option<ShardId> {
        match self {
            Transactions::Single(table) => table.entries.get(tx.0)?.coordinator.shard_of(key),
            Transactions::Combined(frontend) => frontend.shard_of(tx, key),
        }
    }

    /// Whether an operation of another transaction may wait for this one: see [`Coordinator::conflicts_with`].
    pub(super) fn conflicts_with(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        match self {
            Transactions::Single(table) => {
                table.entries.get(tx.0).is_some_and(|entry| entry.coordinator.conflicts_with(key, op))
            }
            Transactions::Combined(frontend) => frontend.conflicts_with(tx, key, op),
        }
    }

    pub(super) fn waits(&self, tx: TxHandle) -> Option<Waits> {
        match self {
            Transactions::Single(table) => table.waits(tx.0),
            Transactions::Combined(frontend) => frontend.waits(tx),
        }
    }

    pub(super) fn live(&self) -> Vec<AttemptId> {
        match self {
            Transactions::Single(table) => table.live(),
            Transactions::Combined(frontend) => frontend.live().collect(),
        }
    }

    pub(super) fn low_water(&self) -> Sequence {
        match self {
            Transactions::Single(table) => table.session.low_water(),
            Transactions::Combined(frontend) => frontend.low_water(),
        }
    }

    /// Whether every shard knows the end of every transaction.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Transactions::Single(table) => table.entries.is_empty(),
            Transactions::Combined(frontend) => frontend.is_over(),
        }
    }

    pub(super) fn combined(&self) -> u64 {
        match self {
            Transactions::Single(_) => 0,
            Transactions::Combined(frontend) => frontend.stats().combined,
        }
    }

    pub(super) fn check_invariants(&self) {
        match self {
            Transactions::Single(table) => table.check_invariants(),
            Transactions::Combined(frontend) => frontend.check_invariants(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self {
            Transactions::Single(table) => table.timers.first().map(|(due, _)| due),
            Transactions::Combined(frontend) => frontend.poll_timeout(),
        }
    }
}

/// The application's calls.
impl Transactions {
    pub(super) fn begin(&mut self, now: Time, seed: u64) -> TxHandle {
        match self {
            Transactions::Single(table) => table.begin(now, seed),
            Transactions::Combined(frontend) => frontend.begin(now, seed),
        }
    }

    pub(super) fn execute(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        place: (ShardId, Bytes),
        op: Operation,
        reserve: Option<Claims>,
    ) -> Result<CallNo, Closed> {
        let (shard, key) = place;
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.execute(now, attempt, shard, key, op, reserve)
            }
            Transactions::Combined(frontend) => frontend.execute(now, tx, shard, key, op, reserve),
        }
    }

    #[inline]
    pub(super) fn buffer(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        shard: ShardId,
        key: Bytes,
        op: Operation,
    ) -> Result<CallNo, Closed> {
        match self {
            Transactions::Single(table) => {
                let attempt = table.attempt_named(tx);
                // It has nothing to say before something is executed, or the commit.
                table.entry(tx.0.0).ok_or(Closed)?.coordinator.buffer(attempt, shard, key, op)
            }
            Transactions::Combined(frontend) => frontend.buffer(now, tx, shard, key, op),
        }
    }

    pub(super) fn buffer_all(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        mut calls: impl Iterator<Item = (ShardId, Bytes, Operation)>,
    ) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => {
                let attempt = table.attempt_named(tx);
                table.entry(tx.0.0).ok_or(Closed)?.coordinator.buffer_all(attempt, calls)
            }
            Transactions::Combined(frontend) => {
                calls.try_for_each(|(shard, key, op)| frontend.buffer(now, tx, shard, key, op).map(drop))
            }
        }
    }

    pub(super) fn commit(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => table.commit(now, tx),
            Transactions::Combined(frontend) => frontend.commit(now, tx),
        }
    }

    /// Of a transaction that is over, nothing is left to abort.
    pub(super) fn abort(&mut self, now: Time, tx: TxHandle) {
        match self {
            Transactions::Single(table) => table.abort(now, tx.0),
            Transactions::Combined(frontend) => frontend.abort(now, tx),
        }
    }

    /// The user has left: aborts the transaction if its end is not known to him.
    pub(super) fn abandon(&mut self, now: Time, tx: TxHandle) {
        match self {
            Transactions::Single(table) => table.abandon(now, tx),
            Transactions::Combined(frontend) => frontend.abort(now, tx),
        }
    }

    pub(super) fn restart(&mut self, now: Time, ended: (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => table.restart(ended),
            Transactions::Combined(frontend) => frontend.restart(now, ended).map(|_| ()),
        }
    }
}

/// Transactions that the host carries out by itself.
impl Transactions {
    pub(super) fn take_buffered(&mut self, tx: (TxHandle, u32)) -> Option<Vec<(ShardId, KeyedCall)>> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx).ok()?;
                coordinator.take_buffered(attempt)
            }
            Transactions::Combined(_) => None,
        }
    }

    pub(super) fn put_back(
        &mut self,
        tx: (TxHandle, u32),
        calls: Vec<(ShardId, KeyedCall)>,
    ) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.put_back(attempt, calls)
            }
            Transactions::Combined(_) => Err(Closed),
        }
    }

    pub(super) fn close_instantly(&mut self, tx: (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.close_instantly(attempt)?;
                if let Some(entry) = table.entry(tx.0.0) {
                    entry.ended = true;
                }
                Ok(())
            }
            Transactions::Combined(_) => Err(Closed),
        }
    }
}

/// The shards.
impl Transactions {
    /// A connection to a shard is new: its incarnation is known, and what was sent over an earlier one may be lost.
    pub(super) fn meet(&mut self, now: Time, shard: ShardId, incarnation: Incarnation) {
        match self {
            Transactions::Single(table) => table.meet(now, shard, incarnation),
            Transactions::Combined(frontend) => {
                frontend.meet(shard, incarnation);
                frontend.send_again(now);
            }
        }
    }

    pub(super) fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        match self {
            Transactions::Single(table) => table.handle_response(now, from, response),
            Transactions::Combined(frontend) => frontend.handle_response(now, from, response),
        }
    }

    /// About which timestamp commits are to have from now on, if any (P73).
    pub(super) fn suggest(&mut self, suggested: Option<Timestamp>) {
        match self {
            Transactions::Single(table) => table.contention.suggest(suggested),
            Transactions::Combined(frontend) => frontend.suggest(suggested),
        }
    }

    /// How far a vote was lifted above what was suggested, if one came since the last time, in microseconds.
    pub(super) fn take_lifted(&mut self) -> Option<u64> {
        match self {
            Transactions::Single(table) => table.contention.take_lifted(),
            Transactions::Combined(frontend) => frontend.take_lifted(),
        }
    }

    /// The largest timestamp that some caller waits for (P79).
    pub(super) fn want(&self) -> Option<Timestamp> {
        match self {
            Transactions::Single(table) => table.telling.last().map(|(until, _)| *until),
            Transactions::Combined(frontend) => frontend.want(),
        }
    }

    /// No vote will be as small as that any more, at any shard (P78).
    pub(super) fn hear_horizon(&mut self, now: Time, horizon: Timestamp) {
        match self {
            Transactions::Single(table) => table.hear_horizon(horizon),
            Transactions::Combined(frontend) => frontend.hear_horizon(now, horizon),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        match self {
            Transactions::Single(table) => table.handle_timeout(now),
            Transactions::Combined(frontend) => frontend.handle_timeout(now),
        }
    }
}

/// Batches.
impl Transactions {
    /// A transaction is to commit and may wait for others to do so with (B1): its shards.
    pub(super) fn may_gather(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
    ) -> Option<SmallVec<[ShardId; 4]>> {
        match self {
            Transactions::Single(table) if attempt == 1 => table.may_gather(now, tx),
            _ => None,
        }
    }

    /// Whether those that are gathered may leave.
    pub(super) fn may_leave(&self) -> bool {
        match self {
            Transactions::Single(table) => table.batches.may_leave(),
            Transactions::Combined(_) => false,
        }
    }

    /// Whether some are gathered.
    pub(super) fn has_gathered(&self) -> bool {
        match self {
            Transactions::Single(table) => table.batches.has_gathered(),
            Transactions::Combined(_) => false,
        }
    }

    /// It waits until a frame leaves.
    pub(super) fn gather(&mut self, tx: TxHandle) {
        if let Transactions::Single(table) = self {
            table.gather(tx);
        }
    }

    /// A frame leaves: those that are gathered leave in batches.
    pub(super) fn leave(&mut self, now: Time) {
        if let Transactions::Single(table) = self {
            table.leave(now);
        }
    }

    /// Those that are gathered leave, each by itself.
    pub(super) fn disband(&mut self, now: Time) {
        if let Transactions::Single(table) = self {
            table.disband(now);
        }
    }

    /// Hands out what there is to send and to tell.
    pub(super) fn drain(&mut self, now: Time, outlet: &mut impl Outlet) {
        match self {
            Transactions::Single(table) => table.drain(now, outlet),
            Transactions::Combined(frontend) => {
                while let Some((to, request)) = frontend.poll_send() {
                    outlet.send(to, request);
                }
                while let Some((tx, event)) = frontend.poll_event() {
                    outlet.tell(tx, event);
                }
            }
        }
    }
}

impl Table {
    /// In the order of their beginnings.
    fn live(&self) -> Vec<AttemptId> {
        // Shards know nothing of those that are gathered or carried.
        let known = self.entries.iter().filter(|(_, entry)| entry.is_known());
        let mut live: Vec<AttemptId> = known.flat_map(|(_, entry)| entry.coordinator.live()).collect();
        live.sort_unstable_by_key(|attempt| (attempt.tx.sequence, attempt.attempt));
        live
    }

    fn begin(&mut self, now: Time, seed: u64) -> TxHandle {
        let (sequence, entry) = self.begin_entry(now, seed);
        self.entries.insert(sequence, entry);
        TxHandle(sequence)
    }

    fn begin_entry(&mut self, now: Time, seed: u64) -> (u64, Box<Entry>) {
        let birth = self.session.begin(now);
        let sequence = birth.tx.sequence.0;
        let seed = seed.wrapping_add(sequence).wrapping_mul(SPREAD);
        let mut entry = self.spare.pop().unwrap_or_else(|| {
            let coordinator = Coordinator::new(birth, self.switches, self.limits, seed);
            Box::new(Entry::new(coordinator))
        });
        #[cfg(feature = "planted-bugs")]
        crate::planted::note_heir(entry.coordinator.birth().tx, birth.tx);
        // It knows the incarnations that are known (P26).
        let met = if is_planted(Bug::RecycledUnmet) { &[] } else { &self.met[..] };
        entry.coordinator.renew(birth, seed, met);
        (sequence, entry)
    }

    fn meet(&mut self, now: Time, shard: ShardId, incarnation: Incarnation) {
        self.met.retain(|(known, _)| *known != shard);
        self.met.push((shard, incarnation));
        let mut all: Vec<u64> = self.entries.iter().map(|(tx, _)| tx).collect();
        all.sort_unstable();
        for tx in all {
            let Some(coordinator) = self.make_ready(tx) else { continue };
            coordinator.meet(shard, incarnation);
            coordinator.send_again(now);
        }
    }

    fn commit(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        let attempt = self.attempt_named(tx);
        let at = self.resolve(tx.0.0);
        self.make_ready(at).ok_or(Closed)?.check_commit(attempt)?;
        let coordinator = &mut self.entries.get_mut(at).ok_or(Closed)?.coordinator;
        let hot = self.contention.arrange(coordinator);
        coordinator.commit(now, attempt, &hot)
    }

    /// The attempt of a transaction that runs commits.
    fn commit_entry(&mut self, now: Time, tx: u64) {
        let Some(attempt) = self.make_ready(tx).map(|coordinator| coordinator.attempt()) else { return };
        let Some(entry) = self.entries.get_mut(tx) else { return };
        let mut hot = self.contention.arrange(&mut entry.coordinator);
        if entry.carriage == Carriage::Carries {
            hot.clear();
        }
        // It was gathered because it runs.
        let _ = entry.coordinator.commit(now, attempt, &hot);
    }

    /// Tells those whose place the horizon has reached.
    fn hear_horizon(&mut self, horizon: Timestamp) {
        self.horizon = self.horizon.max(horizon);
        while let Some((until, tx)) =
            self.telling.first().copied().filter(|(until, _)| *until <= self.horizon)
        {
            self.telling.remove(&(until, tx));
            let horizon = self.horizon;
            if let Some(coordinator) = self.make_ready(tx) {
                coordinator.hear_horizon(horizon);
            }
        }
    }

    fn restart(&mut self, ended: (TxHandle, u32)) -> Result<(), Closed> {
        let (coordinator, attempt) = self.named_entry(ended)?;
        coordinator.restart(attempt)?;
        let at = self.resolve(ended.0.0);
        let coordinator = &mut self.entries.get_mut(at).ok_or(Closed)?.coordinator;
        // It knows the incarnations that are known by now (P26).
        let met = if is_planted(Bug::RecycledUnmet) { &[] } else { &self.met[..] };
        met.iter().for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
        Ok(())
    }

    fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        let Some(AttemptId { tx, .. }) = response.attempt() else { return };
        let tx = tx.sequence.0;
        let Some(entry) = self.entries.get_mut(tx) else { return };
        self.contention.learn(&entry.coordinator, from, &response);
        let waits = matches!(response, Response::Queued { .. } | Response::Busy { .. });
        entry.coordinator.handle_response(now, from, response);
        if waits {
            // Before it is told whether it has news: it may be due sooner.
            Self::note_wait(&mut self.batches, entry, now);
        }
        // Mostly it waits for more.
        if !entry.is_ready && entry.has_news() {
            entry.is_ready = true;
            self.ready.push(tx);
        }
    }

    fn abandon(&mut self, now: Time, tx: TxHandle) {
        if !is_planted(Bug::AbandonedNotAborted) {
            self.abort(now, tx.0);
        }
        if let Some(entry) = self.entries.get_mut(tx.0) {
            entry.ended = true;
        }
    }

    pub(super) fn abort(&mut self, now: Time, tx: u64) {
        if self.regret(now, tx) {
            return;
        }
        if self.entries.get(tx).is_some_and(|entry| !entry.ended)
            && let Some(coordinator) = self.make_ready(tx)
        {
            coordinator.abort(now);
            coordinator.give_up();
        }
    }

    // --- entries ---

    /// An attempt, as the shards know it.
    fn attempt_named(&self, (tx, attempt): (TxHandle, u32)) -> AttemptId {
        let tx = TxId { session: self.session.id(), sequence: Sequence(tx.0) };
        AttemptId { tx, attempt }
    }

    /// The coordinator that a call is for, if its transaction is not over, and the attempt that it names.
    fn named_entry(&mut self, tx: (TxHandle, u32)) -> Result<(&mut Coordinator, AttemptId), Closed> {
        let attempt = self.attempt_named(tx);
        let coordinator = self.make_ready(self.resolve(tx.0.0)).ok_or(Closed)?;
        Ok((coordinator, attempt))
    }

    /// Where a transaction is to be looked for: under its handle, and nowhere else (P61).
    fn resolve(&self, tx: u64) -> u64 {
        #[cfg(feature = "planted-bugs")]
        let tx = crate::planted::heir_of(self.session.id(), tx);
        tx
    }

    fn entry(&mut self, tx: u64) -> Option<&mut Entry> {
        let tx = self.resolve(tx);
        self.entries.get_mut(tx).map(Box::as_mut)
    }

    /// Its coordinator, which is drained next. `None`: it is over.
    fn make_ready(&mut self, tx: u64) -> Option<&mut Coordinator> {
        let entry = self.entries.get_mut(tx)?;
        if !std::mem::replace(&mut entry.is_ready, true) {
            self.ready.push(tx);
        }
        Some(&mut entry.coordinator)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.session.release(now);
        while let Some((due, tx)) = self.timers.pop(now) {
            let Some(entry) = self.entries.get_mut(tx).filter(|entry| entry.timer == Some(due)) else {
                continue;
            };
            entry.timer = None;
            Self::end_patience(&mut self.batches, entry, now);
            // What is due later than was promised is promised anew when it is drained.
            if let Some(coordinator) = self.make_ready(tx) {
                coordinator.handle_timeout(now);
            }
        }
    }

    /// Keeps the coordinator of a transaction that is over.
    fn recycle(&mut self, mut entry: Box<Entry>) {
        if self.spare.len() < SPARE_MAX && entry.coordinator.vacate() {
            entry.reset();
            self.spare.push(entry);
        }
    }

    fn asked(&mut self, now: Time, tx: TxHandle) -> Option<Asked> {
        let asked = self.speaker(tx.0).and_then(|entry| entry.coordinator.asked());
        let asked = asked.or_else(|| self.unheard.take(tx))?;
        self.session.keep(asked.attempt.tx, now, self.limits.outcome_us);
        Some(asked)
    }

    /// All that users know, and that are not over.
    fn handles(&self) -> BTreeSet<TxHandle> {
        let known = self.entries.iter().filter(|(_, entry)| entry.carriage != Carriage::Carries);
        known.map(|(tx, _)| TxHandle(tx)).collect()
    }

    /// What a transaction waits for; of a batch, what it waits for itself.
    fn waits(&self, tx: u64) -> Option<Waits> {
        let (own, speaker) = (self.entries.get(tx)?, self.speaker(tx)?);
        let mut waits = speaker.coordinator.waits()?;
        if own.carriage != Carriage::Alone {
            let calls = own.coordinator.one_shot().unwrap_or_default();
            waits.records.retain(|(_, key)| calls.iter().any(|(_, call)| call.key == *key));
        }
        Some(waits)
    }

    fn drain(&mut self, now: Time, outlet: &mut impl Outlet) {
        while !self.ready.is_empty() {
            for (carrier, event) in self.drain_once(now, outlet) {
                self.unload(now, carrier, event, outlet);
            }
        }
    }

    /// Hands out what those that are ready have to say; what carriers were told is for those whom they carry.
    fn drain_once(&mut self, now: Time, outlet: &mut impl Outlet) -> SmallVec<[(u64, Event); 1]> {
        let mut told = SmallVec::new();
        let mut ready = std::mem::take(&mut self.ready);
        for tx in ready.drain(..) {
            let Some(entry) = self.entries.get_mut(tx) else { continue };
            entry.is_ready = false;
            if let Some(until) = entry.coordinator.awaits_horizon() {
                entry.coordinator.hear_horizon(self.horizon);
                if until > self.horizon {
                    self.telling.insert((until, tx));
                }
            }
            while let Some((to, request)) = entry.coordinator.poll_send() {
                outlet.send(to, request);
            }
            while let Some(event) = entry.coordinator.poll_event() {
                self.batches.note_end(&mut entry.left);
                if let (Event::Unknown, Some(asked)) = (&event, entry.coordinator.asked()) {
                    self.session.keep(asked.attempt.tx, now, self.limits.outcome_us);
                    self.unheard.note(TxHandle(tx), asked);
                }
                if entry.carriage == Carriage::Carries {
                    entry.ended = true;
                    entry.coordinator.give_up();
                    told.push((tx, event));
                    continue;
                }
                entry.ended |= event.is_last();
                if let (Some(since), Event::Committed { .. }) = (entry.committing_since, &event) {
                    self.batches.note_time(now.since(since));
                }
                outlet.tell(TxHandle(tx), event);
            }
            if entry.is_forgotten() {
                self.session.end(entry.coordinator.birth().tx);
                // Whoever began it has not heard how it ended: it is not under way any more (B9).
                if !is_planted(Bug::BatchEndUncounted) {
                    self.batches.note_end(&mut entry.left);
                }
                if let Some(entry) = self.entries.remove(tx) {
                    self.recycle(entry);
                }
                continue;
            }
            if let Some(due) = entry.new_due() {
                entry.timer = Some(due);
                self.timers.set(due, tx);
            }
        }
        self.ready = ready;
        told
    }

    /// # Panics
    /// When an entry is not its transaction's, or is due and has no timer.
    fn check_invariants(&self) {
        let is_right = |tx: u64, entry: &Entry| {
            let due = entry.poll_timeout();
            let is_promised = due.is_none_or(|due| entry.timer.is_some_and(|timer| timer <= due));
            entry.coordinator.birth().tx.sequence.0 == tx && (entry.is_ready || is_promised)
        };
        self.entries.iter().for_each(|(_, entry)| entry.coordinator.check_invariants());
        let are_right = self.entries.iter().all(|(tx, entry)| is_right(tx, entry));
        assert!(are_right, "an entry of another transaction, or due without a timer");
        self.check_batches();
    }
}
