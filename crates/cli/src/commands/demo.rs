//! `claret demo`.

use std::process::ExitCode;

/// Arguments of `claret demo`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_: Args) -> ExitCode {
    ExitCode::FAILURE
}
