//! Explores the configurations of `tests/sim/exhaustive`, those that are too large for a test among them, and prints a
//! table. With names, or parts of names, as arguments: only these.
//!
//! ```text
//! cargo run --release -p claret-sim --example exhaustive -- restart
//! ```

#[path = "../tests/sim/exhaustive/check.rs"]
mod check;
#[path = "../tests/sim/exhaustive/client.rs"]
mod client;
#[path = "../tests/sim/exhaustive/ends.rs"]
mod ends;
#[path = "../tests/sim/exhaustive/plan.rs"]
mod plan;
#[path = "../tests/sim/exhaustive/plans.rs"]
mod plans;
#[path = "../tests/sim/exhaustive/search.rs"]
mod search;
#[path = "../tests/sim/exhaustive/step.rs"]
mod step;
#[path = "../tests/sim/exhaustive/ways/mod.rs"]
mod ways;
#[path = "../tests/sim/exhaustive/world.rs"]
mod world;

use std::process::ExitCode;

/// Above this the graph of all states does not fit: the search itself finds who is stuck, not who runs in circles.
const GRAPH_STATES_MAX: usize = 12_000_000;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let plans = plans::all();
    let wanted = |plan: &plan::Plan| names.is_empty() || names.iter().any(|name| plan.name.contains(name));
    println!("| configuration | states | generated | depth | seconds | properties | an end can be reached |");
    println!("|---|---|---|---|---|---|---|");
    let mut wrong = Vec::new();
    for plan in plans.into_iter().filter(wanted) {
        let found = search::search(&plan, 2);
        let asked = found.violations.is_empty() && found.unique < GRAPH_STATES_MAX;
        let dead_end = if asked { ends::dead_end(&plan) } else { None };
        println!(
            "{found} {} |",
            if !asked {
                "not asked"
            } else if dead_end.is_some() {
                "no"
            } else {
                "yes"
            }
        );
        let ways = found.violations.iter().map(|(property, way)| format!("not true: {property}\n{way}"));
        let ways = ways.chain(dead_end.map(|way| format!("no way leads on from here\n{way}")));
        wrong.extend(ways.map(|way| format!("{}: {way}", plan.name)));
    }
    if names.is_empty() {
        println!("\n| broken on purpose | found after states | steps |\n|---|---|---|");
        let broken = [plans::broken(), plans::broken_ordered(), ways::broken()].concat();
        for plan in broken {
            let found = search::search(&plan, 1);
            let steps = found.violations.values().map(|way| way.lines().count() - 1).min();
            println!(
                "| {} | {} | {} |",
                plan.bug.map_or_else(|| format!("{:?}", plan.plant), |bug| bug.name().to_owned()),
                found.unique,
                steps.map_or("-".into(), |it| it.to_string())
            );
        }
    }
    wrong.iter().for_each(|way| println!("\n{way}"));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
