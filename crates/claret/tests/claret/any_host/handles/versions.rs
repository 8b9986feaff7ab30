//! Versions of records, on any host: equal ones say that nothing changed the record in between (O10 of `docs/optimistic.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use claret::{Bytes, Error, OpError, Records, Reply, Store, TxOptions, errors::ExecuteError};

use super::in_time;
use super::living::EVERY_TYPE;

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(1000);

/// All of it, on keys that begin like this.
pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}{name}");
    in_time(every_change_of_every_type_shows(store, &key("version"))).await;
    in_time(changed_and_changed_back_is_changed(store, &key("back"))).await;
    in_time(a_demand_is_judged_before_what_its_own_batch_does(store, &key("demand"))).await;
    in_time(what_a_transaction_did_itself_is_a_change_for_it(store, &key("own"))).await;
    in_time(a_version_that_was_seen_counts_until_the_commit(store, &key("seen"))).await;
    in_time(an_end_by_time_is_a_change(store, &key("expires"))).await;
}

async fn version(store: &Store, key: &str) -> Bytes {
    let version = store.key(key).version().await.expect("an answer");
    assert!(!version.is_empty() && version.len() <= 24, "{version:?}");
    version
}

/// Each version that was ever told of a key.
#[derive(Default)]
struct Told(Vec<Bytes>);

impl Told {
    /// One that was never told, and stays.
    async fn is_new(&mut self, store: &Store, key: &str, what: &str) {
        let now = version(store, key).await;
        assert!(!self.0.contains(&now), "{key}: {what} does not show");
        assert_eq!(version(store, key).await, now, "{key}: nothing changed it after {what}");
        self.0.push(now);
    }
}

async fn every_change_of_every_type_shows(store: &Store, prefix: &str) {
    for (name, make) in EVERY_TYPE {
        let (key, other) = (format!("{prefix}:{name}"), format!("{prefix}:{name}:other"));
        let mut told = Told::default();
        told.is_new(store, &key, "nothing").await;
        let made = store.transaction(|tx| {
            let key = key.clone();
            async move { Ok(make(&tx, &key)?) }
        });
        made.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        told.is_new(store, &key, "a new record").await;
        // Who reads changes nothing.
        let content = store.key(&key).content().await.expect("an answer").expect("it is there");
        store.key(&key).digest().await.expect("an answer");
        store.key(&key).ttl().await.expect("an answer");
        assert_eq!(version(store, &key).await, *told.0.last().expect("told"), "{name}");
        store.key(&key).expire_in(LONG).await.expect("set");
        told.is_new(store, &key, "EXPIRE").await;
        store.key(&key).persist().await.expect("cleared");
        told.is_new(store, &key, "PERSIST").await;
        store.key(&key).put(content).await.expect("the same");
        told.is_new(store, &key, "RECORD.PUT").await;
        assert!(store.rename(&key, &other).await.expect("moved"));
        told.is_new(store, &key, "RENAME away").await;
        assert!(store.rename(&other, &key).await.expect("moved back"));
        told.is_new(store, &key, "RENAME onto").await;
        store.key(&key).delete().await.expect("done");
        told.is_new(store, &key, "DEL").await;
        store.key(&key).delete().await.expect("nothing to do");
        assert_eq!(version(store, &key).await, *told.0.last().expect("told"), "{name}: it was gone");
    }
}

async fn changed_and_changed_back_is_changed(store: &Store, key: &str) {
    store.set(key).add("x").await.expect("added");
    let (before, digest) = (version(store, key).await, store.key(key).digest().await.expect("an answer"));
    store.set(key).add("y").await.expect("added");
    store.set(key).remove("y").await.expect("removed");
    assert_eq!(store.key(key).digest().await.expect("an answer"), digest);
    assert_ne!(version(store, key).await, before);
    // One that was not there and is not there.
    let absent = format!("{key}:absent");
    let before = version(store, &absent).await;
    store.counter(&absent).add(1).await.expect("added");
    store.key(&absent).delete().await.expect("gone");
    assert_ne!(version(store, &absent).await, before);
}

async fn a_demand_is_judged_before_what_its_own_batch_does(store: &Store, key: &str) {
    let (key, beside) = (key.to_owned(), format!("{key}:beside"));
    let seen = version(store, &key).await;
    // As WATCH, MULTI, EXEC.
    let exec = async |seen: &Bytes, value: i64| {
        let batch = store.batch();
        batch.expect(batch.key(&key).version(), Reply::Bytes(seen.clone()));
        batch.register(&key).set(value);
        batch.register(&beside).set(value);
        batch.commit().await
    };
    exec(&seen, 1).await.expect("nothing changed it");
    match exec(&seen, 2).await {
        Err(Error::Execute(ExecuteError::Invalid { key: of, error: OpError::Unexpected { found, .. } })) => {
            assert_eq!(&of[..], key.as_bytes());
            assert_eq!(*found, Reply::Bytes(version(store, &key).await), "and it is told");
        }
        other => panic!("its own first batch changed it: {other:?}"),
    }
    assert_eq!(store.register(&beside).get::<i64>().await.expect("an answer"), Some(1));
    exec(&version(store, &key).await, 3).await.expect("nothing changed it");
}

async fn what_a_transaction_did_itself_is_a_change_for_it(store: &Store, key: &str) {
    let key = key.to_owned();
    let told = store.transaction(|tx| {
        let key = key.clone();
        async move {
            let before = tx.key(&key).version().await?;
            tx.counter(&key).add_returning(1).await?;
            let between = tx.key(&key).version().await?;
            tx.key(&key).delete()?;
            Ok([before, between, tx.key(&key).version().await?])
        }
    });
    let [before, between, after] = told.await.expect("nobody is in the way");
    assert!(between != before && after != before, "{before:?} {between:?} {after:?}");
    let committed = version(store, &key).await;
    assert!(![before, between, after].contains(&committed), "once it has committed that counts for all");
}

/// An optimistic transaction holds nothing while it thinks, and others change the record and change it back.
async fn a_version_that_was_seen_counts_until_the_commit(store: &Store, key: &str) {
    store.set(key).add("x").await.expect("added");
    let attempts = Arc::new(AtomicU32::new(0));
    let done = store.tx().options(TxOptions::default().optimistic()).run(|tx| {
        let (store, key, attempts) = (store.clone(), key.to_owned(), Arc::clone(&attempts));
        async move {
            tx.key(&key).version().await?;
            if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
                store.set(&key).add("y").await?;
                store.set(&key).remove("y").await?;
            }
            tx.register(format!("{key}:done")).set("done")?;
            Ok(())
        }
    });
    done.await.expect("the second time nothing changes it");
    assert_eq!(attempts.load(Ordering::SeqCst), 2, "what was changed back was changed");
}

async fn an_end_by_time_is_a_change(store: &Store, key: &str) {
    store.register(key).set_for("v", Duration::from_millis(30)).await.expect("set");
    let before = version(store, key).await;
    while store.key(key).exists().await.expect("an answer") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let gone = version(store, key).await;
    assert_ne!(gone, before);
    assert_eq!(version(store, key).await, gone);
}
