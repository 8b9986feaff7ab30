//! What the rounds of a run came to: counts, anomalies, and whether the planted ones were found.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::gateways::Through;
use crate::history::{History, Outcome, Step, Why};
use crate::planted::Planted;
use crate::verdict::{Verdict, judge_all};

/// Counts over all rounds, and what was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// What all choices were made from.
    pub seed: u64,
    /// Rounds.
    pub rounds: u64,
    /// Transactions that were acknowledged.
    pub committed: u64,
    /// Transactions that were not applied, and were told so.
    pub void: u64,
    /// Why they were not.
    pub void_because: BTreeMap<Why, u64>,
    /// Transactions of which nobody knows.
    pub unknown: u64,
    /// Transactions that were judged by what they saw.
    pub judged: u64,
    /// Edges between them.
    pub edges: u64,
    /// Transactions on lists that adya judged.
    pub list_transactions: usize,
    /// Transfers between accounts.
    pub transfers: u64,
    /// Totals of accounts that were read.
    pub totals: u64,
    /// Changes of bounded counters.
    pub changes: u64,
    /// Unique numbers.
    pub ids: u64,
    /// Records that ended while they were in use, or before they were read.
    pub ends: u64,
    /// Transactions by plain commands.
    pub plain: u64,
    /// What went through gateways, as their clients counted it.
    pub through_gateways: Through,
    /// How long the longest transaction took, in milliseconds.
    pub longest_ms: u64,
    /// How often each fault struck.
    pub struck: BTreeMap<&'static str, u64>,
    /// How long it took after each fault, at most, until all locks were free, when the clients had come to rest.
    pub free_after_ms: BTreeMap<&'static str, u64>,
    /// What is wrong, in words.
    pub anomalies: Vec<String>,
    /// Anomalies that were planted, to see whether the judges are blind.
    pub planted: usize,
    /// How many of them were found.
    pub found: usize,
    /// How many of those on lists adya found.
    pub found_by_adya: usize,
    /// Those that were not, and why.
    pub not_found: Vec<String>,
    /// How many of those that were planted are on lists.
    #[serde(skip)]
    pub planted_on_lists: usize,
}

impl Report {
    /// Whether all is well, and the judges are not blind.
    pub fn is_well(&self) -> bool {
        let sees_all = self.found == self.planted && self.found_by_adya == self.planted_on_lists;
        self.anomalies.is_empty() && sees_all
    }

    /// Adds the transactions of a round.
    fn count(&mut self, history: &History) {
        for entry in &history.entries {
            if entry.is_end() {
                self.ends += entry.steps.len() as u64;
                continue;
            }
            match entry.outcome {
                Outcome::Committed => self.committed += 1,
                Outcome::Void(why) => {
                    self.void += 1;
                    *self.void_because.entry(why).or_default() += 1;
                }
                Outcome::Unknown => {
                    self.unknown += 1;
                    continue;
                }
            }
            self.longest_ms = self.longest_ms.max(entry.ended.saturating_sub(entry.began) / 1_000);
            if entry.outcome != Outcome::Committed {
                continue;
            }
            self.plain += u64::from(entry.plain);
            for step in &entry.steps {
                match step {
                    Step::Moved => self.transfers += 1,
                    Step::Total(..) => self.totals += 1,
                    Step::Change(..) => self.changes += 1,
                    Step::Id(..) => self.ids += 1,
                    _ => {}
                }
            }
        }
    }
}

/// A report, round by round.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) report: Report,
    /// Anomalies that had no place in a round yet.
    left: Vec<Planted>,
    /// Those that had one, and were not found.
    missed: Vec<String>,
}

impl Tally {
    /// Of a run in which records end, or not.
    pub(crate) fn new(seed: u64, has_ends: bool) -> Self {
        let left: Vec<Planted> =
            Planted::ALL.into_iter().filter(|it| has_ends || !it.needs_an_end()).collect();
        let planted_on_lists = left.iter().filter(|it| it.is_of_lists()).count();
        // A short run may have no place for one; it counts as planted all the same, and so the check fails.
        let report = Report { seed, planted: left.len(), planted_on_lists, ..Report::default() };
        Tally { report, left, missed: Vec::new() }
    }

    /// Something is wrong that no history shows.
    pub(crate) fn note_anomaly(&mut self, anomaly: String) {
        let round = self.report.rounds;
        self.report.anomalies.push(format!("round {round}: {anomaly}"));
    }

    /// How often a fault struck.
    pub(crate) fn count_of(&self, fault: &'static str) -> u64 {
        self.report.struck.get(fault).copied().unwrap_or_default()
    }

    /// Whether some anomaly had no place to be planted yet.
    pub(crate) fn has_unplanted(&self) -> bool {
        !self.left.is_empty()
    }

    /// What all came to.
    pub(crate) fn into_report(self) -> Report {
        let unplanted = self.left.iter().map(|anomaly| format!("{anomaly:?}: no round had a place for it"));
        let not_found = self.missed.into_iter().chain(unplanted).collect();
        Report { not_found, ..self.report }
    }

    /// Whether there is something wrong already.
    pub(crate) fn has_anomalies(&self) -> bool {
        !self.report.anomalies.is_empty()
    }

    /// Judges a round. Into the first that has a place for it each anomaly is planted.
    pub(crate) fn judge(&mut self, history: &History) {
        self.report.rounds += 1;
        self.report.count(history);
        let verdict = judge_all(history);
        self.left.retain(|anomaly| {
            let Some(spoiled) = anomaly.plant(history) else { return true };
            let known = &verdict.anomalies;
            let seen: Vec<String> =
                judge_all(&spoiled).anomalies.into_iter().filter(|it| !known.contains(it)).collect();
            let by_adya = seen.iter().any(|anomaly| anomaly.starts_with("adya"));
            let by_claret = seen.iter().any(|anomaly| !anomaly.starts_with("adya"));
            self.report.found += usize::from(by_claret);
            self.report.found_by_adya += usize::from(by_adya && anomaly.is_of_lists());
            for (judge, is_blind) in [("", !by_claret), (" by adya", !by_adya && anomaly.is_of_lists())] {
                if is_blind {
                    self.missed
                        .push(format!("{anomaly:?} in round {}: not found{judge}", self.report.rounds));
                }
            }
            false
        });
        let Verdict { judged, lists, anomalies } = verdict;
        self.report.judged += judged.transactions;
        self.report.edges += judged.edges;
        self.report.list_transactions += lists;
        let round = self.report.rounds;
        self.report
            .anomalies
            .extend(anomalies.into_iter().map(|anomaly| format!("round {round}: {anomaly}")));
    }

    /// A fault struck; whatever it made of the locks was over after so long.
    pub(crate) fn note_fault(&mut self, fault: &'static str, free_after: Duration) {
        *self.report.struck.entry(fault).or_default() += 1;
        let longest = self.report.free_after_ms.entry(fault).or_default();
        *longest = (*longest).max(free_after.as_millis() as u64);
    }
}
