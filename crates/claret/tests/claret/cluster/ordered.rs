//! Ordered calls: many on one record (P82), and in the durability `strict`, where whoever is promoted has the order, too (S8 and S17 of
//! docs/replication.md).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use claret::{Records, Store, types::ScoreBound};
use claret_rig::{Cluster, Module};

use super::rig::{all_ordered, prefix};
use super::strict::{number, pause, serves, store, strict_cluster_with, wait_until};

/// Calls that look at what is there are ordered if they are few, and locked otherwise; all are answered, on a record that was there.
#[tokio::test]
async fn many_calls_on_one_record_are_answered_where_all_is_ordered() {
    let _limit = super::limit::of_test();
    let store = Store::connect(all_ordered().url()).await.expect("a store");
    let list = format!("{}list", prefix());
    let mut long = 0;
    for count in [1, 1_000, 10_000] {
        let batch = store.batch();
        let pushed: Vec<_> =
            (0..count).map(|at| batch.list(&list).push_back_returning(at.to_string())).collect();
        let committed = batch.commit().await.expect("pushed");
        for length in pushed {
            long += 1;
            assert_eq!(committed.get(length).expect("its own"), long);
        }
    }
    assert_eq!(store.list(&list).len().await.expect("read"), 11_001);
}

/// Sums are given once each, in one order on both counters; where the bound is near, or the record holds a word, the error is told.
#[tokio::test]
async fn counters_are_ordered_and_none_of_them_loses_a_sum() {
    const TASKS: i64 = 8;
    const EACH: i64 = 50;
    let _limit = super::limit::of_test();
    let store = Store::connect(all_ordered().url()).await.expect("a store");
    let [one, other] = ["one", "other"].map(|name| format!("{}{name}", prefix()));
    let tasks = (0..TASKS).map(|_| {
        let (store, one, other) = (store.clone(), one.clone(), other.clone());
        tokio::spawn(async move {
            let mut sums = Vec::new();
            for _ in 0..EACH {
                let batch = store.batch();
                let first = batch.counter(&one).add_returning(1);
                let second = batch.counter(&other).add_returning(1);
                let committed = batch.commit().await.expect("committed");
                let pair = (committed.get(first).expect("a sum"), committed.get(second).expect("a sum"));
                assert_eq!(pair.0, pair.1, "both are carried out in one order");
                sums.push(pair.0);
            }
            sums
        })
    });
    let mut sums = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        sums.extend(task.await.expect("no task panics"));
    }
    sums.sort_unstable();
    assert_eq!(sums, (1..=TASKS * EACH).collect::<Vec<_>>());
    // The second has no room, and what goes with it is not done.
    store.counter(&one).add(i64::MAX - TASKS * EACH - 1).await.expect("room for one more");
    for is_done in [true, false] {
        let batch = store.batch();
        batch.counter(&one).add(1);
        batch.counter(&other).add(1);
        assert_eq!(batch.commit().await.is_ok(), is_done);
    }
    assert_eq!(store.counter(&other).get().await.expect("read"), TASKS * EACH + 1);
    store.register(&one).set("word").await.expect("set");
    let failed = store.counter(&one).add(1).await.expect_err("it is no number");
    assert!(failed.to_string().contains("word"), "{failed}");
}

/// Bug: where several calls needed together more of a record than may be read at once, the first of them was not carried out. Each is asked
/// for by itself then.
#[tokio::test]
async fn a_call_is_carried_out_though_those_behind_it_need_more_than_is_read_at_once() {
    let _limit = super::limit::of_test();
    let options = Cluster::options(2, 0).module(Module::of_sources().expect("the module"));
    let cluster = options.config("claret.ordering 2").config("claret.whole-elements-max 1024").start();
    let cluster = cluster.expect("a cluster");
    let store = Store::connect(cluster.url()).await.expect("a store");
    // With more than 256 bytes of memory for each of 1,024.
    let member = |at: u32| format!("{at}:{}", "x".repeat(4_096));
    let members = (0..100).map(|at| (member(at), f64::from(at)));
    store.scored_set("k").add_many(members).await.expect("added");
    let batch = store.batch();
    batch.scored_set("k").remove(member(0));
    let all = (ScoreBound::Included(0.0), ScoreBound::Included(f64::INFINITY));
    let counted: Vec<_> = (0..10).map(|_| batch.scored_set("k").count(all.0, all.1)).collect();
    let committed = batch.commit().await.expect("committed");
    for count in counted {
        assert_eq!(committed.get(count).expect("its own"), 99);
    }
    assert_eq!(store.scored_set("k").len().await.expect("read"), 99);
}

/// Sets the same two registers to what nobody else writes, and keeps it in a set beside each, until it is told to stop. What was
/// reported.
async fn overwrite(store: Store, keys: Arc<Keys>, writer: usize, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut done = Vec::new();
    for count in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let text = format!("{writer}:{count}");
        let batch = store.batch();
        for (register, set) in keys.registers.iter().zip(&keys.sets) {
            batch.register(register).set(&text);
            batch.set(set).add(&text);
        }
        if batch.commit().await.is_ok() {
            done.push(text);
        }
    }
    done
}

/// Stops a node, and looks whether something is so while it is silent. It stays stopped.
async fn is_seen_while_silent(cluster: &Cluster, silent: usize, is: impl Fn() -> bool) -> bool {
    cluster.servers()[silent].pause();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        if is() {
            return true;
        }
        pause(10).await;
    }
    false
}

/// On two shards.
struct Keys {
    registers: [String; 2],
    sets: [String; 2],
}

impl Keys {
    fn of(cluster: &Cluster) -> Self {
        let keys = |prefix| [0, 1].map(|shard| cluster.key_at(shard, prefix));
        Keys { registers: keys("register:"), sets: keys("set:") }
    }
}

/// All of them vote at once for what conflicts, one behind the other. With locks one alone would have voted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_in_line_is_there_after_a_primary_dies() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster_with(1, &["claret.ordering 2"]);
    let (store, keys) = (store(&cluster).await, Arc::new(Keys::of(&cluster)));
    let stop = Arc::new(AtomicBool::new(false));
    let write = |writer| tokio::spawn(overwrite(store.clone(), Arc::clone(&keys), writer, Arc::clone(&stop)));
    let writers: Vec<_> = (0..8).map(write).collect();
    pause(500).await;
    for (dead, silent) in [(0, 1), (1, 0)] {
        let [replica, other] = [dead, silent].map(|node| cluster.replica(node, 0));
        // The other shard says nothing, for less than would count as failed: whoever has voted here stands in line.
        let silent = if serves(&cluster, silent) { silent } else { other };
        let mut tries = 0;
        while !is_seen_while_silent(&cluster, silent, || number(&cluster, replica, "claret_backup_votes") > 1)
            .await
        {
            cluster.servers()[silent].resume();
            tries += 1;
            assert!(tries < 20, "several have voted: they have not");
            pause(500).await;
        }
        cluster.server_mut(dead).kill();
        cluster.servers()[silent].resume();
        wait_until("the replica goes on", || serves(&cluster, replica)).await;
        cluster.server_mut(dead).restart().expect("it starts");
        cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
        pause(1_000).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut done = Vec::new();
    for writer in writers {
        done.extend(writer.await.expect("done"));
    }
    check(&store, &keys, &done).await;
    assert!(done.len() > 100, "{}", done.len());
}

/// All that was reported is there, none by half, and one and the same came last at both shards.
async fn check(store: &Store, keys: &Keys, done: &[String]) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for set in &keys.sets {
        let members: Vec<String> = store.set(set).members().await.expect("read");
        members.into_iter().for_each(|member| *found.entry(member).or_default() += 1);
    }
    let half: Vec<_> = found.iter().filter(|(_, shards)| **shards == 1).collect();
    assert!(half.is_empty(), "half of {half:?} is there");
    let lost: Vec<_> = done.iter().filter(|text| !found.contains_key(*text)).collect();
    assert!(lost.is_empty(), "{lost:?} was reported, and is lost");
    let [first, second] = &keys.registers;
    let [first, second] =
        [store.register(first).get::<String>().await, store.register(second).get::<String>().await];
    assert_eq!(first.expect("read"), second.expect("read"), "another one came last at the other shard");
}
