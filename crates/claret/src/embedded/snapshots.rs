//! Snapshots of a store whose log has grown, by a thread of their own (D6). Each shard is stopped for a few records at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;

use claret_core::write_record;
use claret_log::{Disk, Folder, LogError, SnapshotWriter, UNFINISHED};
use parking_lot::MutexGuard;

use super::Embedded;
use super::durable::Shared;
use crate::durability::OpenError;

/// For so many bytes of records a shard is stopped, but for the last of them.
const BYTES_AT_ONCE: usize = 16 << 10;

/// And for so many places at most.
const PLACES_AT_ONCE: usize = 256;

/// Why a snapshot was given up.
enum GivenUp {
    /// The store is closing, or is gone.
    Closing,
    Failed(LogError),
}

impl From<LogError> for GivenUp {
    fn from(error: LogError) -> Self {
        GivenUp::Failed(error)
    }
}

/// Makes snapshots until the store closes.
pub(super) fn start(
    store: &Arc<Embedded>,
    shared: &Arc<Shared>,
    path: &Path,
) -> Result<thread::JoinHandle<()>, OpenError> {
    let snapshots =
        Snapshots { store: Arc::downgrade(store), shared: Arc::clone(shared), path: path.to_owned() };
    let thread = thread::Builder::new().name("claret-snapshot".into()).spawn(move || snapshots.run());
    thread.map_err(|source| OpenError::Io { doing: "start", path: "a thread".into(), source })
}

struct Snapshots {
    store: Weak<Embedded>,
    shared: Arc<Shared>,
    path: PathBuf,
}

impl Snapshots {
    fn run(self) {
        let (shared, is_closing) = (&self.shared, || self.shared.is_closing());
        while shared.growth.wait(is_closing) {
            let files = self.shared.files.lock();
            let made = catch_unwind(AssertUnwindSafe(|| self.snapshot()));
            let made =
                made.unwrap_or_else(|_| Err(LogError::Stopped("making a snapshot panicked".into()).into()));
            if made.is_err() {
                // Half of it is only in the way.
                let _ = Folder::new(&self.path).remove(UNFINISHED);
            }
            drop(files);
            match made {
                Ok((base, bytes, log_from)) => shared.growth.has_snapshot(base, bytes, log_from),
                Err(GivenUp::Closing) => break,
                // The log is whole without it. It is tried again when the log has grown as much again.
                Err(GivenUp::Failed(error)) => {
                    shared.growth.has_no_snapshot(&error, shared.synced_position())
                }
            }
            self.keep_gone(false);
        }
    }

    fn store(&self) -> Result<Arc<Embedded>, GivenUp> {
        self.store.upgrade().filter(|_| !self.shared.is_closing()).ok_or(GivenUp::Closing)
    }

    fn keep_gone(&self, keep: bool) {
        let Some(store) = self.store.upgrade() else { return };
        store.shards.iter().for_each(|shard| shard.lock().keep_gone(keep));
    }

    /// Its position, how many bytes it has, and from where on the log is needed.
    fn snapshot(&self) -> Result<(u64, u64, u64), GivenUp> {
        self.keep_gone(true);
        let (base, log_from, unique) = self.shared.snapshot_begins();
        let folder = Folder::new(&self.path);
        let mut writer = SnapshotWriter::begin(folder, self.shared.store, base, log_from, unique)?;
        let shards = self.store()?.shards.len();
        let mut as_of = base;
        let mut records = Vec::new();
        for at in 0..shards {
            let mut place = Some(0);
            while let Some(from) = place {
                (place, as_of) = some_records(&*self.store()?, &self.shared, at, from, &mut records);
                writer.add(as_of, &records)?;
            }
        }
        if !self.shared.wait_until_synced(as_of) || self.shared.is_closing() {
            return Err(GivenUp::Closing);
        }
        let bytes = writer.bytes();
        let log_from = writer.finish()?;
        Ok((base, bytes, log_from))
    }
}

/// Some records of a shard from a place on, and those that left their place meanwhile: where to go on, and as of which position
/// they are.
fn some_records(
    store: &Embedded,
    shared: &Shared,
    at: usize,
    from: usize,
    records: &mut Vec<u8>,
) -> (Option<usize>, u64) {
    records.clear();
    let mut shard = store.shards[at].lock();
    let mut place = Some(from);
    while let Some(next) = place
        && records.len() < BYTES_AT_ONCE
        && next < from + PLACES_AT_ONCE
    {
        let (some, behind) = shard.records_at(next..next + 1);
        some.for_each(|(key, state)| write_record(records, key, state));
        place = behind;
    }
    for key in shard.take_gone() {
        write_record(records, &key, shard.state(&key));
    }
    if place.is_none() {
        shard.keep_gone(false);
    }
    let as_of = shared.position();
    // To who waits for it, before this thread has it again.
    MutexGuard::unlock_fair(shard);
    (place, as_of)
}
