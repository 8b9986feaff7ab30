//! Records that a host lends to a shard (`Shard::over`), as a server does: they are its own, and may vanish behind the
//! shard's back (P36).

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use claret_core::Records;
use claret_core::message::Refusal;
use claret_types::{Bytes, Effect, OpError, Operation, State, Unique};

use crate::cut::cut;

/// Stores that no run has now: a shard wants records for ever, and runs are many.
static SPARE: Mutex<Vec<&'static Store>> = Mutex::new(Vec::new());

/// The records of one shard.
#[derive(Debug, Default)]
pub(crate) struct Store(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    /// What unique numbers begin with.
    tag: u16,
    records: BTreeMap<Bytes, State>,
}

impl Store {
    fn content(&self) -> MutexGuard<'_, Content> {
        // A run that panicked has failed, and each begins with an empty store.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, as they are now.
    pub(crate) fn records(&self) -> BTreeMap<Bytes, State> {
        self.content().records.clone()
    }

    /// A record vanishes. Returns whether there was one.
    pub(crate) fn lose(&self, key: &Bytes) -> bool {
        self.content().records.remove(key).is_some()
    }

    /// All vanish. Returns which there were.
    pub(crate) fn lose_all(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.content().records).into_keys().collect()
    }

    /// Does an operation by itself, before the run. Returns whether it could be done.
    pub(crate) fn prepare(&self, key: &Bytes, op: &Operation) -> bool {
        let executed = op.execute(self.content().records.get(key), Unique(0));
        let effect = executed.as_ref().ok().and_then(|executed| executed.effect.as_ref());
        effect.inspect(|effect| self.apply(key, &[effect]));
        executed.is_ok()
    }
}

impl Records for Store {
    fn tag(&self) -> u16 {
        self.content().tag
    }

    fn admit(&self, _: &Bytes, _: &Operation) -> Result<(), Refusal> {
        Ok(())
    }

    /// No more of it than each type says will do.
    fn excerpt(&self, key: &Bytes, op: &Operation, own: &[&Effect]) -> Result<Option<State>, OpError> {
        Ok(self.content().records.get(key).map(|state| cut(state, op, own)))
    }

    fn apply(&self, key: &Bytes, effects: &[&Effect]) {
        let records = &mut self.content().records;
        let mut slot = records.remove(key);
        effects.iter().for_each(|effect| drop((*effect).clone().apply(&mut slot)));
        if let Some(state) = slot {
            records.insert(key.clone(), state);
        }
    }
}

/// A store for the time of a run.
#[derive(Debug)]
pub(crate) struct Lease(&'static Store);

impl Lease {
    /// An empty one, whose unique numbers begin with `tag`.
    pub(crate) fn new(tag: u16) -> Self {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let store = spare.unwrap_or_else(|| Box::leak(Box::default()));
        *store.content() = Content { tag, records: BTreeMap::new() };
        Lease(store)
    }

    /// For a shard, which lives no longer than the run.
    pub(crate) fn lend(&self) -> &'static Store {
        self.0
    }
}

impl Deref for Lease {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.0.content() = Content::default();
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}
