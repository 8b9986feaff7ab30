//! What transactions hear of a disk that is full, and of one that fails.

use std::sync::atomic::AtomicU8;

use claret_core::Limits;

use super::*;
use crate::embedded::Embedded;
use crate::mode::Mode;
use crate::options::TxOptions;
use crate::records::Records;
use crate::store::Store;
use crate::tx::Tx;

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
    let mut embedded = Embedded::new(4, Mode::default(), Limits::default());
    let opened = Opened { recovered: None, disk: disk.clone(), lock: None };
    let log = Durable::start(opened, Sync::EachGroup, u64::MAX).expect("it begins");
    embedded.shards.iter_mut().for_each(|shard| shard.get_mut().keep_journal());
    embedded.log = Some(log);
    Arc::new(embedded)
}

fn store(disk: &MoodyDisk, deadline: Duration) -> Store {
    Store { backend: embedded(disk), options: TxOptions::default().deadline(deadline) }
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

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_secs(30));
    add(&store).expect("there is room");
    disk.is(FULL);
    thread::scope(|scope| {
        // It is done, and waits for room.
        let waits = scope.spawn(|| add(&store));
        while store.backend.check_log(true).is_ok() {
            thread::yield_now();
        }
        let refused = add(&store).expect_err("there is no room");
        assert!(matches!(refused, Error::NoRoom { .. }) && refused.is_retryable(), "{refused}");
        let transaction = store.transaction(async |tx| Ok(tx.counter("hits").add(1)?));
        let refused = pollster::block_on(transaction).expect_err("there is no room");
        assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
        assert!(!waits.is_finished());
        disk.is(WELL);
        assert_eq!(waits.join().expect("it ends"), Ok(()));
    });
    while store.backend.check_log(true).is_err() {
        thread::yield_now();
    }
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
    let store = &Store { backend: Arc::clone(&embedded) as _, options };
    disk.is(FULL);
    thread::scope(|scope| {
        let adds = scope.spawn(|| add(store));
        while store.log_status().is_some_and(|status| status.position == status.synced) {
            thread::yield_now();
        }
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

/// Nothing that only read is unknown (P65).
#[test]
fn who_reads_while_there_is_no_room_hears_that() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_millis(50));
    disk.is(FULL);
    assert_eq!(add(&store), Err(Error::Unknown));
    let refused =
        pollster::block_on(store.counter("hits").get()).expect_err("it saw what is not on the disk");
    assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
    let transaction = store.transaction(async |tx| Ok(tx.counter("hits").get().await?));
    let refused = pollster::block_on(transaction).expect_err("it saw what is not on the disk");
    assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
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

/// A snapshot asks for a sync, once.
#[test]
fn the_writer_rests_when_it_has_done_what_was_asked() {
    for sync in [Sync::EachGroup, Sync::Every(Duration::MAX)] {
        let opened = Opened { recovered: None, disk: MoodyDisk::default(), lock: None };
        let log = Durable::start(opened, sync, u64::MAX).expect("it begins");
        log.begin_unique();
        assert!(log.shared.wait_until_stays(log.shared.position()));
        wait_until(|| log.shared.writer_waits.load(Ordering::Acquire));
        assert!(!log.shared.wants_sync.load(Ordering::Acquire), "it comes back at once");
    }
}

#[test]
fn after_a_close_nobody_waits_for_ever() {
    let disk = MoodyDisk::default();
    let embedded = embedded(&disk);
    let log = embedded.log.as_ref().expect("it has one");
    log.close();
    let mut tail = log.shared.tail.lock();
    tail.reserve_unique(1 << 40);
    log.shared.has_noted(tail);
    let settling = log.settle().expect("it is not on the disk");
    assert_eq!(pollster::block_on(settling), Err(Error::Unknown));
    assert!(!log.shared.wait_until_stays(u64::MAX), "a snapshot is given up");
}

#[test]
fn a_write_that_waits_for_room_past_its_deadline_is_unknown() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_millis(50));
    disk.is(FULL);
    assert_eq!(add(&store), Err(Error::Unknown));
    disk.is(WELL);
}

/// Nobody knows what a sync that failed has left on the disk.
#[test]
fn a_disk_that_fails_stops_the_store() {
    let disk = MoodyDisk::default();
    let store = store(&disk, Duration::from_secs(30));
    add(&store).expect("all is well");
    disk.is(BROKEN);
    assert_eq!(add(&store), Err(Error::Unknown));
    disk.is(WELL);
    for refused in [add(&store).map(|()| 0), pollster::block_on(store.counter("hits").get())] {
        let refused = refused.expect_err("the log stopped");
        assert!(matches!(refused, Error::LogStopped { .. }) && !refused.is_retryable(), "{refused}");
    }
    pollster::block_on(store.close());
}
