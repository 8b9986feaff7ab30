//! Values of Rust types in the records of a cluster.

use claret::{Error, Records, Store, errors::ExecuteError, types::Pairs};

use super::rig::{keys, prefix, shared};

/// Several registers on several shards, read and written at once in every scope.
#[tokio::test]
async fn many_registers_on_several_shards_are_read_and_written_at_once() {
    let store = Store::connect(shared().url()).await.expect("a store");
    let keys = keys(shared());
    store.set_many(keys.iter().zip(0..)).await.expect("written");
    let expected: Vec<Option<i32>> = (0..keys.len() as i32).map(Some).collect();
    assert_eq!(store.get_many::<i32>(&keys).await.expect("read"), expected);
    let read = store.transaction(async |tx| {
        tx.set_many([(&keys[0], "text")])?;
        Ok(tx.get_many::<String>(&keys).await?)
    });
    assert_eq!(read.await.expect("committed")[0].as_deref(), Some("text"));

    let batch = store.batch();
    let (texts, numbers) = (batch.get_many::<String>(&keys), batch.get_many::<i32>(&keys));
    let done = batch.commit().await.expect("committed");
    assert_eq!(done.get(texts).expect("texts").len(), keys.len());
    let error = done.get(numbers).expect_err("one is text");
    assert!(
        matches!(&error, Error::Execute(ExecuteError::Value { key, .. }) if *key == (&keys[0]).into()),
        "{error}"
    );
}

#[tokio::test]
async fn a_value_that_does_not_read_is_not_taken_from_its_server() {
    let store = Store::connect(shared().url()).await.expect("a store");
    let key = prefix();
    store.queue(&key).enqueue("no number").await.expect("put");
    let error = store.queue(&key).dequeue::<u8>().await.expect_err("no number");
    assert!(matches!(error, Error::Execute(ExecuteError::Value { .. })), "{error}");
    assert_eq!(store.queue(&key).dequeue::<String>().await.expect("taken").as_deref(), Some("no number"));

    let dict = store.dict(format!("{key}d"));
    dict.set_many([("a", 1), ("b", 2)]).await.expect("written");
    assert_eq!(dict.get_many::<u8>(["b", "no"]).await.expect("read"), [Some(2), None]);
    assert_eq!(dict.remove_many_returning(["a", "no"]).await.expect("removed"), 1);
    assert_eq!(dict.all::<String, u8>().await.expect("read"), Pairs(vec![("b".to_owned(), 2)]));
}
