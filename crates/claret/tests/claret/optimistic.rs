//! Optimistic transactions and conditional batches on the embedded store, in every mode that has locks.

use claret::{
    Records, Store, TxOptions,
    lab::{Mode, StoreLab},
};

use crate::any_host::optimistic;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn optimistic_transactions_on_the_embedded_store() {
    let modes = [Mode::CommutingPhased, Mode::Commuting, Mode::ReaderWriterPhased, Mode::ReaderWriter];
    for mode in modes.into_iter().chain(Mode::ways()) {
        println!("{mode:?}");
        let store = Store::builder().mode(mode).shards(4).build();
        optimistic::all(&store, "k:").await;
        store.check_invariants();
        let stats = store.stats();
        assert_eq!((stats.open_attempts, stats.locked_records), (0, 0), "{mode:?}");
    }
}

/// There are no locks that it could do without.
#[tokio::test]
async fn without_locks_nothing_is_optimistic() {
    let store = Store::builder().mode(Mode::None).build();
    let options = TxOptions::new().optimistic();
    let seen = store.tx().options(options).run(async |tx| {
        tx.counter("c").add(1)?;
        Ok((tx.counter("c").get().await?, tx.attempt()))
    });
    assert_eq!(seen.await, Ok((1, 1)));
    let batch = store.batch();
    batch.counter("c").add(1);
    let count = batch.counter("c").get();
    batch.expect(count, 7_i64);
    let told = batch.commit().await.expect_err("nothing can be expected").to_string();
    assert!(told.contains("mode none"), "{told}");
    assert_eq!(store.counter("c").get().await, Ok(1), "nothing was done");
}
