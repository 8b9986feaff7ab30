//! `claret sim`: runs the protocol in a simulator that delays, loses and doubles messages, restarts shards and kills
//! clients, and checks each run against a sequential model and against what its users saw.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use claret_bench::workload::tpcc::TpccScenario;
use claret_sim::{Config, Failure, LeftOut, Outcome, Plant, Scenario, SimOptions, Totals, run_with, script};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Arguments of `claret sim`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret sim\n  claret sim --seeds 0..100000\n  claret sim --seed 42 --trace\n\n\
                        A seed decides everything: the same seed gives the same run. The exit code is 1 if a \
                        run goes wrong.",
    after_long_help = format!(
        "Examples:\n  claret sim\n  claret sim --seeds 0..100000\n  claret sim --seed 42 --trace\n  \
         claret sim --script crates/sim/testdata/timeline_give_way.txt\n\n\
         A seed decides everything: the same seed gives the same run. The exit code is 1 if a run goes wrong.\n\n\
         Scripts: blocks of commands, each with an empty line behind it; '#' begins a comment. The commands are:\n{}",
        script::help()
    )
)]
pub(crate) struct Args {
    /// The seeds to run: from A up to, not including, B.
    #[arg(long, value_name = "A..B", value_parser = range, default_value = "0..1000", conflicts_with = "seed")]
    seeds: Range<u64>,
    /// Run one seed and show what it came to.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: print everything that happened, an event a line, with the virtual time in microseconds.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Go on after a failure, with a line for each.
    #[arg(long, conflicts_with = "seed")]
    keep_going: bool,
    /// Small runs: two shards, two clients, a few transactions each.
    #[arg(long)]
    small: bool,
    /// Change settings of the runs: NAME=VALUE,... (a failure shows all of them).
    #[arg(long, value_name = "SETTINGS", value_parser = settings, default_value = "", hide_default_value = true)]
    set: String,
    /// What clients do. random: programs that the seed draws, over records of all types; tpcc: the five transactions of TPC-C, on small
    /// tables, whose consistency conditions are checked at the end.
    #[arg(long, value_name = "WORKLOAD", value_parser = workload, default_value = "random")]
    workload: Workload,
    /// Report a failure as it is found, without making the run small.
    #[arg(long)]
    no_shrink: bool,
    /// Threads that run seeds side by side; what is found does not depend on it.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
    /// Plant a fault in the protocol, to see it found.
    #[arg(long, value_name = "FAULT", value_parser = plant, default_value = "none")]
    plant: Plant,
    /// Play a script of messages delivered by hand, and print it with what comes of each command.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "seeds", "trace", "keep_going", "plant", "workload"])]
    script: Option<PathBuf>,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    Random,
    Tpcc,
}

impl Workload {
    /// What a seed runs instead of random programs.
    fn scenario(self, seed: u64) -> Option<Arc<dyn Scenario>> {
        static TPCC: LazyLock<[Arc<TpccScenario>; 2]> =
            LazyLock::new(|| [1, 2].map(|warehouses| Arc::new(TpccScenario::new(warehouses))));
        match self {
            Workload::Random => None,
            Workload::Tpcc => Some(TPCC[(seed % 2) as usize].clone()),
        }
    }
}

fn workload(name: &str) -> Result<Workload, String> {
    match name {
        "random" => Ok(Workload::Random),
        "tpcc" => Ok(Workload::Tpcc),
        other => Err(format!("there is no workload '{other}' to simulate; there are random and tpcc")),
    }
}

/// So many seeds after which conditions were not checked are named, at most.
const SEEDS_NAMED: usize = 20;

/// Seeds that are handed to the threads together.
const BATCH: usize = 256;

/// The faults that can be planted, by name.
const PLANTS: [(&str, Plant); 6] = [
    ("none", Plant::None),
    ("forge-applied", Plant::ForgeApplied),
    ("forge-vote", Plant::ForgeVote),
    ("alter-answers", Plant::AlterAnswers),
    ("forget-effects", Plant::ForgetEffects),
    ("silence-shard", Plant::SilenceShard),
];

/// All of them: bugs of the protocol itself can be planted with the feature `planted-bugs` alone.
fn plants() -> Vec<(&'static str, Plant)> {
    let plants = PLANTS.to_vec();
    #[cfg(feature = "planted-bugs")]
    let plants =
        [plants, claret_sim::Bug::all().into_iter().map(|bug| (bug.name(), bug.plant())).collect()].concat();
    plants
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let done = match (&args.script, args.seed) {
        (Some(script), _) => play(script),
        (None, Some(seed)) => show(&args.options(seed), &args),
        (None, None) => run_all(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            output::tell!("the result could not be printed: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Args {
    /// How a seed is run.
    fn options(&self, seed: u64) -> SimOptions {
        let mut config = if self.small { Config::small(seed) } else { Config::random(seed) };
        let scenario = self.workload.scenario(seed);
        if scenario.is_some() {
            config = config.for_scenario();
        }
        config.set(&self.set).expect("read with the arguments");
        SimOptions {
            config: Some(config),
            plant: self.plant,
            timeline: self.trace,
            shrink: !(self.no_shrink || self.keep_going || self.trace),
            scenario,
            ..SimOptions::seed(seed)
        }
    }
}

/// A failed assertion in the state machines is a result like any other, and said once.
fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let ran = run();
    std::panic::set_hook(hook);
    ran
}

/// Runs seeds on all threads; what each came to, in their order. After a failure the later ones may be missing.
fn run_batch(seeds: &[u64], args: &Args) -> Vec<(u64, Result<Outcome, Box<Failure>>)> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            scope.spawn(|| {
                while let Some(seed) = take(&next, seeds) {
                    let ran = run_with(&args.options(seed)).map(|(outcome, _)| outcome);
                    if ran.is_err() && !args.keep_going {
                        next.store(seeds.len(), Ordering::Relaxed);
                    }
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((seed, ran));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(seed, _)| *seed);
    found
}

fn take(next: &AtomicUsize, seeds: &[u64]) -> Option<u64> {
    seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied()
}

/// Plays a script; returns whether all was well.
fn play(path: &Path) -> io::Result<bool> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            output::tell!("the script '{}' cannot be read: {error}", path.display());
            return Ok(false);
        }
    };
    let played = script::play(&text);
    write!(io::stdout().lock(), "{}", played.transcript)?;
    Ok(played.error.is_none())
}

/// Runs one seed; returns whether all was well.
fn show(options: &SimOptions, args: &Args) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let seed = options.seed;
    match quietly(|| run_with(options)) {
        Ok((outcome, timeline)) => {
            print_lines(&mut out, &timeline)?;
            writeln!(out, "{}", describe(seed, &outcome))?;
            Ok(true)
        }
        Err(failure) => {
            if args.trace {
                print_lines(&mut out, &failure.timeline)?;
                writeln!(out, "seed {seed} fails: {}", failure.reason)?;
            } else {
                writeln!(out, "{failure}{}", replay_suffix(args.plant))?;
            }
            Ok(false)
        }
    }
}

/// Runs the seeds in order; returns whether all was well.
fn run_all(args: &Args) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let bar = progress(args.seeds.end - args.seeds.start);
    let (mut totals, mut failures, began) = (Totals::default(), 0u64, Instant::now());
    let (mut seeds, mut left_out) = (args.seeds.clone(), BTreeMap::<LeftOut, Vec<u64>>::new());
    'all: loop {
        let batch: Vec<u64> = seeds.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        for (seed, ran) in quietly(|| run_batch(&batch, args)) {
            match ran {
                Ok(outcome) => {
                    totals.add(&outcome);
                    outcome
                        .conditions_left
                        .iter()
                        .for_each(|why| left_out.entry(*why).or_default().push(seed));
                }
                Err(failure) => {
                    failures += 1;
                    bar.suspend(|| print_failure(&mut out, &failure, args))?;
                    if !args.keep_going {
                        break 'all;
                    }
                }
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    let conditions = conditions(totals.conditions_checked, &left_out);
    writeln!(out, "{}", summarise(&totals, &conditions, failures, began.elapsed().as_secs_f64()))?;
    Ok(failures == 0)
}

fn print_failure(out: &mut impl Write, failure: &Failure, args: &Args) -> io::Result<()> {
    if args.keep_going {
        writeln!(out, "seed {} fails: {}", failure.seed, failure.reason)
    } else {
        writeln!(out, "{failure}{}\n", replay_suffix(args.plant))
    }
}

fn print_lines(out: &mut impl Write, lines: &[String]) -> io::Result<()> {
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// What the failure's command for a replay lacks.
fn replay_suffix(plant: Plant) -> String {
    let name = plants().into_iter().find(|(_, known)| *known == plant).map_or("", |(name, _)| name);
    if plant == Plant::None { String::new() } else { format!(" --plant {name}") }
}

/// A bar on a terminal; nothing elsewhere.
fn progress(seeds: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    ProgressBar::new(seeds).with_style(style.expect("the template is well-formed"))
}

fn describe(seed: u64, outcome: &Outcome) -> String {
    let conditions = match outcome.conditions_left {
        Some(why) => format!("conditions not checked, since {why}, "),
        None if outcome.conditions_checked > 0 => "conditions checked, ".to_owned(),
        None => String::new(),
    };
    format!(
        "seed {seed} is well: {} committed, {} aborted, {} failed for good, {} unknown, {} restarts, {} answers \
         shared, {} messages, {} faults, {} shard restarts, {} records vanished, {} torn, {} recoveries, {} judged by results alone over \
         {} edges, {} steps in {:.3} s of virtual time, {conditions}trace {:016x}",
        outcome.committed,
        outcome.aborted,
        outcome.failed,
        outcome.unknown,
        outcome.restarts,
        outcome.combined,
        outcome.messages,
        outcome.faults,
        outcome.shard_restarts,
        outcome.vanished,
        outcome.torn,
        outcome.recoveries,
        outcome.judged,
        outcome.edges,
        outcome.steps,
        outcome.micros as f64 / 1e6,
        outcome.trace_hash
    )
}

/// After how many runs the conditions of a workload were checked, and after which they were not.
fn conditions(checked: u64, left_out: &BTreeMap<LeftOut, Vec<u64>>) -> String {
    if checked == 0 && left_out.is_empty() {
        return String::new();
    }
    let named = |(why, seeds): (&LeftOut, &Vec<u64>)| {
        let first: Vec<String> = seeds.iter().take(SEEDS_NAMED).map(u64::to_string).collect();
        let more = if seeds.len() > SEEDS_NAMED { " ..." } else { "" };
        format!(", not checked after {}, where {why} (seeds {}{more})", seeds.len(), first.join(" "))
    };
    format!("conditions checked after {checked}{}; ", left_out.iter().map(named).collect::<String>())
}

fn summarise(totals: &Totals, conditions: &str, failures: u64, seconds: f64) -> String {
    let plural = if failures == 1 { "" } else { "s" };
    format!(
        "{} seeds are well: {} committed, {} aborted, {} failed for good, {} unknown, {} restarts, {} answers shared, \
         {} messages, {} faults, {} shard restarts, {} records vanished, {} torn, {} recoveries, {} judged by results alone over {} edges; \
         {conditions}{failures} failure{plural}; {seconds:.1} s",
        totals.seeds,
        totals.committed,
        totals.aborted,
        totals.failed,
        totals.unknown,
        totals.restarts,
        totals.combined,
        totals.messages,
        totals.faults,
        totals.shard_restarts,
        totals.vanished,
        totals.torn,
        totals.recoveries,
        totals.judged,
        totals.edges
    )
}

/// Whether a value is one shows with any configuration.
fn settings(text: &str) -> Result<String, String> {
    Config::random(0).set(text).map(|()| text.to_owned())
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    match parsed {
        Some(range) if range.start < range.end => Ok(range),
        Some(_) => Err("there is no seed in it; the end must be greater than the first".into()),
        None => Err("seeds are given as A..B, as in 0..1000".into()),
    }
}

fn plant(name: &str) -> Result<Plant, String> {
    let found = plants().into_iter().find(|(known, _)| *known == name).map(|(_, plant)| plant);
    found.ok_or_else(|| {
        let names: Vec<&str> = plants().into_iter().map(|(known, _)| known).collect();
        format!("the faults are {}", names.join(", "))
    })
}
