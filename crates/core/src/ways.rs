//! The ways to commit that can be taken out.
//!
//! The protocol is two rounds. A *way* is another course that a commit can take. A way is a room: a folder named after it on each side,
//! and one line in [`each_way!`](crate::each_way), which is the only place that names all ways. Here stands what both sides share of a
//! way: its words on the wire, its number, and how it is switched on.
//!
//! The protocol asks a way of a round through two interfaces, [`coordinator::ways`](crate::coordinator) and [`shard::ways`](crate::shard).
//! What a way does not say is as in two rounds. A client asks a way that has its transactions through another one,
//! [`client::ways`](crate::client).

/// Expands a macro with the list of the ways: the name of the folder, and of the type that each folder has on each side. First those
/// that change the round of an attempt, at its coordinator and its shards; then those that have all transactions of a client process,
/// and change what an attempt is of.
///
/// A way is taken out by deleting its line here, and the folders of its name.
#[macro_export]
macro_rules! each_way {
    ($expand:ident) => {
        $expand! {
            round chain: Chain;
            process combined: Combined;
        }
    };
}

/// What all sides know of the ways.
macro_rules! rooms {
    ($(round $round:ident: $Round:ident;)* $(process $process:ident: $Process:ident;)*) => {
        $(pub mod $round;)*
        $(pub mod $process;)*

        /// Which transactions go in which way. By default all go in two rounds.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct WaySwitches {
            $(
                /// See the folder.
                pub $round: $round::Switch,
            )*
            $(
                /// See the folder.
                pub $process: $process::Switch,
            )*
        }

        impl WaySwitches {
            /// All go in two rounds.
            pub const ROUNDS: WaySwitches = WaySwitches {
                $($round: $round::Switch::NEVER,)*
                $($process: $process::Switch::NEVER,)*
            };

            /// What is compared with two rounds, each by its name: one way of a round alone.
            pub fn of_rounds() -> Vec<(&'static str, WaySwitches)> {
                let all: &[&[(&'static str, WaySwitches)]] = &[$($round::NAMED,)*];
                all.concat()
            }

            /// The same of the ways that have all transactions of a process.
            pub fn of_processes() -> Vec<(&'static str, WaySwitches)> {
                let all: &[&[(&'static str, WaySwitches)]] = &[$($process::NAMED,)*];
                all.concat()
            }
        }
    };
}

each_way!(rooms);
