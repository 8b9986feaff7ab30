//! The directory of a server: a temporary one goes with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::RigError;

static NUMBER: AtomicU32 = AtomicU32::new(0);

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

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            // At worst something stays in the system's folder for such things.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
