//! What became of a transaction whose caller heard that it is unknown: a store in a folder says so, and says the same when it is opened
//! again, whatever of its log was left.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use claret::{
    Error, Outcome, OutcomeId, Records, Store, TxOptions,
    errors::{BeginError, CommitError},
};
use claret_rig::TestFolder;

fn wait<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

fn outcome(store: &Store, id: &OutcomeId) -> Outcome {
    wait(store.outcome(id)).expect("it is open")
}

/// What a crash at this moment leaves.
fn copy(from: &TestFolder) -> TestFolder {
    let to = TestFolder::new();
    for entry in fs::read_dir(from.path()).expect("a folder").flatten() {
        if entry.file_name() != "lock" {
            fs::copy(entry.path(), to.path().join(entry.file_name())).expect("copied");
        }
    }
    to
}

/// A transaction that is done and not on the disk by its deadline.
fn unknown(store: &Store) -> OutcomeId {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let hurried = TxOptions::new().deadline(Duration::from_nanos(1));
        match wait(store.tx().options(hurried).run(async |tx| Ok(tx.counter("hurried").add(1)?))) {
            Err(Error::Unknown(id)) => return id,
            Ok(()) | Err(Error::Commit(CommitError::Deadline { .. })) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk is faster than any deadline");
}

fn reopened(path: &Path, id: &OutcomeId) -> Outcome {
    let store = Store::open(path).expect("it is there");
    let became = outcome(&store, id);
    wait(store.close()).expect("it closes");
    became
}

#[test]
fn it_is_known_once_it_is_on_the_disk_and_in_every_life_after_that() {
    let folder = TestFolder::new();
    wait(Store::open(folder.path()).expect("it begins").close()).expect("it closes");
    let older = copy(&folder);
    let store = Store::open(folder.path()).expect("it is there");
    wait(store.counter("first").add(1)).expect("on the disk");
    let before = copy(&folder);
    let id = unknown(&store);
    let began = Instant::now();
    while outcome(&store, &id) == Outcome::NotYet {
        assert!(began.elapsed() < Duration::from_secs(20), "the disk is slow");
        std::thread::yield_now();
    }
    assert_eq!(outcome(&store, &id), Outcome::Committed);
    let after = copy(&folder);
    let id: OutcomeId = id.to_string().parse().expect("the same");
    wait(store.close()).expect("it closes");
    for _ in 0..3 {
        assert_eq!(reopened(folder.path(), &id), Outcome::Committed, "of an earlier life");
        assert_eq!(reopened(after.path(), &id), Outcome::Committed, "the process died after it");
        assert_eq!(reopened(before.path(), &id), Outcome::Aborted, "the log ends before it");
        assert_eq!(reopened(older.path(), &id), Outcome::Aborted, "nothing of that life is left");
    }
    let other = TestFolder::new();
    assert_eq!(reopened(other.path(), &id), Outcome::Forgotten, "another store");
    assert_eq!(outcome(&Store::in_memory(), &id), Outcome::Forgotten);
}

#[test]
fn snapshots_that_let_the_log_go_keep_it() {
    let folder = TestFolder::new();
    let store = Store::open(folder.path()).expect("it begins");
    let id = unknown(&store);
    wait(store.close()).expect("it closes");
    let first = folder.path().join("log-0000000000000000");
    let began = Instant::now();
    while first.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the log does not go");
        let store = Store::builder().snapshot_after(32 << 10).open(folder.path()).expect("it is there");
        assert_eq!(outcome(&store, &id), Outcome::Committed);
        for number in 0..20 {
            wait(store.register(format!("r{number}")).set("x".repeat(2_000))).expect("on the disk");
        }
        wait(store.close()).expect("it closes");
    }
    assert_eq!(reopened(folder.path(), &id), Outcome::Committed);
}

#[test]
fn a_closed_store_is_asked_nothing() {
    let store = Store::in_memory();
    let id: OutcomeId = "none".parse().expect("one that nobody knows");
    assert_eq!(outcome(&store, &id), Outcome::Forgotten);
    assert_eq!(store.blocking().outcome(&id), Ok(Outcome::Forgotten));
    let other = store.clone();
    wait(store.close()).expect("it closes");
    assert_eq!(wait(other.outcome(&id)), Err(Error::Begin(BeginError::Closed)));
}
