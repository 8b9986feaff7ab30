//! The built-in types that records have, each as a row with the type forgotten: for whoever has a record and not its type.

use crate::builtin::{BuiltIn, Native};
use crate::{Bytes, Effect, OpError, Operation, State, TypeInfo};

/// A built-in type as a row of the registry, with the type forgotten.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) info: &'static TypeInfo,
    pub(crate) described_as: &'static str,
    reads_all: &'static [&'static str],
    pub(crate) examples: fn() -> Vec<Operation>,
    /// This and the next ones: `None` of a record that is not of the type.
    pub(crate) native: fn(&State) -> Option<Native>,
    pub(crate) words: fn(&State) -> Option<Vec<Bytes>>,
    pub(crate) elements: fn(&State) -> Option<usize>,
    pub(crate) bytes: fn(&State) -> Option<usize>,
    pub(crate) part: fn(&State, &Operation, &[&Effect]) -> Option<State>,
    /// `None` if no record has so many words.
    pub(crate) of_words: fn(&[Bytes]) -> Result<Option<State>, OpError>,
}

impl Row {
    const fn of<T: BuiltIn>() -> Row {
        Row {
            info: TypeInfo::of::<T>(),
            described_as: T::DESCRIBED_AS,
            reads_all: T::READS_ALL,
            examples: || T::operations().into_iter().map(Operation::new::<T>).collect(),
            native: |state| state.downcast::<T>().map(T::native),
            words: |state| {
                let words = T::words(state.downcast::<T>()?);
                Some([Bytes::from(T::DESCRIBED_AS)].into_iter().chain(words).collect())
            },
            elements: |state| state.downcast::<T>().map(T::elements),
            bytes: |state| state.downcast::<T>().map(T::bytes),
            part: |whole, op, own| {
                let own: Option<Vec<&T::Effect>> = own.iter().map(|effect| effect.downcast::<T>()).collect();
                Some(State::new::<T>(T::part(whole.downcast::<T>()?, op.downcast::<T>()?, &own?)))
            },
            of_words: |words| Ok(T::of_words(words)?.map(State::new::<T>)),
        }
    }

    /// Whether its records are described by its own name.
    pub(crate) fn is_described_by_itself(&self) -> bool {
        self.described_as == self.info.name
    }
}

macro_rules! rows {
    ($($place:literal $kind:ident),* $(,)?) => {
        /// Those that records have, streams among them, which have no operations.
        pub(crate) const ROWS: &[Row] = &[$(Row::of::<crate::$kind>(),)* Row::of::<crate::Stream>()];
    };
}

crate::with_types!(rows);

/// The built-in types that records have, each with the operations of its [`Examples`](crate::Examples).
pub fn builtin_examples() -> impl Iterator<Item = (&'static TypeInfo, Vec<Operation>)> {
    ROWS.iter().filter(|row| !row.info.methods.is_empty()).map(|row| (row.info, (row.examples)()))
}

impl TypeInfo {
    /// The operation that answers all of a record of this type; `None` if none does.
    pub fn reads_all(&self) -> Option<Operation> {
        let row = ROWS.iter().find(|row| row.info.id == self.id)?;
        let (name, rest) = row.reads_all.split_first()?;
        let rest: Vec<Bytes> = rest.iter().map(|word| Bytes::from(*word)).collect();
        (self.parse)(name, &rest).ok()
    }
}

impl State {
    /// The value of a server that the record is; `None` of a type that is not built in.
    pub fn native(&self) -> Option<Native> {
        ROWS.iter().find_map(|row| (row.native)(self))
    }

    /// The smallest part of a record that its type allows ([`BuiltIn::part`]), with the expiry. All of it where types are mixed,
    /// and of a type that is not built in.
    #[must_use]
    pub fn part(&self, op: &Operation, own: &[&Effect]) -> State {
        let part = ROWS.iter().find_map(|row| (row.part)(self, op, own)).unwrap_or_else(|| self.clone());
        part.expiring(self.expiry())
    }
}
