//! `claret check-store`: lets many clients loose on a store, and judges from outside whether what they saw is
//! strictly serializable.

mod processes;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use claret::Mode;
use claret::cluster::Plain;
use claret_rig::{Cluster, Module, RigError};
use indicatif::{ProgressBar, ProgressStyle};
use rand::RngExt;
use serde::Serialize;

use super::place::{SHARDS, SHARDS_MAX, Store};
use crate::bench::{BenchMode, Contender, delete_everywhere};
use crate::checking::verdict::{Planted, Verdict, judge_all};
use crate::checking::{self, Clock, History, Progress, Settings};
use processes::Processes;

/// Arguments of `claret check-store`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret check-store\n  claret check-store --clients 64 --seconds 30\n  claret \
                        check-store --store cluster --shards 3 --plain 16 --processes 2\n\nThe exit code is 1 if \
                        the results cannot be explained by any serial order, or if a planted anomaly is not found."
)]
pub struct Args {
    /// What is checked: embedded; cluster, started for the run; or redis://HOST:PORT. There the keys of the run have
    /// names of their own, and are deleted at its end.
    #[arg(long, default_value = "embedded")]
    store: String,
    /// Shards of --store cluster (default 4).
    #[arg(long)]
    shards: Option<u32>,
    /// The store's concurrency control: boost+phase, boost+phase+combine, boost, rw+phase or rw.
    #[arg(long, default_value = "claret")]
    mode: String,
    /// Clients, over all processes; every eighth of them works at the bank.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(2..=4096))]
    clients: u64,
    /// Clients beside them that use plain commands, over all processes; not of --store embedded.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=4096))]
    plain: u64,
    /// Processes among which the clients are divided; more than one is not of --store embedded.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    processes: u64,
    /// How long they work, in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Records in use at one time: sets, counters and lists.
    #[arg(long, default_value_t = 12)]
    keys: u64,
    /// How long a record is in use, in milliseconds.
    #[arg(long, default_value_t = 50)]
    rotation: u64,
    /// For what the clients do.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object with the result.
    #[arg(long)]
    json: bool,
    /// Write what was seen to this file, a JSON document.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Of a process that another one started: its number, the run's epoch and the beginning of its keys.
    #[arg(long, hide = true, requires_all = ["epoch", "prefix", "history"])]
    process: Option<u64>,
    #[arg(long, hide = true)]
    epoch: Option<u64>,
    #[arg(long, hide = true)]
    prefix: Option<String>,
}

/// What came of it, as a line of JSON.
#[derive(Debug, Serialize)]
struct Summary {
    committed: u64,
    void: u64,
    unknown: u64,
    judged: u64,
    edges: u64,
    list_transactions: usize,
    transfers: u64,
    totals: u64,
    plain: u64,
    anomalies: Vec<String>,
    planted: usize,
    found: usize,
    found_by_adya: usize,
}

/// Runs it.
pub fn run(args: Args) -> ExitCode {
    match check(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn check(args: &Args) -> Result<bool, String> {
    if !(args.seconds > 0.0 && args.seconds <= 86_400.0) {
        return Err(format!("--seconds {} is not a time; name one up to a day", args.seconds));
    }
    let place = Place::find(args)?;
    let settings = args.settings();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
    if args.process.is_some() {
        let history = runtime.block_on(take_part(args, &place, &settings))?;
        return save(args, &history).map(|()| true);
    }
    let checked = runtime.block_on(work(args, &place, &settings));
    place.clean(&settings)?;
    let history = checked?;
    save(args, &history)?;
    report(&history, args.json)
}

fn save(args: &Args, history: &History) -> Result<(), String> {
    let Some(path) = &args.history else { return Ok(()) };
    write(path, history).map_err(|error| format!("writing {}: {error}", path.display()))
}

impl Args {
    fn settings(&self) -> Settings {
        let prefix = || match self.store.as_str() {
            "embedded" => "check".to_owned(),
            _ => format!("check:{:08x}", rand::rng().random::<u32>()),
        };
        Settings {
            clients: self.clients.div_ceil(self.processes) as usize,
            plain: self.plain.div_ceil(self.processes) as usize,
            time: Duration::from_secs_f64(self.seconds),
            keys: self.keys,
            rotation: Duration::from_millis(self.rotation),
            process: self.process.unwrap_or(0),
            processes: self.processes,
            seed: self.seed,
            prefix: self.prefix.clone().unwrap_or_else(prefix),
        }
    }

    fn mode(&self) -> Result<Mode, String> {
        match BenchMode::parse(&self.mode)?.contender {
            Contender::Store(Mode::None) | Contender::Mutex | Contender::Rival(_) => {
                Err(format!("the mode '{}' promises nothing that could be checked", self.mode))
            }
            Contender::Store(mode) => Ok(mode),
        }
    }
}

/// Where the store is.
struct Place {
    mode: Mode,
    /// `None`: in this process.
    url: Option<String>,
    /// Started for the run.
    cluster: Option<Cluster>,
}

impl Place {
    fn find(args: &Args) -> Result<Self, String> {
        let mode = args.mode()?;
        let store = Store::parse(&args.store)?;
        let place = |url, cluster| Ok(Place { mode, url, cluster });
        if args.shards.is_some() && store != Store::Cluster {
            return Err(format!("--shards is of --store cluster, and this is --store {}", args.store));
        }
        match store {
            Store::Model => Err("--store sim is checked by `claret sim`".into()),
            Store::Embedded if args.plain > 0 || args.processes > 1 => {
                Err("--plain and --processes are of real servers: say --store cluster".into())
            }
            Store::Embedded => place(None, None),
            Store::Url(url) => place(Some(url), None),
            Store::Cluster => {
                let shards = args.shards.unwrap_or(SHARDS);
                if !(1..=SHARDS_MAX).contains(&shards) {
                    return Err(format!("--shards {shards}: from 1 to {SHARDS_MAX}"));
                }
                let text = |error: RigError| error.to_string();
                let module = Module::find().map_err(text)?;
                let cluster = Cluster::options(shards as u16, 0).module(module).start().map_err(text)?;
                place(Some(cluster.url()), Some(cluster))
            }
        }
    }

    async fn open(&self, settings: &Settings) -> Result<(claret::Store, Option<Plain>), String> {
        let Some(url) = &self.url else {
            return Ok((claret::Store::builder().mode(self.mode).build(), None));
        };
        let builder = || claret::Store::cluster(url).mode(self.mode);
        let store = builder().connect().await.map_err(|error| error.to_string())?;
        if settings.plain == 0 {
            return Ok((store, None));
        }
        let plain = builder().connect_plain().await.map_err(|error| error.to_string())?;
        Ok((store, Some(plain)))
    }

    /// Deletes the keys of the run, where the cluster does not go as a whole.
    fn clean(&self, settings: &Settings) -> Result<(), String> {
        match (&self.url, &self.cluster) {
            (Some(url), None) => delete_everywhere(url, &format!("*{}/*", settings.prefix)),
            _ => Ok(()),
        }
    }
}

/// Runs the clients of all processes, and reads everything at the end.
async fn work(args: &Args, place: &Place, settings: &Settings) -> Result<History, String> {
    let (store, plain) = place.open(settings).await?;
    checking::begin(&store, settings).await?;
    let clock = Clock::new(None);
    let processes = Processes::start(args, place.url.as_deref(), settings, clock)?;
    let progress = Arc::new(Progress::default());
    let bar = watch(settings.time);
    let watcher = tokio::spawn(keep_watch(bar.clone(), Arc::clone(&progress), settings.time, clock));
    let history = checking::run(&store, plain.as_ref(), settings, clock, &progress).await;
    bar.set_message("waiting for the other processes");
    let others = processes.end();
    watcher.abort();
    bar.set_message("reading everything");
    let mut history = history?;
    others?.into_iter().for_each(|part| history.take(part));
    let finished = match history.broken.take() {
        Some(broken) => Err(broken),
        None => checking::finish(&store, settings, clock, &mut history).await,
    };
    bar.finish_and_clear();
    store.close().await;
    finished.map(|()| history)
}

/// Runs the clients of one process that another one started, until that one says so or is gone.
async fn take_part(args: &Args, place: &Place, settings: &Settings) -> Result<History, String> {
    let clock = Clock::new(args.epoch);
    let (store, plain) = place.open(settings).await?;
    let progress = Arc::new(Progress::default());
    processes::stop_with_parent(Arc::clone(&progress));
    tokio::spawn(keep_watch(ProgressBar::hidden(), Arc::clone(&progress), settings.time, clock));
    let history = checking::run(&store, plain.as_ref(), settings, clock, &progress).await;
    store.close().await;
    history
}

/// Shows how far it has come. Ctrl-C ends the clients; what they saw is judged all the same.
async fn keep_watch(bar: ProgressBar, progress: Arc<Progress>, time: Duration, clock: Clock) {
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => progress.stop.store(true, Ordering::Relaxed),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
        bar.set_position(clock.now().min(time.as_micros() as u64) / 1000);
        bar.set_message(format!("{} transactions", progress.ended.load(Ordering::Relaxed)));
    }
}

fn watch(time: Duration) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(time.as_millis() as u64);
    let style = ProgressStyle::with_template("{bar:30} {msg}");
    bar.set_style(style.expect("the template is well-formed"));
    bar
}

fn write(path: &Path, history: &History) -> io::Result<()> {
    serde_json::to_writer(BufWriter::new(File::create(path)?), history).map_err(io::Error::from)
}

/// Judges, plants, and tells.
fn report(history: &History, json: bool) -> Result<bool, String> {
    let verdict = judge_all(history);
    let (mut planted, mut found, mut found_by_adya) = (0, 0, 0);
    for anomaly in Planted::ALL {
        // A short run may have no place for one; it counts as planted all the same, and so the check fails.
        planted += 1;
        let Some(spoiled) = anomaly.plant(history) else { continue };
        let seen = judge_all(&spoiled).anomalies;
        let by_adya = seen.iter().any(|anomaly| anomaly.starts_with("adya"));
        found += usize::from(seen.iter().any(|anomaly| !anomaly.starts_with("adya")));
        found_by_adya += usize::from(by_adya && anomaly.is_of_lists());
    }
    let of_lists = Planted::ALL.iter().filter(|anomaly| anomaly.is_of_lists()).count();
    let is_well = verdict.anomalies.is_empty() && found == planted && found_by_adya == of_lists;
    let summary = summary(history, verdict, (planted, found, found_by_adya));
    if json {
        println!("{}", serde_json::to_string(&summary).map_err(|error| error.to_string())?);
    } else {
        tell(&summary, of_lists);
    }
    Ok(is_well)
}

fn summary(
    history: &History,
    verdict: Verdict,
    (planted, found, found_by_adya): (usize, usize, usize),
) -> Summary {
    let (committed, void, unknown) = history.outcomes();
    Summary {
        committed,
        void,
        unknown,
        judged: verdict.judged.transactions,
        edges: verdict.judged.edges,
        list_transactions: verdict.lists,
        transfers: history.transfers,
        totals: history.totals,
        plain: history.plain,
        anomalies: verdict.anomalies,
        planted,
        found,
        found_by_adya,
    }
}

fn tell(summary: &Summary, of_lists: usize) {
    let Summary {
        committed, void, unknown, judged, edges, list_transactions, transfers, totals, plain, ..
    } = summary;
    println!("{committed} transactions committed, {void} did not, {unknown} nobody knows");
    println!(
        "{judged} judged by what they saw, over {edges} edges; {list_transactions} on lists judged by adya"
    );
    println!("{transfers} transfers between accounts, {totals} totals read, all right");
    if *plain > 0 {
        println!("{plain} of all these by plain commands");
    }
    println!(
        "{} of {} planted anomalies found, {} of {of_lists} by adya",
        summary.found, summary.planted, summary.found_by_adya
    );
    println!("{} anomalies", summary.anomalies.len());
    for anomaly in &summary.anomalies {
        println!("  {anomaly}");
    }
}
