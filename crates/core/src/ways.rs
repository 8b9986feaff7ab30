//! The ways to commit that can be taken out.
//!
//! The protocol is two rounds. A *way* is another course that a commit can take. A way is a room: a folder named after it on each side,
//! and one line in [`each_way!`](crate::each_way), which is the only place that names all ways. Here stands what both sides share of a
//! way: its words on the wire, its number, and how it is switched on.
//!
//! The protocol asks a way through two interfaces, [`coordinator::ways`](crate::coordinator) and [`shard::ways`](crate::shard). What a
//! way does not say is as in two rounds.

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

/// The modules of the ways.
macro_rules! rooms {
    ($($way:ident: $Way:ident;)*) => {
        $(pub(crate) mod $way;)*
    };
}

each_way!(rooms);
