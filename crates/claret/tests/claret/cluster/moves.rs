//! Slots that move while transactions use other keys of the node that they leave, nodes that leave altogether, and
//! planned failovers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use claret::{Error, Records as _, Store, Tx, TxOptions};
use claret_rig::{Cluster, Module};

use super::rig::fresh;

const EACH: i64 = 1_000;

async fn store(cluster: &Cluster) -> Store {
    let options = TxOptions::new().deadline(Duration::from_secs(60)).attempts(100_000);
    Store::cluster(cluster.url()).transactions(options).connect().await.expect("a store")
}

async fn total(store: &Store, accounts: [String; 2]) -> i64 {
    let read = store.transaction(|tx: Tx| {
        let [one, other] = accounts.clone();
        async move { Ok(tx.counter(one).get().await? + tx.counter(other).get().await?) }
    });
    read.await.expect("read")
}

/// What the clients know of each other.
#[derive(Default)]
struct Course {
    done: AtomicU64,
    is_over: AtomicBool,
    /// A node that was not drained leaves: nobody knows what it had voted.
    loses_votes: bool,
}

/// Money goes to and fro between two accounts, with a look at a third key, until it is over.
async fn transfers(store: Store, accounts: [String; 2], seen: String, course: Arc<Course>) {
    for done in 0.. {
        if course.is_over.load(Ordering::Relaxed) {
            return;
        }
        let moved = store.transaction(|tx: Tx| {
            let ([one, other], seen) = (accounts.clone(), seen.clone());
            async move {
                let sum = if done % 2 == 0 { 1 } else { -1 };
                tx.counter(&seen).get().await?;
                tx.counter(one).add(sum)?;
                tx.counter(other).add(-sum)?;
                Ok(())
            }
        });
        match moved.await {
            Err(Error::Unknown(_)) if course.loses_votes => continue,
            moved => moved.expect("moved"),
        }
        course.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gives a slot to another node. Asked again while a key of it is in use.
async fn give(cluster: &Cluster, slot: u16, from: usize, to: usize) {
    let id = cluster.query::<String>(to, &["CLUSTER", "MYID"]).expect("an id");
    let slot = slot.to_string();
    let since = Instant::now();
    for node in [to, from] {
        while let Err(error) = cluster.query::<()>(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &id]) {
            // It has heard by itself that its last slot is gone, and follows the node that has it.
            if node == from && error.to_string().contains("only with masters") {
                break;
            }
            assert!(since.elapsed() < Duration::from_secs(10), "{error}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Bug: a node looked whether it may write with a key of its lowest slot. While that slot was on its way, the server's answer was where
/// to ask, and the node took it for a no: it decided nothing, in any slot, until the slot had arrived. Slots leave lowest first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_goes_on_while_its_lowest_slot_is_on_its_way() {
    let _limit = super::limit::of_test();
    let cluster = fresh(2);
    let store = store(&cluster).await;
    let key = cluster.key_at(0, "stays:");
    let (lowest, _) = cluster.slots(0);
    super::strict::begin_to_move(&cluster, &lowest.to_string(), 0, 1).await;
    // What a client holds and lets go, others wait for: a timer has to see to it.
    for sum in 1..=20 {
        let added = |tx: Tx| {
            let key = key.clone();
            async move { Ok(tx.counter(key).add_returning(1).await?) }
        };
        let alone = store.counter(&key);
        let (one, other) = tokio::join!(store.transaction(added), alone.add(1));
        assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
        assert_eq!(store.counter(&key).get().await.expect("read"), 2 * sum);
    }
    assert_eq!(cluster.query::<i64>(0, &["INCR", &key]).expect("a plain command"), 41);
}

async fn while_slots_move<F: Future<Output = ()>>(
    cluster: &Cluster,
    keys: ([String; 2], String),
    moves: impl FnOnce() -> F,
) -> Store {
    during(cluster, keys, moves, Course::default()).await
}

async fn during<F: Future<Output = ()>>(
    cluster: &Cluster,
    (accounts, seen): ([String; 2], String),
    moves: impl FnOnce() -> F,
    course: Course,
) -> Store {
    let store = store(cluster).await;
    for account in &accounts {
        store.counter(account).add(EACH).await.expect("filled");
    }
    let course = Arc::new(course);
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let work = transfers(store.clone(), accounts.clone(), seen.clone(), Arc::clone(&course));
            tokio::spawn(work)
        })
        .collect();
    moves().await;
    // They go on afterwards, however few went through meanwhile.
    let before = course.done.load(Ordering::Relaxed);
    until("transfers go on", || course.done.load(Ordering::Relaxed) >= before + 100).await;
    course.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("it ends well");
    }
    let done = course.done.load(Ordering::Relaxed);
    assert_eq!(total(&store, accounts).await, 2 * EACH, "of {done} transfers none was applied by half");
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lowest_slots_of_a_node_leave_and_no_transfer_is_torn() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    // Upper slots: none of them is one of the lowest twenty.
    let key = |node: usize| {
        (0..).map(|it| cluster.key_at(node, &format!("m{it}:"))).find(|key| {
            let slot = cluster.query::<u16>(0, &["CLUSTER", "KEYSLOT", key]).expect("a slot");
            slot > cluster.slots(node).0 + 100
        })
    };
    let [one, other, seen] = [0, 1, 2].map(|node| key(node).expect("a key"));
    let keys = ([one, other], seen);
    let moves = || async {
        for number in 0..20 {
            for from in 0..2 {
                give(&cluster, cluster.slots(from).0 + number, from, 2).await;
            }
            // Transfers go on for a while between two moves; how many, is all the same.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    while_slots_move(&cluster, keys, moves).await.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_gives_all_slots_away_and_leaves_and_nobody_waits_for_it() {
    let _limit = super::limit::of_test();
    const KEPT: u16 = 30;
    let mut cluster = fresh(3);
    let (first, last) = cluster.slots(2);
    // Most of its slots go before, for that takes long.
    let range = [first.to_string(), (last - KEPT).to_string()];
    for (node, verb) in [(0, "DEL"), (1, "DEL"), (2, "DEL"), (0, "ADD")] {
        let verb = format!("{verb}SLOTSRANGE");
        cluster.query::<()>(node, &["CLUSTER", &verb, &range[0], &range[1]]).expect("slots");
    }
    cluster.query::<String>(0, &["CLUSTER", "BUMPEPOCH"]).expect("an epoch");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("covered");
    let seen = (0..)
        .map(|it| format!("s{it}"))
        .find(|key| cluster.query::<u16>(0, &["CLUSTER", "KEYSLOT", key]).expect("a slot") > last - KEPT);
    let keys = ([cluster.key_at(0, "a"), cluster.key_at(1, "a")], seen.expect("a key"));
    let moves = || async {
        for slot in last - KEPT + 1..=last {
            give(&cluster, slot, 2, 0).await;
        }
        // Long enough for the client to part with it: then it is dead for good.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    };
    let course = Course { loses_votes: true, ..Course::default() };
    let store = during(&cluster, keys, moves, course).await;
    let since = Instant::now();
    // Everything is over and known to be: low-water marks rose, and nothing is held.
    store.close().await.expect("it closes");
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    for node in 0..2 {
        let server = &cluster.servers()[node];
        assert_eq!(server.info("claret", "claret_held_keys").expect("info").as_deref(), Some("0"), "{node}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_of_a_drained_node_tears_no_transfer() {
    let _limit = super::limit::of_test();
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(3, 1).module(module).start().expect("a cluster");
    let keys = ([cluster.key_at(0, "a"), cluster.key_at(1, "a")], cluster.key_at(2, "a"));
    let moves = || async {
        for round in 0..3 {
            let pair = [0, cluster.replica(0, 0)];
            let [master, replica] = if round % 2 == 0 { pair } else { [pair[1], pair[0]] };
            let link = || cluster.servers()[replica].info("replication", "master_link_status").expect("info");
            until("the replica follows", || link().as_deref() == Some("up")).await;
            cluster.query::<()>(master, &["CONFIG", "SET", "claret.drain", "1"]).expect("drained");
            let server = &cluster.servers()[master];
            let in_doubt = || server.info("claret", "claret_in_doubt").expect("info");
            // What is on its way to the node is answered, too: all clients know that it takes nothing.
            tokio::time::sleep(Duration::from_secs(1)).await;
            until("nothing is in doubt", || in_doubt().as_deref() == Some("0")).await;
            let role = |node: usize, role: &str| {
                let info = cluster.servers()[node].info("replication", "role").expect("info");
                info.as_deref() == Some(role)
            };
            // A replica that has to begin anew with its copy lets the failover time out: it is asked again.
            let asked = Cell::new(None::<Instant>);
            let is_over = || {
                if asked.get().is_none_or(|at| at.elapsed() > Duration::from_secs(6)) {
                    asked.set(Some(Instant::now()));
                    // Refused while one is under way.
                    let _ = cluster.query::<String>(replica, &["CLUSTER", "FAILOVER"]);
                }
                role(replica, "master") && role(master, "slave")
            };
            until("they change places", is_over).await;
            let drain = || cluster.query::<Vec<String>>(master, &["CONFIG", "GET", "claret.drain"]);
            until("it can become the master again", || drain().expect("a setting")[1] == "0").await;
            // Transfers go on for a while between two failovers; how many, is all the same.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    while_slots_move(&cluster, keys, moves).await.close().await.expect("it closes");
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(40), "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
