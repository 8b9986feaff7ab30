//! `claret torture`: arguments, starting this program again for processes with clients, and what came of it.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use claret::durability::SyncPolicy;
use claret_checker::{
    Durability, TorturePlan, TortureReport, TortureTarget, Tortured, take_part_in_torture, torture,
};
use rand::RngExt;

use super::password::PasswordFile;
use super::store_arg::{SHARDS_MAX, StoreArg};
use crate::interrupt::watch_interrupts;
use crate::output;

/// So many anomalies are printed; the report has all.
const TOLD_MAX: usize = 10;

/// Arguments of `claret torture`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret torture --store file:/tmp/tortured --minutes 10\n  claret torture --store cluster \
                  --minutes 10\n  claret torture --store cluster --replicas 0 --seconds 60\n  claret torture --store \
                  redis://127.0.0.1:7000 --processes 4\n\nWhat fails a run (exit code 1): an acknowledged transaction that is not \
                  there at the end, histories that no serial order explains, a store that does not open or a cluster that does not \
                  heal. Transactions of unknown outcome may be there or not, as a whole. What --store cluster with --durability async \
                  and --sync every:MS lose within their promises is counted, and fails nothing. docs/torture.md has the terms.\n\n\
                  Ctrl-C ends the faults; what happened until then is judged."
)]
pub(crate) struct Args {
    /// What is tortured: file:FOLDER, a store in a folder; cluster, started for the run; or redis://HOST:PORT, where faults
    /// strike the clients alone.
    #[arg(long, default_value = "cluster")]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
    /// How long faults strike, in minutes (default 1).
    #[arg(long)]
    minutes: Option<f64>,
    /// The same in seconds.
    #[arg(long, conflicts_with = "minutes")]
    seconds: Option<f64>,
    /// Where the histories stay, whatever comes of it. By default they stay, in a temporary folder, if something is wrong.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Shards of --store cluster.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=i64::from(SHARDS_MAX)))]
    shards: u16,
    /// Replicas of each shard of --store cluster.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=2))]
    replicas: u16,
    /// What a cluster promises: async, where a failover that nobody prepared may lose what was acknowledged, which is
    /// counted; or strict, where every loss fails the run. Of --store cluster this sets claret.durability on all nodes.
    #[arg(long, default_value = "async", value_parser = ["async", "strict"])]
    durability: String,
    /// When --store file:FOLDER reports a commit: each-group, once it is on the disk; or every:MILLISECONDS, before that.
    #[arg(long, default_value = "each-group", value_parser = sync_of)]
    sync: SyncArg,
    /// What nodes of --store cluster write to their disks: aof, append-only files; or nothing.
    #[arg(long, default_value = "aof", value_parser = ["aof", "nothing"])]
    files: String,
    /// Of the faults of --store cluster, those alone whose names contain this, as they are printed at the end; may be repeated.
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
    /// The server program of --store cluster; by default CLARET_SERVER, else redis-server.
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Processes with clients; a folder has one.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=16))]
    processes: u64,
    /// Clients of each process.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(3..=1024))]
    clients: u64,
    /// For what clients do and what is done to them (default any, which is told).
    #[arg(long)]
    seed: Option<u64>,
    /// One JSON object with the result.
    #[arg(long)]
    json: bool,
    /// Of a process with clients: its number, the run's epoch and the beginning of its keys.
    #[arg(long, hide = true, requires_all = ["epoch", "prefix"])]
    life: Option<u64>,
    #[arg(long, hide = true)]
    epoch: Option<u64>,
    #[arg(long, hide = true)]
    prefix: Option<String>,
}

/// `--sync`, as it was given and what it means.
#[derive(Clone, Debug)]
struct SyncArg(String, SyncPolicy);

fn sync_of(text: &str) -> Result<SyncArg, String> {
    let millis = text.strip_prefix("every:").and_then(|millis| millis.parse::<u64>().ok());
    match (text, millis) {
        ("each-group", _) => Ok(SyncArg(text.into(), SyncPolicy::EachGroup)),
        (_, Some(millis @ 1..=60_000)) => {
            Ok(SyncArg(text.into(), SyncPolicy::Every(Duration::from_millis(millis))))
        }
        _ => Err("say each-group, or every:MILLISECONDS with 1 to 60000".into()),
    }
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    if let Some(tortured) = args.tortured() {
        // The parent hears what is wrong.
        return match tortured.and_then(take_part_in_torture) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    match run_all(&args) {
        Ok(report) if report.is_well() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

fn run_all(args: &Args) -> Result<TortureReport, String> {
    let plan = args.plan()?;
    let stop = watch_interrupts();
    if !args.json {
        output::say!("seed {}", plan.seed);
    }
    let start = |tortured: &Tortured| args.start(tortured);
    let say = |what: &str| {
        if !args.json {
            output::say!("{what}");
        }
    };
    let report = torture(&plan, &start, &stop, &say)?;
    if args.json {
        output::say!("{}", serde_json::to_string(&report).map_err(|error| error.to_string())?);
    } else {
        tell(&report);
    }
    Ok(report)
}

impl Args {
    fn target(&self) -> Result<TortureTarget, String> {
        match StoreArg::parse(&self.login.in_url(&self.store)?)? {
            StoreArg::File(folder) => Ok(TortureTarget::Folder(folder)),
            StoreArg::Url(url) => Ok(TortureTarget::Url(url)),
            StoreArg::Cluster => Ok(TortureTarget::Cluster {
                shards: self.shards,
                replicas: self.replicas,
                server: self.server.clone(),
            }),
            StoreArg::Embedded | StoreArg::Model => Err(format!(
                "--store {}: what is in memory alone does not outlive a fault; say file:FOLDER, cluster or redis://HOST:PORT",
                self.store
            )),
        }
    }

    fn plan(&self) -> Result<TorturePlan, String> {
        let seconds = self.seconds.or(self.minutes.map(|minutes| minutes * 60.0)).unwrap_or(60.0);
        if !(seconds > 0.0 && seconds <= 604_800.0) {
            return Err(format!("{seconds} seconds are not a time; name one up to a week"));
        }
        let durability = if self.durability == "strict" { Durability::Strict } else { Durability::Async };
        Ok(TorturePlan {
            target: self.target()?,
            time: Duration::from_secs_f64(seconds),
            clients: self.clients,
            processes: self.processes,
            seed: self.seed.unwrap_or_else(|| rand::rng().random()),
            sync: self.sync.1,
            durability,
            has_files: self.files == "aof",
            only: self.only.clone(),
            out: self.out.clone(),
        })
    }

    /// What this process has to do, if another one started it.
    fn tortured(&self) -> Option<Result<Tortured, String>> {
        let (life, epoch, prefix) = (self.life?, self.epoch?, self.prefix.clone()?);
        let store = self.target().map(|target| match target {
            TortureTarget::Folder(folder) => Ok(folder),
            TortureTarget::Url(url) => Err(url),
            TortureTarget::Cluster { .. } => Err(self.store.clone()),
        });
        Some(store.map(|store| Tortured {
            life,
            epoch,
            prefix,
            store,
            clients: self.clients,
            seed: self.seed.unwrap_or(1),
            sync: self.sync.1,
        }))
    }

    /// This program, as a process with clients.
    fn start(&self, tortured: &Tortured) -> Result<Command, String> {
        let program = env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
        let mut command = Command::new(program);
        let store = match &tortured.store {
            Ok(folder) => format!("file:{}", folder.display()),
            Err(url) => url.clone(),
        };
        command.args(["torture", "--sync", &self.sync.0, "--prefix", &tortured.prefix]);
        self.login.hand_on(&mut command, &self.store, &store);
        for (name, value) in [
            ("--clients", tortured.clients),
            ("--seed", tortured.seed),
            ("--life", tortured.life),
            ("--epoch", tortured.epoch),
        ] {
            command.args([name, &value.to_string()]);
        }
        Ok(command)
    }
}

fn tell(report: &TortureReport) {
    output::say!();
    output::say!("{:.0} seconds, seed {}", report.seconds, report.seed);
    output::say!("faults:");
    for (fault, count) in &report.struck {
        output::say!("  {count:6} {fault}");
    }
    output::say!("failovers: {}; processes with clients: {}", report.failovers, report.processes);
    output::say!("transactions:");
    output::say!("  {:6} begun", report.begun);
    output::say!("  {:6} acknowledged", report.committed);
    output::say!(
        "  {:6} of unknown outcome, their clients heard; asked, they were told {} times that it had committed, {} times that it was \
         aborted",
        report.unknown,
        report.told_committed,
        report.told_aborted
    );
    output::say!("  {:6} of unknown outcome, their process died", report.orphaned);
    let because: Vec<String> =
        report.refused_because.iter().map(|(why, count)| format!("{why} {count}")).collect();
    output::say!("  {:6} not done ({})", report.refused, because.join(", "));
    output::say!(
        "read at the end: {} keys of {} generations, all that were used",
        report.keys_read,
        report.generations
    );
    output::say!(
        "judged: {} transactions with {} edges, {} on lists by adya",
        report.judged,
        report.edges,
        report.list_transactions
    );
    if report.generations_hit > 0 {
        output::say!(
            "{} generations were hit by what may cost acknowledged transactions: lost there {}, and {} in part",
            report.generations_hit,
            report.lost,
            report.lost_in_part
        );
    } else if report.lost + report.lost_in_part > 0 {
        output::say!("lost within the promise: {}, and {} in part", report.lost, report.lost_in_part);
    }
    tell_end(report);
}

fn tell_end(report: &TortureReport) {
    if report.is_well() {
        output::say!("well: nothing that was to stay is lost, and there are no anomalies");
    }
    for anomaly in report.anomalies.iter().take(TOLD_MAX) {
        output::say!("ANOMALY: {}", output::escaped(anomaly));
    }
    if report.anomalies.len() > TOLD_MAX {
        output::say!("and {} more", report.anomalies.len() - TOLD_MAX);
    }
    if let Some(folder) = &report.histories {
        output::say!("the histories are in {}", folder.display());
        output::say!(
            "  generation-N.jsonl  transactions as their clients saw them, when they began and when they ended; times are \
             microseconds since the run began"
        );
        output::say!("  told-N.json         what clients were told that asked for outcomes");
        output::say!("  read-N.json         what its keys held at the end");
        output::say!("  faults.json         what was done when");
        output::say!("  report.json         counts, and all that is wrong");
        output::say!("  grep '\"KEY\"' generation-N.jsonl shows who touched a key");
    }
}
