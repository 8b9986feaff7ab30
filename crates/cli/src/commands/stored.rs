//! `claret check` and `claret dump`: reads a store's folder, and changes nothing in it.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use claret_log::{Folder, Recovered, VERSION, recover};
use claret_types::{Bytes, State};
use serde::Serialize;

use crate::output;
use crate::reading::Reading;

/// Arguments of `claret check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  claret check /var/lib/shop\n\nIt reads the snapshot and the log to their end. The exit code is 1 if \
                  the store is damaged, and the error names the file and the place."
)]
pub(crate) struct CheckArgs {
    /// The folder of a store, which nobody has open.
    folder: PathBuf,
}

/// Arguments of `claret dump`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  claret dump /var/lib/shop | head\n\nA line is a JSON object: `key`, `type`, `expires_ms` (since 1970, or \
                  null) and `content`, whose words are those of RECORD.CONTENT. Bytes that are not printable ASCII are written as \\xNN."
)]
pub(crate) struct DumpArgs {
    /// The folder of a store, which nobody has open.
    folder: PathBuf,
}

/// Runs `claret check`.
pub(crate) fn check(args: CheckArgs) -> ExitCode {
    ended(read(&args.folder).and_then(|read| report(&read).map_err(|error| error.to_string())))
}

/// Runs `claret dump`.
pub(crate) fn dump(args: DumpArgs) -> ExitCode {
    ended(read(&args.folder).and_then(|read| match write_records(&read) {
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| error.to_string()),
    }))
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(error);
            ExitCode::FAILURE
        }
    }
}

fn read(folder: &Path) -> Result<Recovered, String> {
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(format!("there is no folder '{shown}'; name that of a store"));
    }
    // Held until it is read: nobody writes meanwhile. A copy may be without it.
    let lock = File::open(folder.join("lock")).ok();
    match lock.as_ref().map(File::try_lock_shared) {
        None | Some(Ok(())) => {}
        Some(Err(TryLockError::WouldBlock)) => {
            return Err(format!("the store at '{shown}' is open; close it there first, or read a copy"));
        }
        Some(Err(TryLockError::Error(error))) => return Err(format!("cannot lock '{shown}': {error}")),
    }
    let mut reading = Reading::begin();
    let recovered = recover(&mut Folder::new(folder), &mut |progress| reading.is_at(progress));
    drop(reading);
    let recovered = recovered.map_err(|error| error.to_string())?;
    recovered.ok_or_else(|| format!("there is no store in '{shown}' yet"))
}

fn report(read: &Recovered) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "store {:016x}, format {VERSION}", read.store)?;
    match read.snapshot {
        Some(position) => writeln!(out, "snapshot as of position {position}")?,
        None => writeln!(out, "no snapshot yet")?,
    }
    writeln!(out, "log up to position {}, {} entries read", read.position, read.entries)?;
    if let Some(torn) = &read.torn {
        let (file, at, bytes) = (&torn.file, torn.at, torn.bytes);
        writeln!(
            out,
            "{bytes} bytes of '{file}' from byte {at} on were never synced, and go when the store is opened"
        )?;
    }
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for state in read.records.values() {
        *kinds.entry(state.type_info().name).or_default() += 1;
    }
    kinds.iter().try_for_each(|(kind, count)| writeln!(out, "{count} of type {kind}"))?;
    writeln!(out, "{} records, no damage", read.records.len())
}

/// A line of `claret dump`.
#[derive(Serialize)]
struct Line<'a> {
    key: String,
    r#type: &'a str,
    expires_ms: Option<u64>,
    content: Vec<String>,
}

fn write_records(read: &Recovered) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let sorted: BTreeMap<&Bytes, &State> = read.records.iter().collect();
    for (key, state) in sorted {
        let words = state.words().map_err(|error| io::Error::other(error.to_string()))?;
        let line = Line {
            key: key.escape_ascii().to_string(),
            r#type: state.type_info().name,
            expires_ms: state.expiry().map(|expiry| expiry.ms()),
            content: words.iter().skip(1).map(|word| word.escape_ascii().to_string()).collect(),
        };
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
