//! Who keeps the transactions of a client process: the [table](super::transactions), or a way to commit that has all of them
//! ([`super::ways`]).

use std::fmt::Debug;

use claret_types::{Bytes, Claims, Operation};

use super::Outputs;
use super::process::Process;
use crate::coordinator::{Closed, Coordinator};
use crate::ids::{AttemptId, CallNo, Incarnation, Member, ShardId, Time, TxHandle};
use crate::message::{Refusal, Response};

/// When a call is carried out.
#[derive(Debug)]
pub(super) enum When {
    /// Its answer is wanted now. These are claimed besides its own claims.
    Now(Option<Claims>),
    /// With the commit, or with the next call on its record.
    AtCommit,
}

/// What a user wants of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    Commit,
    /// As a commit, of calls that are executed and not carried out (O5).
    Check,
    /// Its user has found that it cannot commit, and may run it again.
    Renounce(Refusal),
    /// The next attempt.
    Restart,
    /// The end of the transaction without a trace, if that is still possible.
    Abort,
    /// The same, of a user who hears nothing more.
    Abandon,
}

/// What all transactions hear.
#[derive(Debug)]
pub(super) enum Heard {
    Response(ShardId, Response),
    /// A connection to a shard is new: its incarnation is known, and what was sent over an earlier one may be lost.
    Met(ShardId, Incarnation),
    /// The safe time has come further.
    SafeTime,
    /// It is late: what is due is to be done.
    Time,
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

    /// What the user wants of the attempt. Of a transaction that is over, nothing is left to abort.
    fn wish(
        &mut self,
        process: &mut Process,
        now: Time,
        tx: (TxHandle, u32),
        wish: Wish,
    ) -> Result<(), Closed>;

    /// Takes what comes from outside.
    fn hear(&mut self, process: &mut Process, now: Time, heard: Heard);

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
}
