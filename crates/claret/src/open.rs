//! Opening and closing stores: `in_memory`, `open` and `builder`, `connect` and `cluster`, `close`.

use std::path::Path;
use std::sync::Arc;

use claret_types::Schema;

use crate::blocking;
use crate::durability::{BackupError, LogStatus, OpenError, Progress, SyncPolicy};
use crate::embedded::{Embedded, backup_of_folder};
use crate::error::{BeginError, Error};
use crate::limits::Limits;
use crate::mode::Mode;
use crate::options::TxOptions;
use crate::store::Store;

impl Store {
    /// An empty store in this process. Its content ends with the process.
    pub fn in_memory() -> Self {
        Store::builder().build()
    }

    /// A store in this process, with settings.
    pub fn builder() -> StoreBuilder {
        StoreBuilder {
            shards: 64,
            mode: Mode::default(),
            limits: claret_core::Limits::default(),
            options: TxOptions::default(),
            sync: SyncPolicy::default(),
            snapshot_after: 64 << 20,
            schema: None,
        }
    }

    /// The same API for threads without an async runtime.
    pub fn blocking(&self) -> blocking::Store {
        blocking::Store { inner: self.clone(), thread: None }
    }

    /// Closes the store, for all its handles: whatever is begun from now on, and every operation that waits, answers
    /// [`BeginError::Closed`](crate::errors::BeginError::Closed) at once. On a cluster this waits until every shard knows the outcome of every
    /// transaction, tells the shards that this process ends, and closes the connections. Dropping the last handle does that
    /// without waiting, and says nothing of errors. To close a store again does nothing.
    ///
    /// # Errors
    /// Of a store in a folder: its log stopped, or what was committed last could not be written and synced
    /// ([`CommitError::LogStopped`](crate::errors::CommitError::LogStopped)). It is closed all the same. With [`SyncPolicy::Every`] commits that were reported may be lost then.
    pub async fn close(self) -> Result<(), Error> {
        self.backend.close().await
    }
}

/// Settings of a store in this process. Made by [`Store::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct StoreBuilder {
    shards: u32,
    mode: Mode,
    limits: claret_core::Limits,
    options: TxOptions,
    sync: SyncPolicy,
    snapshot_after: u64,
    schema: Option<Schema>,
}

impl StoreBuilder {
    /// The number of shards, at least 1. More shards let more threads work at once; 64 suits a small machine.
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards.clamp(1, 4096);
        self
    }

    /// See [`crate::lab`].
    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// See [`crate::lab`].
    pub(crate) fn protocol_limits(mut self, limits: claret_core::Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Bounds of what it takes.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits.within(self.limits);
        self
    }

    /// What `transaction` and single operations do by default.
    pub fn transactions(mut self, options: TxOptions) -> Self {
        self.options = options;
        self
    }

    /// Which types the keys with some prefixes have: an operation of another type there is refused, before anything else is done,
    /// as [`OpError::AgainstSchema`](crate::OpError::AgainstSchema). Records that are there already are not looked at.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{OpError, Records, Schema, Store, types::TypeName};
    /// let schema = Schema::new().prefix("seen:", TypeName::Set)?;
    /// let store = Store::builder().schema(schema).build();
    /// store.set("seen:ada").add("book").await?;
    /// let refused = store.counter("seen:ada").add(1).await;
    /// assert!(matches!(refused.unwrap_err().op_error(), Some(OpError::AgainstSchema { .. })));
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Makes the store, in memory and empty.
    pub fn build(self) -> Store {
        let backend = Arc::new(Embedded::new(self.shards, self.mode, self.limits, self.schema));
        Store { backend, options: self.options, caller: None }
    }
}

impl Store {
    /// Opens the store in this folder, or begins one: a store in this process whose records outlive it. A commit is reported when
    /// it is on the disk ([`SyncPolicy::EachGroup`]).
    ///
    /// Only one process has a store open at a time. All records are read into memory: O(the snapshot, and the log since).
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
    /// store.close().await?;
    ///
    /// let store = Store::open(path)?;
    /// assert_eq!(store.counter("visits").get().await?, 1);
    /// # store.close().await?;
    /// # std::fs::remove_dir_all(path)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Store::builder().open(path)
    }

    /// Copies the store in a folder into another folder, which is made, or is empty. Transactions go on meanwhile, and nobody waits.
    /// [`Store::open`] opens the copy: it is the store at one moment, with all that was reported before this was called. What
    /// is copied is checked, so that a backup is none of damage. A thread does it; dropping the future gives it up.
    ///
    /// # Errors
    /// See [`BackupError`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    ///
    /// # let folder = std::env::temp_dir().join(format!("claret-doc-backup-{}", std::process::id()));
    /// # let (path, copy) = (&folder.join("shop"), &folder.join("copy"));
    /// let store = Store::open(path)?;
    /// store.counter("visits").add(1).await?;
    /// store.backup(copy).await?;
    ///
    /// let copy = Store::open(copy)?;
    /// assert_eq!(copy.counter("visits").get().await?, 1);
    /// # copy.close().await?;
    /// # store.close().await?;
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn backup(&self, folder: impl AsRef<Path>) -> Result<(), BackupError> {
        if self.backend.is_closed() {
            return Err(BackupError::Store(Error::Begin(BeginError::Closed)));
        }
        self.backend.back_up(folder.as_ref()).await
    }

    /// Copies the store in a folder, whoever has it open: this process, another one of this machine, or nobody. Otherwise it is as
    /// [`Store::backup`]: nobody waits for it, what is copied is checked, and what was reported before the call is in the copy. Of a
    /// store with [`SyncPolicy::Every`] the copy may lack what was reported in the last of these times, and more if it has much to write:
    /// its own `backup` lacks nothing. The caller has to be allowed to read the folder's files. It blocks the thread until all is copied.
    ///
    /// # Errors
    /// See [`BackupError`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use claret::{Records, Store};
    ///
    /// # let folder = std::env::temp_dir().join(format!("claret-doc-backup-of-{}", std::process::id()));
    /// # let (path, copy) = (&folder.join("shop"), &folder.join("copy"));
    /// let store = Store::open(path)?;
    /// store.counter("visits").add(1).await?;
    /// Store::backup_of(path, copy)?;
    /// assert_eq!(Store::open(copy)?.counter("visits").get().await?, 1);
    /// # store.close().await?;
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn backup_of(store: impl AsRef<Path>, folder: impl AsRef<Path>) -> Result<(), BackupError> {
        backup_of_folder(store.as_ref(), folder.as_ref())
    }

    /// How the log of a store in a folder stands.
    ///
    /// # Errors
    /// [`BeginError::Unsupported`](crate::errors::BeginError::Unsupported): the store has no log, since it is in memory or on a cluster.
    pub fn log_status(&self) -> Result<LogStatus, Error> {
        self.backend.log_status()
    }
}

impl StoreBuilder {
    /// When commits are reported, of a store that is [opened](Self::open).
    pub fn sync(mut self, sync: SyncPolicy) -> Self {
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
        let embedded = Embedded::new(self.shards, self.mode, self.limits, self.schema);
        let backend = embedded.opened(path.as_ref(), self.sync, self.snapshot_after, &mut on_progress)?;
        Ok(Store { backend, options: self.options, caller: None })
    }
}

impl blocking::Store {
    /// Opens the store in this folder, or begins one: see [`Store::open`]. [`StoreBuilder::open`] has settings.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Store::open(path).map(|store| store.blocking())
    }
}

#[cfg(feature = "cluster")]
mod on_a_cluster {
    use super::*;
    use crate::cluster::{ClusterBuilder, ConnectError, RuntimeThread};

    impl Store {
        /// A store on a Redis or Valkey cluster with the Claret module: see [`ClusterBuilder`] for the URL.
        ///
        /// # Errors
        /// See [`ConnectError`].
        ///
        /// # Panics
        /// Outside a tokio runtime; see [`blocking::Store::connect`].
        ///
        /// ```no_run
        /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
        /// use claret::{Records, Store};
        /// let store = Store::connect("redis://127.0.0.1:7001").await?;
        /// store.counter("visits").add(1).await?;
        /// # Ok(()) }
        /// ```
        pub async fn connect(url: impl Into<String>) -> Result<Store, ConnectError> {
            Store::cluster(url).connect().await
        }

        /// A store on a cluster, with settings.
        pub fn cluster(url: impl Into<String>) -> ClusterBuilder {
            ClusterBuilder::new(url.into())
        }
    }

    impl ClusterBuilder {
        /// Connects to all nodes. The connections live as tasks of the tokio runtime that this is awaited on.
        ///
        /// # Errors
        /// See [`ConnectError`].
        ///
        /// # Panics
        /// Outside a tokio runtime; see [`blocking::Store::connect`].
        pub async fn connect(self) -> Result<Store, ConnectError> {
            let (backend, options) = self.open().await?;
            Ok(Store { backend, options, caller: None })
        }
    }

    impl blocking::Thread for RuntimeThread {}

    impl blocking::Store {
        /// A store on a cluster; its connections live on a thread of their own. See [`Store::connect`].
        ///
        /// # Errors
        /// See [`ConnectError`].
        pub fn connect(url: impl Into<String>) -> Result<Self, ConnectError> {
            blocking::Store::connect_with(Store::cluster(url))
        }

        /// [`blocking::Store::connect`] with settings.
        ///
        /// # Errors
        /// See [`ConnectError`].
        pub fn connect_with(builder: ClusterBuilder) -> Result<Self, ConnectError> {
            let (inner, thread) = RuntimeThread::start(builder.connect())?;
            Ok(blocking::Store { inner, thread: Some(Arc::new(thread)) })
        }
    }
}
