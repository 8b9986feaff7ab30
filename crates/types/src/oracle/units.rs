//! What owners have pending, each under a number, and the steps by which it came to be.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::orders::Unit;
use super::state_space::OutcomeId;

/// The number of a [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct UnitId(u32);

/// All units that were met, each once.
#[derive(Default)]
pub(super) struct Units {
    list: Vec<Unit>,
    index: HashMap<Unit, UnitId, FixedState>,
}

impl Units {
    /// The unit with this number.
    pub(super) fn get(&self, unit: UnitId) -> &Unit {
        &self.list[unit.0 as usize]
    }

    /// The number of a unit, a new one if it was not met.
    pub(super) fn id(&mut self, unit: Unit) -> UnitId {
        let next = UnitId(self.list.len() as u32);
        let id = *self.index.entry(unit.clone()).or_insert(next);
        if id == next {
            self.list.push(unit);
        }
        id
    }

    /// The unit with another outcome behind its own.
    pub(super) fn extended(&mut self, unit: UnitId, outcome: OutcomeId) -> UnitId {
        let mut longer = self.get(unit).clone();
        longer.push(outcome);
        self.id(longer)
    }
}

/// One step of a history.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// None yet: the example state.
    Start,
    /// An operation of a new owner is granted.
    Grant(UnitId),
    /// An owner's next operation is granted.
    Extend { from: UnitId, to: UnitId },
    /// A read takes its answer from an owner's last operation.
    Combine { from: UnitId, to: UnitId },
    /// An owner's effects are applied and its claims released.
    Apply(UnitId),
    /// An owner's claims are released.
    Abort(UnitId),
}
