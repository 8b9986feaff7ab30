//! What a lock asks the ways to commit (`crate::ways`).

pub(in crate::shard::lock_table) mod check_only;
pub(in crate::shard::lock_table) mod ordered;

use claret_types::{Claims, Effect};

use super::{Lock, Owner};
use crate::ids::AttemptId;
use crate::message::Call;

/// A way's part in locking. What a way does not say is as in two rounds: who conflicts with a holder waits.
#[allow(dead_code, reason = "there may be no ways")]
pub(super) trait Way {
    /// How a call is granted though others are in the way; `None`: it is not. It claims `claims` and does `effect` as things are.
    fn admits(_: &Lock, _: Owner, _: &Call, _claims: &Claims, _effect: Option<&Effect>) -> Option<Behind> {
        None
    }
}

/// How a call is granted behind others: its holder leaves after them.
#[allow(dead_code, reason = "the interface is the same, whichever ways there are")]
pub(super) struct Behind {
    pub(super) claims: Claims,
    pub(super) effect: Option<Effect>,
    /// Those whose claims conflict.
    pub(super) others: Vec<AttemptId>,
}

/// The modules of the ways, and their parts of owners and holders.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
        $(mod $way;)*

        /// What ways allow somebody who asks.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Pass {
            $(pub(in crate::shard) $way: $way::Pass,)*
        }

        /// What ways note of a holder.
        #[derive(Clone, Copy, Debug, Default)]
        pub(in super::super) struct Mark {
            $($way: $way::Mark,)*
        }

        impl Lock {
            /// How a call is granted though others are in the way.
            #[allow(unused_variables, reason = "there may be no ways")]
            pub(super) fn admits_by_way(
                &self,
                owner: Owner,
                call: &Call,
                claims: &Claims,
                effect: Option<&Effect>,
            ) -> Option<Behind> {
                None $(.or_else(|| $way::$Way::admits(self, owner, call, claims, effect)))*
            }
        }
    };
}

crate::each_way!(rooms);
