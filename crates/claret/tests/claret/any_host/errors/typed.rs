//! Closures with an error type of their own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use claret::{
    Error, Records, Store, Tx, TxOptions,
    errors::{CommitError, ExecuteError},
};

#[derive(Clone, Debug, PartialEq)]
enum Purchase {
    SoldOut { wanted: i64 },
    Store(Error),
}

impl From<Error> for Purchase {
    fn from(error: Error) -> Self {
        Purchase::Store(error)
    }
}

pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}typed:{name}");
    buy_until_sold_out(store, &key("seats"), &key("guests")).await;
    told_by_the_store(store, &key("list")).await;
    run_again_whatever_the_closure_says(store, &key("fought")).await;
    late_in_the_blocking_mirror(store, &key("held")).await;
}

async fn buy(tx: &Tx, seats: &str, guests: &str, wanted: i64) -> Result<i64, Purchase> {
    tx.set(guests).add("ada")?;
    if !tx.bounded_counter(seats).try_take(wanted).await? {
        return Err(Purchase::SoldOut { wanted });
    }
    Ok(wanted)
}

/// What the closure says comes back as it is, and nothing of the transaction is done.
async fn buy_until_sold_out(store: &Store, seats: &str, guests: &str) {
    store.bounded_counter(seats).create(2, 0, 2).await.expect("created");
    let bought =
        |wanted| store.try_transaction(move |tx| async move { buy(&tx, seats, guests, wanted).await });
    assert_eq!(bought(3).await, Err(Purchase::SoldOut { wanted: 3 }));
    assert!(!store.set(guests).contains("ada").await.expect("read"), "it was aborted");
    assert_eq!(bought(2).await, Ok(2));
    assert!(store.set(guests).contains("ada").await.expect("read"));
    let within = TxOptions::new().attempts(3);
    let left = store.tx().options(within).try_run(|tx| async move { buy(&tx, seats, guests, 1).await });
    assert_eq!(left.await, Err(Purchase::SoldOut { wanted: 1 }));
    let (blocking, key) = (store.blocking(), seats.to_owned());
    let sold_out = move || {
        blocking.try_transaction(|tx| match tx.bounded_counter(&key).try_take(1)? {
            true => Ok(()),
            false => Err(Purchase::SoldOut { wanted: 1 }),
        })
    };
    let sold_out = tokio::task::spawn_blocking(sold_out).await.expect("no panic");
    assert_eq!(sold_out, Err(Purchase::SoldOut { wanted: 1 }));
}

/// What the store says of a transaction reaches the caller as the closure's type, by `?` and without it.
async fn told_by_the_store(store: &Store, list: &str) {
    store.list(list).push_back("x").await.expect("pushed");
    let is_wrong_type = |told: Result<(), Purchase>| match told {
        Err(Purchase::Store(Error::Execute(ExecuteError::Invalid { key, error }))) => {
            key == list.into() && error.to_string().starts_with("WRONGTYPE")
        }
        _ => false,
    };
    let by_commit = store.try_transaction(|tx| async move { Ok(tx.counter(list).add(1)?) });
    assert!(is_wrong_type(by_commit.await));
    let by_call = store.try_transaction(|tx| async move {
        tx.counter(list).get().await?;
        Ok(())
    });
    assert!(is_wrong_type(by_call.await));
    let looked_away = store.try_transaction(|tx| async move {
        let _ = tx.counter(list).get().await;
        Ok(())
    });
    assert!(is_wrong_type(looked_away.await), "the closure does not commit what is doomed");
    let own = store.try_transaction(|tx| async move {
        let _ = tx.counter(list).get().await;
        Err::<(), _>(Purchase::SoldOut { wanted: 7 })
    });
    assert_eq!(own.await, Err(Purchase::SoldOut { wanted: 7 }), "its own word is the one that comes back");
}

/// Two transactions read, and then write what both have read: one gives way. Its closure makes an error of its own of
/// that, which has lost where it came from, and yet it runs again.
async fn run_again_whatever_the_closure_says(store: &Store, key: &str) {
    let (runs, met) = (AtomicU32::new(0), tokio::sync::Barrier::new(2));
    let fight = || {
        store.try_transaction(|tx| {
            let is_first = runs.fetch_add(1, Ordering::Relaxed) < 2;
            let (met, lost) = (&met, Purchase::SoldOut { wanted: 0 });
            async move {
                let read = tx.counter(key).get().await.map_err(|_| lost.clone())?;
                if is_first {
                    met.wait().await;
                }
                tx.counter(key).add_returning(1).await.map_err(|_| lost)?;
                Ok::<_, Purchase>(read)
            }
        })
    };
    let (one, other) = tokio::join!(fight(), fight());
    let mut read = [one.expect("it commits"), other.expect("it commits")];
    read.sort_unstable();
    assert_eq!(read, [0, 1]);
    assert!(runs.load(Ordering::Relaxed) > 2, "one of them ran again");
}

/// A wait that ends at the deadline ends the attempt, whatever the closure makes of it.
async fn late_in_the_blocking_mirror(store: &Store, key: &str) {
    let holder = store.try_transaction(|tx| async move {
        tx.counter(key).add_returning(1).await?;
        let (blocking, held) = (store.blocking(), key.to_owned());
        let late = TxOptions::new().deadline(Duration::from_millis(30));
        let late = move || {
            let swallowed = blocking.tx().options(late).try_run(|tx| {
                let _ = tx.counter(&held).get();
                Ok::<_, Purchase>(())
            });
            let replaced = blocking.tx().options(late).try_run(|tx| {
                tx.counter(&held).get().map(|_| ()).map_err(|_| Purchase::SoldOut { wanted: 0 })
            });
            (swallowed, replaced)
        };
        let (swallowed, replaced) = tokio::task::spawn_blocking(late).await.expect("no panic");
        assert!(
            matches!(swallowed, Err(Purchase::Store(Error::Commit(CommitError::Deadline { .. })))),
            "{swallowed:?}"
        );
        assert_eq!(replaced, Err(Purchase::SoldOut { wanted: 0 }));
        Ok::<_, Purchase>(())
    });
    holder.await.expect("nobody disturbed it");
    assert_eq!(store.counter(key).get().await, Ok(1));
}
