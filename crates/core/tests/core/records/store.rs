//! Records of a host: whole states in a map, of which it cuts the smallest partial states that will do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use claret_core::message::Refusal;
use claret_core::{Applied, HeldEnd, Records};
use claret_types::{Bytes, Effect, OpError, Operation, State};

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// What unique numbers begin with.
    tag: u16,
    states: Mutex<BTreeMap<Bytes, State>>,
    /// What operations on these keys are refused with.
    barred: Mutex<BTreeMap<Bytes, Refusal>>,
    ends: Mutex<Ends>,
}

/// Ends of records, which come when a test says so.
#[derive(Debug, Default)]
struct Ends {
    /// Those that are held, and by how many.
    held: BTreeMap<Bytes, u32>,
    /// How many ever were.
    held_ever: u32,
    /// Their time has passed while they were held.
    passed: BTreeSet<Bytes>,
    /// Their time was over before.
    over: BTreeSet<Bytes>,
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

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().expect("nobody panics with it")
    }

    /// The time of a record passes whose end is held.
    pub(crate) fn pass(&self, key: &str) {
        self.ends().passed.insert(key.into());
    }

    /// The time of a record passes before anybody holds its end.
    pub(crate) fn is_over(&self, key: &str) {
        self.ends().over.insert(key.into());
    }

    pub(crate) fn holders_of_end(&self, key: &str) -> u32 {
        self.ends().held.get(key.as_bytes()).copied().unwrap_or(0)
    }

    /// How often an end was held.
    pub(crate) fn ends_held(&self) -> u32 {
        self.ends().held_ever
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
        Ok(self.states().get(key).map(|state| state.part(op, own)))
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

    fn hold_end(&self, key: &Bytes) -> HeldEnd {
        let mut ends = self.ends();
        if ends.over.contains(key) {
            return HeldEnd::Over;
        }
        if self.states().get(key).and_then(State::expiry).is_none() {
            return HeldEnd::Free;
        }
        *ends.held.entry(key.clone()).or_default() += 1;
        ends.held_ever += 1;
        HeldEnd::Held
    }

    fn let_end(&self, key: &Bytes) -> Applied {
        let mut ends = self.ends();
        let holders = ends.held.get_mut(key).expect("it is held");
        *holders -= 1;
        if *holders > 0 || !ends.passed.remove(key) {
            return Applied::Done;
        }
        self.states().remove(key);
        Applied::Ended
    }
}
