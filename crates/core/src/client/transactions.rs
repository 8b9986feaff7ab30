//! The transactions of a client process: a table with a coordinator for each, or a way to commit that has all of them.
//!
//! A transaction stays here until every shard knows its outcome. That is longer than its user waits: one that was
//! dropped in mid-commit still gets answers. Afterwards its coordinator serves another transaction, and calls in the
//! old one's name are not taken: each call names the transaction, by a handle that is never given twice, and the
//! attempt (P61).

use super::keeper::Keeper;
use super::process::Process;
use super::table::Table;
use super::ways::Ways;
use crate::asked::Asked;
use crate::coordinator::Closed;
use crate::ids::{SessionId, ShardId, Time, TxHandle};
use crate::limits::Limits;
use crate::message::KeyedCall;
use crate::switches::Switches;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Transactions {
    pub(super) process: Process,
    /// Of transactions that no way has. Batches are its alone.
    pub(super) table: Table,
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

    #[allow(dead_code, reason = "there may be no ways")]
    pub(super) fn ways(&self) -> &Ways {
        &self.ways
    }

    /// Who keeps them.
    #[inline]
    pub(super) fn keeper(&self) -> &dyn Keeper {
        self.ways.keeper().unwrap_or(&self.table)
    }

    /// The same, to be changed, and what it needs for that.
    #[inline]
    pub(super) fn keeper_mut(&mut self) -> (&mut dyn Keeper, &mut Process) {
        let keeper = match self.ways.keeper_mut() {
            Some(way) => way,
            None => &mut self.table,
        };
        (keeper, &mut self.process)
    }

    /// What can be asked about a transaction that is committing, or whose user heard that nobody knows its outcome (P89).
    pub(super) fn asked(&mut self, now: Time, tx: TxHandle) -> Option<Asked> {
        let asked = self.keeper().speaker(tx, None).and_then(|it| it.coordinator.asked());
        self.process.ask(now, tx, asked)
    }

    pub(super) fn check_invariants(&self) {
        self.table.check_invariants();
        self.ways.keeper().into_iter().for_each(Keeper::check_invariants);
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
