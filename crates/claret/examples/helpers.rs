//! Helper functions that work wherever operations are issued: on a store, in a transaction, in a batch.
//!
//! ```sh
//! cargo run --example helpers
//! ```
//!
//! A function over [`Records`] issues void operations and gives back what its scope gives. One over [`AsyncScope`] also awaits
//! answers, on a store and in a transaction; one over [`BlockingScope`] does so in the blocking mirror.

use claret::{AsyncScope, BlockingScope, Error, Records, Store};

/// Everywhere: a guest takes seats. What it gives back is up to the scope: a future of a store, a result in a transaction,
/// nothing in a batch.
fn note<S: Records>(scope: &S, guest: &str, seats: i64) -> S::Void {
    scope.dict("seats:of").add(guest, seats)
}

/// On a store and in a transaction: what is free after somebody has taken some.
async fn take(scope: &impl AsyncScope, guest: &str, seats: i64) -> Result<Option<i64>, Error> {
    if !scope.bounded_counter("seats").try_take(seats).await? {
        return Ok(None);
    }
    scope.done(note(scope, guest, seats)).await?;
    scope.bounded_counter("seats").get().await
}

/// The same in the blocking mirror.
fn take_blocking(scope: &impl BlockingScope, guest: &str, seats: i64) -> Result<Option<i64>, Error> {
    if !scope.bounded_counter("seats").try_take(seats)? {
        return Ok(None);
    }
    note(scope, guest, seats)?;
    scope.bounded_counter("seats").get()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = Store::in_memory();
    store.bounded_counter("seats").create(10, 0, 10).await?;

    // Each operation a transaction of its own.
    assert_eq!(take(&store, "ada", 2).await?, Some(8));

    // All of them one transaction.
    let left = store.transaction(|tx| async move { Ok(take(&tx, "bob", 3).await?) }).await?;
    assert_eq!(left, Some(5));

    // One step, and no answers.
    let batch = store.batch();
    note(&batch, "cleo", 0);
    batch.commit().await?;

    // Threads that block.
    let blocking = store.blocking();
    let left = tokio::task::spawn_blocking(move || {
        take_blocking(&blocking, "dan", 1)?;
        blocking.transaction(|tx| Ok(take_blocking(tx, "eve", 4)?))
    });
    assert_eq!(left.await.expect("it does not panic")?, Some(0));

    let seats = store.dict("seats:of").all::<String, i64>().await?;
    for (guest, seats) in seats.0 {
        println!("{guest} has {seats} seats");
    }
    Ok(())
}
