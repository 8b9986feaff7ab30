//! What users do with handles of transactions, on any host: answers that they drop, clones in several tasks, handles that
//! they keep too long.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claret::{
    Abort, Error, Records, Store, Tx, TxOptions,
    errors::{CommitError, HandleError},
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) mod closing;
pub(crate) mod documents;
pub(crate) mod living;
pub(crate) mod moving;
pub(crate) mod versions;

/// Far longer than anything here takes: what waits for ever ends the test.
const STALL: Duration = Duration::from_secs(60);

/// All of it, on keys that begin like this.
pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}{name}");
    in_time(dropped_answers(store, key("held"), key("list"))).await;
    in_time(clones(store, prefix)).await;
    in_time(kept_after_the_end(store, key("k"))).await;
    in_time(kept_from_attempt_to_attempt(store, key("x"), key("y"), key("z"))).await;
    in_time(kept_after_giving_up(store, key("u"), key("v"))).await;
}

async fn in_time<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(STALL, test).await.expect("no stall")
}

/// A transaction that holds a counter until it is told to go on.
async fn hold(store: &Store, key: &str) -> (Arc<Notify>, JoinHandle<Result<(), Error>>) {
    let (held, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (store, key) = (store.clone(), key.to_owned());
    let (signal, wait) = (Arc::clone(&held), Arc::clone(&go_on));
    let holder = tokio::spawn(async move {
        let held = store.transaction(|tx| {
            let (key, signal, wait) = (key.clone(), Arc::clone(&signal), Arc::clone(&wait));
            async move {
                tx.counter(key).add_returning(1).await?;
                signal.notify_one();
                wait.notified().await;
                Ok(())
            }
        });
        held.await
    });
    held.notified().await;
    (go_on, holder)
}

/// An answer is awaited beside something else, which is there first, and dropped. The commit waits for it all the same.
async fn dropped_answers(store: &Store, held: String, list: String) {
    let (go_on, holder) = hold(store, &held).await;
    let committed = store.transaction(|tx| {
        let (held, list, go_on) = (held.clone(), list.clone(), Arc::clone(&go_on));
        async move {
            tokio::select! {
                biased;
                answer = tx.counter(&held).get() => panic!("it is held: {answer:?}"),
                () = std::future::ready(()) => {}
            }
            drop(tx.counter(&held).get());
            tx.list(&list).push_back("once")?;
            go_on.notify_one();
            Ok(())
        }
    });
    committed.await.expect("committed");
    holder.await.expect("it does not panic").expect("committed");
    assert_eq!(store.list(&list).len().await.expect("read"), 1);
    assert_eq!(store.counter(&held).get().await.expect("read"), 1);
}

/// Several tasks share one transaction, some on one record.
async fn clones(store: &Store, prefix: &str) {
    let committed = store.transaction(|tx| async move {
        let tasks: Vec<_> = (0..8_i64)
            .map(|number| {
                let (tx, key) = (tx.clone(), format!("{prefix}c{}", number % 3));
                tokio::spawn(async move {
                    tx.counter(&key).add(1)?;
                    tx.counter(&key).add_returning(1).await
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic")?;
        }
        Ok(())
    });
    committed.await.expect("committed");
    let mut sum = 0;
    for number in 0..3 {
        sum += store.counter(format!("{prefix}c{number}")).get().await.expect("read");
    }
    assert_eq!(sum, 16);
}

/// Nothing can be done with a handle of what is over.
async fn assert_over(tx: &Tx, key: &str) {
    assert_eq!(tx.counter(key).add(100), Err(Error::Handle(HandleError::Finished)));
    assert_eq!(tx.counter(key).add_returning(100).await, Err(Error::Handle(HandleError::Finished)));
    assert_eq!(tx.counter(key).get_for_update().await, Err(Error::Handle(HandleError::Finished)));
}

/// The closure returned, and a handle to its transaction is left: committed, aborted, too late.
async fn kept_after_the_end(store: &Store, key: String) {
    let kept = Mutex::new(None);
    let keep = |tx: &Tx| *kept.lock().expect("no panic") = Some(tx.clone());
    let taken = || kept.lock().expect("no panic").take().expect("it ran");
    let committed = store.transaction(|tx| {
        keep(&tx);
        let key = key.clone();
        async move { Ok(tx.counter(key).add_returning(1).await?) }
    });
    assert_eq!(committed.await.expect("committed"), 1);
    assert_over(&taken(), &key).await;

    let aborted = store.transaction(|tx| {
        keep(&tx);
        let key = key.clone();
        async move {
            tx.counter(key).add_returning(10).await?;
            Err::<(), _>(Abort::because("no"))
        }
    });
    assert!(matches!(aborted.await, Err(Error::Aborted(_))));
    assert_over(&taken(), &key).await;

    let hasty = TxOptions::new().deadline(Duration::from_millis(20));
    let late = store.tx().options(hasty).run(|tx| {
        keep(&tx);
        let key = key.clone();
        async move {
            tx.counter(key).add_returning(10).await?;
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    assert!(matches!(
        late.await,
        Err(Error::Commit(CommitError::Deadline { .. } | CommitError::NoAnswer { .. }))
    ));
    assert_over(&taken(), &key).await;
    assert_eq!(store.counter(&key).get().await.expect("nobody holds it"), 1);
}

/// The younger of two that meet in opposite orders gives way. In its next attempt it uses the handle of the first one.
async fn kept_from_attempt_to_attempt(store: &Store, x: String, y: String, z: String) {
    let (x_held, y_held) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let elder = tokio::spawn({
        let (store, x, y) = (store.clone(), x.clone(), y.clone());
        let (x_held, y_held) = (Arc::clone(&x_held), Arc::clone(&y_held));
        async move {
            let both = store.transaction(|tx| {
                let (x, y) = (x.clone(), y.clone());
                let (x_held, y_held) = (Arc::clone(&x_held), Arc::clone(&y_held));
                async move {
                    tx.counter(y).add_returning(1).await?;
                    y_held.notify_one();
                    x_held.notified().await;
                    tx.counter(x).add_returning(1).await?;
                    Ok(())
                }
            });
            both.await.expect("committed");
        }
    });
    y_held.notified().await;
    let (made, kept) = (AtomicU32::new(0), Mutex::new(None));
    let younger = store.transaction(|tx| {
        let (x, y, z, x_held) = (x.clone(), y.clone(), z.clone(), Arc::clone(&x_held));
        let (made, kept) = (made.fetch_add(1, Ordering::SeqCst) + 1, &kept);
        async move {
            if made == 1 {
                tx.counter(&x).add_returning(1).await?;
                // Another task has a clone, and waits for an answer that never comes.
                let clone = tx.clone();
                let waits = tokio::spawn({
                    let y = y.clone();
                    async move { clone.counter(y).get().await }
                });
                *kept.lock().expect("no panic") = Some((tx.clone(), waits));
                x_held.notify_one();
                let told = tx.counter(&y).get().await;
                assert_eq!(told, Err(Error::Restart));
                assert_eq!(tx.list(&z).push_back("of the first"), Err(Error::Restart));
                return Ok(made); // Its closure ignores all that.
            }
            let earlier = kept.lock().expect("no panic").take();
            if let Some((earlier, waits)) = earlier {
                let told = waits.await.expect("no panic");
                assert!(
                    matches!(told, Err(Error::Restart | Error::Handle(HandleError::Finished))),
                    "{told:?}"
                );
                assert_over(&earlier, &z).await;
            }
            tx.counter(&x).add_returning(1).await?;
            tx.list(&z).push_back("of the last")?;
            Ok(made)
        }
    });
    assert!(younger.await.expect("committed") > 1);
    elder.await.expect("done");
    assert_eq!(store.counter(&x).get().await.expect("read"), 2);
    assert_eq!(store.list(&z).all::<String>().await.expect("read"), ["of the last"]);
}

/// The future of a transaction is dropped while a handle is kept: it is given up all the same.
async fn kept_after_giving_up(store: &Store, u: String, v: String) {
    let kept = Mutex::new(None);
    let (go_on, holder) = hold(store, &v).await;
    {
        let given_up = store.transaction(|tx| {
            let (u, v) = (u.clone(), v.clone());
            let waits = tokio::spawn({
                let tx = tx.clone();
                async move {
                    tx.counter(u).add_returning(1).await?;
                    tx.counter(v).get().await
                }
            });
            *kept.lock().expect("no panic") = Some((tx, waits));
            std::future::pending::<Result<(), Abort>>()
        });
        let given_up = std::pin::pin!(given_up);
        let waker = std::task::Waker::noop();
        assert!(given_up.poll(&mut std::task::Context::from_waker(waker)).is_pending());
    }
    let (tx, waits) = kept.lock().expect("no panic").take().expect("it ran");
    assert_eq!(
        waits.await.expect("no panic"),
        Err(Error::Handle(HandleError::Finished)),
        "it is told, though nobody asks"
    );
    assert_over(&tx, &u).await;
    go_on.notify_one();
    holder.await.expect("it does not panic").expect("committed");
    assert_eq!(store.counter(&u).get().await.expect("nobody holds it"), 0);
}
