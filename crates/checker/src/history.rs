//! What clients saw, in a form that a file can hold: processes of a run hand their parts to the process that judges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use claret_sim::observed::{Act, Known, Observed};
use serde::{Deserialize, Serialize};

/// One operation and what it showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    /// An element of a set, or a bit of a counter.
    Add(String, u64),
    /// All elements or bits.
    Read(String, BTreeSet<u64>),
    /// An item of a list.
    Append(String, u64),
    /// The answer of an append: the item made the list so long.
    Stands(String, u64, u64),
    /// All items.
    List(String, Vec<u64>),
    /// A value into a register.
    Put(String, u64),
    /// A value into a register, and what was there.
    Swap(String, Option<u64>, u64),
    /// What a register holds.
    Get(String, Option<u64>),
    /// A bounded counter was to change by so much; whether it did, if that is known.
    Change(String, i64, Option<bool>),
    /// What a bounded counter holds.
    Level(String, i64),
    /// A unique number.
    Id(String, u64),
    /// Money went from one account to another.
    Moved,
    /// So much of it went from the first account to the second.
    Paid(String, String, i64),
    /// All that a bank's accounts hold.
    Total(String, i64),
    /// The record ended: it expired, or was flushed; certainly, or perhaps.
    End(String, bool),
}

impl Step {
    /// The record that it is about.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Step::Add(key, _)
            | Step::Read(key, _)
            | Step::Append(key, _)
            | Step::Stands(key, ..)
            | Step::List(key, _)
            | Step::Put(key, _)
            | Step::Swap(key, ..)
            | Step::Get(key, _)
            | Step::Change(key, ..)
            | Step::Level(key, _)
            | Step::Id(key, _)
            | Step::Total(key, _)
            | Step::End(key, _) => Some(key),
            Step::Moved | Step::Paid(..) => None,
        }
    }

    /// For [`claret_sim::observed::judge`], who does not know of sums and numbers.
    fn act(&self) -> Option<Act> {
        Some(match self {
            Step::Add(_, element) => Act::Add(*element),
            Step::Read(_, elements) => Act::Read(elements.clone()),
            Step::Append(_, item) => Act::Append(*item),
            Step::Stands(_, item, length) => Act::Stands(*item, *length),
            Step::List(_, items) => Act::List(items.clone()),
            Step::Put(_, value) => Act::Put(*value),
            Step::Swap(_, old, new) => Act::Swap { old: *old, new: *new },
            Step::Get(_, value) => Act::Get(*value),
            Step::End(_, true) => Act::End,
            Step::End(_, false) => Act::MayEnd,
            Step::Change(..)
            | Step::Level(..)
            | Step::Id(..)
            | Step::Moved
            | Step::Paid(..)
            | Step::Total(..) => {
                return None;
            }
        })
    }
}

/// How a transaction ended, for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// Acknowledged.
    Committed,
    /// An error that says that nothing was applied.
    Void(Why),
    /// Nobody knows.
    Unknown,
}

/// Why nothing was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It was not done in time, or too often not: try again.
    Later,
    /// The user had not the right.
    Denied,
    /// The server had no memory.
    NoMemory,
    /// The server ran somebody's script.
    Busy,
    /// There is no such record any more.
    Missing,
}

/// One transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The client, over all processes.
    pub(crate) client: u64,
    /// Microseconds since the run began.
    pub(crate) began: u64,
    /// The same, when the answer was there.
    pub(crate) ended: u64,
    /// How.
    pub(crate) outcome: Outcome,
    /// By plain commands.
    #[serde(default)]
    pub(crate) plain: bool,
    /// In order. Of one that did not commit, only what it meant to write counts.
    pub(crate) steps: Vec<Step>,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct History {
    /// All transactions.
    pub(crate) entries: Vec<Entry>,
    /// When there was a reason to refuse what.
    #[serde(default)]
    pub(crate) reasons: Vec<Reason>,
    /// What went wrong besides: an answer of the wrong shape, an error that nobody expects, a panic.
    pub(crate) broken: Option<String>,
}

/// A time in which transactions may have been refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    /// How.
    pub(crate) why: Why,
    /// From when.
    pub(crate) began: u64,
    /// Until when.
    pub(crate) ended: u64,
}

impl History {
    /// Adds another part.
    pub(crate) fn take(&mut self, part: History) {
        self.entries.extend(part.entries);
        self.reasons.extend(part.reasons);
        self.broken = self.broken.take().or(part.broken);
    }

    /// Writes it to a file, as a JSON document.
    ///
    /// # Errors
    /// The file's.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        serde_json::to_writer(BufWriter::new(File::create(path)?), self).map_err(io::Error::from)
    }

    /// For [`claret_sim::observed::judge`].
    pub(crate) fn observed(&self) -> Vec<Observed> {
        let all = self.entries.iter().enumerate().map(|(at, entry)| entry.observed(at));
        all.filter(|observed| !observed.acts.is_empty()).collect()
    }

    /// When each record ended, if it did.
    pub(crate) fn ends(&self) -> BTreeMap<&str, Vec<&Entry>> {
        let mut ends: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.is_end()) {
            let keys = entry.steps.iter().filter_map(Step::key);
            keys.for_each(|key| ends.entry(key).or_default().push(entry));
        }
        ends
    }
}

impl Entry {
    fn observed(&self, at: usize) -> Observed {
        let known = match self.outcome {
            Outcome::Committed => Known::Committed(self.ended),
            Outcome::Void(_) => Known::Void,
            Outcome::Unknown => Known::Unknown,
        };
        let acts = self.steps.iter().filter_map(|step| Some((step.key()?.into(), step.act()?)));
        let name = match self.is_end() {
            true => format!("the end T{at}"),
            false => format!("T{at} of client {}", self.client),
        };
        Observed { name, began: self.began, known, acts: acts.collect() }
    }

    /// Whether it is the end of records.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.steps.first(), Some(Step::End(..)))
    }

    /// When it was certainly over.
    pub(crate) fn over(&self) -> u64 {
        if self.outcome == Outcome::Committed { self.ended } else { u64::MAX }
    }

    /// Whether it was over before another began.
    pub(crate) fn is_before(&self, other: &Entry) -> bool {
        self.over() < other.began
    }
}
