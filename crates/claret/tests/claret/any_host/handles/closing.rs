//! What a store answers once it is closed, on any host: to what is begun then, and to what is waiting.

use std::time::Duration;

use claret::{Abort, Error, Records, Store, TxOptions, errors::BeginError};

use super::{hold, in_time};

/// Far longer than the test may take: what ends at its deadline has not ended by the store's close.
const LATE: Duration = Duration::from_secs(3600);

/// On keys that begin like this. Closes the store.
pub(crate) async fn all(store: &Store, prefix: &str) {
    in_time(closed_while_they_wait(store, prefix)).await;
    in_time(closed_before(store, prefix)).await;
}

async fn closed_while_they_wait(store: &Store, prefix: &str) {
    let key = format!("{prefix}held");
    let (go_on, holder) = hold(store, &key).await;
    let late = TxOptions::new().deadline(LATE);
    let wait = |which: u8| {
        let (store, key) = (store.clone(), key.clone());
        tokio::spawn(async move {
            match which {
                0 => store.counter(&key).get().await,
                1 => {
                    store
                        .tx()
                        .options(late)
                        .run(|tx| {
                            let key = key.clone();
                            async move { Ok(tx.counter(key).get().await?) }
                        })
                        .await
                }
                2 => {
                    let batch = store.batch();
                    batch.register(&key).set("x");
                    batch.counter(format!("{key}2")).add(1);
                    batch.commit().await.map(|_| 0)
                }
                _ => {
                    let blocking = store.blocking();
                    let read = move || blocking.tx().options(late).run(|tx| Ok(tx.counter(&key).get()?));
                    tokio::task::spawn_blocking(read).await.expect("it does not panic")
                }
            }
        })
    };
    let waiting: Vec<_> = (0..4).map(wait).collect();
    // Mostly they wait by then; if not, they answer the same.
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.clone().close().await.expect("it closes");
    for (which, waiting) in waiting.into_iter().enumerate() {
        let error = waiting.await.expect("it does not panic").expect_err("the store is closed");
        assert!(matches!(error, Error::Begin(BeginError::Closed)), "{which}: {error:?}");
    }
    go_on.notify_one();
    let error = holder.await.expect("it does not panic").expect_err("the store is closed");
    assert!(matches!(error, Error::Begin(BeginError::Closed)), "{error:?}");
}

async fn closed_before(store: &Store, prefix: &str) {
    let key = format!("{prefix}later");
    let blocking = store.blocking();
    let refused = store.transaction::<(), _, _>(|_| async { panic!("it is not called") });
    let single = blocking.clone();
    let errors = [
        refused.await.expect_err("closed"),
        store.counter(&key).get().await.expect_err("closed"),
        store.batch().commit().await.expect_err("closed"),
        store.tx().once(&key).run(|_| async { Ok(()) }).await.expect_err("closed"),
        blocking.transaction::<()>(|_| panic!("it is not called")).expect_err("closed"),
        single.counter(&key).add(1).expect_err("closed"),
    ];
    for error in errors {
        assert!(matches!(error, Error::Begin(BeginError::Closed)), "{error:?}");
        assert!(!error.is_retryable() && error.to_string().contains("open it again"), "{error}");
    }
    // Again, by each handle.
    store.clone().close().await.expect("it closes");
    blocking.close().expect("it closes");
}

/// A transaction that runs when the store is closed is told so by its next operation, and does not commit.
pub(crate) async fn closed_in_a_closure(store: &Store, key: String) {
    let closed = store.transaction(|tx| {
        let (store, key) = (store.clone(), key.clone());
        async move {
            tx.counter(&key).add_returning(1).await?;
            store.close().await.expect("it closes");
            let error = tx.counter(&key).add_returning(1).await.expect_err("closed");
            assert!(matches!(error, Error::Begin(BeginError::Closed)), "{error:?}");
            Err::<(), _>(Abort::because("something else"))
        }
    });
    let error = in_time(closed).await.expect_err("closed");
    assert!(matches!(error, Error::Begin(BeginError::Closed)), "{error:?}");
}
