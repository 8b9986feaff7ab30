//! The sequential model: records and nothing else, one operation after the other.

use std::collections::BTreeMap;

use claret_types::{Bytes, OpError, Operation, Reply, State, Unique};

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

    /// Carries out one operation. `unique` stands for the store's unique number.
    pub(crate) fn run(&mut self, key: &Bytes, op: &Operation, unique: Unique) -> Result<Reply, OpError> {
        let mut slot = self.records.remove(key);
        let executed = op.execute(slot.as_ref(), unique);
        if let Ok(executed) = &executed
            && let Some(effect) = &executed.effect
        {
            self.effects += 1;
            if self.forgets_every.is_none_or(|every| !self.effects.is_multiple_of(every)) {
                effect.clone().apply(&mut slot);
            }
        }
        if let Some(state) = slot {
            self.records.insert(key.clone(), state);
        }
        executed.map(|executed| executed.reply)
    }

    pub(crate) fn records(&self) -> &BTreeMap<Bytes, State> {
        &self.records
    }
}
