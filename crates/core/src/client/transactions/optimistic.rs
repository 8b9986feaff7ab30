//! What optimistic transactions ask of the table: checks, and attempts that their users give up (O5, O8 of `docs/optimistic.md`).

use super::{Table, Transactions};
use crate::coordinator::{Closed, TxHandle};
use crate::ids::Time;
use crate::message::Refusal;

impl Transactions {
    /// As [`Self::commit`], of calls that are executed and not carried out.
    pub(in crate::client) fn check(&mut self, now: Time, tx: (TxHandle, u32)) -> Result<(), Closed> {
        match self {
            Transactions::Single(table) => table.check(now, tx),
            Transactions::Combined(frontend) => frontend.check(now, tx),
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
