//! What an operator looks at when something is slow (`CLARET.TOP`): hot keys, and who waits for whom.

use claret_core::{HotRecord, Time};

use super::{Caller, Node};
use crate::node::ShownAttempt;
use crate::parts::error::Error;

/// A hot key, for people.
pub(crate) struct HotKey {
    pub(crate) record: HotRecord,
    pub(crate) behind: Vec<ShownWait>,
}

/// Who waits for whom, for people.
pub(crate) struct ShownWait {
    pub(crate) waiter: ShownAttempt,
    pub(crate) method: &'static str,
    pub(crate) holder: Option<ShownAttempt>,
}

/// What the node says of itself.
pub(crate) struct Top {
    pub(crate) shard: u64,
    pub(crate) incarnation: u64,
    /// The node's clock, by which rates are taken.
    pub(crate) now_us: u64,
    pub(crate) known: usize,
    pub(crate) looked_at: usize,
    pub(crate) hidden: usize,
    pub(crate) keys: Vec<HotKey>,
}

impl Node {
    /// Hot keys that the caller may look at, by the rule of `CLARET.LOCKS`. Each time other records are looked through for
    /// those that somebody has waited for long.
    pub(crate) fn top(&mut self, caller: &Caller, count: usize) -> Result<Top, Error> {
        let Time(now_us) = self.now();
        let from = self.lives.looked_through;
        let not_served = || self.not_served().map_or(Error::NotReady, Error::NotServed);
        let shard = self.shard.as_ref().ok_or_else(not_served)?;
        let top = shard.top(Time(now_us), count, from, |key| caller.may_run("TYPE", key));
        let key = |record: HotRecord| {
            let wait = |it: &claret_core::Behind| ShownWait {
                waiter: self.shown(shard, it.waiter),
                method: it.method,
                holder: it.holder.map(|holder| self.shown(shard, holder)),
            };
            HotKey { behind: record.behind.iter().map(wait).collect(), record }
        };
        let shown = Top {
            shard: u64::from(shard.id().0),
            incarnation: shard.incarnation().0,
            now_us,
            known: top.known,
            looked_at: top.looked_at,
            hidden: top.hidden,
            keys: top.records.into_iter().map(key).collect(),
        };
        self.lives.looked_through = top.next;
        Ok(shown)
    }
}
