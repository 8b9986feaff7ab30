//! Mode `none`: operations as plain commands.

use claret::errors::ExecuteError;
use claret::{
    Bytes, Error, OpError, Operation, Records, Store,
    lab::{Mode, StoreLab},
};
use claret_types::BUILTIN;

use super::rig::{keys, prefix, shared};

#[tokio::test]
async fn mode_none_is_plain_redis() {
    let _limit = super::limit::of_test();
    let store = Store::cluster(shared().url()).mode(Mode::None).connect().await.expect("a store");
    let keys = keys(shared());
    let seen = store
        .transaction(|tx| {
            let keys = keys.clone();
            async move {
                tx.set(&keys[0]).add("a")?;
                let fresh = tx.set(&keys[0]).add_returning("b").await?;
                tx.counter(&keys[1]).add(5)?;
                let sum = tx.counter(&keys[1]).add_returning(2).await?;
                tx.scored_set(&keys[2]).add("m", 1.5)?;
                Ok((fresh, sum))
            }
        })
        .await
        .expect("done");
    assert_eq!(seen, (true, 2), "what is buffered goes with the commit");
    assert_eq!(store.set(&keys[0]).len().await.expect("read"), 2);
    assert_eq!(store.counter(&keys[1]).get().await.expect("read"), 7);
    let ranked = store.scored_set(&keys[2]).range_with_scores(0, -1).await.expect("read");
    assert_eq!(ranked.0, [(Bytes::from("m"), 1.5)]);
    assert_eq!(shared().query::<String>(1, &["GET", &keys[1]]).expect("read"), "7");
    let error = store.list(&keys[0]).len().await.expect_err("a set");
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert_eq!(store.register(prefix()).get::<Bytes>().await.expect("read"), None);
}

/// An operation as one would type it, of the type of this name.
fn op(kind: &str, words: &str) -> Operation {
    let kind = BUILTIN.iter().find(|it| it.name == kind).expect("a built-in type");
    let words: Vec<Bytes> = words.split(' ').map(Bytes::from).collect();
    (kind.parse)(words[0].as_str().expect("a name"), &words[1..]).expect("an operation")
}

/// What the operation answers on a record that the first one made.
async fn error_after(store: &Store, key: &str, made: &Operation, failing: &Operation) -> OpError {
    let execute = |op: &Operation| {
        let op = op.clone();
        store.transaction(move |tx| {
            let (key, op) = (key.to_owned(), op.clone());
            async move { Ok(tx.execute(key, op).await?) }
        })
    };
    execute(made).await.expect("made");
    match execute(failing).await {
        Err(Error::Execute(ExecuteError::Invalid { key: named, error })) if named == key.into() => error,
        other => panic!("{failing:?}: {other:?}"),
    }
}

/// Redis says it in its own words: the same variant as on the embedded store and in every mode of a cluster.
#[tokio::test]
async fn an_operation_fails_with_the_same_variant_on_every_host() {
    let _limit = super::limit::of_test();
    let url = || Store::cluster(shared().url());
    let plain = url().mode(Mode::None).connect().await.expect("a store");
    let cluster = url().connect().await.expect("a store");
    let embedded = Store::in_memory();
    for (made, failing) in [
        (op("list", "RPUSH a"), op("register", "GET")),
        (op("list", "RPUSH a"), op("set", "SADD.RETURNING a")),
        (op("list", "RPUSH a"), op("counter", "INCRBY 1")),
        (op("register", "SET x"), op("counter", "INCRBY 1")),
        (op("register", "SET x"), op("counter", "INCRBY.RETURNING 1")),
        (op("register", "SET x"), op("float-counter", "INCRBYFLOAT.RETURNING 1")),
        (op("dict", "HSET f x"), op("dict", "HINCRBY.RETURNING f 1")),
        (op("counter", "INCRBY 9223372036854775807"), op("counter", "INCRBY.RETURNING 1")),
        (op("dict", "HINCRBY f 9223372036854775807"), op("dict", "HINCRBY.RETURNING f 1")),
        (op("scored-set", "ZADD inf m"), op("scored-set", "ZINCRBY.RETURNING -inf m")),
    ] {
        let on_embedded = error_after(&embedded, &prefix(), &made, &failing).await;
        let on_cluster = error_after(&cluster, &prefix(), &made, &failing).await;
        let by_plain = error_after(&plain, &prefix(), &made, &failing).await;
        let variant = |error: &OpError| std::mem::discriminant(error);
        assert_eq!(variant(&on_cluster), variant(&on_embedded), "{on_cluster:?}, {on_embedded:?}");
        assert_eq!(variant(&by_plain), variant(&on_embedded), "{by_plain:?}, {on_embedded:?}");
        // A server knows a record by what it is there: a string, not a register.
        if !matches!(on_cluster, OpError::WrongType { .. }) {
            assert_eq!(on_cluster, on_embedded);
        }
    }
}
