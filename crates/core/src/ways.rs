//! The ways to commit.
//!
//! The protocol is two rounds. A *way* is another course that a commit can take, and has a folder named after it on each side. `in_turn`,
//! `ordered`, `batch` and `check_only` are the protocol's own. The others can be taken out: each is one line in
//! [`each_way!`](crate::each_way), which is the only place that names them. Here stands what the sides share of a way: its words on the
//! wire and their number, how it is switched on, and the bugs that tests plant in it.
//!
//! The protocol asks a way of a round through three small interfaces: `coordinator/ways.rs`, `shard/asking_ways.rs`, and `lock/admitting.rs` in the lock table.
//! What a way does not say is as in two rounds. A client asks a way that has all transactions through another one: `client/keeper.rs`.

pub(crate) mod check_only;

use std::ops::Deref;

use claret_types::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

        /// Which commits go in which way of a round, over a network. By default all go in two rounds.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct WaySwitches {
            $(
                /// See the folder.
                pub $round: $round::Switch,
            )*
        }

        impl WaySwitches {
            const NAMED: &[&[(&str, WaySwitches)]] = &[$($round::NAMED,)*];
            /// All go in two rounds.
            pub const ROUNDS: WaySwitches = WaySwitches { $($round: $round::Switch::NEVER,)* };
            /// Each takes all that it can.
            pub const ALL: WaySwitches = WaySwitches { $($round: $round::Switch::ALWAYS,)* };
        }

        /// A way that has all transactions of a client process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProcessWay {
            $(
                /// See the folder.
                $Process,
            )*
        }

        impl ProcessWay {
            /// All of them.
            pub const ALL: &[ProcessWay] = &[$(ProcessWay::$Process,)*];

            /// As it is called everywhere.
            pub fn name(self) -> &'static str {
                match self {
                    $(ProcessWay::$Process => $process::NAME,)*
                }
            }
        }
    };
}

each_way!(rooms);

impl WaySwitches {
    /// The combinations that figures need, with their names.
    pub fn all_named() -> impl Iterator<Item = (&'static str, WaySwitches)> {
        Self::NAMED.iter().copied().flatten().copied()
    }

    /// The combination of this name.
    pub fn named(name: &str) -> Option<WaySwitches> {
        Self::all_named().find(|(named, _)| *named == name).map(|(_, ways)| ways)
    }
}

/// What a way adds to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayWords {
    /// Of which way. A shard that does not commit in that way refuses a prepare with [`Refusal::OnlyRounds`](crate::message::Refusal::OnlyRounds).
    pub number: u8,
    /// What the way says, as only its folder reads it.
    pub body: WayBody,
}

/// Bytes. Mostly there are none, and messages are no longer for them than by one word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayBody(#[expect(clippy::box_collection, reason = "one word")] Option<Box<Vec<u8>>>);

impl From<Vec<u8>> for WayBody {
    fn from(bytes: Vec<u8>) -> Self {
        WayBody((!bytes.is_empty()).then(|| Box::new(bytes)))
    }
}

impl Deref for WayBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| &bytes[..])
    }
}

impl Serialize for WayBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for WayBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bytes::deserialize(deserializer).map(|bytes| WayBody::from(bytes.to_vec()))
    }
}
