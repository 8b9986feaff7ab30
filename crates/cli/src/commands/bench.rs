//! `claret bench`.

use std::process::ExitCode;

/// Arguments of `claret bench`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_: Args) -> ExitCode {
    ExitCode::FAILURE
}
