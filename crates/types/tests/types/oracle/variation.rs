//! A right type and one change to it: so the wrong types of the oracle's tests state only their mistake.

use std::marker::PhantomData;

use claret_types::{
    Arguments, Bytes, Claims, DataType, Examples, Execution, Few, Method, Modes, OpError, Reply, Room, Unique,
};

type State<V> = <<V as Variation>::Base as DataType>::State;
type Op<V> = <<V as Variation>::Base as DataType>::Op;
type Effect<V> = <<V as Variation>::Base as DataType>::Effect;

/// What differs from `Base`: nothing, unless overridden.
pub(crate) trait Variation: Sized + Send + Sync + 'static {
    type Base: Examples;
    const MODES: Modes = <Self::Base as DataType>::MODES;

    fn footprint(op: &Op<Self>) -> Claims {
        Self::Base::footprint(op)
    }

    fn is_total(op: &Op<Self>) -> bool {
        Self::Base::is_total(op)
    }

    fn is_lasting(op: &Op<Self>) -> bool {
        Self::Base::is_lasting(op)
    }

    fn is_blind(op: &Op<Self>) -> bool {
        Self::Base::is_blind(op)
    }

    fn arguments(op: &Op<Self>) -> Few<Bytes> {
        Self::Base::arguments(op)
    }

    fn execute(
        state: &State<Self>,
        op: &Op<Self>,
        unique: Unique,
    ) -> Result<Execution<Effect<Self>>, OpError> {
        Self::Base::execute(state, op, unique)
    }

    fn apply(state: &mut State<Self>, effect: Effect<Self>) -> Effect<Self> {
        Self::Base::apply(state, effect)
    }

    fn combine(held: &Op<Self>, answer: &Reply, op: &Op<Self>) -> Option<Reply> {
        Self::Base::combine(held, answer, op)
    }
}

/// The type that a variation makes.
pub(crate) struct Varied<V>(PhantomData<V>);

/// Changes nothing.
pub(crate) struct Unchanged<T>(PhantomData<T>);

impl<T: Examples> Variation for Unchanged<T> {
    type Base = T;
}

impl<V: Variation> DataType for Varied<V> {
    const NAME: &'static str = "varied";
    const SUMMARY: &'static str = V::Base::SUMMARY;
    const NATIVE: &'static str = V::Base::NATIVE;
    const MODES: Modes = V::MODES;
    const METHODS: &'static [Method] = V::Base::METHODS;

    type State = State<V>;
    type Op = Op<V>;
    type Effect = Effect<V>;

    fn parse(method: &str, arguments: Arguments<'_>) -> Result<Op<V>, OpError> {
        V::Base::parse(method, arguments)
    }

    fn method(op: &Op<V>) -> &'static Method {
        V::Base::method(op)
    }

    fn arguments(op: &Op<V>) -> Few<Bytes> {
        V::arguments(op)
    }

    fn is_absent(state: &State<V>) -> bool {
        V::Base::is_absent(state)
    }

    fn footprint(op: &Op<V>) -> Claims {
        V::footprint(op)
    }

    fn is_total(op: &Op<V>) -> bool {
        V::is_total(op)
    }

    fn is_lasting(op: &Op<V>) -> bool {
        V::is_lasting(op)
    }

    fn is_blind(op: &Op<V>) -> bool {
        V::is_blind(op)
    }

    fn execute(state: &State<V>, op: &Op<V>, unique: Unique) -> Result<Execution<Effect<V>>, OpError> {
        V::execute(state, op, unique)
    }

    fn room(state: &State<V>) -> Room {
        V::Base::room(state)
    }

    fn apply(state: &mut State<V>, effect: Effect<V>) -> Effect<V> {
        V::apply(state, effect)
    }

    fn combine(held: &Op<V>, answer: &Reply, op: &Op<V>) -> Option<Reply> {
        V::combine(held, answer, op)
    }
}

impl<V: Variation> Examples for Varied<V> {
    fn states() -> Vec<State<V>> {
        V::Base::states()
    }

    fn operations() -> Vec<Op<V>> {
        V::Base::operations()
    }
}
