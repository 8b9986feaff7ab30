//! What the shard asks the ways to commit (`crate::ways`).

use std::fmt::Debug;

/// Its part of a way, for all attempts. What a way does not say is as in two rounds.
#[expect(dead_code, reason = "the protocol does not ask yet")]
pub(super) trait Way: Clone + Debug + Default {
    /// A prepare has come that bears a word of this way.
    fn prepares(&mut self) {}

    /// The client is about to hear that a prepare waits, or the vote. Whether it does.
    fn votes(&mut self) -> bool {
        true
    }

    /// An attempt is decided here, or is told to be carried out. Whether it is carried out now.
    fn decides(&mut self) -> bool {
        true
    }

    /// Another shard says something, or an attempt is over.
    fn hears(&mut self) {}

    /// Goes on with an attempt that waited for the way. Whether there was one.
    fn goes_on(&mut self) -> bool {
        false
    }

    /// When there is something to do.
    fn due(&self) -> Option<crate::ids::Time> {
        None
    }

    /// # Panics
    /// When an invariant does not hold.
    fn check(&self) {}
}

/// The modules of the ways, and their parts of one shard.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// The parts of all ways.
        #[derive(Clone, Debug, Default)]
        #[expect(dead_code, reason = "the protocol does not ask yet")]
        pub(super) struct Ways {
            $($way: $way::$Way,)*
        }
    };
}

crate::each_way!(rooms);
