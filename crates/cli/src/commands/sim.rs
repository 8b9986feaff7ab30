//! `claret sim`.

use std::process::ExitCode;

/// Arguments of `claret sim`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_: Args) -> ExitCode {
    ExitCode::FAILURE
}
