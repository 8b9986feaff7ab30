//! What came of all rounds of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use claret_checker::verdict::{Verdict, judge_all};
use claret_checker::{History, Outcome, Planted, Step, Why};

/// Counts over all rounds, and what was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    seed: u64,
    rounds: u64,
    committed: u64,
    void: u64,
    void_because: BTreeMap<Why, u64>,
    unknown: u64,
    judged: u64,
    edges: u64,
    list_transactions: usize,
    transfers: u64,
    totals: u64,
    changes: u64,
    ids: u64,
    ends: u64,
    plain: u64,
    longest_ms: u64,
    /// How often each fault struck.
    struck: BTreeMap<&'static str, u64>,
    /// How long it took after each fault, at most, until all locks were free, when the clients had come to rest.
    free_after_ms: BTreeMap<&'static str, u64>,
    anomalies: Vec<String>,
    planted: usize,
    found: usize,
    found_by_adya: usize,
    #[serde(skip)]
    of_lists: usize,
    #[serde(skip)]
    left: Vec<Planted>,
}

impl Tally {
    /// Of a run in which records end, or not.
    pub(super) fn new(seed: u64, has_ends: bool) -> Self {
        let left: Vec<Planted> =
            Planted::ALL.into_iter().filter(|it| has_ends || !it.needs_an_end()).collect();
        let of_lists = left.iter().filter(|it| it.is_of_lists()).count();
        // A short run may have no place for one; it counts as planted all the same, and so the check fails.
        Tally { seed, planted: left.len(), of_lists, left, ..Tally::default() }
    }

    /// Something is wrong that no history shows.
    pub(super) fn note_anomaly(&mut self, anomaly: String) {
        let round = self.rounds;
        self.anomalies.push(format!("round {round}: {anomaly}"));
    }

    /// How often a fault struck.
    pub(super) fn count_of(&self, fault: &'static str) -> u64 {
        self.struck.get(fault).copied().unwrap_or_default()
    }

    /// Whether there is something wrong already.
    pub(super) fn has_anomalies(&self) -> bool {
        !self.anomalies.is_empty()
    }

    /// Judges a round. Into the first that has a place for it each anomaly is planted.
    pub(super) fn judge(&mut self, history: &History) {
        self.rounds += 1;
        self.count(history);
        let verdict = judge_all(history);
        self.left.retain(|anomaly| {
            let Some(spoiled) = anomaly.plant(history) else { return true };
            let known = &verdict.anomalies;
            let seen: Vec<String> =
                judge_all(&spoiled).anomalies.into_iter().filter(|it| !known.contains(it)).collect();
            let by_adya = seen.iter().any(|anomaly| anomaly.starts_with("adya"));
            self.found += usize::from(seen.iter().any(|anomaly| !anomaly.starts_with("adya")));
            self.found_by_adya += usize::from(by_adya && anomaly.is_of_lists());
            false
        });
        let Verdict { judged, lists, anomalies } = verdict;
        self.judged += judged.transactions;
        self.edges += judged.edges;
        self.list_transactions += lists;
        let round = self.rounds;
        self.anomalies.extend(anomalies.into_iter().map(|anomaly| format!("round {round}: {anomaly}")));
    }

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

    /// A fault struck; whatever it made of the locks was over after so long.
    pub(super) fn note_fault(&mut self, fault: &'static str, free_after: Duration) {
        *self.struck.entry(fault).or_default() += 1;
        let longest = self.free_after_ms.entry(fault).or_default();
        *longest = (*longest).max(free_after.as_millis() as u64);
    }

    /// Whether all is well, and the judges are not blind.
    pub(super) fn is_well(&self) -> bool {
        self.anomalies.is_empty() && self.found == self.planted && self.found_by_adya == self.of_lists
    }

    /// In words.
    pub(super) fn tell(&self) {
        let Tally { rounds, committed, void, unknown, judged, edges, list_transactions, .. } = self;
        let Tally { transfers, totals, changes, ids, ends, plain, longest_ms, .. } = self;
        println!("{committed} transactions committed, {void} did not, {unknown} nobody knows");
        let because = self.void_because.iter().map(|(why, count)| format!("{count} {why:?}"));
        let because: Vec<String> = because.collect();
        if !because.is_empty() {
            println!("why they did not: {}; the longest took {longest_ms} ms", because.join(", "));
        }
        println!(
            "{judged} judged by what they saw, over {edges} edges; {list_transactions} on lists judged by adya"
        );
        println!("{transfers} transfers between accounts, {totals} totals read");
        println!("{changes} changes of bounded counters, {ids} unique numbers");
        if *plain > 0 {
            println!("{plain} of all these by plain commands");
        }
        if !self.struck.is_empty() {
            println!(
                "seed {}, {rounds} rounds; {ends} records ended while they were in use or before they were read",
                self.seed
            );
            println!("{:<12} {:>6}  locks free within", "fault", "struck");
            for (fault, count) in &self.struck {
                let free = self.free_after_ms.get(fault).copied().unwrap_or_default();
                println!("{fault:<12} {count:>6}  {free} ms");
            }
        }
        println!(
            "{} of {} planted anomalies found, {} of {} by adya",
            self.found, self.planted, self.found_by_adya, self.of_lists
        );
        println!("{} anomalies", self.anomalies.len());
        for anomaly in &self.anomalies {
            println!("  {}", crate::edge::shown(anomaly));
        }
    }
}
