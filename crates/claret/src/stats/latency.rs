//! How long transactions took: a histogram that any number of threads add to without waiting.
//!
//! Its buckets grow with what they hold, eight for each doubling, so a bucket is at most an eighth as wide as what it
//! holds is long. Adding is one addition to an atomic; a histogram of a library would take a lock, or a channel.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is shorter is not told apart, in nanoseconds as a power of two.
const SHORTEST: u32 = 7;

/// What is as long is not told apart, in nanoseconds as a power of two: half an hour.
const LONGEST: u32 = 41;

/// Buckets for each doubling, as a power of two.
const PARTS: u32 = 3;

/// The first one is for what is shorter than all others.
const BUCKETS: usize = 1 + (((LONGEST - SHORTEST) as usize) << PARTS);

fn bucket_of(nanos: u64) -> usize {
    let power = nanos.max(1).ilog2();
    if power < SHORTEST {
        return 0;
    }
    if power >= LONGEST {
        return BUCKETS - 1;
    }
    let part = (nanos >> (power - PARTS)) as usize & ((1 << PARTS) - 1);
    1 + (((power - SHORTEST) as usize) << PARTS) + part
}

/// The nanoseconds that all of a bucket are shorter than, but for those of the last one.
fn end_of(bucket: usize) -> u64 {
    let Some(at) = bucket.checked_sub(1) else { return 1 << SHORTEST };
    let (power, part) = (SHORTEST + (at >> PARTS) as u32, at as u64 & ((1 << PARTS) - 1));
    ((1 << PARTS) + part + 1) << (power - PARTS)
}

/// Where all threads add.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: Box<[AtomicU64]>,
    nanos_max: AtomicU64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        let buckets = std::iter::repeat_with(AtomicU64::default).take(BUCKETS).collect();
        Histogram { buckets, nanos_max: AtomicU64::new(0) }
    }

    /// Adds a transaction that took so long, and as many as it stands for.
    pub(super) fn add(&self, took: Duration, weight: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)].fetch_add(weight, Ordering::Relaxed);
        // Mostly it is not the longest, and a look costs other threads nothing.
        if nanos > self.nanos_max.load(Ordering::Relaxed) {
            self.nanos_max.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> Latency {
        let buckets = self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Latency { buckets, nanos_max: self.nanos_max.load(Ordering::Relaxed) }
    }
}

/// How long transactions took, from the call to the outcome, over all their attempts; those that were dropped have none.
/// Times are told to within an eighth.
///
/// In this process a transaction that waits for nothing is so short that a look at the clock would slow it. So one of 64 of
/// those is measured, and stands for 64; all that wait, or are run again, are measured from when they begin to wait. On a
/// cluster all are measured from their beginning.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Latency {
    /// Empty, or all.
    buckets: Box<[u64]>,
    nanos_max: u64,
}

impl Latency {
    /// How many transactions were measured, each counted as many times as it stands for.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time within which this part of all transactions was done, as 0.99 of them. Zero if there was none.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    /// let store = Store::in_memory();
    /// for _ in 0..1_000 {
    ///     store.counter("visits").add(1).await?;
    /// }
    /// let latency = store.stats().latency;
    /// assert!(latency.p50() <= latency.p99() && latency.p99() <= latency.quantile(0.999));
    /// # Ok::<_, claret::Error>(()) }).unwrap();
    /// ```
    pub fn quantile(&self, part: f64) -> Duration {
        // What is no number is none of them.
        let part = part.clamp(0.0, 1.0);
        let wanted = (part * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let nanos = match self.buckets.iter().position(reaches) {
            Some(at) if at + 1 < self.buckets.len() => end_of(at).min(self.nanos_max),
            _ => self.nanos_max,
        };
        Duration::from_nanos(nanos)
    }

    /// The time within which half of all transactions were done.
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The time within which all but one of a hundred were done.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// The longest time that was measured, exactly.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.nanos_max)
    }

    /// The buckets that have something: the time that all of them are shorter than, and how many they are. What is longer
    /// than half an hour is in the last one all the same.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(at, count)| (Duration::from_nanos(end_of(at)), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_a_bucket_that_is_an_eighth_as_wide() {
        for power in 0..64 {
            for nanos in [1 << power, (1 << power) | 1, u64::MAX >> (63 - power)] {
                let at = bucket_of(nanos);
                if at == 0 {
                    assert!(nanos < 1 << SHORTEST);
                } else if at == BUCKETS - 1 {
                    assert!(nanos >= end_of(at - 1));
                } else {
                    let (begins, ends) = (end_of(at - 1), end_of(at));
                    assert!(begins <= nanos && nanos < ends, "{nanos} in {begins}..{ends}");
                    assert!((ends - begins) * 8 <= begins, "{begins}..{ends}");
                }
            }
        }
        assert!((1..BUCKETS).all(|at| end_of(at - 1) < end_of(at)));
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let histogram = Histogram::new();
        assert_eq!(histogram.read().p99(), Duration::ZERO, "nothing was added");
        for micros in 1..=1_000 {
            histogram.add(Duration::from_micros(micros), 1);
        }
        let latency = histogram.read();
        assert_eq!((latency.count(), latency.max()), (1_000, Duration::from_millis(1)));
        for (part, micros) in [(0.5, 500), (0.99, 990), (0.001, 1), (1.0, 1_000)] {
            let (told, exact) = (latency.quantile(part), Duration::from_micros(micros));
            assert!(exact <= told && told <= exact + exact / 8, "{part}: {told:?}");
        }
        assert_eq!(latency.quantile(0.0), latency.quantile(0.001), "the shortest");
        assert_eq!(latency.quantile(7.0), latency.max());
        assert_eq!(latency.quantile(f64::NAN), latency.quantile(0.0));
        assert_eq!(latency.buckets().map(|(_, count)| count).sum::<u64>(), 1_000);
    }

    #[test]
    fn one_stands_for_many_and_what_is_endless_is_the_longest() {
        let histogram = Histogram::new();
        histogram.add(Duration::from_nanos(200), 64);
        histogram.add(Duration::MAX, 1);
        let latency = histogram.read();
        assert_eq!(latency.count(), 65);
        assert!(latency.p50() < Duration::from_nanos(256));
        assert_eq!(latency.p99(), latency.max());
        assert_eq!(latency.max(), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn a_histogram_that_nobody_made_has_nothing() {
        let none = Latency::default();
        assert_eq!((none.count(), none.p50(), none.max()), (0, Duration::ZERO, Duration::ZERO));
        assert_eq!(none.buckets().count(), 0);
    }
}
