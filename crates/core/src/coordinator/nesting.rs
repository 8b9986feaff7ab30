//! Savepoints of transactions that may combine. Calls of a member are not numbered one after the other, and its mates may use
//! what it has read, so whoever undoes anything is a member of no group: the first attempt is restarted, and later ones never
//! combine (N9 of `docs/nesting.md`).

use claret_types::Bytes;

use super::Closed;
use super::combining::{Frontend, TxHandle};
use crate::ids::{AttemptId, CallNo, Time};
use crate::message::{Refusal, Undone};

impl Frontend {
    /// See [`Coordinator::may_fail_from`](super::Coordinator::may_fail_from).
    ///
    /// # Errors
    /// [`Closed`] when that attempt does not run (any more), or is run again, as it may combine: an event tells of that.
    pub fn may_fail_from(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        inside: Option<CallNo>,
    ) -> Result<(), Closed> {
        let (at, named) = self.running_alone((tx, attempt))?;
        if self.combines_yet(tx) {
            self.renounce(now, (tx, attempt), Refusal::Withdrawn)?;
            return Err(Closed);
        }
        self.groups[at].coordinator.may_fail_from(named, inside)
    }

    /// See [`Coordinator::undo`](super::Coordinator::undo).
    ///
    /// # Errors
    /// As of [`Self::may_fail_from`].
    pub fn undo(&mut self, now: Time, (tx, attempt): (TxHandle, u32), from: CallNo) -> Result<(), Closed> {
        let (at, named) = self.running_alone((tx, attempt))?;
        if self.combines_yet(tx) {
            return Ok(()); // Nothing can have been done since the savepoint: see above.
        }
        self.groups[at].coordinator.undo(now, named, from)?;
        self.settle(now, at);
        Ok(())
    }

    /// See [`Coordinator::settle`](super::Coordinator::settle).
    ///
    /// # Errors
    /// As of [`Self::may_fail_from`].
    pub fn settle_buffered(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
    ) -> Result<Vec<(CallNo, Bytes)>, Closed> {
        let (at, named) = self.running_alone((tx, attempt))?;
        if self.combines_yet(tx) {
            self.renounce(now, (tx, attempt), Refusal::Withdrawn)?;
            return Err(Closed);
        }
        let settled = self.groups[at].coordinator.settle(now, named)?;
        self.settle(now, at);
        Ok(settled)
    }

    /// See [`Coordinator::only_check`](super::Coordinator::only_check).
    ///
    /// # Errors
    /// As of [`Self::may_fail_from`].
    pub fn only_check(
        &mut self,
        now: Time,
        (tx, attempt): (TxHandle, u32),
        ranges: &[Undone],
    ) -> Result<(), Closed> {
        self.may_fail_from(now, (tx, attempt), None)?;
        let (at, named) = self.running_alone((tx, attempt))?;
        self.groups[at].coordinator.only_check(named, ranges)
    }

    fn running_alone(&self, (tx, attempt): (TxHandle, u32)) -> Result<(usize, AttemptId), Closed> {
        let (at, _) = self.running(tx, attempt)?;
        Ok((at, self.groups[at].coordinator.attempt()))
    }
}
