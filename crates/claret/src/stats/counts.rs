//! What a store counts while it works: outcomes, restarts, and how long transactions took.
//!
//! An embedded transaction that waits for nothing takes less than a microsecond, and threads that count in one place would
//! wait for that place. So there are several such places, of which each thread uses one, and the clock is looked at for
//! one such transaction of [`SAMPLE`] only. Which one, a sequence says that has no period and is spread evenly, so that no
//! regular load hides in it.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use claret_core::Cause;
use claret_core::message::Refusal;
use claret_types::Bytes;

use super::latency::Histogram;
#[cfg(feature = "metrics")]
use super::metrics::Metrics;
use super::restart_keys::RestartKeys;
use super::{RestartReasons, Stats};
use crate::error::{CommitError, Error};

/// One of so many transactions that wait for nothing is measured.
const SAMPLE: u64 = 64;

/// Places to count in, so that threads rarely meet in one.
const STRIPES: usize = 16;

/// 2^32 / golden ratio: the multiples of it are spread evenly over all numbers.
const GOLDEN: u32 = 0x9e37_79b9;

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// The closure returned an error of its own.
    Aborted,
    /// Nobody waits for its answer any more.
    Dropped,
    Deadline,
    Failed,
    Unknown,
}

impl Outcome {
    pub(super) const ALL: [Outcome; 6] = [
        Outcome::Committed,
        Outcome::Aborted,
        Outcome::Dropped,
        Outcome::Deadline,
        Outcome::Failed,
        Outcome::Unknown,
    ];

    /// That of a transaction which answers this error of the store.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Commit(CommitError::Deadline { .. } | CommitError::NoAnswer { .. }) => Outcome::Deadline,
            Error::Unknown(_) => Outcome::Unknown,
            Error::Aborted(_) => Outcome::Aborted,
            _ => Outcome::Failed,
        }
    }

    /// Whether somebody should look at it, whatever the program meant to do.
    pub(crate) fn is_bad(self) -> bool {
        match self {
            Outcome::Deadline | Outcome::Unknown => true,
            Outcome::Committed | Outcome::Aborted | Outcome::Dropped | Outcome::Failed => false,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Committed => "committed",
            Outcome::Aborted => "aborted",
            Outcome::Dropped => "dropped",
            Outcome::Deadline => "deadline",
            Outcome::Failed => "failed",
            Outcome::Unknown => "unknown",
        }
    }
}

/// Why an attempt is run again, as it is counted: see [`RestartReasons`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartReason {
    GaveWay,
    Busy,
    Parted,
    Moved,
    Vanished,
    ReadOnly,
    Lost,
}

impl RestartReason {
    pub(super) const ALL: [RestartReason; 7] = [
        RestartReason::GaveWay,
        RestartReason::Busy,
        RestartReason::Parted,
        RestartReason::Moved,
        RestartReason::Vanished,
        RestartReason::ReadOnly,
        RestartReason::Lost,
    ];

    pub(crate) fn of(cause: &Cause) -> Self {
        match cause {
            Cause::GaveWay => RestartReason::GaveWay,
            Cause::Busy => RestartReason::Busy,
            Cause::Parted => RestartReason::Parted,
            Cause::Refused(Refusal::Elsewhere { .. }) => RestartReason::Moved,
            Cause::Refused(Refusal::Vanished { .. }) => RestartReason::Vanished,
            Cause::Refused(Refusal::ReadOnly) => RestartReason::ReadOnly,
            Cause::Refused(_) => RestartReason::Lost,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            RestartReason::GaveWay => "gave_way",
            RestartReason::Busy => "busy",
            RestartReason::Parted => "parted",
            RestartReason::Moved => "moved",
            RestartReason::Vanished => "vanished",
            RestartReason::ReadOnly => "read_only",
            RestartReason::Lost => "lost",
        }
    }
}

/// Of which transactions the clock is looked at when they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// They take long beside a look at the clock.
    All,
    Sample,
}

/// When a transaction began, if it is measured from then on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure(Option<Instant>);

/// See the module's text. Shared by all handles of a store.
#[derive(Debug)]
pub(crate) struct Counts {
    measured: Measured,
    stripes: Box<[Stripe]>,
    restarts: [AtomicU64; RestartReason::ALL.len()],
    restart_keys: RestartKeys,
    histogram: Histogram,
    #[cfg(feature = "metrics")]
    metrics: Metrics,
}

/// In a part of the memory that no other one is in.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; Outcome::ALL.len()]);

thread_local! {
    /// Where this thread is in the sequence that says which transaction is measured.
    static TURN: Cell<u32> = const { Cell::new(0) };
}

/// Whether it is the turn of a transaction that begins on this thread.
#[inline]
fn is_its_turn() -> bool {
    let turn = TURN.get().wrapping_add(GOLDEN);
    TURN.set(turn);
    turn < u32::MAX / SAMPLE as u32
}

/// A number that threads rarely share: made of where theirs is kept.
#[inline]
fn stripe() -> usize {
    let place = TURN.with(|turn| std::ptr::from_ref(turn) as usize as u64);
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % STRIPES
}

impl Counts {
    pub(crate) fn new(measured: Measured) -> Self {
        Counts {
            measured,
            stripes: std::iter::repeat_with(Stripe::default).take(STRIPES).collect(),
            restarts: Default::default(),
            restart_keys: RestartKeys::default(),
            histogram: Histogram::new(),
            #[cfg(feature = "metrics")]
            metrics: Metrics::new(),
        }
    }

    /// A transaction begins.
    #[inline]
    pub(crate) fn begin(&self) -> Measure {
        let is_measured = self.measured == Measured::All || is_its_turn();
        Measure(is_measured.then(Instant::now))
    }

    /// It has to wait, since now unless it has waited before.
    pub(crate) fn wait(&self, since: &OnceLock<Instant>) {
        if self.measured == Measured::Sample {
            since.get_or_init(Instant::now);
        }
    }

    /// It ended; where it had to wait, since when.
    #[inline]
    pub(crate) fn end(&self, outcome: Outcome, measure: Measure, waited: Option<Instant>) {
        self.stripes[stripe()].0[outcome as usize].fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        self.metrics.end(outcome);
        if let Some(began) = measure.0.or(waited) {
            self.measure(outcome, began, waited.is_some());
        }
    }

    #[cold]
    fn measure(&self, outcome: Outcome, began: Instant, waited: bool) {
        if outcome == Outcome::Dropped {
            return;
        }
        let (took, stands_for_all) = (began.elapsed(), waited || self.measured == Measured::All);
        let weight = if stands_for_all { 1 } else { SAMPLE };
        self.histogram.add(took, weight);
        #[cfg(feature = "metrics")]
        self.metrics.took(took, weight);
    }

    /// An attempt is run again.
    pub(crate) fn restart(&self, reason: RestartReason) {
        self.restarts[reason as usize].fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        self.metrics.restart(reason);
    }

    /// It is run again for this key: how often that was, if somebody should hear of it.
    pub(crate) fn restart_for(&self, key: &Bytes) -> Option<u64> {
        self.restart_keys.add(key)
    }

    /// A transaction that may wait begins, or one of those ends.
    #[inline]
    pub(crate) fn note_running(&self, _begins: bool) {
        #[cfg(feature = "metrics")]
        self.metrics.note_running(_begins);
    }

    /// What was counted here; the rest is for the backend to add.
    pub(crate) fn stats(&self) -> Stats {
        let ended = |outcome: Outcome| {
            let counts = self.stripes.iter().map(|stripe| stripe.0[outcome as usize].load(Ordering::Relaxed));
            counts.sum()
        };
        let restarts = |reason: RestartReason| self.restarts[reason as usize].load(Ordering::Relaxed);
        Stats {
            commits: ended(Outcome::Committed),
            aborts: ended(Outcome::Aborted),
            dropped: ended(Outcome::Dropped),
            deadlines: ended(Outcome::Deadline),
            failures: ended(Outcome::Failed),
            unknown: ended(Outcome::Unknown),
            restarts: RestartReason::ALL.map(restarts).iter().sum(),
            restart_reasons: RestartReasons {
                gave_way: restarts(RestartReason::GaveWay),
                busy: restarts(RestartReason::Busy),
                parted: restarts(RestartReason::Parted),
                moved: restarts(RestartReason::Moved),
                vanished: restarts(RestartReason::Vanished),
                read_only: restarts(RestartReason::ReadOnly),
                lost: restarts(RestartReason::Lost),
            },
            restart_keys: self.restart_keys.read(),
            latency: self.histogram.read(),
            ..Stats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Also of a load that repeats itself: nobody's period is that of the sequence.
    #[test]
    fn one_of_64_is_measured_wherever_it_stands() {
        let measured = (0..640_000).filter(|_| is_its_turn()).count();
        assert!((9_900..10_100).contains(&measured), "{measured}");
        for period in [2, 3, 8, 10, 64, 100, 128, 1_000] {
            let mut measured = vec![0; period];
            for at in 0..64 * period * 50 {
                measured[at % period] += u32::from(is_its_turn());
            }
            assert!(measured.iter().all(|count| (25..100).contains(count)), "{period}: {measured:?}");
        }
    }

    #[test]
    fn what_threads_count_is_added_up() {
        let counts = Counts::new(Measured::Sample);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..6_400 {
                        counts.end(Outcome::Committed, counts.begin(), None);
                    }
                    counts.end(Outcome::Failed, counts.begin(), None);
                });
            }
        });
        let stats = counts.stats();
        assert_eq!((stats.commits, stats.failures, stats.aborts), (51_200, 8, 0));
        let told = stats.latency.count();
        assert!((48_000..54_400).contains(&told), "64 for each that was measured: {told}");
    }

    #[test]
    fn what_waits_is_measured_and_stands_for_itself() {
        let counts = Counts::new(Measured::Sample);
        let since = OnceLock::new();
        counts.wait(&since);
        let first = *since.get().expect("it waits");
        counts.wait(&since);
        assert_eq!(since.get(), Some(&first), "since it first waited");
        counts.end(Outcome::Committed, Measure(None), Some(first));
        counts.end(Outcome::Deadline, Measure(Some(first)), Some(first));
        counts.end(Outcome::Dropped, Measure(Some(first)), Some(first));
        assert_eq!(counts.stats().latency.count(), 2, "who is gone hears nothing");
        counts.end(Outcome::Committed, Measure(Some(first)), None);
        assert_eq!(counts.stats().latency.count(), 2 + SAMPLE);

        let counts = Counts::new(Measured::All);
        let since = OnceLock::new();
        counts.wait(&since);
        assert_eq!(since.get(), None, "it is measured as it is");
        counts.end(Outcome::Committed, counts.begin(), None);
        assert_eq!(counts.stats().latency.count(), 1);
        assert!(counts.stats().latency.max() < Duration::from_secs(60));
    }

    #[test]
    fn outcomes_and_reasons_are_numbered_in_their_order() {
        assert!(Outcome::ALL.iter().enumerate().all(|(at, outcome)| *outcome as usize == at));
        assert!(RestartReason::ALL.iter().enumerate().all(|(at, reason)| *reason as usize == at));
        let counts = Counts::new(Measured::Sample);
        RestartReason::ALL.iter().for_each(|reason| counts.restart(*reason));
        assert_eq!(counts.stats().restarts, 7);
        assert_eq!(counts.stats().restart_reasons.moved, 1);
    }
}
