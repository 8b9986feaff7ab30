//! Throughput over time: how many transactions committed in each tenth of the measured time, and whether that was even.
//!
//! A total hides a store that is fast at first and then hardly moves. So each mode also says what it did in ten equal intervals.
//! On real stores these cover the mode's own turns, one behind the other, from the first transaction on. The model runs a part
//! uncounted before them. That warm-up may be slower than the rest; when it was faster, then the rest is what slowed down.

use std::time::Duration;

use claret_sim::model::INTERVALS;
use serde::Serialize;

/// Throughput is uneven if the fastest interval has more than this many times the commits of the slowest.
const UNEVEN_ABOVE: f64 = 2.0;

/// Throughput over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverTime {
    /// How long each interval is.
    pub interval_seconds: f64,
    /// Transactions acknowledged in each interval. A run that was interrupted has the intervals that were over.
    pub committed: Vec<u64>,
    /// How long it ran uncounted before that; 0 on real stores.
    pub warm_up_seconds: f64,
    /// Transactions acknowledged meanwhile.
    pub warm_up_committed: u64,
    /// Whether the fastest interval, or the warm-up, was more than twice as fast as the slowest interval.
    pub uneven: bool,
}

impl OverTime {
    pub(super) fn new(interval: Duration, committed: &[u64], warm_up: (Duration, u64)) -> Self {
        let mut over_time = OverTime {
            interval_seconds: interval.as_secs_f64(),
            committed: committed.to_vec(),
            warm_up_seconds: warm_up.0.as_secs_f64(),
            warm_up_committed: warm_up.1,
            uneven: false,
        };
        over_time.uneven = over_time.fastest() > UNEVEN_ABOVE * over_time.slowest();
        over_time
    }

    /// Transactions a second in each interval.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        self.committed.iter().map(|committed| rate(*committed, self.interval_seconds))
    }

    /// Transactions a second in the warm-up, if there was one.
    pub fn warm_up_rate(&self) -> Option<f64> {
        (self.warm_up_seconds > 0.0).then(|| rate(self.warm_up_committed, self.warm_up_seconds))
    }

    /// Transactions a second in the fastest interval or in the warm-up, whichever is more; 0 if no interval is over.
    pub fn fastest(&self) -> f64 {
        if self.committed.is_empty() {
            return 0.0;
        }
        self.rates().chain(self.warm_up_rate()).fold(0.0, f64::max)
    }

    /// Transactions a second in the slowest interval; 0 if none is over.
    pub fn slowest(&self) -> f64 {
        self.rates().min_by(f64::total_cmp).unwrap_or_default()
    }
}

fn rate(committed: u64, seconds: f64) -> f64 {
    committed as f64 / seconds.max(f64::MIN_POSITIVE)
}

/// Which interval it is, on real stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals {
    /// How long each is.
    length: Duration,
}

impl Intervals {
    /// Those of a mode that is measured for so long.
    pub(super) fn of(measured: Duration) -> Self {
        Intervals { length: (measured / INTERVALS as u32).max(Duration::from_nanos(1)) }
    }

    /// The number of the interval, from 0, when the mode has been measured for so long.
    pub(super) fn at(self, measured: Duration) -> usize {
        // In 64 bits, which is 500 years: this is done for each transaction.
        let number = measured.as_nanos() as u64 / self.length.as_nanos() as u64;
        (number as usize).min(INTERVALS - 1)
    }

    /// What was counted, when the mode has been measured for so long and no longer: of the intervals that are over.
    pub(super) fn over_time(self, counts: &[u64; INTERVALS], measured: Duration) -> OverTime {
        let are_over = (measured.as_nanos() / self.length.as_nanos()).min(INTERVALS as u128) as usize;
        OverTime::new(self.length, &counts[..are_over], (Duration::ZERO, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn uneven(committed: &[u64], warm_up: (Duration, u64)) -> bool {
        OverTime::new(SECOND, committed, warm_up).uneven
    }

    #[test]
    fn more_than_twice_is_uneven() {
        let none = (Duration::ZERO, 0);
        assert!(!uneven(&[100, 200, 150], none));
        assert!(uneven(&[100, 201, 150], none));
        assert!(uneven(&[100, 100, 0], none), "it stood still");
        assert!(!uneven(&[0, 0, 0], none), "nothing ever moved, evenly; the total says so");
        assert!(!uneven(&[], none), "interrupted before an interval was over");
    }

    #[test]
    fn a_warm_up_may_be_slow_but_not_fast() {
        assert!(!uneven(&[100, 100], (SECOND, 1)));
        assert!(!uneven(&[100, 100], (SECOND, 200)));
        assert!(uneven(&[100, 100], (SECOND, 201)));
        assert!(uneven(&[100, 100], (SECOND / 2, 101)), "in half the time");
    }

    #[test]
    fn every_instant_has_an_interval() {
        let intervals = Intervals::of(3 * SECOND);
        let at = |ms| intervals.at(Duration::from_millis(ms));
        assert_eq!([0, 299, 300, 2_999, 3_000, 9_000].map(at), [0, 0, 1, 9, 9, 9]);
        let counts = [7; INTERVALS];
        let over = |ms| intervals.over_time(&counts, Duration::from_millis(ms)).committed.len();
        assert_eq!([0, 299, 300, 2_999, 3_000].map(over), [0, 0, 1, 9, 10]);
        assert_eq!(Intervals::of(Duration::ZERO).at(SECOND), 9);
    }
}
