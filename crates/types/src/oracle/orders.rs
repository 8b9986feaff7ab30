//! Walks every order of the pending operations of one configuration, and reports where one goes wrong.
//!
//! It does two things side by side: it executes and applies one owner after another, and it applies the recorded
//! effects. The first must give each operation the reply it was granted with, and both must leave the same final
//! state.

use smallvec::SmallVec;

use super::state_space::{OutcomeId, StateId, StateSpace};
use crate::data_type::DataType;

/// What one owner has pending: the outcomes of its operations, in its order.
pub(super) type Unit = SmallVec<[OutcomeId; 2]>;

/// Positions in what is pending.
pub(super) type Order = SmallVec<[u8; 8]>;

/// Where an order goes wrong.
#[derive(Debug)]
pub(super) struct Disagreement {
    /// The order, up to and including the owner that went wrong.
    pub(super) order: Order,
    /// What happened there.
    pub(super) what: What,
}

/// What can go wrong.
#[derive(Debug)]
pub(super) enum What {
    /// An operation answers otherwise than when it was granted.
    Reply(OutcomeId),
    /// An operation is an error.
    Error(OutcomeId),
    /// An effect panics, applied after re-execution or as recorded.
    Panic(OutcomeId),
    /// The final state is not that of the first order.
    State,
    /// The recorded effects leave another state than executing in the same order.
    Effects,
}

struct Walk<'w, T: DataType> {
    space: &'w mut StateSpace<T>,
    pending: &'w [&'w Unit],
    used: u32,
    order: Order,
    expected: Option<StateId>,
    cases: u64,
}

/// Walks every order of `pending` from `state`. How many there were, or the first that is wrong. Equal
/// units must stand side by side.
pub(super) fn walk<T: DataType>(
    space: &mut StateSpace<T>,
    state: StateId,
    pending: &[&Unit],
) -> Result<u64, Disagreement> {
    let mut walk = Walk { space, pending, used: 0, order: Order::new(), expected: None, cases: 0 };
    match walk.from(state, state) {
        Ok(()) => Ok(walk.cases),
        Err(what) => Err(Disagreement { order: walk.order, what }),
    }
}

impl<T: DataType> Walk<'_, T> {
    /// Continues every order that starts as `self.order` does; `executed` and `recorded` are the states
    /// that it has led to. On error, `self.order` is the one that is wrong.
    fn from(&mut self, executed: StateId, recorded: StateId) -> Result<(), What> {
        if self.order.len() == self.pending.len() {
            return self.finish(executed, recorded);
        }
        for at in 0..self.pending.len() {
            let twin_waits =
                at > 0 && self.used & (1 << (at - 1)) == 0 && self.pending[at] == self.pending[at - 1];
            if self.used & (1 << at) != 0 || twin_waits {
                continue;
            }
            self.order.push(at as u8);
            self.used |= 1 << at;
            let (executed, recorded) = self.step(self.pending[at], executed, recorded)?;
            self.from(executed, recorded)?;
            self.used &= !(1 << at);
            self.order.pop();
        }
        Ok(())
    }

    fn step(
        &mut self,
        unit: &Unit,
        mut executed: StateId,
        mut recorded: StateId,
    ) -> Result<(StateId, StateId), What> {
        for &granted in unit {
            let call = self.space.call_of(granted);
            let again = self.space.execute(executed, call).ok_or(What::Error(granted))?;
            if again != granted && self.space.execution(again).reply != self.space.execution(granted).reply {
                return Err(What::Reply(granted));
            }
            executed = self.space.apply(executed, again).ok_or(What::Panic(granted))?;
            recorded = self.space.apply(recorded, granted).ok_or(What::Panic(granted))?;
        }
        Ok((executed, recorded))
    }

    fn finish(&mut self, executed: StateId, recorded: StateId) -> Result<(), What> {
        self.cases += 1;
        let expected = *self.expected.get_or_insert(executed);
        if !self.space.same(executed, expected) {
            return Err(What::State);
        }
        if !self.space.same(recorded, expected) {
            return Err(What::Effects);
        }
        Ok(())
    }
}
