//! `claret shell`.

use std::process::ExitCode;

/// Arguments of `claret shell`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_: Args) -> ExitCode {
    ExitCode::FAILURE
}
