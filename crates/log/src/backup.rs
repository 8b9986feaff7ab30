//! Copies a store that is in use: the newest snapshot, and the log from where on that needs it, up to a position (D14).
//!
//! What is copied is read and checked, so that a backup is none of damage. Until it is whole, a file in it says that it is not.

use std::path::Path;

use claret_planted::{Bug, is_planted};

use crate::disk::{Disk, Pinned};
use crate::error::LogError;
use crate::format::{Header, Kind, Line};
use crate::frames::Frames;
use crate::manifest::{MANIFEST, MANIFEST_UNFINISHED, Manifest};
use crate::names::{BACKUP_UNFINISHED, is_of_a_store};
use crate::snapshot::{self, UNFINISHED};

/// After so many bytes a file is synced: all of it at once would keep the log waiting for the disk.
const SYNC_AFTER: usize = 1 << 20;

/// Copies a store into an empty folder. Up to `position` its log is synced, and until this ends no snapshot is made and no file is
/// removed that the newest one needs. `goes_on` is asked again and again; the copy is given up when it says no.
///
/// # Errors
/// See [`LogError`]: [`LogError::Stopped`] when it was given up. What was copied is removed then, as far as that can be.
pub fn back_up(
    from: &mut dyn Disk,
    to: &mut dyn Disk,
    position: u64,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), LogError> {
    to.create(BACKUP_UNFINISHED).map_err(LogError::io("create", BACKUP_UNFINISHED))?;
    let copied = sync_names(to).and_then(|()| {
        Backup { from, to: &mut *to, goes_on, name: String::new(), gathered: Vec::new() }.run(position)
    });
    if copied.is_err() {
        let names = to.list().unwrap_or_default();
        for name in names.iter().filter(|name| *name != BACKUP_UNFINISHED) {
            let _ = to.remove(name); // It says that it is not whole.
        }
    }
    to.remove(BACKUP_UNFINISHED).map_err(LogError::io("remove", BACKUP_UNFINISHED)).and(copied)?;
    sync_names(to)
}

/// Copies a store into an empty folder, whoever has it open, this process or another one of this machine, or nobody: all whole groups
/// that are in its files now. With [`crate::Writer`] a commit is reported when its group is there, so all is in it that was reported
/// before this was called, but what a host reports before it writes. The position that the copy is of; `None`: there is no store.
///
/// Nobody waits for it. A store that goes on may remove files meanwhile: they stay readable until they are copied.
///
/// # Errors
/// See [`LogError`], and [`back_up`].
pub fn back_up_folder(
    from: &Path,
    to: &mut dyn Disk,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Option<u64>, LogError> {
    let shown = from.display().to_string();
    let mut from = Pinned::open(from, |name| *name != *UNFINISHED && *name != *MANIFEST_UNFINISHED)
        .map_err(LogError::io("read", &shown))?;
    let position = end_of(&mut from)?;
    if let Some(position) = position {
        back_up(&mut from, to, position, goes_on)?;
    }
    Ok(position)
}

/// Up to where the log has whole groups. `None`: there is no store.
fn end_of(disk: &mut dyn Disk) -> Result<Option<u64>, LogError> {
    let names = disk.list().map_err(LogError::io("list", "the folder"))?;
    if let Some(name) = names.iter().find(|name| !is_of_a_store(name)) {
        return Err(LogError::Foreign { file: name.clone() });
    }
    if names.iter().any(|name| name == BACKUP_UNFINISHED) {
        return Err(LogError::Unfinished { file: BACKUP_UNFINISHED.to_owned() });
    }
    let mut logs: Vec<u64> = names.iter().filter_map(|name| Kind::Log.position(name)).collect();
    logs.sort_unstable();
    let named = match names.iter().any(|name| name == MANIFEST) {
        true => Some(Manifest::read(disk)?.newest),
        false => None,
    };
    let missing = |position| Err(LogError::damaged(&Kind::Log.name(position), 0, "it is missing"));
    let newest = match (logs.pop(), named) {
        (None, None) if !names.iter().any(|name| Kind::Snapshot.position(name).is_some()) => return Ok(None),
        (None, named) => return missing(named.unwrap_or_default()),
        (Some(newest), Some(named)) if named > newest => return missing(named),
        (Some(newest), _) => newest,
    };
    let is_named = named.is_some_and(|named| newest <= named);
    let last = match logs.pop() {
        Some(before) if !is_named && is_being_made(disk, newest)? => before,
        _ => newest,
    };
    end_of_file(disk, last).map(Some)
}

/// Whether a file of the log has no whole first line yet: its maker is at it, or died.
fn is_being_made(disk: &mut dyn Disk, position: u64) -> Result<bool, LogError> {
    let name = Kind::Log.name(position);
    let mut frames = Frames::open(disk, &name)?;
    Ok(frames.may_be_new(Kind::Log) && frames.line(disk, Kind::Log)?.is_none())
}

/// Up to where a file of the log has whole groups.
fn end_of_file(disk: &mut dyn Disk, begin: u64) -> Result<u64, LogError> {
    let name = Kind::Log.name(begin);
    let mut frames = Frames::open(disk, &name)?;
    let Some(Line { store, len: mut at, .. }) = frames.line(disk, Kind::Log)? else {
        return Err(LogError::damaged(&name, 0, "its first line is not that of a log"));
    };
    let mut end = begin;
    while let Some((header, body)) = frames.frame(disk, at)?
        && (header.store, header.position) == (store, end)
    {
        (at, end) = (at + header.frame_len(body), end + body.len() as u64);
    }
    // What is being written is not whole yet, and nothing is behind it.
    match frames.says_synced(disk, at, store, end)? {
        true => Err(LogError::damaged(&name, at, "a checksum is wrong")),
        false => Ok(end),
    }
}

fn sync_names(disk: &mut dyn Disk) -> Result<(), LogError> {
    disk.sync_names().map_err(LogError::io("sync", "the folder"))
}

struct Backup<'a> {
    from: &'a mut dyn Disk,
    to: &'a mut dyn Disk,
    goes_on: &'a mut dyn FnMut() -> bool,
    /// The file that is written.
    name: String,
    /// What is to be written to it.
    gathered: Vec<u8>,
}

impl Backup<'_> {
    fn run(mut self, position: u64) -> Result<(), LogError> {
        let names = self.from.list().map_err(LogError::io("list", "the folder"))?;
        let (mut store, mut log_from) = (None, 0);
        if let Some(base) = names.iter().filter_map(|name| Kind::Snapshot.position(name)).max() {
            let (Line { store: of, .. }, begin) = self.snapshot(&Kind::Snapshot.name(base), position)?;
            (store, log_from) =
                (Some(of), if is_planted(Bug::BackupPassesOpenCommit) { begin.base } else { begin.log_from });
        }
        let mut segments: Vec<u64> = names.iter().filter_map(|name| Kind::Log.position(name)).collect();
        segments.sort_unstable();
        let needed = segments.iter().rposition(|begin| *begin <= log_from);
        let Some(needed) = needed else {
            return Err(LogError::damaged(&Kind::Log.name(log_from), 0, "the log from here on is missing"));
        };
        let mut end = segments[needed];
        for begin in &segments[needed..] {
            let name = Kind::Log.name(*begin);
            if end != *begin {
                return Err(LogError::damaged(&name, 0, format!("the log before it ends at {end:016x}")));
            }
            end = self.segment(&name, &mut store, end, position)?;
            if end >= position {
                let manifest = Manifest { store: store.unwrap_or_default(), newest: *begin, synced: end };
                manifest.put(self.to).map_err(LogError::io("write", MANIFEST))?;
                return sync_names(self.to);
            }
        }
        let what = format!("it ends at position {end}, and was synced up to {position}");
        Err(LogError::damaged(&self.name, 0, what))
    }

    /// Copies a snapshot, whose records are all as of this position or before it.
    fn snapshot(&mut self, name: &str, position: u64) -> Result<(Line, snapshot::Begin), LogError> {
        let (from, goes_on) = (&mut *self.from, &mut *self.goes_on);
        let mut copy = Copy { to: &mut *self.to, name, gathered: &mut self.gathered };
        let mut is_begun = false;
        let read = snapshot::read(from, name, |frame| {
            if !std::mem::replace(&mut is_begun, true) {
                copy.begin(Kind::Snapshot, frame.header.store)?;
            }
            if !goes_on() {
                return Err(given_up());
            }
            if frame.header.position > position {
                let what =
                    format!("it is of {}, and the log ends at position {position}", frame.header.position);
                return Err(LogError::damaged(name, frame.at, what));
            }
            copy.frame(frame.header, frame.body)
        })?;
        copy.end()?;
        Ok(read)
    }

    /// Copies groups up to a position: where the last one of them ends.
    fn segment(
        &mut self,
        name: &str,
        store: &mut Option<u64>,
        mut end: u64,
        position: u64,
    ) -> Result<u64, LogError> {
        let mut frames = Frames::open(self.from, name)?;
        self.name = name.to_owned();
        let Some(Line { store: of, len: mut at, .. }) = frames.line(self.from, Kind::Log)? else {
            return Err(LogError::damaged(name, 0, "its first line is not that of a log"));
        };
        if *store.get_or_insert(of) != of {
            return Err(LogError::damaged(name, 0, "it is of another store"));
        }
        let mut copy = Copy { to: &mut *self.to, name, gathered: &mut self.gathered };
        copy.begin(Kind::Log, of)?;
        while end < position && at < frames.len() {
            if !(self.goes_on)() {
                return Err(given_up());
            }
            let group = frames.frame(self.from, at)?;
            let Some((header, body)) = group.filter(|(it, _)| (it.store, it.position) == (of, end)) else {
                return Err(LogError::damaged(name, at, "a group is damaged"));
            };
            copy.frame(header, body)?;
            at += header.frame_len(body);
            end += body.len() as u64;
        }
        if end >= position {
            // The copy is synced before it is whole (D11).
            copy.frame(Header { store: of, position: end, synced: end }, &[])?;
        }
        copy.end()?;
        Ok(end)
    }
}

/// A file that is written.
struct Copy<'a> {
    to: &'a mut dyn Disk,
    name: &'a str,
    gathered: &'a mut Vec<u8>,
}

impl Copy<'_> {
    fn begin(&mut self, kind: Kind, store: u64) -> Result<(), LogError> {
        self.to.create(self.name).map_err(LogError::io("create", self.name))?;
        self.gathered.clear();
        self.gathered.extend_from_slice(kind.line(store).as_bytes());
        Ok(())
    }

    fn frame(&mut self, header: Header, body: &[u8]) -> Result<(), LogError> {
        self.gathered.extend_from_slice(&header.before(body));
        self.gathered.extend_from_slice(body);
        if self.gathered.len() >= SYNC_AFTER { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), LogError> {
        self.to.append(self.name, self.gathered).map_err(LogError::io("write", self.name))?;
        self.gathered.clear();
        self.to.sync(self.name).map_err(LogError::io("sync", self.name))
    }
}

fn given_up() -> LogError {
    LogError::Stopped("the backup was given up".to_owned())
}
