//! What the coordinator asks the ways to commit (`crate::ways`).

use std::fmt::Debug;

/// Its part of a way, for one attempt. What a way does not say is as in two rounds.
#[expect(dead_code, reason = "the protocol does not ask yet")]
pub(super) trait Way: Clone + Debug + Default {
    /// Something is about to leave: prepares, prepares again, or the decision. What leaves instead of what two rounds send.
    fn sends(&mut self) {}

    /// A response came. Whether that was all that it meant.
    fn hears(&mut self) -> bool {
        false
    }
}

/// The modules of the ways, and their parts of one coordinator.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// The parts of all ways, for one attempt.
        #[derive(Clone, Debug, Default)]
        #[expect(dead_code, reason = "the protocol does not ask yet")]
        pub(super) struct Ways {
            $($way: $way::$Way,)*
        }
    };
}

crate::each_way!(rooms);
