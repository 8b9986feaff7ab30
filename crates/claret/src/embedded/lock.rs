//! Waits for the lock of a store's folder: one process has it open, once.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use claret_log::FolderLock;

use crate::durability::OpenError;

/// How long a store that was just closed may seem to be open: to a thread that still holds its last handle, and to a process that
/// is just being started, which has a copy of the locked file until it runs its own program.
const CLOSING_TIME: Duration = Duration::from_millis(1_000);
const LOOK: Duration = Duration::from_millis(5);

/// Locks the folder until this is dropped.
pub(super) fn lock(folder: &Path) -> Result<FolderLock, OpenError> {
    let refused = |source: io::Error| OpenError::Io { doing: "lock", path: folder.to_owned(), source };
    let began = Instant::now();
    loop {
        match FolderLock::exclusive(folder).map_err(refused)? {
            Some(lock) => return Ok(lock),
            None if began.elapsed() < CLOSING_TIME => sleep(LOOK),
            None => return Err(OpenError::InUse { path: folder.to_owned() }),
        }
    }
}
