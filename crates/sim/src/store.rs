//! External records of a shard (`Shard::over`), as a server has them: they are the host's own, and may vanish behind the
//! shard's back (P36).

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use claret_core::message::Refusal;
use claret_core::{Applied, HeldEnd, Records, ShardId};
use claret_types::{Bytes, Effect, OpError, Operation, Reply, Run, State, TypeInfo, Unique};

use crate::slots::{Slots, slot_of};

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
    /// Those that do not end by their time now, and for how many (P71).
    held_ends: BTreeMap<Bytes, u32>,
    /// How many slots there are in all.
    slots: u16,
    /// Those that are here, and whether newcomers are let in.
    served: BTreeMap<u16, bool>,
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

    /// Has these records, and no others.
    pub(crate) fn hold(&self, records: BTreeMap<Bytes, State>) {
        self.content().records = records;
    }

    /// A record vanishes. Returns whether there was one.
    pub(crate) fn lose(&self, key: &Bytes) -> bool {
        self.content().records.remove(key).is_some()
    }

    /// Whether a record does not end by its time now.
    pub(crate) fn holds_an_end(&self) -> bool {
        !self.content().held_ends.is_empty()
    }

    /// The keys of records whose time is over and that may end.
    pub(crate) fn expired(&self, now_ms: u64) -> Vec<Bytes> {
        let is_over = |state: &State| state.expiry().is_some_and(|expiry| expiry.ms() <= now_ms);
        let content = self.content();
        let may_end = |key: &Bytes| !content.held_ends.contains_key(key);
        let over = content.records.iter().filter(|(key, state)| is_over(state) && may_end(key));
        over.map(|(key, _)| key.clone()).collect()
    }

    /// All vanish. Returns which there were.
    pub(crate) fn lose_all(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.content().records).into_keys().collect()
    }

    /// Keeps newcomers away from a slot.
    pub(crate) fn close(&self, slot: u16) {
        self.content().served.insert(slot, false);
    }

    /// A slot goes, with its records.
    pub(crate) fn give(&self, slot: u16) -> BTreeMap<Bytes, State> {
        let content = &mut *self.content();
        content.served.remove(&slot);
        let slots = content.slots;
        content.records.extract_if(.., |key, _| slot_of(key, slots) == slot).collect()
    }

    /// A slot comes, with its records.
    pub(crate) fn take(&self, slot: u16, records: BTreeMap<Bytes, State>) {
        let content = &mut *self.content();
        content.served.insert(slot, true);
        content.records.extend(records);
    }

    /// Does an operation by itself, before the run. Returns whether it could be done.
    pub(crate) fn prepare(&self, key: &Bytes, op: &Operation) -> bool {
        let executed = op.execute(self.content().records.get(key), Unique(0));
        let effect = executed.as_ref().ok().and_then(|executed| executed.effect.as_ref());
        if let Some(effect) = effect {
            self.apply(key, &[effect]);
        }
        executed.is_ok()
    }
}

impl Records for Store {
    fn tag(&self) -> u16 {
        self.content().tag
    }

    fn admit(&self, key: &Bytes, _: &Operation) -> Result<(), Refusal> {
        let content = self.content();
        match content.served.get(&slot_of(key, content.slots)) {
            Some(true) => Ok(()),
            Some(false) | None => Err(Refusal::Elsewhere { key: key.clone() }),
        }
    }

    /// No more of it than each type says will do.
    fn partial_state(&self, key: &Bytes, op: &Operation, own: &[&Effect]) -> Result<Option<State>, OpError> {
        if op.is_command() {
            // It is looked at here whether it can be done.
            let mut state = self.content().records.get(key).cloned();
            own.iter().for_each(|effect| drop((*effect).clone().apply(&mut state)));
            return op.execute(state.as_ref(), Unique(0)).map(|_| Some(State::opaque()));
        }
        if op.command().is_some() {
            let mut state = self.content().records.get(key).cloned();
            own.iter().for_each(|effect| drop((*effect).clone().apply(&mut state)));
            return op.execute(state.as_ref(), Unique(0)).map(|told| Some(State::of_answer(told.reply)));
        }
        Ok(self.content().records.get(key).map(|state| state.part(op, own)))
    }

    fn may_order(&self, key: &Bytes, op: &Operation) -> bool {
        let content = self.content();
        content.records.get(key).is_none_or(|state| state.expiry().is_none() && op.fits(state))
    }

    fn whole(&self, key: &Bytes, _: &'static TypeInfo) -> Option<State> {
        self.content().records.get(key).cloned()
    }

    fn apply(&self, key: &Bytes, effects: &[&Effect]) -> Applied {
        let records = &mut self.content().records;
        let mut slot = records.remove(key);
        effects.iter().for_each(|effect| drop((*effect).clone().apply(&mut slot)));
        if let Some(state) = slot {
            records.insert(key.clone(), state);
        }
        Applied::Done
    }

    fn run(&self, key: &Bytes, run: &Run) -> Reply {
        let records = &mut self.content().records;
        let mut slot = records.remove(key);
        let reply = run.carry_out(&mut slot);
        records.extend(slot.map(|state| (key.clone(), state)));
        reply
    }

    fn hold_end(&self, key: &Bytes) -> HeldEnd {
        let content = &mut *self.content();
        let expires = content.records.get(key).is_some_and(|state| state.expiry().is_some());
        match content.held_ends.get_mut(key) {
            Some(holders) => *holders += 1,
            None if expires => drop(content.held_ends.insert(key.clone(), 1)),
            None => return HeldEnd::Free,
        }
        HeldEnd::Held
    }

    /// What is over ends before the shard hears of anything else.
    fn let_end(&self, key: &Bytes) -> Applied {
        let held = &mut self.content().held_ends;
        let holders = held.get_mut(key).expect("it is held");
        *holders -= 1;
        if *holders == 0 {
            held.remove(key);
        }
        Applied::Done
    }
}

/// A store for the time of a run.
#[derive(Debug)]
pub(crate) struct Lease(&'static Store);

impl Lease {
    /// An empty one, of a shard that begins with these slots.
    pub(crate) fn new(shard: ShardId, all: &Slots) -> Self {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let store = spare.unwrap_or_else(|| Box::leak(Box::default()));
        let (tag, slots) = (shard.0 as u16, all.count());
        let served = (0..slots).filter(|slot| all.owner(*slot) == shard).map(|slot| (slot, true));
        *store.content() = Content { tag, slots, served: served.collect(), ..Content::default() };
        Lease(store)
    }

    /// For a shard, which lives no longer than the run.
    pub(crate) fn as_external(&self) -> &'static Store {
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
