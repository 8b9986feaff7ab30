//! `claret bench`: arguments, and what is printed.

pub(super) mod model;
mod over_time;
mod tpcc;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use claret_bench::model::ModelPlan;
use claret_bench::workload::retwis::{self, RetwisMix};
use claret_bench::workload::rubis::{self, RubisMix};
use claret_bench::workload::{WorkloadSpec, checkout, fair, hot, objects, rawmix};
use claret_bench::{
    Bench, Check, KindSummary, Looking, Observer, Pace, Place, Plan, Setting, Slice, Summary,
};
use serde_json::json;

use super::bar::Bar;
use super::password::PasswordFile;
use super::store_arg::StoreArg;
use crate::interrupt::watch_interrupts;
use crate::output::{self, Escaped};
use crate::table::{grouped, latency, ratio, table};

const HELP_AFTER: &str = "\
Modes:
  mutex                collections behind one mutex, by hand (rawmix and hot only)
  sqlite               with --store file:FOLDER: tables of a SQLite file, WAL, synchronous=FULL, a connection for each client;
                       in a program built with --features sqlite
  none                 the same operations without transactions
  rw                   reader/writer locks, retry with backoff
  rw+phase             reader/writer locks, waiters queue in phases
  boost                locks that commuting operations share, retry with backoff
  boost+phase          the same, waiters queue in phases
  boost+phase+combine  the same, transactions share locks and answers
  claret               what Claret does by default: boost+phase; a cluster orders calls as its claret.ordering says, sim
                       where that pays, as a cluster does by default
  optimistic           the same, but transactions of several stages look without locks (--check)
  chain                boost+phase, but transactions over several shards commit in chains (docs/chains.md); not embedded
  hot-chain            the same, where they use records for which many wait
  sinfonia             mini-transactions on the same shards: reads without locks, and a commit that compares every item that was
                       read or is overwritten, under reader/writer locks that refuse at once; again after a pause
  errand               on a cluster: CLARET.DO of the operations, given to one node by each client (not interactive)
  redis-lock           on a cluster: SET NX PX for each key, the commands, release
  redis-watch          on one server: WATCH, reads, MULTI, writes, EXEC, again when somebody was faster
  redis-multi          on one server: MULTI, the commands, EXEC (not interactive)
  redis-lua            on one server: the commands in a script (not interactive)
  one-server           sim only: all keys on one server, MULTI, the operations, EXEC (not interactive)

--store sim runs the same clients against the protocol's own code in virtual time, as a cluster would: the figures
are the same on every machine and say nothing about this one.
The second table has each mode's throughput in tenths of its measured time. A mode is called uneven if its fastest
tenth, or the uncounted warm-up of --store sim, was more than twice as fast as its slowest tenth.

--store cluster starts a cluster for the run, --store redis://HOST:PORT takes one with the module; there the modes
mutex, rw, rw+phase and boost are not to be had. Keys of the run have names of their own, and are deleted at its end.

Examples:
  claret bench rawmix --modes mutex,none,claret
  claret bench rubis --mix bid-heavy --interactive --modes rw,claret
  claret bench retwis --scale 12 --threads 2 --json
  claret bench rawmix --store sim --alpha 1.2 --clients 256
  claret bench checkout --thinkers 8 --think 100000 --modes rw,claret,optimistic
  claret bench objects --objects 8 --writes 100 --alpha 1.2 --modes none,rw,claret
  claret bench retwis --store sim --ordering always
  claret bench tpcc --warehouses 2 --scale 0.1
  claret bench rubis --store cluster --modes none,redis-lock,redis-multi,redis-watch,redis-lua,claret";

/// Arguments of `claret bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP_AFTER)]
pub(crate) struct Args {
    /// rawmix, rubis, retwis, tpcc, hot, fair, checkout or objects.
    workload: String,
    /// Where it runs: embedded; file:FOLDER, embedded with a log there; sim, the performance model; cluster, started for the run; or redis://HOST:PORT.
    #[arg(long, default_value = "embedded")]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
    /// The server for the modes of one server, which is no part of a cluster (default: one is started for the run).
    #[arg(long, value_name = "URL")]
    single: Option<String>,
    /// rubis: bid-heavy (default) or read-heavy; retwis: post-heavy (default) or read-heavy.
    #[arg(long)]
    mix: Option<String>,
    /// Skew of the keys of rawmix (default 0.6), of the bids of rubis (default 1), of the products of checkout (default 0.8), of
    /// objects (default 0); 0 is uniform.
    #[arg(long)]
    alpha: Option<f64>,
    /// The share of adds in rawmix, in percent (default 50).
    #[arg(long, value_name = "PERCENT")]
    adds: Option<f64>,
    /// How many sets rawmix has (default 10,000), products checkout (default 1,000), objects objects (default 10,000).
    #[arg(long)]
    keys: Option<usize>,
    /// checkout: how many of the clients think between what they see and what they pay (default 8).
    #[arg(long)]
    thinkers: Option<usize>,
    /// checkout: how much of what the others do is to raise a price, in percent (default 0.01).
    #[arg(long, value_name = "PERCENT")]
    reprices: Option<f64>,
    /// objects: how many a transaction has (default 4).
    #[arg(long)]
    objects: Option<usize>,
    /// objects: the share of puts, in percent (default 50).
    #[arg(long, value_name = "PERCENT")]
    writes: Option<f64>,
    /// The mode optimistic: what must be as it was when a transaction commits. answers: what each operation answered (default);
    /// values: the whole record, as in a store that does not know types (rawmix, hot, fair, checkout and objects).
    #[arg(long, value_name = "answers|values")]
    check: Option<String>,
    /// Await every operation by itself, inside a transaction; other clients run in between.
    #[arg(long)]
    interactive: bool,
    /// The application's own work while it holds its locks: between operations with --interactive, otherwise after
    /// each stage and before the commit. Rounded up to the next millisecond of the timer (not with --store sim).
    /// checkout: how long those think who do (default 100,000).
    #[arg(long, value_name = "MICROS")]
    think: Option<u64>,
    /// Clients, each with one transaction at a time (default 64; with --store sim 256).
    #[arg(long)]
    clients: Option<usize>,
    /// Threads, each with a part of the clients (default 1; on real servers with --processes one for each).
    #[arg(long)]
    threads: Option<usize>,
    /// How long each mode runs (default 3; with --store sim 0.5, of virtual time). The sets of rawmix grow meanwhile:
    /// by about 100 MB a second.
    #[arg(long)]
    seconds: Option<f64>,
    /// The modes take turns of this length (default 0.5).
    #[arg(long, value_name = "SECONDS")]
    slice: Option<f64>,
    /// What to compare, separated by commas (default: none,rw,claret; on a cluster none,redis-lock,claret).
    #[arg(long)]
    modes: Option<String>,
    /// Shards of the store (default 64; with --store sim and --store cluster 4).
    #[arg(long)]
    shards: Option<u32>,
    /// retwis: 2^SCALE users (default 16); tpcc: customers and items, 1 is the standard's (default 1).
    #[arg(long)]
    scale: Option<f64>,
    #[command(flatten)]
    tpcc: tpcc::TpccArgs,
    /// What all random choices are made from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object a line: each slice, a summary of each mode, the check.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: model::ModelArgs,
}

/// What was asked for.
enum Asked {
    Real(Box<Plan>),
    Model(Box<ModelPlan>),
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let (json, keeps) = (args.json, args.tpcc.keeps());
    match args.asked() {
        Ok(Asked::Model(plan)) => model::run_plan(&plan, json, &mut io::stdout()),
        Ok(Asked::Real(plan)) => {
            let out = &mut Escaped::new(io::stdout());
            run_plan(*plan, (json, keeps), &watch_interrupts(), out)
        }
        Err(error) => {
            output::error(error);
            ExitCode::from(2)
        }
    }
}

impl Args {
    fn asked(self) -> Result<Asked, String> {
        let store = StoreArg::parse(&self.login.in_url(&self.store)?)?;
        if let Some(shards) = self.shards.filter(|shards| !(1..=4096).contains(shards)) {
            return Err(format!("--shards {shards}: from 1 to 4096"));
        }
        if self.single.is_some() && !store.is_servers() {
            return Err(format!("--single is of real servers, and this is --store {}", self.store));
        }
        if self.check.is_some()
            && !self.modes.iter().any(|modes| modes.split(',').any(|it| it.trim() == "optimistic"))
        {
            return Err("--check is of the mode 'optimistic', which is not among --modes".into());
        }
        match store {
            StoreArg::Model => self.model_plan().map(|plan| Asked::Model(Box::new(plan))),
            StoreArg::Embedded | StoreArg::File(_) | StoreArg::Cluster | StoreArg::Url(_) => {
                self.plan(&store).map(|plan| Asked::Real(Box::new(plan)))
            }
        }
    }

    fn plan(self, store: &StoreArg) -> Result<Plan, String> {
        let is_shared = |name: &str| ["--backoff", "--processes"].contains(&name) && store.is_servers();
        let processes = self.model.processes().unwrap_or(1);
        let mut given = self.model.given().into_iter();
        if let Some((name, _)) = given.find(|(name, given)| *given && !is_shared(name)) {
            return Err(format!("{name} is of --store sim, and this is --store {}", self.store));
        }
        let modes = store.modes(self.modes.as_deref())?;
        let workload = self.workload()?;
        let time = seconds("--seconds", self.seconds.unwrap_or(3.0))?;
        let mut plan = Plan {
            place: Place::Embedded,
            workload,
            modes,
            shards: self.shards.unwrap_or(64),
            clients: self.clients.unwrap_or(64),
            threads: self.threads.unwrap_or(processes.max(1)),
            processes,
            pace: self.pace(),
            looking: self.looking()?,
            time,
            slice: seconds("--slice", self.slice.unwrap_or(0.5))?.min(time),
            seed: self.seed,
        };
        plan.check()?;
        if let WorkloadSpec::Tpcc(options) = &plan.workload {
            self.tpcc.check(store)?;
            tpcc::check_memory(options, plan.modes.len(), store)?;
        }
        plan.place = store.place(self.single, self.shards, &plan.modes, self.model.pauses())?;
        Ok(plan)
    }

    fn model_plan(self) -> Result<ModelPlan, String> {
        for (name, given) in [("--threads", self.threads.is_some()), ("--slice", self.slice.is_some())] {
            if given {
                return Err(format!("--store sim has no {name}: nothing there depends on this machine"));
            }
        }
        let workload = self.workload()?;
        let given = model::BenchArgs {
            modes: StoreArg::Model.modes(self.modes.as_deref())?,
            workload: workload.make(""),
            shards: self.shards,
            clients: self.clients,
            pace: self.pace(),
            pauses: best_pauses(&workload),
            seconds: self.seconds,
            seed: self.seed,
        };
        self.model.plan(given)
    }

    fn pace(&self) -> Pace {
        // In checkout some think, and the others do not.
        let micros = if self.workload == "checkout" { 0 } else { self.think.unwrap_or(0) };
        let think = Duration::from_micros(micros);
        match (self.interactive, micros) {
            (true, _) => Pace::Interactive(think),
            (false, 0) => Pace::Together,
            (false, _) => Pace::Pause(think),
        }
    }

    fn looking(&self) -> Result<Looking, String> {
        self.check.as_deref().map_or(Ok(Looking::AtAnswers), Looking::parse)
    }

    fn workload(&self) -> Result<WorkloadSpec, String> {
        let name = self.workload.as_str();
        let allowed: &[&str] = match name {
            "rawmix" => &["--alpha", "--adds", "--keys"],
            "hot" | "fair" => &[],
            "rubis" => &["--mix", "--alpha"],
            "retwis" => &["--mix", "--scale"],
            "checkout" => &["--alpha", "--keys", "--thinkers", "--reprices"],
            "objects" => &["--alpha", "--keys", "--objects", "--writes"],
            "tpcc" => &["--warehouses", "--scale", "--place", "--keep"],
            _ => {
                let known = "the workloads are rawmix, rubis, retwis, tpcc, hot, fair, checkout, objects";
                return Err(format!("there is no workload '{name}'; {known}"));
            }
        };
        self.refuse_others(allowed)?;
        self.check_numbers()?;
        Ok(match name {
            "rawmix" => {
                let default = rawmix::Options::default();
                let alpha = self.alpha.unwrap_or(default.alpha);
                let adds_percent = self.adds.unwrap_or(default.adds_percent);
                let keys = self.keys.unwrap_or(default.keys);
                let options = rawmix::Options { alpha, adds_percent, keys, ..default };
                WorkloadSpec::RawMix(options)
            }
            "hot" => WorkloadSpec::Hot(hot::Options::default()),
            "fair" => WorkloadSpec::Fair(fair::Options::default()),
            "checkout" => WorkloadSpec::Checkout(self.checkout()?),
            "objects" => WorkloadSpec::Objects(self.objects()?),
            "rubis" => {
                let default = rubis::Options::default();
                let (mix, alpha) = (self.rubis_mix()?, self.alpha.unwrap_or(default.alpha));
                let options = rubis::Options { mix, alpha, seed: self.seed, ..default };
                WorkloadSpec::Rubis(options)
            }
            "tpcc" => WorkloadSpec::Tpcc(self.tpcc.options(self.scale, self.seed)?),
            _ => {
                let default = retwis::Options::default();
                let (mix, scale) = (self.retwis_mix()?, self.scale.map_or(default.scale, |it| it as u32));
                let options = retwis::Options { mix, scale, seed: self.seed, ..default };
                WorkloadSpec::Retwis(options)
            }
        })
    }

    fn checkout(&self) -> Result<checkout::Options, String> {
        let default = checkout::Options::default();
        let options = checkout::Options {
            alpha: self.alpha.unwrap_or(default.alpha),
            products: self.keys.unwrap_or(default.products),
            thinkers: self.thinkers.unwrap_or(default.thinkers),
            think: self.think.map_or(default.think, Duration::from_micros),
            reprices_percent: self.reprices.unwrap_or(default.reprices_percent),
            ..default
        };
        match options.products < options.cart {
            true => {
                Err(format!("--keys {}: a cart has {} different products", options.products, options.cart))
            }
            false => Ok(options),
        }
    }

    fn objects(&self) -> Result<objects::Options, String> {
        let default = objects::Options::default();
        let options = objects::Options {
            alpha: self.alpha.unwrap_or(default.alpha),
            keys: self.keys.unwrap_or(default.keys),
            objects: self.objects.unwrap_or(default.objects),
            writes_percent: self.writes.unwrap_or(default.writes_percent),
            ..default
        };
        match options.objects {
            0 => Err("--objects 0: a transaction has at least one".into()),
            more if more > options.keys / 4 => Err(format!(
                "--objects {more}: all are different, so there must be four times as many; --keys is {}",
                options.keys
            )),
            _ => Ok(options),
        }
    }

    /// An argument that would have no effect is a mistake.
    fn refuse_others(&self, allowed: &[&str]) -> Result<(), String> {
        let given = [
            ("--mix", self.mix.is_some()),
            ("--alpha", self.alpha.is_some()),
            ("--adds", self.adds.is_some()),
            ("--keys", self.keys.is_some()),
            ("--scale", self.scale.is_some()),
            ("--thinkers", self.thinkers.is_some()),
            ("--reprices", self.reprices.is_some()),
            ("--objects", self.objects.is_some()),
            ("--writes", self.writes.is_some()),
        ];
        match given
            .into_iter()
            .chain(self.tpcc.given())
            .find(|(name, given)| *given && !allowed.contains(name))
        {
            Some((name, _)) => Err(format!("the workload '{}' has no {name}", self.workload)),
            None => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), String> {
        if let Some(alpha) = self.alpha.filter(|alpha| !(0.0..=10.0).contains(alpha)) {
            return Err(format!("--alpha {alpha}: from 0 to 10"));
        }
        if let Some(adds) = self.adds.filter(|adds| !(0.0..=100.0).contains(adds)) {
            return Err(format!("--adds {adds}: a percentage, from 0 to 100"));
        }
        for (name, given) in [("--writes", self.writes), ("--reprices", self.reprices)] {
            if let Some(share) = given.filter(|share| !(0.0..=100.0).contains(share)) {
                return Err(format!("{name} {share}: a percentage, from 0 to 100"));
            }
        }
        if let Some(keys) = self.keys.filter(|keys| !(1..=10_000_000).contains(keys)) {
            return Err(format!("--keys {keys}: from 1 to 10000000"));
        }
        let is_power = |scale: &f64| (2.0..=20.0).contains(scale) && scale.fract() == 0.0;
        if let Some(scale) = self.scale.filter(|scale| self.workload != "tpcc" && !is_power(scale)) {
            return Err(format!("--scale {scale}: from 2 to 20"));
        }
        Ok(())
    }

    fn rubis_mix(&self) -> Result<RubisMix, String> {
        match self.mix.as_deref() {
            None | Some("bid-heavy") => Ok(RubisMix::BidHeavy),
            Some("read-heavy") => Ok(RubisMix::ReadHeavy),
            Some(other) => Err(format!("rubis has no mix '{other}'; its mixes are bid-heavy, read-heavy")),
        }
    }

    fn retwis_mix(&self) -> Result<RetwisMix, String> {
        match self.mix.as_deref() {
            None | Some("post-heavy") => Ok(RetwisMix::PostHeavy),
            Some("read-heavy") => Ok(RetwisMix::ReadHeavy),
            Some(other) => Err(format!("retwis has no mix '{other}'; its mixes are post-heavy, read-heavy")),
        }
    }
}

/// The pauses, in microseconds, with which reader/writer locks did best in the model (`docs/performance.md`).
pub(super) fn best_pauses(workload: &WorkloadSpec) -> (u64, u64) {
    match workload {
        WorkloadSpec::Rubis(_) | WorkloadSpec::Retwis(_) | WorkloadSpec::Tpcc(_) => (1_000, 50_000),
        WorkloadSpec::RawMix(options) if options.alpha >= 1.0 => (1_000, 10_000),
        WorkloadSpec::RawMix(_)
        | WorkloadSpec::Hot(_)
        | WorkloadSpec::Fair(_)
        | WorkloadSpec::Checkout(_)
        | WorkloadSpec::Objects(_) => (100, 10_000),
    }
}

pub(super) fn seconds(name: &str, value: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(value) {
        Ok(time) if (0.001..=86_400.0).contains(&value) => Ok(time),
        Ok(_) | Err(_) => Err(format!("{name} {value}: from 0.001 to 86400")),
    }
}

/// Runs a plan and prints what it came to.
fn run_plan(plan: Plan, how: (bool, bool), stop: &Arc<AtomicBool>, out: &mut dyn Write) -> ExitCode {
    match measured(plan, how, stop, out) {
        Ok(code) => code,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

/// `keeps`: what the run loaded stays.
fn measured(
    plan: Plan,
    (json, keeps): (bool, bool),
    stop: &Arc<AtomicBool>,
    out: &mut dyn Write,
) -> Result<ExitCode, String> {
    let mut bench = Bench::new(plan, Arc::clone(stop))?;
    let code = measured_on(&mut bench, json, out);
    if keeps {
        return code;
    }
    // Whatever came of it: the servers may be somebody's.
    let cleaned = bench.clean();
    code.and_then(|code| cleaned.map(|()| code))
}

fn measured_on(bench: &mut Bench, json: bool, out: &mut dyn Write) -> Result<ExitCode, String> {
    let (summaries, checks) = if json {
        let mut lines = Lines { out: &mut *out, written: Ok(()) };
        load_and_run(bench, &mut lines)?;
        lines.written.map_err(write_failed)?;
        (bench.summaries(), bench.check())
    } else {
        let mut bar = Bar::new();
        load_and_run(bench, &mut bar)?;
        bar.checks();
        (bench.summaries(), bench.check())
    };
    let print = if json { print_json } else { print_table };
    print(out, &summaries, &checks, bench.interrupted()).map_err(write_failed)?;
    Ok(exit_code(&checks, bench.interrupted()))
}

fn load_and_run(bench: &mut Bench, observer: &mut dyn Observer) -> Result<(), String> {
    bench.load(observer)?;
    if bench.interrupted() {
        return Err("interrupted while loading; nothing was measured".into());
    }
    bench.run(observer)
}

/// Prints each slice as soon as it is over, an object a line.
struct Lines<'a> {
    out: &'a mut dyn Write,
    /// The first error of writing; nothing is written after it.
    written: io::Result<()>,
}

impl Observer for Lines<'_> {
    fn measured(&mut self, slice: &Slice) {
        if self.written.is_ok() {
            self.written = line(self.out, slice);
        }
    }
}

fn write_failed(error: io::Error) -> String {
    format!("writing the results: {error}")
}

/// Failure when a check failed, 130 when Ctrl-C came first.
pub(super) fn exit_code(checks: &[Check], interrupted: bool) -> ExitCode {
    for check in checks.iter().filter(|check| !check.passed) {
        output::tell!("CHECK FAILED in mode {}: the store does not hold what it acknowledged", check.mode);
        for violation in check.violations.iter().take(10) {
            output::tell!("  {}", output::escaped(violation));
        }
        if check.violations.len() > 10 {
            output::tell!("  and {} more", check.violations.len() - 10);
        }
    }
    match (checks.iter().all(|check| check.passed), interrupted) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(130),
        (true, false) => ExitCode::SUCCESS,
    }
}

fn line(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(value)?)
}

fn print_json(out: &mut dyn Write, summaries: &[Summary], checks: &[Check], cut: bool) -> io::Result<()> {
    for summary in summaries {
        line(out, summary)?;
    }
    let passed = checks.iter().all(|check| check.passed);
    line(out, &json!({ "type": "check", "passed": passed, "interrupted": cut, "modes": checks }))
}

fn print_table(out: &mut dyn Write, summaries: &[Summary], checks: &[Check], cut: bool) -> io::Result<()> {
    let Some(first) = summaries.first() else { return Ok(()) };
    let setting = &first.setting;
    writeln!(
        out,
        "{}, {}, {} shards, {} clients on {} thread{}{}, {} slices of {:.2} s for each mode, medians",
        setting.workload,
        match setting.store {
            "embedded" => "embedded store",
            "file" => "embedded store in a folder",
            other => other,
        },
        summaries.iter().map(|summary| summary.setting.shards).max().unwrap_or(0),
        setting.clients,
        setting.threads,
        if setting.threads == 1 { "" } else { "s" },
        if setting.processes == 1 { "" } else { ", as processes of their own" },
        first.slices,
        first.figures.seconds / first.slices.max(1) as f64,
    )?;
    let of = |mode: &str| {
        summaries.iter().find(|it| it.setting.mode == mode).map(|summary| summary.figures.throughput)
    };
    // What people have today is what the rest is compared with.
    let baseline = if matches!(setting.store, "embedded" | "file") { "rw" } else { "redis-lock" };
    let (none, today) = (of("none"), of(baseline));
    let row = |summary: &Summary| {
        let figures = &summary.figures;
        vec![
            summary.setting.mode.to_owned(),
            grouped(figures.throughput as u64),
            ratio(figures.throughput, none),
            ratio(figures.throughput, today),
            latency(figures.p50_us),
            latency(figures.p95_us),
            latency(figures.p99_us),
            grouped(figures.aborts),
            grouped(figures.retries),
            grouped(figures.lock_waits),
        ]
    };
    let of_baseline = format!("of {baseline}");
    let header =
        ["mode", "tx/s", "of none", &of_baseline, "p50", "p95", "p99", "aborts", "retries", "lock waits"];
    write!(out, "{}", table(&header, &summaries.iter().map(row).collect::<Vec<_>>()))?;
    tpcc::print(out, summaries)?;
    print_single(out, summaries.iter().map(|it| &it.setting))?;
    print_kinds(out, summaries)?;
    let modes: Vec<_> = summaries.iter().map(|it| (it.setting.mode, &it.over_time)).collect();
    over_time::print(out, &modes)?;
    if cut {
        writeln!(out, "interrupted: the run was ended before its time")?;
    }
    writeln!(out, "{}", verdict(checks))
}

/// A line for each kind and mode, where there are several kinds.
fn print_kinds(out: &mut dyn Write, summaries: &[Summary]) -> io::Result<()> {
    let row = |mode: &str, kind: &str, it: &KindSummary| {
        let first = it.first_attempt.map(|share| format!("{:.1} %", share * 100.0));
        let first = first.unwrap_or_else(|| "-".to_owned());
        let rate = grouped(it.throughput as u64);
        vec![kind.to_owned(), mode.to_owned(), rate, latency(it.p50_us), latency(it.p99_us), first]
    };
    let kinds = summaries.first().map(|first| first.by_kind.keys()).into_iter().flatten();
    let of_kind = |kind: &&'static str| {
        let of_mode = |it: &Summary| Some(row(it.setting.mode, kind, it.by_kind.get(kind)?));
        summaries.iter().filter_map(of_mode).collect::<Vec<_>>()
    };
    let rows: Vec<_> = kinds.flat_map(of_kind).collect();
    if rows.len() <= summaries.len() {
        return Ok(());
    }
    write!(out, "{}", table(&["kind", "mode", "tx/s", "p50", "p99", "first attempt"], &rows))
}

/// Names the modes that ran on one server, if others had several shards.
fn print_single<'a>(out: &mut dyn Write, settings: impl Iterator<Item = &'a Setting>) -> io::Result<()> {
    let (single, others): (Vec<_>, Vec<_>) = settings.partition(|setting| setting.shards == 1);
    if single.is_empty() || others.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = single.iter().map(|setting| setting.mode).collect();
    writeln!(out, "{}: on one server, without shards", names.join(", "))
}

/// One line on the checks.
pub(super) fn verdict(checks: &[Check]) -> String {
    let failed: Vec<_> = checks.iter().filter(|check| !check.passed).map(|check| check.mode).collect();
    if failed.is_empty() {
        let partly: Vec<_> =
            checks.iter().filter(|check| check.promise == "operations").map(|check| check.mode).collect();
        let note = match partly.is_empty() {
            true => String::new(),
            false => format!(" ({}: of single operations only)", partly.join(", ")),
        };
        format!("checks: every store holds exactly what it acknowledged{note}")
    } else {
        format!("checks: FAILED for {}", failed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: Args,
    }

    fn plan(words: &[&str]) -> Plan {
        match Words::parse_from([&["bench"], words].concat()).args.asked() {
            Ok(Asked::Real(plan)) => *plan,
            Ok(Asked::Model(_)) => panic!("no model was asked for"),
            Err(error) => panic!("{error}"),
        }
    }

    fn check(mode: &'static str, passed: bool) -> Check {
        let violations = if passed { vec![] } else { vec!["one is missing".to_owned()] };
        Check { mode, promise: "transactions", passed, violations }
    }

    #[test]
    fn a_loss_fails_the_run() {
        let checks = [check("rw", true), check("claret", false)];
        assert_eq!(exit_code(&checks, false), ExitCode::FAILURE);
        assert_eq!(exit_code(&checks, true), ExitCode::FAILURE);
        assert_eq!(exit_code(&checks[..1], false), ExitCode::SUCCESS);
        assert_eq!(exit_code(&checks[..1], true), ExitCode::from(130));
        assert_eq!(verdict(&checks), "checks: FAILED for claret");
        let mut out = Vec::new();
        print_json(&mut out, &[], &checks, false).expect("memory");
        let line: serde_json::Value = serde_json::from_slice(&out).expect("an object");
        assert_eq!((&line["type"], &line["passed"]), (&"check".into(), &false.into()));
        assert_eq!((&line["modes"][0]["passed"], &line["modes"][1]["passed"]), (&true.into(), &false.into()));
        assert_eq!(line["modes"][1]["violations"], json!(["one is missing"]));
    }

    #[test]
    fn ended_before_the_load_is_over_nothing_is_claimed() {
        for json in [true, false] {
            let (stop, mut out) = (Arc::new(AtomicBool::new(true)), Vec::new());
            let how = (json, false);
            let code = run_plan(plan(&["hot", "--modes", "claret"]), how, &stop, &mut out);
            assert_eq!((code, out.len()), (ExitCode::FAILURE, 0));
        }
    }
}
