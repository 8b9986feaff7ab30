//! `claret shell`: an interactive prompt on an embedded store or a cluster, or a script for it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use claret::Schema;
use claret_redis::without_passwords;

use super::password::PasswordFile;
use crate::output::{self, Escaped};
use crate::shell::{Shell, script, terminal};

/// Arguments of `claret shell`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claret shell\n  claret shell -c 'SADD k x; SCARD k'\n  \
                  claret shell --echo < script.txt\n  claret shell --store file:/tmp/shop\n  claret shell --store redis://127.0.0.1:7000\n\nA script runs to its end; the exit code is 1 if anything \
                  in it failed.")]
pub(crate) struct Args {
    /// embedded: an empty store in this process; file:FOLDER: one that is kept there; or redis://HOST:PORT, a cluster with the
    /// module.
    #[arg(long, default_value = "embedded")]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
    /// A file with a schema, which every operation is held against (docs/schemas.md). A cluster's nodes have to have the same.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
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
pub(crate) fn run(args: Args) -> ExitCode {
    let options = script::Options { echo: args.echo, strict: args.strict };
    let schema = args.schema.as_deref().map(super::schema::read).transpose();
    let store = args.login.in_url(&args.store);
    let shell = match schema.and_then(|schema| open(&store?, schema)) {
        Ok(shell) => shell,
        Err(error) => {
            output::error(error);
            return ExitCode::FAILURE;
        }
    };
    match (args.command, args.file) {
        (Some(statements), _) => run_script(shell, Cursor::new(statements), options),
        (None, Some(path)) => match File::open(&path) {
            Ok(file) => run_script(shell, BufReader::new(file), options),
            Err(error) => {
                output::error(format!(
                    "cannot read {}: {error}; name a file with a statement a line",
                    path.display()
                ));
                ExitCode::FAILURE
            }
        },
        (None, None) if io::stdin().is_terminal() => match terminal::run(shell) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                output::error(format!("the terminal failed: {error}"));
                ExitCode::FAILURE
            }
        },
        (None, None) => run_script(shell, io::stdin().lock(), options),
    }
}

fn open(store: &str, schema: Option<Schema>) -> Result<Shell, String> {
    match store {
        "embedded" => Ok(Shell::new(schema)),
        folder if folder.starts_with("file:") => Shell::open(Path::new(&folder["file:".len()..]), schema),
        url if url.starts_with("redis://") || url.starts_with("rediss://") => Shell::connect(url, schema),
        other => Err(format!(
            "there is no store '{}'; a shell is on embedded, file:FOLDER or redis://HOST:PORT",
            without_passwords(other)
        )),
    }
}

fn run_script(shell: Shell, lines: impl BufRead, options: script::Options) -> ExitCode {
    match script::run(shell, lines, Escaped::new(io::stdout().lock()), options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            output::error(format!("the script could not be run to its end: {error}"));
            ExitCode::FAILURE
        }
    }
}
