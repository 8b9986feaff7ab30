//! Everything that the search has met of one type, each thing once and under a number: states, calls, outcomes, and
//! the results of executing and applying. The rest of the oracle works on the numbers.
//!
//! Invariants: equal states mostly have one number, and [`StateSpace::same`] decides where they do not; an entry of a
//! table is what the type's own code answered. Promises about one operation in one state are checked as the tables
//! fill; the first broken one is kept as the space's fault.

use std::fmt::{self, Debug, Write};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::naming;
use super::report::{Counterexample, Law, Stop};
use crate::data_type::{Access, DataType, Examples, Execution, Unique};
use crate::{Claims, OpError, Reply, Room};

/// The number of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StateId(u32);

/// The number of an operation together with the [`Unique`] that it is executed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CallId(u32);

/// The number of what a call decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct OutcomeId(u32);

/// The first [`Unique`] handed out. Large, so that it is not one that an example already holds.
const UNIQUE_FIRST: u64 = 1_000_001;

struct Call {
    op: usize,
    unique: Unique,
}

struct Outcome<E> {
    call: CallId,
    execution: Execution<E>,
}

#[derive(Clone, Copy)]
enum Executed {
    Unknown,
    Refused,
    Granted(OutcomeId),
}

struct Known<S> {
    content: S,
    room: Room,
    executed: Box<[Executed]>,
    /// The ways its debug text was seen written: equal hash sets may print in different orders.
    texts: SmallVec<[u64; 1]>,
}

type Index<K, V> = HashMap<K, V, FixedState>;

/// See the module's text.
pub(super) struct StateSpace<T: DataType> {
    operations: Vec<T::Op>,
    numbered: Vec<bool>,
    first_calls: Vec<CallId>,
    calls: Vec<Call>,
    states: Vec<Known<T::State>>,
    state_index: Index<u64, SmallVec<[StateId; 1]>>,
    outcomes: Vec<Outcome<T::Effect>>,
    outcome_index: Index<(CallId, u64), SmallVec<[OutcomeId; 1]>>,
    applied: Index<(StateId, OutcomeId), Option<StateId>>,
    examples: Vec<StateId>,
    executions: u64,
    stop: Option<Stop>,
}

impl<T: Examples> StateSpace<T> {
    /// The examples of a type. Operations in `numbered` get up to `serials` different numbers.
    pub(super) fn new(numbered: &[bool], serials: usize) -> Self {
        let operations = T::operations();
        let mut calls = Vec::new();
        let mut first_calls = Vec::new();
        for (op, numbered) in numbered.iter().enumerate() {
            first_calls.push(CallId(calls.len() as u32));
            let serials = if *numbered { serials.max(2) } else { 1 };
            calls.extend((0..serials as u64).map(|k| Call { op, unique: Unique(UNIQUE_FIRST + k) }));
        }
        let mut space = StateSpace {
            operations,
            numbered: numbered.to_vec(),
            first_calls,
            calls,
            states: Vec::new(),
            state_index: Index::default(),
            outcomes: Vec::new(),
            outcome_index: Index::default(),
            applied: Index::default(),
            examples: Vec::new(),
            executions: 0,
            stop: None,
        };
        for mut state in T::states() {
            settle::<T>(&mut state);
            let id = space.state_id(state);
            if !space.examples.contains(&id) {
                space.examples.push(id);
            }
        }
        space
    }
}

impl<T: DataType> StateSpace<T> {
    /// The example states.
    pub(super) fn examples(&self) -> Vec<StateId> {
        self.examples.clone()
    }

    /// The first states that were met, the examples before all others.
    pub(super) fn nearest(&self, count: usize) -> Vec<StateId> {
        (0..self.states.len().min(count) as u32).map(StateId).collect()
    }

    /// How many states were met.
    pub(super) fn states(&self) -> usize {
        self.states.len()
    }

    /// How often the type's own code executed or applied something to fill the tables.
    pub(super) fn executions(&self) -> u64 {
        self.executions
    }

    /// How many operations there are.
    pub(super) fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Whether an operation depends on its number.
    pub(super) fn is_numbered(&self, op: usize) -> bool {
        self.numbered[op]
    }

    /// The call of an operation; the serial counts for numbered ones only.
    pub(super) fn call(&self, op: usize, serial: usize) -> CallId {
        CallId(self.first_calls[op].0 + if self.numbered[op] { serial as u32 } else { 0 })
    }

    /// The operation of a call.
    pub(super) fn op(&self, call: CallId) -> &T::Op {
        &self.operations[self.calls[call.0 as usize].op]
    }

    /// The operation with this index.
    pub(super) fn operation(&self, op: usize) -> &T::Op {
        &self.operations[op]
    }

    /// The content of a state.
    pub(super) fn content(&self, state: StateId) -> &T::State {
        &self.states[state.0 as usize].content
    }

    /// [`DataType::room`] of a state.
    pub(super) fn room(&self, state: StateId) -> Room {
        self.states[state.0 as usize].room
    }

    /// The call that an outcome is of.
    pub(super) fn call_of(&self, outcome: OutcomeId) -> CallId {
        self.outcomes[outcome.0 as usize].call
    }

    /// What was decided.
    pub(super) fn execution(&self, outcome: OutcomeId) -> &Execution<T::Effect> {
        &self.outcomes[outcome.0 as usize].execution
    }

    /// All outcomes that were met so far.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = OutcomeId> + use<T> {
        (0..self.outcomes.len() as u32).map(OutcomeId)
    }

    /// Why to stop, if a promise turned out broken.
    pub(super) fn stop(&mut self) -> Result<(), Stop> {
        self.stop.take().map_or(Ok(()), Err)
    }

    /// Whether two states are equal.
    pub(super) fn same(&self, a: StateId, b: StateId) -> bool {
        a == b || self.content(a) == self.content(b)
    }

    /// What a call decides in a state; `None` when it is an error there.
    pub(super) fn execute(&mut self, state: StateId, call: CallId) -> Option<OutcomeId> {
        match self.states[state.0 as usize].executed[call.0 as usize] {
            Executed::Granted(outcome) => Some(outcome),
            Executed::Refused => None,
            Executed::Unknown => self.execute_first(state, call),
        }
    }

    /// The state after an outcome's effect; `None` when applying it panics.
    pub(super) fn apply(&mut self, state: StateId, outcome: OutcomeId) -> Option<StateId> {
        if self.execution(outcome).effect.is_none() {
            return Some(state);
        }
        match self.applied.get(&(state, outcome)) {
            Some(after) => *after,
            None => self.apply_first(state, outcome),
        }
    }

    /// The outcome of a read that takes its answer from `held` and claims nothing, where the type can
    /// combine the two.
    pub(super) fn combine(&mut self, held: OutcomeId, call: CallId) -> Option<OutcomeId> {
        let method = T::method(self.op(call));
        if method.access != Access::Read || !method.returns {
            return None;
        }
        let reply = T::combine(self.op(self.call_of(held)), &self.execution(held).reply, self.op(call))?;
        Some(self.outcome_id(call, Execution::read(reply, Claims::none())))
    }

    /// The error of a call that [`StateSpace::execute`] refused.
    pub(super) fn error(&self, state: StateId, call: CallId) -> Option<OpError> {
        self.ask(self.content(state), call, self.calls[call.0 as usize].unique).err()
    }

    fn ask(&self, content: &T::State, call: CallId, unique: Unique) -> Result<Execution<T::Effect>, OpError> {
        T::execute(content, self.op(call), unique)
    }

    fn execute_first(&mut self, state: StateId, call: CallId) -> Option<OutcomeId> {
        let Call { op, unique } = self.calls[call.0 as usize];
        let content = self.content(state);
        let first = self.ask(content, call, unique);
        let other = if self.numbered[op] { unique } else { Unique(unique.0 + 1) };
        if first != self.ask(content, call, other) {
            if !self.numbered[op] && first == self.ask(content, call, unique) {
                self.stop.get_or_insert(Stop::Numbered(op));
            } else {
                let text = "executed twice in one state, it decides different things";
                self.fault(Law::Function, state, call, text.to_owned());
            }
        }
        self.executions += 2;
        let granted = first.ok().map(|execution| {
            self.check_execution(state, call, &execution);
            self.outcome_id(call, execution)
        });
        self.states[state.0 as usize].executed[call.0 as usize] =
            granted.map_or(Executed::Refused, Executed::Granted);
        granted
    }

    fn check_execution(&mut self, state: StateId, call: CallId, execution: &Execution<T::Effect>) {
        let method = T::method(self.op(call));
        if let (Access::Read, Some(effect)) = (method.access, &execution.effect) {
            let text = format!("{} is said to read, and has the effect {effect:?}", method.name);
            self.fault(Law::Reading, state, call, text);
        }
        if !method.returns && execution.reply != Reply::Ok {
            let text = format!("{} is said to return nothing, and answers {}", method.name, execution.reply);
            self.fault(Law::Void, state, call, text);
        }
    }

    fn apply_first(&mut self, state: StateId, outcome: OutcomeId) -> Option<StateId> {
        let effect = self.execution(outcome).effect.clone().expect("without an effect nothing is applied");
        let mut content = self.content(state).clone();
        self.executions += 1;
        let inverse = carry_out::<T>(&mut content, effect);
        let after = inverse.map(|inverse| {
            let mut undone = content.clone();
            let finished = carry_out::<T>(&mut undone, inverse.clone()).is_some();
            if !finished || undone != *self.content(state) {
                let left = if finished { format!("leaves {undone:?}") } else { "panics".to_owned() };
                let text = format!("its effect leaves {content:?}; the inverse {inverse:?} then {left}");
                self.fault(Law::Inverse, state, self.call_of(outcome), text);
            }
            self.state_id(content)
        });
        self.applied.insert((state, outcome), after);
        after
    }

    fn outcome_id(&mut self, call: CallId, execution: Execution<T::Effect>) -> OutcomeId {
        let print = Print::of(&(&execution.reply, &execution.effect));
        let known = self.outcome_index.entry((call, print.line)).or_default();
        let outcomes = &mut self.outcomes;
        if let Some(id) = known.iter().find(|id| outcomes[id.0 as usize].execution == execution) {
            return *id;
        }
        let id = OutcomeId(outcomes.len() as u32);
        known.push(id);
        outcomes.push(Outcome { call, execution });
        id
    }

    fn state_id(&mut self, content: T::State) -> StateId {
        let print = Print::of(&content);
        let known = self.state_index.entry(print.bag).or_default();
        let found = known.iter().find(|id| self.states[id.0 as usize].content == content).copied();
        if let Some(id) = found {
            if !self.states[id.0 as usize].texts.contains(&print.line) {
                self.states[id.0 as usize].texts.push(print.line);
                self.check_equal(id, &content);
            }
            return id;
        }
        let id = StateId(self.states.len() as u32);
        known.push(id);
        self.states.push(Known {
            room: T::room(&content),
            executed: vec![Executed::Unknown; self.calls.len()].into(),
            texts: SmallVec::from_slice(&[print.line]),
            content,
        });
        id
    }

    /// A state that equals a known one, and is written differently, answers everything alike.
    fn check_equal(&mut self, known: StateId, content: &T::State) {
        for op in 0..self.operations.len() {
            let call = self.call(op, 0);
            let here = self.ask(content, call, self.calls[call.0 as usize].unique).ok();
            let there = self.execute(known, call).map(|outcome| &self.execution(outcome).reply);
            if here.as_ref().map(|execution| &execution.reply) != there {
                let text = format!("{content:?} equals this state, and answers otherwise");
                self.fault(Law::Function, known, call, text);
            }
        }
    }

    fn fault(&mut self, law: Law, state: StateId, call: CallId, difference: String) {
        let counterexample = Counterexample {
            law,
            pending: 1,
            steps: 1,
            state: format!("{:?}", self.content(state)),
            history: vec![format!("T1 executes {}", naming::operation::<T>(self.op(call)))],
            orders: Vec::new(),
            difference,
        };
        // A number that was not handed out may be behind it: that is settled first.
        self.stop.get_or_insert_with(|| Stop::Refused(Box::new(counterexample)));
    }
}

/// An absent record is the default one, as in the store.
fn settle<T: DataType>(state: &mut T::State) {
    if T::is_absent(state) {
        *state = T::State::default();
    }
}

/// Applies an effect as the store does; `None` when it panics.
fn carry_out<T: DataType>(state: &mut T::State, effect: T::Effect) -> Option<T::Effect> {
    let inverse = catch_unwind(AssertUnwindSafe(|| T::apply(state, effect))).ok()?;
    settle::<T>(state);
    Some(inverse)
}

/// Two hashes of a debug text: of its bytes in any order, and of the text itself.
struct Print {
    bag: u64,
    line: u64,
}

impl Print {
    fn of(value: &impl Debug) -> Self {
        let mut print = Print { bag: 0, line: 0 };
        write!(print, "{value:?}").expect("hashing a text does not fail");
        print
    }
}

impl Write for Print {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        for byte in text.bytes() {
            let spread = (u64::from(byte) + 1).wrapping_mul(ODD);
            self.bag = self.bag.wrapping_add((spread ^ (spread >> 29)).wrapping_mul(ODD));
            self.line = (self.line.rotate_left(7) ^ spread).wrapping_mul(ODD);
        }
        Ok(())
    }
}
