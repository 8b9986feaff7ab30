//! Plants every bug in the protocol, runs seeds until one fails, and prints as a table which check noticed and how
//! many seeds it took: the median of several trials, each over seeds of its own.
//!
//! `cargo run --release -p claret-sim --features planted-bugs --example planted -- [TRIALS] [SEEDS] [BUG...]`
//!
//! A bug that no trial finds within SEEDS is shown as such, and the exit status is 1.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use claret_sim::Bug;
use claret_sim::hunt::{self, Catch, first_failure};

/// Trial `t` begins at seed `t` times this.
const TRIAL_APART: u64 = 100_000;

/// Bugs are looked for on so many threads.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|it| it.parse().ok());
    let (trials, seeds) = (number(0).unwrap_or(15), number(1).unwrap_or(2_000));
    let named: Vec<Bug> = arguments.iter().skip(2).filter_map(|name| Bug::parse(name)).collect();
    let bugs = if named.is_empty() { Bug::all() } else { named };
    let found = hunt::silently(|| hunt_all(&bugs, trials, seeds));

    println!("| bug | rule | caught by | trials | median seeds | most |\n|---|---|---|---|---|---|");
    for (bug, catches) in bugs.iter().zip(&found) {
        println!("{}", row(*bug, catches, trials));
    }
    let missed = found.iter().filter(|catches| catches.is_empty()).count();
    println!("\n{} of {} bugs are caught", bugs.len() - missed, bugs.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The catches of each bug, in the order of the bugs. Threads take the next bug as they come free.
fn hunt_all(bugs: &[Bug], trials: u64, seeds: u64) -> Vec<Vec<Catch>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![Vec::new(); bugs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some((at, bug)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|at| bugs.get(at).map(|bug| (at, *bug)))
                {
                    let runs = (0..trials).map(|trial| first_failure(bug, trial * TRIAL_APART, seeds));
                    let catches: Vec<Catch> = runs.flatten().collect();
                    report(at, bug, &catches);
                    found.lock().expect("no thread panics")[at] = catches;
                }
            });
        }
    });
    found.into_inner().expect("no thread panics")
}

/// Progress: what each trial found.
fn report(at: usize, bug: Bug, catches: &[Catch]) {
    eprintln!("number {}, {}: caught {} times", at + 1, bug.name(), catches.len());
    for Catch { seed, check, reason, .. } in catches {
        eprintln!("  seed {seed}, {check}: {}", reason.lines().next().unwrap_or_default());
    }
}

fn row(bug: Bug, catches: &[Catch], trials: u64) -> String {
    let mut seeds: Vec<u64> = catches.iter().map(|it| it.seeds).collect();
    seeds.sort_unstable();
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for catch in catches {
        *classes.entry(catch.check).or_default() += 1;
    }
    let most_frequent = classes.iter().max_by_key(|(_, count)| **count).map_or("nothing", |(check, _)| check);
    let (median, most) = match seeds.as_slice() {
        [] => ("-".to_owned(), "-".to_owned()),
        some => (some[some.len() / 2].to_string(), some[some.len() - 1].to_string()),
    };
    let caught = catches.len();
    format!(
        "| `{}` | {} | {most_frequent} | {caught} of {trials} | {median} | {most} |",
        bug.name(),
        bug.rule()
    )
}
