//! The configurations of the ways to commit.

use super::plan::Plan;

macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// As far as a test has time for them.
        pub(crate) fn small() -> Vec<Plan> {
            let all: Vec<Vec<Plan>> = vec![$($way::small(),)*];
            all.concat()
        }

        /// Those that take longer.
        pub(crate) fn large() -> Vec<Plan> {
            let all: Vec<Vec<Plan>> = vec![$($way::large(),)*];
            all.concat()
        }

        /// Their bugs, and where the search finds each.
        pub(crate) fn broken() -> Vec<Plan> {
            let all: Vec<Vec<Plan>> = vec![$($way::broken(),)*];
            all.concat()
        }
    };
}

claret_core::each_way!(rooms);
