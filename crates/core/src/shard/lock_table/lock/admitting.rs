//! What a lock asks the ways to commit (`crate::ways`).

use claret_types::{Claims, Effect};

use super::Lock;
use crate::ids::AttemptId;
use crate::message::Call;
use crate::shard::lock_table::Owner;

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

/// Asks each way.
macro_rules! rooms {
    ($(round $way:ident: $Way:ident;)* $(process $_way:ident: $_Way:ident;)*) => {
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
                None $(.or_else(|| super::ways::$way::$Way::admits(self, owner, call, claims, effect)))*
            }
        }
    };
}

crate::each_way!(rooms);
