//! Fuzzes the module on a real server: everything comes from a seed, and what is found is kept in a file.
//!
//! ```text
//! cargo run --release -p claret-module --example fuzz_server -- commands --executions 10000000
//! ```

#[path = "../tests/module/common/mod.rs"]
mod common;
#[path = "../tests/module/fuzzing/mod.rs"]
mod fuzzing;

use std::path::PathBuf;
use std::process::ExitCode;

use fuzzing::{Options, TARGETS, Target};

const USAGE: &str =
    "fuzz_server TARGET [--seed N] [--executions N] [--nodes 1|2] [--server PROGRAM] [--keep FOLDER]";

/// What the arguments say.
fn read(mut words: impl Iterator<Item = String>) -> Option<(&'static str, Target, Options, PathBuf)> {
    let name = words.next()?;
    let (name, target) = *TARGETS.iter().find(|(known, _)| *known == name)?;
    let mut options = Options { seed: 1, executions: 100_000, server: None, nodes: 1, is_loud: true };
    let mut keep = PathBuf::from(".");
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--seed" => options.seed = value.parse().ok()?,
            "--executions" => options.executions = value.parse().ok()?,
            "--nodes" => options.nodes = value.parse().ok().filter(|nodes| [1, 2].contains(nodes))?,
            "--server" => options.server = Some(value.into()),
            "--keep" => keep = value.into(),
            _ => return None,
        }
    }
    Some((name, target, options, keep))
}

fn main() -> ExitCode {
    let Some((name, target, options, keep)) = read(std::env::args().skip(1)) else {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("{USAGE}\ntargets: {}", names.join(", "));
        return ExitCode::from(2);
    };
    let (progress, found) = fuzzing::run(target, &options);
    let seconds = progress.began.elapsed().as_secs_f64();
    let (done, errors, seed) = (progress.done, progress.errors, options.seed);
    println!(
        "{name}: seed {seed}, {done} executions, {errors} answered with errors, {seconds:.0} s, found: {}",
        usize::from(found.is_some())
    );
    for (error, count) in progress.frequent_errors() {
        eprintln!("{count:>10} {}", error.escape_debug());
    }
    let Some(finding) = found else { return ExitCode::SUCCESS };
    let file = keep.join(format!("fuzz-{name}-{}.txt", finding.seed));
    match std::fs::write(&file, finding.text()) {
        Ok(()) => eprintln!("{}\nseed {}; the input is in {}", finding.what, finding.seed, file.display()),
        Err(error) => eprintln!("{}\n{} cannot be written: {error}", finding.text(), file.display()),
    }
    ExitCode::FAILURE
}
