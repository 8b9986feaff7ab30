//! Runs the clients of a workload in the performance model (`claret_sim::model`), in virtual time.
//!
//! Modes do not take turns: nothing is noisy, and the same plan gives the same figures to the last digit.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use claret::lab::Mode;
use claret_sim::model::{self, Costs, Latencies, Measured, Model, Ordered, Setup};
use serde::Serialize;

use crate::measure::{Check, Figures, Setting};
use crate::mode::{BenchMode, Engine};
use crate::over_time::OverTime;
use crate::pace::Pace;
use crate::plan::check_one_shot;
use crate::ways;
use crate::workload::simulated::{Simulated, given};
use crate::workload::{Call, Promise, VIOLATIONS_MAX, Workload};

/// What to run in the model.
pub struct ModelPlan {
    /// The workload.
    pub workload: Box<dyn Workload>,
    /// What to compare.
    pub modes: Vec<BenchMode>,
    /// Clients, all processes together.
    pub clients: usize,
    /// How transactions go.
    pub pace: Pace,
    /// Everything else; its mode and pace are set for each run.
    pub setup: Setup,
}

/// What one mode came to.
#[derive(Clone, Debug, Serialize)]
pub struct ModelSummary {
    /// Always `summary`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What was run; its threads are client processes.
    #[serde(flatten)]
    pub setting: Setting,
    /// Whether calls were ordered instead of locked: `never` or `always`.
    pub ordering: &'static str,
    /// What was measured, in virtual time.
    #[serde(flatten)]
    pub figures: Figures,
    /// Throughput over time.
    pub over_time: OverTime,
    /// The latency that one in a thousand exceeds.
    pub p999_us: f64,
    /// Attempts run again, for each commit.
    pub retries_per_commit: f64,
    /// Why.
    pub causes: Causes,
    /// Frames that shards worked off.
    pub frames: u64,
    /// Operations in each, on average.
    pub operations_per_frame: f64,
    /// The share of the time that the busiest shard worked.
    pub busiest_shard: f64,
    /// Reads that no shard saw, over the whole run.
    pub combined: u64,
    /// Latencies by kind of transaction.
    pub kinds: BTreeMap<&'static str, KindFigures>,
    /// How much work the run was.
    pub events: u64,
}

/// Why attempts were run again.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Causes {
    pub gave_way: u64,
    pub busy: u64,
    pub refused: u64,
    pub parted: u64,
}

/// Latencies of one kind of transaction.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct KindFigures {
    pub committed: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl ModelPlan {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn check(&self) -> Result<(), String> {
        check_one_shot(&self.modes, self.pace)
    }

    /// Runs one mode and checks it.
    ///
    /// # Errors
    /// When it does not come to an end.
    pub fn run(&self, mode: BenchMode, seed: u64) -> Result<(ModelSummary, Check), String> {
        let run = self.workload.run();
        // The same seeds as on the embedded store.
        let seeds = (0..self.clients).map(|number| seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let has_stages = Rc::new(Cell::new(false));
        let client = |seed| Simulated::new(run.client(seed), Rc::clone(&has_stages));
        let clients = seeds.map(|seed| Box::new(client(seed)) as Box<dyn model::Client>).collect();
        let shards = self.shards_of(mode);
        let setup = Setup { mode: mode_of(mode), pace: pace_of(self.pace), shards, ..self.setup.clone() };
        let mut model = Model::new(setup, clients);
        for call in self.workload.load().flatten() {
            model.call(&given(call));
        }
        let measured = model.run().map_err(|error| format!("mode {}: {error}", mode.name))?;
        let promise = match mode.engine {
            Engine::Store(Mode::None) => Promise::Operations,
            // Each stage was a MULTI of its own.
            Engine::OneServer if has_stages.get() => Promise::Operations,
            _ => Promise::Transactions,
        };
        let violations = match model.left_behind() {
            (0, 0) => {
                let mut read = |call: Call| model.call(&given(call));
                let violations = run.verify(promise, &mut read);
                violations.iter().take(VIOLATIONS_MAX).map(ToString::to_string).collect()
            }
            (records, attempts) => {
                vec![format!("{attempts} attempts still hold something and {records} records are locked")]
            }
        };
        Ok((self.summary(mode, &measured), Check::new(mode.name, promise, violations)))
    }

    fn over_time(&self, measured: &Measured) -> OverTime {
        let interval = Duration::from_micros(self.setup.measured_us) / model::INTERVALS as u32;
        let warm_up = Duration::from_micros(self.setup.warm_up_us);
        OverTime::new(interval, &measured.intervals, (warm_up, measured.warm_up))
    }

    fn shards_of(&self, mode: BenchMode) -> u32 {
        if mode.engine == Engine::OneServer { 1 } else { self.setup.shards }
    }

    fn ordering_of(&self, mode: BenchMode) -> &'static str {
        ordering_name(Setup { mode: mode_of(mode), ..self.setup.clone() }.ordering())
    }

    fn summary(&self, mode: BenchMode, measured: &Measured) -> ModelSummary {
        let seconds = self.setup.measured_us as f64 / 1e6;
        let names = self.workload.kinds().iter().map(|kind| kind.name);
        let none = Latencies::default();
        let kinds = names
            .enumerate()
            .map(|(at, name)| (name, KindFigures::of(measured.kinds.get(at).unwrap_or(&none))));
        let all = KindFigures::of(&measured.latencies);
        let causes = measured.causes;
        ModelSummary {
            kind: "summary",
            setting: Setting {
                workload: self.workload.name(),
                mode: mode.name,
                store: "sim",
                shards: self.shards_of(mode),
                clients: self.clients,
                threads: self.setup.processes as usize,
                processes: self.setup.processes as usize,
            },
            ordering: self.ordering_of(mode),
            figures: Figures {
                seconds,
                committed: measured.committed,
                throughput: measured.committed as f64 / seconds,
                p50_us: all.p50_us,
                p95_us: us(measured.latencies.permille(950)),
                p99_us: all.p99_us,
                max_us: all.max_us,
                aborts: measured.aborts,
                retries: causes.sum(),
                lock_waits: measured.lock_waits,
            },
            over_time: self.over_time(measured),
            p999_us: all.p999_us,
            retries_per_commit: ratio(causes.sum(), measured.committed),
            causes: Causes {
                gave_way: causes.gave_way,
                busy: causes.busy,
                refused: causes.refused,
                parted: causes.parted,
            },
            frames: measured.frames,
            operations_per_frame: ratio(measured.operations, measured.frames),
            busiest_shard: ratio(
                measured.busy_ns.iter().copied().max().unwrap_or_default(),
                self.setup.measured_us * 1_000,
            ),
            combined: measured.combined,
            kinds: kinds.collect(),
            events: measured.events,
        }
    }
}

impl KindFigures {
    fn of(latencies: &Latencies) -> Self {
        KindFigures {
            committed: latencies.count(),
            p50_us: us(latencies.permille(500)),
            p99_us: us(latencies.permille(990)),
            p999_us: us(latencies.permille(999)),
            max_us: us(latencies.longest()),
        }
    }
}

/// What was assumed: one line before the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Assumed {
    /// Always `model`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What takes how long, in nanoseconds, and where that is from.
    pub costs: Vec<AssumedCost>,
    /// Client processes.
    pub processes: u32,
    /// Whether calls are ordered instead of locked: `never`, `hot` or `always`; or as the mode has it.
    pub ordering: &'static str,
    /// Without phases: the shortest pause before a refused lock is asked for again.
    pub backoff_us_min: u64,
    /// And the longest.
    pub backoff_us_max: u64,
    /// How long a phase takes in joiners once somebody waits for its end.
    pub phase_us_max: u64,
    /// And how many.
    pub phase_joins_max: u32,
}

/// One cost.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct AssumedCost {
    pub name: &'static str,
    pub ns: u64,
    pub source: &'static str,
}

impl Assumed {
    /// That of a setup.
    pub fn of(setup: &Setup) -> Self {
        let source = |at: usize, cost: model::Cost| match Costs::default().list()[at].ns == cost.ns {
            true => cost.source,
            false => "given",
        };
        let costs = setup.costs.list().into_iter().enumerate();
        Assumed {
            kind: "model",
            costs: costs
                .map(|(at, cost)| AssumedCost { name: cost.name, ns: cost.ns, source: source(at, cost) })
                .collect(),
            processes: setup.processes,
            ordering: setup.ordering.map_or("as the mode has it", ordering_name),
            backoff_us_min: setup.limits.backoff_us_min,
            backoff_us_max: setup.limits.backoff_us_max,
            phase_us_max: setup.limits.phase_us_max,
            phase_joins_max: setup.limits.phase_joins_max,
        }
    }
}

fn ordering_name(ordering: Ordered) -> &'static str {
    match ordering {
        Ordered::Never => "never",
        Ordered::Adaptive => "adaptive",
        Ordered::Always => "always",
    }
}

fn mode_of(mode: BenchMode) -> model::Mode {
    let mode = match mode.engine {
        Engine::Store(mode) => mode,
        Engine::InWay(way) => return ways::of_model(way),
        Engine::OneServer => return model::Mode::OneServer,
        Engine::Claret => return model::Mode::Claret,
        Engine::Optimistic | Engine::Sinfonia | Engine::Mutex | Engine::Sqlite | Engine::Redis(_) => {
            unreachable!("the mode '{}' was refused", mode.name)
        }
    };
    match mode {
        Mode::None => model::Mode::None,
        Mode::ReaderWriter => model::Mode::ReaderWriter,
        Mode::ReaderWriterPhased => model::Mode::ReaderWriterPhased,
        Mode::Commuting => model::Mode::Commuting,
        Mode::CommutingPhased => model::Mode::CommutingPhased,
        Mode::Way(way) => model::Mode::InProcessWay(way.process_way()),
    }
}

fn pace_of(pace: Pace) -> model::Pace {
    match pace {
        Pace::Together => model::Pace::Together,
        Pace::Pause(time) => model::Pace::Pause(time.as_micros() as u64),
        Pace::Interactive(time) => model::Pace::Interactive(time.as_micros() as u64),
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
