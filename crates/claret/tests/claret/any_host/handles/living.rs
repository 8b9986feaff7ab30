//! Records that come, expire and go, of every type, on any host.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use claret::{
    Bytes, Error, OpError, Records, Store, Tx, errors::ExecuteError, handles::AnswerIn, types::Ttl,
};

use super::in_time;

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(1000);
/// Soon, and not before whatever is done with the record first.
const SOON: Duration = Duration::from_millis(150);

/// All of it, on keys that begin like this.
pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}{name}");
    in_time(of_every_type(store, &key("type"))).await;
    in_time(of_a_string(store, &key("string"))).await;
    in_time(in_a_transaction(store, &key("tx"))).await;
    in_time(it_vanishes(store, &key("gone"))).await;
    in_time(it_vanishes_while_it_is_held(store, &key("held"))).await;
    in_time(beside_what_commutes(store, &key("beside"))).await;
    in_time(bad_times(store, &key("bad"))).await;
}

pub(crate) type Make = (&'static str, fn(&Tx, &str) -> Result<(), Error>);

pub(crate) const EVERY_TYPE: [Make; 12] = [
    ("register", |tx, key| tx.register(key).set("v")),
    ("counter", |tx, key| tx.counter(key).add(1)),
    ("float-counter", |tx, key| tx.float_counter(key).add(1.5)),
    ("bounded-counter", |tx, key| tx.bounded_counter(key).create(1, 0, 2)),
    ("set", |tx, key| tx.set(key).add("v")),
    ("dict", |tx, key| tx.dict(key).set("f", "v")),
    ("document", |tx, key| tx.document(key).set_json("$", "{}")),
    ("scored-set", |tx, key| tx.scored_set(key).add("v", 1.0)),
    ("topk", |tx, key| tx.top_k(key, 3).add("v", 1.0)),
    ("summary-bag", |tx, key| tx.summary_bag(key).add(1.0)),
    ("list", |tx, key| tx.list(key).push_back("v")),
    ("uid-generator", |tx, key| tx.execute(key, uid_next()).map_started()),
];

fn uid_next() -> claret::Operation {
    use claret::types::{UidGenerator, UidOp};
    claret::Operation::new::<UidGenerator>(UidOp::Next)
}

trait MapStarted {
    fn map_started(self) -> Result<(), Error>;
}

/// It is under way; the commit waits for it.
impl MapStarted for claret::Answer<claret::Reply> {
    fn map_started(self) -> Result<(), Error> {
        drop(self);
        Ok(())
    }
}

async fn of_every_type(store: &Store, prefix: &str) {
    for (name, make) in EVERY_TYPE {
        let key = format!("{prefix}:{name}");
        let record = store.key(&key);
        assert!(!record.exists().await.expect("an answer"), "{name}");
        assert_eq!(record.ttl().await.expect("an answer"), Ttl::NoRecord, "{name}");
        record.expire_in(LONG).await.expect("nothing to do");
        let made = store.transaction(|tx| {
            let key = key.clone();
            async move { Ok(make(&tx, &key)?) }
        });
        made.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(record.exists().await.expect("an answer"), "{name}");
        assert_eq!(record.ttl().await.expect("an answer"), Ttl::Forever, "{name}");
        record.extend_expiry(LONG).await.expect("nothing to do");
        assert_eq!(record.ttl().await.expect("an answer"), Ttl::Forever, "{name}: it has none to put off");
        record.expire_in(LONG).await.expect("set");
        assert_left(record.ttl().await, LONG, name);
        record.extend_expiry(LONG / 2).await.expect("nothing to do");
        assert_left(record.ttl().await, LONG, name);
        record.extend_expiry(LONG * 2).await.expect("put off");
        assert_left(record.ttl().await, LONG * 2, name);
        record.expire_at(SystemTime::now() + LONG).await.expect("set");
        assert_left(record.ttl().await, LONG, name);
        record.persist().await.expect("kept");
        assert_eq!(record.ttl().await.expect("an answer"), Ttl::Forever, "{name}");
        assert!(record.delete_returning().await.expect("an answer"), "{name}");
        assert!(!record.delete_returning().await.expect("an answer"), "{name}");
        assert!(!record.exists().await.expect("an answer"), "{name}");
    }
}

#[track_caller]
fn assert_left(ttl: Result<Ttl, Error>, of: Duration, what: &str) {
    let Ok(Ttl::In(left)) = ttl else { panic!("{what}: {ttl:?}") };
    assert!(left <= of + Duration::from_secs(5) && left > of - LONG / 4, "{what}: {left:?} of {of:?}");
}

async fn of_a_string(store: &Store, key: &str) {
    let record = store.register(key);
    record.set_for("a", LONG).await.expect("written");
    assert_left(record.as_key().ttl().await, LONG, "set for");
    store.counter(format!("{key}:n")).add(1).await.expect("added");
    record.append("b").await.expect("written");
    assert_left(record.as_key().ttl().await, LONG, "append keeps it");
    record.set("ab").await.expect("written");
    assert_eq!(
        record.as_key().ttl().await.expect("an answer"),
        Ttl::Forever,
        "SET clears it, of the same value too"
    );
    record.set_until("c", SystemTime::now() + LONG).await.expect("written");
    assert_left(record.as_key().ttl().await, LONG, "set until");
    assert!(!record.set_if_absent("d").await.expect("an answer"));
    assert_left(record.as_key().ttl().await, LONG, "what is refused clears nothing");
    record.replace::<Bytes>("e").await.expect("written");
    assert_eq!(record.as_key().ttl().await.expect("an answer"), Ttl::Forever, "GETSET clears it");
    record.set_until("f", SystemTime::UNIX_EPOCH).await.expect("written, and over");
    assert!(!record.as_key().exists().await.expect("an answer"));
    let counter = store.counter(format!("{key}:n"));
    counter.as_key().expire_in(LONG).await.expect("set");
    counter.add(1).await.expect("added");
    assert_left(counter.as_key().ttl().await, LONG, "INCR keeps it");
    store.list(format!("{key}:l")).push_back("v").await.expect("pushed");
    let error = store.register(format!("{key}:l")).set_for("x", LONG).await.expect_err("it is a list");
    assert!(
        matches!(&error, Error::Execute(ExecuteError::Invalid { .. }))
            && error.to_string().contains("WRONGTYPE"),
        "{error}"
    );
}

/// Own changes are seen, and nothing is done if the transaction is not committed.
async fn in_a_transaction(store: &Store, key: &str) {
    let seen = store.transaction(|tx| {
        let key = key.to_owned();
        async move {
            tx.set(&key).add("a")?;
            tx.key(&key).expire_in(LONG)?;
            let before = (tx.key(&key).exists().await?, tx.key(&key).ttl().await?);
            tx.set(&key).remove("a")?;
            let between = (tx.key(&key).exists().await?, tx.key(&key).ttl().await?);
            tx.list(&key).push_back("b")?;
            let after = (tx.key(&key).exists().await?, tx.key(&key).ttl().await?);
            tx.key(&key).delete()?;
            tx.counter(&key).add(5)?;
            tx.key(&key).expire_in(LONG)?;
            let count = tx.counter(&key).get().await?;
            Ok((before, between, after, count))
        }
    });
    let (before, between, after, count) = seen.await.expect("committed");
    assert!(before.0 && matches!(before.1, Ttl::In(_)), "{before:?}");
    assert_eq!((between, after, count), ((false, Ttl::NoRecord), (true, Ttl::Forever), 5));
    assert_left(store.key(key).ttl().await, LONG, "committed");
    let given_up = store.transaction(|tx| {
        let key = key.to_owned();
        async move {
            assert!(tx.key(&key).delete_returning().await?);
            Err::<(), _>(claret::Abort::because("no"))
        }
    });
    given_up.await.expect_err("given up");
    assert_eq!(store.counter(key).get().await.expect("an answer"), 5);
    let batch = store.batch();
    let was = batch.key(key).delete_returning();
    batch.register(key).set_for("x", LONG);
    let ttl = batch.key(key).ttl();
    let done = batch.commit().await.expect("committed");
    assert!(done.get(was).expect("its own"));
    assert_left(Ok(done.get(ttl).expect("its own")), LONG, "a batch");
}

async fn it_vanishes(store: &Store, key: &str) {
    let (set, other) = (store.set(key), format!("{key}:other"));
    set.add("a").await.expect("added");
    store.register(&other).set_for("x", SOON).await.expect("written");
    set.as_key().expire_in(SOON).await.expect("set");
    until_gone(store, key).await;
    until_gone(store, &other).await;
    assert_eq!(set.len().await.expect("an answer"), 0);
    // Of another type now.
    store.list(key).push_back("b").await.expect("pushed");
    assert_eq!(store.key(key).ttl().await.expect("an answer"), Ttl::Forever);
    assert_eq!(store.register(&other).get().await.expect("an answer"), None::<Bytes>);
}

async fn until_gone(store: &Store, key: &str) {
    while store.key(key).exists().await.expect("an answer") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A transaction that read a record does not commit as if it were still there.
async fn it_vanishes_while_it_is_held(store: &Store, key: &str) {
    let made = AtomicU32::new(0);
    store.counter(key).add(7).await.expect("added");
    let read = store.transaction(|tx| {
        let (key, attempt) = (key.to_owned(), made.fetch_add(1, Ordering::SeqCst));
        async move {
            if attempt == 0 {
                tx.counter(&key).add(1)?;
                tx.key(&key).expire_in(SOON)?;
                return Ok(0);
            }
            unreachable!("nobody is in its way")
        }
    });
    read.await.expect("committed");
    made.store(0, Ordering::SeqCst);
    let read = store.transaction(|tx| {
        let (key, attempt) = (key.to_owned(), made.fetch_add(1, Ordering::SeqCst));
        async move {
            let count = tx.counter(&key).get().await?;
            if attempt == 0 {
                assert_eq!(count, 8);
                tokio::time::sleep(SOON * 2).await;
            }
            tx.register(format!("{key}:seen")).set(count.to_string())?;
            Ok(count)
        }
    });
    assert_eq!(read.await.expect("committed"), 0, "it was run again, and found nothing");
    assert!(made.load(Ordering::SeqCst) > 1);
}

/// What shares a record with what: the one is done while the other holds it.
async fn beside_what_commutes(store: &Store, prefix: &str) {
    let (counter, set) = (format!("{prefix}:counter"), format!("{prefix}:set"));
    store.counter(&counter).add(1).await.expect("added");
    store.set(&set).add("a").await.expect("added");
    let held = store.transaction(|tx| {
        let (store, counter, set) = (store.clone(), counter.clone(), set.clone());
        async move {
            // In a task of its own: it would be told that it waits for itself, if it did.
            tx.counter(&counter).add_returning(1).await?;
            tx.set(&set).add_returning("b").await?;
            let beside = tokio::spawn(async move {
                store.key(&counter).expire_in(LONG).await?;
                store.key(&set).expire_in(LONG).await?;
                store.key(&set).extend_expiry(LONG * 2).await?;
                Ok::<_, Error>((store.key(&counter).exists().await?, store.key(&set).ttl().await?))
            });
            Ok(beside.await.expect("it does not panic")?)
        }
    });
    let (exists, ttl) = held.await.expect("committed");
    assert!(exists && matches!(ttl, Ttl::In(_)), "{exists} {ttl:?}");
    assert_eq!(store.counter(&counter).get().await.expect("an answer"), 2);
    assert!(matches!(store.key(&counter).ttl().await.expect("an answer"), Ttl::In(_)));
}

async fn bad_times(store: &Store, key: &str) {
    store.counter(key).add(1).await.expect("added");
    for time in [Duration::MAX, Duration::from_secs(u64::MAX / 2000)] {
        let error = store.key(key).expire_in(time).await.expect_err("too long");
        let Error::Execute(ExecuteError::Invalid { key: named, error: OpError::Bound { .. } }) = &error
        else {
            panic!("{error:?}")
        };
        assert!(&named[..] == key.as_bytes() && error.to_string().contains("after 1970"), "{error}");
    }
    assert_eq!(store.key(key).ttl().await.expect("an answer"), Ttl::Forever);
    store.key(key).expire_at(SystemTime::UNIX_EPOCH - LONG).await.expect("it is over");
    assert!(!store.key(key).exists().await.expect("an answer"));
    fn generic<S: Records>(scope: &S) -> AnswerIn<S, bool> {
        scope.key("nothing").exists()
    }
    assert!(!generic(store).await.expect("an answer"));
}
