//! `claret man`: the manual pages, made from the definition of commands and options.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::output;

const HELP_AFTER: &str = "\
Example:
  claret man ~/.local/share/man/man1 && man claret-bench";

/// Arguments of `claret man`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP_AFTER)]
pub(crate) struct Args {
    /// The directory to write them to, made if there is none: claret.1, claret-bench.1 and so on.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs it, for this program.
pub(crate) fn run(args: Args, program: clap::Command) -> ExitCode {
    let written = fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(program, &args.dir));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(format!(
                "the manual pages could not be written to {}: {error}",
                args.dir.display()
            ));
            ExitCode::FAILURE
        }
    }
}
