//! Bad input and misuse: every refusal says which key and what to do next, nothing is half applied, no lock stays,
//! and the store keeps working.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::faulty::{Faulty, FaultyOp};
use claret::types::{Counter, Set};
use claret::{
    Abort, Bytes, Error, Limits, OpError, Records, Store, Tx, TxOptions,
    errors::{CommitError, ExecuteError, HandleError},
    lab::{self, Mode, StoreLab},
};
use tokio::sync::Notify;

/// Nothing is held, nobody is here, and the store still commits.
async fn assert_sound(store: &Store) {
    let stats = store.stats();
    assert_eq!((stats.locked_records, stats.open_attempts), (0, 0), "{stats:?}");
    store.check_invariants();
    store
        .transaction(|tx| async move {
            tx.counter("sound").add(1)?;
            Ok(tx.counter("sound").get().await?)
        })
        .await
        .expect("the store goes on working");
}

/// Runs a transaction that writes to `other` first, one way with its lock taken and one way without, and then
/// does what is wrong. Returns the error.
async fn refused<F, Fut>(store: &Store, wrong: F) -> Error
where
    F: Fn(Tx) -> Fut,
    Fut: Future<Output = Result<(), Abort>>,
{
    let mut last = None;
    for lock_first in [false, true] {
        let result = store
            .transaction(|tx| {
                let wrong = wrong(tx.clone());
                async move {
                    tx.set("other").add("x")?;
                    if lock_first {
                        tx.set("other").len().await?;
                    }
                    wrong.await
                }
            })
            .await;
        let error = result.expect_err("it is refused");
        assert_eq!(store.peek::<Set>("other").expect("in this process"), None, "{error}: half applied");
        assert_sound(store).await;
        last = Some(error);
    }
    last.expect("two rounds")
}

fn assert_final(error: &Error, named: &[&str]) {
    assert!(!error.is_retryable(), "{error}");
    for part in named {
        assert!(error.to_string().contains(part), "{error:?} does not say '{part}': {error}");
    }
}

#[tokio::test]
async fn a_wrong_type_names_the_key_and_both_types() {
    let store = Store::in_memory();
    store.set("colours").add("red").await.unwrap();
    let parts = ["'colours'", "WRONGTYPE", "holds a set", "another key"];
    assert_final(&refused(&store, |tx| async move { Ok(tx.counter("colours").add(1)?) }).await, &parts);
    let read = |tx: Tx| async move {
        tx.list("colours").len().await?;
        Ok(())
    };
    assert_final(&refused(&store, read).await, &parts);
    assert_final(&store.scored_set("colours").len().await.unwrap_err(), &parts);
    assert_eq!(store.set("colours").members::<String>().await.unwrap(), ["red"]);
}

#[tokio::test]
async fn a_nan_is_refused_before_anything_is_sent() {
    let store = Store::in_memory();
    let parts = ["'scores'", "NaN", "pass a number"];
    let add = |tx: Tx| async move { Ok(tx.scored_set("scores").add("ada", f64::NAN)?) };
    assert_final(&refused(&store, add).await, &parts);
    assert_final(&store.top_k("scores", 3).add("ada", f64::NAN).await.unwrap_err(), &parts);
    assert_final(&store.summary_bag("scores").add(f64::NAN).await.unwrap_err(), &parts);
    assert_final(&store.float_counter("scores").add(f64::NAN).await.unwrap_err(), &["'scores'", "NaN"]);
    assert_eq!(store.scored_set("scores").len().await.unwrap(), 0);
}

#[tokio::test]
async fn an_overflow_changes_nothing() {
    let store = Store::in_memory();
    store.counter("n").add(i64::MAX - 1).await.unwrap();
    let parts = ["'n'", "overflow", "nothing was changed"];
    assert_final(&refused(&store, |tx| async move { Ok(tx.counter("n").add(2)?) }).await, &parts);
    let in_two = |tx: Tx| async move {
        tx.counter("n").add(1)?;
        tx.counter("n").add_returning(1).await?;
        Ok(())
    };
    assert_final(&refused(&store, in_two).await, &parts);
    store.counter("n").add(1).await.unwrap();
    assert_eq!(store.counter("n").get().await.unwrap(), i64::MAX);
}

#[tokio::test]
async fn senseless_bounds_are_refused() {
    let store = Store::in_memory();
    let create = |tx: Tx| async move { Ok(tx.bounded_counter("stock").create(0, 5, -5)?) };
    assert_final(&refused(&store, create).await, &["'stock'", "min 5, max -5", "min <= max"]);
    let outside = |tx: Tx| async move { Ok(tx.bounded_counter("stock").create(9, 0, 5)?) };
    assert_final(&refused(&store, outside).await, &["'stock'", "9", "within its bounds"]);
    store.bounded_counter("stock").create(3, 0, 5).await.unwrap();
    let negative = |tx: Tx| async move { Ok(tx.bounded_counter("stock").take(-1)?) };
    assert_final(&refused(&store, negative).await, &["'stock'", "-1", "BINCRBY"]);
    let too_much = |tx: Tx| async move { Ok(tx.bounded_counter("stock").take(4)?) };
    assert_final(&refused(&store, too_much).await, &["'stock'", "4", "value 3", "BDECRBY.RETURNING"]);
    let zero = |tx: Tx| async move { Ok(tx.top_k("top", 0).add("ada", 1.0)?) };
    assert_final(&refused(&store, zero).await, &["'top'", "capacity cannot be 0", "from 1 to"]);
    assert_eq!(store.bounded_counter("stock").get().await.unwrap(), Some(3));
}

#[tokio::test]
async fn keys_have_a_length() {
    let store = Store::in_memory();
    let parts = ["a key cannot be empty", "name one"];
    assert_final(&refused(&store, |tx| async move { Ok(tx.counter("").add(1)?) }).await, &parts);
    assert_final(&store.counter("").get().await.unwrap_err(), &parts);
    let batch = store.batch();
    batch.set("other").add("x");
    batch.counter("").add(1);
    assert_final(&batch.commit().await.unwrap_err(), &parts);
    assert_eq!(store.peek::<Set>("other").expect("in this process"), None);
    let long = store.counter(vec![b'k'; 1 << 20]).add(1).await.unwrap_err();
    assert_final(&long, &["1048576 bytes", "limit of 65536 bytes"]);
    assert!(long.to_string().len() < 1000, "the message does not repeat the whole key");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_huge_value_is_refused_by_the_limit() {
    const HUGE: usize = 512 << 20;
    let store = Store::in_memory();
    let huge: Bytes = vec![0; HUGE].into();
    // The zeroes are never touched, so they take no memory unless somebody copies them.
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").ok()?;
        status.split(' ').nth(1)?.parse::<usize>().ok()
    };
    let before = resident();
    let error = store.register("blob").set(huge).await.unwrap_err();
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!((after.saturating_sub(before)) * 4096 < HUGE / 4, "the value was copied");
    }
    assert_final(&error, &["'blob'", "536870912 bytes", "limit of 67108864", "split it"]);

    let small = Store::builder().limits(Limits::new().value_bytes_max(10)).build();
    let add = |tx: Tx| async move { Ok(tx.set("tags").add("eleven byte")?) };
    assert_final(&refused(&small, add).await, &["'tags'", "11 bytes", "limit of 10"]);
    small.set("tags").add("ten  bytes").await.unwrap();
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_doomed_transaction_does_not_commit_whatever_its_closure_says() {
    let store = Store::in_memory();
    store.set("colours").add("red").await.unwrap();
    // Refused on the spot.
    let nan = |tx: Tx| async move {
        let _ = tx.scored_set("scores").add("ada", f64::NAN);
        Ok(())
    };
    assert_final(&refused(&store, nan).await, &["'scores'", "NaN"]);
    // Refused by the record, with an answer.
    let wrong = |tx: Tx| async move {
        let error = tx.counter("colours").get().await.unwrap_err();
        assert!(
            matches!(&error, Error::Execute(ExecuteError::Invalid { key, .. }) if *key == Bytes::from("colours"))
        );
        assert_eq!(tx.counter("fine").get().await, Err(error.clone()), "it is over for good");
        assert_eq!(tx.counter("fine").add(1), Err(error));
        Ok(())
    };
    assert_final(&refused(&store, wrong).await, &["'colours'", "WRONGTYPE"]);
    // An error of its own in place of the operation's.
    let masked = |tx: Tx| async move {
        tx.counter("colours").get().await.map_err(|_| Abort::because("something went wrong"))?;
        Ok(())
    };
    assert_final(&refused(&store, masked).await, &["'colours'", "WRONGTYPE"]);
}

#[tokio::test]
async fn an_answer_that_nobody_awaits_does_not_stop_the_commit() {
    let store = Store::in_memory();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let other = store.clone();
    let impatient = tokio::spawn(async move {
        other
            .transaction(|tx| async move {
                tx.set("other").add("x")?;
                let answer = tx.counter("k").add_returning(1);
                let waited = tokio::time::timeout(Duration::from_millis(5), answer).await;
                assert!(waited.is_err(), "the lock is held");
                Ok(())
            })
            .await
    });
    // No event tells that nothing happens.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!impatient.is_finished(), "the operation is part of the transaction all the same");
    go.notify_one();
    holder.await.unwrap();
    impatient.await.unwrap().unwrap();
    assert_eq!(store.counter("k").get().await.unwrap(), 2);
    assert_sound(&store).await;
}

/// A transaction that adds 1 to `key`, seeing the sum, and keeps it locked until told.
fn hold(
    store: &Store,
    key: &'static str,
    holding: Arc<Notify>,
    go: Arc<Notify>,
) -> tokio::task::JoinHandle<()> {
    let store = store.clone();
    tokio::spawn(async move {
        let body = |tx: Tx| {
            let (holding, go) = (Arc::clone(&holding), Arc::clone(&go));
            async move {
                tx.counter(key).add_returning(1).await?;
                holding.notify_one();
                go.notified().await;
                Ok(())
            }
        };
        store.transaction(body).await.unwrap();
    })
}

#[tokio::test]
async fn a_bad_read_in_a_batch_refuses_all_of_it() {
    let store = Store::in_memory();
    store.set("colours").add("red").await.unwrap();
    fn filled<S: Records>(batch: S) -> S {
        batch.counter("before").add(1);
        let _ = batch.counter("colours").get();
        batch.counter("after").add(1);
        batch
    }
    let fill = || filled(store.batch());
    assert_final(&fill().commit().await.unwrap_err(), &["'colours'", "WRONGTYPE"]);
    let blocking = filled(store.blocking().batch()).commit();
    assert_final(&blocking.unwrap_err(), &["'colours'", "WRONGTYPE"]);
    // The same the long way: somebody holds one of its records.
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "before", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let waiting = tokio::spawn(fill().commit());
    tokio::task::yield_now().await;
    go.notify_one();
    holder.await.unwrap();
    assert_final(&waiting.await.unwrap().unwrap_err(), &["'colours'", "WRONGTYPE"]);
    assert_eq!(
        (
            store.peek::<Counter>("after").expect("in this process"),
            store.counter("before").get().await.unwrap()
        ),
        (None, 1)
    );
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_batch_that_waits_gets_its_answers() {
    let store = Store::in_memory();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let batch = store.batch();
    batch.set("s").add("x");
    let sum = batch.counter("k").add_returning(1);
    let size = batch.set("s").len();
    let waiting = tokio::spawn(batch.commit());
    tokio::task::yield_now().await;
    assert_eq!(store.stats().open_attempts, 1 + 2, "the holder's, and the batch's on two shards");
    go.notify_one();
    holder.await.unwrap();
    let replies = waiting.await.unwrap().unwrap();
    assert_eq!((replies.get(sum).unwrap(), replies.get(size).unwrap()), (2, 1));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_type_that_panics_fails_its_operation_alone() {
    let store = Store::in_memory();
    let parts = ["'faulty'", "FAULT panicked", "no such case", "mend the type"];
    for key in ["a", "b", "c"] {
        store.counter(key).add(1).await.unwrap();
    }
    let batch = store.batch();
    batch.counter("a").add(1);
    batch.counter("b").add(1);
    batch.record::<Faulty>("faulty").issue(FaultyOp::Panic);
    batch.counter("c").add(1);
    assert_final(&batch.commit().await.unwrap_err(), &parts);
    // On top of the transaction's own effects, which are put under the execution for its duration.
    let panics = |tx: Tx| async move {
        tx.record::<Faulty>("faulty").issue(FaultyOp::Add(5))?;
        tx.record::<Faulty>("faulty").run::<i64>(FaultyOp::Get).await?;
        tx.record::<Faulty>("faulty").issue(FaultyOp::Panic)?;
        Ok(())
    };
    assert_final(&refused(&store, panics).await, &parts);
    assert_eq!(store.record::<Faulty>("faulty").run::<i64>(FaultyOp::Get).await.unwrap(), 0);
    for key in ["a", "b", "c"] {
        assert_eq!(store.counter(key).get().await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_type_that_panics_does_not_harm_whom_it_waited_for() {
    let store = Store::in_memory();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (signal, wait, other) = (Arc::clone(&holding), Arc::clone(&go), store.clone());
    let holder = tokio::spawn(async move {
        let body = |tx: Tx| {
            let (signal, wait) = (Arc::clone(&signal), Arc::clone(&wait));
            async move {
                tx.record::<Faulty>("faulty").run::<i64>(FaultyOp::Get).await?;
                tx.record::<Faulty>("faulty").issue(FaultyOp::Add(1))?;
                tx.counter("other").add(1)?;
                signal.notify_one();
                wait.notified().await;
                Ok(())
            }
        };
        other.transaction(body).await
    });
    holding.notified().await;
    let other = store.clone();
    let faulty = tokio::spawn(async move { other.record::<Faulty>("faulty").issue(FaultyOp::Panic).await });
    tokio::task::yield_now().await;
    go.notify_one();
    // The holder's commit executes what waited behind it.
    holder.await.expect("no panic").expect("committed");
    assert_final(&faulty.await.unwrap().unwrap_err(), &["'faulty'", "panicked"]);
    assert_eq!(store.counter("other").get().await.unwrap(), 1);
    assert_sound(&store).await;
}

#[test]
fn a_blocking_closure_that_panics_frees_its_locks() {
    let store = Store::in_memory();
    let blocking = store.blocking();
    let thread = std::thread::spawn(move || {
        blocking.transaction(|tx| -> Result<(), Abort> {
            tx.counter("k").add_returning(1)?;
            tx.set("other").add("x")?;
            panic!("a bug of the application")
        })
    });
    assert!(thread.join().is_err());
    assert_eq!(
        (
            store.peek::<Counter>("k").expect("in this process"),
            store.peek::<Set>("other").expect("in this process")
        ),
        (None, None)
    );
    pollster::block_on(assert_sound(&store));
}

#[tokio::test]
async fn a_waiter_that_is_dropped_lets_the_others_pass() {
    let store = Store::in_memory();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let spawn = |store: &Store| {
        let store = store.clone();
        tokio::spawn(async move {
            store
                .transaction(|tx| async move {
                    tx.set("other").add("x")?;
                    tx.set("other").len().await?;
                    tx.counter("k").add_returning(1).await?;
                    Ok(())
                })
                .await
        })
    };
    let dropped = spawn(&store);
    tokio::task::yield_now().await;
    let behind = spawn(&store);
    tokio::task::yield_now().await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    go.notify_one();
    holder.await.unwrap();
    behind.await.unwrap().unwrap();
    assert_eq!(store.counter("k").get().await.unwrap(), 2);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_handle_of_an_earlier_attempt_does_nothing() {
    let (mut first, mut runs) = (None, 0);
    let limits = lab::Limits {
        lock_tries_max: 1,
        backoff_us_min: 500,
        backoff_us_max: 1_000,
        ..lab::Limits::default()
    };
    let store = Store::builder().mode(Mode::ReaderWriter).protocol_limits(limits).build();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let retried = store
        .transaction(|tx| {
            runs += 1;
            let earlier = first.replace(tx.clone());
            if earlier.is_some() {
                go.notify_one();
            }
            async move {
                if let Some(earlier) = earlier {
                    assert_eq!(earlier.counter("k").add(100), Err(Error::Handle(HandleError::Finished)));
                    assert_eq!(earlier.counter("k").get().await, Err(Error::Handle(HandleError::Finished)));
                    // Not even bad input through it may doom the attempt that runs.
                    assert_eq!(earlier.counter("").add(1), Err(Error::Handle(HandleError::Finished)));
                }
                tx.counter("k").add_returning(1).await?;
                Ok(())
            }
        })
        .await;
    retried.unwrap();
    holder.await.unwrap();
    assert!(runs > 1, "the attempt was run again");
    assert_eq!(store.counter("k").get().await.unwrap(), 2);
    assert_sound(&store).await;
}

#[tokio::test]
async fn one_attempt_is_one_attempt() {
    let limits =
        lab::Limits { lock_tries_max: 2, backoff_us_min: 1, backoff_us_max: 1, ..lab::Limits::default() };
    let store = Store::builder().mode(Mode::Commuting).protocol_limits(limits).build();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let mut runs = 0;
    let error = store
        .tx()
        .attempts(1)
        .run(|tx| {
            runs += 1;
            async move {
                tx.set("other").add("x")?;
                tx.counter("k").get().await?;
                Ok(())
            }
        })
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Commit(CommitError::Attempts { made: 1, .. })), "{error:?}");
    assert!(error.is_retryable() && error.to_string().contains("raise the number of attempts"), "{error}");
    assert_eq!((runs, store.peek::<Set>("other").expect("in this process")), (1, None));
    go.notify_one();
    holder.await.unwrap();
    assert_sound(&store).await;
}

#[tokio::test]
async fn many_buffered_calls_are_one_transaction() {
    let store = Store::in_memory();
    store
        .transaction(|tx| async move {
            for call in 0..100_000 {
                tx.counter(format!("many:{}", call % 1000)).add(1)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    for key in 0..1000 {
        assert_eq!(store.counter(format!("many:{key}")).get().await.unwrap(), 100);
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn too_many_calls_are_refused() {
    let limits = Limits::new().calls_max(10);
    let store = Store::builder().limits(limits).build();
    let many = |calls: u32| {
        move |tx: Tx| async move {
            for call in 0..calls {
                tx.counter(format!("n:{call}")).add(1)?;
            }
            Ok(())
        }
    };
    let parts = ["over 10 operations", "split it", "calls_max"];
    assert_final(&refused(&store, many(10)).await, &parts);
    let ignored = |tx: Tx| async move {
        for call in 0..20 {
            let _ = tx.counter(format!("n:{call}")).add(1);
        }
        Ok(())
    };
    assert_final(&refused(&store, ignored).await, &parts);
    assert_eq!(store.peek::<Counter>("n:0").expect("in this process"), None);
    store.transaction(many(10)).await.expect("as many as it may have");
    let batch = store.batch();
    for call in 0..11 {
        batch.counter(format!("n:{call}")).add(1);
    }
    assert_final(&batch.commit().await.unwrap_err(), &parts);
    assert_eq!(
        (store.counter("n:0").get().await.unwrap(), store.peek::<Counter>("n:10").expect("in this process")),
        (1, None)
    );
    assert_sound(&store).await;
}

#[tokio::test]
async fn thousands_wait_for_one_key() {
    const WAITERS: i64 = 5_000;
    let store = Store::in_memory();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                // Reads, sums seen and blind adds: three modes that exclude one another.
                match number % 3 {
                    0 => store.counter("k").get().await.map(drop),
                    1 => store.counter("k").add_returning(1).await.map(drop),
                    _ => store.counter("k").add(1).await,
                }
            })
        })
        .collect();
    while store.stats().open_attempts < 1 + WAITERS as u64 {
        tokio::task::yield_now().await;
    }
    go.notify_one();
    holder.await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(
        store.counter("k").get().await.unwrap(),
        1 + (0..WAITERS).filter(|it| it % 3 != 0).count() as i64
    );
    assert_sound(&store).await;
}

#[tokio::test]
async fn too_many_waiters_are_turned_away() {
    let store = Store::builder().limits(Limits::new().waiters_max(3)).build();
    let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
    holding.notified().await;
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.counter("k").add(1).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let error = store.counter("k").add(1).await.unwrap_err();
    assert!(error.is_retryable() && matches!(error, Error::Execute(ExecuteError::Crowded(_))), "{error:?}");
    assert!(error.to_string().contains("'k'") && error.to_string().contains("try again later"), "{error}");
    go.notify_one();
    holder.await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(store.counter("k").get().await.unwrap(), 4);
    assert_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_never_hides_a_commit() {
    let store = Store::in_memory();
    let mut committed = 0;
    for round in 0..150_u64 {
        let (holding, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let holder = hold(&store, "k", Arc::clone(&holding), Arc::clone(&go));
        holding.notified().await;
        let options = TxOptions::new().deadline(Duration::from_micros(1_000));
        let other = store.clone();
        let late = tokio::spawn(async move {
            other
                .tx()
                .options(options)
                .run(|tx| async move {
                    tx.counter("n").add(1)?;
                    tx.counter("k").add(1)?;
                    Ok(())
                })
                .await
        });
        // The lock comes about when the time is over, a little sooner or later in each round.
        tokio::time::sleep(Duration::from_micros(500 + 10 * (round % 100))).await;
        go.notify_one();
        holder.await.unwrap();
        match late.await.unwrap() {
            Ok(()) => committed += 1,
            Err(error) => assert!(matches!(error, Error::Commit(CommitError::Deadline { .. })), "{error:?}"),
        }
        assert_eq!(store.counter("n").get().await.unwrap(), committed, "round {round}");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_error_of_an_operation_can_be_matched() {
    let store = Store::in_memory();
    let error = store.counter("").get().await.unwrap_err();
    assert!(matches!(error, Error::Execute(ExecuteError::Invalid { error: OpError::EmptyKey, .. })));
}
