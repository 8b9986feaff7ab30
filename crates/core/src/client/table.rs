//! The table: a coordinator for each transaction, used again and again. A transaction's handle is its sequence.

use std::collections::BTreeSet;

use claret_types::{Bytes, Operation};
use smallvec::SmallVec;

use super::Outputs;
use super::by_sequence::BySequence;
use super::entry::Entry;
use super::keeper::{Act, Keeper, Kept, Speaker, When};
use super::process::Process;
use super::timers::Timers;
use super::ways::batch::Batches;
use super::ways::batch::membership::Membership;
use crate::coordinator::{Closed, Coordinator, Event};
use crate::ids::{
    AttemptId, CallNo, Incarnation, Member, Sequence, ShardId, Time, Timestamp, TxHandle, TxId,
};
use crate::message::{Refusal, Response};
use crate::planted::{Bug, is_planted};
use crate::switches::Switches;

/// Coordinators that are kept for transactions to come, at most.
const SPARE_MAX: usize = 256;

/// Makes seeds differ that are near each other: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Of transactions that are over: room for others.
    #[expect(clippy::vec_box, reason = "an entry is large and stays where it is")]
    spare: Vec<Box<Entry>>,
    pub(super) entries: BySequence<Box<Entry>>,
    /// Those that may have something to say.
    ready: Vec<u64>,
    pub(super) batches: Batches,
    /// Whose callers wait for the safe time to come to where (P78).
    telling: BTreeSet<(Timestamp, u64)>,
    /// When each is due. A timer counts if its entry names it.
    timers: Timers,
}

impl Table {
    pub(super) fn new(switches: Switches) -> Self {
        Table {
            spare: Vec::new(),
            entries: BySequence::default(),
            ready: Vec::new(),
            batches: Batches::new(switches),
            telling: BTreeSet::new(),
            timers: Timers::default(),
        }
    }
}

impl Keeper for Table {
    fn begin(&mut self, process: &mut Process, now: Time, seed: u64) -> TxHandle {
        let (sequence, entry) = self.begin_entry(process, now, seed);
        self.entries.insert(sequence, entry);
        TxHandle(sequence)
    }

    #[inline]
    fn call(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        (shard, key): (ShardId, Bytes),
        op: Operation,
        when: When,
    ) -> Result<CallNo, Closed> {
        match when {
            When::Now(reserve) => {
                let (coordinator, attempt) = self.named_entry(process, tx)?;
                coordinator.execute(now, attempt, shard, key, op, reserve)
            }
            When::AtCommit => {
                let attempt = attempt_named(process, tx);
                // It has nothing to say before something is executed, or the commit.
                self.entry(process, tx.0.0).ok_or(Closed)?.coordinator.buffer(attempt, shard, key, op)
            }
        }
    }

    fn alone(
        &mut self,
        process: &mut Process,
        _now: Time,
        tx: (TxHandle, u32),
        _must: bool,
        act: Act<'_>,
    ) -> Result<(), Closed> {
        let (coordinator, attempt) = self.named_entry(process, tx)?;
        act(coordinator, attempt)
    }

    fn buffer_all(
        &mut self,
        process: &mut Process,
        _now: Time,
        tx: (TxHandle, u32),
        calls: &mut dyn Iterator<Item = (ShardId, Bytes, Operation)>,
    ) -> Result<(), Closed> {
        let attempt = attempt_named(process, tx);
        self.entry(process, tx.0.0).ok_or(Closed)?.coordinator.buffer_all(attempt, calls)
    }

    fn commit(&mut self, process: &mut Process, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        let attempt = attempt_named(process, tx);
        let at = resolve(process, tx.0.0);
        self.make_ready(at).ok_or(Closed)?.check_commit(attempt)?;
        let coordinator = &mut self.entries.get_mut(at).ok_or(Closed)?.coordinator;
        let hot = process.contention().arrange(coordinator);
        coordinator.commit(now, attempt, &hot)
    }

    fn check(&mut self, process: &mut Process, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        let (coordinator, attempt) = self.named_entry(process, tx)?;
        coordinator.check_commit(attempt)?;
        let at = resolve(process, tx.0.0);
        let coordinator = &mut self.entries.get_mut(at).ok_or(Closed)?.coordinator;
        let hot = process.contention().arrange(coordinator);
        coordinator.check(now, attempt, &hot)
    }

    fn renounce(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        refusal: Refusal,
    ) -> Result<(), Closed> {
        let (coordinator, attempt) = self.named_entry(process, tx)?;
        coordinator.renounce(now, attempt, refusal)
    }

    fn restart(&mut self, process: &mut Process, _now: Time, ended: (TxHandle, u32)) -> Result<(), Closed> {
        let (coordinator, attempt) = self.named_entry(process, ended)?;
        coordinator.restart(attempt)?;
        let at = resolve(process, ended.0.0);
        let coordinator = &mut self.entries.get_mut(at).ok_or(Closed)?.coordinator;
        // It knows the incarnations that are known by now (P26).
        let met = if is_planted(Bug::RecycledUnmet) { &[] } else { process.met() };
        met.iter().for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
        Ok(())
    }

    fn abort(&mut self, _process: &mut Process, now: Time, tx: TxHandle) {
        self.abort_entry(now, tx.0);
    }

    fn abandon(&mut self, process: &mut Process, now: Time, tx: TxHandle) {
        if !is_planted(Bug::AbandonedNotAborted) {
            self.abort(process, now, tx);
        }
        if let Some(entry) = self.entries.get_mut(tx.0) {
            entry.ended = true;
        }
    }

    fn handle_response(&mut self, process: &mut Process, now: Time, from: ShardId, response: Response) {
        let Some(AttemptId { tx, .. }) = response.attempt() else { return };
        let tx = tx.sequence.0;
        let Some(entry) = self.entries.get_mut(tx) else { return };
        process.contention().learn(&entry.coordinator, from, &response);
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

    fn meet(&mut self, _process: &mut Process, now: Time, shard: ShardId, incarnation: Incarnation) {
        let mut all: Vec<u64> = self.entries.iter().map(|(tx, _)| tx).collect();
        all.sort_unstable();
        for tx in all {
            let Some(coordinator) = self.make_ready(tx) else { continue };
            coordinator.meet(shard, incarnation);
            coordinator.send_again(now);
        }
    }

    /// Tells those whose place the safe time has reached.
    fn hear_safe_time(&mut self, process: &mut Process, _now: Time) {
        let safe_time = process.safe_time();
        while let Some((until, tx)) = self.telling.first().copied().filter(|(until, _)| *until <= safe_time) {
            self.telling.remove(&(until, tx));
            if let Some(coordinator) = self.make_ready(tx) {
                coordinator.hear_safe_time(safe_time);
            }
        }
    }

    fn handle_timeout(&mut self, _process: &mut Process, now: Time) {
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

    fn drain(&mut self, process: &mut Process, now: Time, outputs: &mut Outputs) {
        while !self.ready.is_empty() {
            for (leader, event) in self.drain_once(process, now, outputs) {
                self.unload(process, now, leader, event, outputs);
            }
        }
    }

    #[inline]
    fn speaker(&self, tx: TxHandle, _key: Option<&Bytes>) -> Option<Speaker<'_>> {
        let own = self.entries.get(tx.0)?;
        let (coordinator, carried) = match own.membership {
            Membership::In(leader) => (&self.entries.get(leader)?.coordinator, Some(&own.coordinator)),
            _ => (&own.coordinator, None),
        };
        Some(Speaker { coordinator, member: Member(0), carried, kept_back: None })
    }

    fn each(&self, see: &mut dyn FnMut(Kept<'_>)) {
        for (tx, entry) in self.entries.iter() {
            if entry.membership != Membership::Carries {
                see(Kept::Tx(TxHandle(tx)));
            }
            // Shards know nothing of those that are gathered or carried.
            if entry.is_known() {
                see(Kept::Coordinator(&entry.coordinator));
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|(due, _)| due)
    }

    /// In the order of their beginnings.
    fn live(&self) -> Vec<AttemptId> {
        let known = self.entries.iter().map(|(_, entry)| entry).filter(|entry| entry.is_known());
        let mut live: Vec<AttemptId> = known.flat_map(|entry| entry.coordinator.live()).collect();
        live.sort_unstable_by_key(|attempt| (attempt.tx.sequence, attempt.attempt));
        live
    }

    fn is_over(&self) -> bool {
        self.entries.is_empty()
    }

    fn want(&self) -> Option<Timestamp> {
        self.telling.last().map(|(until, _)| *until)
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

impl Table {
    pub(super) fn begin_entry(&mut self, process: &mut Process, now: Time, seed: u64) -> (u64, Box<Entry>) {
        let birth = process.begin(now);
        let sequence = birth.tx.sequence.0;
        let seed = seed.wrapping_add(sequence).wrapping_mul(SPREAD);
        let mut entry =
            self.spare.pop().unwrap_or_else(|| Box::new(Entry::new(process.coordinator(birth, seed))));
        #[cfg(feature = "planted-bugs")]
        crate::planted::note_heir(entry.coordinator.birth().tx, birth.tx);
        // It knows the incarnations that are known (P26).
        let met = if is_planted(Bug::RecycledUnmet) { &[] } else { process.met() };
        entry.coordinator.renew(birth, seed, met);
        (sequence, entry)
    }

    /// The attempt of a transaction that runs commits.
    pub(super) fn commit_entry(&mut self, process: &mut Process, now: Time, tx: u64) {
        let Some(attempt) = self.make_ready(tx).map(|coordinator| coordinator.attempt()) else { return };
        let Some(entry) = self.entries.get_mut(tx) else { return };
        let mut hot = process.contention().arrange(&mut entry.coordinator);
        if entry.membership == Membership::Carries {
            hot.clear();
        }
        // It was gathered because it runs.
        let _ = entry.coordinator.commit(now, attempt, &hot);
    }

    pub(super) fn abort_entry(&mut self, now: Time, tx: u64) {
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

    /// The coordinator that a call is for, if its transaction is not over, and the attempt that it names.
    pub(super) fn named_entry(
        &mut self,
        process: &Process,
        tx: (TxHandle, u32),
    ) -> Result<(&mut Coordinator, AttemptId), Closed> {
        let attempt = attempt_named(process, tx);
        let coordinator = self.make_ready(resolve(process, tx.0.0)).ok_or(Closed)?;
        Ok((coordinator, attempt))
    }

    pub(super) fn entry(&mut self, process: &Process, tx: u64) -> Option<&mut Entry> {
        self.entries.get_mut(resolve(process, tx)).map(Box::as_mut)
    }

    /// Its coordinator, which is drained next. `None`: it is over.
    pub(super) fn make_ready(&mut self, tx: u64) -> Option<&mut Coordinator> {
        let entry = self.entries.get_mut(tx)?;
        if !std::mem::replace(&mut entry.is_ready, true) {
            self.ready.push(tx);
        }
        Some(&mut entry.coordinator)
    }

    /// Keeps the coordinator of a transaction that is over.
    pub(super) fn recycle(&mut self, mut entry: Box<Entry>) {
        if self.spare.len() < SPARE_MAX && entry.coordinator.vacate() {
            entry.reset();
            self.spare.push(entry);
        }
    }

    /// Hands out what those that are ready have to say; what leaders were told is for those whom they carry.
    fn drain_once(
        &mut self,
        process: &mut Process,
        now: Time,
        outputs: &mut Outputs,
    ) -> SmallVec<[(u64, Event); 1]> {
        let mut told = SmallVec::new();
        let mut ready = std::mem::take(&mut self.ready);
        for tx in ready.drain(..) {
            let Some(entry) = self.entries.get_mut(tx) else { continue };
            entry.is_ready = false;
            if let Some(until) = entry.coordinator.awaits_safe_time() {
                entry.coordinator.hear_safe_time(process.safe_time());
                if until > process.safe_time() {
                    self.telling.insert((until, tx));
                }
            }
            while let Some((to, request)) = entry.coordinator.poll_send() {
                outputs.send(to, request);
            }
            while let Some(event) = entry.coordinator.poll_event() {
                self.batches.note_end(&mut entry.left);
                if let (Event::Unknown, Some(asked)) = (&event, entry.coordinator.asked()) {
                    process.note_unknown(now, TxHandle(tx), asked);
                }
                if entry.membership == Membership::Carries {
                    entry.ended = true;
                    entry.coordinator.give_up();
                    told.push((tx, event));
                    continue;
                }
                entry.ended |= event.is_last();
                if let (Some(since), Event::Committed { .. }) = (entry.committing_since, &event) {
                    self.batches.note_time(now.since(since));
                }
                outputs.tell(TxHandle(tx), event);
            }
            if entry.is_forgotten() {
                process.end(entry.coordinator.birth().tx);
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
}

/// An attempt, as the shards know it.
#[inline]
fn attempt_named(process: &Process, (tx, attempt): (TxHandle, u32)) -> AttemptId {
    let tx = TxId { session: process.id(), sequence: Sequence(tx.0) };
    AttemptId { tx, attempt }
}

/// Where a transaction is to be looked for: under its handle, and nowhere else (P61).
#[inline]
fn resolve(process: &Process, tx: u64) -> u64 {
    let _ = process; // Of the planted bug.
    #[cfg(feature = "planted-bugs")]
    let tx = crate::planted::heir_of(process.id(), tx);
    tx
}
