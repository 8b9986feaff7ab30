//! The lock of a store's folder: one process has it open, once.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::durability::OpenError;

/// How long a store that was just closed may seem to be open: to a thread that still holds its last handle, and to a process that
/// is just being started, which has a copy of the locked file until it runs its own program.
const CLOSING_TIME: Duration = Duration::from_millis(1_000);
const LOOK: Duration = Duration::from_millis(5);

/// Locks the folder until the file is dropped.
pub(super) fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.to_owned();
    let refused = |source: io::Error| OpenError::Io { doing: "lock", path, source };
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(folder.join("lock"));
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Err(refused(error)),
    };
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < CLOSING_TIME => sleep(LOOK),
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(refused(error)),
        }
    }
}
