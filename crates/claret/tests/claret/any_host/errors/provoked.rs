//! Each error that both hosts give, provoked for real and matched with its fields.

use std::future::Future;
use std::sync::Mutex;

use claret::types::{BUILTIN, TypeInfo};
use claret::{
    Abort, Bytes, Error, OpError, Records, Reply, Store,
    errors::{BeginError, CommitError, ExecuteError, HandleError, NestError},
};
use tokio::sync::{Barrier, Notify};

use super::late::{Way, late};
use super::table::{Ground, Provoked};

/// Asserts that an error is of this form, and gives it back.
macro_rules! matched {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {{
        let error = $result.expect_err("it is refused");
        assert!(matches!(&error, $pattern $(if $guard)?), "{error:?}");
        error
    }};
}
pub(crate) use matched;

/// Provokes the error of this name. `None`: there is none such that both hosts give.
pub(crate) async fn provoke(ground: &Ground<'_>, name: &str) -> Option<Provoked> {
    let key = format!("{}table:{name}", ground.prefix);
    let provoked = match of_a_store(ground, name, &key).await {
        Some(provoked) => Some(provoked),
        None => of_a_beginning(ground, name, &key).await,
    };
    match provoked {
        Some(provoked) => Some(provoked),
        None => match of_levels(ground.store, name, &key).await {
            Some(provoked) => Some(provoked),
            None => of_an_operation(ground, name, &key).await,
        },
    }
}

async fn of_levels(store: &Store, name: &str, key: &str) -> Option<Provoked> {
    Some(match name {
        "NestedOpen" => {
            let used = store.transaction(async |tx| {
                tx.nested(async |_| tx.counter(key).add(1)).await?;
                Ok(())
            });
            let error = matched!(used.await, Error::Nest(NestError::NestedOpen));
            Provoked::new(error, ["a nested transaction is open", "own handle"])
        }
        "TooDeep" => {
            let deep = store.transaction(async |tx| Ok((0..17).try_for_each(|_| tx.savepoint().map(drop))?));
            let error = matched!(deep.await, Error::Nest(NestError::TooDeep { limit: 16 }));
            Provoked::new(error, ["over 16 savepoints", "release some"])
        }
        "TooManyRollbacks" => {
            let often = store.transaction(async |tx| {
                let point = tx.savepoint()?;
                for _ in 0..200 {
                    tx.counter(key).get().await?;
                    let within = tx.savepoint()?;
                    tx.counter(key).get().await?;
                    tx.rollback_to(&within)?;
                    tx.release(&within)?;
                }
                Ok(tx.release(&point)?)
            });
            let error = matched!(often.await, Error::Nest(NestError::TooManyRollbacks { limit: 128 }));
            Provoked::new(error, ["over 128 rollbacks", "split it"])
        }
        "NoSavepoint" => {
            let released = store.transaction(async |tx| {
                let point = tx.savepoint()?;
                tx.release(&point)?;
                Ok(tx.rollback_to(&point)?)
            });
            let error = matched!(released.await, Error::Nest(NestError::NoSavepoint));
            Provoked::new(error, ["released or undone", "make another"])
        }
        "RolledBack" => {
            let undone = store.transaction(async |tx| {
                let (here, last) = (tx.savepoint()?, tx.at_commit());
                let ticket = last.counter(key).add_returning(1);
                tx.rollback_to(&here)?;
                Ok((last, ticket))
            });
            let (last, ticket) = undone.await.expect("committed");
            let error =
                matched!(last.replies().expect("committed").get(ticket), Error::Nest(NestError::RolledBack));
            Provoked::new(error, ["was rolled back", "go by what"])
        }
        "NotCommitted" => {
            let early = store.transaction(async |tx| Ok(tx.at_commit().replies().map(drop))).await;
            let error = matched!(early.expect("committed"), Error::Handle(HandleError::NotCommitted));
            Provoked::new(error, ["come with the commit", "ask when the transaction has returned"])
        }
        _ => return None,
    })
}

async fn of_a_store(ground: &Ground<'_>, name: &str, key: &str) -> Option<Provoked> {
    let Ground { store, small, .. } = ground;
    Some(match name {
        "Invalid" => {
            store.list(key).push_back("x").await.expect("pushed");
            let read = store.counter(key).get().await;
            let error = matched!(read, Error::Execute(ExecuteError::Invalid { key: named, error: OpError::WrongType { .. } }) if *named == key.into());
            Provoked::new(error, [key, "use another key"])
        }
        "Value" => {
            store.register(key).set("a word").await.expect("set");
            let read = store.register(key).get::<i64>().await;
            let error = matched!(
                read,
                Error::Execute(ExecuteError::Value { key: named, found, asked }) if *named == key.into() && found.contains("text") && asked.contains("i64")
            );
            Provoked::new(error, [key, "ask for another type"])
        }
        "Aborted" => {
            let aborted = store.transaction(|_| async { Err::<(), _>(Abort::because(SoldOut)) }).await;
            let error =
                matched!(aborted, Error::Aborted(reason) if reason.downcast_ref::<SoldOut>().is_some());
            Provoked::new(error, ["aborted by the application", "no seats are left"])
        }
        "Deadline" => held_till_the_deadline(store, key).await,
        "Attempts" => {
            let (lost, _) = fight(store, key).await;
            let error = matched!(Err::<(), _>(lost), Error::Commit(CommitError::Attempts { made: 1, last }) if !last.to_string().is_empty());
            Provoked::new(error, ["not committed in 1 attempts", "raise the number of attempts"])
        }
        "Restart" => {
            let (_, within) = fight(store, key).await;
            Provoked::new(matched!(Err::<(), _>(within), Error::Restart), ["run again", "return this error"])
        }
        "WaitsForItself" => waits_for_itself(store, key).await,
        "TooManyCalls" => {
            let many =
                small.transaction(|tx| async move { Ok((0..4).try_for_each(|_| tx.counter(key).add(1))?) });
            let error = matched!(many.await, Error::Execute(ExecuteError::TooManyCalls { limit: 3 }));
            Provoked::new(error, ["over 3 operations", "split it"])
        }
        "Finished" => {
            let tx = store.transaction(|tx| async move { Ok(tx) }).await.expect("committed");
            let error = matched!(tx.counter(key).add(1), Error::Handle(HandleError::Finished));
            Provoked::new(error, ["is over", "begin a new one"])
        }
        "OtherTicket" => {
            let (one, other) = (store.batch(), store.batch());
            let _ = one.set(key).len();
            let ticket = other.register(key).get::<Bytes>();
            let replies = one.commit().await.expect("committed");
            let error = matched!(replies.get(ticket), Error::Handle(HandleError::OtherTicket));
            Provoked::new(error, ["the ticket is of another batch", "mend the program"])
        }
        _ => return None,
    })
}

async fn of_a_beginning(ground: &Ground<'_>, name: &str, key: &str) -> Option<Provoked> {
    let Ground { store, closing, .. } = ground;
    Some(match name {
        "AlreadyDone" => {
            store.register(format!("claret:done:{key}")).set("1").await.expect("set");
            let again = store.tx().once(key).run(|_| async { Ok(()) }).await;
            let error = matched!(again, Error::Begin(BeginError::AlreadyDone { id }) if id == key);
            Provoked::new(error, [key, "read what it wrote"])
        }
        "Closed" => {
            Store::clone(closing).close().await.expect("it closes");
            let error = matched!(closing.counter(key).get().await, Error::Begin(BeginError::Closed));
            Provoked::new(error, ["the store is closed", "open it again"])
        }
        "Unsupported" => {
            let error = matched!(store.log_status(), Error::Begin(BeginError::Unsupported { asked, .. }) if asked.contains("log"));
            Provoked::new(error, ["has no log", "; "])
        }
        "BlocksRuntime" => blocks_its_runtime(store, key).await,
        _ => return None,
    })
}

async fn of_an_operation(ground: &Ground<'_>, name: &str, key: &str) -> Option<Provoked> {
    if name == "EmptyKey" {
        let read = ground.store.counter("").get().await;
        let error = matched!(read, Error::Execute(ExecuteError::Invalid { key, error: OpError::EmptyKey }) if key.is_empty());
        return Some(Provoked::new(error, ["key ''", "name one"]));
    }
    if name == "Unexpected" {
        let batch = ground.store.batch();
        let count = batch.counter(key).get();
        batch.expect(count, 7_i64);
        let unmet = batch.commit().await.map(|_| ());
        let error = matched!(unmet, Error::Execute(ExecuteError::Invalid { error: OpError::Unexpected { found, .. }, .. }) if **found == Reply::Int(0));
        return Some(Provoked::new(error, ["nothing was changed", "(integer) 0"]));
    }
    let (error, advice) = match of_words_alone(name) {
        Some(found) => found,
        None => match of_a_bounded_counter(ground.store, name, key).await {
            Some(found) => found,
            None => of_a_value(ground, name, key).await?,
        },
    };
    Some(Provoked::new(Error::Execute(ExecuteError::Invalid { key: key.into(), error }), [key, advice]))
}

/// What is wrong with an operation on this record.
#[track_caller]
fn wrong(key: &str, result: Result<(), Error>) -> OpError {
    match result.expect_err("it is refused") {
        Error::Execute(ExecuteError::Invalid { key: named, error }) if named == key.into() => error,
        other => panic!("{other:?}"),
    }
}

/// An error, and what its text says is to be done.
type Found = Option<(OpError, &'static str)>;

/// No host is asked, so these are the same on each.
fn of_words_alone(name: &str) -> Found {
    Some(match name {
        "UnknownMethod" => {
            let error = (kind("set").parse)("SLEEP", &[]).expect_err("no such");
            assert_eq!(error, OpError::UnknownMethod("SLEEP".into()));
            (error, "HELP lists them")
        }
        "Arity" => {
            let error = (kind("set").parse)("SISMEMBER", &[]).expect_err("too few");
            assert!(
                matches!(&error, OpError::Arity { method, usage } if method == "SISMEMBER" && usage == "member")
            );
            (error, "usage: member")
        }
        "Argument" => {
            let error = (kind("counter").parse)("INCRBY", &["1x".into()]).expect_err("no number");
            assert!(
                matches!(&error, OpError::Argument { given, expected } if given == "1x" && expected == "an integer")
            );
            (error, "'1x' is not an integer")
        }
        _ => return None,
    })
}

async fn of_a_bounded_counter(store: &Store, name: &str, key: &str) -> Found {
    let bounded = store.bounded_counter(key);
    Some(match name {
        "Bound" => {
            let error = wrong(key, bounded.create(5, 9, 1).await);
            assert!(
                matches!(&error, OpError::Bound { what, given, expected } if what == "bounds" && given.contains("min 9") && expected == "min <= max")
            );
            (error, "it must be min <= max")
        }
        "Insufficient" => {
            bounded.create(2, 0, 5).await.expect("created");
            let error = wrong(key, bounded.take(3).await);
            let OpError::Insufficient { method, amount: 3, value: 2, min: 0, max: 5 } = &error else {
                panic!("{error:?}")
            };
            assert_eq!(method, "BDECRBY");
            (error, "BDECRBY.RETURNING answers 0 instead")
        }
        "Missing" => {
            let error = wrong(key, bounded.add(1).await);
            assert!(
                matches!(&error, OpError::Missing { method, create } if method == "BINCRBY" && create.starts_with("BCREATE"))
            );
            (error, "create it first: BCREATE")
        }
        "Mismatch" => {
            bounded.create(2, 0, 5).await.expect("created");
            let error = wrong(key, bounded.create(2, 0, 6).await);
            assert!(matches!(&error, OpError::Mismatch(text) if text.contains("0 to 5")), "{error:?}");
            (error, "use another key")
        }
        _ => return None,
    })
}

async fn of_a_value(Ground { store, small, .. }: &Ground<'_>, name: &str, key: &str) -> Found {
    Some(match name {
        "WrongType" => {
            store.list(key).push_back("x").await.expect("pushed");
            let error = wrong(key, store.set(key).add("x").await);
            assert!(
                matches!(&error, OpError::WrongType { found, method, .. } if found == "list" && method == "SADD")
            );
            (error, "use another key")
        }
        "NotANumber" => {
            let error = wrong(key, store.scored_set(key).add("m", f64::NAN).await);
            assert_eq!(error, OpError::NotANumber("score".into()));
            (error, "pass a number")
        }
        "NotNumeric" => {
            store.register(key).set("x").await.expect("set");
            let error = wrong(key, store.counter(key).add(1).await);
            assert_eq!(error, OpError::NotNumeric("x".into(), "an integer".into()));
            (error, "SET it to a number first")
        }
        "Overflow" => {
            store.counter(key).add(i64::MAX).await.expect("added");
            let error = wrong(key, store.counter(key).add_returning(1).await.map(|_| ()));
            assert!(
                matches!(&error, OpError::Overflow(what, detail) if what == "the counter" && detail.ends_with("+ 1"))
            );
            (error, "nothing was changed")
        }
        "TooLarge" => {
            let error = wrong(key, small.register(key).set("nine long").await);
            assert_eq!(error, OpError::TooLarge { what: "value".into(), size: 9, limit: 8 });
            (error, "split it over several keys")
        }
        _ => return None,
    })
}

fn kind(name: &str) -> &'static TypeInfo {
    BUILTIN.iter().find(|it| it.name == name).expect("a built-in type")
}

#[derive(Debug, thiserror::Error)]
#[error("no seats are left")]
struct SoldOut;

/// Does this while another transaction holds the counter.
pub(crate) async fn while_held<T>(store: &Store, key: &str, what: impl Future<Output = T>) -> T {
    let (is_held, is_over) = (Notify::new(), Notify::new());
    let holder = store.transaction(|tx| {
        let (is_held, is_over) = (&is_held, &is_over);
        async move {
            tx.counter(key).add_returning(1).await?;
            is_held.notify_one();
            is_over.notified().await;
            Ok(())
        }
    });
    let meanwhile = async {
        is_held.notified().await;
        let done = what.await;
        is_over.notify_one();
        done
    };
    let (held, done) = tokio::join!(holder, meanwhile);
    held.expect("nobody disturbed it");
    done
}

async fn held_till_the_deadline(store: &Store, key: &str) -> Provoked {
    let free = format!("{key}:free");
    let late = while_held(store, key, late(store, key, &free, Way::Call)).await;
    let error = matched!(
        Err::<(), _>(late),
        Error::Commit(CommitError::Deadline { after, blocked_on: Some(wait) })
            if wait.key == key.into() && !after.is_zero() && !wait.time.is_zero()
    );
    Provoked::new(error, [key, "raise the deadline"])
}

/// Two read, and then write what both have read: one gives way, in its only attempt. What it comes to, and what its closure is
/// told.
async fn fight(store: &Store, key: &str) -> (Error, Error) {
    let (met, told) = (Barrier::new(2), Mutex::new(None));
    let one_attempt = || {
        store.tx().attempts(1).run(|tx| {
            let (met, told) = (&met, &told);
            async move {
                tx.counter(key).get().await?;
                met.wait().await;
                match tx.counter(key).add_returning(1).await {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        *told.lock().expect("no panic") = Some(error.clone());
                        Err(error.into())
                    }
                }
            }
        })
    };
    let (one, other) = tokio::join!(one_attempt(), one_attempt());
    let lost = one.and(other).expect_err("one gave way");
    (lost, told.into_inner().expect("no panic").expect("its closure was told"))
}

async fn waits_for_itself(store: &Store, key: &str) -> Provoked {
    let outer = store.transaction(|tx| async move {
        tx.counter(key).get().await?;
        Ok(store.counter(key).add(1).await)
    });
    let told = outer.await.expect("it goes on");
    let error =
        matched!(told, Error::Execute(ExecuteError::WaitsForItself { key: named }) if *named == key.into());
    Provoked::new(error, [key, "use that transaction's handle"])
}

/// The caller is a task of a runtime with one thread.
async fn blocks_its_runtime(store: &Store, key: &str) -> Provoked {
    let flavor = tokio::runtime::Handle::current().runtime_flavor();
    assert_eq!(flavor, tokio::runtime::RuntimeFlavor::CurrentThread);
    let refused = while_held(store, key, async { store.blocking().counter(key).get() }).await;
    let error = matched!(refused, Error::Begin(BeginError::BlocksRuntime));
    Provoked::new(error, ["on the only thread of a tokio runtime", "spawn_blocking"])
}
