//! The counts of all stores of the process, for whatever recorder the program has installed (cargo feature `metrics`).
//!
//! A store asks the recorder for its counters once, when it is opened: to ask for each transaction would take longer than
//! many of them do. So the recorder has to be there first.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use super::counts::{Outcome, RestartReason};

const TRANSACTIONS: &str = "claret_transactions_total";
const RUNNING: &str = "claret_transactions_running";
const RESTARTS: &str = "claret_restarts_total";
const SECONDS: &str = "claret_transaction_seconds";

/// See the module's text.
#[derive(Debug)]
pub(super) struct Metrics {
    ended: [Counter; Outcome::ALL.len()],
    running: Gauge,
    restarts: [Counter; RestartReason::ALL.len()],
    seconds: Histogram,
}

impl Metrics {
    pub(super) fn new() -> Self {
        describe_counter!(
            TRANSACTIONS,
            Unit::Count,
            "Transactions, single operations and batches, by how they ended"
        );
        describe_gauge!(RUNNING, Unit::Count, "Transactions that run or wait now");
        describe_counter!(RESTARTS, Unit::Count, "Attempts of transactions that were run again, by why");
        describe_histogram!(
            SECONDS,
            Unit::Seconds,
            "Time from the call of a transaction to its outcome, over all its attempts"
        );
        Metrics {
            ended: Outcome::ALL.map(|outcome| counter!(TRANSACTIONS, "outcome" => outcome.name())),
            running: gauge!(RUNNING),
            restarts: RestartReason::ALL.map(|reason| counter!(RESTARTS, "reason" => reason.name())),
            seconds: histogram!(SECONDS),
        }
    }

    #[inline]
    pub(super) fn end(&self, outcome: Outcome) {
        self.ended[outcome as usize].increment(1);
    }

    #[inline]
    pub(super) fn note_running(&self, begins: bool) {
        if begins { self.running.increment(1) } else { self.running.decrement(1) }
    }

    pub(super) fn restart(&self, reason: RestartReason) {
        self.restarts[reason as usize].increment(1);
    }

    pub(super) fn took(&self, took: Duration, weight: u64) {
        self.seconds.record_many(took, weight as usize);
    }
}
