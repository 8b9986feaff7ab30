//! Nodes that pose as others: a client signs nothing for a shard that the cluster has elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use claret::Store;
use claret::cluster::ConnectError;
use claret_rig::fake::{Fake, Say, slots, slots_of};

use super::hello::{hello, hello_of};
use crate::time::in_time;

const OTHER: u32 = 7;

fn proofs(fake: &Fake) -> usize {
    fake.heard().iter().filter(|line| line.contains(" PROOF ")).count()
}

/// Bug: a client signed the challenge of whatever shard a node spoke of. Consequence: a node that passed on the challenge
/// of another had a proof for that one. Mend: the shard is that of the node's id in the topology.
#[tokio::test]
async fn a_challenge_of_another_node_is_not_signed() {
    let fake = Fake::start(|asked| match asked.name.as_str() {
        "CLARET.HELLO" => hello(asked, OTHER),
        _ => Say::Usual,
    });
    let asked = || fake.heard().iter().filter(|line| line.starts_with("CLARET.HELLO")).count();
    let tries = async {
        while asked() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // Another topology would help: it tries again until its time is over.
    let builder = Store::cluster(fake.url()).connect_timeout(Duration::from_secs(600));
    in_time(async {
        tokio::select! {
            store = builder.connect() => panic!("{store:?}"),
            () = tries => {}
        }
    })
    .await;
    assert_eq!(proofs(&fake), 0);
}

/// It was reset, and has another id than the topology said that was asked for first.
#[tokio::test]
async fn a_node_that_has_another_id_by_now_is_spoken_to() {
    let asked_for_slots = AtomicU64::new(0);
    let fake = Fake::start(move |asked| match asked.name.as_str() {
        "CLARET.HELLO" => hello(asked, OTHER),
        "CLUSTER" => {
            let ranges = [(0, 16383, "127.0.0.1", i64::from(asked.port))];
            match asked_for_slots.fetch_add(1, Ordering::Relaxed) {
                0 => slots(&ranges),
                _ => slots_of(&ranges, |_| OTHER),
            }
        }
        _ => Say::Usual,
    });
    let builder = Store::cluster(fake.url()).connect_timeout(Duration::from_secs(20));
    let store = in_time(builder.connect()).await.expect("the topology is asked for again");
    assert_eq!(proofs(&fake), 1);
    drop(store);
}

/// A server that is no part of a cluster has no id to go by.
#[tokio::test]
async fn a_server_alone_is_whatever_shard_it_says() {
    let fake = Fake::start(|asked| match asked.name.as_str() {
        "CLARET.HELLO" => hello(asked, OTHER),
        "CLUSTER" => Say::Text("-ERR This instance has cluster support disabled\r\n".into()),
        _ => Say::Usual,
    });
    let store = in_time(Store::cluster(fake.url()).connect()).await.expect("connected");
    assert_eq!(proofs(&fake), 1);
    drop(store);
}

/// Bug: a node that is not ready, or does not serve the channel's slot yet, was given up for good: the store did not open.
/// Mend: both pass, and it is asked again.
#[tokio::test]
async fn a_node_that_is_not_ready_yet_is_greeted_again() {
    let greetings = AtomicU64::new(0);
    let fake = Fake::start(move |asked| match asked.name.as_str() {
        "CLARET.HELLO" => match greetings.fetch_add(1, Ordering::Relaxed) {
            0 => Say::Text("-NOTREADY this node serves no slots as a primary\r\n".into()),
            1 => Say::Text("-TRYAGAIN channel 'c' is of a slot that this node does not serve now\r\n".into()),
            _ => hello(asked, u32::from(asked.port)),
        },
        _ => Say::Usual,
    });
    let builder = Store::cluster(fake.url()).connect_timeout(Duration::from_secs(20));
    drop(in_time(builder.connect()).await.expect("it is ready in time"));
}

/// A transaction over both would promise neither.
#[tokio::test]
async fn nodes_that_differ_in_durability_are_refused() {
    let strict = Fake::start(|asked| match asked.name.as_str() {
        "CLARET.HELLO" => hello_of(asked, u32::from(asked.port), "strict"),
        _ => Say::Usual,
    });
    let other = i64::from(strict.port);
    let fake = Fake::start(move |asked| match asked.name.as_str() {
        "CLARET.HELLO" => hello(asked, u32::from(asked.port)),
        "CLUSTER" => slots(&[(0, 8191, "127.0.0.1", asked.port.into()), (8192, 16383, "127.0.0.1", other)]),
        _ => Say::Usual,
    });
    let builder = Store::cluster(fake.url()).connect_timeout(Duration::from_secs(20));
    let error = in_time(builder.connect()).await.expect_err("refused");
    assert!(matches!(error, ConnectError::MixedDurability { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("async") && text.contains("strict") && text.contains("the same on all nodes"),
        "{text}"
    );
}
