//! The results of a run.

use claret_core::Cause;

use super::setup::Setup;

/// Into so many equal intervals the measured time is divided, to show throughput over time.
pub const INTERVALS: usize = 10;

/// Why attempts were run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// An elder waited for what it held, while it waited itself.
    pub gave_way: u64,
    /// Without phases: a lock was refused too often.
    pub busy: u64,
    /// A shard refused.
    pub refused: u64,
    /// It was taken out of a combined group.
    pub parted: u64,
}

impl Causes {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.gave_way + self.busy + self.refused + self.parted
    }

    fn add(&mut self, other: Causes) {
        self.gave_way += other.gave_way;
        self.busy += other.busy;
        self.refused += other.refused;
        self.parted += other.parted;
    }
}

/// Latencies in nanoseconds, in ascending order, each one kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(Vec<u64>);

impl Latencies {
    /// The smallest latency that so many of a thousand do not exceed; 0 of none.
    pub fn permille(&self, permille: u64) -> u64 {
        let rank = (self.0.len() as u64 * permille).div_ceil(1_000).max(1);
        self.0.get(rank as usize - 1).copied().unwrap_or_default()
    }

    /// The longest; 0 of none.
    pub fn longest(&self) -> u64 {
        self.0.last().copied().unwrap_or_default()
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Counts of one process, of what happened while it was measured.
#[derive(Debug)]
pub(super) struct Tally {
    from: u64,
    until: u64,
    /// By kind of transaction.
    latencies: Vec<Vec<u64>>,
    aborts: u64,
    causes: Causes,
    /// Commits before anything else is counted.
    warm_up: u64,
    /// Commits in each interval.
    intervals: [u64; INTERVALS],
}

impl Tally {
    pub(super) fn new(setup: &Setup) -> Self {
        let from = setup.warm_up_us * 1_000;
        let until = from + setup.measured_us * 1_000;
        Tally {
            from,
            until,
            latencies: Vec::new(),
            aborts: 0,
            causes: Causes::default(),
            warm_up: 0,
            intervals: [0; INTERVALS],
        }
    }

    fn counts(&self, now: u64) -> bool {
        (self.from..self.until).contains(&now)
    }

    pub(super) fn committed(&mut self, now: u64, kind: usize, began: u64) {
        self.warm_up += u64::from(now < self.from);
        if !self.counts(now) {
            return;
        }
        let interval = (now - self.from) * INTERVALS as u64 / (self.until - self.from);
        self.intervals[interval as usize] += 1;
        if self.latencies.len() <= kind {
            self.latencies.resize_with(kind + 1, Vec::new);
        }
        self.latencies[kind].push(now - began);
    }

    pub(super) fn gave_up(&mut self, now: u64) {
        self.aborts += u64::from(self.counts(now));
    }

    pub(super) fn restarted(&mut self, now: u64, cause: &Cause) {
        if !self.counts(now) {
            return;
        }
        let count = match cause {
            Cause::GaveWay => &mut self.causes.gave_way,
            Cause::Busy => &mut self.causes.busy,
            Cause::Refused(_) => &mut self.causes.refused,
            Cause::Parted => &mut self.causes.parted,
        };
        *count += 1;
    }
}

/// What shards had done at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) busy_ns: u64,
    pub(super) frames: u64,
    pub(super) operations: u64,
    pub(super) waits: u64,
}

/// What happened while it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Transactions that committed.
    pub committed: u64,
    /// Their latencies, with all attempts.
    pub latencies: Latencies,
    /// How many of them committed in each of these equal intervals.
    pub intervals: [u64; INTERVALS],
    /// Transactions that committed before that, in the warm-up.
    pub warm_up: u64,
    /// The same by kind.
    pub kinds: Vec<Latencies>,
    /// Transactions given up for good.
    pub aborts: u64,
    /// Attempts that were run again.
    pub causes: Causes,
    /// Requests that waited for a lock or were refused it.
    pub lock_waits: u64,
    /// Frames that shards worked off.
    pub frames: u64,
    /// Operations that shards carried out.
    pub operations: u64,
    /// How long each shard was busy, in nanoseconds.
    pub busy_ns: Vec<u64>,
    /// Reads that no shard saw, over the whole run.
    pub combined: u64,
    /// What happened, over the whole run, each thing counted once: how much work the run was.
    pub events: u64,
}

impl Measured {
    pub(super) fn new(tallies: Vec<Tally>, before: &[Served], after: &[Served]) -> Self {
        let mut sum = Measured::default();
        for tally in tallies {
            sum.aborts += tally.aborts;
            sum.causes.add(tally.causes);
            sum.warm_up += tally.warm_up;
            for (all, more) in sum.intervals.iter_mut().zip(tally.intervals) {
                *all += more;
            }
            if sum.kinds.len() < tally.latencies.len() {
                sum.kinds.resize_with(tally.latencies.len(), Latencies::default);
            }
            for (all, more) in sum.kinds.iter_mut().zip(tally.latencies) {
                all.0.extend(more);
            }
        }
        sum.latencies.0 = sum.kinds.iter().flat_map(|kind| &kind.0).copied().collect();
        for latencies in sum.kinds.iter_mut().chain([&mut sum.latencies]) {
            latencies.0.sort_unstable();
        }
        sum.committed = sum.latencies.count();
        for (before, after) in before.iter().zip(after) {
            sum.busy_ns.push(after.busy_ns - before.busy_ns);
            sum.frames += after.frames - before.frames;
            sum.operations += after.operations - before.operations;
            sum.lock_waits += after.waits - before.waits;
        }
        sum
    }
}
