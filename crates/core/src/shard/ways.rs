//! The ways to commit (`crate::ways`), the shard's side: what it keeps of each for all attempts, and where an attempt stands in its own.
//! `asking_ways` asks them.

pub(super) mod ordered;

use crate::ids::{AttemptId, SessionId, ShardId};
use crate::message::WayWords;

/// Of what the client is about to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) enum Vote {
    /// The prepare waits, or has come again while it does.
    Waits,
    /// Yes, which is written.
    Yes,
    /// The prepare has come again after that.
    YesAgain,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) enum Decision {
    /// A no is about to be written here.
    No,
    /// Its yes here is the decision, and is about to be carried out.
    Yes,
    /// It is committed, and is to be carried out.
    Apply,
}

/// What has happened.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) enum Heard<'a> {
    /// Another shard says something.
    Words { attempt: AttemptId, from: ShardId, words: &'a WayWords },
    /// The prepare of an attempt has come, and goes in two rounds.
    InRounds(AttemptId),
    /// Something is written of an attempt: it is over.
    Over(AttemptId),
    /// More attempts of a session are over than were named.
    Passed(SessionId),
}

/// When the way goes on with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) enum Occasion {
    /// An input was taken.
    Input,
    /// Time has passed.
    Time,
}

/// The modules of the ways, and their parts of one shard.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(pub(crate) mod $way;)*

        /// The parts of all ways.
        #[derive(Clone, Debug, Default)]
        pub(super) struct Ways {
            $(pub(super) $way: $way::$Way,)*
        }

        /// Where an attempt stands in its way.
        #[derive(Clone, Debug)]
        #[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
        pub(crate) enum Standing {
            $($Way($way::Standing),)*
        }

        impl Standing {
            /// The number of the way.
            pub(super) fn number(&self) -> u8 {
                match *self {
                    $(Standing::$Way(_) => crate::ways::$way::NUMBER,)*
                }
            }
        }
    };
}

crate::each_way!(rooms);
