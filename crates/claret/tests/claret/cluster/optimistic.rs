//! Optimistic transactions and conditional batches on a cluster; and what happens to the cluster while they think.

use std::time::Duration;

use claret::{
    Error, OpError, Records, Store, TxOptions,
    errors::{CommitError, ExecuteError},
    lab::{Mode, StoreLab},
};

use super::rig::{fresh, keys, shared};
use super::strict::{begin_to_move, set_slot};
use crate::any_host::{nesting, optimistic};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn optimistic_transactions_on_a_cluster() {
    let _limit = super::limit::of_test();
    let cluster = shared();
    for mode in [Mode::CommutingPhased, Mode::ReaderWriter].into_iter().chain(Mode::ways()) {
        let store = Store::cluster(cluster.url()).mode(mode).connect().await.expect("a store");
        optimistic::all(&store, &format!("optimistic:{mode:?}:")).await;
        store.close().await.expect("it closes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nesting_on_a_cluster() {
    let _limit = super::limit::of_test();
    let cluster = shared();
    for mode in [Mode::CommutingPhased, Mode::ReaderWriterPhased].into_iter().chain(Mode::ways()) {
        let store = Store::cluster(cluster.url()).mode(mode).connect().await.expect("a store");
        nesting::all(&store, &format!("nesting:{mode:?}:"), true).await;
        store.close().await.expect("it closes");
    }
}

/// It holds nothing that could be lost, and no lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_while_a_transaction_thinks() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    let store = Store::connect(cluster.url()).await.expect("a store");
    let key = cluster.key_at(0, "thinks:");
    let slot = cluster.query::<u16>(0, &["CLUSTER", "KEYSLOT", &key]).expect("a slot").to_string();
    store.counter(&key).add(5).await.expect("added");
    let options = TxOptions::new().optimistic();
    let moved = store.tx().options(options).run(async |tx| {
        let seen = tx.counter(&key).get().await?;
        if tx.attempt() == 1 {
            begin_to_move(&cluster, &slot, 0, 1).await;
            let port = cluster.servers()[1].port().to_string();
            let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "10000", "KEYS", &key];
            cluster.query::<()>(0, &words).expect("nobody holds it");
            let id = cluster.query::<String>(1, &["CLUSTER", "MYID"]).expect("an id");
            for node in [1, 0, 2] {
                set_slot(&cluster, node, &[&slot, "NODE", &id]).await;
            }
        }
        tx.counter(&key).add(seen)?;
        Ok(())
    });
    moved.await.expect("committed where the slot is");
    assert_eq!(store.counter(&key).get().await, Ok(10));
    store.close().await.expect("it closes");
}

/// A node that starts again while a transaction thinks has lost no lock of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_dies_while_a_transaction_thinks() {
    let _limit = super::limit::of_test();
    let mut cluster = super::strict::strict_cluster_with(1, &[]);
    let store = super::strict::store(&cluster).await;
    let key = cluster.key_at(1, "thinks:");
    store.counter(&key).add(5).await.expect("added");
    let replica = cluster.replica(1, 0);
    let (seen, dead) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    let options = TxOptions::new().optimistic().deadline(Duration::from_secs(20)).attempts(10_000);
    let think = store.tx().options(options).run(async |tx| {
        let value = tx.counter(&key).get().await?;
        if tx.attempt() == 1 {
            seen.notify_one();
            dead.notified().await;
        }
        tx.counter(&key).add(value)?;
        Ok(())
    });
    let fail_over = async {
        seen.notified().await;
        cluster.server_mut(1).kill();
        super::strict::wait_until("the replica goes on", || super::strict::serves(&cluster, replica)).await;
        cluster.server_mut(1).restart().expect("it starts");
        dead.notify_one();
    };
    let (thought, ()) = tokio::join!(think, fail_over);
    thought.expect("committed");
    assert_eq!(store.counter(&key).get().await, Ok(10));
    store.close().await.expect("it closes");
}

/// The error of a closure tells of what was seen, and is believed when that is checked: not when nobody answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_is_not_told_where_what_it_saw_cannot_be_checked() {
    let _limit = super::limit::of_test();
    let cluster = fresh(1);
    let store = Store::connect(cluster.url()).await.expect("a store");
    let key = cluster.key_at(0, "thinks:");
    let options = TxOptions::new().optimistic().deadline(Duration::from_secs(1));
    let told = store.tx().options(options).try_run(async |tx| {
        assert_eq!(tx.counter(&key).get().await?, 0);
        cluster.servers()[0].pause();
        Err::<(), _>(Told::Empty)
    });
    let told = told.await;
    cluster.servers()[0].resume();
    assert!(
        matches!(
            told,
            Err(Told::Store(Error::Commit(CommitError::Deadline { .. } | CommitError::NoAnswer { .. })))
        ),
        "{told:?}"
    );
    let options = TxOptions::new().optimistic();
    let told = store.tx().options(options).try_run(async |tx| match tx.counter(&key).get().await? {
        0 => Err::<(), _>(Told::Empty),
        _ => Ok(()),
    });
    assert!(matches!(told.await, Err(Told::Empty)), "it answers again");
    store.close().await.expect("it closes");
}

#[derive(Debug)]
enum Told {
    Empty,
    Store(Error),
}

impl From<Error> for Told {
    fn from(error: Error) -> Self {
        Told::Store(error)
    }
}

/// Plain commands could only look afterwards.
#[tokio::test]
async fn without_locks_nothing_can_be_expected_on_a_cluster() {
    let _limit = super::limit::of_test();
    let cluster = shared();
    let store = Store::cluster(cluster.url()).mode(Mode::None).connect().await.expect("a store");
    let key = &keys(cluster)[0];
    let batch = store.batch();
    let seen = batch.counter(key).get();
    batch.expect(seen, 0_i64);
    let told = batch.commit().await.map(|_| ());
    assert!(
        matches!(
            &told,
            Err(Error::Execute(ExecuteError::Invalid { error: OpError::NoPlainCommand { .. }, .. }))
        ),
        "{told:?}"
    );
    store.close().await.expect("it closes");
}
