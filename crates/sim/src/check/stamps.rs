//! The timestamps of an attempt, and where it stands that has none (P75).

use std::collections::BTreeMap;

use claret_core::{CallNo, ShardId, Timestamp};
use claret_types::Reply;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// With which ones shards voted.
    places: BTreeMap<ShardId, Timestamp>,
    /// Where it stands among stamped ones, if it is not, once it is decided.
    beside: Option<Timestamp>,
    /// Up to where all was settled when it voted without a timestamp, at shards that said so later: in which of their lives.
    met: BTreeMap<ShardId, (u64, Timestamp)>,
    /// Answers that count if the vote that brought them is final.
    tentative: BTreeMap<ShardId, (Timestamp, Vec<(CallNo, Reply)>)>,
}

impl Stamps {
    /// A shard votes with a timestamp. The one that it voted with first.
    pub(super) fn note_place(&mut self, shard: ShardId, at: Timestamp) -> Timestamp {
        *self.places.entry(shard).or_insert(at)
    }

    pub(super) fn keep_tentative(&mut self, shard: ShardId, at: Timestamp, replies: &[(CallNo, Reply)]) {
        self.tentative.insert(shard, (at, replies.to_vec()));
    }

    /// A shard has carried it out. The answers that count now.
    pub(super) fn take_tentative(&mut self, shard: ShardId, at: Timestamp) -> Option<Vec<(CallNo, Reply)>> {
        let tentative = self.tentative.remove(&shard).filter(|(voted, _)| *voted == at);
        tentative.map(|(_, replies)| replies)
    }

    /// A shard voted without one in this of its lives, when all was settled up to there. What it says once more in the same life counts
    /// no more.
    pub(super) fn note_met(&mut self, shard: ShardId, life: u64, settled: Timestamp) {
        let known = self.met.entry(shard).or_insert((life, settled));
        if known.0 < life {
            *known = (life, settled);
        }
    }

    /// It is decided. Without a timestamp it stands behind all that it met, which was settled, and before all that comes.
    pub(super) fn decide(&mut self, safe_time: Timestamp) {
        if self.places.is_empty() {
            let met = self.met.values().map(|(_, settled)| *settled).max();
            self.beside = Some(met.unwrap_or(safe_time));
        }
    }

    /// Whether it is decided, and had no timestamp then.
    pub(super) fn is_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// Where it stands if it is committed (P74).
    pub(super) fn last(&self) -> Option<Timestamp> {
        self.places.values().copied().max().or(self.beside)
    }
}
