//! Plain clients beside transactions: what they wait for, and what is known of them that the filter goes by.

use claret_core::Shard;

use crate::parts::blocked_clients::BlockedClients;
use crate::parts::errands::Errands;
use crate::parts::open_multis::OpenMultis;
use crate::parts::passed_over::PassedOver;
use crate::parts::queue::Queue;
use crate::parts::verdict::Locks;

/// Once something was held, so many commands are looked at without asking whether it still is: to ask takes as long as
/// to look, and to look in vain does no harm.
const LOOKS: u32 = 16;

/// See the module's text.
#[derive(Default)]
pub(crate) struct PlainClients {
    /// Commands that wait for keys.
    pub(crate) queue: Queue,
    pub(crate) open_multis: OpenMultis,
    /// Transactions with keys at several nodes that they gave to this one whole.
    pub(crate) errands: Errands,
    /// Keys that pops found held.
    pub(super) passed_over: PassedOver,
    /// Clients that sleep in the server until a key is there.
    pub(super) blocked: BlockedClients,
    /// So many commands are looked at before it is asked again whether anything is held.
    looks: u32,
}

impl PlainClients {
    /// Whether anything may be held, or a MULTI be open.
    #[inline]
    pub(super) fn are_watched(&mut self, shard: &Shard) -> bool {
        if self.looks > 0 {
            self.looks -= 1;
            return true;
        }
        let is_held = !shard.is_idle() || !shard.is_settled();
        if is_held {
            self.looks = LOOKS;
        }
        is_held || self.open_multis.is_any()
    }

    /// Whether anybody has to be looked after with time.
    pub(super) fn is_any_waiting(&self) -> bool {
        !self.queue.is_quiet() || self.open_multis.is_any() || self.passed_over.is_any()
    }

    /// What the verdict on a plain command goes by.
    pub(super) fn locks_of<'a>(&'a self, shard: &'a Shard) -> Locks<'a> {
        Locks { shard, queue: &self.queue, blocked_clients: &self.blocked }
    }
}
