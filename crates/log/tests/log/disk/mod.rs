//! A folder in memory that keeps what it says it has synced, and of the rest whatever it likes.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use claret_log::Disk;

use crate::host::Random;

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What stays.
    synced: Vec<u8>,
    /// What the system takes for written since a sync of it failed, and is not.
    doubtful: Range<usize>,
}

#[derive(Debug, Default)]
struct Folder {
    /// By number: a file keeps it under another name.
    files: BTreeMap<u64, Content>,
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    next: u64,
    /// So many bytes may still be written.
    room: Option<usize>,
    /// The next sync of a file fails.
    fails: bool,
}

/// See the module's text. Clones are the same folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct LyingDisk(Arc<Mutex<Folder>>);

/// A disk of its own, with the same files.
#[derive(Debug)]
pub(crate) struct Copied(LyingDisk);

/// What is written in one piece.
const PAGE: usize = 64;

impl LyingDisk {
    fn with<T>(&self, work: impl FnOnce(&mut Folder) -> T) -> T {
        work(&mut self.0.lock().expect("nobody panics with it"))
    }

    fn at<T>(&self, name: &str, work: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        self.with(|folder| {
            let number = folder.names.get(name).copied().ok_or(ErrorKind::NotFound)?;
            Ok(work(folder.files.get_mut(&number).expect("it has a name")))
        })
    }

    /// So many bytes may still be written.
    pub(crate) fn set_room(&self, room: Option<usize>) {
        self.with(|folder| folder.room = room);
    }

    /// The next sync of a file fails: its pages count as written after that, and are not.
    pub(crate) fn fail_next_sync(&self) {
        self.with(|folder| folder.fails = true);
    }

    /// The power goes. Of what was not synced each page is as it was written, as it was before, or zero; a file that was not
    /// synced may end anywhere; and names are those of the last sync, or later ones.
    pub(crate) fn crash(&self, random: &mut Random) {
        self.with(|folder| {
            folder.room = None;
            if random.below(2) == 0 {
                folder.names = folder.synced_names.clone();
            }
            folder.synced_names = folder.names.clone();
            for content in folder.files.values_mut() {
                let (synced, written) = (content.synced.clone(), std::mem::take(&mut content.bytes));
                let mut kept = synced.clone();
                let end = match random.below(3) {
                    0 => written.len(),
                    _ => {
                        synced.len()
                            + random.below((written.len().saturating_sub(synced.len()) + 1) as u64) as usize
                    }
                };
                kept.resize(end.max(synced.len()), 0);
                for page in (synced.len() / PAGE)..kept.len().div_ceil(PAGE) {
                    if random.below(4) > 0 {
                        let from = (page * PAGE).max(synced.len());
                        let to = ((page + 1) * PAGE).min(kept.len()).min(written.len());
                        if from < to {
                            kept[from..to].copy_from_slice(&written[from..to]);
                        }
                    }
                }
                *content = Content { bytes: kept.clone(), synced: kept, doubtful: 0..0 };
            }
        });
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.with(|folder| folder.names.keys().cloned().collect())
    }

    /// The names of the log's files, in their order.
    pub(crate) fn logs(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.starts_with("log-")).collect()
    }

    /// The files become those that the first format had.
    pub(crate) fn make_first_format(&mut self) {
        self.remove("manifest").expect("it is there");
        for name in self.names() {
            self.at(&name, |content| {
                let end = content.bytes.iter().position(|byte| *byte == b'\n').expect("a line");
                let line = std::str::from_utf8(&content.bytes[..end]).expect("text");
                let mut words: Vec<&str> = line.split(' ').collect();
                assert_eq!((words[2], words.len()), ("2", 5), "{line}");
                (words[2], _) = ("1", words.pop());
                let says = words.join(" ");
                let first = format!("{says} {:08x}", crc32fast::hash(says.as_bytes()));
                content.bytes.splice(..end, first.into_bytes());
            })
            .expect("it is there");
        }
        self.with(|folder| folder.files.values_mut().for_each(|it| it.synced.clone_from(&it.bytes)));
        self.sync_names().expect("it does not fail");
    }

    /// Every byte of every file.
    pub(crate) fn places(&self) -> Vec<(String, usize)> {
        self.with(|folder| {
            let files = folder.names.iter().map(|(name, number)| (name, folder.files[number].bytes.len()));
            files.flat_map(|(name, len)| (0..len).map(|at| (name.clone(), at))).collect()
        })
    }

    /// The same files on another disk.
    pub(crate) fn copy(&self) -> Copied {
        let copy = LyingDisk::default();
        self.with(|folder| {
            copy.with(|other| {
                (other.files, other.names) = (folder.files.clone(), folder.names.clone());
                (other.synced_names, other.next) = (folder.synced_names.clone(), folder.next);
            });
        });
        Copied(copy)
    }
}

impl Copied {
    /// A file is gone.
    pub(crate) fn lose(&mut self, name: &str) {
        self.remove(name).expect("it is there");
    }

    /// Nothing is left in a file.
    pub(crate) fn empty(&mut self, name: &str) {
        self.truncate(name, 0).expect("it is there");
    }

    /// Whether something is behind a file's first line.
    pub(crate) fn has_entries(&self, name: &str) -> bool {
        let has_some = |content: &mut Content| {
            content
                .bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .is_some_and(|end| end + 1 < content.bytes.len())
        };
        self.0.at(name, has_some).expect("it is there")
    }

    /// Changes bits of a byte.
    pub(crate) fn flip(&mut self, name: &str, at: usize, bits: u8) {
        self.0.at(name, |content| content.bytes[at] ^= bits).expect("it is there");
    }
}

impl Disk for LyingDisk {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.with(|folder| folder.names.keys().cloned().collect()))
    }

    fn len(&mut self, name: &str) -> io::Result<u64> {
        self.at(name, |content| content.bytes.len() as u64)
    }

    fn read(&mut self, name: &str, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.at(name, |content| {
            let rest = content.bytes.get(at as usize..).unwrap_or_default();
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            count
        })
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.with(|folder| {
            if folder.names.contains_key(name) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            folder.next += 1;
            folder.files.insert(folder.next, Content::default());
            folder.names.insert(name.to_owned(), folder.next);
            Ok(())
        })
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let room = self.with(|folder| folder.room);
        let count = room.unwrap_or(usize::MAX).min(bytes.len());
        self.with(|folder| folder.room = room.map(|room| room - count));
        self.at(name, |content| content.bytes.extend_from_slice(&bytes[..count]))?;
        if count < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn write_again(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.at(name, |content| {
            let again = at as usize..at as usize + bytes.len();
            assert_eq!(content.bytes[again.clone()], *bytes);
            if again.start <= content.doubtful.start && content.doubtful.end <= again.end {
                content.doubtful = 0..0;
            }
        })
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.at(name, |content| {
            content.bytes.truncate(len as usize);
            content.doubtful.end = content.doubtful.end.min(len as usize).max(content.doubtful.start);
        })
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let fails = self.with(|folder| std::mem::take(&mut folder.fails));
        self.at(name, |content| {
            if fails {
                content.doubtful = content.synced.len()..content.bytes.len();
                return Err(ErrorKind::Other.into());
            }
            content.synced.clone_from(&content.bytes);
            content.synced[content.doubtful.clone()].fill(0);
            Ok(())
        })?
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.with(|folder| folder.synced_names.clone_from(&folder.names));
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.with(|folder| {
            let number = folder.names.remove(from).ok_or(ErrorKind::NotFound)?;
            folder.names.insert(to.to_owned(), number);
            Ok(())
        })
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.with(|folder| folder.names.remove(name).map(drop).ok_or_else(|| ErrorKind::NotFound.into()))
    }
}

macro_rules! hand_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Disk for Copied {
            $(fn $name(&mut self, $($argument: $type),*) -> io::Result<$answer> {
                self.0.$name($($argument),*)
            })*
        }
    };
}

hand_on! {
    list() -> Vec<String>;
    len(name: &str) -> u64;
    read(name: &str, at: u64, into: &mut [u8]) -> usize;
    create(name: &str) -> ();
    append(name: &str, bytes: &[u8]) -> ();
    write_again(name: &str, at: u64, bytes: &[u8]) -> ();
    truncate(name: &str, len: u64) -> ();
    sync(name: &str) -> ();
    sync_names() -> ();
    rename(from: &str, to: &str) -> ();
    remove(name: &str) -> ();
}
