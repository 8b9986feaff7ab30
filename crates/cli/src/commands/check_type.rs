//! `claret check-type`: proves on small cases that what a type's lock admits really commutes.

use std::process::ExitCode;
use std::time::Instant;

use claret_types::oracle::{self, Bounds, Check};

use super::high_water::HighWater;
use crate::output;

/// Arguments of `claret check-type`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  claret check-type set\n  claret check-type --all --pending 3\n  claret check-type --example"
)]
pub(crate) struct Args {
    /// The type, as in `claret check-type set`; without it and without --all, the types are listed.
    name: Option<String>,
    /// Check all built-in types.
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Check the type of the guide "Write a type": what the report on a type of your own looks like.
    #[arg(long, conflicts_with_all = ["name", "all"])]
    example: bool,
    /// Operations pending at once, 1 to 4.
    #[arg(long, default_value_t = Bounds::default().pending)]
    pending: usize,
    /// Steps of the histories: grants, own further operations, applies, aborts.
    #[arg(long, default_value_t = Bounds::default().depth)]
    depth: usize,
    /// At most so many cases for each type.
    #[arg(long, default_value_t = Bounds::default().cases)]
    cases: u64,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let bounds = Bounds { pending: args.pending, depth: args.depth, cases: args.cases, ..Bounds::default() };
    let example = Check::of::<HighWater>();
    let chosen: Vec<&Check> = match &args.name {
        Some(name) => match oracle::builtin().iter().find(|check| check.name == name) {
            Some(check) => vec![check],
            None => {
                output::tell!("there is no type '{name}'; {}", known());
                return ExitCode::FAILURE;
            }
        },
        None if args.example => vec![&example],
        None if args.all => oracle::builtin().iter().collect(),
        None => {
            output::say!("name a type, or pass --all; {}", known());
            return ExitCode::SUCCESS;
        }
    };
    let began = Instant::now();
    let (mut cases, mut refused) = (0, 0);
    for check in chosen {
        let report = (check.run)(bounds);
        output::say!("{report}");
        cases += report.cases;
        refused += u32::from(report.verdict.is_some());
    }
    output::say!(
        "{cases} cases in {:.1} s, {refused} violation{}",
        began.elapsed().as_secs_f64(),
        if refused == 1 { "" } else { "s" }
    );
    if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn known() -> String {
    let names: Vec<&str> = oracle::builtin().iter().map(|check| check.name).collect();
    format!("the types are {}", names.join(", "))
}
