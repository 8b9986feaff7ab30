//! The deadline passes: the error names the record, who holds it, and how long it was waited for.

use std::time::{Duration, Instant};

use claret::{
    Abort, Error, Records, Store, TxOptions,
    errors::{BlockedOn, CommitError},
};
use tokio::sync::Notify;

pub(crate) async fn all(store: &Store, prefix: &str) {
    let (held, free) = (format!("{prefix}late:held"), format!("{prefix}late:free"));
    let (is_held, is_over) = (Notify::new(), Notify::new());
    let holder = store.transaction(|tx| {
        let (held, is_held, is_over) = (&held, &is_held, &is_over);
        async move {
            tx.counter(held).add_returning(1).await?;
            is_held.notify_one();
            is_over.notified().await;
            Ok(())
        }
    });
    let waiters = async {
        is_held.notified().await;
        for way in [Way::Call, Way::Commit, Way::Blocking] {
            let BlockedOn { key, time, holder, .. } = wait_of(store, &held, &free, way).await;
            assert_eq!(key, held.as_str().into());
            assert!(time > Duration::ZERO && holder.is_some(), "{time:?}, {holder:?}");
        }
        is_over.notify_one();
    };
    let (held_on, ()) = tokio::join!(holder, waiters);
    held_on.expect("nobody disturbed it");
    assert_eq!(store.counter(&held).get().await, Ok(1), "nobody else did anything");
    assert_eq!(store.counter(&free).get().await, Ok(0));
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Call,
    Commit,
    Blocking,
}

/// What a late transaction says of its wait.
async fn wait_of(store: &Store, held: &str, free: &str, way: Way) -> BlockedOn {
    match late(store, held, free, way).await {
        Error::Commit(CommitError::Deadline { blocked_on: Some(wait), .. }) => *wait,
        other => panic!("{way:?}: {other:?}"),
    }
}

/// What a transaction is told that waits till its deadline. A slow machine may learn of the wait, and of the holder, only after
/// a short one.
pub(crate) async fn late(store: &Store, held: &str, free: &str, way: Way) -> Error {
    let mut after = Duration::from_millis(20);
    loop {
        let (options, began) = (TxOptions::new().deadline(after), Instant::now());
        let late = match way {
            Way::Blocking => {
                let (store, held) = (store.blocking(), held.to_owned());
                let read = move || store.tx().options(options).run(|tx| Ok(tx.counter(&held).get()?));
                tokio::task::spawn_blocking(read).await.expect("no panic").map(|_| ())
            }
            Way::Call | Way::Commit => {
                let late = store.tx().options(options).run(|tx| async move {
                    if let Way::Call = way {
                        tx.counter(free).add(1)?;
                        tx.counter(held).get().await?;
                        return Err(Abort::because("it is held"));
                    }
                    tx.counter(held).add(1)?;
                    Ok(())
                });
                late.await
            }
        };
        let error = late.expect_err("it is held");
        let text = error.to_string();
        match &error {
            Error::Commit(CommitError::Deadline { after: told, blocked_on: Some(wait) })
                if wait.holder.is_some() =>
            {
                assert!(*told == after && wait.time <= began.elapsed(), "{way:?}: {told:?}, {wait:?}");
                assert!(text.contains(held) && text.contains("raise the deadline"), "{text}");
                return error;
            }
            Error::Commit(CommitError::Deadline { .. }) => after *= 2,
            other => panic!("{way:?}: {other:?}"),
        }
    }
}
