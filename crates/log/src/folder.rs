//! The folder of a store: made for its owner alone, and locked by who has the store open.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError, create_dir_all};
use std::io;
use std::path::Path;

use claret_planted::{Bug, is_planted};

/// The file that is locked by who has the store open.
pub(crate) const LOCK: &str = "lock";

/// Makes a folder that its owner alone may enter, and those that it is in, so that they stay. One that is there remains as it is.
///
/// # Errors
/// Those of the system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        create_dir_all(parent)?;
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(
        &mut builder,
        if is_planted(Bug::FoldersForAll) { 0o755 } else { 0o700 },
    );
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    for folder in missing {
        let parent = folder.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// How files of a store are made: for their owner alone.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Keeps others from a store's folder until it is dropped. Both the folder and its file `lock` are locked: who removes the file does
/// not open the store a second time, and versions of Claret that lock the file alone are kept out, too. Where the file system locks no
/// folders, as NFS, the file alone counts.
#[derive(Debug)]
pub struct FolderLock {
    _held: Vec<File>,
}

impl FolderLock {
    /// For who writes there: nobody else has it meanwhile. `None`: somebody has. It does not wait.
    ///
    /// # Errors
    /// Those of the system.
    pub fn exclusive(folder: &Path) -> io::Result<Option<Self>> {
        let file =
            private(OpenOptions::new().write(true).create(true).truncate(false)).open(folder.join(LOCK))?;
        FolderLock::with(Some(file), folder, File::try_lock)
    }

    /// For who reads there: nobody writes meanwhile. `None`: somebody does. The file need not be there, as in a copy.
    ///
    /// # Errors
    /// Those of the system.
    pub fn shared(folder: &Path) -> io::Result<Option<Self>> {
        FolderLock::with(File::open(folder.join(LOCK)).ok(), folder, File::try_lock_shared)
    }

    fn with(
        file: Option<File>,
        folder: &Path,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> io::Result<Option<Self>> {
        let mut held = Vec::new();
        if let Some(file) = file {
            match lock(&file) {
                Ok(()) => held.push(file),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        if is_planted(Bug::LockFileAlone) {
            return Ok(Some(FolderLock { _held: held }));
        }
        let folder = File::open(folder)?;
        match lock(&folder) {
            Ok(()) => held.push(folder),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(_)) => {} // The file system locks no folders.
        }
        Ok(Some(FolderLock { _held: held }))
    }
}
