//! Schemas on a cluster: the client refuses without a message, the node refuses what the client let through, and both have the same.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use claret::cluster::ConnectError;
use claret::{
    Bytes, Error, OpError, Records, Schema, Store, Tx, TxOptions,
    lab::{Mode, StoreLab},
};
use claret::{errors::ExecuteError, types::SchemaDigest};
use claret_rig::Cluster;

use super::rig::{fresh, prefix, shared};
use crate::any_host::errors::provoked::matched;
use crate::any_host::errors::table::Provoked;

fn schema(text: &str) -> Schema {
    Schema::parse(text).expect("a schema")
}

fn set(cluster: &Cluster, node: usize, schema: &Schema) {
    let words = ["CONFIG", "SET", "claret.schema", &schema.to_string()];
    cluster.query::<()>(node, &words).expect("it is set");
}

async fn refused(cluster: &Cluster, schema: &Schema) -> ConnectError {
    let builder =
        Store::cluster(cluster.url()).schema(schema.clone()).connect_timeout(Duration::from_secs(10));
    builder.connect().await.expect_err("a node has another one")
}

#[tokio::test]
async fn a_node_with_another_schema_is_refused_by_name() {
    let _limit = super::limit::of_test();
    let cluster = fresh(2);
    let (own, other) = (schema("prefix a: set"), schema("prefix a: list"));
    let is_about = |error: &ConnectError, node: usize, theirs: SchemaDigest| {
        let address = cluster.servers()[node].address();
        let expected = ConnectError::OtherSchema { node: address.clone(), theirs, ours: own.digest() };
        let text = error.to_string();
        assert_eq!(*error, expected);
        assert!(!error.is_retryable() && text.contains(&address), "{text}");
        assert!(text.contains(&theirs.to_string()) && text.contains(&own.digest().to_string()), "{text}");
    };
    set(&cluster, 0, &own);
    is_about(&refused(&cluster, &own).await, 1, SchemaDigest::default());
    set(&cluster, 1, &other);
    is_about(&refused(&cluster, &own).await, 1, other.digest());
    // Whoever has none takes what there is.
    let store = Store::connect(cluster.url()).await.expect("a store");
    store.counter("b").add(1).await.expect("counted");
    store.close().await.expect("it closes");
    set(&cluster, 1, &own);
    let store = Store::cluster(cluster.url()).schema(own.clone()).connect().await.expect("all have it");
    store.set("a:1").add("x").await.expect("added");
    store.close().await.expect("it closes");
    // In the mode without transactions nodes say no hello; the program's own schema counts.
    let plain =
        Store::cluster(cluster.url()).schema(other).mode(Mode::None).connect().await.expect("a store");
    let error = plain.set("a:2").add("x").await.expect_err("a list");
    assert!(
        matches!(error, Error::Execute(ExecuteError::Invalid { error: OpError::AgainstSchema { .. }, .. })),
        "{error}"
    );
}

/// Client and node refuse in the same words; and where the client does, nodes that answer nobody do not matter.
#[tokio::test]
async fn a_client_refuses_without_a_message_what_a_node_would_refuse() {
    let _limit = super::limit::of_test();
    let cluster = fresh(2);
    let shop = schema("prefix cart: dict\n field total integer\nprefix seen: set");
    (0..2).for_each(|node| set(&cluster, node, &shop));
    let options = TxOptions::new().deadline(Duration::from_secs(20));
    let without = Store::cluster(cluster.url()).transactions(options).connect().await.expect("a store");
    let with =
        Store::cluster(cluster.url()).schema(shop).transactions(options).connect().await.expect("a store");
    let key = cluster.key_at(0, "cart:");
    let all = async |store: &Store| {
        let mut errors = vec![
            store.set(&key).add("x").await.expect_err("a dict"),
            store.set(&key).len().await.expect_err("a dict"),
            store.dict(&key).set("total", "abc").await.expect_err("an integer"),
        ];
        let batch = store.batch();
        batch.set("seen:1").add("x");
        batch.set(&key).add("x");
        errors.push(batch.commit().await.expect_err("a dict"));
        for options in [options, options.optimistic()] {
            let looked = store.tx().options(options).run(async |tx| Ok(tx.set(&key).len().await?));
            errors.push(looked.await.expect_err("a dict"));
            let added = store.tx().options(options).run(async |tx| Ok(tx.set(&key).add("x")?));
            errors.push(added.await.expect_err("a dict"));
        }
        errors
    };
    let by_nodes = all(&without).await;
    for error in &by_nodes {
        assert!(
            matches!(
                error,
                Error::Execute(ExecuteError::Invalid { error: OpError::AgainstSchema { .. }, .. })
            ),
            "{error:?}"
        );
        assert!(!error.is_retryable() && error.to_string().contains(&key), "{error}");
    }
    assert_eq!(with.set("seen:1").len().await, Ok(0), "nothing was done");
    cluster.servers().iter().for_each(|server| server.pause());
    let began = Instant::now();
    let by_client = all(&with).await;
    let time = began.elapsed();
    cluster.servers().iter().for_each(|server| server.resume());
    assert_eq!(by_client, by_nodes);
    assert!(time < Duration::from_secs(2), "nobody was asked: {time:?}");
}

/// A node that gets another schema goes on with who is connected; what either refuses is refused.
#[tokio::test]
async fn who_is_connected_stays_when_a_schema_changes() {
    let _limit = super::limit::of_test();
    let cluster = fresh(1);
    let own = schema("prefix a: set");
    set(&cluster, 0, &own);
    let store = Store::cluster(cluster.url()).schema(own).connect().await.expect("a store");
    set(&cluster, 0, &schema("prefix a: set\nprefix b: list"));
    store.set("a:1").add("x").await.expect("it is connected");
    let refused = store.set("b:1").add("x").await.expect_err("the node has it");
    assert!(
        matches!(refused, Error::Execute(ExecuteError::Invalid { error: OpError::AgainstSchema { .. }, .. })),
        "{refused}"
    );
}

/// O5: a refusal tells of what was seen, and is believed only where that was so. Bug: a look that broke the nodes' schema ended the
/// transaction at once, whatever had led to it.
#[tokio::test]
async fn what_a_nodes_schema_refuses_is_checked_first() {
    let _limit = super::limit::of_test();
    let cluster = fresh(2);
    (0..2).for_each(|node| set(&cluster, node, &schema("prefix cart: dict")));
    let store = Store::connect(cluster.url()).await.expect("a store");
    let key = cluster.key_at(0, "cart:");
    for (looks, name) in [(true, "looks:"), (false, "commits:")] {
        // At one node, whose refusal is the first that there is.
        let count = cluster.key_at(0, name);
        let breaks = async |tx: &Tx| match looks {
            true => tx.set(&key).len().await.map(drop),
            false => tx.set(&key).add("x"),
        };
        let done = store.tx().optimistic().run(async |tx| {
            let seen = tx.counter(&count).get().await?;
            if seen == 0 {
                store.counter(&count).add(1).await?;
                breaks(&tx).await?;
            }
            Ok((tx.attempt(), seen))
        });
        assert_eq!(done.await, Ok((2, 1)), "{name} it was not 0 any more");
        let runs = AtomicU32::new(0);
        let refused = store.tx().optimistic().run(async |tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            tx.counter(&count).get().await?;
            Ok(breaks(&tx).await?)
        });
        let refused = refused.await.expect_err("it breaks the schema");
        assert!(
            matches!(
                refused,
                Error::Execute(ExecuteError::Invalid { error: OpError::AgainstSchema { .. }, .. })
            ),
            "{refused}"
        );
        assert_eq!(runs.into_inner(), 2, "{name} the second time under locks");
    }
}

/// For the table of errors: a client without a schema, on nodes that have one.
pub(crate) async fn against_schema() -> Provoked {
    let (cluster, prefix) = (shared(), prefix());
    let one = schema(&format!("prefix {prefix} set"));
    (0..cluster.masters()).for_each(|node| set(cluster, node, &one));
    let store = Store::connect(cluster.url()).await.expect("a store");
    let key = format!("{prefix}k");
    let added = store.counter(&key).add(1).await;
    (0..cluster.masters()).for_each(|node| set(cluster, node, &Schema::new()));
    let error = matched!(
        added,
        Error::Execute(ExecuteError::Invalid { key: named, error: OpError::AgainstSchema { prefix: of, .. } }) if *named == Bytes::from(&key) && **of == *prefix
    );
    Provoked::new(error, [&key, "holds a set, and this is an operation of a counter", "change the schema"])
}
