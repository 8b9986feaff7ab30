//! The manifest: a small file that names the newest file of the log, and up to where the log was synced (D15).
//!
//! Without it a newest file that was removed or emptied could not be told from one that never was.

use std::io;

use crate::disk::Disk;
use crate::error::LogError;
use crate::format::{VERSION, sealed, unsealed};

/// What it is called.
pub(crate) const MANIFEST: &str = "manifest";

/// What the next one is called until it takes the place of the one before.
pub(crate) const MANIFEST_UNFINISHED: &str = "manifest.new";

/// It is no longer.
const BYTES_MAX: u64 = 128;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) store: u64,
    /// Where the newest file of the log begins. That one has its first line, and no later one has entries.
    pub(crate) newest: u64,
    /// Up to here the log was synced: it ends no earlier.
    pub(crate) synced: u64,
}

impl Manifest {
    /// Puts it in the place of the one before. It stays from the next sync of the folder on. After an error the one before is there.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn put(&self, disk: &mut dyn Disk) -> io::Result<()> {
        // Of an earlier try.
        if disk.list()?.iter().any(|name| name == MANIFEST_UNFINISHED) {
            disk.remove(MANIFEST_UNFINISHED)?;
        }
        let Manifest { store, newest, synced } = *self;
        let line = sealed(&format!("claret manifest {VERSION} {store:016x} {newest:016x} {synced:016x}"));
        let put = disk
            .create(MANIFEST_UNFINISHED)
            .and_then(|()| disk.append(MANIFEST_UNFINISHED, line.as_bytes()))
            .and_then(|()| disk.sync(MANIFEST_UNFINISHED))
            .and_then(|()| disk.rename(MANIFEST_UNFINISHED, MANIFEST));
        if put.is_err() {
            let _ = disk.remove(MANIFEST_UNFINISHED); // It takes room, and is in nobody's way.
        }
        put
    }

    /// Reads it.
    ///
    /// # Errors
    /// See [`LogError`].
    pub(crate) fn read(disk: &mut dyn Disk) -> Result<Self, LogError> {
        let len = disk.len(MANIFEST).map_err(LogError::io("read", MANIFEST))?;
        let mut bytes = vec![0; len.min(BYTES_MAX + 1) as usize];
        let read = disk.read(MANIFEST, 0, &mut bytes).map_err(LogError::io("read", MANIFEST))?;
        let (version, manifest) = parse(&bytes[..read])
            .ok_or_else(|| LogError::damaged(MANIFEST, 0, "its line is not that of a manifest"))?;
        if version > VERSION {
            return Err(LogError::Newer { file: MANIFEST.to_owned(), found: version, known: VERSION });
        }
        Ok(manifest)
    }
}

fn parse(bytes: &[u8]) -> Option<(u32, Manifest)> {
    let mut words = unsealed(bytes.strip_suffix(b"\n")?)?.strip_prefix("claret manifest ")?.split(' ');
    let version = words.next()?.parse().ok()?;
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    let manifest = Manifest { store: number()?, newest: number()?, synced: number()? };
    Some((version, manifest))
}
