//! Connections that break, servers that stop, users who go away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use claret::{Abort, Error, Records, Store, TxOptions, errors::CommitError};
use claret_rig::{Cluster, Module, ShiftedClock};
use tokio::sync::Notify;

use super::rig::{fresh, keys, shared};

#[tokio::test]
async fn connections_that_are_killed_are_made_anew() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    let store = Store::connect(cluster.url()).await.expect("a store");
    let keys = keys(&cluster);
    let count = |key: String| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                store.counter(&key).add(1).await.expect("counted");
            }
        })
    };
    let tasks: Vec<_> = keys.iter().flat_map(|key| [count(key.clone()), count(key.clone())]).collect();
    for _ in 0..5 {
        for shard in 0..3 {
            for kind in ["pubsub", "normal"] {
                let killed = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
                cluster.query::<i64>(shard, &killed).expect("killed");
            }
        }
        // They connect anew and go on for a while before the next blow; how far, is all the same.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for task in tasks {
        task.await.expect("done");
    }
    for key in &keys {
        assert_eq!(store.counter(key).get().await.expect("read"), 400);
    }
    store.close().await.expect("it closes");
}

#[tokio::test]
async fn a_server_that_stops_for_a_while_is_waited_for() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    let store = Store::connect(cluster.url()).await.expect("a store");
    let keys = keys(&cluster);
    cluster.servers()[1].pause();
    let (one, other) = (keys[0].clone(), keys[1].clone());
    let waiting = tokio::spawn({
        let store = store.clone();
        async move {
            let batch = store.batch();
            batch.counter(&one).add(1);
            batch.counter(&other).add(1);
            batch.commit().await
        }
    });
    store.counter(&keys[2]).add(1).await.expect("the others work");
    // No event tells that nothing happens.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!waiting.is_finished());
    cluster.servers()[1].resume();
    waiting.await.expect("done").expect("committed");
    assert_eq!(store.counter(&keys[1]).get().await.expect("read"), 1);
}

#[tokio::test]
async fn a_dead_node_is_named_at_the_deadline() {
    let _limit = super::limit::of_test();
    // The others do not find out within the test, however long it takes: from then on they serve nobody either.
    let module = claret_rig::Module::of_sources().expect("the module");
    let options = claret_rig::Cluster::options(3, 0).module(module).node_timeout_ms(300_000);
    let mut cluster = options.start().expect("a cluster");
    let options = TxOptions::new().deadline(Duration::from_millis(700));
    let builder = Store::cluster(cluster.url()).transactions(options);
    let store = builder.response_timeout(Duration::from_millis(500)).connect().await.expect("a store");
    let keys = keys(&cluster);
    store.counter(&keys[1]).add(1).await.expect("counted");
    let address = cluster.servers()[1].address();
    cluster.server_mut(1).kill();
    let began = Instant::now();
    let read = store.transaction(|tx| {
        let key = keys[1].clone();
        async move { Ok(tx.counter(&key).get().await?) }
    });
    let error = read.await.expect_err("it is dead");
    assert!(matches!(error, Error::Commit(CommitError::NoAnswer { .. })), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
    assert!(error.is_retryable());
    // Its prepare has left, and nobody can say what became of it.
    let error = store.counter(&keys[1]).add(1).await.expect_err("it is dead");
    assert!(matches!(error, Error::Unknown(_)), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(store.counter(&keys[0]).get().await.expect("the others answer"), 0);
}

#[tokio::test]
async fn a_replica_that_takes_over_is_found() {
    let _limit = super::limit::of_test();
    let module = claret_rig::Module::of_sources().expect("the module");
    let options = claret_rig::Cluster::options(3, 1).module(module).node_timeout_ms(1_000);
    let mut cluster = options.start().expect("a cluster");
    let options = TxOptions::new().deadline(Duration::from_secs(20)).attempts(10_000);
    let builder = Store::cluster(cluster.url()).transactions(options);
    let store = builder.response_timeout(Duration::from_secs(1)).connect().await.expect("a store");
    let keys = keys(&cluster);
    for key in &keys {
        store.counter(key).add(1).await.expect("counted");
    }
    cluster.server_mut(1).kill();
    // What is read before the commit restarts with the shard's incarnation, and is never unknown.
    let seen = store.transaction(|tx| {
        let keys = keys.clone();
        async move { Ok((tx.counter(&keys[0]).get().await?, tx.counter(&keys[1]).get().await?)) }
    });
    assert_eq!(seen.await.expect("read").0, 1);
    store.counter(&keys[1]).add(1).await.expect("counted");
    assert!(store.counter(&keys[1]).get().await.expect("read") >= 1);
}

/// Bug: a node counted its incarnations by its clock alone. Consequence: one that started again while its clock was behind was an earlier
/// incarnation, and who had known the later one took no word of it, nor was taken, for ever.
#[tokio::test]
async fn a_node_that_starts_again_while_its_clock_is_behind_goes_on() {
    let _limit = super::limit::of_test();
    let clock = ShiftedClock::find().expect("the library");
    let module = Module::of_sources().expect("the module");
    let mut cluster = Cluster::options(3, 0).module(module).clock(clock).start().expect("a cluster");
    let store = Store::connect(cluster.url()).await.expect("a store");
    let keys = keys(&cluster);
    let (one, other) = (&keys[0], &keys[1]);
    let move_one = || {
        let batch = store.batch();
        batch.counter(one).add(-1);
        batch.counter(other).add(1);
        batch.commit()
    };
    move_one().await.expect("moved");
    let incarnation = |cluster: &Cluster| {
        let told = cluster.servers()[0].info("claret", "claret_incarnation").expect("told");
        told.expect("an incarnation").parse::<u64>().expect("a number")
    };
    let before = incarnation(&cluster);
    cluster.servers()[0].shift_clock(Duration::from_secs(7_200), true).expect("shifted");
    cluster.server_mut(0).restart().expect("it starts");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    let after = incarnation(&cluster);
    assert!(after > before, "incarnation {after} comes after {before}");
    // The store sees that the node has forgotten what it was told.
    store.counter(one).get().await.expect("read");
    move_one().await.expect("moved");
    assert_eq!(store.counter(other).get().await.expect("read"), 2);
    store.close().await.expect("it closes");
}

/// Bug: a server fires the timers of modules by the time of day. Consequence: when that was set back by an hour, those that a node had set
/// stood still for that hour, also where it was right again at once: strict primaries heard no replicas, and a shard that was to go on
/// did not. Mend: the node sets them anew when one is late.
#[tokio::test]
async fn a_node_whose_clock_is_set_back_goes_on() {
    let _limit = super::limit::of_test();
    let clock = ShiftedClock::find().expect("the library");
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(3, 0).module(module).clock(clock).start().expect("a cluster");
    let node = &cluster.servers()[0];
    let checks = || {
        let told = node.info("claret", "claret_checks").expect("told").expect("a number");
        told.parse::<u64>().expect("a number")
    };
    let hour = Duration::from_secs(3_600);
    for shifts in [&[hour][..], &[hour * 2, hour]] {
        for shift in shifts {
            node.shift_clock(*shift, true).expect("shifted");
            // In the second round: long enough for a timer to be looked at, and too short for anybody to see that they stand still.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let before = checks();
        while checks() < before + 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Bug: timestamps of a node whose clock had been ahead were settled when the time of day had come there. Consequence: transactions and
/// plain commands on what it had ordered waited for that hour. Mend: the other nodes follow it (P88, trap 56).
#[tokio::test]
async fn a_node_whose_clock_is_an_hour_ahead_holds_nobody_up() {
    let _limit = super::limit::of_test();
    let clock = ShiftedClock::find().expect("the library");
    let module = Module::of_sources().expect("the module");
    let options = Cluster::options(3, 0).module(module).clock(clock).config("claret.ordering 2");
    let cluster = options.start().expect("a cluster");
    let store = Store::connect(cluster.url()).await.expect("a store");
    let keys = keys(&cluster);
    let (one, other) = (&keys[0], &keys[1]);
    cluster.servers()[0].shift_clock(Duration::from_secs(3_600), false).expect("shifted");
    let mut last = 0;
    for _ in 0..5 {
        // Each stands behind the one before.
        let batch = store.batch();
        let tickets = (batch.counter(one).add_returning(-1), batch.counter(other).add_returning(1));
        let seen = batch.commit().await.expect("moved");
        last = seen.get(tickets.1).expect("read");
        assert_eq!(seen.get(tickets.0), Ok(-last));
    }
    assert_eq!(last, 5);
    for (node, (key, value)) in [(one, -5), (other, 5)].into_iter().enumerate() {
        let seen: i64 = cluster.query(node, &["GET", key]).expect("a plain command");
        assert_eq!(seen, value);
    }
    store.close().await.expect("it closes");
}

#[tokio::test]
async fn a_dropped_transaction_lets_its_locks_go() {
    let _limit = super::limit::of_test();
    let store = Store::connect(shared().url()).await.expect("a store");
    let keys = keys(shared());
    let (held, holds) = (keys.clone(), Arc::new(Notify::new()));
    let holder = tokio::spawn({
        let (store, holds) = (store.clone(), Arc::clone(&holds));
        async move {
            let hold = |tx: claret::Tx| {
                let (keys, holds) = (held.clone(), Arc::clone(&holds));
                async move {
                    for key in &keys {
                        tx.counter(key).get_for_update().await?;
                        tx.counter(key).add(1)?;
                    }
                    holds.notify_one();
                    std::future::pending::<()>().await;
                    Ok(())
                }
            };
            store.transaction(hold).await
        }
    });
    holds.notified().await;
    let blocked = tokio::time::timeout(Duration::from_millis(100), store.counter(&keys[0]).add(1)).await;
    assert!(blocked.is_err(), "it is held");
    holder.abort();
    let began = Instant::now();
    for key in &keys {
        assert_eq!(store.counter(key).get().await.expect("free"), 0);
    }
    assert!(began.elapsed() < Duration::from_secs(2), "no lease had to run out");
    store.close().await.expect("it closes");
}

#[tokio::test]
async fn a_closed_store_leaves_nothing_at_the_shards() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    let store = Store::connect(cluster.url()).await.expect("a store");
    let keys = keys(&cluster);
    let number = |node: usize, name: &str| -> u64 {
        let shown = cluster.servers()[node].info("claret", name).expect("info");
        shown.unwrap_or_else(|| panic!("{name}")).parse().expect("a number")
    };
    for key in &keys {
        store.set(key).add("m").await.expect("added");
    }
    // One that nobody ends, in the middle of it.
    let (holds, mut held) = tokio::sync::mpsc::unbounded_channel();
    let open = tokio::spawn({
        let (store, keys) = (store.clone(), keys.clone());
        async move {
            let asks = store.transaction(|tx| {
                let (keys, holds) = (keys.clone(), holds.clone());
                async move {
                    for key in &keys {
                        tx.set(key).add_returning("n").await?;
                    }
                    holds.send(()).expect("the test waits");
                    std::future::pending::<Result<(), Abort>>().await
                }
            });
            let _ = asks.await;
        }
    });
    held.recv().await.expect("it holds all keys");
    for node in 0..3 {
        assert_eq!((number(node, "claret_open_attempts"), number(node, "claret_held_keys")), (1, 1));
    }
    open.abort();
    let _ = open.await;
    store.close().await.expect("it closes");
    for (node, key) in keys.iter().enumerate() {
        assert_eq!(cluster.query::<i64>(node, &["SCARD", key]).expect("read"), 1);
        for name in ["claret_open_attempts", "claret_held_keys", "claret_in_doubt", "claret_remembered"] {
            assert_eq!(number(node, name), 0, "{name} of node {node}");
        }
    }
}
