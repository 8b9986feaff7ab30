//! The savepoints of a program (`docs/nesting.md`): it sets them at random places, and rolls back to them at will, in haste (calls are
//! not answered), or because something cannot be done.

use std::collections::BTreeSet;

use claret_core::{CallNo, Place, Time};

use crate::random::Random;
use crate::workload::{Program, RollBack, Step};

/// So many are open at once in a program.
const LEVELS_MAX: usize = 3;

/// The savepoints of a run, and where its calls stand.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    /// Its program has savepoints.
    pub(crate) is_any: bool,
    /// Those that are open, the outermost first.
    pub(crate) levels: Vec<Level>,
    /// The number of the next call at shards.
    next_call: u32,
    /// What cannot be done and is not undone: places in the run's notes.
    pub(crate) fails: BTreeSet<usize>,
    /// When the next step is taken, though calls are not answered.
    pub(crate) hasty_at: Option<Time>,
}

/// A savepoint that is open.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Calls from here on are undone with it: by their places in the run's notes, their numbers, and their places among those that an
    /// optimistic transaction looks at.
    pub(crate) at: usize,
    pub(crate) first: CallNo,
    pub(crate) observed: Place,
}

impl Nesting {
    pub(crate) fn of(program: &Program) -> Nesting {
        let is_any = program.steps.iter().any(|step| matches!(step, Step::Savepoint | Step::Settle));
        Nesting { is_any, ..Nesting::default() }
    }

    /// A call at shards was numbered.
    pub(crate) fn note_call(&mut self, no: CallNo) {
        self.next_call = no.0 + 1;
    }

    /// The number of the next call at shards.
    pub(crate) fn next_call(&self) -> u32 {
        self.next_call
    }

    /// Where the innermost savepoint stands among what is looked at.
    pub(crate) fn innermost(&self) -> Option<Place> {
        self.levels.last().map(|level| level.observed)
    }
}

impl Program {
    /// Adds savepoints, and what is done with them.
    pub(crate) fn nest(&mut self, random: &mut Random) {
        let mut open = 0;
        for step in std::mem::take(&mut self.steps) {
            if open < LEVELS_MAX && random.chance(400) {
                self.steps.push(Step::Savepoint);
                open += 1;
            }
            self.steps.push(step);
            if random.chance(60) {
                self.steps.push(Step::Settle);
            }
            if open > 0 && random.chance(400) {
                let to = random.below(open as u64) as usize;
                let hasty_us = random.chance(500).then(|| *random.pick(&[0, 0, 100, 500, 5_000]));
                let keeps = random.chance(500);
                self.steps.push(Step::RollBack(RollBack { to, hasty_us, keeps }));
                open = to + usize::from(keeps);
            } else if open > 0 && random.chance(100) {
                open = random.below(open as u64) as usize;
                self.steps.push(Step::Release(open));
            }
        }
    }
}
