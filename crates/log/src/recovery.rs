//! Reads a store again: the newest snapshot, and what the log says since (D7).
//!
//! Reading changes no file. What is at the end of the log and is not whole was never synced, so nobody was told of it: it is
//! reported as torn, and [`Writer::go_on`](crate::Writer::go_on) cuts it off. Anything else that is not as it was written is damage,
//! and nothing is read then.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use claret_core::{read_effects, read_records};
use claret_types::{Bytes, State};

use crate::disk::Disk;
use crate::entry::{Entry, Part, take_entry};
use crate::error::LogError;
use crate::format::{HEADER, Header, Kind, read_frame};
use crate::snapshot::{self, Begin, UNFINISHED};

/// Files that are beside those of the log: the one that is locked by who has the store open.
const BESIDE: &[&str] = &["lock", UNFINISHED];

/// How far reading is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were read.
    pub bytes: u64,
    /// Of so many.
    pub of: u64,
    /// Entries of the log that were carried out.
    pub entries: u64,
}

/// What was cut off in the middle when the store ended, and never synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub file: String,
    /// From this byte on.
    pub at: u64,
    /// So many bytes.
    pub bytes: u64,
}

/// A store as it was read.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Its identity.
    pub store: u64,
    /// All records.
    pub records: HashMap<Bytes, State>,
    /// Where the log ends.
    pub position: u64,
    /// Unique numbers were given up to this count.
    pub unique: u64,
    /// Entries of the log that were carried out.
    pub entries: u64,
    /// The position of the snapshot, if there was one.
    pub snapshot: Option<u64>,
    /// What was cut off.
    pub torn: Option<Torn>,
    /// Parts of commits that took effect at the end of the log: by commit and shard.
    pub(crate) parts_at_end: Vec<(u64, u32)>,
    pub(crate) segments: Vec<u64>,
    /// How long the last file is without what was torn.
    pub(crate) last_len: u64,
    /// Files that go.
    pub(crate) leftover: Vec<String>,
}

/// Whether a file of this name may be one of a store's folder.
pub fn is_of_a_store(name: &str) -> bool {
    Kind::Log.position(name).or_else(|| Kind::Snapshot.position(name)).is_some() || BESIDE.contains(&name)
}

/// Reads a store; `None` if there is none yet. In memory in proportion to the records and to one file of the log.
///
/// # Errors
/// See [`LogError`].
pub fn recover(
    disk: &mut dyn Disk,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Recovered>, LogError> {
    let names = disk.list().map_err(LogError::io("list", "the folder"))?;
    let (mut segments, mut snapshots) = (Vec::new(), Vec::new());
    for name in names {
        match (Kind::Log.position(&name), Kind::Snapshot.position(&name)) {
            (Some(position), _) => segments.push(position),
            (_, Some(base)) => snapshots.push(base),
            _ if BESIDE.contains(&&*name) => {}
            _ => return Err(LogError::Foreign { file: name }),
        }
    }
    segments.sort_unstable();
    snapshots.sort_unstable();
    let mut reader = Reader {
        disk,
        progress,
        said: Progress::default(),
        store: None,
        replay: Replay::default(),
        read: Recovered::default(),
    };
    if let Some(base) = snapshots.pop() {
        reader.snapshot(&Kind::Snapshot.name(base))?;
        // Of a crash between its last step and their removal.
        reader.read.leftover.extend(snapshots.iter().map(|base| Kind::Snapshot.name(*base)));
    }
    reader.log(segments)?;
    reader.finish()
}

struct Reader<'a> {
    disk: &'a mut dyn Disk,
    progress: &'a mut dyn FnMut(Progress),
    said: Progress,
    store: Option<u64>,
    replay: Replay,
    read: Recovered,
}

impl Reader<'_> {
    fn snapshot(&mut self, name: &str) -> Result<(), LogError> {
        let (replay, said) = (&mut self.replay, &mut self.said);
        said.of = self.disk.len(name).map_err(LogError::io("read", name))?;
        let (store, begin) = snapshot::read(self.disk, name, |at, as_of, body| {
            for record in read_records(body) {
                let (key, state) = record.map_err(|error| LogError::damaged(name, at, error.to_string()))?;
                replay.records.insert(key, (state, as_of));
            }
            said.bytes = at + body.len() as u64;
            (self.progress)(*said);
            Ok(())
        })?;
        self.store = Some(store);
        (self.replay.begin, self.read.unique) = (begin, begin.unique);
        self.read.snapshot = Some(begin.base);
        Ok(())
    }

    fn log(&mut self, mut segments: Vec<u64>) -> Result<(), LogError> {
        let from = self.replay.begin.log_from;
        // Those before were not yet removed.
        let needed = segments.iter().rposition(|begin| *begin <= from);
        let unneeded = segments.drain(..needed.unwrap_or(0));
        self.read.leftover.extend(unneeded.map(|begin| Kind::Log.name(begin)));
        let is_missing = segments.first().map_or(self.store.is_some(), |first| *first > from);
        if is_missing {
            return Err(LogError::damaged(&Kind::Log.name(from), 0, "the log from here on is missing"));
        }
        self.read.position = segments.first().copied().unwrap_or(0);
        for at in 0..segments.len() {
            let (name, is_last) = (Kind::Log.name(segments[at]), at + 1 == segments.len());
            if self.read.position != segments[at] {
                let what = format!("the log before it ends at {:016x}", self.read.position);
                return Err(LogError::damaged(&name, 0, what));
            }
            match self.segment(&name, is_last)? {
                true => self.read.segments.push(segments[at]),
                false => self.read.leftover.push(name),
            }
        }
        Ok(())
    }

    /// Whether the file is part of the log: one that was just being made is not.
    fn segment(&mut self, name: &str, is_last: bool) -> Result<bool, LogError> {
        let len = self.disk.len(name).map_err(LogError::io("read", name))?;
        let mut bytes = vec![0; len as usize];
        let read = self.disk.read(name, 0, &mut bytes).map_err(LogError::io("read", name))?;
        bytes.truncate(read);
        self.said.of += read as u64;
        let Some((store, mut at)) = Kind::Log.read_line(name, &bytes)? else {
            return match is_last && synced_after(&bytes, self.store, self.read.position).is_none() {
                true => Ok(false),
                false => Err(LogError::damaged(name, 0, "its first line is not whole")),
            };
        };
        if *self.store.get_or_insert(store) != store {
            return Err(LogError::Foreign { file: name.to_owned() });
        }
        while let Some((header, body)) = read_frame(&bytes[at..])
            && (header.store, header.position) == (store, self.read.position)
        {
            self.group(name, at as u64, body)?;
            at += HEADER + body.len();
            self.said.bytes += (HEADER + body.len()) as u64;
            (self.progress)(self.said);
        }
        if at < bytes.len() {
            let later = synced_after(&bytes[at..], Some(store), self.read.position);
            if !is_last || later.is_some() {
                let what = match read_frame(&bytes[at..]) {
                    Some((Header { position, .. }, _)) => format!("a group of position {position} is here"),
                    None => "a checksum is wrong".to_owned(),
                };
                return Err(LogError::damaged(name, at as u64, what));
            }
            let (file, bytes) = (name.to_owned(), (bytes.len() - at) as u64);
            self.read.torn = Some(Torn { file, at: at as u64, bytes });
        }
        self.read.last_len = at as u64;
        Ok(true)
    }

    /// Carries a group out.
    fn group(&mut self, name: &str, at: u64, body: &[u8]) -> Result<(), LogError> {
        let mut rest = body;
        while !rest.is_empty() {
            let offset = (body.len() - rest.len()) as u64;
            let damaged = |what: &str| LogError::damaged(name, at + HEADER as u64 + offset, what);
            let entry = take_entry(&mut rest).ok_or_else(|| damaged("an entry says nothing"))?;
            if let Entry::Unique { count } = entry {
                self.read.unique = self.read.unique.max(count);
            }
            self.replay.entry(self.read.position + offset, entry).map_err(|what| damaged(&what))?;
            self.said.entries += 1;
        }
        self.read.position += body.len() as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<Option<Recovered>, LogError> {
        let Some(store) = self.store.filter(|_| !self.read.segments.is_empty()) else { return Ok(None) };
        let end = self.read.position;
        self.read.parts_at_end = self.replay.parts.keys().copied().collect();
        self.replay.finish(end).map_err(|what| LogError::damaged("log", end, what))?;
        let present = self.replay.records.into_iter().filter_map(|(key, (state, _))| Some((key, state?)));
        self.read.records = present.collect();
        (self.read.store, self.read.entries) = (store, self.said.entries);
        Ok(Some(self.read))
    }
}

/// Whether a frame in these bytes says that more was synced than this position, so that what is here was, too.
fn synced_after(bytes: &[u8], store: Option<u64>, position: u64) -> Option<u64> {
    let store = store?.to_le_bytes();
    let places = bytes.windows(HEADER).enumerate().filter(|(_, header)| header[8..16] == store);
    let headers = places.filter_map(|(at, _)| read_frame(&bytes[at..]).map(|(header, _)| header));
    headers.map(|header| header.synced).find(|synced| *synced > position)
}

/// Records as they become.
#[derive(Default)]
struct Replay {
    begin: Begin,
    /// Each as of a position: what took place before is in it.
    records: HashMap<Bytes, (Option<State>, u64)>,
    /// Parts that have not taken place, by the position of their commit and by shard.
    parts: BTreeMap<(u64, u32), Pending>,
}

/// A part.
struct Pending {
    effects: Vec<u8>,
    /// Records that it does nothing to.
    vanished: Vec<Vec<u8>>,
}

impl Replay {
    fn entry(&mut self, position: u64, entry: Entry<'_>) -> Result<(), String> {
        match entry {
            Entry::Commit { done, parts } => {
                for Part { shard, effects, vanished } in parts {
                    let vanished = vanished.into_iter().map(<[u8]>::to_vec).collect();
                    self.parts.insert((position, shard), Pending { effects: effects.to_vec(), vanished });
                }
                self.carry_out(position, done, &[])
            }
            Entry::Applied { commit, shard } => {
                match self.parts.remove(&(commit, shard)) {
                    Some(part) => self.carry_out(position, &part.effects, &part.vanished),
                    // The log begins behind its commit.
                    None if commit < self.begin.log_from => Ok(()),
                    None => Err(format!("a part took place of a commit that is not at {commit}")),
                }
            }
            Entry::Vanished { shard, key } => {
                let pending = self.parts.iter_mut().filter(|((_, of), _)| *of == shard);
                pending.for_each(|(_, part)| part.vanished.push(key.to_vec()));
                if position >= self.begin.base
                    && let Some((state, as_of)) = self.records.get_mut(key)
                    && position >= *as_of
                {
                    *state = None;
                }
                Ok(())
            }
            Entry::Unique { .. } => Ok(()),
        }
    }

    /// Parts whose turn had not come when the store ended: nobody could see their records since.
    fn finish(&mut self, end: u64) -> Result<(), String> {
        for (_, part) in std::mem::take(&mut self.parts) {
            self.carry_out(end, &part.effects, &part.vanished)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, position: u64, effects: &[u8], vanished: &[Vec<u8>]) -> Result<(), String> {
        if position < self.begin.base {
            return Ok(());
        }
        for effect in read_effects(effects) {
            let (key, effect) = effect.map_err(|error| error.to_string())?;
            if vanished.iter().any(|gone| **gone == *key) {
                continue;
            }
            let shown = key.clone();
            let (state, as_of) = self.records.entry(key).or_default();
            if position < *as_of {
                continue;
            }
            let apply = || drop(effect.apply(state));
            catch_unwind(AssertUnwindSafe(apply))
                .map_err(|_| format!("an effect does not fit the record of key '{shown}'"))?;
        }
        Ok(())
    }
}
