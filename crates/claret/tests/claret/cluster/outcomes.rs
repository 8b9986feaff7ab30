//! What became of a transaction whose caller heard that it is unknown: other processes hear it from the nodes, and nobody ends what
//! lives by asking.

use std::time::{Duration, Instant};

use claret::{Error, Outcome, OutcomeId, Records, Store, TxOptions};
use claret_rig::{Cluster, Module};

use super::rig::keys;

/// Whose clients are soon known to be dead.
fn fresh() -> Cluster {
    let module = Module::of_sources().expect("the module");
    let options = Cluster::options(3, 0).module(module).config("claret.lease-ms 1000");
    options.node_timeout_ms(30_000).config("appendonly yes").start().expect("a cluster")
}

/// One that gives a call up soon, and has a connection to each node: what it asks of a node that falls silent has been sent.
pub(crate) async fn impatient(cluster: &Cluster) -> Store {
    let options = TxOptions::new().deadline(Duration::from_millis(400));
    let builder =
        Store::cluster(cluster.url()).transactions(options).response_timeout(Duration::from_millis(400));
    let store = builder.connect().await.expect("a store");
    for key in &keys(cluster) {
        while store.counter(key).get().await != Ok(0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    store
}

pub(crate) async fn patient(cluster: &Cluster) -> Store {
    Store::cluster(cluster.url()).connect().await.expect("a store")
}

pub(crate) fn id_of(result: Result<(), Error>) -> OutcomeId {
    match result {
        // As it goes to another process.
        Err(Error::Unknown(id)) => id.to_string().parse().expect("the same"),
        other => panic!("{other:?}"),
    }
}

/// What it is once that is known.
pub(crate) async fn outcome(store: &Store, id: &OutcomeId) -> Outcome {
    let began = Instant::now();
    loop {
        match store.outcome(id).await.expect("it is open") {
            Outcome::NotYet if began.elapsed() < Duration::from_secs(30) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            known => return known,
        }
    }
}

#[tokio::test]
async fn it_is_not_yet_known_while_a_node_is_silent_and_then_all_hear_the_same() {
    let _limit = super::limit::of_test();
    let cluster = fresh();
    let (store, other) = (impatient(&cluster).await, patient(&cluster).await);
    let keys = keys(&cluster);
    cluster.servers()[1].pause();
    let alone = id_of(store.counter(&keys[1]).add(1).await);
    let both = id_of(
        store
            .transaction(async |tx| {
                tx.counter(&keys[0]).add(1)?;
                tx.counter(&keys[1]).add(10)?;
                Ok(())
            })
            .await,
    );
    for id in [&alone, &both] {
        assert_eq!(store.outcome(id).await, Ok(Outcome::NotYet), "{id}");
    }
    cluster.servers()[1].resume();
    let [first, second] = [outcome(&other, &alone).await, outcome(&other, &both).await];
    assert!(first != Outcome::Forgotten && second != Outcome::Forgotten, "{first:?} {second:?}");
    let done = |outcome: Outcome, amount: i64| if outcome == Outcome::Committed { amount } else { 0 };
    assert_eq!(other.counter(&keys[0]).get().await, Ok(done(second, 1)));
    assert_eq!(other.counter(&keys[1]).get().await, Ok(done(first, 1) + done(second, 10)));
    for store in [&store, &other] {
        assert_eq!(store.outcome(&alone).await, Ok(first));
        assert_eq!(store.outcome(&both).await, Ok(second));
    }
}

#[tokio::test]
async fn another_process_hears_what_the_nodes_made_of_what_a_dead_one_left() {
    let _limit = super::limit::of_test();
    let cluster = fresh();
    let other = patient(&cluster).await;
    let keys = keys(&cluster);
    let store = impatient(&cluster).await;
    cluster.servers()[1].pause();
    let left = id_of(
        store
            .transaction(async |tx| {
                tx.counter(&keys[0]).add(1)?;
                tx.counter(&keys[1]).add(1)?;
                Ok(())
            })
            .await,
    );
    // Its connections close as those of a process that died.
    drop(store);
    cluster.servers()[1].resume();
    let became = outcome(&other, &left).await;
    let expected = i64::from(became == Outcome::Committed);
    assert!(matches!(became, Outcome::Committed | Outcome::Aborted), "{became:?}");
    for key in &keys[..2] {
        assert_eq!(other.counter(key).get().await, Ok(expected), "{became:?}");
    }
}

#[tokio::test]
async fn what_a_node_forgot_by_dying_is_forgotten() {
    let _limit = super::limit::of_test();
    let mut cluster = fresh();
    let store = impatient(&cluster).await;
    let keys = keys(&cluster);
    cluster.servers()[1].pause();
    let id = id_of(store.counter(&keys[1]).add(1).await);
    cluster.server_mut(1).restart().expect("it comes back");
    assert_eq!(outcome(&patient(&cluster).await, &id).await, Outcome::Forgotten);
}

#[tokio::test]
async fn asking_ends_nothing_that_lives() {
    let _limit = super::limit::of_test();
    let cluster = super::rig::shared();
    let (store, other) = (patient(cluster).await, patient(cluster).await);
    let key = keys(cluster).remove(1);
    let (key, other) = (&key, &other);
    store
        .transaction(async |tx| {
            tx.counter(key).add_returning(1).await?;
            let locks: Vec<(String, Vec<String>, Vec<String>)> =
                cluster.query(1, &["CLARET.LOCKS", key]).expect("who holds it");
            let attempt = locks[0].1[0].split(' ').next().expect("its name").to_owned();
            let (shard, since, written): (u32, String, String) =
                cluster.query(1, &["CLARET.OUTCOME", &attempt]).expect("what is written");
            assert_eq!(written, "nothing");
            let id: OutcomeId = format!("tx:{attempt}@{shard}:{since}").parse().expect("its id");
            assert_eq!(other.outcome(&id).await, Ok(Outcome::NotYet));
            Ok(())
        })
        .await
        .expect("it commits all the same");
    assert_eq!(store.counter(key).get().await, Ok(1));
}
