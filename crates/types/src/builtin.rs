//! The built-in types: what each says besides [`DataType`](crate::DataType) ([`BuiltIn`]), and the lists made of the registry
//! ([`with_types!`](crate::with_types)). Prompts, help, documentation, the oracle, the wire and the log use them.
//!
//! An operation travels as the place of its type in [`BUILTIN`] and that of its method in the type's `METHODS`. So add types
//! and methods only at the end; any other change makes another version of the wire. Where several types have an operation of
//! the same name (GET), the first type is meant unless something says otherwise.

use crate::keyspace::KEYSPACE;
use crate::oracle::{Check, Living};
use crate::{Bytes, Effect, Examples, OpError, Operation, State, TypeInfo};

/// What a type says to be built in, beside what its operations do: how a server keeps its records, and how they travel.
pub trait BuiltIn: Examples {
    /// Which operations share the lock of a record, in a few words: for the table of types in README.md.
    const SHARING: &'static str;

    /// The type by whose name records with this content are described. Types that share a `State` are described as one of them.
    const DESCRIBED_AS: &'static str = Self::NAME;

    /// The operation that answers all of a record, as one types it behind the key; empty if none does.
    const READS_ALL: &'static [&'static str] = &[];

    /// The value of a server that a record is, whose type is [`DataType::NATIVE`](crate::DataType::NATIVE).
    fn native(state: &Self::State) -> Native;

    /// The words that describe the content of a record, after the name of its type.
    fn words(state: &Self::State) -> Vec<Bytes> {
        Self::native(state).words()
    }

    /// The content that words describe; `None` if no record has so many words. Whoever sends them may be hostile.
    ///
    /// # Errors
    /// They describe no state that the type allows.
    fn of_words(words: &[Bytes]) -> Result<Option<Self::State>, OpError>;

    /// How many elements a record has, if it may have many. O(1).
    fn elements(state: &Self::State) -> usize {
        let _ = state;
        1
    }

    /// How many bytes a record has that is one string. O(1).
    fn bytes(state: &Self::State) -> usize {
        let _ = state;
        0
    }

    /// The smallest part of a record in which `op` executes as in all of it, once `own` are added. All of it, if records are small.
    fn part(whole: &Self::State, op: &Self::Op, own: &[&Self::Effect]) -> Self::State {
        let _ = (op, own);
        whole.clone()
    }
}

/// A record as a server keeps it, and as plain commands read and write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Native {
    /// A string; `None` is no string.
    String(Option<Bytes>),
    /// The values, from the front.
    List(Vec<Bytes>),
    /// The members, in bytewise order.
    Set(Vec<Bytes>),
    /// Fields and their values.
    Hash(Vec<(Bytes, Bytes)>),
    /// Members and their scores.
    Zset(Vec<(Bytes, f64)>),
}

impl Native {
    /// All its words: fields before their values, scores before their members.
    fn words(self) -> Vec<Bytes> {
        match self {
            Native::String(text) => text.into_iter().collect(),
            Native::List(words) | Native::Set(words) => words,
            Native::Hash(pairs) => pairs.into_iter().flat_map(|(field, value)| [field, value]).collect(),
            Native::Zset(pairs) => scored(pairs),
        }
    }
}

/// Scores before their members.
pub(crate) fn scored(pairs: impl IntoIterator<Item = (Bytes, f64)>) -> Vec<Bytes> {
    pairs.into_iter().flat_map(|(member, score)| [crate::arguments::of_float(score), member]).collect()
}

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

macro_rules! lists {
    ($($place:literal $kind:ident),* $(,)?) => {
        /// How many there are, with operations on records of any type.
        const COUNT: usize = [$($place),*].len() + 1;

        /// All built-in types, in the order of the wire.
        pub const BUILTIN: [&TypeInfo; COUNT] = {
            // The place that no type has is that of operations on records of any type.
            let mut all = [&KEYSPACE; COUNT];
            $(all[$place] = TypeInfo::of::<crate::$kind>();)*
            all
        };

        /// Those that records have.
        pub(crate) const ROWS: &[Row] = &[$(Row::of::<crate::$kind>()),*];

        /// Their checks, each by itself and with what can be done to records of any type.
        pub(crate) const CHECKS: &[Check] = &[
            $(Check::of::<crate::$kind>(),)*
            $(Check::of::<Living<crate::$kind>>(),)*
        ];
    };
}

crate::with_types!(lists);

/// All built-in types.
pub fn builtin_types() -> &'static [&'static TypeInfo] {
    &BUILTIN
}

/// The built-in types that records have, each with the operations of its [`Examples`].
pub fn builtin_examples() -> impl Iterator<Item = (&'static TypeInfo, Vec<Operation>)> {
    ROWS.iter().map(|row| (row.info, (row.examples)()))
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
