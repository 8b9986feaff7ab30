//! Runs seeds A..B and prints the totals: `cargo run --release -p claret-sim --example seeds -- 0 1000`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse::<u64>());
    let (Some(Ok(first)), Some(Ok(end))) = (numbers.next(), numbers.next()) else {
        eprintln!("usage: seeds FIRST END");
        return ExitCode::from(2);
    };
    match claret_sim::run_many(first..end, |_, _| ()) {
        Ok(totals) => {
            println!("{totals:#?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
