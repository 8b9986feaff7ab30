//! The list of all built-in types, with operations on records of any type, made of [`with_types!`](crate::with_types). Prompts, help,
//! documentation, the wire and the log use it.
//!
//! An operation travels as the place of its type in [`BUILTIN`] and that of its method in the type's `METHODS`. So add types
//! and methods only at the end; any other change makes another version of the wire. Where several types have an operation of
//! the same name (GET), the first type is meant unless something says otherwise.

use crate::TypeInfo;
use crate::keyspace::KEYSPACE;

macro_rules! list {
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
    };
}

crate::with_types!(list);

/// All built-in types.
pub fn builtin_types() -> &'static [&'static TypeInfo] {
    &BUILTIN
}
