//! What optimistic transactions and conditional batches promise on any store (`docs/optimistic.md`). Keys are in slots and shards of
//! their own: what is promised does not depend on that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use claret::{
    Abort, Error, OpError, Records, Reply, Store, TxOptions,
    errors::{CommitError, ExecuteError, HandleError},
    lab::TxLab,
};
use tokio::sync::Barrier;
use tokio::time::timeout;

fn optimistic() -> TxOptions {
    TxOptions::new().optimistic()
}

/// Something that waits for a lock is not done by then.
const SOON: Duration = Duration::from_millis(150);

/// All of them, on keys that begin like this.
pub(crate) async fn all(store: &Store, keys: &str) {
    others_do_not_matter_that_commute(store, keys).await;
    what_was_seen_and_changed_is_looked_at_again(store, keys).await;
    a_thinker_stands_in_nobodys_way(store, keys).await;
    two_that_see_each_others_records_are_one_after_the_other(store, keys).await;
    a_number_is_drawn_once(store, keys).await;
    an_error_is_believed_if_what_was_seen_is_so(store, keys).await;
    an_operation_that_cannot_be_done_is_believed_once_checked(store, keys).await;
    an_error_under_a_lock_tells_of_what_was_seen(store, keys).await;
    a_record_of_another_type_is_another_answer(store, keys).await;
    what_changes_too_often_is_locked(store, keys).await;
    who_is_optimistic_only_is_told_the_key(store, keys).await;
    the_same_question_has_the_same_answer(store, keys).await;
    own_writes_are_seen(store, keys).await;
    for_update_locks(store, keys).await;
    an_answer_nobody_waits_for_is_checked_too(store, keys).await;
    a_batch_is_done_if_all_is_as_expected(store, keys).await;
    what_cannot_be_expected_is_refused(store, keys).await;
}

async fn others_do_not_matter_that_commute(store: &Store, keys: &str) {
    let (tags, seats) = (format!("{keys}tags"), format!("{keys}seats"));
    store.set(&tags).add("red").await.expect("added");
    store.bounded_counter(&seats).create(10, 0, 10).await.expect("created");
    let attempts = store.tx().options(optimistic()).run(async |tx| {
        assert!(tx.set(&tags).contains("red").await?);
        assert!(tx.bounded_counter(&seats).try_take(2).await?);
        store.set(&tags).add("blue").await?;
        store.bounded_counter(&seats).try_take(3).await?;
        Ok(tx.attempt())
    });
    assert_eq!(attempts.await, Ok(1), "nothing that was seen has changed");
    assert_eq!(store.bounded_counter(&seats).get().await, Ok(Some(5)));
}

async fn what_was_seen_and_changed_is_looked_at_again(store: &Store, keys: &str) {
    let (tags, size) = (format!("{keys}changing"), format!("{keys}size"));
    let seen = store.tx().options(optimistic()).run(async |tx| {
        let count = tx.set(&tags).len().await?;
        if tx.attempt() == 1 {
            store.set(&tags).add("late").await?;
        }
        tx.register(&size).set(count as i64)?;
        Ok((tx.attempt(), count))
    });
    assert_eq!(seen.await, Ok((2, 1)));
    assert_eq!(store.register(&size).get::<i64>().await, Ok(Some(1)));
}

async fn a_thinker_stands_in_nobodys_way(store: &Store, keys: &str) {
    let price = format!("{keys}price");
    store.register(&price).set(5_i64).await.expect("set");
    let seen = store.tx().options(optimistic()).run(async |tx| {
        let seen = tx.register(&price).get::<i64>().await?;
        if tx.attempt() == 1 {
            let set = timeout(SOON, store.register(&price).set(6_i64)).await;
            set.expect("it waits for nobody who only looks").expect("set");
        }
        Ok(seen)
    });
    assert_eq!(seen.await, Ok(Some(6)));
}

/// Each sees the other's record and writes its own: one after the other, one of them sees what the other wrote.
async fn two_that_see_each_others_records_are_one_after_the_other(store: &Store, keys: &str) {
    for round in 0..20 {
        let (one, other) = (format!("{keys}one{round}"), format!("{keys}other{round}"));
        let both = Arc::new(Barrier::new(2));
        let run = |sees: String, writes: String| {
            let (store, both) = (store.clone(), Arc::clone(&both));
            tokio::spawn(async move {
                let seen = store.tx().options(optimistic()).run(async |tx| {
                    let seen = tx.counter(&sees).get().await?;
                    if tx.attempt() == 1 {
                        both.wait().await;
                    }
                    tx.counter(&writes).add(1)?;
                    Ok(seen)
                });
                seen.await.expect("committed")
            })
        };
        let (first, second) = (run(one.clone(), other.clone()), run(other, one));
        let seen = first.await.expect("ran") + second.await.expect("ran");
        assert_eq!(seen, 1, "round {round}: neither of them came first");
    }
}

/// A number that is drawn goes into keys and values, and drawn anew it would be another one.
async fn a_number_is_drawn_once(store: &Store, keys: &str) {
    let (ids, last) = (format!("{keys}ids"), format!("{keys}last"));
    let drawn = store.tx().options(optimistic()).run(async |tx| {
        let id = tx.uid_generator(&ids).next().await?;
        store.uid_generator(&ids).next().await?;
        tx.register(&last).set(id)?;
        Ok((tx.attempt(), id))
    });
    let (attempt, id) = drawn.await.expect("committed");
    assert_eq!(attempt, 1);
    assert_eq!(store.register(&last).get::<i64>().await, Ok(Some(id)));
}

async fn an_error_is_believed_if_what_was_seen_is_so(store: &Store, keys: &str) {
    let (x, y) = (format!("{keys}x"), format!("{keys}y"));
    store.counter(&x).add(50).await.expect("added");
    store.counter(&y).add(50).await.expect("added");
    let runs = AtomicU32::new(0);
    let sum = store.tx().options(optimistic()).run(async |tx| {
        runs.fetch_add(1, Ordering::Relaxed);
        let seen = tx.counter(&x).get().await?;
        if tx.attempt() == 1 {
            let moved = store.batch();
            moved.counter(&x).add(10);
            moved.counter(&y).add(-10);
            moved.commit().await?;
        }
        let sum = seen + tx.counter(&y).get().await?;
        if sum == 100 { Ok(sum) } else { Err(Abort::because(format!("books do not balance: {sum}"))) }
    });
    assert_eq!(sum.await, Ok(100));
    assert_eq!(runs.into_inner(), 2);
    // What is true is told as it is.
    let told = store.tx().options(optimistic()).run(async |tx| -> Result<(), Abort> {
        let seen = tx.counter(&x).get().await?;
        tx.counter(&x).add(1)?;
        Err(Abort::because(format!("{seen} is enough")))
    });
    let told = told.await.expect_err("aborted");
    assert!(matches!(&told, Error::Aborted(reason) if reason.to_string() == "60 is enough"), "{told}");
    assert_eq!(store.counter(&x).get().await, Ok(60), "nothing was done");
}

async fn an_operation_that_cannot_be_done_is_believed_once_checked(store: &Store, keys: &str) {
    let (limit, stock) = (format!("{keys}limit"), format!("{keys}stock"));
    store.counter(&limit).add(5).await.expect("added");
    store.bounded_counter(&stock).create(3, 0, 9).await.expect("created");
    let taken = store.tx().options(optimistic()).run(async |tx| {
        let amount = tx.counter(&limit).get().await?;
        if tx.attempt() == 1 {
            store.counter(&limit).add(-3).await?;
        }
        // There are not so many.
        tx.bounded_counter(&stock).take(amount)?;
        let left = tx.bounded_counter(&stock).get().await?;
        Ok((tx.attempt(), left))
    });
    assert_eq!(taken.await, Ok((2, Some(1))));
    let fails = store.tx().options(optimistic()).run(async |tx| {
        tx.bounded_counter(&stock).take(7)?;
        // The closure looks away from it.
        let _ = tx.bounded_counter(&stock).get().await;
        tx.counter(&limit).add(1)?;
        Ok(())
    });
    let told = fails.await;
    assert!(
        matches!(&told, Err(Error::Execute(ExecuteError::Invalid { key, error: OpError::Insufficient { .. } })) if key.as_str() == Some(&stock)),
        "{told:?}"
    );
    assert_eq!(store.counter(&limit).get().await, Ok(2), "nothing was done");
}

/// Bug: an operation that failed under its lock ended the transaction. Consequence: its user was told of an error that came of what was
/// not so any more.
async fn an_error_under_a_lock_tells_of_what_was_seen(store: &Store, keys: &str) {
    for optimistic_only in [false, true] {
        let (limit, stock) =
            (format!("{keys}limit{optimistic_only}"), format!("{keys}stock{optimistic_only}"));
        store.counter(&limit).add(5).await.expect("added");
        store.bounded_counter(&stock).create(3, 0, 9).await.expect("created");
        let options = if optimistic_only { optimistic().optimistic_only() } else { optimistic() };
        let left = store.tx().options(options).run(async |tx| {
            let amount = tx.counter(&limit).get().await?;
            if tx.attempt() == 1 {
                store.counter(&limit).add(-3).await?;
            }
            let get =
                claret::Operation::new::<claret::types::BoundedCounter>(claret::types::BoundedCounterOp::Get);
            tx.execute_for_update(&*stock, get).await?;
            tx.bounded_counter(&stock).take(amount)?;
            tx.bounded_counter(&stock).get().await.map_err(Abort::from)
        });
        assert_eq!(left.await, Ok(Some(1)));
        // Where nothing was looked at before, the error is told at once.
        let fails = store.tx().options(options).run(async |tx| {
            tx.bounded_counter(&stock).take(7)?;
            Ok(tx.attempt())
        });
        assert!(matches!(
            fails.await,
            Err(Error::Execute(ExecuteError::Invalid { error: OpError::Insufficient { .. }, .. }))
        ));
    }
}

/// Bug: on a cluster a record of another type than was seen was an error, which ended the transaction; and where the error itself was seen,
/// it was not met when it was checked. Consequence: users were told what came of records that had changed.
async fn a_record_of_another_type_is_another_answer(store: &Store, keys: &str) {
    let (kind, other) = (format!("{keys}kind"), format!("{keys}beside"));
    let turn = async |is_list: bool| {
        store.counter(&kind).delete().await.expect("deleted");
        match is_list {
            true => store.list(&kind).push_back("a").await.expect("pushed"),
            false => store.counter(&kind).add(7).await.expect("added"),
        }
    };
    turn(false).await;
    let seen = store.tx().options(optimistic()).run(async |tx| {
        if tx.attempt() > 1 {
            return Ok(tx.list(&kind).len().await? as i64);
        }
        let seen = tx.counter(&kind).get().await?;
        turn(true).await;
        tx.counter(&other).add(1)?;
        Ok(seen)
    });
    assert_eq!(seen.await, Ok(1));
    // It is a list still, and that is told.
    let told = store.tx().options(optimistic()).run(async |tx| {
        tx.counter(&other).get().await?;
        Ok(tx.counter(&kind).get().await?)
    });
    let told = told.await;
    assert!(
        matches!(&told, Err(Error::Execute(ExecuteError::Invalid { error: OpError::WrongType { .. }, .. }))),
        "{told:?}"
    );
    // It is a counter again.
    let seen = store.tx().options(optimistic()).run(async |tx| {
        let seen = tx.counter(&kind).get().await;
        if tx.attempt() == 1 {
            turn(false).await;
        }
        Ok(seen?)
    });
    assert_eq!(seen.await, Ok(7));
}

async fn what_changes_too_often_is_locked(store: &Store, keys: &str) {
    let (busy, calm) = (format!("{keys}busy"), format!("{keys}calm"));
    let attempts = store.tx().options(optimistic()).run(async |tx| {
        tx.counter(&calm).get().await?;
        let seen = tx.counter(&busy).get().await?;
        let add = timeout(SOON, store.counter(&busy).add(1)).await;
        match tx.attempt() {
            1..=3 => add.expect("it waits for nobody who only looks").expect("added"),
            // Within the closure the store knows that it would wait for itself.
            _ => assert!(
                matches!(add, Err(_) | Ok(Err(Error::Execute(ExecuteError::WaitsForItself { .. })))),
                "{add:?}"
            ),
        }
        assert!(
            timeout(SOON, store.counter(&calm).add(0)).await.is_ok(),
            "what did not change is not locked"
        );
        tx.counter(&busy).add(seen + 100)?;
        Ok(tx.attempt())
    });
    assert_eq!(attempts.await, Ok(4));
}

async fn who_is_optimistic_only_is_told_the_key(store: &Store, keys: &str) {
    let busy = format!("{keys}too-busy");
    let options = optimistic().optimistic_only().attempts(6);
    let told = store.tx().options(options).run(async |tx| {
        tx.counter(&busy).get().await?;
        store.counter(&busy).add(1).await?;
        Ok(())
    });
    let told = told.await.expect_err("it changes each time");
    assert!(matches!(told, Error::Commit(CommitError::Attempts { made: 6, .. })), "{told:?}");
    assert!(told.to_string().contains(&busy), "{told}");
}

async fn the_same_question_has_the_same_answer(store: &Store, keys: &str) {
    let key = format!("{keys}asked");
    let seen = store.tx().options(optimistic()).run(async |tx| {
        let first = tx.counter(&key).get().await?;
        if tx.attempt() == 1 {
            store.counter(&key).add(1).await?;
        }
        assert_eq!(tx.counter(&key).get().await?, first);
        tx.counter(&key).add(10)?;
        assert_eq!(tx.counter(&key).get().await?, first + 10);
        Ok(first)
    });
    assert_eq!(seen.await, Ok(1));
    assert_eq!(store.counter(&key).get().await, Ok(11));
}

async fn own_writes_are_seen(store: &Store, keys: &str) {
    let key = format!("{keys}list");
    let seen = store.tx().options(optimistic()).run(async |tx| {
        tx.list(&key).push_back("a")?;
        let length = tx.list(&key).len().await?;
        tx.list(&key).push_back("b")?;
        Ok((tx.attempt(), length, tx.list(&key).range::<String>(0, -1).await?))
    });
    assert_eq!(seen.await, Ok((1, 1, vec!["a".to_owned(), "b".to_owned()])));
    assert_eq!(store.list(&key).len().await, Ok(2));
}

async fn for_update_locks(store: &Store, keys: &str) {
    let key = format!("{keys}locked");
    let other = store.clone();
    let done = store.tx().options(optimistic()).run(async |tx| {
        tx.counter(&key).add(1)?;
        let seen = tx.counter(&key).get_for_update().await?;
        let (other, key) = (other.clone(), key.clone());
        let add = tokio::spawn(async move { other.counter(&key).add(5).await });
        tokio::time::sleep(SOON).await;
        assert!(!add.is_finished(), "it waits for who has locked");
        Ok((seen, add))
    });
    let (seen, add) = done.await.expect("committed");
    add.await.expect("ran").expect("added");
    assert_eq!((seen, store.counter(&key).get().await), (1, Ok(6)));
}

/// It was asked, and what was answered may have been heard by another task.
async fn an_answer_nobody_waits_for_is_checked_too(store: &Store, keys: &str) {
    let key = format!("{keys}dropped");
    let done = store.tx().options(optimistic()).run(async |tx| {
        drop(tx.counter(&key).get());
        if tx.attempt() == 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            store.counter(&key).add(1).await?;
        }
        tx.counter(&key).add(10)?;
        Ok(tx.attempt())
    });
    assert_eq!(done.await, Ok(2));
    assert_eq!(store.counter(&key).get().await, Ok(11));
}

async fn a_batch_is_done_if_all_is_as_expected(store: &Store, keys: &str) {
    let (owner, log) = (format!("{keys}owner"), format!("{keys}log"));
    let take = async |from: Option<&str>, to: &str| {
        let batch = store.batch();
        let seen = batch.register(&owner).get::<String>();
        batch.expect(seen, from);
        let is_member = batch.set(&log).contains(to);
        batch.expect(is_member, false);
        batch.register(&owner).set(to);
        batch.set(&log).add(to);
        batch.commit().await.map(|replies| replies.get(seen).expect("an answer"))
    };
    assert_eq!(take(None, "ann").await, Ok(None));
    assert_eq!(take(Some("ann"), "bob").await, Ok(Some("ann".to_owned())));
    let unmet = take(Some("ann"), "eve").await;
    let Err(Error::Execute(ExecuteError::Invalid { key, error: OpError::Unexpected { found, .. } })) = unmet
    else {
        panic!("{unmet:?}")
    };
    assert_eq!((key, *found), (owner.as_str().into(), Reply::from("bob")));
    assert_eq!(take(Some("bob"), "bob").await.map_err(|error| error.to_string().contains(&log)), Err(true));
    assert_eq!(store.set(&log).len().await, Ok(2), "nothing else was done");
}

async fn what_cannot_be_expected_is_refused(store: &Store, keys: &str) {
    let key = format!("{keys}void");
    let batch = store.batch();
    let void: claret::Ticket<()> = batch.push(
        &*key,
        claret::Operation::new::<claret::types::Set>(claret::types::SetOp::Add(
            ["a".into()].into_iter().collect(),
        )),
    );
    batch.expect(void, true);
    let told = batch.commit().await.expect_err("it answers nothing").to_string();
    assert!(told.contains("SADD") && told.contains("answers nothing"), "{told}");
    let batch = store.batch();
    let twice = batch.counter(&key).get();
    batch.expect(twice, 0_i64);
    batch.expect(twice, 1_i64);
    let told = batch.commit().await.expect_err("which one?").to_string();
    assert!(told.contains("already"), "{told}");
    let (one, other) = (store.batch(), store.batch());
    let of_another = one.counter(&key).get();
    other.expect(of_another, 1_i64);
    assert_eq!(other.commit().await.map(|_| ()), Err(Error::Handle(HandleError::OtherTicket)));
    assert_eq!(store.set(&key).len().await, Ok(0));
}
