//! Savepoints, nested transactions and `settle` on the embedded store, in every mode that has locks, and the blocking mirror.

use claret::{
    Error, Records, Store,
    errors::ExecuteError,
    lab::{Mode, StoreLab},
};

use crate::any_host::nesting;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nesting_on_the_embedded_store() {
    let modes = [
        (Mode::CommutingPhased, true),
        (Mode::Commuting, false),
        (Mode::ReaderWriterPhased, true),
        (Mode::ReaderWriter, false),
    ];
    for (mode, waits) in modes.into_iter().chain(Mode::ways().map(|mode| (mode, true))) {
        println!("{mode:?}");
        let store = Store::builder().mode(mode).shards(4).build();
        nesting::all(&store, "k:", waits).await;
        store.check_invariants();
        let stats = store.stats();
        assert_eq!((stats.open_attempts, stats.locked_records), (0, 0), "{mode:?}");
    }
}

#[test]
fn the_blocking_mirror_nests() {
    let store = Store::in_memory().blocking();
    store.register("word").set("a word").expect("set");
    let seen = store.transaction(|tx| {
        tx.counter("a").add(1)?;
        let point = tx.savepoint()?;
        tx.counter("a").add(10)?;
        tx.settle()?;
        tx.rollback_to(&point)?;
        tx.release(&point)?;
        let failed = tx.nested(|tx| {
            tx.counter("a").add(100)?;
            tx.counter("word").get()
        });
        assert!(matches!(failed, Err(Error::Execute(ExecuteError::Invalid { .. }))), "{failed:?}");
        tx.nested(|tx| tx.counter("a").add(1_000))?;
        Ok(tx.counter("a").get()?)
    });
    assert_eq!(seen, Ok(1_001));
    assert_eq!(store.counter("a").get(), Ok(1_001));
}
