//! The ways to commit that can be taken out: a folder for each.

use claret_sim::{Config, Totals};

macro_rules! rooms {
    ($($kind:ident $way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// Hundreds of seeds have met what is of each way.
        pub(crate) fn assert_met(totals: &Totals) {
            let _ = totals; // Where there is no way.
            $($way::assert_met(totals);)*
        }

        /// Whether a way is switched on in a run.
        pub(crate) const ARE_ON: &[fn(&Config) -> bool] = &[$($way::is_on,)*];
    };
}

claret_core::each_way!(rooms);
