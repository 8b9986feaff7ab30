//! `claret check-store`: lets many clients loose on a store, and judges from outside whether what they saw is
//! strictly serializable.

mod faults;
mod processes;
mod rounds;
mod tally;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use claret::Mode;
use claret::cluster::Plain;
use claret_bench::{BenchMode, Contender};
use claret_rig::{Cluster, Module, RigError, delete_keys_everywhere};
use indicatif::{ProgressBar, ProgressStyle};
use rand::RngExt;

use super::place::{SHARDS, SHARDS_MAX, Store};
use crate::edge;
use claret_checker::{Clock, History, Journal, Progress, Settings};
use faults::{Fault, Site};
use tally::Tally;

/// Arguments of `claret check-store`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret check-store\n  claret check-store --clients 64 --seconds 30\n  claret \
                        check-store --store cluster --shards 3 --plain 16 --processes 2\n  claret \
                        check-store --store cluster --replicas 1 --faults --minutes 10\n\nThe exit code is 1 if \
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
    /// Clients beside them that use plain commands, over all processes (default 0; with --faults 16); not of --store
    /// embedded.
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=4096))]
    plain: Option<u64>,
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
pub fn run(args: Args) -> ExitCode {
    match check(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            edge::error(error);
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn check(args: &Args) -> Result<bool, String> {
    let (time, faults) = (args.time()?, args.faults()?);
    let args = &Args {
        seed: args.seed.or_else(|| (!faults.is_empty()).then(|| rand::rng().random())),
        ..args.clone()
    };
    let place = Place::find(args)?;
    let settings = args.settings();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
    if args.process.is_some() {
        return runtime.block_on(rounds::take_part(args, &place, settings)).map(|()| true);
    }
    let checked = runtime.block_on(rounds::work(args, &place, &settings, (time, faults)));
    place.clean(&settings)?;
    let tally = checked?;
    if args.json {
        println!("{}", serde_json::to_string(&tally).map_err(|error| error.to_string())?);
    } else {
        tally.tell();
    }
    Ok(tally.is_well())
}

fn save(args: &Args, history: &History) -> Result<(), String> {
    let Some(path) = &args.history else { return Ok(()) };
    write(path, history).map_err(|error| format!("writing {}: {error}", path.display()))
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

    fn settings(&self) -> Settings {
        let prefix = || match self.store.as_str() {
            "embedded" => "check".to_owned(),
            _ => format!("check:{:08x}", rand::rng().random::<u32>()),
        };
        let processes = self.processes();
        Settings {
            clients: self.clients.div_ceil(processes) as usize,
            plain: self.plain().div_ceil(processes) as usize,
            until: 0,
            round: 0,
            keys: self.keys,
            rotation: Duration::from_millis(self.rotation),
            pauses: self.has_pauses(),
            process: self.process.unwrap_or(0),
            processes,
            seed: self.seed(),
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
    /// The same, to be struck by faults.
    site: Option<Arc<Site>>,
}

impl Place {
    fn find(args: &Args) -> Result<Self, String> {
        let mode = args.mode()?;
        let store = Store::parse(&args.store)?;
        let place = |url, cluster| Ok(Place { mode, url, cluster, site: None });
        let is_own = store == Store::Cluster;
        if (args.replicas > 0 || args.server.is_some()) && !is_own && args.process.is_none() {
            return Err("--replicas and --server are of --store cluster".into());
        }
        if args.shards.is_some() && !is_own {
            return Err(format!("--shards is of --store cluster, and this is --store {}", args.store));
        }
        match store {
            Store::Model => Err("--store sim is checked by `claret sim`".into()),
            Store::Embedded if args.plain() > 0 || args.processes() > 1 => {
                Err("--plain and --processes are of real servers: say --store cluster".into())
            }
            Store::Embedded => place(None, None),
            Store::Url(url) => place(Some(url), None),
            Store::Cluster => {
                let shards = args.shards.unwrap_or(SHARDS);
                if !(1..=SHARDS_MAX).contains(&shards) {
                    return Err(format!("--shards {shards}: from 1 to {SHARDS_MAX}"));
                }
                if args.faults.is_some() {
                    let site = Site::start(shards as u16, args.replicas, args.server.as_deref())?;
                    return Ok(Place {
                        mode,
                        url: Some(site.url()),
                        cluster: None,
                        site: Some(Arc::new(site)),
                    });
                }
                let text = |error: RigError| error.to_string();
                let module = Module::find().map_err(text)?;
                let mut options = Cluster::options(shards as u16, args.replicas).module(module);
                if let Some(server) = &args.server {
                    options = options.program(server);
                }
                let cluster = options.start().map_err(text)?;
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
        match (&self.url, self.cluster.is_none() && self.site.is_none()) {
            (Some(url), true) => delete_keys_everywhere(url, &format!("*{}*", settings.prefix))
                .map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }
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
