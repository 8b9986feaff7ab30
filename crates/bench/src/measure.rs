//! What is measured in a slice, and how slices are summed up.
//!
//! A slice counts the transactions acknowledged before its end. Those under way then are finished, so that their latency
//! counts and the results can be checked. *Aborts* are transactions that were given up, *retries* are attempts that ran
//! again, *lock waits* are requests that waited for a lock or were refused it.

use std::collections::BTreeMap;
use std::time::Duration;

use claret_sim::model::INTERVALS;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::over_time::OverTime;
use crate::workload::Promise;

/// The shortest latency told apart from a shorter one.
const LATENCY_NS_MIN: u64 = 8;
/// The longest latency told apart from a longer one.
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Latencies are kept to about 1 %: a histogram for each client then fits into a core's cache.
const LATENCY_DIGITS: u8 = 2;

/// Up to so many kinds of transactions are told apart in latency: the histograms of more would not fit into a core's cache.
const KINDS_MAX: usize = 4;

/// The counts of one client, or of several.
#[derive(Debug)]
pub(super) struct Counts {
    /// Of each kind, or of all.
    latencies: Vec<Histogram<u32>>,
    committed: u64,
    /// The same by interval of the mode's measured time.
    pub(super) intervals: [u64; INTERVALS],
    /// Of each kind, also those that were acknowledged after the slice's end.
    kinds: Vec<OfKind>,
    pub(super) aborts: u64,
    /// Attempts that a runner itself began again.
    pub(super) begun_again: u64,
    /// Why the run cannot go on.
    pub(super) broken: Option<String>,
}

/// How many of one kind committed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfKind {
    committed: u64,
    /// Of those whose attempts are known: how many there are, and how many needed no second one.
    counted: u64,
    first: u64,
}

impl std::ops::AddAssign for OfKind {
    fn add_assign(&mut self, more: OfKind) {
        self.committed += more.committed;
        self.counted += more.counted;
        self.first += more.first;
    }
}

/// The kinds of a mode, over all slices.
#[derive(Debug)]
pub(super) struct Kinds {
    counts: Vec<OfKind>,
    /// Of each, where they are told apart.
    latencies: Vec<Histogram<u32>>,
}

impl Kinds {
    pub(super) fn new(kinds: usize) -> Self {
        let Counts { kinds: counts, latencies, .. } = Counts::new(kinds);
        let latencies = if latencies.len() == kinds { latencies } else { Vec::new() };
        Kinds { counts, latencies }
    }

    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// A slice more.
    pub(super) fn add(&mut self, slice: &Counts) {
        for (sum, more) in self.counts.iter_mut().zip(&slice.kinds) {
            *sum += *more;
        }
        for (sum, more) in self.latencies.iter_mut().zip(&slice.latencies) {
            sum.add(more).expect("both have the same bounds");
        }
    }

    pub(super) fn committed(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(|of_kind| of_kind.committed)
    }

    pub(super) fn summaries(&self, time: Duration) -> impl Iterator<Item = KindSummary> {
        let each = self.counts.iter().zip(&self.latencies);
        each.map(move |(of_kind, latency)| KindSummary::new(*of_kind, latency, time))
    }
}

/// Latencies, none so far.
fn histogram() -> Histogram<u32> {
    let histogram = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS);
    histogram.expect("the bounds are in order")
}

impl Counts {
    pub(super) fn new(kinds: usize) -> Self {
        let told_apart = if kinds > KINDS_MAX { 1 } else { kinds };
        Counts {
            latencies: (0..told_apart).map(|_| histogram()).collect(),
            committed: 0,
            intervals: [0; INTERVALS],
            kinds: vec![OfKind::default(); kinds],
            aborts: 0,
            begun_again: 0,
            broken: None,
        }
    }

    /// `interval` is that of its end; none if that was behind the end of the slice. `attempts` is how many it took, if that is known.
    pub(super) fn committed(
        &mut self,
        kind: usize,
        attempts: Option<u32>,
        took: Duration,
        interval: Option<usize>,
    ) {
        let at = kind.min(self.latencies.len() - 1);
        self.latencies[at].saturating_record(took.as_nanos() as u64);
        if let Some(interval) = interval {
            self.committed += 1;
            self.intervals[interval] += 1;
        }
        let of_kind = &mut self.kinds[kind];
        of_kind.committed += 1;
        of_kind.counted += u64::from(attempts.is_some());
        of_kind.first += u64::from(attempts == Some(1));
    }

    /// Takes the other's counts over and leaves it empty.
    pub(super) fn take(&mut self, other: &mut Counts) {
        for (sum, more) in self.latencies.iter_mut().zip(&mut other.latencies) {
            sum.add(&*more).expect("both have the same bounds");
            more.reset();
        }
        self.committed += std::mem::take(&mut other.committed);
        self.aborts += std::mem::take(&mut other.aborts);
        self.begun_again += std::mem::take(&mut other.begun_again);
        for (sum, more) in self.intervals.iter_mut().zip(&mut other.intervals) {
            *sum += std::mem::take(more);
        }
        for (sum, more) in self.kinds.iter_mut().zip(&mut other.kinds) {
            *sum += std::mem::take(more);
        }
        if let Some(broken) = other.broken.take() {
            self.broken.get_or_insert(broken);
        }
    }
}

/// What stays the same over a run, said with every number.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The workload.
    pub workload: &'static str,
    /// The mode, by the name it was asked for.
    pub mode: &'static str,
    /// The store.
    pub store: &'static str,
    /// Shards of the store; 0 in the mode `mutex`, 1 in the modes of one server.
    pub shards: u32,
    /// Clients.
    pub clients: usize,
    /// Threads that run them.
    pub threads: usize,
    /// Client processes, each with a part of them.
    pub processes: usize,
}

/// Numbers of a slice, or medians and sums over all.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Length.
    pub seconds: f64,
    /// Transactions acknowledged in it.
    pub committed: u64,
    /// Committed transactions a second.
    pub throughput: f64,
    /// Median latency of committed transactions, all attempts together, in microseconds.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// Transactions given up.
    pub aborts: u64,
    /// Attempts run again.
    pub retries: u64,
    /// Requests that waited for a lock or were refused it.
    pub lock_waits: u64,
}

impl Figures {
    pub(super) fn new(counts: &Counts, time: Duration, retries: u64, lock_waits: u64) -> Self {
        let mut latency = histogram();
        for more in &counts.latencies {
            latency.add(more).expect("both have the same bounds");
        }
        Figures {
            seconds: time.as_secs_f64(),
            committed: counts.committed,
            throughput: counts.committed as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE),
            p50_us: us(latency.value_at_quantile(0.5)),
            p95_us: us(latency.value_at_quantile(0.95)),
            p99_us: us(latency.value_at_quantile(0.99)),
            max_us: us(latency.max()),
            aborts: counts.aborts,
            retries,
            lock_waits,
        }
    }

    /// Medians of throughput and latencies, the longest of the slowest, sums of the rest.
    pub(super) fn summed(slices: &[Slice]) -> Self {
        let median_of = |of: fn(&Figures) -> f64| median(slices.iter().map(|slice| of(&slice.figures)));
        let sum_of = |of: fn(&Figures) -> u64| slices.iter().map(|slice| of(&slice.figures)).sum();
        Figures {
            seconds: slices.iter().map(|slice| slice.figures.seconds).sum(),
            committed: sum_of(|it| it.committed),
            throughput: median_of(|it| it.throughput),
            p50_us: median_of(|it| it.p50_us),
            p95_us: median_of(|it| it.p95_us),
            p99_us: median_of(|it| it.p99_us),
            max_us: slices.iter().map(|slice| slice.figures.max_us).fold(0.0, f64::max),
            aborts: sum_of(|it| it.aborts),
            retries: sum_of(|it| it.retries),
            lock_waits: sum_of(|it| it.lock_waits),
        }
    }
}

/// The middle value; 0 of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => values[middle],
        (_, middle) => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// One slice of one mode.
#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    /// Always `slice`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What was run.
    #[serde(flatten)]
    pub setting: Setting,
    /// Its number, from 1.
    pub slice: usize,
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
}

/// All slices of one mode: throughput and latencies are medians over slices, counts are sums.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Always `summary`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What was run.
    #[serde(flatten)]
    pub setting: Setting,
    /// How many slices.
    pub slices: usize,
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// Throughput over time.
    pub over_time: OverTime,
    /// Committed transactions by kind, those that ended just after a slice included.
    pub kinds: BTreeMap<&'static str, u64>,
    /// More of each kind, where there are few of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_kind: BTreeMap<&'static str, KindSummary>,
    /// Of a workload with the kind `new-order`: how many of these are committed a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_orders_per_minute: Option<f64>,
    /// Whether the run was interrupted before its time.
    pub interrupted: bool,
}

/// The transactions of one kind, over all slices.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct KindSummary {
    /// Committed transactions a second.
    pub throughput: f64,
    /// Median latency, all attempts together, in microseconds.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// The share that committed at the first attempt, 0 to 1; none where attempts are not counted, as of those that are sent in one go.
    pub first_attempt: Option<f64>,
}

impl KindSummary {
    fn new(of_kind: OfKind, latency: &Histogram<u32>, time: Duration) -> Self {
        KindSummary {
            throughput: of_kind.committed as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE),
            p50_us: us(latency.value_at_quantile(0.5)),
            p99_us: us(latency.value_at_quantile(0.99)),
            max_us: us(latency.max()),
            first_attempt: (of_kind.counted > 0).then(|| of_kind.first as f64 / of_kind.counted as f64),
        }
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

/// What the check of one mode came to.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The mode.
    pub mode: &'static str,
    /// What was checked: `transactions`, or `operations` where there are no transactions.
    pub promise: &'static str,
    /// Whether all is as acknowledged.
    pub passed: bool,
    /// What is not, the first of them.
    pub violations: Vec<String>,
}

impl Check {
    pub(crate) fn new(mode: &'static str, promise: Promise, violations: Vec<String>) -> Self {
        let promise = match promise {
            Promise::Transactions => "transactions",
            Promise::Operations => "operations",
        };
        Check { mode, promise, passed: violations.is_empty(), violations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }

    #[test]
    fn latencies_are_kept_to_two_digits() {
        let mut counts = Counts::new(1);
        for us in 1..=1_000 {
            counts.committed(
                0,
                Some(1),
                Duration::from_micros(us),
                (us <= 900).then_some(us as usize % INTERVALS),
            );
        }
        let figures = Figures::new(&counts, Duration::from_secs(2), 0, 0);
        assert_eq!((figures.committed, figures.throughput), (900, 450.0));
        assert_eq!(counts.intervals, [90; INTERVALS]);
        for (found, expected) in [(figures.p50_us, 500.0), (figures.p99_us, 990.0), (figures.max_us, 1e3)] {
            assert!((found / expected - 1.0_f64).abs() < 0.02, "{found} us for {expected}");
        }
    }
}
