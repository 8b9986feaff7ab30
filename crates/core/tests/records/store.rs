//! Records of a host: whole states in a map, of which it cuts the smallest partial states that will do.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use claret_core::message::Refusal;
use claret_core::{Applied, Records};
use claret_types::{Bytes, Effect, OpError, Operation, State};

use crate::cut::cut;

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// What unique numbers begin with.
    tag: u16,
    states: Mutex<BTreeMap<Bytes, State>>,
    /// What operations on these keys are refused with.
    barred: Mutex<BTreeMap<Bytes, Refusal>>,
}

impl Store {
    /// Tests are short, and a shard wants records for ever.
    pub(crate) fn leaked() -> &'static Store {
        Box::leak(Box::default())
    }

    pub(crate) fn tagged(tag: u16) -> &'static Store {
        Box::leak(Box::new(Store { tag, ..Store::default() }))
    }

    pub(crate) fn states(&self) -> MutexGuard<'_, BTreeMap<Bytes, State>> {
        self.states.lock().expect("nobody panics with it")
    }

    pub(crate) fn bar(&self, key: &str, refusal: Refusal) {
        self.barred.lock().expect("nobody panics with it").insert(key.into(), refusal);
    }
}

impl Records for Store {
    fn tag(&self) -> u16 {
        self.tag
    }

    fn admit(&self, key: &Bytes, _: &Operation) -> Result<(), Refusal> {
        self.barred.lock().expect("nobody panics with it").get(key).cloned().map_or(Ok(()), Err)
    }

    fn partial_state(&self, key: &Bytes, op: &Operation, own: &[&Effect]) -> Result<Option<State>, OpError> {
        Ok(self.states().get(key).map(|state| cut(state, op, own)))
    }

    /// A partial state is good for the first call only; the whole record, of which one loads it here now and then, for all.
    fn partial_state_for_all(
        &self,
        key: &Bytes,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        if (ops.len() + own.len()).is_multiple_of(2) {
            return Ok((self.partial_state(key, ops[0], own)?, 1));
        }
        Ok((self.states().get(key).cloned(), ops.len()))
    }

    /// It is always later than in 1970.
    fn apply(&self, key: &Bytes, effects: &[&Effect]) -> Applied {
        let mut states = self.states();
        let mut slot = states.remove(key);
        effects.iter().for_each(|effect| drop((*effect).clone().apply(&mut slot)));
        if slot.as_ref().and_then(State::expiry).is_some_and(|expiry| expiry.ms() == 1) {
            return Applied::Ended;
        }
        if let Some(state) = slot {
            states.insert(key.clone(), state);
        }
        Applied::Done
    }
}
