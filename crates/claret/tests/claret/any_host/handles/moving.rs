//! Records that move to other keys, keys that are listed, and bounds that are moved, on any host.

use std::collections::BTreeSet;
use std::time::Duration;

use claret::{Abort, Bytes, Error, OpError, Records, Store, errors::ExecuteError, types::Ttl};

use super::in_time;
use super::living::EVERY_TYPE;

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(1000);

/// All of it, on keys that begin like this.
pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}{name}");
    in_time(of_every_type(store, &key("type"))).await;
    in_time(in_a_transaction(store, &key("tx"))).await;
    in_time(what_is_large_stays(store, &key("large"))).await;
    in_time(digests_tell(store, &key("digest"))).await;
    in_time(keys_are_listed(store, &key("keys"))).await;
    in_time(bounds_are_moved(store, &key("bounds"))).await;
}

async fn of_every_type(store: &Store, prefix: &str) {
    for (name, make) in EVERY_TYPE {
        let (from, to) = (format!("{prefix}:{name}"), format!("{prefix}:{name}:moved"));
        assert!(!store.rename(&from, &to).await.expect("nothing to do"), "{name}");
        let made = store.transaction(|tx| {
            let (from, to) = (from.clone(), to.clone());
            async move {
                make(&tx, &from)?;
                // In place of another type, which expires.
                tx.list(&to).push_back("before")?;
                tx.key(&to).expire_in(LONG)?;
                Ok(())
            }
        });
        made.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let before = store.key(&from).content().await.expect("an answer").expect("it is there");
        assert!(store.rename(&from, &from).await.expect("to itself"), "{name}");
        assert!(store.rename(&from, &to).await.expect("moved"), "{name}");
        assert!(!store.key(&from).exists().await.expect("an answer"), "{name}");
        let after = store.key(&to).content().await.expect("an answer").expect("it is there");
        assert_eq!(after, before, "{name}");
        assert_eq!(store.key(&to).ttl().await.expect("an answer"), Ttl::Forever, "{name}");
        store.key(&to).expire_in(LONG).await.expect("set");
        let expires = store.key(&to).expires_at().await.expect("an answer");
        assert!(store.rename(&to, &from).await.expect("moved back"), "{name}");
        assert_eq!(store.key(&from).expires_at().await.expect("an answer"), expires, "{name}");
        // It goes on as a record of its type.
        let again = store.transaction(|tx| {
            let from = from.clone();
            async move { Ok(make(&tx, &from)?) }
        });
        match again.await {
            Ok(()) => {}
            Err(error) => assert_eq!(name, "bounded-counter", "{error}"),
        }
    }
}

/// Own changes go along, and nothing is done if the transaction is not committed.
async fn in_a_transaction(store: &Store, prefix: &str) {
    let (from, to) = (format!("{prefix}:from"), format!("{prefix}:to"));
    store.dict(&from).set("a", "1").await.expect("written");
    let moved = store.transaction(|tx| {
        let (from, to) = (from.clone(), to.clone());
        async move {
            tx.dict(&from).set("b", "2")?;
            let moved = tx.rename(&from, &to).await?;
            tx.dict(&to).set("c", "3")?;
            let seen = (tx.dict(&to).len().await?, tx.key(&from).exists().await?);
            let again = tx.rename(&from, "nothing").await?;
            Ok((moved, seen, again))
        }
    });
    assert_eq!(moved.await.expect("committed"), (true, (3, false), false));
    assert_eq!(store.dict(&to).get("b").await.expect("an answer"), Some(Bytes::from("2")));
    let given_up = store.transaction(|tx| {
        let (from, to) = (from.clone(), to.clone());
        async move {
            assert!(tx.rename(&to, &from).await?);
            Err::<(), _>(Abort::because("no"))
        }
    });
    given_up.await.expect_err("given up");
    assert_eq!(store.dict(&to).len().await.expect("an answer"), 3);
    let batch = store.batch();
    let content = batch.key(&to).content();
    let content =
        batch.commit().await.expect("committed").get(content).expect("its own").expect("it is there");
    store.key(&from).put(content).await.expect("a copy");
    assert_eq!(store.dict(&from).len().await.expect("an answer"), 3);
}

/// At most 1 MiB moves, 16 bytes for each word besides.
async fn what_is_large_stays(store: &Store, prefix: &str) {
    let (from, to) = (format!("{prefix}:from"), format!("{prefix}:to"));
    let text = "x".repeat((1 << 20) - 100);
    store.register(&from).set(text.clone()).await.expect("written");
    assert!(store.rename(&from, &to).await.expect("moved"));
    store.register(&to).append("x".repeat(101)).await.expect("written");
    too_large(store, &to, &from).await;
    let batch = store.batch();
    for number in 0..70_000 {
        batch.list(&from).push_back(format!("{number}"));
    }
    batch.commit().await.expect("pushed");
    too_large(store, &from, &to).await;
    assert_eq!(store.list(&from).len().await.expect("an answer"), 70_000);
    assert_eq!(store.register(&to).len().await.expect("an answer"), (1 << 20) + 1);
}

async fn too_large(store: &Store, from: &str, to: &str) {
    let error = store.rename(from, to).await.expect_err("too large");
    let Error::Execute(ExecuteError::Invalid { key, error: OpError::TooLarge { .. } | OpError::Told(_) }) =
        &error
    else {
        panic!("{error:?}")
    };
    assert!(&key[..] == from.as_bytes() && error.to_string().contains("limit of 1048576 bytes"), "{error}");
}

/// A digest is the same as long as the record is, whatever its type and size, and of whichever key.
async fn digests_tell(store: &Store, prefix: &str) {
    let digest = async |key: &str| store.key(key).digest().await.expect("an answer");
    for (name, make) in EVERY_TYPE {
        let (key, copy) = (format!("{prefix}:{name}"), format!("{prefix}:{name}:copy"));
        assert_eq!(digest(&key).await, None, "{name}");
        let made = store.transaction(|tx| {
            let key = key.clone();
            async move { Ok(make(&tx, &key)?) }
        });
        made.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let first = digest(&key).await;
        assert!(first.is_some() && digest(&key).await == first, "{name}");
        store.key(&key).expire_in(LONG).await.expect("set");
        let expiring = digest(&key).await;
        assert_ne!(expiring, first, "{name}");
        store.key(&key).persist().await.expect("cleared");
        assert_eq!(digest(&key).await, first, "{name}");
        let content = store.key(&key).content().await.expect("an answer").expect("it is there");
        store.key(&copy).put(content).await.expect("a copy");
        assert_eq!(digest(&copy).await, first, "{name}");
        store
            .key(&copy)
            .put(claret::types::Content::of(&other_than(name)).expect("small"))
            .await
            .expect("another");
        assert_ne!(digest(&copy).await, first, "{name}");
    }
    let large = format!("{prefix}:large");
    let batch = store.batch();
    for number in 0..60_000 {
        batch.list(&large).push_back(format!("element {number:020}"));
    }
    batch.commit().await.expect("pushed");
    let before = digest(&large).await;
    assert!(before.is_some(), "it has no bound of 1 MiB");
    store.list(&large).push_back("x").await.expect("pushed");
    assert_ne!(digest(&large).await, before);
    let batch = store.batch();
    for number in 0..6_000 {
        batch.list(&large).push_back(format!("{number}"));
    }
    batch.commit().await.expect("pushed");
    let error = store.key(&large).digest().await.expect_err("too large").to_string();
    assert!(error.contains(&large) && error.contains("limit of 1048576"), "{error}");
}

/// The content of a record that is none of [`EVERY_TYPE`].
fn other_than(name: &str) -> claret_types::State {
    claret_types::State::new::<claret_types::Register>(claret_types::Text::Bytes(
        format!("not {name}").into(),
    ))
}

/// Each once, in pages; what expires is not listed.
async fn keys_are_listed(store: &Store, prefix: &str) {
    let batch = store.batch();
    let all: BTreeSet<Bytes> = (0..2500).map(|number| format!("{prefix}:{number}").into()).collect();
    for key in &all {
        batch.counter(key.clone()).add(1);
    }
    batch.register(format!("{prefix}:gone")).set_until("x", std::time::SystemTime::UNIX_EPOCH);
    batch.commit().await.expect("written");
    let mut listing = store.keys(format!("{prefix}:*"));
    let (mut found, mut pages) = (BTreeSet::new(), 0);
    while let Some(page) = listing.next_page().await.expect("a page") {
        assert!(!page.is_empty() && page.len() < 2500, "{} keys in a page", page.len());
        pages += 1;
        found.extend(page);
    }
    assert!(pages > 1);
    assert_eq!(found, all);
    assert!(listing.next_page().await.expect("still the end").is_none());
    for (pattern, count) in [(":1[0-4]", 5), (":249?", 10), (":\\*", 0), (":[^0-8]", 1), ("", 0)] {
        let mut listing = store.keys(format!("{prefix}{pattern}"));
        let mut found = BTreeSet::new();
        while let Some(page) = listing.next_page().await.expect("a page") {
            found.extend(page);
        }
        assert_eq!(found.len(), count, "{pattern}");
    }
    let error = store.keys("x".repeat(2000)).next_page().await.expect_err("too long");
    assert!(error.to_string().contains("pattern of 2000 bytes"), "{error}");
}

async fn bounds_are_moved(store: &Store, key: &str) {
    let seats = store.bounded_counter(key);
    let error = seats.resize(0, 1).await.expect_err("there is none");
    assert!(error.to_string().contains("BCREATE"), "{error}");
    seats.create(5, 0, 10).await.expect("created");
    seats.resize(0, 20).await.expect("more seats");
    seats.add(15).await.expect("room for them");
    let error = seats.resize(0, 10).await.expect_err("below what is taken");
    let text = error.to_string();
    assert!(text.contains(key) && text.contains("min 0, max 10 (its value is 20)"), "{text}");
    let error = seats.resize(3, 2).await.expect_err("no bounds");
    assert!(error.to_string().contains("min <= max"), "{error}");
    seats.resize(20, 20).await.expect("just so");
    assert_eq!(seats.bounds().await.expect("an answer"), (20, 20));
    assert!(!seats.try_take(1).await.expect("an answer"));
    seats.resize(10, 30).await.expect("around what is there");
    seats.take_wrapping(15).await.expect("it always fits");
    assert_eq!(seats.get().await.expect("an answer"), Some(26), "from 10 it went on at 30");
}
