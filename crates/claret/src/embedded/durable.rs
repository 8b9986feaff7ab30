//! The log of a store in this process: a thread writes it, transactions wait for it, and another thread makes snapshots
//! (`docs/durability.md`).
//!
//! Transactions put what they did into the log's tail while they have their shards, and wait only afterwards, when nobody waits for
//! them. The writer takes all that has gathered, writes it as one group, syncs it and wakes those whose transactions are in it.
//! Meanwhile the next group gathers.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};

use claret_core::{Shard, ShardId};
use claret_log::{
    Disk, Folder, FolderLock, Gathered, LeftOf, LogError, Recovered, Tail, Writer, create_folder,
    is_of_a_store, recover,
};
use claret_planted::{Bug, is_planted};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::growth::Growth;
use super::lock;
use super::trouble::{Trouble, Troubles};
use super::writing::Writing;
use crate::backend::UntilDurable;
use crate::durability::{LogStatus, OpenError, Progress, SyncPolicy};
use crate::error::{BeginError, CommitError, Error, Reason};
use crate::outcome::{LogPlace, Named, Outcome, OutcomeId};

/// So many bytes may wait to be written before those who commit wait, too.
pub(super) const WAITING_BYTES_MAX: usize = 32 << 20;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Durable {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Nobody else opens the store while this is locked.
    lock: Mutex<Option<FolderLock>>,
}

/// What transactions and the threads share. Lock order: the tail, then those who wait.
#[derive(Debug)]
pub(super) struct Shared {
    /// The store's identity.
    pub(super) store: u64,
    /// This opening of it.
    life: u64,
    pub(super) tail: Mutex<Tail>,
    /// Something has gathered, or the store is closing.
    pub(super) gathered: Condvar,
    pub(super) writer_waits: AtomicBool,
    pub(super) closing: AtomicBool,
    /// The position behind what shards have noted.
    pub(super) noted: AtomicU64,
    /// Up to here all is on the disk.
    pub(super) synced: AtomicU64,
    pub(super) sync: SyncPolicy,
    pub(super) waiting: Mutex<Waiting>,
    pub(super) trouble: Troubles,
    /// Up to here somebody waits for a sync, whatever time it is.
    pub(super) wanted: AtomicU64,
    pub(super) growth: Growth,
    /// Held while a snapshot is made, and while a backup: files go when there is a newer snapshot.
    pub(super) files: Mutex<()>,
}

/// Tasks by the position that they wait for, and a number of their own.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    wakers: BTreeMap<(u64, u64), Waker>,
    numbers: u64,
}

/// Ends when the log is synced up to a position.
struct UntilSynced {
    shared: Arc<Shared>,
    position: u64,
    /// Its number, once it waits.
    number: Option<u64>,
}

/// A store as it was read, and its files.
pub(super) struct Opened<D = Folder> {
    pub(super) recovered: Option<Recovered>,
    disk: D,
    lock: Option<FolderLock>,
}

/// Reads what is at a path.
pub(super) fn open(path: &Path, on_progress: &mut dyn FnMut(Progress)) -> Result<Opened, OpenError> {
    let at = |doing: &'static str| {
        let path = path.to_owned();
        move |source: io::Error| OpenError::Io { doing, path, source }
    };
    if path.is_file() {
        return Err(OpenError::Log(LogError::Foreign { file: path.display().to_string() }));
    }
    create_folder(path).map_err(at("create"))?;
    let mut folder = Folder::new(path);
    // Before anything is put there.
    let names = folder.list().map_err(at("list"))?;
    if let Some(file) = names.into_iter().find(|name| !is_of_a_store(name)) {
        return Err(OpenError::Log(LogError::Foreign { file }));
    }
    let lock = lock::lock(path)?;
    let recovered = recover(&mut folder, on_progress).map_err(OpenError::Log)?;
    Ok(Opened { recovered, disk: folder, lock: Some(lock) })
}

impl Durable {
    /// Goes on with a store, or begins it. The records are to be taken out before.
    pub(super) fn start<D: Disk + 'static>(
        opened: Opened<D>,
        sync: SyncPolicy,
        snapshot_after: u64,
    ) -> Result<Self, OpenError> {
        let Opened { recovered, disk, lock } = opened;
        // No more than what the log grows by between two snapshots, so that files go.
        let segment_bytes = snapshot_after;
        let writer = match &recovered {
            Some(recovered) => Writer::go_on(disk, recovered, segment_bytes),
            None => Writer::create(disk, new_identity(), segment_bytes),
        };
        let writer = writer.map_err(OpenError::Log)?;
        let snapshot = recovered.as_ref().and_then(|recovered| recovered.snapshot).unwrap_or_default();
        let (life, mut tail) = (new_identity(), Tail::new(recovered.as_ref()));
        tail.open(life);
        let shared = Arc::new(Shared {
            store: writer.store(),
            life,
            tail: Mutex::new(tail),
            gathered: Condvar::new(),
            writer_waits: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            noted: AtomicU64::new(writer.position()),
            synced: AtomicU64::new(writer.position()),
            sync,
            waiting: Mutex::default(),
            trouble: Troubles::default(),
            wanted: AtomicU64::new(0),
            growth: Growth::since(snapshot, snapshot_after),
            files: Mutex::default(),
        });
        let writing = Writing { shared: Arc::clone(&shared), writer, group: Gathered::default() };
        let thread = thread::Builder::new().name("claret-log".into()).spawn(|| writing.run());
        let thread =
            thread.map_err(|source| OpenError::Io { doing: "start", path: "a thread".into(), source })?;
        let threads = Mutex::new(vec![thread]);
        Ok(Durable { shared, threads, lock: Mutex::new(lock) })
    }

    /// What its threads share, for another one.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A thread that ends when the store closes.
    pub(super) fn has_thread(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock();
        threads.retain(|it| !it.is_finished()); // Those of backups end by themselves.
        threads.push(thread);
    }

    /// Where unique numbers begin.
    pub(super) fn begin_unique(&self) -> u64 {
        let mut tail = self.shared.tail.lock();
        let begin = if is_planted(Bug::UniqueFromTheBeginning) { 0 } else { tail.begin_unique() };
        self.shared.has_noted(tail);
        begin
    }

    /// Takes over what a shard noted.
    pub(super) fn note(&self, shard: &mut Shard) {
        let (id, unique) = (shard.id(), shard.unique_count());
        if let Some(journal) = shard.journal().filter(|journal| !journal.is_empty()) {
            let mut tail = self.shared.tail.lock();
            tail.note(id, journal);
            tail.reserve_unique(unique);
            self.shared.has_noted(tail);
        }
    }

    /// Takes over what was done at once on shards all of which the caller has.
    pub(super) fn note_together<'a>(&self, shards: &mut [(ShardId, MutexGuard<'a, Shard>)]) {
        let unique = shards.iter().map(|(_, shard)| shard.unique_count()).max().unwrap_or_default();
        let mut journals = shards.iter_mut().filter_map(|(_, shard)| shard.journal());
        let mut tail = self.shared.tail.lock();
        let before = tail.position();
        tail.note_together(&mut journals);
        tail.reserve_unique(unique);
        if tail.position() > before {
            self.shared.has_noted(tail); // Mostly it has only read.
        }
    }

    /// Waits until what was noted so far is synced; `None`: it is, or commits do not wait for that.
    pub(super) fn until_durable(&self) -> Option<UntilDurable> {
        let noted = self.shared.noted.load(Ordering::Acquire);
        let position = match self.shared.sync {
            // Nobody writes it any more.
            _ if self.shared.trouble.has_stopped() => noted,
            SyncPolicy::EachGroup => noted,
            // Only so much is kept that is not written.
            SyncPolicy::Every(_) => noted.saturating_sub(WAITING_BYTES_MAX as u64),
        };
        if self.shared.synced.load(Ordering::Acquire) >= position {
            return None;
        }
        Some(Box::pin(UntilSynced { shared: Arc::clone(&self.shared), position, number: None }))
    }

    /// The position behind what was noted so far.
    pub(super) fn noted(&self) -> u64 {
        self.shared.noted.load(Ordering::Acquire)
    }

    /// Names a transaction that was noted behind this position, and by now.
    pub(super) fn name(&self, from: u64) -> OutcomeId {
        let Shared { store, life, .. } = *self.shared;
        OutcomeId::new(Named::Log(LogPlace { store, life, from, to: self.noted() }))
    }

    /// What became of a transaction of this life or an earlier one (D13).
    pub(super) fn outcome(&self, place: LogPlace) -> Outcome {
        if place.store != self.shared.store {
            return Outcome::Forgotten;
        }
        let left = match place.life == self.shared.life {
            true => LeftOf::Lives,
            false => self.shared.tail.lock().lives().left_of(place.life),
        };
        match left {
            LeftOf::UpTo(end) if end >= place.to => Outcome::Committed,
            LeftOf::UpTo(end) if end <= place.from => Outcome::Aborted,
            LeftOf::Nothing => Outcome::Aborted,
            // The log ends between what was noted just before it and just after it.
            LeftOf::UpTo(_) | LeftOf::Unknown => Outcome::Forgotten,
            LeftOf::Lives if self.shared.synced.load(Ordering::Acquire) >= place.to => Outcome::Committed,
            LeftOf::Lives => Outcome::NotYet,
        }
    }

    pub(super) fn status(&self) -> LogStatus {
        let Shared { noted, synced, growth, .. } = &*self.shared;
        let (snapshot, snapshot_error) = growth.snapshot();
        LogStatus {
            position: noted.load(Ordering::Acquire),
            synced: synced.load(Ordering::Acquire),
            snapshot,
            snapshot_error,
        }
    }

    /// Whether something can be done that writes, or does not.
    pub(super) fn check(&self, writes: bool) -> Result<(), Error> {
        if !self.shared.trouble.is_some() {
            return Ok(()); // Mostly.
        }
        match self.shared.trouble.get() {
            Some(Trouble::Full(reason)) if writes => Err(Error::Commit(CommitError::NoRoom { reason })),
            None | Some(Trouble::Full(_)) => Ok(()),
            Some(Trouble::Stopped(reason)) => Err(self.shared.ended(reason)),
            Some(Trouble::Closed) => Err(Error::Begin(BeginError::Closed)),
        }
    }

    /// Writes what has gathered, and ends.
    ///
    /// # Errors
    /// The log stopped before that, or at it: not all that was committed is on the disk.
    pub(super) fn close(&self) -> Result<(), Error> {
        self.shared.closing.store(true, Ordering::Release);
        drop(self.shared.tail.lock());
        self.shared.gathered.notify_all();
        self.shared.growth.wake();
        let threads = std::mem::take(&mut *self.threads.lock());
        // The last handle of a store may be the one of a thread of its own.
        for thread in threads.into_iter().filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join(); // What it had to say of an error it has said.
        }
        self.lock.lock().take();
        match self.shared.trouble.get() {
            Some(Trouble::Stopped(reason)) => Err(Error::Commit(CommitError::LogStopped { reason })),
            None | Some(Trouble::Full(_) | Trouble::Closed) => Ok(()),
        }
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        let _ = self.close(); // Nobody is there who could hear of it.
    }
}

/// A number that no other store has.
fn new_identity() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Shared {
    fn has_noted(&self, tail: MutexGuard<'_, Tail>) {
        self.noted.store(tail.position(), Ordering::Release);
        drop(tail);
        if self.writer_waits.load(Ordering::Acquire) {
            self.gathered.notify_one();
        }
    }

    pub(super) fn synced_up_to(&self, position: u64) {
        let mut waiting = self.waiting.lock();
        self.synced.store(position, Ordering::Release);
        let later = waiting.wakers.split_off(&(position + 1, 0));
        let woken = std::mem::replace(&mut waiting.wakers, later);
        drop(waiting);
        woken.into_values().for_each(Waker::wake);
    }

    pub(super) fn set_trouble(&self, trouble: Option<Trouble>) {
        let has_stopped = trouble.as_ref().is_some_and(Trouble::is_end);
        self.trouble.set(trouble);
        if has_stopped {
            let woken = std::mem::take(&mut self.waiting.lock().wakers);
            woken.into_values().for_each(Waker::wake);
        }
    }

    /// The log stopped for a reason, perhaps that of its store.
    fn ended(&self, reason: Reason) -> Error {
        if self.is_closing() {
            Error::Begin(BeginError::Closed)
        } else {
            Error::Commit(CommitError::LogStopped { reason })
        }
    }

    /// Why the log takes nothing more.
    pub(super) fn why_ended(&self) -> Error {
        match self.trouble.get() {
            Some(Trouble::Stopped(reason) | Trouble::Full(reason)) => self.ended(reason),
            None | Some(Trouble::Closed) => Error::Begin(BeginError::Closed),
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The position of the next entry.
    pub(super) fn position(&self) -> u64 {
        self.tail.lock().position()
    }

    /// Up to here all is on the disk.
    pub(super) fn synced_position(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Where a snapshot begins, from where on it needs the log, and up to which count unique numbers may be given.
    pub(super) fn snapshot_begins(&self) -> (u64, u64, u64) {
        let mut tail = self.tail.lock();
        // The log from before the snapshot goes.
        let said_from = tail.say_lives();
        let begins = (tail.position(), tail.open_since().min(said_from), tail.unique());
        self.has_noted(tail);
        begins
    }

    /// Waits until the log is synced up to a position; `false` if the store closes or the log stops.
    pub(super) fn wait_until_synced(self: &Arc<Self>, position: u64) -> bool {
        self.wanted.fetch_max(
            if is_planted(Bug::SyncWantedForEver) { u64::MAX } else { position },
            Ordering::AcqRel,
        );
        drop(self.tail.lock());
        self.gathered.notify_one();
        pollster::block_on(UntilSynced { shared: Arc::clone(self), position, number: None }).is_ok()
    }
}

impl Future for UntilSynced {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let UntilSynced { shared, position, number } = &mut *self;
        let mut waiting = shared.waiting.lock();
        // With the lock that the writer takes to wake those who wait.
        if shared.synced.load(Ordering::Acquire) >= *position {
            return Poll::Ready(Ok(()));
        }
        if shared.trouble.has_stopped() {
            return Poll::Ready(Err(Error::Unknown(OutcomeId::nobody())));
        }
        let number = *number.get_or_insert_with(|| {
            waiting.numbers += 1;
            waiting.numbers
        });
        waiting.wakers.insert((*position, number), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for UntilSynced {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.waiting.lock().wakers.remove(&(self.position, number));
        }
    }
}

#[cfg(test)]
mod tests;
