//! `claret run`: a Lua script as one transaction on a store, and what it answers.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use claret::Store;
use claret_commands::{Answer, Eval, Script};
use claret_redis::without_passwords;

use super::password::PasswordFile;
use crate::output::{self, Escaped};

const HELP_AFTER: &str = "\
The script is Lua as EVAL takes it (docs/scripts.md), over any keys: all of it is done, or nothing. What it returns is printed as
redis-cli prints it. The exit code is 1 if it failed, or returned an error.

Examples:
  claret run transfer.lua account:ada account:bob , 30 --store redis://127.0.0.1:7000
  echo 'return redis.call(\"INCR\", KEYS[1])' | claret run - hits --store file:/tmp/shop";

/// Arguments of `claret run`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP_AFTER)]
pub(crate) struct Args {
    /// The script; - reads it from standard input.
    file: PathBuf,
    /// KEYS, then a comma with blanks around it, then ARGV.
    #[arg(value_name = "KEY ... [, ARG ...]", allow_negative_numbers = true)]
    words: Vec<String>,
    /// embedded: an empty store in this process; file:FOLDER: one that is kept there; or redis://HOST:PORT, a cluster with the
    /// module.
    #[arg(long, default_value = "embedded")]
    store: String,
    #[command(flatten)]
    login: PasswordFile,
}

/// Runs it.
pub(crate) fn run(args: Args) -> ExitCode {
    let answer = match evaluated(&args) {
        Ok(answer) => answer,
        Err(error) => {
            output::error(error);
            return ExitCode::FAILURE;
        }
    };
    let is_error = matches!(answer, Answer::Error(_));
    let mut out = Escaped::new(io::stdout().lock());
    // Whoever reads the output may have seen enough.
    let _ = write(&mut out, &answer, 0).and_then(|()| out.flush());
    if is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn evaluated(args: &Args) -> Result<Answer, String> {
    let text = read(&args.file)?;
    let script = Script::compile(&text).map_err(|fault| fault.text())?;
    let (keys, rest) = match args.words.iter().position(|word| word == ",") {
        Some(comma) => (&args.words[..comma], &args.words[comma + 1..]),
        None => (&args.words[..], &[][..]),
    };
    let store = args.login.in_url(&args.store)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting the connections: {error}"))?;
    runtime.block_on(async {
        let store = open(&store).await?;
        let done =
            store.eval(&script, keys.iter().map(String::as_str), rest.iter().map(String::as_str)).await;
        let closed = store.close().await.map_err(|error| error.to_string());
        done.map_err(|fault| fault.text()).and_then(|answer| closed.map(|()| answer))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let done = match path.as_os_str() == "-" {
        true => io::stdin().lock().read_to_end(&mut text).map(drop),
        false => fs::read(path).map(|read| text = read),
    };
    done.map_err(|error| format!("cannot read {}: {error}; name a file with a script", path.display()))?;
    Ok(text)
}

async fn open(store: &str) -> Result<Store, String> {
    match store {
        "embedded" => Ok(Store::in_memory()),
        folder if folder.starts_with("file:") => {
            Store::open(&folder["file:".len()..]).map_err(|error| error.to_string())
        }
        url if url.starts_with("redis://") || url.starts_with("rediss://") => {
            Store::connect(url).await.map_err(|error| error.to_string())
        }
        other => Err(format!(
            "there is no store '{}'; a script runs on embedded, file:FOLDER or redis://HOST:PORT",
            without_passwords(other)
        )),
    }
}

/// As redis-cli shows it; elements stand a line each, under their number.
fn write(out: &mut impl Write, answer: &Answer, depth: usize) -> io::Result<()> {
    match answer {
        Answer::Ok => writeln!(out, "OK"),
        Answer::Simple(text) => writeln!(out, "{text}"),
        Answer::Status(text) => writeln!(out, "{text}"),
        Answer::Int(number) => writeln!(out, "(integer) {number}"),
        Answer::Double(number) | Answer::Score(number) => writeln!(out, "(double) {number}"),
        Answer::Bool(value) => writeln!(out, "({value})"),
        Answer::Nil | Answer::NilArray => writeln!(out, "(nil)"),
        Answer::Error(text) => writeln!(out, "(error) {text}"),
        Answer::Bulk(bytes) | Answer::Verbatim(bytes) => writeln!(out, "\"{}\"", bytes.escape_ascii()),
        Answer::Raw(bytes) => writeln!(out, "\"{}\"", bytes.escape_ascii()),
        Answer::Array(all) | Answer::Pairs(all) | Answer::Map(all) | Answer::Set(all) => {
            if all.is_empty() {
                return writeln!(out, "(empty array)");
            }
            for (no, answer) in all.iter().enumerate() {
                let indent = if no == 0 { 0 } else { depth };
                write!(out, "{:indent$}{}) ", "", no + 1)?;
                write(out, answer, depth + (no + 1).to_string().len() + 2)?;
            }
            Ok(())
        }
    }
}
