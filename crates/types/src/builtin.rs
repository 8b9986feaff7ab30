//! The list of built-in types. Prompts, help, documentation, the oracle and the wire use it.
//!
//! The order is that of the wire: an operation travels as the index of its type here and that of its method in the
//! type's `METHODS`. So add types and methods only at the end; any other change makes another version of the wire.
//! Where several types have an operation of the same name (GET), the first type is meant unless something says
//! otherwise.

use crate::keyspace::KEYSPACE;
use crate::oracle::{Check, Living};
use crate::{
    BoundedCounter, Counter, Dict, Document, FloatCounter, List, Register, ScoredSet, Set, SummaryBag, TopK,
    TypeInfo, UidGenerator,
};

macro_rules! builtin {
    ($count:literal: $($kind:ident),*; $($later:ident),*) => {
        /// All built-in types, in the order of the wire.
        pub const BUILTIN: [&TypeInfo; $count] = [$(TypeInfo::of::<$kind>()),*, &KEYSPACE, $(TypeInfo::of::<$later>()),*];

        /// Their checks, each by itself and with what can be done to records of any type.
        pub(crate) const CHECKS: &[Check] = &[
            $(Check::of::<$kind>(),)* $(Check::of::<$later>(),)*
            $(Check::of::<Living<$kind>>(),)* $(Check::of::<Living<$later>>(),)*
        ];
    };
}

builtin![13: Register, Counter, FloatCounter, BoundedCounter, Set, Dict, ScoredSet, TopK, SummaryBag, List, UidGenerator; Document];

/// All built-in types.
pub fn builtin_types() -> &'static [&'static TypeInfo] {
    &BUILTIN
}
