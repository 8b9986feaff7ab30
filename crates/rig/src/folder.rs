//! The directory of a server: a temporary one goes with it. And files in it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::RigError;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Writes a file that only its owner may read: it may hold a password or a key.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// A path as a word of a server's configuration file.
pub(crate) fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    is_temporary: bool,
}

impl Folder {
    /// A new one, removed at the end.
    pub(crate) fn temporary() -> Result<Self, RigError> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("claret-rig-{}-{number}", std::process::id()));
        // Left over from a process of the same number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|error| RigError::io("creating", &path, error))?;
        Folder::resolved(&path, true)
    }

    /// This one, created if need be and left where it is.
    pub(crate) fn given(path: &Path) -> Result<Self, RigError> {
        fs::create_dir_all(path).map_err(|error| RigError::io("creating", path, error))?;
        Folder::resolved(path, false)
    }

    fn resolved(path: &Path, is_temporary: bool) -> Result<Self, RigError> {
        let path = path.canonicalize().map_err(|error| RigError::io("finding", path, error))?;
        Ok(Folder { path, is_temporary })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its path, if it goes with its server.
    pub(crate) fn temporary_path(&self) -> Option<&Path> {
        self.is_temporary.then_some(&self.path)
    }

    /// It stays.
    pub(crate) fn keep(&mut self) {
        self.is_temporary = false;
    }
}

/// A folder of a test, which goes with it.
#[derive(Debug)]
pub struct TestFolder(Folder);

impl TestFolder {
    /// A new one, and empty.
    ///
    /// # Panics
    /// If it cannot be made.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        TestFolder(Folder::temporary().unwrap_or_else(|error| panic!("{error}")))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            // At worst something stays in the system's folder for such things.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
