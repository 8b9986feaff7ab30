//! What a built-in type says besides [`DataType`](crate::DataType) ([`BuiltIn`]): how a server keeps its records, and how they are
//! described.

use crate::{Bytes, Examples, OpError};

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
