//! `claret demo auction|twitter`: an auction and a Twitter clone, with plain locks and with Claret: reader/writer locks in
//! this process, locks made by hand of Redis commands on a cluster.
//!
//! Both modes do the same work with the same seeds in interleaved slices, and both are checked at the end.
//! What is simulated is said in the output. Nothing is tuned for one side: the commands that it prints repeat
//! it with `claret bench`, where the parameters can be changed.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use claret_bench::workload::{WorkloadSpec, retwis, rubis};
use claret_bench::{Bench, Check, Looking, Pace, Plan, Summary};
use claret_redis::without_passwords;

use super::Args;
use crate::commands::bar::Bar;
use crate::commands::bench::verdict;
use crate::commands::store_arg::StoreArg;
use crate::table::{grouped, latency, ratio, table};

const CLIENTS: usize = 256;
const THINK: Duration = Duration::from_millis(1);
const SHARDS: u32 = 64;

const INTRO: &str = "\
The same transactions twice, in this process: with reader/writer locks (rw: many read a key or one writes it,
as a lock for each key gives you), and with Claret, where operations that commute share a key: two bids on
one item, two posts on one timeline. Both commit all of a transaction or nothing, over any keys.
";

const INTRO_CLUSTER: &str = "\
The same transactions twice, on a cluster: with locks made by hand of Redis commands (redis-lock: SET NX for each
key, in one order for all), and with Claret, where operations that commute share a key: two bids on one item, two
posts on one timeline. Both work on any keys of any shards; Claret leaves nothing half done when a client dies.
";

const SIMULATED: &str = "\
Simulated: 256 clients, and the application's own work: a timer of 1 ms (it takes 1 to 2) after each step of a
transaction and before its commit, with its locks held. Keys are as hot as the papers' models make them.
Real: the stores, the locks, the waiting, and the checks at the end. Modes take turns second by second.
";

/// How large the two sites are.
#[derive(Clone, Copy, Debug)]
struct Size {
    items: usize,
    bidders: usize,
    scale: u32,
}

impl Size {
    fn of(args: &Args) -> Self {
        match (args.quick, args.full) {
            (true, _) => Size { items: 3_000, bidders: 5_000, scale: 10 },
            (false, false) => Size { items: 30_000, bidders: 20_000, scale: 12 },
            (false, true) => Size { items: 30_000, bidders: 100_000, scale: 16 },
        }
    }
}

/// A site.
#[derive(Clone, Copy, Debug)]
pub(super) enum Site {
    Auction,
    Twitter,
}

/// Its name and numbers for people, its workload, and how to go on with it.
struct Told {
    title: String,
    workload: WorkloadSpec,
    again: String,
}

fn told(site: Site, size: Size, store: &StoreArg, modes: &str) -> Told {
    let auction = rubis::Options { items: size.items, users: size.bidders, ..rubis::Options::default() };
    let clone = retwis::Options { scale: size.scale, ..retwis::Options::default() };
    let place = match store {
        StoreArg::Embedded | StoreArg::Model => String::new(),
        StoreArg::File(folder) => format!(" --store file:{}", folder.display()),
        StoreArg::Cluster => " --store cluster".to_owned(),
        StoreArg::Url(url) => format!(" --store {}", without_passwords(url)),
    };
    let again =
        |rest: &str| format!("claret bench {rest} --think 1000 --clients {CLIENTS} --modes {modes}{place}");
    match site {
        Site::Auction => Told {
            title: format!(
                "An auction (RUBiS, 45 % bids): {} items, {} users; most bids come on popular items about to close",
                grouped(size.items as u64),
                grouped(size.bidders as u64)
            ),
            workload: WorkloadSpec::Rubis(auction),
            again: again("rubis"),
        },
        Site::Twitter => Told {
            title: format!(
                "A Twitter clone (Retwis, 14 % posts and reposts): {} users; a post goes to all followers at once",
                grouped(1 << size.scale)
            ),
            workload: WorkloadSpec::Retwis(clone),
            again: again(&format!("retwis --scale {}", size.scale)),
        },
    }
}

/// Runs one of them.
pub(super) fn run(
    site: Site,
    args: &Args,
    time: Duration,
    stop: &Arc<AtomicBool>,
    out: &mut dyn Write,
) -> Result<Vec<Check>, String> {
    let store = match StoreArg::parse(&args.login.in_url(&args.store)?)? {
        StoreArg::Model => {
            return Err(
                "this demo runs on embedded, cluster or redis://HOST:PORT; --store sim is of claret bench"
                    .into(),
            );
        }
        store => store,
    };
    show(site, Size::of(args), &store, time, stop, out)
}

fn show(
    site: Site,
    size: Size,
    store: &StoreArg,
    time: Duration,
    stop: &Arc<AtomicBool>,
    out: &mut dyn Write,
) -> Result<Vec<Check>, String> {
    let failed = |error: io::Error| format!("writing the results: {error}");
    let (intro, modes) = match store.is_servers() {
        true => (INTRO_CLUSTER, "redis-lock,claret"),
        false => (INTRO, "rw,claret"),
    };
    writeln!(out, "{intro}\n{SIMULATED}").map_err(failed)?;
    let Told { title, workload, again } = told(site, size, store, modes);
    writeln!(out, "{title}").map_err(failed)?;
    let mut bench = run_site(workload, store, modes, time, stop)?;
    let checks = bench.check();
    bench.clean()?;
    print_site(out, &bench.summaries(), &checks).map_err(failed)?;
    if bench.interrupted() {
        writeln!(out, "interrupted: what is above was ended before its time").map_err(failed)?;
        return Ok(checks);
    }
    let shell = match store {
        StoreArg::Url(url) => format!("claret shell --store {}", without_passwords(url)),
        StoreArg::Embedded | StoreArg::File(_) | StoreArg::Model | StoreArg::Cluster => {
            "claret shell".to_owned()
        }
    };
    write!(out, "Next:\n  {again}\n  {shell}\n").map_err(failed)?;
    Ok(checks)
}

fn run_site(
    workload: WorkloadSpec,
    store: &StoreArg,
    modes: &str,
    time: Duration,
    stop: &Arc<AtomicBool>,
) -> Result<Bench, String> {
    let modes = store.modes(Some(modes))?;
    let plan = Plan {
        place: store.place(None, None, &modes, None)?,
        workload,
        modes,
        shards: SHARDS,
        clients: CLIENTS,
        threads: 1,
        processes: 1,
        pace: Pace::Pause(THINK),
        looking: Looking::AtAnswers,
        time,
        slice: Duration::from_secs(1).min(time),
        seed: 1,
    };
    let mut bar = Bar::new();
    let mut bench = Bench::new(plan, Arc::clone(stop))?;
    bench.load(&mut bar)?;
    if bench.interrupted() {
        return Err("interrupted while loading".into());
    }
    bench.run(&mut bar)?;
    Ok(bench)
}

fn print_site(out: &mut dyn Write, summaries: &[Summary], checks: &[Check]) -> io::Result<()> {
    let cells = |summary: &Summary| {
        let figures = &summary.figures;
        vec![
            match summary.setting.mode {
                "rw" => "reader/writer".to_owned(),
                "redis-lock" => "redis-lock".to_owned(),
                _ => "Claret".to_owned(),
            },
            grouped(figures.throughput as u64),
            latency(figures.p50_us),
            latency(figures.p99_us),
            grouped(figures.retries),
            grouped(figures.aborts),
            grouped(figures.lock_waits),
        ]
    };
    let mut rows: Vec<_> = summaries.iter().map(cells).collect();
    if let [rw, claret] = summaries {
        let (rw, claret) = (&rw.figures, &claret.figures);
        // For each transaction: who does more has more occasion to wait.
        let each = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let per = |a: u64, b: u64| ratio(each(b, claret.committed), Some(each(a, rw.committed)));
        rows.push(vec![
            "ratio".to_owned(),
            ratio(claret.throughput, Some(rw.throughput)),
            ratio(claret.p50_us, Some(rw.p50_us)),
            ratio(claret.p99_us, Some(rw.p99_us)),
            per(rw.retries, claret.retries),
            per(rw.aborts, claret.aborts),
            per(rw.lock_waits, claret.lock_waits),
        ]);
    }
    let header = ["locks", "tx/s", "p50", "p99", "retries", "aborts", "lock waits"];
    write!(out, "{}", table(&header, &rows))?;
    writeln!(out, "(ratio of retries, aborts and waits: for each committed transaction)")?;
    if let [rw, claret] = summaries
        && rw.figures.p50_us < claret.figures.p50_us
        && rw.figures.p99_us > claret.figures.p99_us
    {
        let why =
            "clients stuck on a hot key commit little, so its median is mostly of cold keys; p99 shows them";
        writeln!(out, "({}: {why})", rows[0][0])?;
    }
    writeln!(out, "{}\n", verdict(checks))
}
