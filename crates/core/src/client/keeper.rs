//! Who keeps the transactions of a client process: the [table](super::transactions), or a way to commit that has all of them
//! ([`super::ways`]).

use std::collections::BTreeSet;
use std::fmt::Debug;

use claret_types::{Bytes, Claims, Operation};

use super::Outputs;
use super::process::Process;
use crate::coordinator::{Closed, Coordinator, Waits};
use crate::ids::{AttemptId, CallNo, Incarnation, Member, ShardId, Time, Timestamp, TxHandle};
use crate::message::{Refusal, Response, Undone};

/// When a call is carried out.
#[derive(Debug)]
pub(super) enum When {
    /// Its answer is wanted now. These are claimed besides its own claims.
    Now(Option<Claims>),
    /// With the commit, or with the next call on its record.
    AtCommit,
}

/// Who speaks to the shards for a transaction.
pub(super) struct Speaker<'a> {
    pub(super) coordinator: &'a Coordinator,
    /// As which member of the attempt.
    pub(super) member: Member,
    /// What has its calls until it is over, if others are carried beside it.
    pub(super) carried: Option<&'a Coordinator>,
    /// Where a call is to be sent that the coordinator does not have yet: of the transaction, or on the record that was asked about.
    pub(super) kept_back: Option<ShardId>,
}

impl Speaker<'_> {
    /// What has the calls of the transaction.
    pub(super) fn own(&self) -> &Coordinator {
        self.carried.unwrap_or(self.coordinator)
    }
}

/// One of all that a keeper has.
pub(super) enum Kept<'a> {
    /// A transaction whose user does not know the end.
    Tx(TxHandle),
    /// What shards know of.
    Coordinator(&'a Coordinator),
}

/// What is done with the coordinator of an attempt that is nobody else's.
pub(super) type Act<'a> = &'a mut dyn FnMut(&mut Coordinator, AttemptId) -> Result<(), Closed>;

/// Keeps all transactions of a process, each until every shard knows its outcome. Calls name the transaction and the attempt (P61):
/// one that is over is [`Closed`].
pub(super) trait Keeper: Debug {
    /// Begins a transaction. `seed` is any number, for the jitter of pauses.
    fn begin(&mut self, process: &mut Process, now: Time, seed: u64) -> TxHandle;

    /// An operation.
    fn call(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        place: (ShardId, Bytes),
        op: Operation,
        when: When,
    ) -> Result<CallNo, Closed>;

    /// Keeps operations that come together until the commit, in their order.
    fn buffer_all(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        calls: &mut dyn Iterator<Item = (ShardId, Bytes, Operation)>,
    ) -> Result<(), Closed> {
        for (shard, key, op) in calls {
            self.call(process, now, tx, (shard, key), op, When::AtCommit)?;
        }
        Ok(())
    }

    /// Does something that only an attempt can that is of one transaction. One that may come to be of several is run again if it
    /// `must` be done; otherwise nothing is.
    fn alone(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        must: bool,
        act: Act<'_>,
    ) -> Result<(), Closed>;

    /// The attempt is to commit.
    fn commit(&mut self, process: &mut Process, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed>;

    /// As a commit, of calls that are executed and not carried out (O5).
    fn check(&mut self, process: &mut Process, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed>;

    /// Its user has found that it cannot commit, and may run it again.
    fn renounce(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        refusal: Refusal,
    ) -> Result<(), Closed>;

    /// Begins the attempt after this one.
    fn restart(&mut self, process: &mut Process, now: Time, ended: (TxHandle, u32)) -> Result<(), Closed>;

    /// Ends the transaction without a trace, if that is still possible. Of one that is over, nothing is left to abort.
    fn abort(&mut self, process: &mut Process, now: Time, tx: TxHandle);

    /// The same, of a user who hears nothing more.
    fn abandon(&mut self, process: &mut Process, now: Time, tx: TxHandle) {
        self.abort(process, now, tx);
    }

    /// A shard has said something.
    fn handle_response(&mut self, process: &mut Process, now: Time, from: ShardId, response: Response);

    /// A connection to a shard is new: its incarnation is known, and what was sent over an earlier one may be lost.
    fn meet(&mut self, process: &mut Process, now: Time, shard: ShardId, incarnation: Incarnation);

    /// The safe time has come further.
    fn hear_safe_time(&mut self, process: &mut Process, now: Time);

    /// It is late: does what is due.
    fn handle_timeout(&mut self, process: &mut Process, now: Time);

    /// Hands out what there is to send and to tell.
    fn drain(&mut self, process: &mut Process, now: Time, outputs: &mut Outputs);

    /// Who speaks for a transaction, between two attempts nobody. `key`: see [`Speaker::kept_back`].
    fn speaker(&self, tx: TxHandle, key: Option<&Bytes>) -> Option<Speaker<'_>>;

    /// Shows all that it has, in its order.
    fn each(&self, see: &mut dyn FnMut(Kept<'_>));

    /// When something is due.
    fn poll_timeout(&self) -> Option<Time>;

    /// # Panics
    /// When an invariant does not hold.
    fn check_invariants(&self);

    // --- what follows from these ---

    fn attempt(&self, tx: TxHandle) -> Option<AttemptId> {
        self.speaker(tx, None).map(|it| it.coordinator.attempt())
    }

    fn awaits_answers(&self, tx: TxHandle) -> bool {
        self.speaker(tx, None)
            .is_some_and(|it| it.kept_back.is_some() || it.own().awaits_answers_of(it.member))
    }

    /// Where calls on a record are that are not answered, or wait for the commit.
    fn shard_of(&self, tx: TxHandle, key: &Bytes) -> Option<ShardId> {
        let speaker = self.speaker(tx, Some(key))?;
        speaker.kept_back.or_else(|| speaker.own().shard_of(key))
    }

    /// Whether an operation of another transaction may wait for this one: see [`Coordinator::conflicts_with`].
    fn conflicts_with(&self, tx: TxHandle, key: &Bytes, op: &Operation) -> bool {
        self.speaker(tx, None).is_some_and(|it| it.own().member_conflicts_with(it.member, key, op))
    }

    /// What a transaction waits for; of those that others are carried beside, what each waits for itself.
    fn waits(&self, tx: TxHandle) -> Option<Waits> {
        let speaker = self.speaker(tx, None)?;
        let mut waits = speaker.coordinator.waits_of(speaker.member)?;
        if let Some(own) = speaker.carried {
            let calls = own.one_shot().unwrap_or_default();
            waits.records.retain(|(_, key)| calls.iter().any(|(_, call)| call.key == *key));
        }
        Some(waits)
    }

    /// All that are not over.
    fn handles(&self) -> BTreeSet<TxHandle> {
        let mut handles = BTreeSet::new();
        self.each(&mut |kept| {
            if let Kept::Tx(tx) = kept {
                handles.insert(tx);
            }
        });
        handles
    }

    /// Attempts of which some shard may still hold something.
    fn live(&self) -> Vec<AttemptId> {
        let mut live = Vec::new();
        self.each(&mut |kept| {
            if let Kept::Coordinator(coordinator) = kept {
                live.extend(coordinator.live());
            }
        });
        live
    }

    /// Whether every shard knows the end of every transaction.
    fn is_over(&self) -> bool {
        let mut is_over = true;
        self.each(&mut |_| is_over = false);
        is_over
    }

    /// The largest timestamp that some caller waits for (P79).
    fn want(&self) -> Option<Timestamp> {
        let mut want = None;
        self.each(&mut |kept| {
            if let Kept::Coordinator(coordinator) = kept {
                want = want.max(coordinator.awaits_safe_time());
            }
        });
        want
    }

    // --- savepoints ---

    /// See [`Coordinator::may_fail_from`].
    fn may_fail_from(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        inside: Option<CallNo>,
    ) -> Result<(), Closed> {
        let mut act = |coordinator: &mut Coordinator, attempt| coordinator.may_fail_from(attempt, inside);
        self.alone(process, now, tx, true, &mut act)
    }

    /// See [`Coordinator::undo`].
    fn undo(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        from: CallNo,
    ) -> Result<(), Closed> {
        // Of one that may share an attempt nothing was done since the savepoint: that would have made it be alone.
        self.alone(process, now, tx, false, &mut |coordinator, attempt| coordinator.undo(now, attempt, from))
    }

    /// See [`Coordinator::settle`].
    fn settle_buffered(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
    ) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        let mut settled = Vec::new();
        self.alone(process, now, tx, true, &mut |coordinator, attempt| {
            settled = coordinator.settle(now, attempt)?;
            Ok(())
        })?;
        Ok(settled)
    }

    /// See [`Coordinator::only_check`].
    fn only_check(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        ranges: &[Undone],
    ) -> Result<(), Closed> {
        self.alone(process, now, tx, true, &mut |coordinator, attempt| {
            coordinator.only_check(attempt, ranges)
        })
    }
}
