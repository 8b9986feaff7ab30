//! Stores in this process that outlive it: [`Store::open`], and what can go wrong with that.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use claret_log::{LogError, Progress};
use thiserror::Error as Describe;

use crate::embedded::Embedded;
use crate::open::StoreBuilder;
use crate::store::Store;

/// When a commit is reported: what is promised of it then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
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
    /// Another process has it open, or this one has.
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

impl Store {
    /// Opens the store in this folder, or begins one: a store in this process whose records outlive it. A commit is reported when
    /// it is on the disk ([`Sync::EachGroup`]).
    ///
    /// Only one process has a store open at a time. It reads all records into memory: about a second for each million.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    ///
    /// # let folder = std::env::temp_dir().join(format!("claret-doc-{}", std::process::id()));
    /// # let path = &folder;
    /// let store = Store::open(path)?;
    /// store.counter("visits").add(1).await?;
    /// store.close().await;
    ///
    /// let store = Store::open(path)?;
    /// assert_eq!(store.counter("visits").get().await?, 1);
    /// # store.close().await;
    /// # std::fs::remove_dir_all(path)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Store::builder().open(path)
    }
}

/// How a store's log stands: [`Store::log_status`].
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

impl Store {
    /// How the store's log stands. `None`: it has none.
    pub fn log_status(&self) -> Option<LogStatus> {
        self.backend.log_status()
    }
}

impl StoreBuilder {
    /// When commits are reported, of a store that is [opened](Self::open).
    pub fn sync(mut self, sync: Sync) -> Self {
        self.sync = sync;
        self
    }

    /// A snapshot is made when the log has grown by so many bytes since the last one, and by as much as that one has: 64 MiB by
    /// default. Opening reads the snapshot, and no more than about as much of the log.
    pub fn snapshot_after(mut self, bytes: u64) -> Self {
        self.snapshot_after = bytes;
        self
    }

    /// [`Store::open`] with these settings. The number of shards may be another one than before.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store, OpenError> {
        self.open_with_progress(path, |_| {})
    }

    /// The same, and says how far reading the store is.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_with_progress(
        self,
        path: impl AsRef<Path>,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<Store, OpenError> {
        let embedded = Embedded::new(self.shards, self.mode, self.limits);
        let backend = embedded.opened(path.as_ref(), self.sync, self.snapshot_after, &mut on_progress)?;
        Ok(Store { backend, options: self.options })
    }
}
