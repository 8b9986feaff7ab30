//! `claret bench --store sim`: the arguments of the performance model, and what is printed of it.

use std::io::{self, Write};
use std::process::ExitCode;

use claret_bench::model::{Assumed, ModelPlan, ModelSummary};
use claret_bench::workload::Workload;
use claret_bench::{BenchMode, Check, Pace};
use claret_sim::model::{Costs, Mode, Ordered, Setup};
use serde_json::json;

use super::{exit_code, line, over_time, print_single, seconds, verdict, write_failed};
use crate::output;
use crate::table::{grouped, latency, ratio, table};

/// Clients of one process, unless it is said otherwise: the papers' 4 machines for 256 clients.
const CLIENTS_PER_PROCESS: usize = 64;

/// Of the counted time, how much runs before it, uncounted.
const WARM_UP_DIVISOR: u64 = 10;

/// Arguments that only the model has.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "With --store sim")]
pub(in crate::commands) struct ModelArgs {
    /// Client processes, each with a part of the clients (default: one for each 64 clients). Also of real servers: then
    /// sessions of this program, each with connections and a thread of its own (default 1).
    #[arg(long)]
    processes: Option<u32>,
    /// How many frames a process may have unanswered at one shard (default 4).
    #[arg(long, value_name = "N")]
    window: Option<u32>,
    /// A round trip, in microseconds (default 150).
    #[arg(long, value_name = "MICROS")]
    rtt: Option<u64>,
    /// The longest extra time that a frame takes on its way, in microseconds (default 0).
    #[arg(long, value_name = "MICROS")]
    jitter: Option<u64>,
    /// A shard's work for a frame, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    frame_cost: Option<u64>,
    /// A shard's work for a frame to a process that did not ask, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    push_cost: Option<u64>,
    /// A shard's work for a frame to or from another shard, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    peer_cost: Option<u64>,
    /// A shard's work for an operation, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    op_cost: Option<u64>,
    /// A shard's work for the lock of an operation, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    lock_cost: Option<u64>,
    /// A shard's work for any other message, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    message_cost: Option<u64>,
    /// A client process's work for a frame, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    process_frame_cost: Option<u64>,
    /// A client process's work for an operation or any other message, in nanoseconds.
    #[arg(long, value_name = "NANOS")]
    process_message_cost: Option<u64>,
    /// The pauses of modes without phases, in microseconds (default: what serves rw best on the workload). With
    /// real servers those of redis-lock and redis-watch (default: what serves each best).
    #[arg(long, value_name = "MIN..MAX", value_parser = backoff)]
    backoff: Option<(u64, u64)>,
    /// How long a blocked transaction waits before it gives way to an elder, in microseconds (default 200).
    #[arg(long, value_name = "MICROS")]
    give_way: Option<u64>,
    /// Without phases: so many refusals of a lock before the attempt restarts (default 0).
    #[arg(long, value_name = "N")]
    lock_tries: Option<u32>,
    /// How long a phase takes in joiners once somebody waits for its end, in microseconds (default 600).
    #[arg(long, value_name = "MICROS")]
    phase: Option<u64>,
    /// And how many (default 8).
    #[arg(long, value_name = "N")]
    phase_joins: Option<u32>,
    /// Whether calls that come with the prepare are ordered by timestamps instead of locked, in the modes with
    /// abstract locks and phases: never, adaptive or always (default: adaptive in mode claret, never in the others).
    #[arg(long, value_name = "never|adaptive|always", value_parser = ordering)]
    ordering: Option<Ordered>,
}

/// What of `claret bench`'s own arguments the model needs.
pub(in crate::commands) struct BenchArgs {
    pub(in crate::commands) workload: Box<dyn Workload>,
    pub(in crate::commands) modes: Vec<BenchMode>,
    pub(in crate::commands) shards: Option<u32>,
    pub(in crate::commands) clients: Option<usize>,
    pub(in crate::commands) pace: Pace,
    /// The pauses of modes without phases, unless others are given.
    pub(in crate::commands) pauses: (u64, u64),
    pub(in crate::commands) seconds: Option<f64>,
    pub(in crate::commands) seed: u64,
}

impl ModelArgs {
    /// The arguments by name, and whether they were given.
    pub(super) fn given(&self) -> [(&'static str, bool); 18] {
        [
            ("--processes", self.processes.is_some()),
            ("--window", self.window.is_some()),
            ("--rtt", self.rtt.is_some()),
            ("--jitter", self.jitter.is_some()),
            ("--frame-cost", self.frame_cost.is_some()),
            ("--push-cost", self.push_cost.is_some()),
            ("--peer-cost", self.peer_cost.is_some()),
            ("--op-cost", self.op_cost.is_some()),
            ("--lock-cost", self.lock_cost.is_some()),
            ("--message-cost", self.message_cost.is_some()),
            ("--process-frame-cost", self.process_frame_cost.is_some()),
            ("--process-message-cost", self.process_message_cost.is_some()),
            ("--backoff", self.backoff.is_some()),
            ("--give-way", self.give_way.is_some()),
            ("--lock-tries", self.lock_tries.is_some()),
            ("--phase", self.phase.is_some()),
            ("--phase-joins", self.phase_joins.is_some()),
            ("--ordering", self.ordering.is_some()),
        ]
    }

    /// The client processes that were given.
    pub(super) fn processes(&self) -> Option<usize> {
        self.processes.map(|processes| processes as usize)
    }

    /// The pauses that were given.
    pub(super) fn pauses(&self) -> Option<(u64, u64)> {
        self.backoff
    }

    fn costs(&self) -> Result<Costs, String> {
        let default = Costs::default();
        let of = |name: &str, given: Option<u64>, default: u64, scale: u64| match given {
            None => Ok(default),
            // A second for anything is more than enough, and sums stay far from overflowing.
            Some(value) if value <= 1_000_000_000 / scale => Ok(value * scale),
            Some(value) => Err(format!("{name} {value}: at most a second")),
        };
        Ok(Costs {
            delay: of("--rtt", self.rtt, 2 * default.delay, 1_000)? / 2,
            jitter: of("--jitter", self.jitter, default.jitter, 1_000)?,
            frame: of("--frame-cost", self.frame_cost, default.frame, 1)?,
            peer: of("--peer-cost", self.peer_cost, default.peer, 1)?,
            push: of("--push-cost", self.push_cost, default.push, 1)?,
            op: of("--op-cost", self.op_cost, default.op, 1)?,
            lock: of("--lock-cost", self.lock_cost, default.lock, 1)?,
            message: of("--message-cost", self.message_cost, default.message, 1)?,
            process_frame: of("--process-frame-cost", self.process_frame_cost, default.process_frame, 1)?,
            process_message: of(
                "--process-message-cost",
                self.process_message_cost,
                default.process_message,
                1,
            )?,
        })
    }

    /// What to run.
    pub(in crate::commands) fn plan(&self, given: BenchArgs) -> Result<ModelPlan, String> {
        let clients = given.clients.unwrap_or(256);
        let processes = match self.processes {
            Some(processes) => processes,
            None => clients.div_ceil(CLIENTS_PER_PROCESS) as u32,
        };
        if processes == 0 || clients < processes as usize {
            return Err(format!(
                "{clients} clients in {processes} processes: there must be at least one client for each process, \
                 and one process"
            ));
        }
        if self.window == Some(0) {
            return Err("--window 0: at least one frame must be under way".into());
        }
        let measured_us = seconds("--seconds", given.seconds.unwrap_or(0.5))?.as_micros() as u64;
        let mut setup = Setup::new(Mode::None);
        setup.shards = given.shards.unwrap_or(4);
        setup.ordering = self.ordering;
        setup.processes = processes;
        setup.window = self.window.unwrap_or(setup.window);
        setup.costs = self.costs()?;
        setup.seed = given.seed;
        setup.measured_us = measured_us;
        setup.warm_up_us = measured_us / WARM_UP_DIVISOR;
        let limits = &mut setup.limits;
        (limits.backoff_us_min, limits.backoff_us_max) = self.backoff.unwrap_or(given.pauses);
        limits.give_way_us = self.give_way.unwrap_or(limits.give_way_us);
        limits.lock_tries_max = self.lock_tries.unwrap_or(limits.lock_tries_max);
        limits.phase_us_max = self.phase.unwrap_or(limits.phase_us_max);
        limits.phase_joins_max = self.phase_joins.unwrap_or(limits.phase_joins_max);
        let BenchArgs { workload, modes, pace, .. } = given;
        let plan = ModelPlan { workload, modes, clients, pace, setup };
        plan.check()?;
        Ok(plan)
    }
}

/// Runs a plan and prints what it came to.
pub(super) fn run_plan(plan: &ModelPlan, json: bool, out: &mut dyn Write) -> ExitCode {
    match measured(plan, json, out) {
        Ok(code) => code,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

fn measured(plan: &ModelPlan, json: bool, out: &mut dyn Write) -> Result<ExitCode, String> {
    let mut summaries = Vec::with_capacity(plan.modes.len());
    let mut checks = Vec::with_capacity(plan.modes.len());
    for mode in &plan.modes {
        let (summary, check) = plan.run(*mode, plan.setup.seed)?;
        summaries.push(summary);
        checks.push(check);
    }
    let assumed = Assumed::of(&plan.setup);
    let printed = if json {
        print_json(out, &assumed, &summaries, &checks)
    } else {
        print_table(out, &assumed, &summaries, &checks)
    };
    printed.map_err(write_failed)?;
    Ok(exit_code(&checks, false))
}

fn print_json(
    out: &mut dyn Write,
    assumed: &Assumed,
    summaries: &[ModelSummary],
    checks: &[Check],
) -> io::Result<()> {
    line(out, assumed)?;
    for summary in summaries {
        line(out, summary)?;
    }
    let passed = checks.iter().all(|check| check.passed);
    line(out, &json!({ "type": "check", "passed": passed, "interrupted": false, "modes": checks }))
}

fn print_table(
    out: &mut dyn Write,
    assumed: &Assumed,
    summaries: &[ModelSummary],
    checks: &[Check],
) -> io::Result<()> {
    let Some(first) = summaries.first() else { return Ok(()) };
    let setting = &first.setting;
    let shards = summaries.iter().map(|summary| summary.setting.shards).max().unwrap_or(0);
    let plural = if setting.threads == 1 { "" } else { "es" };
    writeln!(
        out,
        "{}, in virtual time, {} shards, {} clients in {} process{plural}, {} s for each mode",
        setting.workload, shards, setting.clients, setting.threads, first.figures.seconds,
    )?;
    let costs: Vec<String> =
        assumed.costs.iter().map(|cost| format!("{} {} ns ({})", cost.name, cost.ns, cost.source)).collect();
    writeln!(out, "assumed: {}", costs.join("; "))?;
    writeln!(
        out,
        "pauses without phases: {} to {} us; calls are ordered: {}",
        assumed.backoff_us_min, assumed.backoff_us_max, assumed.ordering
    )?;
    let of = |mode: &str| {
        summaries.iter().find(|it| it.setting.mode == mode).map(|summary| summary.figures.throughput)
    };
    let (none, rw) = (of("none"), of("rw"));
    let row = |summary: &ModelSummary| {
        let figures = &summary.figures;
        vec![
            summary.setting.mode.to_owned(),
            grouped(figures.throughput as u64),
            ratio(figures.throughput, none),
            ratio(figures.throughput, rw),
            latency(figures.p50_us),
            latency(figures.p99_us),
            latency(summary.p999_us),
            grouped(figures.aborts),
            format!("{:.3}", summary.retries_per_commit),
            grouped(figures.lock_waits),
            format!("{:.1}", summary.operations_per_frame),
            format!("{:.0} %", summary.busiest_shard * 100.0),
        ]
    };
    let header = [
        "mode",
        "tx/s",
        "of none",
        "of rw",
        "p50",
        "p99",
        "p99.9",
        "aborts",
        "retries",
        "lock waits",
        "ops/frame",
        "busiest",
    ];
    write!(out, "{}", table(&header, &summaries.iter().map(row).collect::<Vec<_>>()))?;
    print_single(out, summaries.iter().map(|it| &it.setting))?;
    let modes: Vec<_> = summaries.iter().map(|it| (it.setting.mode, &it.over_time)).collect();
    over_time::print(out, &modes)?;
    writeln!(out, "{}", verdict(checks))
}

fn ordering(text: &str) -> Result<Ordered, String> {
    match text {
        "never" => Ok(Ordered::Never),
        "adaptive" => Ok(Ordered::Adaptive),
        "always" => Ok(Ordered::Always),
        _ => Err("calls are ordered never, adaptive (while more is carried out so) or always".into()),
    }
}

fn backoff(text: &str) -> Result<(u64, u64), String> {
    let parsed = text.split_once("..").and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    match parsed {
        Some((min, max)) if 0 < min && min <= max && max <= 1_000_000 => Ok((min, max)),
        Some(_) => Err("from 1 up to a million microseconds, the shorter one first".into()),
        None => Err("pauses are given as MIN..MAX in microseconds, as in 50..10000".into()),
    }
}
