//! Stores in this process with a schema: what is refused on every way to a record, and that nothing is left of it.

use claret::types::Set;
use claret::{
    Error, OpError, Records, Schema, Store,
    errors::ExecuteError,
    lab::{Mode, StoreLab},
    types::{FieldType, SchemaError, TypeName},
};

fn shop() -> Result<Schema, SchemaError> {
    Schema::new()
        .prefix("cart:", TypeName::Dict)?
        .field("total", FieldType::Integer)?
        .field("owner", FieldType::String)?
        .closed()?
        .prefix("seen:", TypeName::Set)?
        .prefix("seen:count:", TypeName::Counter)
}

/// In each mode, and whether that is the one without transactions.
fn stores() -> Vec<(Store, bool)> {
    let modes = [Mode::CommutingPhased, Mode::ReaderWriter, Mode::None].into_iter().chain(Mode::ways());
    let build = |mode| Store::builder().mode(mode).schema(shop().expect("a schema")).build();
    modes.map(|mode| (build(mode), mode == Mode::None)).collect()
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, key: &str, says: &str) {
    let error = result.expect_err(says);
    let Error::Execute(ExecuteError::Invalid { key: named, error: OpError::AgainstSchema { .. } }) = &error
    else {
        panic!("{error:?}")
    };
    let text = error.to_string();
    assert!(
        *named == key.into() && !error.is_retryable() && text.contains(key) && text.contains(says),
        "{text}"
    );
}

#[tokio::test]
async fn an_operation_of_another_type_is_refused_on_every_way() {
    let says = "with the prefix 'cart:' holds a dict, and this is an operation of a set";
    for (store, is_without) in stores() {
        assert_refused(store.set("cart:1").add("x").await, "cart:1", says);
        assert_refused(store.set("cart:1").len().await, "cart:1", says);
        let void = store.transaction(async |tx| {
            tx.set("seen:1").add("x")?;
            tx.set("cart:1").add("x")?;
            Ok(())
        });
        assert_refused(void.await, "cart:1", says);
        let answers = store.transaction(async |tx| {
            tx.set("seen:1").add("x")?;
            Ok(tx.set("cart:1").len().await?)
        });
        assert_refused(answers.await, "cart:1", says);
        let batch = store.batch();
        batch.set("seen:1").add("x");
        batch.set("cart:1").add("x");
        assert_refused(batch.commit().await, "cart:1", says);
        // Without transactions what was done first is done.
        assert!(is_without || store.peek::<Set>("seen:1").expect("in this process").is_none());
        assert_eq!(store.peek::<Set>("cart:1").expect("in this process"), None);
        store.check_invariants();
        // It works on.
        store.dict("cart:1").set("total", 5).await.expect("set");
        store.counter("seen:count:1").add(1).await.expect("the longest prefix counts");
        assert_refused(
            store.set("seen:count:1").add("x").await,
            "seen:count:1",
            "with the prefix 'seen:count:' holds a counter",
        );
        assert_refused(store.counter("seen:x").add(1).await, "seen:x", "with the prefix 'seen:' holds a set");
        store.list("other").push_back("x").await.expect("it has no prefix");
    }
}

/// What was to be looked at is not; the transaction it is of goes no further.
#[tokio::test]
async fn an_optimistic_look_and_a_nested_transaction_are_refused() {
    let store = Store::builder().schema(shop().expect("a schema")).build();
    let looks = store.tx().optimistic().run(async |tx| {
        tx.set("seen:1").contains("x").await?;
        Ok(tx.set("cart:1").contains("x").await?)
    });
    assert_refused(looks.await, "cart:1", "an operation of a set");
    // What cannot be done ends the innermost transaction alone.
    let nested = store.transaction(async |tx| {
        tx.set("seen:1").add("x")?;
        let refused = tx.nested(async |inner| inner.set("cart:1").add("x")).await;
        assert_refused(refused, "cart:1", "an operation of a set");
        Ok(())
    });
    nested.await.expect("the outer one goes on");
    assert_eq!(store.set("seen:1").len().await, Ok(1));
}

#[tokio::test]
async fn fields_are_judged_and_records_that_move() {
    let store = Store::builder().schema(shop().expect("a schema")).build();
    let cart = store.dict("cart:1");
    cart.set("total", 5).await.expect("an integer");
    cart.set("owner", "ada").await.expect("a string");
    assert_refused(
        cart.set("total", "abc").await,
        "cart:1",
        "holds an integer in the field 'total', and this is 'abc'",
    );
    assert_refused(
        cart.add("owner", 1).await,
        "cart:1",
        "a string in the field 'owner', and this is an addition",
    );
    assert_refused(cart.set("colour", "red").await, "cart:1", "holds no field 'colour'");
    assert_refused(cart.get::<String>("colour").await, "cart:1", "holds no field 'colour'");
    cart.remove("colour").await.expect("what should not be there can go");
    store.set("tags").add("x").await.expect("a set without a prefix");
    assert_refused(store.rename("tags", "cart:2").await, "cart:2", "an operation of a set");
    assert_eq!(store.rename("tags", "seen:2").await, Ok(true));
    assert_eq!(store.rename("cart:1", "cart:3").await, Ok(true));
    store.dict("loose").set("total", "abc").await.expect("without a prefix");
    assert_refused(store.rename("loose", "cart:4").await, "cart:4", "an integer in the field 'total'");
    store.key("cart:3").delete().await.expect("any record may go");
}

/// The mirror for threads, and a store in a folder.
#[test]
fn other_stores_in_the_process_have_it_too() {
    let store = Store::builder().schema(shop().expect("a schema")).build().blocking();
    assert_refused(store.set("cart:1").add("x"), "cart:1", "an operation of a set");
    let folder = std::env::temp_dir().join(format!("claret-schema-{}", std::process::id()));
    let kept = Store::open(&folder).expect("a folder").blocking();
    kept.set("cart:1").add("x").expect("there is no schema yet");
    kept.close().expect("it closes");
    let kept = Store::builder()
        .schema(shop().expect("a schema"))
        .open(&folder)
        .expect("what is there is not looked at");
    let kept = kept.blocking();
    assert_refused(kept.set("cart:1").len(), "cart:1", "an operation of a set");
    // A record of another type that was there before is an error as without a schema.
    let read = kept.dict("cart:1").len();
    assert!(
        matches!(read, Err(Error::Execute(ExecuteError::Invalid { error: OpError::WrongType { .. }, .. }))),
        "{read:?}"
    );
    kept.key("cart:1").delete().expect("it can go");
    kept.close().expect("it closes");
    std::fs::remove_dir_all(&folder).expect("it goes");
}
