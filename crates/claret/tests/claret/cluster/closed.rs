//! Attempts that end while their closures do something else, and closures that go on with them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use claret::{
    Abort, Error, Records, Store, TxOptions,
    errors::BeginError,
    lab::{Mode, StoreLab},
};
use claret_rig::Cluster;

use super::rig::{all_ordered, change_rights, fresh, keys, prefix, shared};
use crate::any_host::handles;

fn modes() -> impl Iterator<Item = Mode> {
    [Mode::CommutingPhased].into_iter().chain(Mode::ways())
}

/// What ends an attempt that has not voted, or does not.
#[derive(Clone, Copy, Debug)]
enum Trigger {
    Expiry,
    Flush,
    Rights,
    Connections,
}

impl Trigger {
    const ALL: [Trigger; 4] = [Trigger::Expiry, Trigger::Flush, Trigger::Rights, Trigger::Connections];

    /// Before the record is held: a plain command would wait.
    fn prepare(self, cluster: &Cluster, key: &str) {
        cluster.query::<()>(0, &["SET", key, "0"]).expect("set");
        if let Trigger::Expiry = self {
            cluster.query::<()>(0, &["PEXPIRE", key, "50"]).expect("set");
        }
    }

    fn pull(self, cluster: &Cluster) {
        let words: &[&str] = match self {
            Trigger::Expiry => return,
            Trigger::Flush => &["FLUSHALL"],
            Trigger::Rights => return change_rights(cluster, 0),
            Trigger::Connections => &["CLIENT", "KILL", "TYPE", "pubsub"],
        };
        cluster.query::<()>(0, words).expect("done");
    }

    /// Whether it ends every attempt that holds a record there.
    fn is_certain(self) -> bool {
        matches!(self, Trigger::Flush | Trigger::Rights)
    }
}

/// Bug: the closure's next void call, and the commit, were taken in the name of the attempt that was over. Half of the
/// transaction committed, or both halves twice, or the answer of a call counted for the next attempt, which then waited
/// until its deadline.
#[tokio::test]
async fn an_attempt_that_is_refused_while_its_closure_waits_is_never_half_committed() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    for mode in modes() {
        let options = TxOptions::new().deadline(Duration::from_secs(60));
        let store = Store::cluster(cluster.url()).mode(mode).transactions(options);
        let store = store.connect().await.expect("a store");
        for trigger in Trigger::ALL {
            for reads_later in [false, true] {
                ends_while_it_waits(&cluster, &store, trigger, reads_later).await;
            }
        }
        store.close().await.expect("it closes");
    }
}

async fn ends_while_it_waits(cluster: &Cluster, store: &Store, trigger: Trigger, reads_later: bool) {
    let keys = keys(cluster);
    let made = AtomicU32::new(0);
    trigger.prepare(cluster, &keys[0]);
    let ended = store.transaction(|tx| {
        let (keys, made) = (keys.clone(), made.fetch_add(1, Ordering::SeqCst) + 1);
        async move {
            tx.counter(&keys[0]).add_returning(1).await?;
            if made == 1 {
                trigger.pull(cluster);
                // Until word of it has come, or is not likely to come.
                let began = Instant::now();
                while store.stats().open_attempts > 0
                    && (trigger.is_certain() || began.elapsed() < Duration::from_millis(200))
                {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            // What these calls answer, the closure does not look at.
            let _ = tx.list(&keys[1]).push_back(format!("of {made}"));
            let _ = tx.list(&keys[2]).push_back(format!("of {made}"));
            if reads_later {
                let _ = tx.counter(format!("{{{}}}c", keys[1])).get().await;
            }
            Ok(made)
        }
    });
    let made = ended.await.unwrap_or_else(|error| panic!("{trigger:?}: {error}"));
    assert!(made > 1 || !trigger.is_certain(), "{trigger:?} ended nothing");
    for key in &keys[1..3] {
        let all: Vec<String> = store.list(key).all().await.expect("read");
        assert_eq!(all, [format!("of {made}")], "{trigger:?}");
    }
    let count = store.counter(&keys[0]).get().await.expect("read");
    // A record that expired after the commit is gone with what was committed.
    let may_be_gone = matches!(trigger, Trigger::Expiry) && count == 0;
    assert!(count == 1 || may_be_gone, "{trigger:?}: {count}");
}

/// Bug: with combining, it was said to be unknown whether a transaction committed that its user had given up.
#[tokio::test]
async fn a_closure_that_gives_up_after_its_attempt_was_refused_has_aborted() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    for mode in modes() {
        let options = TxOptions::new().deadline(Duration::from_secs(60));
        let store = Store::cluster(cluster.url()).mode(mode).transactions(options);
        let store = store.connect().await.expect("a store");
        let keys = keys(&cluster);
        let made = AtomicU32::new(0);
        let given_up = store.transaction(|tx| {
            let (store, cluster, keys) = (&store, &cluster, &keys);
            let made = made.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                tx.counter(&keys[0]).add_returning(1).await?;
                if made == 1 {
                    change_rights(cluster, 0);
                    while store.stats().open_attempts > 0 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                Err::<(), _>(Abort::because("no"))
            }
        });
        let error = given_up.await.expect_err("it gave up");
        assert!(matches!(error, Error::Aborted(_)), "{mode:?}: {error}");
        assert_eq!(store.counter(&keys[0]).get().await.expect("read"), 0, "{mode:?}");
        store.close().await.expect("it closes");
    }
}

#[tokio::test]
async fn handles_that_are_dropped_cloned_or_kept_do_no_harm_on_a_cluster() {
    let _limit = super::limit::of_test();
    for mode in modes() {
        let store = Store::cluster(shared().url()).mode(mode).connect().await.expect("a store");
        handles::all(&store, &prefix()).await;
        store.close().await.expect("it closes");
    }
}

/// Bug: the timer of the deadline panicked, for its runtime had ended.
#[test]
fn a_handle_that_is_used_after_its_runtime_ended_answers_an_error() {
    let _limit = super::limit::of_test();
    let opened_on = tokio::runtime::Runtime::new().expect("a runtime");
    let key = keys(shared()).swap_remove(0);
    let store = opened_on.block_on(async {
        let store = Store::connect(shared().url()).await.expect("a store");
        store.counter(&key).add(1).await.expect("added");
        store
    });
    drop(opened_on);
    let elsewhere = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let error = elsewhere.block_on(async { store.counter(&key).get().await }).expect_err("nobody answers");
    assert!(matches!(error, Error::Begin(BeginError::Closed)), "{error:?}");
    let read = store.transaction(|tx| {
        let key = key.clone();
        async move { Ok(tx.counter(key).get().await?) }
    });
    let error = elsewhere.block_on(read).expect_err("nobody answers");
    assert!(matches!(error, Error::Begin(BeginError::Closed)), "{error:?}");
    assert!(error.to_string().contains("runtime"), "{error}");
}

#[tokio::test]
async fn records_come_expire_and_go_on_a_cluster() {
    let _limit = super::limit::of_test();
    for mode in modes() {
        let store = Store::cluster(shared().url()).mode(mode).connect().await.expect("a store");
        records_come_expire_and_go(store).await;
    }
}

/// Bug: what an ordered attempt did was compared with itself, call by call, and read again for each call: 70,000 pushes at once stopped
/// a node for minutes.
#[tokio::test]
async fn records_come_expire_and_go_where_all_is_ordered() {
    let _limit = super::limit::of_test();
    records_come_expire_and_go(Store::connect(all_ordered().url()).await.expect("a store")).await;
}

async fn records_come_expire_and_go(store: Store) {
    handles::living::all(&store, &prefix()).await;
    handles::documents::all(&store, &prefix()).await;
    handles::moving::all(&store, &prefix()).await;
    handles::versions::all(&store, &prefix()).await;
    store.close().await.expect("it closes");
}

/// Operations that waited were not told of a store's end, and what was begun afterwards waited in vain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_store_answers_at_once_on_a_cluster() {
    let _limit = super::limit::of_test();
    for mode in modes() {
        let open = || async { Store::cluster(shared().url()).mode(mode).connect().await.expect("a store") };
        let store = open().await;
        handles::closing::all(&store, &prefix()).await;
        handles::closing::closed_in_a_closure(&open().await, prefix()).await;
    }
}

/// Bug: a store's end was waited for with timers of the caller's runtime, and panicked where it had none.
#[test]
fn a_store_is_closed_from_anywhere() {
    let _limit = super::limit::of_test();
    let opened_on = tokio::runtime::Runtime::new().expect("a runtime");
    for mode in [Mode::None, Mode::CommutingPhased] {
        let store = opened_on.block_on(Store::cluster(shared().url()).mode(mode).connect()).expect("a store");
        let key = prefix();
        let blocking = store.blocking();
        blocking.counter(&key).add(1).expect("added");
        let (kept, late) = (blocking.clone(), TxOptions::new().deadline(Duration::from_millis(50)));
        // On this thread, which has no runtime.
        blocking.close().expect("it closes");
        let error = kept.tx().options(late).run(|tx| tx.counter(&key).add_returning(1).map_err(Into::into));
        assert!(matches!(error, Err(Error::Begin(BeginError::Closed))), "{mode:?}: {error:?}");
        let again = opened_on.block_on(Store::connect(shared().url())).expect("a store");
        assert_eq!(again.blocking().counter(&key).get().expect("an answer"), 1);
    }
}
