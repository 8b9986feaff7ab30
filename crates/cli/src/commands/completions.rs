//! `claret completions`: what makes a shell complete commands and options, made from their definition.

use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::Shell;

use crate::output;

const HELP_AFTER: &str = "\
Examples:
  claret completions bash > ~/.local/share/bash-completion/completions/claret
  claret completions zsh > ~/.zfunc/_claret
  claret completions fish > ~/.config/fish/completions/claret.fish";

/// Arguments of `claret completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP_AFTER)]
pub(crate) struct Args {
    /// For this shell.
    shell: Shell,
}

/// Runs it, for this program.
pub(crate) fn run(args: Args, mut program: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "claret", &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            output::error(format!("the script could not be written: {error}"));
            ExitCode::FAILURE
        }
    }
}
