//! A sequential interpreter of calls: what a store would answer if it did one thing at a time.
//!
//! It has no locks, no shards, no aborts: each call is executed and applied at once, on records in an
//! ordered map. Workloads are run on it in tests, and it is the reference that stores are compared with.
//! A call can be made to vanish, acknowledged and not done, to show that verification catches a loss.

use std::collections::BTreeMap;

use claret_types::{Bytes, OpError, Reply, State, Unique};

use super::{Call, Client, Run, Stage, Workload};

/// The records, and the last unique number that was given out.
#[derive(Debug, Default, PartialEq)]
pub struct Sequential {
    records: BTreeMap<Bytes, State>,
    unique: u64,
}

/// Whether a call is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is.
    Done,
    /// It is answered and leaves no trace: a planted fault.
    Lost,
}

impl Sequential {
    /// An empty store.
    pub fn new() -> Self {
        Sequential::default()
    }

    /// A store that holds what a workload loads.
    ///
    /// # Errors
    /// When an operation is refused.
    pub fn loaded(workload: &dyn Workload) -> Result<Self, OpError> {
        let mut store = Sequential::new();
        for call in workload.load().flatten() {
            store.carry_out(&call, Fate::Done)?;
        }
        Ok(store)
    }

    /// Carries out one call.
    ///
    /// # Errors
    /// When the operation is refused.
    pub fn call(&mut self, call: &Call) -> Result<Reply, OpError> {
        self.carry_out(call, Fate::Done)
    }

    fn carry_out(&mut self, call: &Call, fate: Fate) -> Result<Reply, OpError> {
        self.unique += 1;
        let executed = call.op.execute(self.records.get(&call.key), Unique(self.unique))?;
        if let (Some(effect), Fate::Done) = (executed.effect, fate) {
            let mut slot = self.records.remove(&call.key);
            effect.apply(&mut slot);
            if let Some(state) = slot {
                self.records.insert(call.key.clone(), state);
            }
        }
        Ok(executed.reply)
    }

    /// Runs one transaction of a client to its commit; the index of its kind. `fate` is asked about every
    /// call.
    ///
    /// # Errors
    /// When an operation is refused.
    pub fn transaction(
        &mut self,
        client: &mut dyn Client,
        fate: &mut dyn FnMut(&Call) -> Fate,
    ) -> Result<usize, OpError> {
        let kind = client.draw();
        let (mut calls, mut replies) = (Vec::new(), Vec::new());
        loop {
            calls.clear();
            let stage = client.stage(&replies, &mut calls);
            replies.clear();
            if stage == Stage::Commit && client.rolls_back() {
                client.gave_up();
                return Ok(kind);
            }
            for call in &calls {
                let fate = fate(call);
                replies.push(self.carry_out(call, fate)?);
            }
            if stage == Stage::Commit {
                client.committed(&replies);
                return Ok(kind);
            }
        }
    }

    /// Runs several clients in turn, a transaction each, until `transactions` have committed; how many of
    /// each kind.
    ///
    /// # Errors
    /// When an operation is refused.
    pub fn run(
        &mut self,
        workload: &dyn Workload,
        run: &dyn Run,
        clients: u64,
        transactions: usize,
        fate: &mut dyn FnMut(&Call) -> Fate,
    ) -> Result<Vec<usize>, OpError> {
        let mut kinds = vec![0; workload.kinds().len()];
        let mut clients: Vec<_> = (0..clients).map(|seed| run.client(seed)).collect();
        let count = clients.len();
        for turn in 0..transactions {
            kinds[self.transaction(clients[turn % count].as_mut(), fate)?] += 1;
        }
        for client in clients {
            client.finish();
        }
        Ok(kinds)
    }
}
