//! What goes wrong with a log. Every error names the file, and says what to do.

use std::io;

use thiserror::Error;

/// Why a log cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// The system refused: no room, no right, a broken device.
    #[error("cannot {doing} '{file}': {source}")]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With which file.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// Something is missing or changed that had been written and synced. Nothing is skipped: restore a backup.
    #[error(
        "'{file}' is damaged at byte {at}: {what}; what is behind it was acknowledged, so nothing is skipped: restore a backup; \
         'claret dump --until-damage' shows what is before it"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        at: u64,
        /// What is wrong there.
        what: String,
    },
    /// There are other files.
    #[error("'{file}' is no file of a Claret store; name an empty folder, or that of a store")]
    Foreign {
        /// One of them.
        file: String,
    },
    /// It was written by a later version.
    #[error(
        "'{file}' has format {found}, and this program reads up to {known}; use a later version of Claret"
    )]
    Newer {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// It is a backup that was never whole: the process or the machine ended meanwhile.
    #[error(
        "'{file}' is here, so this backup was never whole; remove the folder, and back up the store again"
    )]
    Unfinished {
        /// The file that says so.
        file: String,
    },
    /// An earlier error left it open what is written.
    #[error("the log stopped after an error: {0}; open the store again")]
    Stopped(String),
}

impl LogError {
    pub(crate) fn io<'a>(doing: &'static str, file: &'a str) -> impl FnOnce(io::Error) -> LogError + 'a {
        move |source| LogError::Io { doing, file: file.to_owned(), source }
    }

    pub(crate) fn damaged(file: &str, at: u64, what: impl Into<String>) -> Self {
        LogError::Damaged { file: file.to_owned(), at, what: what.into() }
    }

    /// Whether there is no room on the disk, so that the same may succeed later.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self, LogError::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge))
    }
}
