//! What goes by the type of a record: how each built-in type is read from a server and written there ([`OnServer`]), and the choice
//! between them.

use claret_types::{BuiltIn, Effect, OpError, Operation, State, TypeInfo};

use super::{Record, Server, keyspace};
use crate::ffi::Kind;
use crate::parts::equivalent::{Equivalent, on_any};
use crate::parts::stored::Stored;

/// A type whose records a server keeps as [`BuiltIn::native`] says. Operations and effects are those of the type.
pub(crate) trait OnServer: BuiltIn {
    /// The kind of keys of which each is such a record; `None` if what is in it has to show.
    const KIND: Option<Kind>;

    /// The operation that answers all of a record, as one types it; empty if none does.
    const READS_ALL: &'static [&'static str];

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

macro_rules! by_type {
    ($($place:literal $type:ident),* $(,)?) => {
        /// [`OnServer::partial_state`].
        pub(super) fn partial_state(
            record: &Record<'_, impl Server>,
            op: &Operation,
            own: &[&Effect],
        ) -> Result<Option<State>, OpError> {
            match Stored::of(op.type_info()) {
                $(Stored::$type => claret_types::$type::partial_state(record, op, own),)*
                // It looks itself, once it may.
                Stored::Plain => Ok(None),
                Stored::Keyspace => unreachable!("it is not about content"),
            }
        }

        /// [`OnServer::partial_state_for_all`].
        pub(super) fn partial_state_for_all(
            record: &Record<'_, impl Server>,
            ops: &[&Operation],
            own: &[&Effect],
        ) -> Result<(Option<State>, usize), OpError> {
            match Stored::of(ops[0].type_info()) {
                $(Stored::$type => claret_types::$type::partial_state_for_all(record, ops, own),)*
                Stored::Plain => Ok((None, 1)),
                Stored::Keyspace => unreachable!("it is not about content"),
            }
        }

        /// [`OnServer::carry_out`], of effects of one type.
        pub(super) fn carry_out(record: &Record<'_, impl Server>, effects: &[&Effect]) {
            match Stored::of(effects[0].type_info()) {
                $(Stored::$type => claret_types::$type::carry_out(record, effects),)*
                Stored::Keyspace => keyspace::apply(record, effects),
                Stored::Plain => unreachable!("a plain command has no effect: it is run"),
            }
        }

        /// [`OnServer::whole`].
        pub(super) fn whole(record: &Record<'_, impl Server>, kind: &TypeInfo) -> Result<Option<State>, OpError> {
            match Stored::of(kind) {
                $(Stored::$type => claret_types::$type::whole(record),)*
                Stored::Keyspace => unreachable!("no content is of this type"),
                Stored::Plain => unreachable!("a plain command has no effects, so none of its record"),
            }
        }

        /// [`OnServer::removes`]; of effects on records of any type none.
        pub(super) fn removes(effect: &Effect) -> usize {
            fn of<T: OnServer>(effect: &Effect) -> usize {
                effect.downcast::<T>().map_or(0, T::removes)
            }
            match Stored::of(effect.type_info()) {
                $(Stored::$type => of::<claret_types::$type>(effect),)*
                Stored::Keyspace | Stored::Plain => 0,
            }
        }

        /// [`OnServer::equivalent`].
        pub(crate) fn equivalent(kind: &TypeInfo, method: &'static str) -> Equivalent {
            match Stored::of(kind) {
                $(Stored::$type => claret_types::$type::equivalent(method),)*
                Stored::Keyspace => on_any(method),
                Stored::Plain => Equivalent::named(method),
            }
        }

        /// [`OnServer::KIND`].
        pub(super) fn kind(stored: Stored) -> Option<Kind> {
            match stored {
                $(Stored::$type => claret_types::$type::KIND,)*
                Stored::Keyspace | Stored::Plain => None,
            }
        }

        /// [`OnServer::READS_ALL`].
        pub(crate) fn reads_all(kind: &TypeInfo) -> &'static [&'static str] {
            match Stored::of(kind) {
                $(Stored::$type => claret_types::$type::READS_ALL,)*
                Stored::Keyspace | Stored::Plain => &[],
            }
        }
    };
}

claret_types::with_types!(by_type);
