//! What savepoints, nested transactions and `settle` promise on any store, whether a transaction locks or looks (`docs/nesting.md`).

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use claret::{
    Abort, Error, OpError, Records, Store, Tx,
    errors::{ExecuteError, HandleError, NestError},
};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::any_host::ways::Case;

/// Something that waits for a lock is not done by then.
const SOON: Duration = Duration::from_millis(150);

/// All of them, on keys that begin like this, in both ways to read. `waits`: there are queues.
pub(crate) async fn all(store: &Store, keys: &str, waits: bool) {
    for case in Case::both(store, keys) {
        case.what_is_undone_has_no_effect().await;
        case.a_savepoint_is_rolled_back_to_again_and_again().await;
        case.what_was_done_before_is_seen_and_stays().await;
        case.what_a_nested_one_did_is_seen_and_stays().await;
        case.depth_after_depth().await;
        case.an_error_ends_the_innermost_alone().await;
        case.an_error_of_what_went_along_is_heard().await;
        case.an_error_after_a_savepoint_is_to_be_rolled_back().await;
        case.an_error_in_the_middle_ends_that_level().await;
        case.it_settles().await;
        case.what_was_settled_can_be_undone().await;
        case.handles_and_savepoints_that_may_not_be_used().await;
        case.a_nested_one_that_is_dropped_is_undone().await;
        case.undone_draws_are_there_again().await;
        case.two_that_roll_back_see_each_other().await;
    }
    if waits {
        an_answer_that_does_not_come_is_not_waited_for(store, keys).await;
        an_error_keeps_its_footprint(store, keys).await;
    }
    what_is_locked_within_and_was_done_before(store, keys).await;
}

/// A transaction that may combine with others is run again when it does something within a savepoint (N9). Here that is done with
/// before anything else.
async fn ready(tx: &Tx) -> Result<(), Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let own = format!("ready:{}", COUNT.fetch_add(1, Ordering::Relaxed));
    tx.nested(async |tx| tx.counter(&own).get_for_update().await).await.map(drop)
}

impl Case<'_> {
    async fn what_is_undone_has_no_effect(&self) {
        let (tags, count) = (self.key("tags"), self.key("count"));
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.set(&tags).add("kept")?;
            let undone = tx.nested(async |tx| {
                tx.set(&tags).add("undone")?;
                assert_eq!(tx.set(&tags).len().await?, 2);
                assert_eq!(tx.counter(&count).add_returning(7).await?, 7);
                tx.counter(&count).add(1)?;
                Err::<(), _>(Abort::because("not this way".to_owned()))
            });
            assert!(matches!(undone.await, Err(Abort::Because(_)) | Err(_)));
            assert_eq!(tx.counter(&count).get().await?, 0);
            assert_eq!(tx.set(&tags).len().await?, 1);
            Ok(())
        });
        done.await.expect("committed");
        assert_eq!(self.store.set(&tags).len().await, Ok(1));
        assert_eq!(self.store.counter(&count).get().await, Ok(0));
    }

    async fn a_savepoint_is_rolled_back_to_again_and_again(&self) {
        let list = self.key("list");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.list(&list).push_back("first")?;
            let point = tx.savepoint()?;
            for round in 0..5 {
                tx.list(&list).push_back(format!("undone {round}"))?;
                assert_eq!(tx.list(&list).len().await?, 2);
                tx.list(&list).push_back("undone, too")?;
                tx.rollback_to(&point)?;
            }
            tx.list(&list).push_back("last")?;
            tx.release(&point)?;
            Ok(())
        });
        done.await.expect("committed");
        assert_eq!(self.store.list(&list).len().await, Ok(2));
    }

    /// Calls that wait for the commit go with the first that is executed on their record, which is undone without them.
    async fn what_was_done_before_is_seen_and_stays(&self) {
        let (before, beside) = (self.key("before"), self.key("beside"));
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.counter(&before).add(1)?;
            tx.counter(&beside).add(1)?;
            let point = tx.savepoint()?;
            tx.counter(&beside).add(10)?;
            assert_eq!(tx.counter(&before).get().await?, 1);
            tx.counter(&before).add(10)?;
            tx.rollback_to(&point)?;
            tx.counter(&before).add(100)?;
            assert_eq!(tx.counter(&before).get().await?, 101);
            tx.counter(&before).add(1_000)?;
            Ok(())
        });
        done.await.expect("committed");
        assert_eq!(self.store.counter(&before).get().await, Ok(1_101));
        assert_eq!(self.store.counter(&beside).get().await, Ok(1));
    }

    async fn what_a_nested_one_did_is_seen_and_stays(&self) {
        let tags = self.key("stays");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            let within = tx.nested(async |tx| {
                tx.set(&tags).add("one")?;
                let count = tx.set(&tags).len().await?;
                tx.set(&tags).add("two")?;
                Ok::<_, Error>(count)
            });
            assert_eq!(within.await?, 1);
            Ok(tx.set(&tags).len().await?)
        });
        assert_eq!(done.await, Ok(2));
        assert_eq!(self.store.set(&tags).len().await, Ok(2));
    }

    /// Of sixteen, each odd one is undone, with all that is in it.
    async fn depth_after_depth(&self) {
        async fn descend(tx: Tx, tags: &str, depth: u32) -> Result<(), Error> {
            tx.set(tags).add(format!("{depth}"))?;
            if depth == 16 {
                assert_eq!(
                    tx.savepoint().expect_err("too deep"),
                    Error::Nest(NestError::TooDeep { limit: 16 })
                );
                return Ok(());
            }
            assert_eq!(tx.set(tags).len().await?, u64::from(depth) + 1);
            tx.nested(|tx| Box::pin(descend(tx, tags, depth + 1))).await?;
            let undone = tx.nested(async |tx| {
                tx.set(tags).add(format!("undone at {depth}"))?;
                tx.set(tags).len().await?;
                Err::<(), _>(Error::Nest(NestError::NoSavepoint))
            });
            if depth < 15 {
                assert_eq!(undone.await, Err(Error::Nest(NestError::NoSavepoint)));
            }
            Ok(())
        }
        let tags = self.key("deep");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            Ok(descend(tx, &tags, 0).await?)
        });
        done.await.expect("committed");
        assert_eq!(self.store.set(&tags).len().await, Ok(17));
    }

    async fn an_error_ends_the_innermost_alone(&self) {
        let (word, seats, other) = (self.key("word"), self.key("seats"), self.key("other"));
        self.store.register(&word).set("a word").await.expect("set");
        self.store.bounded_counter(&seats).create(1, 0, 9).await.expect("created");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.set(&other).add("before")?;
            let (found, mut again) = (
                tx.nested(async |tx| {
                    tx.set(&other).add("undone")?;
                    let found = tx.set(&word).len().await;
                    let again = tx.set(&other).len().await;
                    assert_eq!(found.as_ref().err(), again.as_ref().err(), "it is doomed");
                    found
                })
                .await,
                0,
            );
            let wrong = matches!(&found, Err(Error::Execute(ExecuteError::Invalid { key, error: OpError::WrongType { .. } })) if **key == *word.as_bytes());
            assert!(wrong, "{found:?}");
            // One that is ignored dooms it all the same.
            let ignored = tx.nested(async |tx| {
                let _ = tx.set(&word).len().await;
                again += 1;
                Ok::<_, Error>(())
            });
            assert_eq!(ignored.await.err(), found.err());
            assert_eq!(again, 1);
            tx.set(&other).add("after")?;
            assert_eq!(tx.register(&word).get::<String>().await?, Some("a word".into()));
            Ok(tx.set(&other).len().await?)
        });
        assert_eq!(done.await, Ok(2));
        assert_eq!(self.store.set(&other).len().await, Ok(2));
    }

    /// What waits for the commit is executed with an operation on its record that can be done.
    async fn an_error_of_what_went_along_is_heard(&self) {
        let seats = self.key("few");
        self.store.bounded_counter(&seats).create(3, 0, 9).await.expect("created");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.bounded_counter(&seats).take(1)?;
            let taken = tx.nested(async |tx| {
                tx.bounded_counter(&seats).take(1)?;
                tx.bounded_counter(&seats).take(5)?;
                tx.bounded_counter(&seats).get().await
            });
            let taken = taken.await;
            let is_told = matches!(
                taken,
                Err(Error::Execute(ExecuteError::Invalid { error: OpError::Insufficient { .. }, .. }))
            );
            assert!(is_told, "{taken:?}");
            Ok(tx.bounded_counter(&seats).get().await?)
        });
        assert_eq!(done.await, Ok(Some(2)));
        assert_eq!(self.store.bounded_counter(&seats).get().await, Ok(Some(2)));
    }

    async fn an_error_after_a_savepoint_is_to_be_rolled_back(&self) {
        let (word, tags) = (self.key("text"), self.key("rolled"));
        self.store.register(&word).set("a word").await.expect("set");
        for rolls_back in [true, false] {
            let done = self.store.tx().options(self.options).run(async |tx| {
                ready(&tx).await?;
                tx.set(&tags).add("done")?;
                let point = tx.savepoint()?;
                tx.set(&tags).add("undone")?;
                let error = tx.set(&word).len().await.expect_err("it is a word");
                assert_eq!(tx.set(&tags).add("not at all"), Err(error.clone()));
                assert_eq!(tx.savepoint().err(), Some(error.clone()));
                assert_eq!(tx.release(&point), Err(error.clone()));
                if rolls_back {
                    tx.rollback_to(&point)?;
                }
                Ok(error)
            });
            let done = done.await;
            assert_eq!(done.is_ok(), rolls_back, "{done:?}");
            let done = done.err();
            let is_told = matches!(
                done,
                None | Some(Error::Execute(ExecuteError::Invalid { error: OpError::WrongType { .. }, .. }))
            );
            assert!(is_told, "{done:?}");
            assert_eq!(self.store.set(&tags).len().await, Ok(1));
        }
    }

    /// What was done in the middle shows that it cannot be done while one within it is open.
    async fn an_error_in_the_middle_ends_that_level(&self) {
        let (seats, tags) = (self.key("middle"), self.key("middles"));
        self.store.bounded_counter(&seats).create(3, 0, 9).await.expect("created");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.set(&tags).add("outer")?;
            let middle = tx.nested(async |tx| {
                tx.set(&tags).add("middle")?;
                tx.bounded_counter(&seats).take(5)?;
                let inner = tx.nested(async |tx| tx.bounded_counter(&seats).get().await);
                let inner = inner.await;
                assert!(inner.is_err(), "{inner:?}");
                assert_eq!(tx.set(&tags).len().await.err(), inner.as_ref().err().cloned());
                Ok::<_, Error>(())
            });
            assert!(matches!(
                middle.await,
                Err(Error::Execute(ExecuteError::Invalid { error: OpError::Insufficient { .. }, .. }))
            ));
            Ok(tx.set(&tags).len().await?)
        });
        assert_eq!(done.await, Ok(1));
    }

    async fn it_settles(&self) {
        let (word, tags) = (self.key("settles"), self.key("settled"));
        self.store.register(&word).set("a word").await.expect("set");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.settle().await?;
            tx.set(&tags).add("one")?;
            tx.set(&tags).add("two")?;
            tx.settle().await?;
            tx.settle().await?;
            let late = tx.nested(async |tx| {
                tx.set(&tags).add("three")?;
                tx.set(&word).add("it is another type")?;
                tx.settle().await
            });
            let late = late.await;
            assert!(
                matches!(
                    late,
                    Err(Error::Execute(ExecuteError::Invalid { error: OpError::WrongType { .. }, .. }))
                ),
                "{late:?}"
            );
            Ok(tx.set(&tags).len().await?)
        });
        assert_eq!(done.await, Ok(2));
        assert_eq!(self.store.set(&tags).len().await, Ok(2));
        // Outside of all it ends the transaction.
        let failed = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.set(&tags).add("four")?;
            tx.set(&word).add("it is another type")?;
            let settled = tx.settle().await;
            assert!(settled.is_err());
            Ok(())
        });
        let failed = failed.await;
        assert!(
            matches!(
                failed,
                Err(Error::Execute(ExecuteError::Invalid { error: OpError::WrongType { .. }, .. }))
            ),
            "{failed:?}"
        );
        assert_eq!(self.store.set(&tags).len().await, Ok(2));
    }

    async fn what_was_settled_can_be_undone(&self) {
        let tags = self.key("settled, undone");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            tx.set(&tags).add("kept")?;
            let point = tx.savepoint()?;
            tx.set(&tags).add("undone")?;
            tx.settle().await?;
            tx.rollback_to(&point)?;
            tx.set(&tags).add("kept, too")?;
            tx.settle().await?;
            Ok(())
        });
        done.await.expect("committed");
        assert_eq!(self.store.set(&tags).len().await, Ok(2));
    }

    async fn handles_and_savepoints_that_may_not_be_used(&self) {
        let tags = self.key("handles");
        let outer = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            let _ = tx
                .nested(async |_| {
                    assert_eq!(
                        tx.set(&tags).add("by the outer handle"),
                        Err(Error::Nest(NestError::NestedOpen))
                    );
                    assert_eq!(tx.savepoint().err(), Some(Error::Nest(NestError::NestedOpen)));
                    Ok::<_, Error>(())
                })
                .await;
            Ok(())
        });
        assert_eq!(outer.await, Err(Error::Nest(NestError::NestedOpen)));
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            let point = tx.savepoint()?;
            let later = tx.savepoint()?;
            let (mut inner, mut within) = (None, None);
            tx.nested(async |tx| {
                assert_eq!(
                    tx.rollback_to(&point),
                    Err(Error::Nest(NestError::NoSavepoint)),
                    "it is of the one around"
                );
                within = Some(tx.savepoint()?);
                inner = Some(tx);
                Ok::<_, Error>(())
            })
            .await?;
            let (inner, within) = (inner.expect("it ran"), within.expect("it ran"));
            assert_eq!(inner.set(&tags).add("it has ended"), Err(Error::Handle(HandleError::Finished)));
            assert_eq!(tx.rollback_to(&within), Err(Error::Nest(NestError::NoSavepoint)));
            tx.rollback_to(&point)?;
            assert_eq!(tx.rollback_to(&later), Err(Error::Nest(NestError::NoSavepoint)), "it was made later");
            tx.release(&point)?;
            assert_eq!(tx.release(&point), Err(Error::Nest(NestError::NoSavepoint)));
            Ok(point)
        });
        let point = done.await.expect("committed");
        let other = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            assert_eq!(tx.rollback_to(&point), Err(Error::Nest(NestError::NoSavepoint)));
            Ok(())
        });
        other.await.expect("committed");
        assert_eq!(self.store.set(&tags).len().await, Ok(0));
    }

    async fn a_nested_one_that_is_dropped_is_undone(&self) {
        let tags = self.key("dropped");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            let mut nested = Box::pin(tx.nested(async |tx| {
                tx.set(&tags).add("undone")?;
                std::future::pending::<()>().await;
                Ok::<_, Error>(())
            }));
            let polled = poll_fn(|cx| Poll::Ready(nested.as_mut().poll(cx).is_pending()));
            assert!(polled.await);
            drop(nested);
            tx.set(&tags).add("kept")?;
            Ok(tx.set(&tags).len().await?)
        });
        assert_eq!(done.await, Ok(1));
        assert_eq!(self.store.set(&tags).len().await, Ok(1));
    }

    async fn undone_draws_are_there_again(&self) {
        let seats = self.key("draws");
        self.store.bounded_counter(&seats).create(5, 0, 9).await.expect("created");
        let done = self.store.tx().options(self.options).run(async |tx| {
            ready(&tx).await?;
            let point = tx.savepoint()?;
            for _ in 0..3 {
                assert!(tx.bounded_counter(&seats).try_take(4).await?);
                assert!(!tx.bounded_counter(&seats).try_take(4).await?);
                tx.rollback_to(&point)?;
            }
            assert!(tx.bounded_counter(&seats).try_take(3).await?);
            Ok(())
        });
        done.await.expect("committed");
        assert_eq!(self.store.bounded_counter(&seats).get().await, Ok(Some(2)));
    }

    /// Trap 41: each rolls back because of what it saw, and writes what the other one saw.
    async fn two_that_roll_back_see_each_other(&self) {
        for round in 0..10 {
            let (one, other) = (self.key(&format!("one {round}")), self.key(&format!("other {round}")));
            let run = |sees: String, writes: String| {
                let (store, options) = (self.store.clone(), self.options);
                tokio::spawn(async move {
                    let seen = store.tx().options(options).run(async |tx| {
                        ready(&tx).await?;
                        let point = tx.savepoint()?;
                        let seen = tx.counter(&sees).get().await?;
                        tx.counter(&sees).add(100)?;
                        tx.rollback_to(&point)?;
                        tokio::task::yield_now().await;
                        if seen == 0 {
                            tx.counter(&writes).add(1)?;
                        }
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
}

/// Somebody holds the record: the transaction gives up what it wanted of it, and commits with the rest (trap 42).
async fn an_answer_that_does_not_come_is_not_waited_for(store: &Store, keys: &str) {
    let (held, free) = (format!("{keys}held"), format!("{keys}free"));
    let is_given_up = Arc::<Notify>::default();
    let done = store.transaction(async |holder| {
        holder.register(&held).get_for_update::<i64>().await?;
        let (held, free, gives_up) = (held.clone(), free.clone(), Arc::clone(&is_given_up));
        let store = store.clone();
        let other = tokio::spawn(async move {
            let other = store.transaction(async |tx| {
                ready(&tx).await?;
                tx.register(&held).set("before")?;
                let point = tx.savepoint()?;
                let waits = timeout(SOON, tx.register(&held).get::<String>()).await;
                assert!(waits.is_err(), "somebody holds it: {waits:?}");
                tx.rollback_to(&point)?;
                tx.counter(&free).add(1)?;
                assert_eq!(tx.counter(&free).get().await?, 1);
                let point = tx.savepoint()?;
                let late = tx.register(&held).get::<String>();
                tx.rollback_to(&point)?;
                assert_eq!(late.await, Err(Error::Nest(NestError::RolledBack)));
                gives_up.notify_one();
                Ok(())
            });
            other.await
        });
        // Nobody is kept waiting for a panic.
        let _ = timeout(100 * SOON, is_given_up.notified()).await;
        Ok(other)
    });
    let other = done.await.expect("committed");
    other.await.expect("it ran").expect("committed");
    assert_eq!(store.register(&held).get::<String>().await, Ok(Some("before".into())));
    assert_eq!(store.counter(&free).get().await, Ok(1));
}

/// Trap 43: the one who found too little goes another way, and who changes that waits for it.
async fn an_error_keeps_its_footprint(store: &Store, keys: &str) {
    let (seats, other) = (format!("{keys}too few"), format!("{keys}instead"));
    store.bounded_counter(&seats).create(0, 0, 9).await.expect("created");
    let done = store.transaction(async |tx| {
        ready(&tx).await?;
        let point = tx.savepoint()?;
        tx.bounded_counter(&seats).take(1)?;
        assert!(tx.settle().await.is_err());
        tx.rollback_to(&point)?;
        tx.counter(&other).add(1)?;
        let fills = timeout(SOON, store.bounded_counter(&seats).add(5)).await;
        assert!(!matches!(fills, Ok(Ok(()))), "what was found is held");
        Ok(())
    });
    done.await.expect("committed");
    store.bounded_counter(&seats).add(5).await.expect("nobody holds it");
    assert_eq!(store.bounded_counter(&seats).get().await, Ok(Some(5)));
}

/// An optimistic transaction locks a record within a savepoint that it has written before: the next attempt locks it from the start.
async fn what_is_locked_within_and_was_done_before(store: &Store, keys: &str) {
    let count = format!("{keys}locked within");
    let done = store.tx().optimistic().run(async |tx| {
        ready(&tx).await?;
        tx.counter(&count).add(1)?;
        let point = tx.savepoint()?;
        tx.counter(&count).add(10)?;
        assert_eq!(tx.counter(&count).get_for_update().await?, 11);
        tx.rollback_to(&point)?;
        assert_eq!(tx.counter(&count).get().await?, 1);
        Ok(tx.attempt())
    });
    assert!(done.await.expect("committed") >= 2);
    assert_eq!(store.counter(&count).get().await, Ok(1));
}
