//! When those that are gathered may leave, and that they do (docs/batches.md, B1, B2, B8, B9).

use crate::client::outbox::Outbox;
use crate::client::{Client, Outputs};
use crate::ids::{ShardId, Time};

/// Who needs a shard that owes an answer for so long goes alone, in microseconds (B1): others would wait for it, too.
const SILENT_US: u64 = 100_000;

impl Outputs {
    /// A transaction is to wait until a frame leaves for one of these shards. Whether one can.
    pub(in crate::client) fn gather(&mut self, shards: &[ShardId], may_leave: bool) -> bool {
        let answers = |outbox: &Outbox| {
            outbox.connection.is_some()
                && outbox.owes_since().is_none_or(|since| self.now.since(since) < SILENT_US)
        };
        let is_there = |shard: &ShardId| {
            self.direct.is_none()
                && self.outboxes.iter().any(|outbox| outbox.shard == *shard && answers(outbox))
        };
        if !shards.iter().all(is_there) {
            return false;
        }
        for outbox in self.outboxes.iter_mut().filter(|outbox| shards.contains(&outbox.shard)) {
            outbox.gather();
            if may_leave {
                self.ready.extend(outbox.tell_once(&self.pacing));
            }
        }
        true
    }

    /// Those that are gathered may leave now.
    pub(in crate::client) fn tell_of_gathered(&mut self) {
        for outbox in self.outboxes.iter_mut().filter(|outbox| outbox.has_gathered()) {
            self.ready.extend(outbox.tell_once(&self.pacing));
        }
    }

    /// When a shard that owes an answer counts as silent: the first of them.
    fn silent_at(&self) -> Option<Time> {
        self.outboxes.iter().filter_map(Outbox::owes_since).min().map(|since| since.plus(SILENT_US))
    }
}

impl Client {
    /// Whether those that are gathered may leave. The window does not count while a shard is silent (B9).
    pub(in crate::client) fn may_leave(&self) -> bool {
        self.transactions.may_leave() || self.outputs.silent_at().is_some_and(|at| at <= self.outputs.now)
    }

    /// When those that are held by the window may leave because a shard is silent by then.
    pub(in crate::client) fn released_at(&self) -> Option<Time> {
        if !self.transactions.has_gathered() || self.transactions.may_leave() {
            return None; // Mostly: then nobody need know who is silent.
        }
        self.outputs.silent_at().filter(|at| *at > self.outputs.now)
    }

    /// A frame leaves: all that are gathered leave (B2).
    pub(in crate::client) fn leave(&mut self) {
        let now = self.outputs.now;
        self.outputs.outboxes.iter_mut().for_each(Outbox::left);
        self.suggest(now);
        self.transactions.leave(now);
        let (keeper, process) = self.transactions.keeper_mut();
        keeper.drain(process, now, &mut self.outputs);
    }

    /// Places or connections are not what they were: those that are gathered leave, each by itself (B8).
    pub(in crate::client) fn disband(&mut self) {
        self.outputs.outboxes.iter_mut().for_each(Outbox::left);
        self.transactions.disband(self.outputs.now);
    }
}
