//! A transaction with an id: done once, and its answer can be had again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use claret::{
    Abort, Error, OnceOutcome, Records, Store, TxOptions,
    errors::{BeginError, ExecuteError},
    types::Ttl,
};

pub(crate) async fn all(store: &Store, prefix: &str) {
    let key = |name: &str| format!("{prefix}once:{name}");
    answers_again(store, &key("order"), &key("orders")).await;
    an_abort_leaves_no_mark(store, &key("sold out"), &key("seats")).await;
    what_is_left_of_an_answer(store, &key("left"), &key("n")).await;
    in_the_blocking_mirror(store, key("blocking"), key("m")).await;
    two_at_once(store, &key("race"), &key("raced")).await;
    a_mark_ends_when_the_caller_said(store, &key("ends"), &key("ended")).await;
}

/// And not before it: an id counts as new after the time that was said, and only then.
async fn a_mark_ends_when_the_caller_said(store: &Store, id: &str, orders: &str) {
    let order = |options: TxOptions| {
        store.tx().options(options).once(id).run(|tx| {
            let orders = orders.to_owned();
            async move { Ok(tx.counter(orders).add_returning(1).await?) }
        })
    };
    let hour = Duration::from_secs(60 * 60);
    assert_eq!(order(TxOptions::new().keep_mark(hour)).await, Ok(OnceOutcome::First(1)));
    let left = store.key(format!("claret:done:{id}")).ttl().await;
    assert!(matches!(left, Ok(Ttl::In(time)) if time <= hour && time > hour / 2), "{left:?}");
    // A later call finds the mark as it is, and leaves it.
    let brief = TxOptions::new().keep_mark(Duration::from_millis(1)).keep_answer(Duration::from_millis(1));
    assert_eq!(order(brief).await, Ok(OnceOutcome::Again(1)));
    let other = format!("{id}:brief");
    let order = |options: TxOptions| {
        store.tx().options(options).once(&other).run(|tx| {
            let orders = orders.to_owned();
            async move { Ok(tx.counter(orders).add_returning(1).await?) }
        })
    };
    assert_eq!(order(brief).await, Ok(OnceOutcome::First(2)));
    loop {
        match order(brief).await {
            Ok(OnceOutcome::First(number)) => break assert_eq!(number, 3),
            Ok(OnceOutcome::Again(number)) => assert_eq!(number, 2),
            Err(error) => assert_eq!(error, Error::Begin(BeginError::AlreadyDone { id: other.clone() })),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The answer expires, on a store that keeps it for this short; that it was done stays.
pub(crate) async fn an_answer_expires(store: &Store, prefix: &str) {
    let (id, key) = (format!("{prefix}once:brief"), format!("{prefix}once:brief orders"));
    let runs = AtomicU32::new(0);
    let order = || {
        store.tx().once(&id).run(|tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            let key = key.clone();
            async move { Ok(tx.counter(key).add_returning(1).await?) }
        })
    };
    assert_eq!(order().await, Ok(OnceOutcome::First(1)));
    let ran = runs.load(Ordering::Relaxed);
    loop {
        match order().await {
            Ok(again) => assert_eq!(again, OnceOutcome::Again(1)),
            Err(error) => break assert_eq!(error, Error::Begin(BeginError::AlreadyDone { id: id.clone() })),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(runs.load(Ordering::Relaxed), ran, "the closure is not called again");
    assert_eq!(store.counter(&key).get().await, Ok(1));
    assert_eq!(store.key(format!("claret:done:{id}")).ttl().await, Ok(Ttl::Forever));
    assert_eq!(store.key(format!("claret:answer:{id}")).ttl().await, Ok(Ttl::NoRecord));
}

async fn answers_again(store: &Store, id: &str, orders: &str) {
    let runs = AtomicU32::new(0);
    let order = || {
        store.tx().once(id).run(|tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            async move { Ok(tx.counter(orders).add_returning(1).await?) }
        })
    };
    assert_eq!(order().await, Ok(OnceOutcome::First(1)));
    let seen = runs.load(Ordering::Relaxed);
    assert_eq!(order().await, Ok(OnceOutcome::Again(1)));
    assert_eq!(runs.load(Ordering::Relaxed), seen, "the closure is not called again");
    assert_eq!(store.counter(orders).get().await, Ok(1));
    let left = store.key(format!("claret:answer:{id}")).ttl().await;
    let day = Duration::from_secs(24 * 60 * 60);
    assert!(matches!(left, Ok(Ttl::In(time)) if time <= day && time > day / 2), "{left:?}");
    assert_eq!(store.key(format!("claret:done:{id}")).ttl().await, Ok(Ttl::Forever));
    let void = format!("{id}:void");
    let nothing = || store.tx().once(&void).run(|_| async { Ok(()) });
    assert_eq!((nothing().await, nothing().await), (Ok(OnceOutcome::First(())), Ok(OnceOutcome::Again(()))));
}

#[derive(Debug, PartialEq)]
enum Purchase {
    SoldOut,
    Store(Error),
}

impl From<Error> for Purchase {
    fn from(error: Error) -> Self {
        Purchase::Store(error)
    }
}

async fn an_abort_leaves_no_mark(store: &Store, id: &str, seats: &str) {
    store.bounded_counter(seats).create(0, 0, 1).await.expect("created");
    let buy = || {
        store.tx().once(id).try_run(|tx| async move {
            match tx.bounded_counter(seats).try_take(1).await? {
                true => Ok("seat 1".to_owned()),
                false => Err(Purchase::SoldOut),
            }
        })
    };
    assert_eq!(buy().await, Err(Purchase::SoldOut));
    store.bounded_counter(seats).add(1).await.expect("one came back");
    assert_eq!(buy().await, Ok(OnceOutcome::First("seat 1".to_owned())));
    assert_eq!(buy().await, Ok(OnceOutcome::Again("seat 1".to_owned())), "though it is sold out again");
    let id = format!("{id}:plain");
    let plain = store.tx().once(&id).run(|_| async { Err::<(), _>(Abort::because("not today")) });
    assert!(matches!(plain.await, Err(Error::Aborted(_))));
}

/// The answer may go before the mark, and may be of another type than a later program asks for.
async fn what_is_left_of_an_answer(store: &Store, id: &str, key: &str) {
    let first = store.tx().once(id).run(|tx| async move {
        tx.counter(key).add(1)?;
        Ok("text".to_owned())
    });
    assert_eq!(first.await, Ok(OnceOutcome::First("text".to_owned())));
    let other = store.tx().once(id).run(|_| async { Ok(7_i64) }).await;
    assert!(
        matches!(&other, Err(Error::Execute(ExecuteError::Value { key, .. })) if *key == format!("claret:answer:{id}").into()),
        "{other:?}"
    );
    // As by a program that wrote the mark alone.
    let marked = format!("{id}:marked");
    store.register(format!("claret:done:{marked}")).set("1").await.expect("set");
    let again = store.tx().once(&marked).run(|tx| async move { Ok(tx.counter(key).add(1)?) }).await;
    assert_eq!(again, Err(Error::Begin(BeginError::AlreadyDone { id: marked.clone() })));
    let error = again.expect_err("just seen");
    assert!(!error.is_retryable() && error.to_string().contains(&marked), "{error}");
    assert_eq!(store.counter(key).get().await, Ok(1), "nothing was done again");
}

/// Bug: a closure that blocks has done all that it does when it is called, and it was called before the mark was looked
/// for. The second call then committed everything a second time.
async fn in_the_blocking_mirror(store: &Store, id: String, key: String) {
    let (blocking, counted) = (store.blocking(), key.clone());
    let twice = move || {
        let order = || {
            blocking.tx().once(&id).run(|tx| {
                tx.counter(&counted).add(1)?;
                Ok(tx.counter(&counted).get()?)
            })
        };
        (order(), order())
    };
    let (first, again) = tokio::task::spawn_blocking(twice).await.expect("no panic");
    assert_eq!((first, again), (Ok(OnceOutcome::First(1)), Ok(OnceOutcome::Again(1))));
    assert_eq!(store.counter(&key).get().await, Ok(1));
}

async fn two_at_once(store: &Store, id: &str, key: &str) {
    let order = || store.tx().once(id).run(|tx| async move { Ok(tx.counter(key).add_returning(1).await?) });
    let (one, other) = tokio::join!(order(), order());
    let (one, other) = (one.expect("it commits"), other.expect("it commits"));
    assert!(one.is_first() != other.is_first(), "{one:?} {other:?}");
    assert_eq!((one.into_value(), other.into_value()), (1, 1));
}
