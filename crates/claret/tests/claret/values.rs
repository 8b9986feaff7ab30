//! Values: any Rust type in and out of records, and what happens when a value is of another type.

use claret::{
    AsyncScope, BlockingScope, Bytes, Error, FromValue, IntoValue, Json, Records, Store,
    errors::{ExecuteError, ValueError},
    types::Pairs,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Job {
    id: u32,
    payload: String,
}

/// A value that never has a form as bytes, and never reads.
#[derive(Debug, PartialEq)]
struct Contrary;

impl IntoValue for Contrary {
    fn into_value(self) -> Result<Bytes, ValueError> {
        Err(ValueError::new("contrary", "anything"))
    }
}

impl FromValue for Contrary {
    fn from_value(_: Bytes) -> Result<Self, ValueError> {
        Err(ValueError::new("something", "nothing"))
    }
}

fn job(id: u32) -> Job {
    Job { id, payload: "a payload that is longer than what is kept inline".into() }
}

fn value_error(key: &str, found: &str, asked: &str) -> Error {
    Error::Execute(ExecuteError::Value { key: key.into(), found: found.into(), asked: asked.into() })
}

#[test]
fn every_handle_takes_and_gives_values() -> Result<(), Error> {
    let store = Store::in_memory().blocking();
    store.register("k").set(5)?;
    store.counter("k").add(1)?;
    assert_eq!(store.register("k").get::<String>()?, Some("6".to_owned()));
    assert_eq!(store.register("k").replace::<u8>(2.5)?, Some(6));
    assert_eq!(store.register("k").get()?, Some(2.5));
    assert_eq!(store.register("none").get::<Json<Job>>()?, None);
    store.register("once").initialize(true)?;
    store.register("once").initialize(false)?;
    assert_eq!(store.register("once").get()?, Some(true));

    let dict = store.dict("d");
    dict.set_many([("a", 1), ("b", 2)])?;
    assert_eq!(dict.set_many_returning([("b", "x"), ("c", "y")])?, 1);
    assert!(!dict.set_returning("a", 7)?);
    assert_eq!(dict.get_many(["a", "no"])?, [Some(7), None]);
    assert_eq!(dict.fields::<String>()?, ["a", "b", "c"]);
    assert_eq!((dict.remove_returning("b")?, dict.remove_many_returning(["a", "b"])?), (true, 1));
    assert_eq!(dict.all::<char1::Char, String>()?, Pairs(vec![(char1::Char('c'), "y".to_owned())]));

    store.set("s").add_many([3_u64, 1, 2])?;
    assert_eq!(store.set("s").add_many_returning(vec![3, 4])?, 1);
    assert_eq!(store.set("s").remove_many_returning([4, 5])?, 1);
    assert!(store.set("s").contains(1)?);
    assert_eq!(store.set("s").members::<u64>()?, [1, 2, 3]);

    store.scored_set("z").add_many([("a", 1.0), ("b", 2.0)])?;
    assert_eq!(store.scored_set("z").add_many_returning([("b", 3.0), ("c", 2.0)])?, 1);
    assert_eq!(store.scored_set("z").range_reversed::<String>(0, 1)?, ["b", "c"]);
    assert_eq!(store.scored_set("z").highest(1)?, Pairs(vec![("b".to_owned(), 3.0)]));
    assert_eq!(store.scored_set("z").remove_many_returning(["a", "b", "x"])?, 2);

    store.queue("jobs").enqueue(Json(job(1)))?;
    store.list("jobs").push_back_many([Json(job(2)), Json(job(3))])?;
    assert_eq!(store.queue("jobs").dequeue()?, Some(Json(job(1))));
    assert_eq!(store.list("jobs").all::<Json<Job>>()?, [Json(job(2)), Json(job(3))]);
    store.top_k("top", 2).add(7, 1.5)?;
    assert_eq!(store.top_k("top", 2).max()?, Some((7, 1.5)));

    store.bounded_counter("seats").create(1, 0, 9)?;
    assert_eq!(store.bounded_counter("seats").bounds()?, (0, 9));
    Ok(())
}

/// A type of a user's own.
mod char1 {
    use claret::{Bytes, FromValue, errors::ValueError};

    #[derive(Debug, PartialEq)]
    pub(crate) struct Char(pub(crate) char);

    impl FromValue for Char {
        fn from_value(value: Bytes) -> Result<Self, ValueError> {
            let text = String::from_value(value)?;
            let first = text.chars().next();
            first.map(Char).ok_or_else(|| ValueError::new("an empty value", "a character"))
        }
    }
}

#[tokio::test]
async fn many_registers_are_read_and_written_at_once_in_every_scope() {
    let store = Store::in_memory();
    store.set_many([("a", 1), ("b", 2)]).await.unwrap();
    assert_eq!(store.get_many::<i64>(["a", "none", "b"]).await.unwrap(), [Some(1), None, Some(2)]);
    let read = store
        .transaction(|tx| async move {
            tx.set_many([("b", 3), ("c", 4)])?;
            Ok(tx.get_many(["a", "b", "c"]).await?)
        })
        .await
        .unwrap();
    assert_eq!(read, [Some(1), Some(3), Some(4)]);

    let batch = store.batch();
    batch.counter("n").add(1);
    batch.set_many([("a", "x")]);
    let read = batch.get_many(["a", "n"]);
    let wrong = batch.get_many::<u8>(["b", "a"]);
    let nothing = batch.get_many::<u8>([""; 0]);
    let done = batch.commit().await.unwrap();
    assert_eq!(done.get(read).unwrap(), [Some("x".to_owned()), Some("1".to_owned())]);
    assert_eq!(done.get(nothing).unwrap(), []);
    let named = value_error("a", "text of 1 bytes", "an integer from 0 to 255 (u8)");
    assert_eq!(done.get(wrong).unwrap_err(), named);

    let blocking = store.blocking();
    let named = value_error("a", "text of 1 bytes", "an integer from 0 to 255 (u8)");
    assert_eq!(blocking.get_many::<u8>(["b", "a"]).unwrap_err(), named);
    let read = blocking.transaction(|tx| Ok(tx.get_many::<String>(["a", "b"])?)).unwrap();
    assert_eq!(read, [Some("x".to_owned()), Some("3".to_owned())]);
}

#[test]
fn of_nothing_nothing_is_done() {
    let store = Store::in_memory().blocking();
    let none: [&str; 0] = [];
    store.set("k").add_many(none).unwrap();
    assert_eq!(store.set("k").add_many_returning(none).unwrap(), 0);
    assert_eq!(store.set("k").remove_many_returning(none).unwrap(), 0);
    assert_eq!(store.dict("k").get_many::<String>(none).unwrap(), []);
    assert_eq!(store.get_many::<String>(none).unwrap(), []);
    store.set_many([("", 0); 0]).unwrap();
    store.list("k").push_front_many(none).unwrap();
    let batch = store.batch();
    batch.scored_set("k").add_many([("", 0.0); 0]);
    let removed = batch.scored_set("k").remove_many_returning(none);
    assert_eq!(batch.commit().unwrap().get(removed).unwrap(), 0);
    assert_eq!(store.type_of("k").expect("in this process"), None);
}

#[tokio::test]
async fn a_value_of_another_type_names_key_type_found_and_type_asked() {
    let store = Store::in_memory();
    store.register("k").set("twelve").await.unwrap();
    let named = value_error("k", "text of 6 bytes", "a number (f64)");
    assert_eq!(
        named.to_string(),
        "key 'k': the value is text of 6 bytes, and a number (f64) was asked for; ask for another type"
    );
    assert!(!named.is_retryable());
    assert_eq!(store.register("k").get::<f64>().await.unwrap_err(), named);
    assert_eq!(store.blocking().register("k").get::<f64>().unwrap_err(), named);

    // The transaction that read it may go on.
    let seen = store.transaction(|tx| async move {
        let refused = tx.register("k").get_for_update::<f64>().await.unwrap_err();
        tx.register("k").set(12)?;
        Ok(refused)
    });
    assert_eq!(seen.await.unwrap(), named);
    assert_eq!(store.register("k").get::<u8>().await.unwrap(), Some(12));

    // Where the native type is another one, that is the error.
    store.set("tags").add("red").await.unwrap();
    let wrong = store.register("tags").get::<f64>().await.unwrap_err();
    assert!(
        matches!(wrong, Error::Execute(ExecuteError::Invalid { .. }))
            && wrong.to_string().contains("WRONGTYPE"),
        "{wrong}"
    );
}

#[tokio::test]
async fn a_value_that_does_not_read_is_not_taken() {
    let store = Store::in_memory();
    store.queue("q").enqueue("no number").await.unwrap();
    let named = value_error("q", "text of 9 bytes", "an integer from 0 to 255 (u8)");
    assert_eq!(store.queue("q").dequeue::<u8>().await.unwrap_err(), named);
    assert_eq!(store.queue("q").len().await.unwrap(), 1, "it is in its place");
    let taken = store.transaction(|tx| async move { Ok(tx.queue("q").dequeue::<u8>().await?) });
    assert_eq!(taken.await.unwrap_err(), named);
    assert_eq!(store.queue("q").len().await.unwrap(), 1, "the transaction was aborted");
    assert_eq!(store.register("q2").replace::<Contrary>(1).await.unwrap(), None);
    let named = value_error("q2", "something", "nothing");
    assert_eq!(store.register("q2").replace::<Contrary>(2).await.unwrap_err(), named);
    assert_eq!(store.register("q2").get::<u8>().await.unwrap(), Some(1));

    // In a batch it was taken, and the bytes are still there.
    let batch = store.batch();
    let taken = batch.queue("q").dequeue::<u8>();
    let done = batch.commit().await.unwrap();
    assert!(matches!(done.get(taken), Err(Error::Execute(ExecuteError::Value { .. }))));
    assert_eq!(done.into_inner(), [claret::Reply::Bytes("no number".into())]);
}

#[tokio::test]
async fn a_value_without_a_form_as_bytes_is_not_written() {
    let store = Store::in_memory();
    let named = value_error("k", "NaN", "a number");
    assert_eq!(store.register("k").set(f64::NAN).await.unwrap_err(), named);
    assert_eq!(store.register("k").set_if_absent(f64::NAN).await.unwrap_err(), named);
    assert_eq!(store.set_many([("a", 1.0), ("k", f64::NAN)]).await.unwrap_err(), named);
    assert_eq!(store.blocking().set("k").add(f64::NAN).unwrap_err(), named);

    // It dooms the transaction, even one that ignores it.
    let ignored = store.transaction(|tx| async move {
        tx.counter("n").add(1)?;
        let _ = tx.set("k").add_many([1.0, f64::NAN]);
        Ok(())
    });
    assert_eq!(ignored.await.unwrap_err(), named);
    let returned = store.transaction(|tx| async move { Ok(tx.set("k").add_returning(Contrary).await?) });
    assert_eq!(returned.await.unwrap_err(), value_error("k", "contrary", "anything"));
    let batch = store.batch();
    batch.counter("n").add(1);
    batch.register("k").set(Contrary);
    let _ = batch.register("k").replace::<Bytes>(f64::NAN);
    assert_eq!(batch.commit().await.unwrap_err(), value_error("k", "contrary", "anything"), "the first");
    assert_eq!(store.counter("n").get().await.unwrap(), 0);
}

/// Everywhere: the caller does with what it gets as its scope wants.
fn note<S: claret::Records>(scope: &S, name: &str) -> S::Void {
    scope.set("names").add(name)
}

async fn noted(scope: &impl AsyncScope, name: &str) -> Result<u64, Error> {
    scope.done(note(scope, name)).await?;
    scope.done(scope.counter("noted").add(1)).await?;
    scope.set("names").len().await
}

fn noted_blocking(scope: &impl BlockingScope, name: &str) -> Result<u64, Error> {
    note(scope, name)?;
    scope.counter("noted").add(1)?;
    scope.set("names").len()
}

#[tokio::test]
async fn one_helper_works_on_stores_transactions_and_batches() {
    let store = Store::in_memory();
    assert_eq!(noted(&store, "ada").await.unwrap(), 1);
    let within = store.clone();
    let spawned =
        tokio::spawn(
            async move { within.transaction(|tx| async move { Ok(noted(&tx, "bob").await?) }).await },
        );
    assert_eq!(spawned.await.unwrap().unwrap(), 2);
    let blocking = store.blocking();
    assert_eq!(noted_blocking(&blocking, "cleo").unwrap(), 3);
    assert_eq!(blocking.transaction(|tx| Ok(noted_blocking(tx, "dan")?)).unwrap(), 4);
    let (batch, other) = (store.batch(), blocking.batch());
    note(&batch, "eve");
    note(&other, "fay");
    batch.commit().await.unwrap();
    other.commit().unwrap();
    assert_eq!(store.set("names").len().await.unwrap(), 6);
    assert_eq!(store.counter("noted").get().await.unwrap(), 4);
}
