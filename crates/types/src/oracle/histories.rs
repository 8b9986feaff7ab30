//! Enumerates histories of grants, extensions, combinations, applies and aborts, and checks every configuration that
//! they reach, once.
//!
//! Invariants: a node's steps are the fewest known to reach it, and its parent has fewer; the lock holds what is
//! pending in the configuration under examination; all nodes of n operations within the depth are checked before the
//! first of n + 1.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use smallvec::SmallVec;

use super::bounds::Bounds;
use super::explanation;
use super::orders::{Unit, walk};
use super::report::Stop;
use super::state_space::{CallId, OutcomeId, StateId, StateSpace};
use super::units::{Step, UnitId, Units};
use crate::data_type::{DataType, Examples};
use crate::{Claims, Held};

/// How far the enumeration came.
pub(super) struct Progress {
    /// Configurations checked.
    pub(super) configurations: u64,
    /// Orders walked.
    pub(super) cases: u64,
    /// Sets of up to this many operations are done.
    pub(super) complete: usize,
}

/// What is pending, in ascending order.
type Pending = SmallVec<[UnitId; 4]>;

#[derive(Clone, PartialEq)]
struct Configuration {
    state: StateId,
    /// How many numbers were handed out.
    serial: u8,
    pending: Pending,
}

struct Node {
    configuration: Configuration,
    steps: u8,
    operations: u8,
    checked: bool,
    parent: u32,
    step: Step,
}

/// See the module's text.
pub(super) struct Histories<'w, T: DataType> {
    space: &'w mut StateSpace<T>,
    bounds: Bounds,
    units: Units,
    nodes: Vec<Node>,
    index: HashTable<u32>,
    /// Nodes to look at, by steps.
    queue: Vec<Vec<u32>>,
    lock: Held,
    locked: Pending,
    progress: Progress,
}

impl<'w, T: Examples> Histories<'w, T> {
    /// Nothing enumerated yet.
    pub(super) fn new(space: &'w mut StateSpace<T>, bounds: Bounds) -> Self {
        Histories {
            space,
            bounds,
            units: Units::default(),
            nodes: Vec::new(),
            index: HashTable::new(),
            queue: (0..=bounds.depth).map(|_| Vec::new()).collect(),
            lock: Held::default(),
            locked: Pending::new(),
            progress: Progress { configurations: 0, cases: 0, complete: 0 },
        }
    }

    /// How far it came.
    pub(super) fn progress(self) -> Progress {
        self.progress
    }

    /// Enumerates everything within the bounds.
    pub(super) fn run(&mut self) -> Result<(), Stop> {
        for state in self.space.examples() {
            let start = Configuration { state, serial: 0, pending: Pending::new() };
            self.reach(start, 0, 0, Step::Start);
        }
        for most in 1..=self.bounds.pending {
            for at in 0..self.nodes.len() {
                if most > 1 && usize::from(self.nodes[at].operations) == most - 1 {
                    self.queue[usize::from(self.nodes[at].steps)].push(at as u32);
                }
            }
            if !self.drain(most)? {
                return Ok(());
            }
            self.progress.complete = most;
        }
        Ok(())
    }

    /// Looks at all that is queued, with up to `most` operations pending. Whether the cases sufficed.
    fn drain(&mut self, most: usize) -> Result<bool, Stop> {
        for steps in 0..self.queue.len() {
            let mut at = 0;
            while at < self.queue[steps].len() {
                let node = self.queue[steps][at];
                at += 1;
                if usize::from(self.nodes[node as usize].steps) != steps {
                    continue;
                }
                if !self.nodes[node as usize].checked {
                    if self.progress.cases >= self.bounds.cases {
                        return Ok(false);
                    }
                    self.check(node)?;
                }
                if steps < self.bounds.depth {
                    self.expand(node, most);
                }
                self.space.stop()?;
            }
            self.queue[steps].clear();
        }
        Ok(true)
    }

    fn check(&mut self, at: u32) -> Result<(), Stop> {
        let node = &mut self.nodes[at as usize];
        node.checked = true;
        let Configuration { state, ref pending, .. } = node.configuration;
        if pending.is_empty() {
            return Ok(());
        }
        let units: SmallVec<[&Unit; 4]> = pending.iter().map(|unit| self.units.get(*unit)).collect();
        let walked = walk(self.space, state, &units);
        self.space.stop()?;
        match walked {
            Ok(cases) => {
                self.progress.configurations += 1;
                self.progress.cases += cases;
                Ok(())
            }
            Err(disagreement) => {
                let (start, steps) = self.history(at);
                let told =
                    explanation::not_commuting(self.space, &self.units, start, &steps, state, &disagreement);
                Err(Stop::Refused(Box::new(told)))
            }
        }
    }

    /// The example state and the steps that lead to a node.
    fn history(&self, at: u32) -> (StateId, Vec<Step>) {
        let mut steps = Vec::new();
        let mut node = &self.nodes[at as usize];
        while node.steps > 0 {
            steps.push(node.step);
            node = &self.nodes[node.parent as usize];
        }
        steps.reverse();
        (node.configuration.state, steps)
    }

    fn expand(&mut self, at: u32, most: usize) {
        let configuration = self.nodes[at as usize].configuration.clone();
        let may_grow = usize::from(self.nodes[at as usize].operations) < most;
        if may_grow {
            self.hold(&configuration.pending);
            self.grant(at, &configuration);
        }
        for (position, &unit) in configuration.pending.iter().enumerate() {
            if position > 0 && configuration.pending[position - 1] == unit {
                continue;
            }
            if may_grow && self.units.get(unit).len() < self.bounds.own {
                self.extend(at, &configuration, position);
            }
            self.finish(at, &configuration, position);
        }
    }

    fn grant(&mut self, at: u32, from: &Configuration) {
        let room = self.space.room(from.state);
        for op in 0..self.space.operations() {
            let call = self.space.call(op, usize::from(from.serial));
            let Some(outcome) = self.space.execute(from.state, call) else { continue };
            let claims = &self.space.execution(outcome).claims;
            if self.lock.admits(&T::MODES, claims, room, std::iter::empty()) {
                let unit = self.units.id(Unit::from_slice(&[outcome]));
                let next = from.with(unit, self.space.is_numbered(op));
                self.reach(next, at, self.nodes[at as usize].steps + 1, Step::Grant(unit));
            }
        }
    }

    /// Gives the owner at `position` another operation, executed on its overlay, or lets a read combine with
    /// its last.
    fn extend(&mut self, at: u32, from: &Configuration, position: usize) {
        let unit = from.pending[position];
        let Some(overlay) = self.effects(from.state, unit) else { return };
        let room = self.space.room(overlay);
        let last = *self.units.get(unit).last().expect("a unit has an operation");
        let steps = self.nodes[at as usize].steps + 1;
        for op in 0..self.space.operations() {
            let call = self.space.call(op, usize::from(from.serial));
            let numbered = self.space.is_numbered(op);
            if let Some(outcome) = self.admitted_to(overlay, room, unit, call) {
                let to = self.units.extended(unit, outcome);
                self.reach(
                    from.without(position).with(to, numbered),
                    at,
                    steps,
                    Step::Extend { from: unit, to },
                );
            }
            if let Some(outcome) = self.space.combine(last, call) {
                let to = self.units.extended(unit, outcome);
                self.reach(
                    from.without(position).with(to, numbered),
                    at,
                    steps,
                    Step::Combine { from: unit, to },
                );
            }
        }
    }

    /// What a call decides on an owner's overlay, if what the others hold admits its claims.
    fn admitted_to(
        &mut self,
        overlay: StateId,
        room: crate::Room,
        unit: UnitId,
        call: CallId,
    ) -> Option<OutcomeId> {
        let outcome = self.space.execute(overlay, call)?;
        let own: SmallVec<[&Claims; 4]> =
            self.units.get(unit).iter().map(|held| &self.space.execution(*held).claims).collect();
        let claims = &self.space.execution(outcome).claims;
        self.lock.admits(&T::MODES, claims, room, own.iter().copied()).then_some(outcome)
    }

    /// Applies or aborts the owner at `position`.
    fn finish(&mut self, at: u32, from: &Configuration, position: usize) {
        let unit = from.pending[position];
        let steps = self.nodes[at as usize].steps + 1;
        let aborted = from.without(position);
        if let Some(state) = self.effects(from.state, unit) {
            let applied = Configuration { state, ..aborted.clone() };
            self.reach(applied, at, steps, Step::Apply(unit));
        }
        self.reach(aborted, at, steps, Step::Abort(unit));
    }

    /// The state after an owner's recorded effects; `None` when one panics, which its check has shown.
    fn effects(&mut self, mut state: StateId, unit: UnitId) -> Option<StateId> {
        for &outcome in self.units.get(unit) {
            state = self.space.apply(state, outcome)?;
        }
        Some(state)
    }

    /// Makes the lock hold what is pending: releases what it held, grants anew.
    fn hold(&mut self, pending: &Pending) {
        for &unit in &self.locked {
            for &outcome in self.units.get(unit) {
                self.lock.remove(&self.space.execution(outcome).claims);
            }
        }
        assert!(self.lock.is_empty(), "a lock is empty once everything is released");
        for &unit in pending {
            for &outcome in self.units.get(unit) {
                self.lock.add(&self.space.execution(outcome).claims);
            }
        }
        self.locked.clone_from(pending);
    }

    /// Notes that `steps` lead to a configuration, and queues it if they are the fewest so far.
    fn reach(&mut self, configuration: Configuration, parent: u32, steps: u8, step: Step) {
        if usize::from(steps) > self.bounds.depth {
            return;
        }
        let hash = configuration.hash();
        let nodes = &mut self.nodes;
        let known = self.index.find(hash, |at| nodes[*at as usize].configuration == configuration).copied();
        let at = match known {
            Some(at) => {
                let node = &mut nodes[at as usize];
                if node.steps <= steps {
                    return;
                }
                (node.parent, node.steps, node.step) = (parent, steps, step);
                at
            }
            None => {
                let at = nodes.len() as u32;
                let operations =
                    configuration.pending.iter().map(|unit| self.units.get(*unit).len()).sum::<usize>() as u8;
                nodes.push(Node { configuration, steps, operations, checked: false, parent, step });
                self.index.insert_unique(hash, at, |at| nodes[*at as usize].configuration.hash());
                at
            }
        };
        self.queue[usize::from(steps)].push(at);
    }
}

impl Configuration {
    fn hash(&self) -> u64 {
        FixedState::with_seed(0).hash_one((self.state, self.serial, &self.pending))
    }

    fn with(&self, unit: UnitId, numbered: bool) -> Self {
        let mut next = self.clone();
        next.pending.insert(next.pending.partition_point(|other| *other <= unit), unit);
        next.serial += u8::from(numbered);
        next
    }

    fn without(&self, position: usize) -> Self {
        let mut next = self.clone();
        next.pending.remove(position);
        next
    }
}
