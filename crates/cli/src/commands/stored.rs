//! `claret check`, `claret dump` and `claret backup`: reads a store's folder, and changes nothing in it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use claret_log::{
    Disk, Folder, FolderLock, LogError, Progress, Recovered, VERSION, recover, recover_until_damage,
};
use claret_types::{Bytes, State};
use serde::Serialize;

use super::store_arg::StoreArg;
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
                  null) and `content`, whose words are those of RECORD.CONTENT. Bytes that are not printable ASCII are written as \\xNN.\n\n\
                  Of a damaged store --until-damage prints the records as they were before the first damage, and says on the standard \
                  error what is damaged and as of when the records are. What was acknowledged behind the damage is not among them: a \
                  backup may have it."
)]
pub(crate) struct DumpArgs {
    /// The folder of a store, which nobody has open.
    folder: PathBuf,
    /// If the store is damaged: print what is before the damage.
    #[arg(long)]
    until_damage: bool,
}

/// Arguments of `claret backup`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  claret backup --store file:/var/lib/shop /backups/shop-2026-11-27\n\nThe store may be open, as by a running \
                  'claret gateway --store file:/var/lib/shop', or closed: what was acknowledged before is in the copy, and nobody waits. It runs \
                  on the machine that has the folder, as a user that may read its files. What is copied is checked; a copy that is not whole \
                  says so to whoever opens it. A store on a cluster is backed up by the means of its servers (BGSAVE); one in memory has no \
                  files.\n\nTo restore it: copy the folder, and open the copy."
)]
pub(crate) struct BackupArgs {
    /// file:FOLDER, the store.
    #[arg(long, value_name = "URL")]
    store: String,
    /// Where the copy goes: a new folder, or an empty one.
    folder: PathBuf,
}

/// Runs `claret check`.
pub(crate) fn check(args: CheckArgs) -> ExitCode {
    ended(read(&args.folder).and_then(|read| report(&read).map_err(|error| error.to_string())))
}

/// Runs `claret dump`.
pub(crate) fn dump(args: DumpArgs) -> ExitCode {
    ended(match args.until_damage {
        false => read(&args.folder).and_then(|read| print_records(&read)),
        true => salvage(&args.folder),
    })
}

/// Runs `claret backup`.
pub(crate) fn backup(args: BackupArgs) -> ExitCode {
    ended(back_up(&args))
}

fn back_up(args: &BackupArgs) -> Result<(), String> {
    let error = match StoreArg::parse(&args.store)? {
        StoreArg::File(own) => match claret::Store::backup_of(&own, &args.folder) {
            Ok(()) => {
                output::say!("'{}' is a backup of '{}'", args.folder.display(), own.display());
                return Ok(());
            }
            Err(error) => error,
        },
        StoreArg::Url(_) | StoreArg::Cluster => claret::durability::BackupError::OnACluster,
        StoreArg::Embedded | StoreArg::Model => claret::durability::BackupError::InMemory,
    };
    Err(error.to_string())
}

/// Prints what is before the first damage, and says what that is.
fn salvage(folder: &Path) -> Result<(), String> {
    let salvaged = reading(folder, recover_until_damage)?;
    print_records(&salvaged.recovered)?;
    let Some(damage) = &salvaged.damage else { return Ok(()) };
    let position = salvaged.recovered.position;
    let what = match salvaged.is_of_one_moment {
        true => format!("these are the records as of position {position} of the log, and nothing later"),
        false => "a snapshot, or the log that it needs, is damaged: each record is as of a moment of its own, and some are missing"
            .to_owned(),
    };
    output::error(format!("{damage}\n{what}"));
    Ok(())
}

fn print_records(read: &Recovered) -> Result<(), String> {
    match write_records(read) {
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| error.to_string()),
    }
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
    reading(folder, recover)
}

/// Reads a folder in one way or another, with nobody writing meanwhile.
fn reading<T>(
    folder: &Path,
    read: impl FnOnce(&mut dyn Disk, &mut dyn FnMut(Progress)) -> Result<Option<T>, LogError>,
) -> Result<T, String> {
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(format!("there is no folder '{shown}'; name that of a store"));
    }
    // Held until it is read: nobody writes meanwhile.
    let lock = FolderLock::shared(folder).map_err(|error| format!("cannot lock '{shown}': {error}"))?;
    if lock.is_none() {
        return Err(format!(
            "the store at '{shown}' is open; close it there first, or read a copy ('claret backup' makes one)"
        ));
    }
    let mut reading = Reading::begin();
    let found = read(&mut Folder::new(folder), &mut |progress| reading.is_at(progress));
    drop(reading);
    let found = found.map_err(|error| error.to_string())?;
    found.ok_or_else(|| format!("there is no store in '{shown}' yet"))
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
