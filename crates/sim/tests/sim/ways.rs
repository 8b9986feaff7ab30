//! What tests know of the ways to commit.

use claret_sim::Totals;

#[cfg(feature = "planted-bugs")]
use crate::planted::Scripted;

macro_rules! rooms {
    ($($kind:ident $way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// Hundreds of seeds have met what is of each way.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn assert_met(totals: &Totals) {
            $($way::assert_met(totals);)*
        }

        /// Bugs that scripts show, as those of two rounds.
        #[cfg(feature = "planted-bugs")]
        pub(crate) const SCRIPTED: &[&[Scripted]] = &[$($way::SCRIPTED,)*];
    };
}

claret_core::each_way!(rooms);
