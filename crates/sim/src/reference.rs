//! The sequential model: records and nothing else, one operation after another.

use std::collections::BTreeMap;

use claret_types::{Bytes, Claims, Effect, OpError, Operation, Reply, State, Unique};

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    records: BTreeMap<Bytes, State>,
    /// Every so many effects, one is forgotten: a fault to be caught.
    forgets_every: Option<u64>,
    effects: u64,
}

impl Reference {
    /// A model that is wrong, to see that the checks notice.
    pub(crate) fn forgetful(every: u64) -> Self {
        Reference { forgets_every: Some(every), ..Reference::default() }
    }

    /// Carries out one operation; returns its answer, and how to undo it. `unique` stands for the store's unique
    /// number.
    pub(crate) fn run(
        &mut self,
        key: &Bytes,
        op: &Operation,
        unique: Unique,
    ) -> Result<(Reply, Option<Effect>), OpError> {
        let executed = op.execute(self.records.get(key), unique)?;
        let Some(effect) = executed.effect else { return Ok((executed.reply, None)) };
        self.effects += 1;
        if self.forgets_every.is_some_and(|every| self.effects.is_multiple_of(every)) {
            return Ok((executed.reply, None));
        }
        let inverse = self.apply(key, effect);
        Ok((executed.reply, Some(inverse)))
    }

    /// What an operation claims as things are; nothing if it cannot be done.
    pub(crate) fn claims(&self, key: &Bytes, op: &Operation) -> Claims {
        op.execute(self.records.get(key), Unique(0)).map(|executed| executed.claims).unwrap_or_default()
    }

    /// Carries out an effect; returns its inverse.
    pub(crate) fn apply(&mut self, key: &Bytes, effect: Effect) -> Effect {
        let mut slot = self.records.remove(key);
        let inverse = effect.apply(&mut slot);
        if let Some(state) = slot {
            self.records.insert(key.clone(), state);
        }
        inverse
    }

    /// Loses records.
    pub(crate) fn forget(&mut self, is_lost: impl Fn(&Bytes) -> bool) {
        self.records.retain(|key, _| !is_lost(key));
    }

    pub(crate) fn records(&self) -> &BTreeMap<Bytes, State> {
        &self.records
    }
}
