//! What transactions hear of a disk that is full, and of one that fails.

use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

use claret_core::Limits;

use super::*;
use crate::embedded::Embedded;
use crate::error::HandleError;
use crate::mode::Mode;
use crate::options::TxOptions;
use crate::{Records, Store, Tx};

const WELL: u8 = 0;
const FULL: u8 = 1;
const BROKEN: u8 = 2;

/// A disk that keeps nothing, and is as it is told to be.
#[derive(Clone, Debug, Default)]
struct MoodyDisk {
    mood: Arc<AtomicU8>,
    /// How often it refused something.
    refused: Arc<AtomicU64>,
}

impl MoodyDisk {
    fn is(&self, mood: u8) {
        self.mood.store(mood, Ordering::Release);
    }

    fn fail_if(&self, mood: u8, kind: io::ErrorKind) -> io::Result<()> {
        if self.mood.load(Ordering::Acquire) == mood {
            self.refused.fetch_add(1, Ordering::AcqRel);
            return Err(kind.into());
        }
        Ok(())
    }
}

impl Disk for MoodyDisk {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn len(&mut self, _: &str) -> io::Result<u64> {
        Ok(0)
    }

    fn read(&mut self, _: &str, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn create(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn append(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        self.fail_if(FULL, io::ErrorKind::StorageFull)
    }

    fn write_again(&mut self, _: &str, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, _: &str, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        self.fail_if(BROKEN, io::ErrorKind::Other)
    }

    fn sync_names(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

fn embedded(disk: &MoodyDisk) -> Arc<Embedded> {
    embedded_with(disk, SyncPolicy::EachGroup)
}

fn embedded_with(disk: &MoodyDisk, sync: SyncPolicy) -> Arc<Embedded> {
    let mut embedded = Embedded::new(4, Mode::default(), Limits::default(), None);
    let opened = Opened { recovered: None, disk: disk.clone(), lock: None };
    let log = Durable::start(opened, sync, u64::MAX).expect("it begins");
    // What it writes of its own accord at the beginning is written.
    wait_until(|| log.shared.writer_waits.load(Ordering::Acquire));
    embedded.shards.iter_mut().for_each(|shard| shard.get_mut().keep_journal());
    embedded.log = Some(log);
    Arc::new(embedded)
}

fn store(disk: &MoodyDisk, deadline: Duration) -> Store {
    Store { backend: embedded(disk), options: TxOptions::default().deadline(deadline), caller: None }
}

/// How many wait for the disk.
fn waiting(store: &Embedded) -> usize {
    store.log.as_ref().map_or(0, |log| log.shared.waiting.lock().wakers.len())
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it does not come");
        thread::yield_now();
    }
}

fn add(store: &Store) -> Result<(), Error> {
    pollster::block_on(store.counter("hits").add(1))
}

/// Somebody adds while there is no room, is done, and waits for the disk. Bug of the tests: the log's own thread may write
/// something just then (that the store was opened, a mark), and find that out first; then nobody is let in.
fn adds_without_room<'s>(
    scope: &'s thread::Scope<'s, '_>,
    store: &'s Store,
    disk: &MoodyDisk,
) -> thread::ScopedJoinHandle<'s, Result<(), Error>> {
    loop {
        disk.is(FULL);
        let adds = scope.spawn(|| add(store));
        let is_quiet = || store.log_status().is_ok_and(|status| status.position == status.synced);
        while is_quiet() && !adds.is_finished() {
            thread::yield_now();
        }
        if !adds.is_finished() {
            return adds;
        }
        adds.join().expect("it ends").expect_err("there is no room");
        disk.is(WELL);
        wait_until(|| store.backend.check_log(true).is_ok());
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_secs(30));
    add(&store).expect("there is room");
    thread::scope(|scope| {
        let waits = adds_without_room(scope, &store, &disk);
        wait_until(|| store.backend.check_log(true).is_err());
        let refused = add(&store).expect_err("there is no room");
        assert!(
            matches!(refused, Error::Commit(CommitError::NoRoom { .. })) && refused.is_retryable(),
            "{refused}"
        );
        let transaction = store.transaction(async |tx| Ok(tx.counter("hits").add(1)?));
        let refused = pollster::block_on(transaction).expect_err("there is no room");
        assert!(matches!(refused, Error::Commit(CommitError::NoRoom { .. })), "{refused}");
        assert!(!waits.is_finished());
        disk.is(WELL);
        assert_eq!(waits.join().expect("it ends"), Ok(()));
    });
    wait_until(|| store.backend.check_log(true).is_ok());
    add(&store).expect("there is room again");
    assert_eq!(pollster::block_on(store.counter("hits").get()), Ok(3));
    store.check_invariants();
}

/// Otherwise somebody acts on a commit that a crash takes back (D10).
#[test]
fn who_reads_waits_for_what_it_saw() {
    let disk = MoodyDisk::default();
    let embedded = embedded(&disk);
    let options = TxOptions::default().deadline(Duration::from_secs(30));
    let store = &Store { backend: Arc::clone(&embedded) as _, options, caller: None };
    thread::scope(|scope| {
        let adds = adds_without_room(scope, store, &disk);
        wait_until(|| waiting(&embedded) > 0);
        let reads = scope.spawn(|| pollster::block_on(store.counter("hits").get()));
        let transaction = async |tx: Tx| Ok(tx.counter("hits").get().await?);
        let also_reads = scope.spawn(move || pollster::block_on(store.transaction(transaction)));
        while waiting(&embedded) < 3 && !reads.is_finished() && !also_reads.is_finished() {
            thread::yield_now();
        }
        assert!(!reads.is_finished() && !also_reads.is_finished(), "they wait for the disk");
        disk.is(WELL);
        assert_eq!(adds.join().expect("it ends"), Ok(()));
        assert_eq!(reads.join().expect("it ends"), Ok(1));
        assert_eq!(also_reads.join().expect("it ends"), Ok(1));
    });
}

#[test]
fn answers_of_a_commit_that_the_disk_lost_are_not_told() {
    let (disk, kept) = (MoodyDisk::default(), parking_lot::Mutex::new(None));
    let store = store(&disk, Duration::from_secs(30));
    disk.is(BROKEN);
    let lost = pollster::block_on(
        store.transaction(async |tx| Ok(kept.lock().insert(tx.at_commit()).counter("hits").add(1)?)),
    );
    lost.expect_err("it does not stay");
    assert_eq!(
        kept.into_inner().expect("it ran").replies().map(drop),
        Err(Error::Handle(HandleError::NotCommitted))
    );
}

/// Nothing that only read is unknown (P65).
#[test]
fn who_reads_while_there_is_no_room_hears_that() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_millis(50));
    disk.is(FULL);
    assert!(matches!(add(&store), Err(Error::Unknown(_))));
    let refused =
        pollster::block_on(store.counter("hits").get()).expect_err("it saw what is not on the disk");
    assert!(matches!(refused, Error::Commit(CommitError::NoRoom { .. })), "{refused}");
    let transaction = store.transaction(async |tx| Ok(tx.counter("hits").get().await?));
    let refused = pollster::block_on(transaction).expect_err("it saw what is not on the disk");
    assert!(matches!(refused, Error::Commit(CommitError::NoRoom { .. })), "{refused}");
    disk.is(WELL);
}

/// The mark that follows the last group is no reason to stop.
#[test]
fn a_disk_that_is_full_while_nobody_writes_stops_nothing() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_secs(30));
    add(&store).expect("there is room");
    disk.is(FULL);
    wait_until(|| disk.refused.load(Ordering::Acquire) > 0);
    assert_eq!(pollster::block_on(store.counter("hits").get()), Ok(1));
    disk.is(WELL);
    add(&store).expect("there is room again");
}

/// What is not synced is bounded, and nobody waits for the time to be over.
#[test]
fn a_long_time_between_syncs_stops_nobody() {
    let embedded = embedded_with(&MoodyDisk::default(), SyncPolicy::Every(Duration::MAX));
    let options = TxOptions::default().deadline(Duration::from_secs(30));
    let store = Store { backend: embedded, options, caller: None };
    let value = "x".repeat(1 << 20);
    for _ in 0..3 * WAITING_BYTES_MAX / value.len() {
        pollster::block_on(store.register("k").set(&*value)).expect("it does not wait for the time");
    }
}

/// A snapshot asks for a sync, once.
#[test]
fn the_writer_rests_when_it_has_done_what_was_asked() {
    for sync in [SyncPolicy::EachGroup, SyncPolicy::Every(Duration::MAX)] {
        let opened = Opened { recovered: None, disk: MoodyDisk::default(), lock: None };
        let log = Durable::start(opened, sync, u64::MAX).expect("it begins");
        log.begin_unique();
        assert!(log.shared.wait_until_synced(log.shared.position()));
        wait_until(|| log.shared.writer_waits.load(Ordering::Acquire));
    }
}

#[test]
fn after_a_close_nobody_waits_for_ever() {
    let disk = MoodyDisk::default();
    let embedded = embedded(&disk);
    let log = embedded.log.as_ref().expect("it has one");
    log.close().expect("all is written");
    let mut tail = log.shared.tail.lock();
    tail.reserve_unique(1 << 40);
    log.shared.has_noted(tail);
    let settling = log.until_durable().expect("it is not on the disk");
    assert!(matches!(pollster::block_on(settling), Err(Error::Unknown(_))));
    assert!(!log.shared.wait_until_synced(u64::MAX), "a snapshot is given up");
}

#[test]
fn a_write_that_waits_for_room_past_its_deadline_is_unknown() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_millis(50));
    disk.is(FULL);
    assert!(matches!(add(&store), Err(Error::Unknown(_))));
    disk.is(WELL);
}

/// Nobody knows what a sync that failed has left on the disk.
#[test]
fn a_disk_that_fails_stops_the_store() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_secs(30));
    add(&store).expect("all is well");
    disk.is(BROKEN);
    assert!(matches!(add(&store), Err(Error::Unknown(_))));
    disk.is(WELL);
    for refused in [add(&store).map(|()| 0), pollster::block_on(store.counter("hits").get())] {
        let refused = refused.expect_err("the log stopped");
        let cause = std::error::Error::source(&refused).expect("what the disk said");
        assert!(cause.is::<LogError>(), "{cause:?}");
        assert!(
            matches!(refused, Error::Commit(CommitError::LogStopped { .. })) && !refused.is_retryable(),
            "{refused}"
        );
    }
    assert!(matches!(pollster::block_on(store.close()), Err(Error::Commit(CommitError::LogStopped { .. }))));
}

/// What was reported may be lost then.
#[test]
fn a_last_sync_that_fails_is_told_at_the_close() {
    for (state, is_told) in [(WELL, false), (BROKEN, true)] {
        let disk = MoodyDisk::default();
        let embedded = embedded_with(&disk, SyncPolicy::Every(Duration::MAX));
        let store = Store { backend: embedded, options: TxOptions::default(), caller: None };
        add(&store).expect("it is not waited for");
        disk.is(state);
        let again = store.clone();
        for store in [store, again] {
            let closed = pollster::block_on(store.close());
            assert_eq!(
                matches!(closed, Err(Error::Commit(CommitError::LogStopped { .. }))),
                is_told,
                "{closed:?}"
            );
            assert_eq!(closed.is_err(), is_told, "{closed:?}");
        }
    }
}
