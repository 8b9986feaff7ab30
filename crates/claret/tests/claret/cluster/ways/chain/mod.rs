//! Chains on a cluster (docs/chains.md): nodes hand commits on to each other, beside everything else, and some of them die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use claret::lab::Chains;
use claret::{Abort, Error, Records, Store, TxOptions, errors::CommitError};
use claret_rig::{Cluster, Module, SecretFile};

use crate::cluster::rig::{keys, shared};
use crate::cluster::strict::{number, pause};

/// So much is on each account at first.
const BALANCE: i64 = 1_000;

fn with_secret(masters: u16, chains: &str) -> (Cluster, SecretFile) {
    let secret = SecretFile::write().expect("a secret");
    let module = Module::of_sources().expect("the module");
    let options = Cluster::options(masters, 0).module(module).config(&secret.setting());
    (options.config(&format!("claret.chains {chains}")).start().expect("a cluster"), secret)
}

async fn chained(cluster: &Cluster, options: TxOptions) -> Store {
    let builder = Store::cluster(cluster.url()).transactions(options).chains(Chains::Always);
    builder.response_timeout(Duration::from_secs(1)).connect().await.expect("a store")
}

/// What all nodes count of something.
fn sum(cluster: &Cluster, field: &str) -> u64 {
    (0..cluster.masters()).map(|node| number(cluster, node, field)).sum()
}

/// Moves amounts between accounts on different nodes, so many times. What cannot be done is left out.
async fn transfer(store: Store, accounts: Vec<String>, options: TxOptions, times: usize) -> usize {
    let mut done = 0;
    for at in 0..times {
        let (from, to) = (&accounts[at % accounts.len()], &accounts[(at * 3 + 1) % accounts.len()]);
        if from == to {
            continue;
        }
        let moved = store.tx().options(options).run(async |tx| {
            let balance = tx.counter(from).get().await?;
            if balance < 7 {
                return Err(Abort::because("too little is there"));
            }
            tx.counter(from).add(-7)?;
            tx.counter(to).add(7)?;
            Ok(())
        });
        done += usize::from(moved.await.is_ok());
    }
    done
}

async fn total(store: &Store, accounts: &[String]) -> i64 {
    let read = store.transaction(async |tx| {
        let mut total = 0;
        for account in accounts {
            total += tx.counter(account).get().await?;
        }
        Ok(total)
    });
    read.await.expect("read")
}

/// Batches over four nodes that answer, and overwrite what others overwrite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_hand_commits_on_to_each_other() {
    let _limit = crate::cluster::limit::of_test();
    let (cluster, _secret) = with_secret(4, "yes");
    let store = chained(&cluster, TxOptions::new().attempts(1_000)).await;
    let keys = Arc::new(keys(&cluster));
    let write = |writer: usize| {
        let (store, keys) = (store.clone(), Arc::clone(&keys));
        tokio::spawn(async move {
            for count in 0..50 {
                let batch = store.batch();
                for key in keys.iter() {
                    batch.register(format!("{key}:last")).set(format!("{writer}:{count}"));
                }
                let sums: Vec<_> =
                    keys.iter().map(|key| batch.counter(format!("{key}:sum")).add_returning(1)).collect();
                let done = batch.commit().await.expect("committed");
                let sums: Vec<i64> = sums.into_iter().map(|sum| done.get(sum).expect("answered")).collect();
                assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?} are of one moment");
            }
        })
    };
    for writer in (0..8).map(write).collect::<Vec<_>>() {
        writer.await.expect("done");
    }
    let mut last = Vec::new();
    for key in keys.iter() {
        assert_eq!(store.counter(format!("{key}:sum")).get().await, Ok(400));
        let value: Option<String> = store.register(format!("{key}:last")).get().await.expect("read");
        last.push(value);
    }
    assert!(last[0].is_some() && last.iter().all(|value| *value == last[0]), "{last:?}");
    let (messages, envelopes) =
        (sum(&cluster, "claret_peer_messages_out"), sum(&cluster, "claret_peer_envelopes_out"));
    assert!(messages > 100 && envelopes > 0 && envelopes <= messages, "{messages} in {envelopes}");
    assert_eq!(sum(&cluster, "claret_tokens_waiting"), 0);
    // Who says something to others has a quick link to each of them. One that was made later is found with later messages.
    let of_each = |field: &str| -> Vec<u64> {
        (0..cluster.masters()).map(|node| number(&cluster, node, field)).collect()
    };
    let are_quick = || {
        let links = of_each("claret_peer_links_quick").into_iter().zip(of_each("claret_peer_messages_out"));
        links.into_iter().all(|(links, said)| said == 0 || links == 3)
    };
    for _ in 0..60 {
        if are_quick() {
            break;
        }
        let batch = store.batch();
        for key in keys.iter() {
            batch.counter(format!("{key}:sum")).add(1);
        }
        batch.commit().await.expect("committed");
        pause(500).await;
    }
    assert!(are_quick(), "{:?}", of_each("claret_peer_links_quick"));
    store.close().await.expect("it closes");
}

/// K9: the same store on nodes without a secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_secret_commits_go_in_two_rounds() {
    let _limit = crate::cluster::limit::of_test();
    commits_in_rounds(shared()).await;
}

/// K9: who has a secret for something else takes no chains with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_operator_says_so_commits_go_in_two_rounds() {
    let _limit = crate::cluster::limit::of_test();
    let (cluster, _secret) = with_secret(3, "no");
    commits_in_rounds(&cluster).await;
}

async fn commits_in_rounds(cluster: &Cluster) {
    let store = chained(cluster, TxOptions::new()).await;
    let keys = keys(cluster);
    for _ in 0..20 {
        let batch = store.batch();
        for key in &keys {
            batch.counter(key).add(1);
        }
        batch.commit().await.expect("committed");
    }
    for key in &keys {
        assert_eq!(store.counter(key).get().await, Ok(20));
    }
    assert_eq!(sum(cluster, "claret_peer_envelopes_out"), 0);
    store.close().await.expect("it closes");
}

/// K12 to K14: chains, two rounds and transactions that look, on the same accounts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_hold_where_all_kinds_meet() {
    let _limit = crate::cluster::limit::of_test();
    let (cluster, _secret) = with_secret(3, "yes");
    let locks = TxOptions::new().attempts(10_000).deadline(Duration::from_secs(60));
    let looks = locks.optimistic();
    let chains = chained(&cluster, locks).await;
    let rounds = Store::connect(cluster.url()).await.expect("a store");
    let prefix = crate::cluster::rig::prefix();
    let accounts: Vec<String> = (0..6).map(|at| cluster.key_at(at % 3, &format!("{prefix}{at}:"))).collect();
    for account in &accounts {
        rounds.counter(account).add(BALANCE).await.expect("set up");
    }
    let begin = |store: &Store, options: &TxOptions| {
        tokio::spawn(transfer(store.clone(), accounts.clone(), *options, 60))
    };
    let tasks: Vec<_> = (0..2)
        .flat_map(|_| [(&chains, &locks), (&chains, &looks), (&rounds, &locks), (&rounds, &looks)])
        .map(|(store, options)| begin(store, options))
        .collect();
    for task in tasks {
        assert!(task.await.expect("done") > 20);
        assert_eq!(total(&chains, &accounts).await, 6 * BALANCE);
    }
    assert_eq!(total(&rounds, &accounts).await, 6 * BALANCE);
    assert!(sum(&cluster, "claret_peer_envelopes_out") > 0, "some were chains");
    for store in [chains, rounds] {
        store.close().await.expect("it closes");
    }
}

/// P25 and K8: a node dies under load, and nothing stays locked or is done by half on the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_dies_and_the_others_find_out() {
    let _limit = crate::cluster::limit::of_test();
    let (mut cluster, _secret) = with_secret(4, "yes");
    let options = TxOptions::new().deadline(Duration::from_millis(800));
    let store = chained(&cluster, options).await;
    let keys = Arc::new(keys(&cluster));
    let stop = Arc::new(AtomicBool::new(false));
    let write = |writer: usize| {
        let (store, keys, stop) = (store.clone(), Arc::clone(&keys), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut done = Vec::new();
            for count in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let text = format!("{writer}:{count}");
                let batch = store.batch();
                for key in keys.iter() {
                    batch.set(key).add(&text);
                }
                match batch.commit().await {
                    Ok(_) => done.push(text),
                    Err(error) => assert!(is_for_a_dead_node(&error), "{error}"),
                }
            }
            done
        })
    };
    let writers: Vec<_> = (0..6).map(write).collect();
    pause(700).await;
    cluster.server_mut(1).kill();
    pause(1_500).await;
    stop.store(true, Ordering::Relaxed);
    let mut done = Vec::new();
    for writer in writers {
        done.extend(writer.await.expect("done"));
    }
    assert!(done.len() > 50, "{}", done.len());
    cluster.server_mut(1).restart().expect("it starts");
    cluster.wait_until_ok(Duration::from_secs(20)).expect("well");
    let open = |node: usize| number(&cluster, node, "claret_open_attempts");
    let began = Instant::now();
    while [0, 2, 3].iter().any(|node| open(*node) > 0) {
        assert!(began.elapsed() < Duration::from_secs(40), "{:?} are open", [0, 2, 3].map(open));
        pause(100).await;
    }
    // What was reported is there, and whatever is there is at all who live.
    let mut found: Vec<Vec<String>> = Vec::new();
    for node in [0, 2, 3] {
        let mut members: Vec<String> = store.set(&keys[node]).members().await.expect("read");
        members.sort_unstable();
        found.push(members);
    }
    assert!(
        found[0] == found[1] && found[1] == found[2],
        "{:?}",
        found.iter().map(Vec::len).collect::<Vec<_>>()
    );
    assert!(done.iter().all(|text| found[0].contains(text)), "what was reported is there");
    store.close().await.expect("it closes");
}

fn is_for_a_dead_node(error: &Error) -> bool {
    matches!(
        error,
        Error::Commit(CommitError::NoAnswer { .. })
            | Error::Unknown(_)
            | Error::Commit(CommitError::Deadline { .. } | CommitError::Attempts { .. })
    )
}
