//! What tests know of the ways to commit.

use crate::planted::Scripted;

macro_rules! rooms {
    ($($way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// Bugs that scripts show, as those of two rounds.
        pub(crate) const SCRIPTED: &[&[Scripted]] = &[$($way::SCRIPTED,)*];
    };
}

claret_core::each_way!(rooms);
