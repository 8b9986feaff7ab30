//! What shards refused, and who was told of it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use claret_core::{AttemptId, SessionId, ShardId, Time, Timestamp, TxHandle};
use claret_types::Reply;

use crate::run::RunId;

/// An attempt at a shard, in one of its lives.
pub(super) type At = (ShardId, u64, AttemptId);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Up to where all was settled when a shard with replicas refused an attempt.
    settled: BTreeMap<At, Timestamp>,
    /// Runs of which a refusal for good was seen, and what was found there instead of what was demanded.
    found: BTreeMap<RunId, Option<Reply>>,
    /// Runs whose users were told so: members of a group are run again, each alone.
    told: BTreeMap<RunId, Time>,
    /// Transactions that ask a shard for something that it cannot read.
    unreadable: BTreeSet<(SessionId, TxHandle)>,
}

impl Refusals {
    /// The first time counts.
    pub(super) fn note_settled(&mut self, at: At, settled: Timestamp) {
        self.settled.entry(at).or_insert(settled);
    }

    pub(super) fn settled(&self, at: At) -> Option<Timestamp> {
        self.settled.get(&at).copied()
    }

    /// A refusal for good was seen. `false`: not for the first time.
    pub(super) fn note_found(&mut self, run: RunId, found: impl FnOnce() -> Option<Reply>) -> bool {
        match self.found.entry(run) {
            Entry::Vacant(entry) => {
                entry.insert(found());
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// What was found instead of what a run demanded.
    pub(super) fn found(&self, run: RunId) -> Option<&Reply> {
        self.found.get(&run)?.as_ref()
    }

    /// A user is told. Whether some shard said so.
    pub(super) fn note_told(&mut self, run: RunId, now: Time) -> bool {
        self.told.insert(run, now);
        self.found.contains_key(&run) || self.is_unreadable(run)
    }

    /// When a run's user was told.
    pub(super) fn told(&self, run: RunId) -> Option<Time> {
        self.told.get(&run).copied()
    }

    pub(super) fn note_unreadable(&mut self, session: SessionId, tx: TxHandle) {
        self.unreadable.insert((session, tx));
    }

    pub(super) fn is_unreadable(&self, run: RunId) -> bool {
        self.unreadable.contains(&(run.session, run.tx))
    }
}
