//! What operations promise that run at the commit and are answered with it, on any store (P90).

use claret::types::{Counter, CounterOp};
use claret::{
    Abort, AtCommit, Error, Operation, Records, Reply, Store, Ticket, Tx, TxOptions,
    errors::{ExecuteError, HandleError, NestError},
    lab::Mode,
};

use crate::any_host::ways::Case;

/// All that there are.
pub(crate) const MODES: [Mode; 5] =
    [Mode::None, Mode::ReaderWriter, Mode::ReaderWriterPhased, Mode::Commuting, Mode::CommutingPhased];

/// All of them, on keys that begin like this, in both ways to read. `has_locks`: transactions are transactions.
pub(crate) async fn all(store: &Store, keys: &str, has_locks: bool) {
    for case in Case::both(store, keys) {
        case.answers_come_with_the_commit().await;
        case.they_are_told_apart_from_what_answers_before().await;
        case.they_are_told_apart_from_what_was_settled().await;
        if has_locks {
            case.nothing_else_sees_them().await;
            case.they_run_once_in_whichever_attempt_commits().await;
            case.what_cannot_be_done_ends_all().await;
            case.what_is_rolled_back_has_no_answer().await;
            case.an_error_leaves_nothing().await;
            case.what_a_handle_cannot_take_ends_all().await;
            case.a_bad_argument_ends_the_innermost_alone().await;
        }
    }
}

impl Case<'_> {
    async fn answers_come_with_the_commit(&self) {
        let (list, stock, seen) = (self.key("orders"), self.key("stock"), self.key("seen"));
        self.store.bounded_counter(&stock).create(5, 0, 10).await.expect("created");
        self.store.counter(&seen).add(2).await.expect("added");
        for number in 1..=2 {
            let body = async |tx: Tx| {
                let seen: i64 = tx.counter(&seen).get().await?;
                let last = tx.at_commit();
                last.counter(self.key("done")).add(1)?;
                last.bounded_counter(&stock).take(seen)?;
                let left = last.bounded_counter(&stock).get();
                let place = last.list(&list).push_back_returning(seen);
                assert!(matches!(last.replies(), Err(Error::Handle(HandleError::NotCommitted))));
                Ok::<_, Abort>((last, left, place))
            };
            let (last, left, place): (AtCommit, Ticket<Option<i64>>, Ticket<u64>) =
                self.store.tx().options(self.options).run(body).await.expect("committed");
            let replies = last.replies().expect("committed");
            assert_eq!(replies.get(place).expect("a number"), number);
            assert_eq!(replies.get(left).expect("a number"), Some(5 - 2 * number as i64));
            assert_eq!(replies.into_inner()[0], Reply::Ok, "it answers nothing");
        }
        assert_eq!(self.store.counter(self.key("done")).get().await.expect("read"), 2);
    }

    /// They run behind all others, also behind those that were issued later.
    async fn nothing_else_sees_them(&self) {
        let key = self.key("behind");
        let body = async |tx: Tx| {
            let last = tx.at_commit();
            let ten = last.counter(&key).add_returning(10);
            tx.counter(&key).add(1)?;
            let before = tx.counter(&key).add_returning(1).await?;
            tx.counter(&key).add(1)?;
            Ok::<_, Abort>((before, last, ten))
        };
        let (before, last, ten) = self.store.tx().options(self.options).run(body).await.expect("committed");
        assert_eq!((before, last.replies().expect("committed").get(ten).expect("a number")), (2, 13));
    }

    /// Others are answered with the commit, too, and nobody asked for that.
    async fn they_are_told_apart_from_what_answers_before(&self) {
        let body = async |tx: Tx| {
            for at in 0..3 {
                let push = CounterOp::AddReturning(at);
                tx.issue(self.key(&format!("issued{at}")), Operation::new::<Counter>(push))?;
            }
            let last = tx.at_commit();
            let tickets: Vec<Ticket<i64>> = (0..5)
                .map(|at| last.counter(self.key(&format!("each{at}"))).add_returning(100 + at))
                .collect();
            tx.counter(self.key("now")).add_returning(7).await?;
            Ok::<_, Abort>((last, tickets))
        };
        let (last, tickets) = self.store.tx().options(self.options).run(body).await.expect("committed");
        let replies = last.replies().expect("committed");
        let numbers: Vec<i64> = tickets.iter().map(|it| replies.get(*it).expect("a number")).collect();
        assert_eq!(numbers, [100, 101, 102, 103, 104]);
    }

    async fn they_are_told_apart_from_what_was_settled(&self) {
        let (settled, key) = (self.key("settled"), self.key("settled:last"));
        let body = async |tx: Tx| {
            tx.counter(&settled).add(1)?;
            tx.settle().await?;
            tx.counter(self.key("settled:seen")).get().await?;
            let last = tx.at_commit();
            let ticket = last.counter(&key).add_returning(5);
            Ok::<_, Abort>((last, ticket))
        };
        let (last, ticket) = self.store.tx().options(self.options).run(body).await.expect("committed");
        assert_eq!(last.replies().expect("committed").get(ticket).expect("a number"), 5);
        assert_eq!(self.store.counter(&settled).get().await.expect("read"), 1);
    }

    /// The handle of a nested transaction that is over takes nothing, and the rest does not commit without it.
    async fn what_a_handle_cannot_take_ends_all(&self) {
        let key = self.key("stale");
        let error = self
            .store
            .tx()
            .options(self.options)
            .run(async |tx| {
                tx.counter(&key).add_returning(1).await?;
                let stale = tx.nested(async |inner| Ok::<_, Abort>(inner.at_commit())).await?;
                let _ = stale.counter(&key).add_returning(10);
                Ok(())
            })
            .await
            .expect_err("an operation is missing");
        assert!(matches!(error, Error::Handle(HandleError::Finished)), "{error}");
        assert_eq!(self.store.counter(&key).get().await.expect("read"), 0);
    }

    async fn a_bad_argument_ends_the_innermost_alone(&self) {
        let key = self.key("innermost");
        let (last, outer) = self
            .store
            .tx()
            .options(self.options)
            .run(async |tx| {
                let last = tx.at_commit();
                let outer = last.counter(&key).add_returning(1);
                let inner = tx.nested(async |inner| {
                    let _ = inner.at_commit().counter("").add_returning(10);
                    inner.at_commit().counter(&key).add(100)?;
                    Ok::<_, Abort>(())
                });
                assert!(inner.await.is_err(), "a key has a name");
                Ok((last, outer))
            })
            .await
            .expect("the outer one is whole");
        assert_eq!(last.replies().expect("committed").get(outer).expect("a number"), 1);
    }

    async fn they_run_once_in_whichever_attempt_commits(&self) {
        let (key, count) = (self.key("once"), self.key("once:seen"));
        let body = async |tx: Tx| {
            // In another transaction, between two attempts.
            let was: i64 = tx.counter(&count).get().await?;
            let last = tx.at_commit();
            let ticket = last.counter(&key).add_returning(1);
            if self.options == TxOptions::new().optimistic() && was == 0 {
                self.store.counter(&count).add(1).await?;
            }
            Ok::<_, Abort>((tx.attempt(), last, ticket))
        };
        let (attempt, last, ticket) =
            self.store.tx().options(self.options).run(body).await.expect("committed");
        assert_eq!(attempt, if self.options == TxOptions::new() { 1 } else { 2 });
        assert_eq!(last.replies().expect("committed").get(ticket).expect("a number"), 1);
        assert_eq!(self.store.counter(&key).get().await.expect("read"), 1);
    }

    async fn what_cannot_be_done_ends_all(&self) {
        let (stock, other) = (self.key("none left"), self.key("none left:other"));
        self.store.bounded_counter(&stock).create(1, 0, 10).await.expect("created");
        let kept = std::sync::Mutex::new(None);
        let error = self
            .store
            .tx()
            .options(self.options)
            .run(async |tx| {
                tx.counter(&other).add_returning(1).await?;
                let last = tx.at_commit();
                last.bounded_counter(&stock).take(2)?;
                *kept.lock().expect("nobody panicked") = Some(last);
                Ok(())
            })
            .await
            .expect_err("one is there");
        assert!(
            matches!(&error, Error::Execute(ExecuteError::Invalid { key, .. }) if *key == stock.as_str().into()),
            "{error}"
        );
        assert_eq!(self.store.counter(&other).get().await.expect("read"), 0);
        assert!(kept.into_inner().expect("nobody panicked").expect("called").replies().is_err());
    }

    async fn what_is_rolled_back_has_no_answer(&self) {
        let key = self.key("levels");
        let (last, tickets) = self
            .store
            .tx()
            .options(self.options)
            .run(async |tx| {
                let last = tx.at_commit();
                let one = last.counter(&key).add_returning(1);
                let here = tx.savepoint()?;
                let two = last.counter(&key).add_returning(10);
                tx.rollback_to(&here)?;
                let three = last.counter(&key).add_returning(100);
                tx.release(&here)?;
                let four = tx
                    .nested(async |inner| {
                        let four = inner.at_commit().counter(&key).add_returning(1_000);
                        inner.counter(self.key("other")).add_returning(1).await?;
                        Ok::<_, Abort>(four)
                    })
                    .await?;
                Ok((last, [one, two, three, four]))
            })
            .await
            .expect("committed");
        let replies = last.replies().expect("committed");
        let answers = tickets.map(|ticket| replies.get(ticket));
        assert_eq!(answers, [Ok(1), Err(Error::Nest(NestError::RolledBack)), Ok(101), Ok(1_101)]);
        assert!(matches!(replies.into_inner()[1], Reply::Failed(_)));
        assert_eq!(self.store.counter(&key).get().await.expect("read"), 1_101);
    }

    async fn an_error_leaves_nothing(&self) {
        let key = self.key("error");
        let error = self
            .store
            .tx()
            .options(self.options)
            .run(async |tx| {
                tx.counter(self.key("error:seen")).get().await?;
                tx.at_commit().counter(&key).add(1)?;
                Err::<(), _>(Abort::because("changed my mind"))
            })
            .await
            .expect_err("aborted");
        assert!(matches!(error, Error::Aborted(_)), "{error}");
        assert_eq!(self.store.counter(&key).get().await.expect("read"), 0);
    }
}
