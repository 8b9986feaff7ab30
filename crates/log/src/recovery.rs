//! Reads a store again: the newest snapshot, and what the log says since (D7).
//!
//! Reading changes no file. What is at the end of the log and is not whole was never synced, so nobody was told of it: it is
//! reported as torn, and [`Writer::go_on`](crate::Writer::go_on) cuts it off. Anything else that is not as it was written is damage,
//! and nothing is read then.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use claret_core::{read_effects, read_records};
use claret_types::{Bytes, State};

use crate::backup::BACKUP_UNFINISHED;
use crate::disk::Disk;
use crate::entry::{Entry, Part, take_entry};
use crate::error::LogError;
use crate::format::{HEADER, Kind};
use crate::frames::Frames;
use crate::lives::Lives;
use crate::planted;
use crate::snapshot::{self, Begin, UNFINISHED};
use crate::writer::SEGMENT_BYTES_MAX;

/// Files that are beside those of the log: the one that is locked by who has the store open.
const BESIDE: &[&str] = &["lock", UNFINISHED, BACKUP_UNFINISHED];

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
}

/// Whether a file of this name may be one of a store's folder.
pub fn is_of_a_store(name: &str) -> bool {
    Kind::Log.position(name).or_else(|| Kind::Snapshot.position(name)).is_some() || BESIDE.contains(&name)
}

/// Reads a store; `None` if there is none yet. In memory in proportion to the records and to the largest group.
///
/// # Errors
/// See [`LogError`].
pub fn recover(
    disk: &mut dyn Disk,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<Recovered>, LogError> {
    let names = disk.list().map_err(LogError::io("list", "the folder"))?;
    let (mut segments, mut snapshots, mut unfinished) = (Vec::new(), Vec::new(), false);
    for name in names {
        match (Kind::Log.position(&name), Kind::Snapshot.position(&name)) {
            (Some(position), _) => segments.push(position),
            (_, Some(base)) => snapshots.push(base),
            _ if name == UNFINISHED => unfinished = true,
            _ if name == BACKUP_UNFINISHED && !planted::opens_unfinished_backups() => {
                return Err(LogError::Unfinished { file: name });
            }
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
    reader.read.leftover.extend(unfinished.then(|| UNFINISHED.to_owned()));
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
        let (store, begin) = snapshot::read(self.disk, name, |frame| {
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
        self.store = Some(store);
        (self.replay.begin, self.read.unique) = (begin, begin.unique);
        self.replay.synced = self.replay.synced.max(begin.base);
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
            match self.segment(&name, is_last)? {
                true => self.read.segments.push(segments[at]),
                false => self.read.leftover.push(name),
            }
        }
        Ok(())
    }

    /// Whether the file is part of the log: one that was just being made is not.
    fn segment(&mut self, name: &str, is_last: bool) -> Result<bool, LogError> {
        let mut frames = Frames::open(self.disk, name)?;
        if frames.len() > FILE_BYTES_MAX {
            let what = format!("it has {} bytes, and no file of a log is so long", frames.len());
            return Err(LogError::damaged(name, 0, what));
        }
        let Some((store, mut at)) = frames.line(self.disk, Kind::Log)? else {
            // Its line is synced before anything is behind it.
            return match is_last && frames.len() <= Kind::Log.line_len() as u64 {
                true => Ok(false),
                false => Err(LogError::damaged(name, 0, "its first line is not that of a log")),
            };
        };
        if *self.store.get_or_insert(store) != store {
            return Err(LogError::damaged(name, 0, "it is of another store"));
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
            if (!is_last || later || other.is_some()) && !planted::takes_damage_for_torn() {
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
            let damaged = |what: &str| LogError::damaged(name, at + HEADER as u64 + offset, what);
            let entry = take_entry(&mut rest).ok_or_else(|| damaged("an entry says nothing"))?;
            if let Entry::Unique { count } = entry {
                self.read.unique = self.read.unique.max(count);
            }
            if let Entry::Opened { life, at } = entry {
                self.read.lives.add(life, at);
            }
            self.replay.entry(self.read.position + offset, entry).map_err(|what| damaged(&what))?;
            self.said.entries += 1;
        }
        self.read.position += body.len() as u64;
        Ok(())
    }

    fn finish(mut self) -> Result<Option<Recovered>, LogError> {
        let Some(store) = self.store.filter(|_| !self.read.segments.is_empty()) else {
            return match self.read.snapshot {
                None => Ok(None),
                Some(base) => {
                    Err(LogError::damaged(&Kind::Log.name(base), 0, "the log from here on is missing"))
                }
            };
        };
        let end = self.read.position;
        // A snapshot has its name only when the log is synced that far.
        if end < self.replay.synced {
            let last = Kind::Log.name(self.read.segments.last().copied().unwrap_or_default());
            let what = format!("it ends at position {end}, and the snapshot is of {}", self.replay.synced);
            return Err(LogError::damaged(&last, self.read.last_len, what));
        }
        self.read.parts_at_end = self.replay.parts.keys().copied().collect();
        self.replay.finish(end).map_err(|what| LogError::damaged("log", end, what))?;
        let present = self.replay.records.into_iter().filter_map(|(key, (state, _))| Some((key, state?)));
        self.read.records = present.collect();
        (self.read.store, self.read.entries) = (store, self.said.entries);
        Ok(Some(self.read))
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
            if vanished.iter().any(|gone| **gone == *key) && !planted::carries_out_vanished() {
                continue;
            }
            let shown = key.clone();
            let (state, as_of) = self.records.entry(key).or_default();
            if position < *as_of && !planted::carries_out_snapshot_again() {
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
