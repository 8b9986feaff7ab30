//! The blocking mirror: what it has of the store, and where it must not wait.

use std::sync::Arc;

use claret::types::Counter;
use claret::{
    Abort, Error, Records, Store,
    errors::BeginError,
    lab::{Mode, StoreLab},
};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};

/// A task of this runtime that holds a counter until it is told to go on.
async fn hold(store: &Store, key: &'static str) -> (Arc<Notify>, JoinHandle<Result<(), Error>>) {
    let (held, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (store, signal, wait) = (store.clone(), Arc::clone(&held), Arc::clone(&go_on));
    let holder = tokio::spawn(async move {
        let (signal, wait) = (&signal, &wait);
        let body = |tx: claret::Tx| async move {
            tx.counter(key).add_returning(1).await?;
            signal.notify_one();
            wait.notified().await;
            Ok(())
        };
        store.transaction(body).await
    });
    held.notified().await;
    (go_on, holder)
}

/// Bug: a blocking call waited for a lock whose holder could not run, because the call held its thread.
#[tokio::test]
async fn a_wait_on_the_only_thread_of_a_runtime_is_an_error() {
    let modes = [Mode::CommutingPhased, Mode::Commuting, Mode::ReaderWriterPhased];
    for mode in modes.into_iter().chain(Mode::ways()) {
        let store = Store::builder().mode(mode).build();
        let blocking = store.blocking();
        let (go_on, holder) = hold(&store, "held").await;
        let refused = Error::Begin(BeginError::BlocksRuntime);

        assert_eq!(blocking.counter("held").get().unwrap_err(), refused, "{mode:?}");
        assert_eq!(blocking.get_many::<i64>(["held"]).unwrap_err(), refused, "{mode:?}");
        let both = blocking.transaction(|tx| {
            tx.counter("other").add(1)?;
            Ok(tx.counter("held").get()?)
        });
        assert_eq!(both.unwrap_err(), refused, "{mode:?}");
        let ignored = blocking.transaction(|tx| {
            tx.counter("other").add(1)?;
            let _ = tx.counter("held").get();
            Ok(())
        });
        assert_eq!(ignored.unwrap_err(), refused, "{mode:?}");
        let own: Result<(), Abort> = blocking.try_transaction(|tx| {
            tx.counter("other").add(1)?;
            tx.counter("held").get()?;
            Ok(())
        });
        assert!(matches!(own, Err(Abort::Store(Error::Begin(BeginError::BlocksRuntime)))), "{own:?}");
        let batch = blocking.batch();
        batch.counter("other").add(1);
        let _ = batch.counter("held").get();
        assert_eq!(batch.commit().unwrap_err(), refused, "{mode:?}");

        // A thread for blocking may wait.
        let waits = {
            let blocking = blocking.clone();
            spawn_blocking(move || blocking.transaction(|tx| Ok(tx.counter("held").get()?)))
        };
        go_on.notify_one();
        holder.await.expect("no panic").expect("committed");
        assert_eq!(waits.await.expect("no panic").expect("committed"), 1, "{mode:?}");
        assert_eq!(store.counter("other").get().await.expect("read"), 0, "{mode:?}: nothing was done");
        assert_eq!(store.stats().open_attempts, 0, "{mode:?}");
        store.check_invariants();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_of_several_threads_runs_the_holder_meanwhile() {
    let store = Store::in_memory();
    let (go_on, holder) = hold(&store, "held").await;
    go_on.notify_one();
    let blocking = store.blocking();
    let read = tokio::task::block_in_place(|| blocking.counter("held").get());
    assert!(matches!(read, Ok(1)), "{read:?}");
    holder.await.expect("no panic").expect("committed");
}

#[test]
fn the_mirror_has_what_the_store_has() -> Result<(), Error> {
    let store = Store::in_memory().blocking();
    assert_eq!(store.peek::<Counter>("n").expect("in this process"), None);
    store.run_all([("n".into(), claret::Operation::new::<Counter>(claret::types::CounterOp::Add(2)))])?;
    assert_eq!(store.type_of("n").expect("in this process"), Some("counter"));
    assert_eq!(store.stats().restarts, 0);
    store.check_invariants();
    let updated = store.transaction(|tx| {
        let read = tx.counter("n").get_for_update()?;
        tx.register("n").set(read * 2)?;
        Ok(tx.register("n").get_for_update::<i64>()?)
    })?;
    assert_eq!(updated, Some(4));
    Ok(())
}
