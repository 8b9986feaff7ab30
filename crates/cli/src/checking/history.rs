//! What clients saw, in a form that a file can hold: processes of one run hand their parts to the one that judges.

use std::collections::BTreeSet;

use claret_sim::observed::{Act, Known, Observed};
use serde::{Deserialize, Serialize};

/// One operation and what it showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// An element of a set, or a bit of a counter.
    Add(String, u64),
    /// All elements or bits.
    Read(String, BTreeSet<u64>),
    /// An item of a list.
    Append(String, u64),
    /// All items.
    List(String, Vec<u64>),
}

/// How a transaction ended, for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Acknowledged.
    Committed,
    /// An error that says that nothing was applied.
    Void,
    /// Nobody knows.
    Unknown,
}

/// One transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The client, over all processes.
    pub client: u64,
    /// Microseconds since the run began.
    pub began: u64,
    /// The same, when the answer was there.
    pub ended: u64,
    /// How.
    pub outcome: Outcome,
    /// In order. Of one that did not commit, only what it meant to write counts.
    pub steps: Vec<Step>,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// Transactions on sets, counters and lists.
    pub entries: Vec<Entry>,
    /// Transfers that were acknowledged.
    pub transfers: u64,
    /// Totals of the bank that were read.
    pub totals: u64,
    /// Plain commands among all these that were answered.
    #[serde(default)]
    pub plain: u64,
    /// What went wrong besides: a wrong total, an answer of the wrong shape.
    pub broken: Option<String>,
}

impl History {
    /// Adds another part.
    pub fn take(&mut self, part: History) {
        self.entries.extend(part.entries);
        self.transfers += part.transfers;
        self.totals += part.totals;
        self.plain += part.plain;
        self.broken = self.broken.take().or(part.broken);
    }

    /// Counts of acknowledged, void and unknown transactions.
    pub fn outcomes(&self) -> (u64, u64, u64) {
        let count = |outcome| self.entries.iter().filter(|entry| entry.outcome == outcome).count() as u64;
        (count(Outcome::Committed), count(Outcome::Void), count(Outcome::Unknown))
    }

    /// For [`claret_sim::observed::judge`].
    pub fn observed(&self) -> Vec<Observed> {
        self.entries.iter().enumerate().map(|(at, entry)| entry.observed(at)).collect()
    }
}

impl Entry {
    fn observed(&self, at: usize) -> Observed {
        let known = match self.outcome {
            Outcome::Committed => Known::Committed(self.ended),
            Outcome::Void => Known::Void,
            Outcome::Unknown => Known::Unknown,
        };
        let acts = self.steps.iter().map(|step| match step {
            Step::Add(key, element) => (key.into(), Act::Add(*element)),
            Step::Read(key, elements) => (key.into(), Act::Read(elements.clone())),
            Step::Append(key, item) => (key.into(), Act::Append(*item)),
            Step::List(key, items) => (key.into(), Act::List(items.clone())),
        });
        Observed {
            name: format!("T{at} of client {}", self.client),
            began: self.began,
            known,
            acts: acts.collect(),
        }
    }

    /// Whether it is about lists alone.
    pub fn is_of_lists(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Append(..) | Step::List(..)))
    }
}
