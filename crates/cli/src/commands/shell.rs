//! `claret shell`: an interactive prompt on an embedded store, or a script for it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::shell::{script, terminal};

/// Arguments of `claret shell`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claret shell\n  claret shell -c 'SADD k x; SCARD k'\n  \
                  claret shell --echo < script.txt\n\nA script runs to its end; the exit code is 1 if anything \
                  in it failed.")]
pub struct Args {
    /// Run these statements, separated by ';', and exit.
    #[arg(short, long, value_name = "STATEMENTS", conflicts_with = "file")]
    command: Option<String>,
    /// Run the lines of a file and exit.
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// In a script, print each line before what comes of it.
    #[arg(short, long)]
    echo: bool,
    /// In a script, stop after the first line that fails.
    #[arg(long)]
    strict: bool,
}

/// Runs it.
pub fn run(args: Args) -> ExitCode {
    let options = script::Options { echo: args.echo, strict: args.strict };
    match (args.command, args.file) {
        (Some(statements), _) => run_script(Cursor::new(statements), options),
        (None, Some(path)) => match File::open(&path) {
            Ok(file) => run_script(BufReader::new(file), options),
            Err(error) => {
                eprintln!("cannot read {}: {error}; name a file with a statement a line", path.display());
                ExitCode::FAILURE
            }
        },
        (None, None) if io::stdin().is_terminal() => match terminal::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the terminal failed: {error}");
                ExitCode::FAILURE
            }
        },
        (None, None) => run_script(io::stdin().lock(), options),
    }
}

fn run_script(lines: impl BufRead, options: script::Options) -> ExitCode {
    match script::run(lines, io::stdout().lock(), options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the script could not be run to its end: {error}");
            ExitCode::FAILURE
        }
    }
}
