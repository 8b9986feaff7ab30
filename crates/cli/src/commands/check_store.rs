//! `claret check-store`: arguments, the progress bar, and starting this program again for the other processes of a run.

mod report;

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use claret::lab::Mode;
use claret_bench::{BenchMode, Engine};
use claret_checker::{Fault, Plan, Progress, Target, Worker, check, take_part};
use indicatif::{ProgressBar, ProgressStyle};
use rand::RngExt;

use super::password::PasswordFile;
use super::store_arg::{SHARDS, SHARDS_MAX, StoreArg};
use crate::output;

/// Arguments of `claret check-store`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret check-store\n  claret check-store --clients 64 --seconds 30\n  claret \
                        check-store --store cluster --shards 3 --plain 16 --processes 2\n  claret \
                        check-store --store cluster --replicas 1 --faults --minutes 10\n  claret \
                        check-store --store cluster --gateways 2 --faults --minutes 10\n\nThe exit code is 1 if \
                        the results cannot be explained by any serial order, or if a planted anomaly is not found."
)]
pub(crate) struct Args {
    /// What is checked: embedded; cluster, started for the run; or redis://HOST:PORT. There the keys of the run have
    /// names of their own, and are deleted at its end.
    #[arg(long, default_value = "embedded")]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
    /// Shards of --store cluster (default 4).
    #[arg(long)]
    shards: Option<u32>,
    /// The store's concurrency control: boost+phase, boost+phase+combine, boost, rw+phase or rw.
    #[arg(long, default_value = "claret")]
    mode: String,
    /// Clients, over all processes; every eighth of them works at the bank.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(2..=4096))]
    clients: u64,
    /// Clients beside them that use plain commands, over all processes (default 0; with --faults 16); not of --store
    /// embedded.
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=4096))]
    plain: Option<u64>,
    /// Gateways before the store, in this process, at free ports of 127.0.0.1. With --faults one of them ends in each round, and
    /// begins again.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=64))]
    gateways: u64,
    /// Clients beside the others that speak to the gateways alone, by MULTI, WATCH, scripts and single commands (default 8 where there are
    /// gateways).
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=4096))]
    gateway_clients: Option<u64>,
    /// Processes among which the clients are divided (default 1; with --faults 3); more than one is not of --store embedded.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=16))]
    processes: Option<u64>,
    /// How long they work, in seconds (default 5).
    #[arg(long)]
    seconds: Option<f64>,
    /// The same in minutes.
    #[arg(long, conflicts_with = "seconds")]
    minutes: Option<f64>,
    /// Records in use at one time: sets, counters, lists and registers.
    #[arg(long, default_value_t = 16)]
    keys: u64,
    /// How long a record is in use, in milliseconds.
    #[arg(long, default_value_t = 50)]
    rotation: u64,
    /// Clients pause between calls: mostly not, some milliseconds, rarely up to a second.
    #[arg(long)]
    pauses: bool,
    /// For what the clients do, and what is done to them (default 1; with --faults any, which is told).
    #[arg(long)]
    seed: Option<u64>,
    /// Faults that strike meanwhile, in an order that the seed gives, of --store cluster: all, or some of stop (a node
    /// stops and goes on), kill (a process with clients), freeze (such a process stops for longer than its lease), cut
    /// (connections), expire (records in use), flush (a node), rights (change, are withdrawn and given back), slots (move
    /// with records in use), scripts (that do not end), memory (there is none left). Each strikes at least once, whatever
    /// the time. Clients pause, as with --pauses.
    #[arg(long, value_name = "NAMES", num_args = 0..=1, default_missing_value = "all")]
    faults: Option<String>,
    /// Replicas of each shard of --store cluster.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=3))]
    replicas: u16,
    /// The server program of --store cluster; by default CLARET_SERVER, else redis-server.
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// One JSON object with the result.
    #[arg(long)]
    json: bool,
    /// Write what was seen to this file, a JSON document; of a run of several rounds, the last one.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Of a process that another one started: its number, the run's epoch and the beginning of its keys.
    #[arg(long, hide = true, requires_all = ["epoch", "prefix"])]
    process: Option<u64>,
    #[arg(long, hide = true)]
    epoch: Option<u64>,
    #[arg(long, hide = true)]
    prefix: Option<String>,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    match run_all(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run_all(args: Args) -> Result<bool, String> {
    let (time, faults) = (args.time()?, args.faults()?);
    let seed = args.seed.or_else(|| (!faults.is_empty()).then(|| rand::rng().random()));
    let args = Args { seed, ..args };
    let (target, plan) = (args.target()?, args.plan(time, faults));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
    let progress = Arc::new(Progress::default());
    let bar = if args.process.is_some() { ProgressBar::hidden() } else { bar(time) };
    runtime.spawn(keep_watch(bar.clone(), Arc::clone(&progress)));
    if let (Some(number), Some(epoch)) = (args.process, args.epoch) {
        return runtime.block_on(take_part(&plan, &target, (number, epoch), &progress)).map(|()| true);
    }
    let json = args.json;
    let start = move |worker: Worker<'_>| args.start(worker);
    let say = |what: &'static str| bar.set_message(what);
    let checked = runtime.block_on(check(&plan, &target, Arc::new(start), &progress, &say));
    bar.finish_and_clear();
    let report = checked?;
    if json {
        output::say!("{}", serde_json::to_string(&report).map_err(|error| error.to_string())?);
    } else {
        report::tell(&report);
    }
    Ok(report.is_well())
}

impl Args {
    fn time(&self) -> Result<Duration, String> {
        let seconds = self.seconds.or(self.minutes.map(|minutes| minutes * 60.0)).unwrap_or(5.0);
        match seconds > 0.0 && seconds <= 86_400.0 {
            true => Ok(Duration::from_secs_f64(seconds)),
            false => Err(format!("{seconds} seconds are not a time; name one up to a day")),
        }
    }

    fn processes(&self) -> u64 {
        self.processes.unwrap_or(if self.faults.is_some() { 3 } else { 1 })
    }

    fn plain(&self) -> u64 {
        self.plain.unwrap_or(if self.faults.is_some() { 16 } else { 0 })
    }

    fn gateway_clients(&self) -> u64 {
        if self.gateways == 0 { 0 } else { self.gateway_clients.unwrap_or(8) }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    fn has_pauses(&self) -> bool {
        self.pauses || self.faults.is_some()
    }

    /// The faults that were asked for.
    fn faults(&self) -> Result<Vec<Fault>, String> {
        let faults = self.faults.as_deref().map_or(Ok(Vec::new()), Fault::parse_list)?;
        if faults.is_empty() {
            return Ok(faults);
        }
        if self.store != "cluster" {
            return Err("--faults is of --store cluster, whose servers are started for the run".into());
        }
        if self.processes() < 2 && faults.iter().any(|fault| fault.is_of_clients()) {
            return Err("the faults kill and freeze need --processes 2 at least".into());
        }
        if self.plain() == 0 {
            return Err("--faults needs clients of plain commands, too: say --plain 1 at least".into());
        }
        if self.shards == Some(1) && faults.contains(&Fault::Slots) {
            return Err("the fault slots needs --shards 2 at least".into());
        }
        Ok(faults)
    }

    fn plan(&self, time: Duration, faults: Vec<Fault>) -> Plan {
        let prefix = || match self.store.as_str() {
            "embedded" => "check".to_owned(),
            _ => format!("check:{:08x}", rand::rng().random::<u32>()),
        };
        Plan {
            clients: self.clients,
            plain: self.plain(),
            gateways: self.gateways,
            gateway_clients: self.gateway_clients(),
            processes: self.processes(),
            keys: self.keys,
            rotation: Duration::from_millis(self.rotation),
            pauses: self.has_pauses(),
            seed: self.seed(),
            prefix: self.prefix.clone().unwrap_or_else(prefix),
            time,
            faults,
            history: self.history.clone(),
        }
    }

    /// This program, as another process of the run.
    fn start(&self, worker: Worker<'_>) -> Result<Command, String> {
        let program = env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
        let mut command = Command::new(program);
        command.args(["check-store", "--mode", &self.mode]);
        self.login.hand_on(&mut command, &self.store, worker.url);
        for (name, value) in [
            ("--clients", self.clients),
            ("--plain", self.plain()),
            ("--gateways", self.gateways),
            ("--processes", self.processes()),
            ("--keys", self.keys),
            ("--rotation", self.rotation),
            ("--seed", self.seed()),
            ("--process", worker.number),
            ("--epoch", worker.epoch),
        ] {
            command.args([name, &value.to_string()]);
        }
        if self.gateways > 0 {
            command.args(["--gateway-clients", &self.gateway_clients().to_string()]);
        }
        if self.has_pauses() {
            command.arg("--pauses");
        }
        command.args(["--prefix", worker.prefix]);
        Ok(command)
    }

    fn mode(&self) -> Result<Mode, String> {
        match BenchMode::parse(&self.mode)?.on_a_store().engine {
            Engine::Store(Mode::None)
            | Engine::Mutex
            | Engine::Sqlite
            | Engine::Claret
            | Engine::Optimistic
            | Engine::InWay(_)
            | Engine::Sinfonia
            | Engine::Redis(_)
            | Engine::OneServer => {
                Err(format!("the mode '{}' promises nothing that could be checked", self.mode))
            }
            Engine::Store(mode) => Ok(mode),
        }
    }

    /// The store, started if it has to be.
    fn target(&self) -> Result<Target, String> {
        let mode = self.mode()?;
        let store = StoreArg::parse(&self.login.in_url(&self.store)?)?;
        let is_own = store == StoreArg::Cluster;
        if (self.replicas > 0 || self.server.is_some()) && !is_own && self.process.is_none() {
            return Err("--replicas and --server are of --store cluster".into());
        }
        if self.gateway_clients.is_some() && self.gateways == 0 {
            return Err("--gateway-clients speak to gateways: say --gateways 1 at least".into());
        }
        if self.shards.is_some() && !is_own {
            return Err(format!("--shards is of --store cluster, and this is --store {}", self.store));
        }
        match store {
            StoreArg::Model => Err("--store sim is checked by `claret sim`".into()),
            StoreArg::File(_) => Err("--store file:FOLDER is not for this yet: say --store embedded, which is the same but for the disk".into()),
            StoreArg::Embedded if self.plain() > 0 || self.processes() > 1 => {
                Err("--plain and --processes are of real servers: say --store cluster".into())
            }
            StoreArg::Embedded => Ok(Target::embedded(mode)),
            StoreArg::Url(url) => Ok(Target::at(mode, url)),
            StoreArg::Cluster => match (self.shards.unwrap_or(SHARDS), self.server.as_deref()) {
                (shards @ 1..=SHARDS_MAX, server) if self.faults.is_some() => {
                    Target::start_for_faults(mode, shards as u16, self.replicas, server)
                }
                (shards @ 1..=SHARDS_MAX, server) => {
                    Target::start(mode, shards as u16, self.replicas, server)
                }
                (shards, _) => Err(format!("--shards {shards}: from 1 to {SHARDS_MAX}")),
            },
        }
    }
}

/// Shows how far it has come. Ctrl-C ends the clients; what they saw is judged all the same.
async fn keep_watch(bar: ProgressBar, progress: Arc<Progress>) {
    let began = Instant::now();
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => progress.stop.store(true, Ordering::Relaxed),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
        let passed = began.elapsed().as_millis() as u64;
        bar.set_position(passed.min(bar.length().unwrap_or_default()));
        bar.set_message(format!("{} transactions", progress.ended.load(Ordering::Relaxed)));
    }
}

fn bar(time: Duration) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(time.as_millis() as u64);
    let style = ProgressStyle::with_template("{bar:30} {msg}");
    bar.set_style(style.expect("the template is well-formed"));
    bar
}
