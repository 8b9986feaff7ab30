//! `claret check-store`: lets many clients loose on a store, and judges from outside whether what they saw is
//! strictly serializable.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use claret::Store;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::checking::verdict::{Planted, Verdict, judge_all};
use crate::checking::{self, Clock, History, Progress, Settings};

/// Arguments of `claret check-store`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claret check-store\n  claret check-store --clients 64 --seconds 30\n\nThe exit code \
                        is 1 if the results cannot be explained by any serial order, or if a planted anomaly is \
                        not found."
)]
pub struct Args {
    /// Clients, over all processes; every eighth of them works at the bank.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(2..=4096))]
    clients: u64,
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
    let settings = Settings {
        clients: args.clients as usize,
        time: Duration::from_secs_f64(args.seconds),
        keys: args.keys,
        rotation: Duration::from_millis(args.rotation),
        process: 0,
        processes: 1,
        seed: args.seed,
        prefix: "check".into(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
    let store = Store::in_memory();
    let history = runtime.block_on(work(&store, &settings))?;
    if let Some(path) = &args.history {
        write(path, &history).map_err(|error| format!("writing {}: {error}", path.display()))?;
    }
    report(&history, args.json)
}

/// Runs the clients, with a sign of life, and reads everything at the end.
async fn work(store: &Store, settings: &Settings) -> Result<History, String> {
    let clock = Clock::new(None);
    let progress = Arc::new(Progress::default());
    let bar = watch(settings.time);
    let watcher = tokio::spawn({
        let (bar, progress, time) = (bar.clone(), Arc::clone(&progress), settings.time);
        async move {
            loop {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => progress.stop.store(true, Ordering::Relaxed),
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                }
                bar.set_position(clock.now().min(time.as_micros() as u64) / 1000);
                bar.set_message(format!("{} transactions", progress.ended.load(Ordering::Relaxed)));
            }
        }
    });
    let history = checking::run(store, settings, clock, &progress).await;
    watcher.abort();
    bar.set_message("judging");
    let mut history = history?;
    let finished = checking::finish(store, settings, clock, &mut history).await;
    bar.finish_and_clear();
    finished.map(|()| history)
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
        anomalies: verdict.anomalies,
        planted,
        found,
        found_by_adya,
    }
}

fn tell(summary: &Summary, of_lists: usize) {
    let Summary { committed, void, unknown, judged, edges, list_transactions, transfers, totals, .. } =
        summary;
    println!("{committed} transactions committed, {void} did not, {unknown} nobody knows");
    println!(
        "{judged} judged by what they saw, over {edges} edges; {list_transactions} on lists judged by adya"
    );
    println!("{transfers} transfers between accounts, {totals} totals read, all right");
    println!(
        "{} of {} planted anomalies found, {} of {of_lists} by adya",
        summary.found, summary.planted, summary.found_by_adya
    );
    println!("{} anomalies", summary.anomalies.len());
    for anomaly in &summary.anomalies {
        println!("  {anomaly}");
    }
}
