//! What the attempts of one transaction share and what they do not; and the errors of the blocking mirror.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

use claret::{
    Abort, Error, Records, Store, TxOptions,
    errors::{CommitError, ExecuteError, HandleError},
    lab::{Limits, Mode, StoreLab},
};
use tokio::sync::Notify;

use crate::time::in_time;

/// The younger one has something buffered when it gives way to the elder, and buffers it again when it is run again.
#[tokio::test]
async fn what_an_attempt_buffered_is_not_applied_by_the_next_one() {
    for mode in [Mode::CommutingPhased, Mode::ReaderWriterPhased].into_iter().chain(Mode::ways()) {
        let store = Store::builder().mode(mode).build();
        let (elder_holds, younger_waits) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let elder = store.transaction(|tx| {
            let (elder_holds, younger_waits) = (Arc::clone(&elder_holds), Arc::clone(&younger_waits));
            async move {
                tx.counter("elder's").get_for_update().await?;
                elder_holds.notify_one();
                younger_waits.notified().await;
                tx.counter("younger's").get_for_update().await?;
                Ok(())
            }
        });
        let mut attempts = 0;
        let younger = async {
            elder_holds.notified().await;
            let add = store.transaction(|tx| {
                attempts += 1;
                let younger_waits = Arc::clone(&younger_waits);
                async move {
                    tx.counter("younger's").get_for_update().await?;
                    let blocked = tx.counter("elder's").get();
                    // Behind what waits: it is still here when the attempt is over.
                    tx.counter("sum").add(1)?;
                    tx.set("members").add("m")?;
                    younger_waits.notify_one();
                    blocked.await?;
                    Ok(())
                }
            });
            add.await
        };
        let (elder, younger) = in_time(async { tokio::join!(elder, younger) }).await;
        elder.expect("it is the elder one");
        younger.expect("run again");
        assert_eq!(attempts, 2, "{mode:?}");
        assert_eq!(store.counter("sum").get().await.expect("read"), 1, "{mode:?}");
    }
}

/// Whether it waits in its closure or at its commit, or finds changed what it only looked at: the key is named for which it is run
/// again.
#[tokio::test]
async fn the_key_for_which_transactions_are_run_again_is_named() {
    for at_commit in [false, true] {
        let store = Store::in_memory();
        let elder_holds = Arc::<Notify>::default();
        let elder = store.transaction(|tx| {
            let (elder_holds, store) = (Arc::clone(&elder_holds), store.clone());
            async move {
                tx.counter("of the elder").get_for_update().await?;
                elder_holds.notify_one();
                while store.stats().lock_waits == 0 {
                    tokio::task::yield_now().await;
                }
                tx.counter("of the younger").get_for_update().await?;
                Ok(())
            }
        });
        let younger = async {
            elder_holds.notified().await;
            let add = store.transaction(async |tx| {
                tx.counter("of the younger").get_for_update().await?;
                match at_commit {
                    false => _ = tx.counter("of the elder").get().await?,
                    true => tx.counter("of the elder").add(1)?,
                }
                Ok(())
            });
            add.await
        };
        let (elder, younger) = in_time(async { tokio::join!(elder, younger) }).await;
        elder.expect("it is the elder one");
        younger.expect("run again");
        let stats = store.stats();
        let keys: Vec<_> = stats.restart_keys.iter().map(|it| (it.key.to_string(), it.restarts)).collect();
        assert_eq!((stats.restarts, keys), (1, vec![("of the elder".to_owned(), 1)]), "{at_commit}");
        assert!(stats.to_string().contains("for key 'of the elder': 1"), "{stats}");
    }
    let store = Store::in_memory();
    let looks = store.tx().optimistic().run(async |tx| {
        let seen = tx.counter("seen").get().await?;
        if tx.attempt() == 1 {
            store.counter("seen").add(1).await?;
        }
        tx.counter("sum").add(seen)?;
        Ok(())
    });
    in_time(looks).await.expect("run again");
    let keys = store.stats().restart_keys;
    assert_eq!((keys.len(), keys[0].restarts), (1, 1));
    assert_eq!(keys[0].key.to_string(), "seen");
}

/// Each attempt is short, and none can succeed: only a deadline over all of them ends that.
#[tokio::test]
async fn the_deadline_is_of_all_attempts_together() {
    let limits = Limits { lock_tries_max: 1, backoff_us_max: 1_000, ..Limits::default() };
    let store = Store::builder().mode(Mode::Commuting).protocol_limits(limits).build();
    let (holds, is_over) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let holder = store.transaction(|tx| {
        let (holds, is_over) = (Arc::clone(&holds), Arc::clone(&is_over));
        async move {
            tx.counter("k").get_for_update().await?;
            holds.notify_one();
            is_over.notified().await;
            Ok(())
        }
    });
    let waiter = async {
        holds.notified().await;
        let options = TxOptions::new().deadline(Duration::from_secs(2)).attempts(u32::MAX);
        let read = |tx: claret::Tx| async move { Ok(tx.counter("k").get().await?) };
        let result = store.tx().options(options).run(read).await;
        is_over.notify_one();
        result
    };
    let (held, result) = in_time(async { tokio::join!(holder, waiter) }).await;
    held.expect("nobody disturbed it");
    assert!(matches!(result, Err(Error::Commit(CommitError::Deadline { .. }))), "{result:?}");
    assert!(store.stats().restarts > 1, "{:?}", store.stats());
}

/// Bug: a closure that waits holds its thread, so nobody ended the wait when the deadline passed.
#[test]
fn a_blocking_closure_waits_until_its_deadline() {
    for mode in [Mode::ReaderWriter, Mode::default()] {
        let store = Store::builder().mode(mode).build().blocking();
        let (held, is_held) = channel();
        let (let_go, is_let_go) = channel::<()>();
        let holder = store.clone();
        let holding = spawn(move || {
            holder.transaction(|tx| {
                tx.counter("r").add_returning(1)?;
                held.send(()).map_err(Abort::because)?;
                is_let_go.recv().map_err(Abort::because)
            })
        });
        is_held.recv().expect("it holds the record");
        let late = TxOptions::new().deadline(Duration::from_millis(30)).attempts(u32::MAX);
        let late = store.tx().options(late).run(|tx| Ok(tx.counter("r").add_returning(1)?));
        assert!(matches!(late, Err(Error::Commit(CommitError::Deadline { .. }))), "{mode:?}: {late:?}");
        let_go.send(()).expect("it waits");
        holding.join().expect("no panic").expect("nobody disturbed it");
        assert_eq!(store.counter("r").get().expect("nobody holds it"), 1);
    }
}

#[test]
fn the_blocking_mirror_tells_the_errors_of_void_operations() {
    let store = Store::in_memory().blocking();
    store.list("list").push_back("x").expect("pushed");
    let error = store.counter("list").add(1).expect_err("it is a list");
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    assert!(store.counter("").add(1).is_err(), "a key cannot be empty");
    let mut told = None;
    let result = store.transaction(|tx| {
        told = tx.counter("").add(1).err();
        Ok(())
    });
    assert!(matches!(told, Some(Error::Execute(ExecuteError::Invalid { .. }))), "{told:?}");
    assert!(result.is_err(), "it is doomed, though the closure looked away");
    let result = store.transaction(|tx| {
        tx.counter("list").add(1)?;
        Ok(())
    });
    assert!(result.is_err_and(|error| error.to_string().contains("WRONGTYPE")));
    let over = store.transaction(|tx| Ok(tx.clone())).expect("committed");
    assert_eq!(over.counter("k").add(1), Err(Error::Handle(HandleError::Finished)));
}

#[tokio::test]
async fn errors_reach_their_users_in_the_process() {
    for mode in [Mode::CommutingPhased, Mode::ReaderWriterPhased].into_iter().chain(Mode::ways()) {
        let store = Store::builder().mode(mode).build();
        crate::any_host::errors::all(&store, "").await;
        let brief = TxOptions::new().keep_answer(crate::any_host::errors::BRIEF);
        let brief = Store::builder().mode(mode).transactions(brief).build();
        crate::any_host::errors::in_time(crate::any_host::errors::once::an_answer_expires(&brief, "")).await;
        store.check_invariants();
    }
}
