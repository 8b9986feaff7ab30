//! What a client process does with the shards' clocks: it stamps what commits, asks for clocks that somebody waits for, and tells callers
//! (P73, P78, P79).

use smallvec::SmallVec;

use crate::client::Client;
use crate::ids::{ShardId, Time, Timestamp};
use crate::message::Request;
use crate::planted::{Bug, is_planted};

/// Clocks (P73, P78, P79).
impl Client {
    /// What commits from now on is to have these timestamps, or none.
    pub(in crate::client) fn suggest(&mut self, now: Time) {
        let suggested = self.stamps.suggest(now);
        self.transactions.table.batches.stamp(suggested.is_some());
        if suggested.is_some() || !is_planted(Bug::SuggestionStays) {
            self.transactions.process_mut().contention().suggest(suggested);
        }
    }

    /// Some clock has come further.
    pub(in crate::client) fn hear_safe_time(&mut self, now: Time, digest: u64) {
        let mut safe_time = self.stamps.passed;
        if let Some((owners, own_digest)) = self.routes.owners() {
            // Keys have moved to a shard that one of the two does not know yet.
            self.doubts_topology |= digest != own_digest;
            safe_time = safe_time.max(self.stamps.safe_time(owners, own_digest));
        }
        let (keeper, process) = self.transactions.keeper_mut();
        process.hear_safe_time(safe_time);
        keeper.hear_safe_time(process, now);
    }

    /// Asks shards to which nothing else goes for their clocks, if somebody waits for these.
    pub(in crate::client) fn tick(&mut self) {
        let want = self.transactions.keeper().want();
        self.stamps.want = want.unwrap_or_default();
        let (want, now) = (self.stamps.want, self.outputs.now);
        let is_due = |shard: &ShardId| self.stamps.asks_at(*shard).is_some_and(|at| at <= now);
        let late: SmallVec<[ShardId; 8]> = self.quiet_shards().filter(is_due).collect();
        for shard in late {
            self.stamps.note_asked(now, shard);
            self.outputs.send(shard, Request::Tick { want });
        }
    }

    /// Shards to which nothing is on its way, over a connection.
    fn quiet_shards(&self) -> impl Iterator<Item = ShardId> {
        let outboxes = self.outputs.outboxes.iter();
        let quiet = outboxes.filter(|outbox| outbox.is_quiet() && outbox.connection.is_some());
        quiet.map(|outbox| outbox.shard)
    }

    /// When some shard is to be asked for its clock.
    pub(in crate::client) fn asks_at(&self) -> Option<Time> {
        if self.stamps.want == Timestamp::default() {
            return None; // Mostly.
        }
        self.quiet_shards().filter_map(|shard| self.stamps.asks_at(shard)).min()
    }
}
