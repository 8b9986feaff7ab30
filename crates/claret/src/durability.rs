//! What is said of stores in this process that outlive it: when a commit is reported, how the log stands, and what can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use claret_log::{LogError, Progress};
use thiserror::Error as Describe;

use crate::error::Error;

/// When a commit is reported: what is promised of it then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Once it is on the disk (`fdatasync`). Transactions that commit meanwhile are synced together. The default.
    #[default]
    EachGroup,
    /// At once. The disk is synced so often, and a crash may lose what was committed since: the last of it, never something that
    /// later transactions had seen and that is there without it.
    Every(Duration),
}

/// Why a store was not opened. It was not changed.
#[derive(Debug, Describe)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open, or this one has, and had it a second later.
    #[error("the store at '{}' is open already, in this or another process; close it there first", path.display())]
    InUse {
        /// Where the store is.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} '{}': {source}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What is there cannot be read.
    #[error(transparent)]
    Log(LogError),
}

/// How a store's log stands: [`Store::log_status`](crate::Store::log_status).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatus {
    /// Bytes of entries since the store began.
    pub position: u64,
    /// Of these, those that stay whatever happens.
    pub synced: u64,
    /// As of which position the last snapshot is; 0 if there was none.
    pub snapshot: u64,
    /// Why the last snapshot was not made, if it was not. The log is whole without it, and longer than it would be.
    pub snapshot_error: Option<String>,
}

/// Why there is no backup: [`Store::backup`](crate::Store::backup). What was copied is removed, as far as that can be.
#[derive(Debug, Describe)]
#[non_exhaustive]
pub enum BackupError {
    /// Its content ends with the process.
    #[error("the store is in memory, and there is nothing on a disk to copy; open one with Store::open")]
    InMemory,
    /// Its content is that of servers.
    #[error("the store is on a cluster; back up the records with the means of its servers (BGSAVE)")]
    OnACluster,
    /// There is nothing to copy.
    #[error("there is no store in '{}' yet", path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// There is something in the folder.
    #[error("'{}' is not empty; name a new folder for each backup", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is the store's own, or in it.
    #[error("'{}' is in the store's own folder; name one elsewhere", path.display())]
    OwnFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} '{}': {source}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The store cannot be read, or the backup not written.
    #[error(transparent)]
    Log(LogError),
    /// The store was closed, or its log stopped.
    #[error(transparent)]
    Store(#[from] Error),
}
