//! The built-in types, as a list: what prompts, help, documentation, the oracle and the wire are made from.
//!
//! The order is that of the wire: an operation travels as the index of its type here and that of its method in
//! the type's `METHODS`. So types and methods are only ever added, at the end; anything else is another version
//! of the wire. Where several types have an operation of one name (GET), the first type is the one meant unless
//! something says otherwise.

use crate::oracle::Check;
use crate::{
    BoundedCounter, Counter, Dict, FloatCounter, List, Register, ScoredSet, Set, SummaryBag, TopK, TypeInfo,
    UidGenerator,
};

macro_rules! builtin {
    ($count:literal: $($kind:ident),*) => {
        /// All built-in types, in the order of the wire.
        pub const BUILTIN: [&TypeInfo; $count] = [$(TypeInfo::of::<$kind>()),*];

        /// Their checks.
        pub(crate) const CHECKS: &[Check] = &[$(Check::of::<$kind>()),*];
    };
}

builtin![11: Register, Counter, FloatCounter, BoundedCounter, Set, Dict, ScoredSet, TopK, SummaryBag, List, UidGenerator];

/// All built-in types.
pub fn builtin_types() -> &'static [&'static TypeInfo] {
    &BUILTIN
}
