//! The ways to commit that can be taken out.
//!
//! The protocol is two rounds. A *way* is another course that a commit can take. A way is a room: a folder named after it on each side,
//! and one line in [`each_way!`](crate::each_way), which is the only place that names all ways. Here stands what both sides share of a
//! way: its words on the wire and their number, how it is switched on, and the bugs that tests plant in it.
//!
//! The protocol asks a way through three small interfaces: `coordinator/ways.rs`, `shard/ways.rs`, and `lock/ways.rs` in the lock table.
//! What a way does not say is as in two rounds.

/// Expands a macro with the list of the ways: the name of the folder, and of the type that each folder has on each side.
///
/// A way is taken out by deleting its line here, and the folders of its name.
#[macro_export]
macro_rules! each_way {
    ($expand:ident) => {
        $expand! {
            chain: Chain;
        }
    };
}

/// What all sides know of the ways.
macro_rules! rooms {
    ($($way:ident: $Way:ident;)*) => {
        $(pub mod $way;)*

        /// Which transactions go in which way. By default all go in two rounds.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct WaySwitches {
            $(
                /// See the folder.
                pub $way: $way::Switch,
            )*
        }

        impl WaySwitches {
            /// The combinations that figures need, by their names.
            pub const NAMED: &[&[Named]] = &[$($way::NAMED,)*];
            /// All go in two rounds.
            pub const ROUNDS: WaySwitches = WaySwitches { $($way: $way::Switch::NEVER,)* };
            /// Each takes all that it can.
            pub const ALL: WaySwitches = WaySwitches { $($way: $way::Switch::ALWAYS,)* };
        }
    };
}

each_way!(rooms);

/// A combination that a figure needs.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// As it is called everywhere.
    pub name: &'static str,
    /// Which one.
    pub ways: WaySwitches,
}

impl WaySwitches {
    /// The combination of this name.
    pub fn named(name: &str) -> Option<WaySwitches> {
        Self::NAMED.iter().copied().flatten().find(|named| named.name == name).map(|named| named.ways)
    }
}
