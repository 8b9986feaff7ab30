//! The modes of the ways to commit: `boost+phase`, whose transactions commit in another way than in two rounds. They go over a network.

use claret::cluster::ClusterBuilder;
use claret_sim::model::{Mode, WaySwitches};

macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// What servers have to be told for any of these modes.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn server_settings(mode: &str) -> Vec<&'static str> {
            let all: Vec<&[&str]> = vec![$($way::server_settings(mode),)*];
            all.concat()
        }

        /// A store in such a mode.
        #[allow(unused_variables, reason = "there may be no ways")]
        pub(crate) fn set(mode: &str, store: ClusterBuilder) -> ClusterBuilder {
            $(let store = $way::set(mode, store);)*
            store
        }
    };
}

claret_sim::each_way!(rooms);

/// Their names.
pub(crate) fn modes() -> impl Iterator<Item = &'static str> {
    WaySwitches::all_named().map(|(name, _)| name)
}

/// Such a mode in the model.
pub(crate) fn of_model(mode: &str) -> Mode {
    Mode::InWay(WaySwitches::named(mode).unwrap_or_default())
}
