//! What a type says to be on a server: how its records are read there, and its effects written.

use claret_types::{BuiltIn, Effect, OpError, Operation, State};

use super::{Record, Server};
use crate::ffi::Kind;
use crate::parts::equivalent::Equivalent;

/// A type whose records a server keeps as [`BuiltIn::native`] says. Operations and effects are those of the type.
pub(crate) trait OnServer: BuiltIn {
    /// The kind of keys of which each is such a record; `None` if what is in it has to show.
    const KIND: Option<Kind>;

    /// The whole record; `None` when there is none.
    fn whole(record: &Record<'_, impl Server>) -> Result<Option<State>, OpError>;

    /// The part of a record that an operation needs.
    fn partial_state(
        record: &Record<'_, impl Server>,
        op: &Operation,
        own: &[&Effect],
    ) -> Result<Option<State>, OpError> {
        let _ = (op, own);
        Self::whole(record)
    }

    /// The same for calls one after the other: what so many of the first of them need.
    fn partial_state_for_all(
        record: &Record<'_, impl Server>,
        ops: &[&Operation],
        own: &[&Effect],
    ) -> Result<(Option<State>, usize), OpError> {
        let _ = own;
        Ok((Self::whole(record)?, ops.len()))
    }

    /// Carries effects out.
    fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]);

    /// The plain commands that do the same as a method: the right to run them is the right to it.
    fn equivalent(method: &'static str) -> Equivalent {
        Equivalent::named(method)
    }

    /// How many elements an effect takes out at most.
    fn removes(effect: &Self::Effect) -> usize {
        let _ = effect;
        0
    }
}
