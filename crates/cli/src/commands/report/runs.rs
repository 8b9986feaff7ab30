//! The runs that a report needs: each is measured once, however many figures show it.
//!
//! Runs of the model are spread over the cores: nothing there depends on what else the machine does. Runs on servers go one after
//! another, the modes of a point in turns, as in `claret bench`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use claret_bench::workload::retwis::{self, RetwisMix};
use claret_bench::workload::rubis::{self, RubisMix};
use claret_bench::workload::{WorkloadSpec, rawmix};
use claret_bench::{Bench, Check, Figures, Looking, OverTime, Pace, Plan};

use super::scale::Scale;
use crate::commands::bench::best_pauses;
use crate::commands::bench::model::{BenchArgs, ModelArgs};
use crate::commands::store_arg::StoreArg;

/// A line of a chart: a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    None,
    Rw,
    RwPhase,
    Boost,
    BoostPhase,
    /// The papers' Claret.
    Combining,
    /// What a cluster does by default, in the model and on servers.
    Claret,
    /// On servers in the place of reader/writer locks.
    RedisLock,
}

impl Series {
    /// The modes of the papers, and ours.
    pub(super) const MODEL: [Series; 7] = [
        Series::None,
        Series::Rw,
        Series::RwPhase,
        Series::Boost,
        Series::BoostPhase,
        Series::Combining,
        Series::Claret,
    ];
    /// Those that a cluster has.
    pub(super) const SERVERS: [Series; 3] = [Series::None, Series::RedisLock, Series::Claret];

    /// In the legend.
    pub(super) fn name(self) -> &'static str {
        match self {
            Series::Combining => "combining",
            other => other.mode(),
        }
    }

    /// As in `claret bench --modes`.
    fn mode(self) -> &'static str {
        match self {
            Series::None => "none",
            Series::Rw => "rw",
            Series::RwPhase => "rw+phase",
            Series::Boost => "boost",
            Series::BoostPhase => "boost+phase",
            Series::Combining => "boost+phase+combine",
            Series::Claret => "claret",
            Series::RedisLock => "redis-lock",
        }
    }

    /// What stands for it on servers.
    pub(super) fn on_servers(self) -> Self {
        match self {
            Series::None => Series::None,
            Series::Rw | Series::RwPhase | Series::RedisLock => Series::RedisLock,
            Series::Boost | Series::BoostPhase | Series::Combining | Series::Claret => Series::Claret,
        }
    }
}

/// A workload with those of its parameters that figures vary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    RawMix { adds: f64, alpha: f64 },
    Rubis(RubisMix),
    Retwis(RetwisMix, u32),
}

impl Load {
    pub(super) fn spec(self, scale: &Scale, seed: u64) -> WorkloadSpec {
        match self {
            Load::RawMix { adds, alpha } => WorkloadSpec::RawMix(rawmix::Options {
                adds_percent: adds,
                alpha,
                keys: scale.keys,
                ..rawmix::Options::default()
            }),
            Load::Rubis(mix) => {
                WorkloadSpec::Rubis(rubis::Options { mix, items: scale.items, seed, ..Default::default() })
            }
            Load::Retwis(mix, users) => {
                WorkloadSpec::Retwis(retwis::Options { mix, scale: users, seed, ..Default::default() })
            }
        }
    }
}

/// One mode at one point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) load: Load,
    pub(super) clients: usize,
    pub(super) series: Series,
}

/// What it came to.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) figures: Figures,
    /// Transactions a second in each tenth of the measured time.
    pub(super) rates: Vec<f64>,
}

impl Outcome {
    fn new(figures: Figures, over_time: &OverTime) -> Self {
        Outcome { figures, rates: over_time.rates().collect() }
    }
}

/// All jobs that were run.
#[derive(Debug, Default)]
pub(super) struct Outcomes(Vec<(Job, Outcome)>);

impl Outcomes {
    /// That of a job.
    pub(super) fn get(&self, job: &Job) -> Option<&Outcome> {
        self.0.iter().find(|(it, _)| it == job).map(|(_, outcome)| outcome)
    }

    #[cfg(test)]
    pub(super) fn of(jobs: Vec<(Job, Outcome)>) -> Self {
        Outcomes(jobs)
    }
}

/// What is the same for all runs.
pub(super) struct Runs<'a> {
    pub(super) scale: &'a Scale,
    pub(super) seed: u64,
    pub(super) stop: &'a Arc<AtomicBool>,
    /// Told the number of a run, of how many, and what it is.
    pub(super) progress: &'a (dyn Fn(usize, usize, &str) + Sync),
}

impl Runs<'_> {
    fn check_stop(&self) -> Result<(), String> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err("interrupted; no report was written".into()),
            false => Ok(()),
        }
    }

    /// Runs jobs in the model.
    pub(super) fn in_model(&self, jobs: &[Job]) -> Result<Outcomes, String> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let results = Mutex::new(Vec::with_capacity(jobs.len()));
        let work = || {
            while !failed.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { return };
                (self.progress)(at + 1, jobs.len(), job.series.name());
                let result = self.check_stop().and_then(|()| self.model_job(job));
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                results.lock().unwrap_or_else(PoisonError::into_inner).push((*job, result));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..cores().min(jobs.len()) {
                scope.spawn(work);
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.into_iter().map(|(job, result)| Ok((job, result?))).collect::<Result<_, _>>().map(Outcomes)
    }

    fn model_job(&self, job: &Job) -> Result<Outcome, String> {
        let workload = job.load.spec(self.scale, self.seed);
        let modes = StoreArg::Model.modes(Some(job.series.mode()))?;
        let given = BenchArgs {
            workload: workload.make(""),
            modes: modes.clone(),
            shards: None,
            clients: Some(job.clients),
            pace: Pace::Together,
            pauses: best_pauses(&workload),
            seconds: Some(self.scale.virtual_seconds),
            seed: self.seed,
        };
        let mut plan = ModelArgs::default().plan(given)?;
        if job.series == Series::Claret {
            plan.setup.warm_up_us = (self.scale.settling_seconds * 1e6) as u64;
        }
        let (summary, check) = plan.run(modes[0], self.seed)?;
        passed(&[check])?;
        Ok(Outcome::new(summary.figures, &summary.over_time))
    }

    /// Runs jobs on servers; those of one point take turns.
    pub(super) fn on_servers(&self, store: &StoreArg, jobs: &[Job]) -> Result<Outcomes, String> {
        let mut points: Vec<(Load, usize)> = Vec::new();
        for job in jobs {
            if !points.contains(&(job.load, job.clients)) {
                points.push((job.load, job.clients));
            }
        }
        let mut all = Vec::new();
        let scale = Scale { items: self.scale.server_items, ..self.scale.clone() };
        for (at, (load, clients)) in points.iter().enumerate() {
            self.check_stop()?;
            (self.progress)(at + 1, points.len(), "on servers");
            let names: Vec<&str> = Series::SERVERS.iter().map(|series| series.mode()).collect();
            let modes = store.modes(Some(&names.join(",")))?;
            let time = Duration::from_secs_f64(self.scale.server_seconds);
            let plan = Plan {
                place: store.place(None, None, &modes, None)?,
                workload: load.spec(&scale, self.seed),
                modes,
                shards: 0,
                clients: *clients,
                threads: 1,
                processes: 1,
                pace: Pace::Together,
                looking: Looking::AtAnswers,
                time,
                slice: time.min(Duration::from_millis(500)),
                seed: self.seed,
            };
            let mut bench = Bench::new(plan, Arc::clone(self.stop))?;
            let measured = self.measured(&mut bench);
            // Whatever came of it: the servers may be somebody's.
            let cleaned = bench.clean();
            for (series, outcome) in Series::SERVERS.into_iter().zip(measured?) {
                all.push((Job { load: *load, clients: *clients, series }, outcome));
            }
            cleaned?;
        }
        Ok(Outcomes(all))
    }

    fn measured(&self, bench: &mut Bench) -> Result<Vec<Outcome>, String> {
        bench.load(&mut ())?;
        self.check_stop()?;
        bench.run(&mut ())?;
        let summaries = bench.summaries();
        passed(&bench.check())?;
        self.check_stop()?;
        Ok(summaries.into_iter().map(|it| Outcome::new(it.figures, &it.over_time)).collect())
    }
}

/// How many runs of the model go on at once.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A figure of a store that lost something is none.
fn passed(checks: &[Check]) -> Result<(), String> {
    match checks.iter().find(|check| !check.passed) {
        None => Ok(()),
        Some(check) => Err(format!(
            "mode {}: the store does not hold what it acknowledged: {}; no report was written",
            check.mode,
            check.violations.first().map_or("", String::as_str)
        )),
    }
}
