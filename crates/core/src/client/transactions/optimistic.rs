//! What optimistic transactions ask of the table: checks, and attempts that their users give up (O5, O8 of `docs/optimistic.md`).

use claret_types::Bytes;

use super::{Table, Transactions};
use crate::coordinator::{Closed, TxHandle};
use crate::ids::{CallNo, Time};
use crate::message::{Refusal, Undone};

impl Transactions {
    /// As [`Self::commit`], of calls that are executed and not carried out.
    pub(in crate::client) fn check(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => table.check(now, tx),
            Transactions::Combined(frontend) => frontend.check(now, tx),
        }
    }

    /// See [`Coordinator::may_fail_from`](crate::Coordinator::may_fail_from).
    pub(in crate::client) fn may_fail_from(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        inside: Option<CallNo>,
    ) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.may_fail_from(attempt, inside)
            }
            Transactions::Combined(frontend) => frontend.may_fail_from(now, tx, inside),
        }
    }

    /// See [`Coordinator::undo`](crate::Coordinator::undo).
    pub(in crate::client) fn undo(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        from: CallNo,
    ) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.undo(now, attempt, from)
            }
            Transactions::Combined(frontend) => frontend.undo(now, tx, from),
        }
    }

    /// See [`Coordinator::settle`](crate::Coordinator::settle).
    pub(in crate::client) fn settle_buffered(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
    ) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.settle(now, attempt)
            }
            Transactions::Combined(frontend) => frontend.settle_buffered(now, tx),
        }
    }

    /// See [`Coordinator::only_check`](crate::Coordinator::only_check).
    pub(in crate::client) fn only_check(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        ranges: &[Undone],
    ) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.only_check(attempt, ranges)
            }
            Transactions::Combined(frontend) => frontend.only_check(now, tx, ranges),
        }
    }

    /// The attempt's user has found that it cannot commit, and may run it again.
    pub(in crate::client) fn renounce(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        refusal: Refusal,
    ) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => {
                let (coordinator, attempt) = table.named_entry(tx)?;
                coordinator.renounce(now, attempt, refusal)
            }
            Transactions::Combined(frontend) => frontend.renounce(now, tx, refusal),
        }
    }
}

impl Table {
    /// As [`Self::commit`], of calls that are executed and not carried out (O5).
    fn check(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        let (coordinator, attempt) = self.named_entry(tx)?;
        coordinator.check_commit(attempt)?;
        let at = self.resolve(tx.0.0);
        let coordinator = &mut self.entries.get_mut(at).ok_or(Closed)?.coordinator;
        let hot = self.contention.arrange(coordinator);
        coordinator.check(now, attempt, &hot)
    }
}
