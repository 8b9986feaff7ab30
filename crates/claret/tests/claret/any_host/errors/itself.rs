//! A closure that uses the store, not its `tx`: where that would wait for the closure's own transaction it is told so at once.
//! Its deadline is far longer than the test may take, so nothing here ends by it.

use std::time::Duration;

use claret::{
    Abort, Error, Records, Store, TxOptions,
    errors::{CommitError, ExecuteError},
};

pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}itself:{name}");
    of_all_kinds(store, &key("read"), &key("other")).await;
    what_commutes_goes_on(store, &key("shared"), &key("set")).await;
    behind_a_lock_for_a_write(store, &key("locked")).await;
    of_a_transaction_further_out(store, &key("outer"), &key("middle")).await;
    what_is_undone_waits_for_nothing(store, &key("undone"), &key("stays")).await;
    what_was_seen_and_undone_is_checked(store, &key("looked at")).await;
    within_the_blocking_mirror(store, key("blocking")).await;
    on_a_task_of_its_own(store, &key("spawned")).await;
}

fn patient() -> TxOptions {
    TxOptions::new().deadline(Duration::from_secs(3600))
}

fn assert_itself<T: std::fmt::Debug>(told: Result<T, Error>, key: &str) {
    assert_eq!(
        told.as_ref().err(),
        Some(&Error::Execute(ExecuteError::WaitsForItself { key: key.into() })),
        "{told:?}"
    );
    let error = told.expect_err("just seen");
    assert!(!error.is_retryable() && error.to_string().contains(key), "{error}");
}

/// Single operations, batches and transactions that write what the closure has read. It goes on, and commits.
async fn of_all_kinds(store: &Store, key: &str, other: &str) {
    let outer = store.tx().options(patient()).run(|tx| async move {
        let read = tx.counter(key).get().await?;
        assert_itself(store.counter(key).add(1).await, key);
        assert_itself(store.counter(key).add_returning(1).await, key);
        let batch = store.batch();
        batch.counter(other).add(1);
        batch.counter(key).add(1);
        assert_itself(batch.commit().await, key);
        let by_commit = store.tx().options(patient()).run(|tx| async move {
            tx.counter(other).add_returning(1).await?;
            tx.counter(key).add(1)?;
            tx.counter(other).add_returning(1).await?;
            Ok(())
        });
        assert_itself(by_commit.await, key);
        // What was issued on the record goes with the read, which alone would commute.
        let by_call = store.tx().options(patient()).run(|tx| async move {
            tx.counter(key).add(1)?;
            Ok(tx.counter(key).get().await?)
        });
        assert_itself(by_call.await, key);
        let swallowed = store.tx().options(patient()).run(|tx| async move {
            assert_itself(tx.counter(key).add_returning(1).await, key);
            Ok(())
        });
        assert_itself(swallowed.await, key);
        tx.counter(key).add(1)?;
        Ok(read)
    });
    assert_eq!(outer.await, Ok(0));
    assert_eq!(store.counter(key).get().await, Ok(1), "the closure's own is done");
    assert_eq!(store.counter(other).get().await, Ok(0), "nothing of the others");
}

/// What shares the closure's locks does not wait; nor does what meets no more than buffered operations.
async fn what_commutes_goes_on(store: &Store, key: &str, set: &str) {
    let outer = store.tx().options(patient()).run(|tx| async move {
        tx.counter(key).get().await?;
        tx.set(set).add("ours")?;
        store.set(set).add("theirs").await?;
        let nested = store.tx().options(patient()).run(|tx| async move {
            assert!(!tx.set(set).contains("ours").await?, "it is not committed");
            Ok(tx.counter(key).get().await?)
        });
        Ok((store.counter(key).get().await?, nested.await?))
    });
    assert_eq!(outer.await, Ok((0, 0)));
    assert_eq!(store.set(set).len().await, Ok(2));
}

async fn behind_a_lock_for_a_write(store: &Store, key: &str) {
    let outer = store.tx().options(patient()).run(|tx| async move {
        tx.counter(key).get_for_update().await?;
        assert_itself(store.counter(key).get().await, key);
        Err::<(), _>(Abort::because("seen"))
    });
    assert!(matches!(outer.await, Err(Error::Aborted(_))));
    assert_eq!(store.counter(key).get().await, Ok(0), "it is over");
}

async fn of_a_transaction_further_out(store: &Store, outer: &str, middle: &str) {
    let done = store.tx().options(patient()).run(|tx| async move {
        tx.counter(outer).get().await?;
        let middle = store.tx().options(patient()).run(|tx| async move {
            tx.counter(middle).add_returning(1).await?;
            assert_itself(store.counter(outer).add(1).await, outer);
            assert_itself(store.counter(middle).get().await, middle);
            Ok(())
        });
        Ok(middle.await?)
    });
    assert_eq!(done.await, Ok(()));
    assert_eq!(store.counter(middle).get().await, Ok(1));
}

/// Bug: an operation that was rolled back counted all the same. Consequence: the commit was refused for a wait that could not be.
async fn what_is_undone_waits_for_nothing(store: &Store, key: &str, other: &str) {
    for options in [patient(), patient().optimistic()] {
        let outer = store.tx().options(patient()).run(|tx| async move {
            tx.counter(key).get().await?;
            let inner = store.tx().options(options).run(|tx| async move {
                tx.counter(other).add(1)?;
                let here = tx.savepoint()?;
                for _ in 0..2 {
                    tx.counter(key).add(1)?;
                    let _ = tx.at_commit().counter(key).add_returning(1);
                    tx.rollback_to(&here)?;
                }
                let nested = tx.nested(async |tx| {
                    tx.counter(key).add(1)?;
                    Err::<(), _>(Abort::because("not this way"))
                });
                assert!(nested.await.is_err());
                Ok(())
            });
            assert_eq!(inner.await, Ok(()));
            // What was done before the savepoint, and what is done after it, counts.
            for is_before in [true, false] {
                let waits = store.tx().options(options).run(|tx| async move {
                    if is_before {
                        tx.counter(key).add(1)?;
                    }
                    let here = tx.savepoint()?;
                    tx.counter(other).add(1)?;
                    tx.rollback_to(&here)?;
                    if !is_before {
                        tx.counter(key).add(1)?;
                    }
                    Ok(())
                });
                assert_itself(waits.await, key);
            }
            Ok(())
        });
        assert_eq!(outer.await, Ok(()));
    }
    assert_eq!(store.counter(other).get().await, Ok(2));
    assert_eq!(store.counter(key).get().await, Ok(0));
}

/// What was looked at is locked at the commit, though it is undone (N6).
async fn what_was_seen_and_undone_is_checked(store: &Store, key: &str) {
    let outer = store.tx().options(patient()).run(|tx| async move {
        tx.counter(key).get_for_update().await?;
        let inner = store.tx().options(patient().optimistic()).run(|tx| async move {
            let here = tx.savepoint()?;
            tx.counter(key).get().await?;
            tx.rollback_to(&here)?;
            Ok(())
        });
        assert_itself(inner.await, key);
        Ok(())
    });
    assert_eq!(outer.await, Ok(()));
}

async fn within_the_blocking_mirror(store: &Store, key: String) {
    let blocking = store.blocking();
    let outer = move || {
        blocking.tx().options(patient()).run(|tx| {
            tx.counter(&key).get()?;
            assert_itself(blocking.counter(&key).add(1), &key);
            assert_itself(blocking.transaction(|tx| Ok(tx.counter(&key).add(1)?)), &key);
            assert_itself(blocking.transaction(|tx| Ok(tx.counter(&key).add_returning(1)?)), &key);
            Ok(blocking.counter(&key).get()?)
        })
    };
    assert_eq!(tokio::task::spawn_blocking(outer).await.expect("no panic"), Ok(0));
}

/// Nobody sees that the closure waits for another task. The deadline ends that.
async fn on_a_task_of_its_own(store: &Store, key: &str) {
    let outer = store.tx().options(patient()).run(|tx| async move {
        tx.counter(key).get().await?;
        let (store, key) = (store.clone(), key.to_owned());
        let elsewhere = tokio::spawn(async move {
            let late = TxOptions::new().deadline(Duration::from_millis(30));
            store
                .tx()
                .options(late)
                .run(|tx| {
                    let key = key.clone();
                    async move { Ok(tx.counter(key).add(1)?) }
                })
                .await
        });
        Ok(elsewhere.await.expect("no panic"))
    });
    let told = outer.await.expect("it commits");
    assert!(matches!(told, Err(Error::Commit(CommitError::Deadline { .. }))), "{told:?}");
}
