//! Keys that come to another node in the durability `strict`: they leave their giver when the replicas of the taker have them (S16).

use std::time::{Duration, Instant};

use claret::Records as _;
use claret_rig::{Cluster, RigError};

use super::strict::{begin_to_move, number, pause, serves, set_slot, store, strict_cluster_with, wait_until};

/// Asks for a move of the key for so long.
fn try_to_migrate(cluster: &Cluster, key: &str, from: usize, to: usize, millis: u64) -> Result<(), RigError> {
    try_to_migrate_all(cluster, &[key], from, to, millis)
}

fn try_to_migrate_all(
    cluster: &Cluster,
    keys: &[&str],
    from: usize,
    to: usize,
    millis: u64,
) -> Result<(), RigError> {
    let (port, millis) = (cluster.servers()[to].port().to_string(), millis.to_string());
    let words = ["MIGRATE", "127.0.0.1", &port, "", "0", &millis, "REPLACE", "KEYS"];
    cluster.query(from, &[&words[..], keys].concat())
}

fn keys_at(cluster: &Cluster, node: usize, slot: &str) -> u64 {
    cluster.query(node, &["CLUSTER", "COUNTKEYSINSLOT", slot]).expect("a count")
}

/// The slot of a key, as a word.
fn slot_of(cluster: &Cluster, key: &str) -> String {
    cluster.query::<u16>(2, &["CLUSTER", "KEYSLOT", key]).expect("a slot").to_string()
}

async fn end_move(cluster: &Cluster, slot: &str, to: usize, nodes: &[usize]) {
    let id = cluster.query::<String>(to, &["CLUSTER", "MYID"]).expect("an id");
    for node in nodes {
        set_slot(cluster, *node, &[slot, "NODE", &id]).await;
    }
}

/// Bug: a node answered that a key had come before its replicas had it. Consequence: the giver removed it, the taker died, and what was
/// acknowledged was nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_leaves_its_giver_when_the_replicas_of_the_taker_have_it() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster_with(1, &[]);
    let store = store(&cluster).await;
    let key = cluster.key_at(0, "comes:");
    store.counter(&key).add(7).await.expect("written");
    let slot = slot_of(&cluster, &key);
    begin_to_move(&cluster, &slot, 0, 1).await;
    let replica = cluster.replica(1, 0);
    cluster.servers()[replica].pause();
    let error = try_to_migrate(&cluster, &key, 0, 1, 200).expect_err("the replica does not have it");
    assert!(error.to_string().contains("IOERR"), "{error}");
    assert_eq!(keys_at(&cluster, 0, &slot), 1);
    let error = try_to_migrate(&cluster, &key, 0, 1, 20_000).expect_err("the replica does not have it");
    assert!(error.to_string().contains("TRYAGAIN the key is here"), "{error}");
    assert_eq!(keys_at(&cluster, 0, &slot), 1);
    cluster.servers()[replica].resume();
    let moved = || try_to_migrate(&cluster, &key, 0, 1, 20_000).is_ok();
    wait_until("the replica has it", moved).await;
    // At once: what the replica has now it had before the giver heard of it.
    cluster.server_mut(1).kill();
    assert_eq!((keys_at(&cluster, 0, &slot), keys_at(&cluster, replica, &slot)), (0, 1));
    wait_until("it goes on", || serves(&cluster, replica)).await;
    cluster.server_mut(1).restart().expect("it starts");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    begin_to_move(&cluster, &slot, 0, replica).await;
    end_move(&cluster, &slot, replica, &[0, replica, 2]).await;
    assert_eq!(store.counter(&key).get().await, Ok(7));
}

fn knows(cluster: &Cluster, node: usize, of: usize) -> bool {
    let id = cluster.query::<String>(of, &["CLUSTER", "MYID"]).expect("an id");
    let nodes = cluster.query::<String>(node, &["CLUSTER", "NODES"]).expect("its nodes");
    nodes.lines().any(|line| line.starts_with(&id) && line.contains("master"))
}

/// The primaries and a node, which is a primary without slots from now on, know each other.
async fn meet(cluster: &Cluster, newcomer: usize) {
    let port = cluster.servers()[0].port().to_string();
    cluster
        .query::<()>(newcomer, &["CLUSTER", "MEET", "127.0.0.1", &port])
        .expect("it is told of the others");
    let all = || (0..3).all(|node| knows(cluster, node, newcomer) && knows(cluster, newcomer, node));
    wait_until("they know each other", all).await;
}

/// A replica becomes a node that nobody has ever heard of, without slots.
async fn begin_anew(cluster: &mut Cluster, node: usize) {
    let id = cluster.query::<String>(node, &["CLUSTER", "MYID"]).expect("an id");
    cluster.query::<()>(node, &["CLUSTER", "RESET", "HARD"]).expect("it is a primary without slots");
    for other in (0..cluster.servers().len()).filter(|other| *other != node) {
        cluster.query::<()>(other, &["CLUSTER", "FORGET", &id]).expect("forgotten");
    }
    cluster.server_mut(node).stop();
    cluster.server_mut(node).restart().expect("it starts");
    meet(cluster, node).await;
}

/// Bug: a node gave a key away, and heard nothing until it was taken; the other one, which waited for its replicas, gave one to it, and
/// then heard nothing either. Consequence: both stood still until one gave up. Mend: who waits gives nothing away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_for_its_replicas_gives_no_key_away() {
    let _limit = super::limit::of_test();
    let cluster = strict_cluster_with(1, &[]);
    let store = store(&cluster).await;
    let keys = [0, 1].map(|node| cluster.key_at(node, "crosses:"));
    for (node, key) in keys.iter().enumerate() {
        store.counter(key).add(7).await.expect("written");
        begin_to_move(&cluster, &slot_of(&cluster, key), node, 1 - node).await;
    }
    let replica = cluster.replica(1, 0);
    cluster.servers()[replica].pause();
    let refused = std::thread::scope(|scope| {
        let gives = scope.spawn(|| try_to_migrate(&cluster, &keys[0], 0, 1, 10_000));
        let its = slot_of(&cluster, &keys[0]);
        while keys_at(&cluster, 1, &its) == 0 && !gives.is_finished() {}
        let refused = try_to_migrate(&cluster, &keys[1], 1, 0, 10_000);
        gives.join().expect("answered").expect_err("the replica does not have it");
        refused
    });
    cluster.servers()[replica].resume();
    let error = refused.expect_err("it waits").to_string();
    assert!(error.contains("another node gives a key to this one"), "{error}");
    for (node, key) in keys.iter().enumerate() {
        wait_until("it goes", || try_to_migrate(&cluster, key, node, 1 - node, 10_000).is_ok()).await;
        end_move(&cluster, &slot_of(&cluster, key), 1 - node, &[1 - node, node, 2]).await;
        assert_eq!(store.counter(key).get().await, Ok(7), "{key}");
    }
}

/// Bug: a key that another node brings replaced one that a transaction holds. And who has no right to a key learned that it is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_brought_replaces_none_that_is_held() {
    let _limit = super::limit::of_test();
    let cluster = strict_cluster_with(1, &[]);
    let store = store(&cluster).await;
    let key = cluster.key_at(0, "held:");
    store.counter(&key).add(7).await.expect("written");
    let words = ["ACL", "SETUSER", "al", "on", ">pw", "~other", "+restore-asking", "+claret.take"];
    cluster.query::<()>(0, &words).expect("a user");
    let url = format!("redis://al:pw@127.0.0.1:{}", cluster.servers()[0].port());
    let brings = ["RESTORE-ASKING", &key, "0", "rubbish", "REPLACE"];
    let committed = store.transaction(|tx| {
        let (counter, cluster, url) = (tx.counter(&key), &cluster, &url);
        async move {
            let held = counter.get().await?;
            let error = cluster.query::<()>(0, &brings).expect_err("it is held").to_string();
            assert!(error.to_uppercase().contains("TRYAGAIN"), "{error}");
            let mut al = claret_rig::connect(url).expect("connected");
            let error = claret_rig::query::<()>(&mut al, &brings).expect_err("not his").to_string();
            assert!(error.to_uppercase().contains("PERM"), "{error}");
            Ok(held)
        }
    });
    assert_eq!(committed.await, Ok(7));
    let error = cluster.query::<()>(0, &brings).expect_err("that is no payload").to_string();
    assert!(error.contains("checksum"), "{error}");
}

/// Bug: a replica that was taken out of its shard, and given slots, went on as that shard beside it. Consequence: both ended each other,
/// and answered for each other's votes. Mend: it forgets what it was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_leaves_its_shard_does_not_go_on_as_it() {
    let _limit = super::limit::of_test();
    let cluster = strict_cluster_with(2, &[]);
    for node in 0..cluster.servers().len() {
        cluster.query::<()>(node, &["CONFIG", "SET", "claret.replicas", "1"]).expect("set");
    }
    let store = store(&cluster).await;
    let key = cluster.key_at(1, "stays:");
    store.counter(&key).add(7).await.expect("written");
    let (newcomer, before) = (cluster.replica(1, 1), number(&cluster, 1, "claret_incarnation"));
    cluster.query::<()>(newcomer, &["CLUSTER", "RESET"]).expect("it is a primary without slots");
    meet(&cluster, newcomer).await;
    let slot = slot_of(&cluster, &cluster.key_at(0, "empty:"));
    end_move(&cluster, &slot, newcomer, &[newcomer, 0, 1, 2]).await;
    // It has no replica, of which it would ask what that knows: it does not serve yet, however often it looks.
    pause(1_000).await;
    assert_eq!(number(&cluster, newcomer, "claret_incarnation"), 0);
    assert_eq!(number(&cluster, 1, "claret_incarnation"), before);
    assert_eq!(store.counter(&key).get().await, Ok(7));
}

/// A node that serves nothing yet has no shard, whose batches the replicas acknowledge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_come_to_a_node_without_slots_when_its_replicas_have_them() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster_with(2, &[]);
    // Of six replicas two become a newcomer and its replica.
    for node in 0..cluster.servers().len() {
        cluster.query::<()>(node, &["CONFIG", "SET", "claret.replicas", "1"]).expect("set");
    }
    let store = store(&cluster).await;
    let tag = cluster.key_at(0, "first:");
    let keys: Vec<String> = (0..20).map(|at| format!("{{{tag}}}{at}")).collect();
    for key in &keys {
        store.counter(key).add(7).await.expect("written");
    }
    let slot = slot_of(&cluster, &tag);
    let (newcomer, replica) = (cluster.replica(1, 1), cluster.replica(2, 1));
    begin_anew(&mut cluster, newcomer).await;
    cluster.query::<()>(newcomer, &["CONFIG", "SET", "claret.replicas", "1"]).expect("set");
    begin_to_move(&cluster, &slot, 0, newcomer).await;
    let error = try_to_migrate(&cluster, &keys[0], 0, newcomer, 10_000).expect_err("it has no replica");
    assert!(error.to_string().contains("0 replicas of this node"), "{error}");
    wait_until("its replica knows it", || knows(&cluster, replica, newcomer)).await;
    let id = cluster.query::<String>(newcomer, &["CLUSTER", "MYID"]).expect("an id");
    cluster.query::<()>(replica, &["CLUSTER", "REPLICATE", &id]).expect("it follows it");
    let first = || try_to_migrate(&cluster, &keys[0], 0, newcomer, 10_000).is_ok();
    wait_until("the replica is there", first).await;
    assert_eq!(keys_at(&cluster, replica, &slot), 1);
    // Bug: the giver waited for each key anew. Consequence: it was dead to the others for as long. Mend: the others are refused.
    cluster.servers()[replica].pause();
    let (several, began): (Vec<&str>, _) = (keys[1..].iter().map(String::as_str).collect(), Instant::now());
    let error = try_to_migrate_all(&cluster, &several, 0, newcomer, 60_000);
    cluster.servers()[replica].resume();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}: {error:?}", began.elapsed());
    error.expect_err("the replica does not have them");
    for key in &keys[1..] {
        let moved = || try_to_migrate(&cluster, key, 0, newcomer, 10_000).is_ok();
        wait_until("the replica is there again", moved).await;
    }
    assert_eq!(keys_at(&cluster, replica, &slot), keys.len() as u64);
    end_move(&cluster, &slot, newcomer, &[newcomer, 0, 1, 2]).await;
    for key in &keys {
        assert_eq!(store.counter(key).get().await, Ok(7), "{key}");
    }
    cluster.server_mut(newcomer).kill();
    wait_until("its replica goes on", || serves(&cluster, replica)).await;
    // It serves no transactions: it has no replica itself.
    for key in &keys {
        assert_eq!(cluster.query::<i64>(replica, &["GET", key]).expect("served"), 7, "{key}");
    }
}
