//! What the replicas of a shard have, and what becomes of primaries before it.
//!
//! All replicas of a shard are one here: what all of them have for certain, and what is on its way to them.

use std::collections::{BTreeMap, VecDeque};

use claret_core::message::{Link, Output, PeerMessage, Response};
use claret_core::{Backup, Change, Changes, SessionId, Shard, ShardId, Time, wire};
use claret_types::{Bytes, State};

use crate::store::Lease;

/// Changes that leave together, and the records after them.
#[derive(Debug)]
struct Batch {
    number: u64,
    changes: Changes,
    records: BTreeMap<Bytes, State>,
}

/// What the replicas of a shard have.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    /// What all of them have for certain, and the records then.
    backup: Backup,
    records: BTreeMap<Bytes, State>,
    /// What is on its way to them, or was not heard to have arrived.
    sent: VecDeque<Batch>,
    /// When the last of these arrives.
    last: Time,
    /// All that was sent: what a replica that is not behind knows.
    ahead: Backup,
    /// How many primaries there were.
    pub(crate) life: u64,
}

/// A primary that does not know that it is none any more.
#[derive(Debug)]
pub(crate) struct Stale {
    /// Which primary it was.
    pub(crate) life: u64,
    shard: Shard,
    /// Its records.
    _store: Option<Lease>,
    /// Whoever is still connected to it, and how.
    pub(crate) connections: BTreeMap<SessionId, u32>,
}

impl Replicas {
    /// A batch leaves for them, with the records after it. When it arrives: behind all before it.
    pub(crate) fn send(
        &mut self,
        number: u64,
        changes: Changes,
        records: BTreeMap<Bytes, State>,
        at: Time,
    ) -> Time {
        let changes: Changes = changes.into_iter().map(as_sent).collect();
        changes.iter().for_each(|change| self.ahead.take(change.clone()));
        self.sent.push_back(Batch { number, changes, records });
        self.last = self.last.max(at);
        self.last
    }

    /// How many attempts have voted as far as they are told.
    pub(crate) fn votes_told(&self) -> usize {
        self.ahead.votes()
    }

    /// How many batches are on their way.
    pub(crate) fn on_their_way(&self) -> usize {
        self.sent.len()
    }

    /// The last batch that is on its way.
    pub(crate) fn last_sent(&self) -> Option<u64> {
        self.sent.back().map(|batch| batch.number)
    }

    /// The next batch has arrived.
    pub(crate) fn arrive(&mut self) -> Changes {
        let Some(batch) = self.sent.pop_front() else { return Changes::new() };
        batch.changes.iter().for_each(|change| self.backup.take(change.clone()));
        self.records = batch.records;
        batch.changes
    }

    /// A batch has arrived, and all before it.
    pub(crate) fn arrive_up_to(&mut self, number: u64) {
        while self.sent.front().is_some_and(|batch| batch.number <= number) {
            self.arrive();
        }
    }

    /// They have these records, and no others.
    pub(crate) fn have(&mut self, records: BTreeMap<Bytes, State>) {
        self.records = records;
    }

    /// One of them goes on as the shard: with what all have. The others hear all from it.
    pub(crate) fn promote(&mut self) -> (Backup, BTreeMap<Bytes, State>) {
        self.sent.clear();
        self.ahead = Backup::default();
        self.life += 1;
        (std::mem::take(&mut self.backup), self.records.clone())
    }
}

/// What a stale primary has to say: to processes, and to other shards.
pub(crate) type Said = (Vec<(SessionId, Response)>, Vec<(ShardId, PeerMessage)>);

impl Stale {
    pub(crate) fn new(
        life: u64,
        (shard, store): (Shard, Option<Lease>),
        connections: BTreeMap<SessionId, u32>,
    ) -> Self {
        Stale { life, shard, _store: store, connections }
    }

    /// Whether this connection leads to it.
    pub(crate) fn is_at(&self, link: Link) -> bool {
        self.connections.get(&link.session).is_some_and(|number| link.connection <= *number)
    }

    /// It hears something, and says what it does not have to wait for.
    pub(crate) fn hear(&mut self, now: Time, input: impl FnOnce(&mut Shard, Time)) -> Said {
        self.shard.handle_timeout(now);
        input(&mut self.shard, now);
        self.shard.check_invariants();
        let _ = self.shard.poll_changes(); // They reach nobody.
        let (mut said, mut told) = (Vec::new(), Vec::new());
        while let Some(output) = self.shard.poll_output() {
            match output {
                Output::Respond { session, response } => said.push((session, response)),
                Output::Tell { shard, message } => told.push((shard, message)),
            }
        }
        (said, told)
    }
}

/// As it arrives, in bytes. Of types that users wrote there is no such form.
fn as_sent(change: Change) -> Change {
    match wire::encode_change(&change) {
        Ok(bytes) => wire::decode_change(&bytes).expect("what was written is read").0,
        Err(_) => change,
    }
}
