//! Each documented form of a closure, inside `tokio::spawn`, which asks for futures that are `Send`.

use std::sync::Arc;

use claret::{Abort, Error, Records, Store, Tx};

/// An error of an application's own.
#[derive(Debug, PartialEq)]
enum SoldOut {
    Yes,
    Store(Error),
}

impl From<Error> for SoldOut {
    fn from(error: Error) -> Self {
        SoldOut::Store(error)
    }
}

/// An async closure borrows what it uses: no clones.
#[tokio::test(flavor = "multi_thread")]
async fn an_async_closure_borrows_what_it_uses() {
    let store = Store::in_memory();
    let spawned = {
        let (store, name, seats) = (store.clone(), "ada".to_owned(), vec![1, 2]);
        tokio::spawn(async move {
            let left = store
                .transaction(async |tx| {
                    for seat in &seats {
                        tx.set(&name).add(*seat)?;
                    }
                    Ok(tx.set(&name).len().await?)
                })
                .await?;
            // They are still here.
            Ok::<_, Error>((name, seats.len() as u64, left))
        })
    };
    assert_eq!(spawned.await.unwrap().unwrap(), ("ada".to_owned(), 2, 2));
}

/// The same with an error of the application's own.
#[tokio::test(flavor = "multi_thread")]
async fn an_async_closure_has_errors_of_its_own() {
    let store = Store::in_memory();
    store.bounded_counter("seats").create(1, 0, 1).await.unwrap();
    let buy = |seats: i64| {
        let (store, name) = (store.clone(), "ada".to_owned());
        tokio::spawn(async move {
            store
                .try_transaction(async |tx| {
                    if !tx.bounded_counter("seats").try_take(seats).await? {
                        return Err(SoldOut::Yes);
                    }
                    tx.set("guests").add(&name)?;
                    Ok(())
                })
                .await
        })
    };
    assert_eq!(buy(2).await.unwrap(), Err(SoldOut::Yes));
    assert_eq!(buy(1).await.unwrap(), Ok(()));
}

/// A closure that gives a future back: references are made before it, and moved into the future.
#[tokio::test(flavor = "multi_thread")]
async fn a_closure_moves_references_into_its_future() {
    let store = Store::in_memory();
    let spawned = {
        let (store, name) = (store.clone(), "ada".to_owned());
        tokio::spawn(async move {
            let name = &name;
            store
                .transaction(|tx| async move {
                    tx.counter(name).add(1)?;
                    if tx.counter(name).get().await? > 1 {
                        return Err(Abort::because("too many"));
                    }
                    Ok(())
                })
                .await
        })
    };
    spawned.await.unwrap().unwrap();
}

/// A closure that owns what it uses, for futures that outlive the function.
#[tokio::test(flavor = "multi_thread")]
async fn a_closure_clones_for_each_attempt() {
    let store = Store::in_memory();
    let name = Arc::new("ada".to_owned());
    let spawned = {
        let store = store.clone();
        tokio::spawn(async move {
            let body = move |tx: Tx| {
                let name = Arc::clone(&name);
                async move { Ok(tx.register(&*name).set(1)?) }
            };
            store.transaction(body).await
        })
    };
    spawned.await.unwrap().unwrap();
    assert_eq!(store.register("ada").get().await.unwrap(), Some(1));
}

/// A function instead of a closure.
async fn count(tx: Tx) -> Result<i64, Abort> {
    Ok(tx.counter("n").add_returning(1).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_is_a_closure_too() {
    let store = Store::in_memory();
    let spawned = tokio::spawn(async move { store.transaction(count).await });
    assert_eq!(spawned.await.unwrap().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_once_borrows_too() {
    let store = Store::in_memory();
    let spawned = {
        let (store, order) = (store.clone(), "order:7".to_owned());
        tokio::spawn(async move {
            store.tx().once(&order).run(async |tx| Ok(tx.set("orders").add(&order)?)).await.map(|_| ())
        })
    };
    spawned.await.unwrap().unwrap();
    assert_eq!(store.set("orders").len().await.unwrap(), 1);
}
