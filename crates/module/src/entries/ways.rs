//! The ways to commit: what `INFO claret` says of each.

use super::info::Field;

macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// The numbers of all ways.
        pub(super) const FIELDS: &[&[Field]] = &[$($way::FIELDS,)*];
    };
}

claret_core::each_way!(rooms);
