//! What to run.

use claret_core::ways::{ProcessWay, WaySwitches};
use claret_core::{Discipline, Limits, Ordered, Pacing, Switches};

use super::costs::Costs;

/// What the store does about concurrency (P70).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No transactions: the same operations in the same frames, each applied by itself.
    None,
    /// No locks and no commit protocol, because all keys are on one server: a stage is `MULTI`, its operations and `EXEC`, and
    /// the answer of `EXEC` is the outcome. A stage of one operation is sent alone.
    OneServer,
    /// Reader/writer locks; a refused lock is asked for again after a pause: the papers' baseline.
    ReaderWriter,
    /// Reader/writer locks with queues, from which readers are let in together (phases).
    ReaderWriterPhased,
    /// Abstract locks; a refused lock is asked for again after a pause.
    Commuting,
    /// Abstract locks with phases.
    CommutingPhased,
    /// The same, and calls are ordered where that pays: what a cluster does by default.
    Claret,
    /// As [`Mode::CommutingPhased`], and transactions commit in these ways.
    InWay(WaySwitches),
    /// As [`Mode::CommutingPhased`], and this way has all transactions of a process.
    InProcessWay(ProcessWay),
}

/// How the operations of a transaction are issued, and how long the application works in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Operations known up front are issued together; those of the last stage travel with the prepare.
    Together,
    /// The operations of a stage are issued together and awaited; then the application works for so many
    /// microseconds, before the next stage and before the commit.
    Pause(u64),
    /// Every operation that answers something is awaited before the next one is issued, and the application works
    /// for so many microseconds in between. What answers nothing waits for the commit (P66).
    Interactive(u64),
}

/// A run. Times are virtual.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Concurrency control.
    pub mode: Mode,
    /// Whether one-shot transactions leave in batches, where the mode has abstract locks and phases.
    pub batching: bool,
    /// Whether calls are ordered instead of locked, where the mode has abstract locks and phases; `None`: as the mode has it.
    pub ordering: Option<Ordered>,
    /// Shards.
    pub shards: u32,
    /// Client processes; clients are dealt out to them in turn.
    pub processes: u32,
    /// How many frames a process may have unanswered at one shard; what else it has for it waits, and leaves
    /// together.
    pub window: u32,
    /// How transactions go.
    pub pace: Pace,
    /// What takes how long.
    pub costs: Costs,
    /// The protocol's bounds.
    pub limits: Limits,
    /// Attempts of one transaction before it is given up.
    pub attempts_max: u32,
    /// How long a transaction may take before it is given up, in microseconds.
    pub deadline_us: u64,
    /// How often a process tells shards that it lives, and looks for transactions that are late, in microseconds.
    pub heartbeat_us: u64,
    /// So many transactions that are over are told before that.
    pub over_worth: u64,
    /// How long it runs before anything is counted, in microseconds. Clients start within this time.
    pub warm_up_us: u64,
    /// How long it is counted, in microseconds.
    pub measured_us: u64,
    /// What the model's own random choices (when clients start, pauses, jitter) are made from.
    pub seed: u64,
}

impl Mode {
    /// Whether the protocol runs; otherwise operations are done as they come.
    pub(super) fn has_protocol(self) -> bool {
        match self {
            Mode::None | Mode::OneServer => false,
            Mode::ReaderWriter
            | Mode::ReaderWriterPhased
            | Mode::Commuting
            | Mode::CommutingPhased
            | Mode::Claret
            | Mode::InWay(_)
            | Mode::InProcessWay(_) => true,
        }
    }
}

impl Setup {
    /// 4 shards, a process, and bounds for a round trip of 150 us: what they were found by is in
    /// `docs/performance.md`.
    pub fn new(mode: Mode) -> Self {
        let limits = Limits {
            // A phase takes in joiners for about 4 round trips once somebody waits.
            phase_us_max: 600,
            phase_joins_max: 8,
            // Of the pauses that were tried these serve reader/writer locks best. Attempts that keep their locks while
            // they ask for another again and again keep one another out.
            backoff_us_min: 100,
            backoff_us_max: 10_000,
            lock_tries_max: 0,
            ..Limits::default()
        };
        Setup {
            mode,
            batching: true,
            ordering: None,
            shards: 4,
            processes: 1,
            window: 4,
            pace: Pace::Together,
            costs: Costs::default(),
            limits,
            attempts_max: 100,
            deadline_us: 10_000_000,
            heartbeat_us: 20_000,
            over_worth: Pacing::default().over_worth,
            warm_up_us: 50_000,
            measured_us: 500_000,
            seed: 1,
        }
    }

    /// Whether calls are ordered.
    pub fn ordering(&self) -> Ordered {
        match self.mode {
            Mode::None
            | Mode::OneServer
            | Mode::ReaderWriter
            | Mode::ReaderWriterPhased
            | Mode::Commuting => Ordered::Never,
            Mode::Claret => self.ordering.unwrap_or(Ordered::Adaptive),
            Mode::CommutingPhased | Mode::InWay(_) | Mode::InProcessWay(_) => {
                self.ordering.unwrap_or(Ordered::Never)
            }
        }
    }

    /// The protocol's switches; where it does not run, those of the shards, which then lock nothing.
    pub(super) fn switches(&self) -> Switches {
        let ordering = self.ordering();
        match self.mode {
            Mode::None | Mode::OneServer | Mode::Commuting => Switches::over_network(Discipline::Abstract),
            Mode::ReaderWriter => Switches::over_network(Discipline::ReaderWriter),
            Mode::ReaderWriterPhased => Switches::over_network(Discipline::ReaderWriterPhased),
            Mode::CommutingPhased | Mode::Claret => {
                Switches::claret(ordering, self.batching, WaySwitches::ROUNDS)
            }
            Mode::InWay(ways) => Switches::claret(ordering, self.batching, ways),
            Mode::InProcessWay(way) => Switches::over_network_by(way, ordering, WaySwitches::ROUNDS),
        }
    }
}
