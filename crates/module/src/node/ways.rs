//! The ways to commit: what an operator sets, and what a shard takes.

pub(super) mod ordered;

use claret_core::ways::WaySwitches;

use super::settings::Setting;

macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// The settings of all ways.
        pub(super) static SETTINGS: &[&[&Setting]] = &[$($way::SETTINGS,)*];

        /// Which ways a shard takes, by whether it is of a cluster, and whether its nodes know each other by a secret.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(super) fn switches(is_clustered: bool, has_secret: bool) -> WaySwitches {
            WaySwitches { $($way: $way::switch(is_clustered, has_secret),)* }
        }
    };
}

claret_core::each_way!(rooms);
