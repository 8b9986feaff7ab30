//! The durability `strict`: nothing that was reported is lost when a replica takes over, and nothing is torn.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use claret::{Error, Outcome, Records, Store, TxOptions, errors::CommitError};
use claret_rig::{Cluster, Module, TestFolder};

use super::outcomes::{id_of, impatient, outcome, patient};

/// Three primaries with so many replicas each, none of which keeps anything on a disk.
fn strict_cluster(replicas: u16) -> Cluster {
    strict_cluster_with(replicas, &[])
}

/// A file with the secret of the nodes, written once: a node of another test may be reading it.
fn peer_secret() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let file = std::env::temp_dir().join(format!("claret-peer-secret-{}", std::process::id()));
        fs::write(&file, "a secret of the nodes of a test\n").expect("a file");
        file
    })
}

/// The same with these lines in the configuration.
pub(crate) fn strict_cluster_with(replicas: u16, config: &[&str]) -> Cluster {
    let module = Module::of_sources().expect("the module");
    let options = Cluster::options(3, replicas)
        .module(module)
        .node_timeout_ms(1_000)
        .strict()
        .config(&format!("claret.peer-secret-file {}", peer_secret().display()));
    let options = config.iter().fold(options, |options, line| options.config(line));
    options.start().expect("a cluster")
}

pub(crate) async fn store(cluster: &Cluster) -> Store {
    let options = TxOptions::new().deadline(Duration::from_secs(5)).attempts(10_000);
    let builder = Store::cluster(cluster.url()).transactions(options);
    builder.response_timeout(Duration::from_secs(1)).connect().await.expect("a store")
}

/// What a writer was told: the pairs that are there, and why others may not be.
struct Written {
    done: Vec<(usize, String)>,
    failed: BTreeMap<String, usize>,
}

/// What writers share.
struct Shared {
    store: Store,
    sets: Vec<String>,
    stop: AtomicBool,
    /// How many pairs were reported as committed.
    written: AtomicUsize,
}

/// Writes pairs of members, the same into sets at different shards, until it is told to stop. What was reported as committed.
async fn write_pairs(shared: Arc<Shared>, writer: usize) -> Written {
    let Shared { store, sets, stop, written } = &*shared;
    let (mut done, mut failed) = (Vec::new(), BTreeMap::new());
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let (member, first) = (format!("{writer}:{count}"), (writer + count) % sets.len());
        let batch = store.batch();
        batch.set(&sets[first]).add(&member);
        batch.set(&sets[(first + 1) % sets.len()]).add(&member);
        match batch.commit().await {
            Ok(_) => {
                done.push((first, member));
                written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => *failed.entry(error.to_string()).or_default() += 1,
        }
    }
    Written { done, failed }
}

/// Every pair that was reported is there, and no half of any.
async fn check(store: &Store, sets: &[String], done: &[(usize, String)]) {
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for set in sets {
        let members: Vec<String> = store.set(set).members().await.expect("read");
        found.push(members.into_iter().collect());
    }
    for (first, member) in done {
        let second = (first + 1) % sets.len();
        let [here, there] = [*first, second].map(|set| found[set].contains(member));
        assert!(here && there, "{member} was reported, and is lost ({here}, {there})");
    }
    for (at, members) in found.iter().enumerate() {
        for member in members {
            let (writer, count) = member.split_once(':').expect("a writer and a number");
            let number = |text: &str| text.parse::<usize>().expect("a number");
            let first = (number(writer) + number(count)) % sets.len();
            let other = if at == first { (first + 1) % sets.len() } else { first };
            assert!(found[other].contains(member), "half of {member} is there");
        }
    }
}

/// Writers that go on until they are stopped.
struct Writing {
    shared: Arc<Shared>,
    writers: Vec<tokio::task::JoinHandle<Written>>,
}

impl Writing {
    async fn begin(cluster: &Cluster) -> Self {
        let store = store(cluster).await;
        let sets: Vec<String> = (0..3).map(|shard| cluster.key_at(shard, "pairs:")).collect();
        let (stop, written) = (AtomicBool::new(false), AtomicUsize::new(0));
        let shared = Arc::new(Shared { store, sets, stop, written });
        let writers = (0..8).map(|writer| tokio::spawn(write_pairs(Arc::clone(&shared), writer))).collect();
        Writing { shared, writers }
    }

    /// Until some more pairs were reported: however slow the machine is, they go on.
    async fn go_on(&self) {
        const SOME: usize = 20;
        let written = || self.shared.written.load(Ordering::Relaxed);
        let before = written();
        wait_until("they write again", || written() >= before + SOME).await;
    }

    /// They go on and stop, and all that was reported is there.
    async fn end(self) {
        self.go_on().await;
        self.shared.stop.store(true, Ordering::Relaxed);
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for writer in self.writers {
            let written = writer.await.expect("done");
            done.extend(written.done);
            failed.push(written.failed);
        }
        println!("{} pairs were written, and these were not: {failed:?}", done.len());
        check(&self.shared.store, &self.shared.sets, &done).await;
    }
}

/// Time for the writers, or for the cluster to see that a node is dead.
pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Waits until something is so.
pub(crate) async fn wait_until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: it is not");
        pause(20).await;
    }
}

/// Whether it is the shard: without its replicas it may yet serve no transactions.
pub(crate) fn serves(cluster: &Cluster, node: usize) -> bool {
    let info = cluster.servers()[node].info("claret", "claret_shard");
    info.ok().flatten().is_some_and(|shard| shard != "0")
}

pub(crate) fn number(cluster: &Cluster, node: usize, field: &str) -> u64 {
    let info = cluster.servers()[node].info("claret", field).expect("it answers");
    info.expect("it is there").parse().expect("a number")
}

fn is_rewritten(cluster: &Cluster, node: usize) -> bool {
    let server = &cluster.servers()[node];
    ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
        .iter()
        .all(|field| server.info("persistence", field).expect("it answers").as_deref() == Some("0"))
}

fn is_valkey(cluster: &Cluster) -> bool {
    cluster.servers()[0].info("server", "server_name").expect("it answers").as_deref() == Some("valkey")
}

/// Bug: a replica noted that all its records had gone when it got those of its primary, and told the shard so when it went on as
/// that. Consequence: what had voted came to nothing there, and half of it was missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_reported_is_there_after_a_primary_dies() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let writing = Writing::begin(&cluster).await;
    pause(1_000).await;
    let replica = cluster.replica(1, 0);
    for dead in [1, replica] {
        cluster.server_mut(dead).kill();
        let other = if dead == 1 { replica } else { 1 };
        wait_until("the other goes on", || serves(&cluster, other)).await;
        cluster.server_mut(dead).restart().expect("it starts");
        cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
        pause(1_000).await;
    }
    writing.end().await;
}

/// A planned failover, one that nobody agreed to, and one without the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_reported_is_there_after_an_operator_had_a_replica_take_over() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(2);
    let writing = Writing::begin(&cluster).await;
    pause(1_000).await;
    let (first, second) = (cluster.replica(0, 0), cluster.replica(0, 1));
    for (node, words) in [
        (first, &["CLUSTER", "FAILOVER"][..]),
        (second, &["CLUSTER", "FAILOVER", "FORCE"]),
        (0, &["CLUSTER", "FAILOVER", "TAKEOVER"]),
    ] {
        cluster.query::<()>(node, words).expect("it takes over");
        wait_until("it goes on", || serves(&cluster, node)).await;
        cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
        pause(1_000).await;
    }
    writing.end().await;
}

/// A primary whose process starts again before anybody took its place has nothing, and its replica has everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_starts_again_at_once_does_not_serve_with_nothing() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let writing = Writing::begin(&cluster).await;
    pause(1_000).await;
    cluster.server_mut(2).kill();
    cluster.server_mut(2).restart().expect("it starts");
    let replica = cluster.replica(2, 0);
    wait_until("its replica takes its place", || serves(&cluster, replica)).await;
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    pause(1_000).await;
    let log = cluster.servers()[replica].log(1_000);
    // Where it does not start at once, as on a busy machine, the other nodes have noticed.
    let noticed = ["the primary has lost what this node knows", "FAIL message received", "Marking node"];
    assert!(noticed.iter().any(|line| log.contains(line)), "{log}");
    writing.end().await;
}

/// As long as it does not know whether another replica has more, those that come keep what they have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_keeps_its_records_when_its_primary_has_lost_them() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(2);
    // Nor does it leave for a shard that has none.
    let barrier: Vec<String> =
        cluster.query(0, &["CONFIG", "GET", "cluster-migration-barrier"]).expect("it is set");
    assert_eq!(barrier[1], "2");
    let store = store(&cluster).await;
    let key = cluster.key_at(1, "kept:");
    store.counter(&key).add(7).await.expect("written");
    let (replica, silent) = (cluster.replica(1, 0), cluster.replica(1, 1));
    cluster.servers()[silent].pause();
    cluster.server_mut(1).restart().expect("it starts");
    // It comes to its primary again each second.
    pause(3_000).await;
    assert!(cluster.query::<u64>(replica, &["DBSIZE"]).expect("a count") > 0);
    cluster.servers()[silent].resume();
    let nodes = [1, replica, silent];
    wait_until("somebody goes on", || nodes.iter().any(|node| serves(&cluster, *node))).await;
    assert_eq!(store.counter(&key).get().await, Ok(7));
}

/// It is cut off, and its replica takes over; when it is back it learns so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_stood_still_reports_nothing_that_its_successor_does_not_know() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let writing = Writing::begin(&cluster).await;
    pause(1_000).await;
    cluster.servers()[0].pause();
    let replica = cluster.replica(0, 0);
    wait_until("its replica takes its place", || serves(&cluster, replica)).await;
    cluster.servers()[0].resume();
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    pause(1_000).await;
    writing.end().await;
}

#[tokio::test]
async fn a_primary_without_its_replica_serves_nothing_and_says_so() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let store = store(&cluster).await;
    let key = cluster.key_at(1, "alone:");
    store.counter(&key).add(1).await.expect("counted");
    let replica = cluster.replica(1, 0);
    cluster.server_mut(replica).kill();
    // What comes first waits for the replica, and nobody can say what becomes of it.
    store.counter(&key).add(1).await.expect_err("nobody else has it");
    let exec = cluster.query::<i64>(1, &["CLARET.EXEC", "2", "INCR", &key]).expect_err("refused");
    assert!(exec.to_string().contains("claret.replicas is 1"), "{exec}");
    let log = cluster.servers()[1].log(1_000);
    assert!(log.contains("no transactions are served: 0 of 1 replicas"), "{log}");
    cluster.server_mut(replica).restart().expect("it starts");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    store.counter(&key).add(1).await.expect("its replica is back");
    let sum: i64 = store.counter(&key).get().await.expect("read");
    assert!((2..=3).contains(&sum), "{sum}");
}

/// What `INFO claret` says in words.
fn state(cluster: &Cluster, node: usize) -> String {
    let state = cluster.servers()[node].info("claret", "claret_state").expect("it answers");
    state.expect("it is there")
}

/// Bug: `claret_serving` stayed 1 where every transaction was refused for lack of replicas, and one that nobody had asked anything of
/// since they were gone did not even refuse. Consequence: after a failover all looked well, and a shard served nothing.
#[tokio::test]
async fn a_primary_without_its_replica_does_not_say_that_it_serves() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let says = |cluster: &Cluster, node| (number(cluster, node, "claret_serving"), state(cluster, node));
    wait_until("it serves", || says(&cluster, 0) == (1, "ok".to_owned())).await;
    let replica = cluster.replica(0, 0);
    cluster.server_mut(replica).kill();
    // Nobody wants anything of it.
    wait_until("it says that it serves nothing", || number(&cluster, 0, "claret_serving") == 0).await;
    let why = state(&cluster, 0);
    let said = "no transactions are served here, because 0 of its 1 replicas are connected";
    assert!(why.starts_with(said) && why.contains("start the node that is down"), "{why}");
    // Nor may the last replica leave for another shard.
    assert!(!why.contains("cluster-migration-barrier"), "{why}");
    cluster.query::<()>(0, &["CONFIG", "SET", "cluster-migration-barrier", "0"]).expect("set");
    let why = state(&cluster, 0);
    assert!(why.contains("set cluster-migration-barrier to 1 on all nodes"), "{why}");
    let key = cluster.key_at(0, "idle:");
    let refused = cluster.query::<i64>(0, &["CLARET.EXEC", "2", "INCR", &key]).expect_err("refused at once");
    assert!(refused.to_string().contains("claret.replicas is 1"), "{refused}");
    cluster.server_mut(replica).restart().expect("it starts");
    wait_until("it serves again", || says(&cluster, 0) == (1, "ok".to_owned())).await;

    // After a failover the new primary is alone.
    cluster.server_mut(0).kill();
    wait_until("its replica takes its place", || serves(&cluster, replica)).await;
    wait_until("it says that it serves nothing", || state(&cluster, replica).starts_with(said)).await;
    assert_eq!(number(&cluster, replica, "claret_serving"), 0);
    cluster.server_mut(0).restart().expect("it starts");
    wait_until("it serves", || says(&cluster, replica) == (1, "ok".to_owned())).await;
    assert!(state(&cluster, 0).ends_with("because this node is a replica"), "{}", state(&cluster, 0));
}

/// Nobody is left who has it in memory: it is in their append-only files. They are rewritten meanwhile, with records first as an RDB
/// file has them, or as commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_reported_is_there_after_all_nodes_of_a_shard_died() {
    let _limit = super::limit::of_test();
    for begins_as_rdb in ["yes", "no"] {
        let preamble = format!("aof-use-rdb-preamble {begins_as_rdb}");
        let mut cluster = strict_cluster_with(1, &["appendonly yes", "appendfsync always", &preamble]);
        let writing = Writing::begin(&cluster).await;
        let all: Vec<usize> = (0..cluster.servers().len()).collect();
        let (dying, others) = (vec![1, cluster.replica(1, 0)], vec![0, cluster.replica(0, 0)]);
        for (dead, paused) in [(dying, others), (all, Vec::new())] {
            pause(500).await;
            // Those that have voted at the one shard, and not at the other, commit when they have voted there, too.
            paused.iter().for_each(|node| cluster.servers()[*node].pause());
            pause(200).await;
            for node in &dead {
                cluster.query::<String>(*node, &["BGREWRITEAOF"]).expect("it begins");
            }
            for node in &dead {
                wait_until("its file is written", || is_rewritten(&cluster, *node)).await;
            }
            for node in &dead {
                cluster.server_mut(*node).kill();
            }
            for node in &dead {
                cluster.server_mut(*node).restart().expect("it starts");
            }
            paused.iter().for_each(|node| cluster.servers()[*node].resume());
            cluster.wait_until_ok(Duration::from_secs(30)).expect("well");
            wait_until("somebody goes on", || serves(&cluster, 1) || serves(&cluster, cluster.replica(1, 0)))
                .await;
            pause(1_000).await;
        }
        writing.end().await;
    }
}

/// One after the other, each with an RDB file, as an operator does who moves all machines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_reported_is_there_after_all_nodes_were_shut_down() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster_with(1, &["save 3600 1"]);
    let writing = Writing::begin(&cluster).await;
    let all: Vec<usize> = (0..cluster.servers().len()).collect();
    for _ in 0..2 {
        pause(1_000).await;
        // What has voted at the first shard commits at the second one when nobody of the first one is left.
        let paused = if serves(&cluster, 1) { 1 } else { cluster.replica(1, 0) };
        cluster.servers()[paused].pause();
        pause(300).await;
        for node in [0, cluster.replica(0, 0)] {
            cluster.server_mut(node).stop();
        }
        cluster.servers()[paused].resume();
        pause(300).await;
        all.iter().for_each(|node| cluster.server_mut(*node).stop());
        all.iter().for_each(|node| cluster.server_mut(*node).restart().expect("it starts"));
        cluster.wait_until_ok(Duration::from_secs(30)).expect("well");
        for shard in 0..3 {
            wait_until("somebody goes on", || {
                serves(&cluster, shard) || serves(&cluster, cluster.replica(shard, 0))
            })
            .await;
        }
        pause(1_000).await;
    }
    writing.end().await;
}

/// A node says nothing of it before its replica has it, and whoever takes its place says the same.
#[tokio::test]
async fn an_unknown_outcome_is_known_when_the_replicas_have_it_and_after_a_failover() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let (store, other) = (impatient(&cluster).await, patient(&cluster).await);
    let key = cluster.key_at(1, "asked:");
    let (primary, replica) = (1, cluster.replica(1, 0));
    let mut sum = 0;
    for dies in [false, true] {
        cluster.servers()[replica].pause();
        let id = id_of(store.counter(&key).add(1).await);
        assert_eq!(store.outcome(&id).await, Ok(Outcome::NotYet), "its replica does not have it");
        if dies {
            cluster.server_mut(primary).kill();
        }
        cluster.servers()[replica].resume();
        if dies {
            wait_until("it takes over", || serves(&cluster, replica)).await;
            cluster.server_mut(primary).restart().expect("it starts");
        }
        cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
        let became = outcome(&other, &id).await;
        sum += match became {
            Outcome::Committed => 1,
            Outcome::Aborted => 0,
            other => panic!("{other:?}"),
        };
        assert_eq!(outcome(&store, &id).await, became);
        assert_eq!(other.counter(&key).get().await, Ok(sum), "{became:?}");
    }
}

/// Restarts a node with this module.
fn restart_with(cluster: &mut Cluster, node: usize, module: &Path) {
    let server = cluster.server_mut(node);
    let file = server.dir().join("redis.conf");
    let config = fs::read_to_string(&file).expect("its configuration");
    let lines = config.lines().map(|line| match line.starts_with("loadmodule ") {
        true => format!("loadmodule \"{}\"", module.display()),
        false => line.to_owned(),
    });
    fs::write(&file, lines.collect::<Vec<_>>().join("\n")).expect("written");
    server.stop();
    server.restart().expect("it starts");
}

/// Whether a node that has started again follows this primary, which may not have seen yet that it was gone.
fn follows(cluster: &Cluster, node: usize, primary: usize, ready: impl Fn(&Cluster, usize) -> bool) -> bool {
    let link = cluster.servers()[node].info("replication", "master_link_status").ok().flatten();
    link.as_deref() == Some("up") && ready(cluster, primary)
}

/// Replicas first; then each primary hands over, and is restarted, too.
async fn upgrade(
    cluster: &mut Cluster,
    writing: &Writing,
    is_drained: bool,
    ready: impl Fn(&Cluster, usize) -> bool,
) {
    let folder = TestFolder::new();
    let next = folder.path().join("next.so");
    fs::copy(Module::of_sources().expect("the module").path, &next).expect("copied");
    for shard in 0..3 {
        let replica = cluster.replica(shard, 0);
        restart_with(cluster, replica, &next);
        cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
        wait_until("its replica is back", || follows(cluster, replica, shard, &ready)).await;
        writing.go_on().await;
        if is_drained {
            cluster.query::<()>(shard, &["CONFIG", "SET", "claret.drain", "1"]).expect("drained");
            // The others hear of what it has voted (docs/operations.md).
            pause(1_500).await;
            let voted = || cluster.servers()[shard].info("claret", "claret_in_doubt").ok().flatten();
            wait_until("nothing is in doubt", || voted().as_deref() == Some("0")).await;
        }
        cluster.query::<()>(replica, &["CLUSTER", "FAILOVER"]).expect("it takes over");
        wait_until("it goes on", || serves(cluster, replica)).await;
        restart_with(cluster, shard, &next);
        cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
        wait_until("the other one is back", || follows(cluster, shard, replica, &ready)).await;
        writing.go_on().await;
    }
    for node in 0..6 {
        let modules = cluster.query::<redis::Value>(node, &["MODULE", "LIST"]).expect("listed");
        assert!(format!("{modules:?}").contains("next.so"), "{modules:?}");
    }
}

/// A new version of the module comes to one node after the other while transactions run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_reported_is_there_after_a_rolling_upgrade() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let writing = Writing::begin(&cluster).await;
    let knows = |cluster: &Cluster, node: usize| {
        cluster.servers()[node].info("claret", "claret_replicas_know").ok().flatten().as_deref() == Some("1")
    };
    upgrade(&mut cluster, &writing, false, knows).await;
    writing.end().await;
}

/// The same in the durability `async`: nodes are drained before they hand over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_reported_is_there_after_a_rolling_upgrade_of_drained_nodes() {
    let _limit = super::limit::of_test();
    let module = Module::of_sources().expect("the module");
    let mut cluster =
        Cluster::options(3, 1).module(module).node_timeout_ms(1_000).start().expect("a cluster");
    let writing = Writing::begin(&cluster).await;
    let synced = |cluster: &Cluster, node: usize| {
        let replica = cluster.servers()[node].info("replication", "slave0").ok().flatten();
        replica.is_some_and(|replica| replica.contains("state=online"))
    };
    upgrade(&mut cluster, &writing, true, synced).await;
    writing.end().await;
}

/// Until no key of the slot is in use.
pub(crate) async fn set_slot(cluster: &Cluster, node: usize, words: &[&str]) {
    until_done(cluster, node, &[&["CLUSTER", "SETSLOT"][..], words].concat()).await;
}

/// A node refuses it while keys are in use, or, as on a busy machine, while it has not heard from its replica for a moment.
async fn until_done(cluster: &Cluster, node: usize, words: &[&str]) {
    let passing = ["TryAgain", "TRYAGAIN", "NOREPLICAS", "CLUSTERDOWN 0 replicas"];
    let since = Instant::now();
    while let Err(error) = cluster.query::<()>(node, words) {
        let text = error.to_string();
        assert!(passing.iter().any(|it| text.contains(it)), "{text}");
        assert!(since.elapsed() < Duration::from_secs(10), "{error}");
        pause(1).await;
    }
}

pub(crate) async fn begin_to_move(cluster: &Cluster, slot: &str, from: usize, to: usize) {
    let id = |node| cluster.query::<String>(node, &["CLUSTER", "MYID"]).expect("an id");
    set_slot(cluster, to, &[slot, "IMPORTING", &id(from)]).await;
    set_slot(cluster, from, &[slot, "MIGRATING", &id(to)]).await;
}

async fn migrate(cluster: &Cluster, key: &str, from: usize, to: usize) {
    let port = cluster.servers()[to].port().to_string();
    until_done(cluster, from, &["MIGRATE", "127.0.0.1", &port, "", "0", "10000", "REPLACE", "KEYS", key])
        .await;
}

/// Bug: servers of Redis 7 do not tell replicas which slots are on their way. Consequence: who took the place of the node that gave a
/// slot away found that keys were missing which had gone, and wrote them anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_on_its_way_is_served_by_nobody_after_its_giver_died() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let store = store(&cluster).await;
    let tag = cluster.key_at(0, "moves:");
    let keys = ["gone", "here"].map(|name| format!("{{{tag}}}{name}"));
    for key in &keys {
        store.counter(key).add(7).await.expect("written");
    }
    let slot = cluster.query::<u16>(0, &["CLUSTER", "KEYSLOT", &tag]).expect("a slot").to_string();
    begin_to_move(&cluster, &slot, 0, 1).await;
    migrate(&cluster, &keys[0], 0, 1).await;
    let replica = cluster.replica(0, 0);
    let left = || cluster.query::<u64>(replica, &["CLUSTER", "COUNTKEYSINSLOT", &slot]).expect("a count");
    wait_until("the replica lacks the key", || left() == 1).await;
    cluster.server_mut(0).kill();
    wait_until("the replica goes on", || serves(&cluster, replica)).await;
    // In Redis 7 the node that takes the slot does not look who has it now, and so is down.
    cluster.query::<()>(1, &["CLUSTER", "SETSLOT", &slot, "STABLE"]).expect("it forgets");
    cluster.server_mut(0).restart().expect("it starts");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    let others = cluster.key_at(0, "stays:");
    store.counter(&others).add(1).await.expect("other slots are served, and the store knows by whom");
    // Valkey itself tells replicas which slots are on their way.
    let stranded = || number(&cluster, replica, "claret_slots_stranded");
    assert_eq!(stranded(), u64::from(!is_valkey(&cluster)));
    for key in &keys {
        let quick = TxOptions::new().deadline(Duration::from_millis(500));
        let add = store.tx().options(quick).run(|tx| {
            let counter = tx.counter(key);
            async move { Ok(counter.add(1)?) }
        });
        let added = add.await;
        assert!(matches!(added, Err(Error::Commit(CommitError::Deadline { .. }))), "{key}: {added:?}");
    }
    begin_to_move(&cluster, &slot, replica, 1).await;
    migrate(&cluster, &keys[1], replica, 1).await;
    let id = cluster.query::<String>(1, &["CLUSTER", "MYID"]).expect("an id");
    for node in [1, replica, 2] {
        set_slot(&cluster, node, &[&slot, "NODE", &id]).await;
    }
    for key in &keys {
        assert_eq!(store.counter(key).get().await, Ok(7), "{key}");
    }
    assert_eq!(stranded(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_whose_move_is_given_up_is_served_by_who_took_its_givers_place() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let store = store(&cluster).await;
    let key = cluster.key_at(0, "moves:");
    store.counter(&key).add(7).await.expect("written");
    let slot = cluster.query::<u16>(0, &["CLUSTER", "KEYSLOT", &key]).expect("a slot").to_string();
    begin_to_move(&cluster, &slot, 0, 1).await;
    cluster.server_mut(0).kill();
    let replica = cluster.replica(0, 0);
    wait_until("the replica goes on", || serves(&cluster, replica)).await;
    cluster.query::<()>(1, &["CLUSTER", "SETSLOT", &slot, "STABLE"]).expect("it forgets");
    cluster.server_mut(0).restart().expect("it starts");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    set_slot(&cluster, replica, &[&slot, "STABLE"]).await;
    assert_eq!(number(&cluster, replica, "claret_slots_stranded"), 0);
    assert_eq!(store.counter(&key).get().await, Ok(7));
}

/// Bug: a primary that had lost its memory let slots go. Consequence: the records that it had went, and its replica, which knew more,
/// served the slot that had gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_stays_while_nobody_knows_what_was_written_in_it() {
    let _limit = super::limit::of_test();
    let mut cluster = strict_cluster(1);
    let slot = cluster.slots(1).0.to_string();
    let replica = cluster.replica(1, 0);
    cluster.servers()[replica].pause();
    cluster.server_mut(1).restart().expect("it starts");
    let id = cluster.query::<String>(2, &["CLUSTER", "MYID"]).expect("an id");
    let left = cluster.query::<()>(1, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id]);
    cluster.servers()[replica].resume();
    let error = left.expect_err("it does not leave").to_string();
    assert!(error.contains("NOTREADY"), "{error}");
    wait_until("somebody goes on", || serves(&cluster, 1) || serves(&cluster, replica)).await;
}

/// Bug: a slot was given away while replicas lacked what had been committed in it. Consequence: who took the giver's place knew nothing
/// of that, and it was carried out again, at the node to which it had gone with its record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_does_not_leave_before_the_replicas_have_what_was_written_in_it() {
    let _limit = super::limit::of_test();
    let cluster = strict_cluster(1);
    let store = store(&cluster).await;
    let key = cluster.key_at(0, "moves:");
    store.counter(&key).add(7).await.expect("written");
    let slot = cluster.query::<u16>(0, &["CLUSTER", "KEYSLOT", &key]).expect("a slot").to_string();
    let replica = cluster.replica(0, 0);
    cluster.servers()[replica].pause();
    // Committed at the primary, and nobody is told.
    let adding = tokio::spawn({
        let counter = store.counter(&key);
        async move { counter.add(1).await }
    });
    let value = || cluster.query::<String>(0, &["GET", &key]).expect("a value");
    wait_until("it is written", || value() == "8").await;
    let id = cluster.query::<String>(1, &["CLUSTER", "MYID"]).expect("an id");
    let left = cluster.query::<()>(0, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id]);
    cluster.servers()[replica].resume();
    let error = left.expect_err("it does not leave").to_string();
    // Valkey says so itself.
    let texts = ["the replicas do not have all of the slot yet", "NOREPLICAS"];
    assert!(texts.iter().any(|text| error.contains(text)), "{error}");
    adding.await.expect("done").expect("committed");
    set_slot(&cluster, 0, &[&slot, "MIGRATING", &id]).await;
}
