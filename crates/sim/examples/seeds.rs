//! Runs seeds FIRST..END, says in a line what each failure is, and prints the totals of the others; one seed
//! alone is shown with its whole timeline.
//!
//! `cargo run --release -p claret-sim --example seeds -- 0 1000`

use std::process::ExitCode;

use claret_sim::{SimOptions, Totals, run_with};

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).map_while(|it| it.parse().ok()).collect();
    match numbers[..] {
        [seed] => show(seed),
        [first, end] => run_all(first, end),
        _ => {
            eprintln!("usage: seeds FIRST END | seeds SEED");
            ExitCode::from(2)
        }
    }
}

fn show(seed: u64) -> ExitCode {
    let options = SimOptions { timeline: true, ..SimOptions::seed(seed) };
    match run_with(&options) {
        Ok((outcome, timeline)) => {
            println!("{}\n{outcome:#?}", timeline.join("\n"));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{}\n{:#?}\n{}", failure.timeline.join("\n"), failure.config, failure.reason);
            ExitCode::FAILURE
        }
    }
}

fn run_all(first: u64, end: u64) -> ExitCode {
    let (mut totals, mut failures) = (Totals::default(), 0);
    for seed in first..end {
        match run_with(&SimOptions::seed(seed)) {
            Ok((outcome, _)) => totals.add(&outcome),
            Err(failure) => {
                failures += 1;
                println!("{seed}: {}", failure.reason);
            }
        }
    }
    println!("{totals:#?}\nfailures: {failures}");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
