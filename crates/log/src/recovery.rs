//! Reads a store again: the newest snapshot, and what the log says since (D7).
//!
//! Reading changes no file. What is at the end of the log and is not whole was never synced, so nobody was told of it: it is
//! reported as torn, and [`Writer::go_on`](crate::Writer::go_on) cuts it off. Anything else that is not as it was written is damage,
//! and nothing is read then, unless what is before it was asked for ([`recover_until_damage`]).

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use claret_core::{read_effects, read_records};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, State};

use crate::disk::Disk;
use crate::entry::{Entry, Part, take_entry};
use crate::error::LogError;
use crate::format::{HEADER, Kind, Line, MANIFEST_SINCE, SEGMENT_BYTES_MAX};
use crate::frames::Frames;
use crate::lives::Lives;
use crate::manifest::{MANIFEST, MANIFEST_UNFINISHED, Manifest};
use crate::names::{BACKUP_UNFINISHED, BESIDE};
use crate::snapshot::{self, Begin, UNFINISHED};

/// No file of a log is longer: what it may have before its last group, and that one at its longest.
const FILE_BYTES_MAX: u64 = SEGMENT_BYTES_MAX + 2 * (u32::MAX as u64 + HEADER as u64);

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
    /// Each time that it was opened.
    pub lives: Lives,
    /// The position of the snapshot, if there was one.
    pub snapshot: Option<u64>,
    /// What was cut off.
    pub torn: Option<Torn>,
    /// Parts of commits that took effect at the end of the log: by commit and shard.
    pub(crate) parts_at_end: Vec<(u64, u32)>,
    pub(crate) segments: Vec<u64>,
    /// How long the last file is without what was torn.
    pub(crate) last_len: u64,
    /// From this byte of it on nothing says that it was synced.
    pub(crate) unsynced_from: u64,
    /// Files that go.
    pub(crate) leftover: Vec<String>,
    /// What the manifest said. `None`: the store is of a format that had none.
    pub(crate) manifest: Option<Manifest>,
}

/// Reads a store; `None` if there is none yet. In memory in proportion to the records and to the largest group.
///
/// # Errors
/// See [`LogError`].
pub fn recover(
    disk: &mut dyn Disk,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Recovered>, LogError> {
    let mut reader = Reader::new(disk, progress, None);
    reader.read_files()?;
    if !reader.has_store()? {
        return Ok(None);
    }
    reader.is_long_enough()?;
    reader.carry_out_rest()?;
    Ok(Some(reader.put_together()))
}

/// What is left of a store that may be damaged.
#[derive(Debug)]
pub struct Salvaged {
    /// What was read before the first damage. Nothing goes on from here: it is for looking at.
    pub recovered: Recovered,
    /// The first damage.
    pub damage: Option<LogError>,
    /// Whether the records are those of one moment: the store as of [`Recovered::position`]. Otherwise the damage is in the snapshot, or
    /// before the place up to which the snapshot needs the log, and each record is as of a moment of its own.
    pub is_of_one_moment: bool,
}

/// Reads a store up to its first damage: all transactions before it, and none by half. `None` if there is no store yet.
///
/// # Errors
/// See [`LogError`]; damage is none of them, unless nothing can be read at all.
pub fn recover_until_damage(
    disk: &mut dyn Disk,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Salvaged>, LogError> {
    let mut until = Until::default();
    loop {
        let mut reader = Reader::new(&mut *disk, &mut *progress, Some(until));
        reader.read_files()?;
        let rest = reader.carry_out_rest();
        reader.unless_damaged(rest)?;
        match reader.until.as_mut().and_then(|until| until.half_done.take()) {
            // A transaction that could not be carried out as a whole: once more, up to it.
            Some(position) => {
                until = reader.until.take().unwrap_or_default();
                until.position = position;
            }
            None => return reader.salvage(),
        }
    }
}

/// Where reading stops that takes what is before the damage.
#[derive(Debug)]
struct Until {
    /// Entries from here on are not carried out.
    position: u64,
    /// The first damage.
    damage: Option<LogError>,
    /// The transaction here, which is before `position`, was carried out in part.
    half_done: Option<u64>,
    is_of_one_moment: bool,
}

impl Default for Until {
    fn default() -> Self {
        Until { position: u64::MAX, damage: None, half_done: None, is_of_one_moment: true }
    }
}

struct Reader<'a> {
    disk: &'a mut dyn Disk,
    progress: &'a mut dyn FnMut(Progress),
    said: Progress,
    store: Option<u64>,
    /// The latest format of a file.
    version: u32,
    /// Where the damage is to be passed over, but for what is behind it.
    until: Option<Until>,
    replay: Replay,
    read: Recovered,
}

impl<'a> Reader<'a> {
    fn new(disk: &'a mut dyn Disk, progress: &'a mut dyn FnMut(Progress), until: Option<Until>) -> Self {
        Reader {
            disk,
            progress,
            said: Progress::default(),
            store: None,
            version: 0,
            until,
            replay: Replay::default(),
            read: Recovered::default(),
        }
    }

    fn read_files(&mut self) -> Result<(), LogError> {
        let names = self.disk.list().map_err(LogError::io("list", "the folder"))?;
        let (mut segments, mut snapshots, mut has_manifest) = (Vec::new(), Vec::new(), false);
        for name in names {
            match (Kind::Log.position(&name), Kind::Snapshot.position(&name)) {
                (Some(position), _) => segments.push(position),
                (_, Some(base)) => snapshots.push(base),
                _ if name == UNFINISHED || name == MANIFEST_UNFINISHED => self.read.leftover.push(name),
                _ if name == MANIFEST => has_manifest = true,
                _ if name == BACKUP_UNFINISHED && !is_planted(Bug::UnfinishedBackupOpened) => {
                    return Err(LogError::Unfinished { file: name });
                }
                _ if BESIDE.contains(&&*name) => {}
                _ => return Err(LogError::Foreign { file: name }),
            }
        }
        segments.sort_unstable();
        snapshots.sort_unstable();
        if has_manifest {
            let read = Manifest::read(self.disk);
            self.read.manifest = self.unless_damaged(read)?;
            self.store = self.read.manifest.map(|manifest| manifest.store);
        }
        if let Some(base) = snapshots.pop() {
            let read = self.snapshot(&Kind::Snapshot.name(base));
            if self.unless_damaged(read)?.is_none() {
                // Some of its records were read, and the log does nothing to them.
                self.is_of_many_moments();
                return Ok(());
            }
            // Of a crash between its last step and their removal.
            self.read.leftover.extend(snapshots.iter().map(|base| Kind::Snapshot.name(*base)));
        }
        let read = self.log(segments);
        self.unless_damaged(read).map(drop)
    }

    /// Goes on without what is damaged, if that is wanted.
    fn unless_damaged<T>(&mut self, read: Result<T, LogError>) -> Result<Option<T>, LogError> {
        match (read, &mut self.until) {
            (Ok(read), _) => Ok(Some(read)),
            (Err(error @ LogError::Damaged { .. }), Some(until)) => {
                until.damage.get_or_insert(error);
                Ok(None)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn is_of_many_moments(&mut self) {
        self.until.iter_mut().for_each(|until| until.is_of_one_moment = false);
    }

    /// A transaction was carried out in part.
    fn is_half_done(&mut self, position: u64) {
        self.until.iter_mut().for_each(|until| until.half_done = Some(position));
    }

    fn snapshot(&mut self, name: &str) -> Result<(), LogError> {
        let (replay, said) = (&mut self.replay, &mut self.said);
        said.of = self.disk.len(name).map_err(LogError::io("read", name))?;
        let (line, begin) = snapshot::read(self.disk, name, |frame| {
            if !frame.has_records() {
                return Ok(());
            }
            let (at, as_of) = (frame.at, frame.header.position);
            for record in read_records(frame.body) {
                let (key, state) = record.map_err(|error| LogError::damaged(name, at, error.to_string()))?;
                replay.records.insert(key, (state, as_of));
            }
            replay.synced = replay.synced.max(as_of);
            said.bytes = at + frame.body.len() as u64;
            (self.progress)(*said);
            Ok(())
        })?;
        self.is_of(name, line)?;
        (self.replay.begin, self.read.unique) = (begin, begin.unique);
        self.replay.synced = self.replay.synced.max(begin.base);
        self.read.snapshot = Some(begin.base);
        Ok(())
    }

    /// Whether a file is of the same store as the others.
    fn is_of(&mut self, name: &str, line: Line) -> Result<(), LogError> {
        self.version = self.version.max(line.version);
        match *self.store.get_or_insert(line.store) == line.store {
            true => Ok(()),
            false => Err(LogError::damaged(name, 0, "it is of another store")),
        }
    }
}

/// The log behind a snapshot.
impl<'a> Reader<'a> {
    fn log(&mut self, mut segments: Vec<u64>) -> Result<(), LogError> {
        if let Some(manifest) = self.read.manifest
            && !segments.contains(&manifest.newest)
            && !is_planted(Bug::NewestFileNotMissed)
        {
            let what = "it is missing, and the manifest names it as the newest file of the log";
            let missing = Err(LogError::damaged(&Kind::Log.name(manifest.newest), 0, what));
            self.unless_damaged::<()>(missing)?;
        }
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
        for begin in &segments {
            let name = Kind::Log.name(*begin);
            self.said.of += self.disk.len(&name).map_err(LogError::io("read", &name))?;
        }
        for at in 0..segments.len() {
            let (name, is_last) = (Kind::Log.name(segments[at]), at + 1 == segments.len());
            if self.read.position != segments[at] {
                let what = format!("the log before it ends at {:016x}", self.read.position);
                return Err(LogError::damaged(&name, 0, what));
            }
            match self.segment(segments[at], is_last)? {
                true => self.read.segments.push(segments[at]),
                false => self.read.leftover.push(name),
            }
        }
        Ok(())
    }

    /// Whether the file is part of the log: one that was just being made is not.
    fn segment(&mut self, begin: u64, is_last: bool) -> Result<bool, LogError> {
        let name = &*Kind::Log.name(begin);
        let mut frames = Frames::open(self.disk, name)?;
        if frames.len() > FILE_BYTES_MAX {
            let what = format!("it has {} bytes, and no file of a log is so long", frames.len());
            return Err(LogError::damaged(name, 0, what));
        }
        // Its line is synced before the manifest names it, and that before anything is behind the line.
        let is_named = self.read.manifest.is_some_and(|manifest| begin <= manifest.newest);
        let Some(line) = frames.line(self.disk, Kind::Log)? else {
            return match is_last && !is_named && frames.may_be_new(Kind::Log) {
                true => Ok(false),
                false => Err(LogError::damaged(name, 0, "its first line is not that of a log")),
            };
        };
        self.is_of(name, line)?;
        let (store, mut at) = (line.store, line.len);
        if self.read.manifest.is_some() && !is_named && frames.len() > at {
            let what = format!("it does not name '{name}', which has entries");
            let old = Err(LogError::damaged(MANIFEST, 0, what));
            self.unless_damaged::<()>(old)?;
        }
        // Behind the last entry: marks are of no position of their own, and nobody says of them that they were synced.
        let mut behind = at;
        self.read.unsynced_from = behind;
        while let Some((header, body)) = frames.frame(self.disk, at)?
            && (header.store, header.position) == (store, self.read.position)
        {
            self.group(name, at, body)?;
            let len = header.frame_len(body);
            at += len;
            if header.synced >= header.position {
                self.read.unsynced_from = behind;
            }
            if !body.is_empty() {
                behind = at;
            }
            self.said.bytes += len;
            (self.progress)(self.said);
        }
        if at < frames.len() {
            let later = frames.says_synced(self.disk, at, store, self.read.position)?;
            let other = frames.frame(self.disk, at)?.map(|(header, _)| header.position);
            if (!is_last || later || other.is_some()) && !is_planted(Bug::DamageTakenForTorn) {
                let what = match other {
                    Some(position) => format!("a group of position {position} is here"),
                    None => "a checksum is wrong".to_owned(),
                };
                return Err(LogError::damaged(name, at, what));
            }
            self.read.torn = Some(Torn { file: name.to_owned(), at, bytes: frames.len() - at });
        }
        self.read.last_len = at;
        Ok(true)
    }

    /// Carries a group out.
    fn group(&mut self, name: &str, at: u64, body: &[u8]) -> Result<(), LogError> {
        let mut rest = body;
        while !rest.is_empty() {
            let offset = (body.len() - rest.len()) as u64;
            let position = self.read.position + offset;
            let damaged = |what: &str| LogError::damaged(name, at + HEADER as u64 + offset, what);
            let is_behind = self.until.as_ref().is_some_and(|until| position >= until.position);
            let entry = match take_entry(&mut rest) {
                Some(entry) if !is_behind => entry,
                _ => {
                    self.read.position = position;
                    return Err(damaged("an entry says nothing"));
                }
            };
            if let Entry::Unique { count } = entry {
                self.read.unique = self.read.unique.max(count);
            }
            if let Entry::Opened { life, at } = entry {
                self.read.lives.add(life, at);
            }
            if let Err(what) = self.replay.entry(position, entry) {
                self.is_half_done(position);
                return Err(damaged(&what));
            }
            self.said.entries += 1;
        }
        self.read.position += body.len() as u64;
        Ok(())
    }

    /// Whether there is a store, with all files that it needs.
    fn has_store(&self) -> Result<bool, LogError> {
        if self.store.is_none() || self.read.segments.is_empty() {
            return match self.read.snapshot {
                None => Ok(false),
                Some(base) => {
                    Err(LogError::damaged(&Kind::Log.name(base), 0, "the log from here on is missing"))
                }
            };
        }
        if self.read.manifest.is_some() || self.version < MANIFEST_SINCE {
            return Ok(true);
        }
        // Nothing is behind the first line of a log before there is a manifest.
        let is_being_made = self.read.snapshot.is_none()
            && self.read.segments == [0]
            && self.read.last_len == Kind::Log.line_len() as u64
            && self.read.torn.is_none();
        if is_being_made { Ok(false) } else { Err(LogError::damaged(MANIFEST, 0, "it is missing")) }
    }

    fn last_name(&self) -> String {
        Kind::Log.name(self.read.segments.last().copied().unwrap_or_default())
    }

    /// Whether the log reaches as far as others say that it does.
    fn is_long_enough(&self) -> Result<(), LogError> {
        let end = self.read.position;
        let too_short = |says: &str, synced: u64| {
            let what = format!("it ends at position {end}, and {says} {synced}");
            Err(LogError::damaged(&self.last_name(), self.read.last_len, what))
        };
        match self.read.manifest {
            // A snapshot has its name only when the log is synced that far.
            _ if end < self.replay.synced => too_short("the snapshot is of", self.replay.synced),
            Some(manifest) if end < manifest.synced && !is_planted(Bug::NewestFileNotMissed) => {
                too_short("the manifest says that it was synced up to", manifest.synced)
            }
            _ => Ok(()),
        }
    }

    /// Parts whose turn had not come when the log ended.
    fn carry_out_rest(&mut self) -> Result<(), LogError> {
        let end = self.read.position;
        self.read.parts_at_end = self.replay.parts.keys().copied().collect();
        self.replay.finish(end).map_err(|(commit, what)| {
            self.is_half_done(commit);
            let what =
                format!("what is left of the commit at position {commit} takes place here, and {what}");
            LogError::damaged(&self.last_name(), self.read.last_len, what)
        })
    }

    /// What was read, as far as it goes.
    fn salvage(mut self) -> Result<Option<Salvaged>, LogError> {
        if self.read.position < self.replay.synced {
            self.is_of_many_moments();
        }
        let has_store = self.has_store().and_then(|has| if has { self.is_long_enough() } else { Ok(()) });
        self.unless_damaged(has_store)?;
        let has_some = !self.replay.records.is_empty() || !self.read.segments.is_empty();
        let Until { damage, is_of_one_moment, .. } = self.until.take().unwrap_or_default();
        match damage {
            Some(damage) if !has_some => Err(damage),
            None if !has_some => Ok(None),
            damage => Ok(Some(Salvaged { recovered: self.put_together(), damage, is_of_one_moment })),
        }
    }

    fn put_together(mut self) -> Recovered {
        let present = self.replay.records.into_iter().filter_map(|(key, (state, _))| Some((key, state?)));
        self.read.records = present.collect();
        (self.read.store, self.read.entries) = (self.store.unwrap_or_default(), self.said.entries);
        self.read
    }
}

/// Records as they become.
#[derive(Default)]
struct Replay {
    begin: Begin,
    /// Up to here the log was synced when the snapshot was whole.
    synced: u64,
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
            Entry::Unique { .. } | Entry::Opened { .. } => Ok(()),
        }
    }

    /// Parts whose turn had not come when the store ended: nobody could see their records since. An error says which commit cannot be
    /// carried out.
    fn finish(&mut self, end: u64) -> Result<(), (u64, String)> {
        for ((commit, _), part) in std::mem::take(&mut self.parts) {
            self.carry_out(end, &part.effects, &part.vanished).map_err(|what| (commit, what))?;
        }
        Ok(())
    }

    fn carry_out(&mut self, position: u64, effects: &[u8], vanished: &[Vec<u8>]) -> Result<(), String> {
        if position < self.begin.base {
            return Ok(());
        }
        for effect in read_effects(effects) {
            let (key, effect) = effect.map_err(|error| error.to_string())?;
            if vanished.iter().any(|gone| **gone == *key) && !is_planted(Bug::VanishedCarriedOut) {
                continue;
            }
            let shown = key.clone();
            let (state, as_of) = self.records.entry(key).or_default();
            if position < *as_of && !is_planted(Bug::SnapshotCarriedOutAgain) {
                continue;
            }
            let apply = || drop(effect.apply(state));
            catch_unwind(AssertUnwindSafe(apply))
                .map_err(|_| format!("an effect does not fit the record of key '{shown}'"))?;
        }
        Ok(())
    }
}

/// What is read is what somebody wrote, with a right checksum, and may be anything: reading it ends, in an error or in records.
#[cfg(test)]
mod tests {
    use claret_core::write_effect;
    use claret_types::{
        Counter, CounterEffect, Effect, End, List, ListEffect, Register, RegisterEffect, Text, few,
    };

    use super::*;
    use crate::disk::Folder;
    use crate::entry::{put_applied, put_commit, put_unique, put_vanished};
    use crate::format::Header;

    const STORE: u64 = 7;

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }
    }

    /// Bytes that a journal may have written.
    fn effects() -> Vec<u8> {
        let mut bytes = Vec::new();
        write_effect(&mut bytes, &"counter".into(), &Effect::new::<Counter>(CounterEffect::Add(5)));
        let push = ListEffect::Push(End::Back, few(["a".into()]));
        write_effect(&mut bytes, &"list".into(), &Effect::new::<List>(push));
        let replace = RegisterEffect::Replace(Text::Int(3));
        write_effect(&mut bytes, &"text".into(), &Effect::new::<Register>(replace));
        bytes
    }

    fn body() -> Vec<u8> {
        let effects = effects();
        let mut body = Vec::new();
        put_commit(&mut body, &effects, std::iter::empty());
        let commit = body.len() as u64;
        let part = Part { shard: 1, effects: &effects, vanished: vec![b"list"] };
        put_commit(&mut body, &[], std::iter::once(part));
        put_applied(&mut body, commit, 1);
        put_vanished(&mut body, 1, b"text");
        put_unique(&mut body, 9);
        body
    }

    /// A transaction whose second effect does not fit: what is salvaged has nothing of it, and the error says where it stands.
    #[test]
    fn a_transaction_that_does_not_fit_is_left_out_as_a_whole() {
        let path = std::env::temp_dir().join(format!("claret-log-half-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let add = |bytes: &mut Vec<u8>, key: &str| {
            write_effect(bytes, &key.into(), &Effect::new::<Counter>(CounterEffect::Add(5)));
        };
        let (first, mut second) = (effects(), Vec::new());
        add(&mut second, "counter");
        add(&mut second, "list");
        for in_parts in [false, true] {
            let mut body = Vec::new();
            put_commit(&mut body, &first, std::iter::empty());
            let commit = body.len();
            match in_parts {
                false => put_commit(&mut body, &second, std::iter::empty()),
                true => {
                    // One part takes place with the commit's entry, and another at the log's end.
                    let (mut done, mut part) = (Vec::new(), Vec::new());
                    add(&mut done, "counter");
                    add(&mut part, "list");
                    let part = Part { shard: 1, effects: &part, vanished: Vec::new() };
                    put_commit(&mut body, &done, std::iter::once(part));
                }
            }
            put_unique(&mut body, 9);
            let header = Header { store: STORE, position: 0, synced: 0 }.before(&body);
            let name = Kind::Log.name(0);
            let line = Kind::Log.line(STORE);
            std::fs::write(path.join(&name), [line.as_bytes(), &header, &body].concat())
                .expect("it is written");
            Manifest { store: STORE, newest: 0, synced: 0 }
                .put(&mut Folder::new(&path))
                .expect("it is written");
            let error = recover(&mut Folder::new(&path), &mut |_| {}).expect_err("it does not fit");
            let LogError::Damaged { file, at, what } = error else { panic!("{error}") };
            assert_eq!(file, name);
            assert!(what.contains("does not fit the record of key 'list'"), "{what}");
            match in_parts {
                false => assert_eq!(at, (line.len() + HEADER + commit) as u64),
                true => assert!(what.contains(&format!("the commit at position {commit} ")), "{what}"),
            }
            let salvaged = recover_until_damage(&mut Folder::new(&path), &mut |_| {});
            let salvaged = salvaged.expect("it is read").expect("there is a store");
            assert!(salvaged.is_of_one_moment && salvaged.damage.is_some());
            assert_eq!(salvaged.recovered.position, commit as u64);
            let mut expected = HashMap::new();
            for effect in read_effects(&first) {
                let (key, effect) = effect.expect("it was written");
                drop(effect.apply(expected.entry(key).or_default()));
            }
            let expected = expected.into_iter().filter_map(|(key, state)| Some((key, state?))).collect();
            assert_eq!(salvaged.recovered.records, expected);
        }
        std::fs::remove_dir_all(&path).expect("it is removed");
    }

    #[test]
    fn bytes_with_a_right_checksum_may_be_anything() {
        let path = std::env::temp_dir().join(format!("claret-log-any-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let mut random = Random(1);
        let (mut damaged, mut read) = (0, 0);
        for _ in 0..1_000 {
            let mut body = body();
            for _ in 0..random.below(6) {
                let at = random.below(body.len());
                match random.below(3) {
                    0 => body[at] = random.below(256) as u8,
                    1 => drop(body.remove(at)),
                    _ => body.insert(at, [0xff, 0x80, 0, 1][random.below(4)]),
                }
            }
            let header = Header { store: STORE, position: 0, synced: 0 }.before(&body);
            let file = [Kind::Log.line(STORE).as_bytes(), &header, &body].concat();
            std::fs::write(path.join(Kind::Log.name(0)), file).expect("it is written");
            let mut folder = Folder::new(&path);
            Manifest { store: STORE, newest: 0, synced: 0 }.put(&mut folder).expect("it is written");
            match recover_until_damage(&mut folder, &mut |_| {}) {
                Ok(salvaged) => {
                    assert!(salvaged.is_some_and(|it| it.is_of_one_moment), "whatever stands there");
                }
                // Nothing is before it.
                Err(error) => assert!(matches!(error, LogError::Damaged { .. }), "{error}"),
            }
            match recover(&mut Folder::new(&path), &mut |_| {}) {
                Ok(Some(_)) => read += 1,
                Ok(None) => panic!("there is a store"),
                Err(LogError::Damaged { .. }) => damaged += 1,
                Err(error) => panic!("{error}"),
            }
        }
        std::fs::remove_dir_all(&path).expect("it is removed");
        assert!(damaged > 100 && read > 100, "{damaged} damaged, {read} read");
    }
}
