//! What a run of torture came to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::judge::Judged;
use super::worker_log::Counts;

/// Counts of a run, and what is wrong.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TortureReport {
    /// What all choices were made from.
    pub seed: u64,
    /// How long faults struck, in seconds.
    pub seconds: f64,
    /// Processes with clients that were started, each after another one had died, or beside others.
    pub processes: u64,
    /// How often each fault struck.
    pub struck: BTreeMap<&'static str, u64>,
    /// How often another node became the primary of a shard.
    pub failovers: u64,
    /// Transactions that were begun.
    pub begun: u64,
    /// Of these, acknowledged.
    pub committed: u64,
    /// Of unknown outcome: their clients were told so.
    pub unknown: u64,
    /// Answers to clients that asked then: it had committed. Each asks again after the first answer.
    pub told_committed: u64,
    /// The same: it was aborted.
    pub told_aborted: u64,
    /// Of unknown outcome: their process died meanwhile.
    pub orphaned: u64,
    /// Not done, and told so.
    pub refused: u64,
    /// Why, in a few words.
    pub refused_because: BTreeMap<String, u64>,
    /// Keys that were read at the end: all that were used.
    pub keys_read: u64,
    /// Generations of keys.
    pub generations: u64,
    /// Of these, hit by what may cost acknowledged transactions: some of their keys are judged by losses alone.
    pub generations_hit: u64,
    /// Transactions that were judged by what they saw.
    pub judged: u64,
    /// Edges between them.
    pub edges: u64,
    /// Transactions on lists that adya judged.
    pub list_transactions: u64,
    /// Acknowledged transactions that are gone, where the store's promise allows it.
    pub lost: u64,
    /// The same, of which a part is there.
    pub lost_in_part: u64,
    /// What is wrong, in words.
    pub anomalies: Vec<String>,
    /// Where the histories are, if they were kept.
    pub histories: Option<PathBuf>,
}

impl TortureReport {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.anomalies.is_empty()
    }

    pub(super) fn take_counts(&mut self, counts: Counts, time: Duration) {
        self.seconds = time.as_secs_f64();
        self.begun = counts.begun;
        self.committed = counts.committed;
        self.unknown = counts.unknown;
        self.told_committed = counts.told_committed;
        self.told_aborted = counts.told_aborted;
        self.refused = counts.void;
        self.orphaned = counts.begun.saturating_sub(counts.committed + counts.unknown + counts.void);
        self.refused_because = counts.void_because;
    }

    pub(super) fn take(&mut self, generation: u64, keys: usize, judged: Judged) {
        self.generations += 1;
        self.generations_hit += u64::from(judged.is_hit);
        self.keys_read += keys as u64;
        self.judged += judged.verdict.judged.transactions;
        self.edges += judged.verdict.judged.edges;
        self.list_transactions += judged.verdict.lists as u64;
        self.lost += judged.lost;
        self.lost_in_part += judged.lost_in_part;
        let told = |anomaly: String| format!("generation {generation}: {anomaly}");
        self.anomalies.extend(judged.anomalies.into_iter().map(told));
    }
}
