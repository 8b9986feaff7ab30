//! The ways to commit that have all transactions of a store in this process: a folder for each.

use std::sync::Arc;

use claret_core::{Limits, ShardId, Switches, Time};

use super::Embedded;
use crate::backend::Driver;
use crate::mailbox::Mailbox;

/// What the store asks a way.
#[allow(dead_code, reason = "there may be no ways")]
trait Way: Sized {
    /// Where it is switched on.
    fn new(switches: Switches, limits: Limits, shards: u32) -> Option<Self>;

    /// Begins a transaction.
    fn begin(&self, store: Arc<Embedded>, mailbox: &Arc<Mailbox>, since: Option<Time>) -> Box<dyn Driver>;

    /// Takes what a shard has to say to transactions.
    fn collect(&self, store: &Embedded, from: ShardId);

    /// Wakes everybody who waits.
    fn wake(&self);

    /// How many answers transactions shared.
    fn shared_answers(&self) -> u64;
}

macro_rules! rooms {
    ($(round $_way:ident: $_Way:ident;)* $(process $way:ident: $Way:ident;)*) => {
        $(mod $way;)*

        /// The parts of all ways: of those that are switched on.
        #[derive(Debug)]
        pub(super) struct Ways {
            $($way: Option<$way::$Way>,)*
        }

        #[allow(unused_variables, clippy::unused_self, reason = "where there is no way")]
        impl Ways {
            pub(super) fn new(switches: Switches, limits: Limits, shards: u32) -> Self {
                Ways { $($way: $way::$Way::new(switches, limits, shards),)* }
            }

            /// Begins a transaction, if a way has them all.
            pub(super) fn begin(
                &self,
                store: &Arc<Embedded>,
                mailbox: &Arc<Mailbox>,
                since: Option<Time>,
            ) -> Option<Box<dyn Driver>> {
                $(if let Some(way) = &self.$way {
                    return Some(way.begin(Arc::clone(store), mailbox, since));
                })*
                None
            }

            /// Takes what a shard has to say, if a way has all transactions.
            pub(super) fn collect(&self, store: &Embedded, from: ShardId) -> bool {
                $(if let Some(way) = &self.$way {
                    way.collect(store, from);
                    return true;
                })*
                false
            }

            /// Wakes everybody who waits.
            pub(super) fn wake(&self) {
                $(self.$way.iter().for_each(Way::wake);)*
            }

            /// How many answers transactions shared.
            pub(super) fn shared_answers(&self) -> u64 {
                0 $(+ self.$way.as_ref().map_or(0, Way::shared_answers))*
            }
        }
    };
}

claret_core::each_way!(rooms);
