//! What struck a run so far.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::TortureReport;
use super::worker_log::WorkerLog;

/// See the module's text.
#[derive(Default)]
pub(super) struct Strikes {
    /// How often each kind of fault struck.
    counts: BTreeMap<&'static str, u64>,
    /// Each of them, in the order of their ends.
    faults: Vec<Fault>,
    failovers: u64,
}

/// One fault, for who looks at the histories.
#[derive(Clone, Debug, Serialize)]
struct Fault {
    began_us: u64,
    ended_us: u64,
    fault: &'static str,
    whom: String,
}

impl Strikes {
    /// A fault struck somebody between two times, in microseconds.
    pub(super) fn note(&mut self, fault: &'static str, (began_us, ended_us): (u64, u64), whom: String) {
        *self.counts.entry(fault).or_default() += 1;
        self.faults.push(Fault { began_us, ended_us, fault, whom });
    }

    /// Other nodes serve so many groups of slots.
    pub(super) fn note_failovers(&mut self, count: usize) {
        self.failovers += count as u64;
    }

    /// In a sentence's part.
    pub(super) fn summary(&self) -> String {
        let faults: u64 = self.counts.values().sum();
        format!("{faults} faults, {} failovers", self.failovers)
    }

    /// Reports the counts, and keeps the faults beside the histories.
    pub(super) fn take(&self, report: &mut TortureReport, worker_log: &WorkerLog) -> Result<(), String> {
        report.failovers = self.failovers;
        report.struck.clone_from(&self.counts);
        worker_log.keep("faults.json", &self.faults)
    }
}
