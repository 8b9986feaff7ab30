//! The transactions of a client process: a table with a coordinator for each, or a way to commit that has all of them.
//!
//! A transaction stays here until every shard knows its outcome. That is longer than its user waits: one that was
//! dropped in mid-commit still gets answers. Afterwards its coordinator serves another transaction, and calls in the
//! old one's name are not taken: each call names the transaction, by a handle that is never given twice, and the
//! attempt (P61).

mod entry;
mod table;
mod ways;

use std::collections::BTreeSet;

use claret_types::{Bytes, Operation};
use smallvec::SmallVec;

use super::Outputs;
use super::keeper::{Heard, Keeper, Kept, Speaker, When, Wish};
use super::process::Process;
use super::ways::Ways;
use crate::asked::Asked;
use crate::coordinator::{Closed, Coordinator, Waits};
use crate::ids::{AttemptId, CallNo, Incarnation, SessionId, ShardId, Time, Timestamp, TxHandle};
use crate::limits::Limits;
use crate::message::{KeyedCall, Response, Undone};
use crate::switches::Switches;

use table::Table;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Transactions {
    process: Process,
    /// Of transactions that no way has.
    table: Table,
    ways: Ways,
}

impl Transactions {
    pub(super) fn new(id: SessionId, switches: Switches, limits: Limits) -> Self {
        let process = Process::new(id, switches, limits);
        let ways = Ways::new(&process);
        Transactions { table: Table::new(switches), process, ways }
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn process_mut(&mut self) -> &mut Process {
        &mut self.process
    }

    pub(super) fn ways(&self) -> &Ways {
        &self.ways
    }
}

/// Getters.
impl Transactions {
    #[inline]
    fn speaker(&self, tx: TxHandle, key: Option<&Bytes>) -> Option<Speaker<'_>> {
        match self.ways.keeper() {
            Some(way) => way.speaker(tx, key),
            None => self.table.speaker(tx, key),
        }
    }

    pub(super) fn attempt(&self, tx: TxHandle) -> Option<AttemptId> {
        self.speaker(tx, None).map(|it| it.coordinator.attempt())
    }

    /// What can be asked about a transaction that is committing, or whose user heard that nobody knows its outcome (P89).
    pub(super) fn asked(&mut self, now: Time, tx: TxHandle) -> Option<Asked> {
        let asked = self.speaker(tx, None).and_then(|it| it.coordinator.asked());
        self.process.ask(now, tx, asked)
    }

    pub(super) fn awaits_answers(&self, tx: TxHandle) -> bool {
        self.speaker(tx, None)
            .is_some_and(|it| it.kept_back.is_some() || it.own().awaits_answers_of(it.member))
    }

    /// Where calls on a record are that are not answered, or wait for the commit.
    pub(super) fn shard_of(&self, tx: TxHandle, key: &Bytes) -> Option<ShardId> {
        let speaker = self.speaker(tx, Some(key))?;
        speaker.kept_back.or_else(|| speaker.own().shard_of(key))
    }

    /// Whether an operation of another transaction may wait for this one: see [`Coordinator::conflicts_with`].
    pub(super) fn conflicts_with(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        self.speaker(tx, None).is_some_and(|it| it.own().member_conflicts_with(it.member, key, op))
    }

    /// What a transaction waits for; of those that others are carried beside, what each waits for itself.
    pub(super) fn waits(&self, tx: TxHandle) -> Option<Waits> {
        let speaker = self.speaker(tx, None)?;
        let mut waits = speaker.coordinator.waits_of(speaker.member)?;
        if let Some(own) = speaker.carried {
            let calls = own.one_shot().unwrap_or_default();
            waits.records.retain(|(_, key)| calls.iter().any(|(_, call)| call.key == *key));
        }
        Some(waits)
    }

    fn each(&self, see: &mut dyn FnMut(Kept<'_>)) {
        match self.ways.keeper() {
            Some(way) => way.each(see),
            None => self.table.each(see),
        }
    }

    /// All that are not over.
    pub(super) fn handles(&self) -> BTreeSet<TxHandle> {
        let mut handles = BTreeSet::new();
        self.each(&mut |kept| {
            if let Kept::Tx(tx) = kept {
                handles.insert(tx);
            }
        });
        handles
    }

    /// Attempts of which some shard may still hold something; those of the table in the order of their beginnings.
    pub(super) fn live(&self) -> Vec<AttemptId> {
        let mut live = Vec::new();
        self.each(&mut |kept| {
            if let Kept::Coordinator(coordinator) = kept {
                live.extend(coordinator.live());
            }
        });
        if self.ways.keeper().is_none() {
            live.sort_unstable_by_key(|attempt| (attempt.tx.sequence, attempt.attempt));
        }
        live
    }

    /// Whether every shard knows the end of every transaction.
    pub(super) fn is_over(&self) -> bool {
        let Some(way) = self.ways.keeper() else { return self.table.is_empty() };
        let mut is_over = true;
        way.each(&mut |_| is_over = false);
        is_over
    }

    /// The largest timestamp that some caller waits for (P79).
    pub(super) fn want(&self) -> Option<Timestamp> {
        let Some(way) = self.ways.keeper() else { return self.table.want() };
        let mut want = None;
        way.each(&mut |kept| {
            if let Kept::Coordinator(coordinator) = kept {
                want = want.max(coordinator.awaits_safe_time());
            }
        });
        want
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self.ways.keeper() {
            Some(way) => way.poll_timeout(),
            None => self.table.poll_timeout(),
        }
    }

    pub(super) fn check_invariants(&self) {
        self.table.check_invariants();
        self.ways.keeper().into_iter().for_each(Keeper::check_invariants);
    }
}

/// The application's calls.
impl Transactions {
    pub(super) fn begin(&mut self, now: Time, seed: u64) -> TxHandle {
        match self.ways.keeper_mut() {
            Some(way) => way.begin(&mut self.process, now, seed),
            None => self.table.begin(&mut self.process, now, seed),
        }
    }

    #[inline]
    pub(super) fn call(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        place: (ShardId, Bytes),
        op: Operation,
        when: When,
    ) -> Result<CallNo, Closed> {
        match self.ways.keeper_mut() {
            Some(way) => way.call(&mut self.process, now, tx, place, op, when),
            None => self.table.call(&mut self.process, now, tx, place, op, when),
        }
    }

    pub(super) fn buffer_all(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        mut calls: impl Iterator<Item = (ShardId, Bytes, Operation)>,
    ) -> Result<(), Closed> {
        let Some(way) = self.ways.keeper_mut() else {
            return self.table.buffer_all(&self.process, tx, calls);
        };
        calls.try_for_each(|(shard, key, op)| {
            way.call(&mut self.process, now, tx, (shard, key), op, When::AtCommit).map(drop)
        })
    }

    #[inline]
    pub(super) fn wish(&mut self, now: Time, tx: (TxHandle, u32), wish: Wish) -> Result<(), Closed> {
        match self.ways.keeper_mut() {
            Some(way) => way.wish(&mut self.process, now, tx, wish),
            None => self.table.wish(&mut self.process, now, tx, wish),
        }
    }
}

/// Savepoints.
impl Transactions {
    fn alone(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        must: bool,
        mut act: impl FnMut(&mut Coordinator, AttemptId) -> Result<(), Closed>,
    ) -> Result<(), Closed> {
        match self.ways.keeper_mut() {
            Some(way) => way.alone(&mut self.process, now, tx, must, &mut act),
            None => self.table.alone(&mut self.process, now, tx, must, &mut act),
        }
    }

    /// See [`Coordinator::may_fail_from`].
    pub(super) fn may_fail_from(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        inside: Option<CallNo>,
    ) -> Result<(), Closed> {
        self.alone(now, tx, true, |coordinator, attempt| coordinator.may_fail_from(attempt, inside))
    }

    /// See [`Coordinator::undo`].
    pub(super) fn undo(&mut self, now: Time, tx: (TxHandle, u32), from: CallNo) -> Result<(), Closed> {
        // Of one that may share an attempt nothing was done since the savepoint: that would have made it be alone.
        self.alone(now, tx, false, |coordinator, attempt| coordinator.undo(now, attempt, from))
    }

    /// See [`Coordinator::settle`].
    pub(super) fn settle_buffered(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
    ) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        let mut settled = Vec::new();
        self.alone(now, tx, true, |coordinator, attempt| {
            settled = coordinator.settle(now, attempt)?;
            Ok(())
        })?;
        Ok(settled)
    }

    /// See [`Coordinator::only_check`].
    pub(super) fn only_check(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        ranges: &[Undone],
    ) -> Result<(), Closed> {
        self.alone(now, tx, true, |coordinator, attempt| coordinator.only_check(attempt, ranges))
    }
}

/// Transactions that the host carries out by itself: those that no way has.
impl Transactions {
    pub(super) fn take_buffered(&mut self, tx: (TxHandle, u32)) -> Option<Vec<(ShardId, KeyedCall)>> {
        let (coordinator, attempt) = self.table.named_entry(&self.process, tx).ok()?;
        coordinator.take_buffered(attempt)
    }

    pub(super) fn put_back(
        &mut self,
        tx: (TxHandle, u32),
        calls: Vec<(ShardId, KeyedCall)>,
    ) -> Result<(), Closed> {
        let (coordinator, attempt) = self.table.named_entry(&self.process, tx)?;
        coordinator.put_back(attempt, calls)
    }

    pub(super) fn close_instantly(&mut self, tx: (TxHandle, u32)) -> Result<(), Closed> {
        let (coordinator, attempt) = self.table.named_entry(&self.process, tx)?;
        coordinator.close_instantly(attempt)?;
        if let Some(entry) = self.table.entry(&self.process, tx.0.0) {
            entry.ended = true;
        }
        Ok(())
    }
}

/// What comes from outside.
impl Transactions {
    fn hear(&mut self, now: Time, heard: Heard) {
        match self.ways.keeper_mut() {
            Some(way) => way.hear(&mut self.process, now, heard),
            None => self.table.hear(&mut self.process, now, heard),
        }
    }

    /// A connection to a shard is new: its incarnation is known, and what was sent over an earlier one may be lost.
    pub(super) fn meet(&mut self, now: Time, shard: ShardId, incarnation: Incarnation) {
        self.process.meet(shard, incarnation);
        self.hear(now, Heard::Met(shard, incarnation));
    }

    pub(super) fn handle_response(&mut self, now: Time, from: ShardId, response: Response) {
        self.hear(now, Heard::Response(from, response));
    }

    /// No vote will be as small as that any more, at any shard (P78).
    pub(super) fn hear_safe_time(&mut self, now: Time, safe_time: Timestamp) {
        self.process.hear_safe_time(safe_time);
        self.hear(now, Heard::SafeTime);
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.process.release(now);
        self.hear(now, Heard::Time);
    }

    /// Hands out what there is to send and to tell.
    pub(super) fn drain(&mut self, now: Time, outputs: &mut Outputs) {
        match self.ways.keeper_mut() {
            Some(way) => way.drain(&mut self.process, now, outputs),
            None => self.table.drain(&mut self.process, now, outputs),
        }
    }
}

/// Batches (docs/batches.md): of the table alone.
impl Transactions {
    /// A transaction is to commit and may wait for others to do so with (B1): its shards.
    pub(super) fn may_gather(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
    ) -> Option<SmallVec<[ShardId; 4]>> {
        if attempt == 1 { self.table.may_gather(now, tx) } else { None }
    }

    /// Whether those that are gathered may leave.
    pub(super) fn may_leave(&self) -> bool {
        self.table.batches.may_leave()
    }

    /// Whether some are gathered.
    pub(super) fn has_gathered(&self) -> bool {
        self.table.batches.has_gathered()
    }

    /// It waits until a frame leaves.
    pub(super) fn gather(&mut self, tx: TxHandle) {
        self.table.gather(tx);
    }

    /// A frame leaves: those that are gathered leave in batches.
    pub(super) fn leave(&mut self, now: Time) {
        self.table.leave(&mut self.process, now);
    }

    /// Those that are gathered leave, each by itself.
    pub(super) fn disband(&mut self, now: Time) {
        self.table.disband(&mut self.process, now);
    }
}
