//! Where a log's files are: a folder, or what a simulator says is one.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::folder::private;

/// A folder of files that grow at their ends. What was written and not synced may be lost, in any part; so may a file's name.
pub trait Disk: Send {
    /// The names of all files.
    ///
    /// # Errors
    /// Those of the system, here and below.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// How long a file is.
    #[allow(missing_docs)]
    fn len(&mut self, name: &str) -> io::Result<u64>;

    /// Reads from a place on, until the buffer is full or the file ends: how many bytes.
    #[allow(missing_docs)]
    fn read(&mut self, name: &str, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Makes an empty file, which must not be there.
    #[allow(missing_docs)]
    fn create(&mut self, name: &str) -> io::Result<()>;

    /// Writes to a file's end. After an error some of it may be there.
    #[allow(missing_docs)]
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes bytes once more that are there already, so that the next sync writes them: after a sync that failed the system may
    /// take them for written.
    #[allow(missing_docs)]
    fn write_again(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file to this length.
    #[allow(missing_docs)]
    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()>;

    /// What was written to a file stays from here on.
    #[allow(missing_docs)]
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Which files there are stays from here on.
    #[allow(missing_docs)]
    fn sync_names(&mut self) -> io::Result<()>;

    /// Gives a file another name.
    #[allow(missing_docs)]
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    #[allow(missing_docs)]
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Files that were written to.
    open: HashMap<String, File>,
}

impl Folder {
    /// A folder that is there.
    pub fn new(path: &Path) -> Self {
        Folder { path: path.to_owned(), open: HashMap::new() }
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        if !self.open.contains_key(name) {
            let file = OpenOptions::new().append(true).open(self.path.join(name))?;
            self.open.insert(name.to_owned(), file);
        }
        Ok(self.open.get_mut(name).expect("just put there"))
    }
}

impl Disk for Folder {
    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn len(&mut self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path.join(name))?.len())
    }

    fn read(&mut self, name: &str, at: u64, into: &mut [u8]) -> io::Result<usize> {
        read_at(&mut File::open(self.path.join(name))?, at, into)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let file = private(OpenOptions::new().append(true).create_new(true)).open(self.path.join(name))?;
        self.open.insert(name.to_owned(), file);
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.file(name)?.write_all(bytes)
    }

    fn write_again(&mut self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.path.join(name))?;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    fn truncate(&mut self, name: &str, len: u64) -> io::Result<()> {
        self.file(name)?.set_len(len)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.file(name)?.sync_data()
    }

    fn sync_names(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.open.remove(from);
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.open.remove(name);
        fs::remove_file(self.path.join(name))
    }
}

/// Reads from a place on, until the buffer is full or the file ends: how many bytes.
fn read_at(file: &mut File, at: u64, mut into: &mut [u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(at))?;
    let wanted = into.len();
    while !into.is_empty() {
        match file.read(into) {
            Ok(0) => break,
            Ok(count) => into = &mut into[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(wanted - into.len())
}

/// Files of a folder that were all there at one moment, for reading: they stay readable whatever becomes of their names.
#[derive(Debug)]
pub(crate) struct Pinned {
    files: BTreeMap<String, File>,
}

/// Whoever has the store open removes files seldom: with each snapshot.
const PINS_MAX: usize = 1_000;

impl Pinned {
    /// Those whose names are wanted.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open(path: &Path, is_wanted: fn(&str) -> bool) -> io::Result<Self> {
        let mut folder = Folder::new(path);
        let mut names = || -> io::Result<Vec<String>> {
            Ok(folder.list()?.into_iter().filter(|name| is_wanted(name)).collect())
        };
        let mut before = names()?;
        for _ in 0..PINS_MAX {
            let files: io::Result<BTreeMap<String, File>> =
                before.iter().map(|name| Ok((name.clone(), File::open(path.join(name))?))).collect();
            let after = names()?;
            match files {
                Ok(files) if before == after => return Ok(Pinned { files }),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => before = after,
            }
        }
        Err(io::Error::other("its files change again and again"))
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        self.files.get_mut(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Pinned {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn len(&mut self, name: &str) -> io::Result<u64> {
        Ok(self.file(name)?.metadata()?.len())
    }

    fn read(&mut self, name: &str, at: u64, into: &mut [u8]) -> io::Result<usize> {
        read_at(self.file(name)?, at, into)
    }

    fn create(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn append(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn write_again(&mut self, _: &str, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn truncate(&mut self, _: &str, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
