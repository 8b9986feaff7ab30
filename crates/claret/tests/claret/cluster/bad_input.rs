//! Servers that are not what they should be: each error names the server and what to do, within the timeout.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use claret::{Error, Records, Store};
use claret::{cluster::ConnectError, errors::ExecuteError};
use claret_rig::Server;

use super::rig::{fresh, keys, prefix, shared};
use crate::faulty::{Faulty, FaultyOp};

const TIMEOUT: Duration = Duration::from_secs(2);

/// The error of connecting, which comes in time and names the node.
async fn refused(url: &str, node: &str) -> ConnectError {
    let began = Instant::now();
    let error = Store::cluster(url).connect_timeout(TIMEOUT).connect().await.expect_err("no store");
    assert!(began.elapsed() < TIMEOUT + Duration::from_secs(1), "{:?}: {error}", began.elapsed());
    assert!(error.to_string().contains(node), "{error}");
    error
}

/// A port at which connections are taken, and what comes over them is answered by this, if by anything.
fn answering(answer: impl Fn(&str, u16) -> Option<String> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.expect("a connection"), answer.clone());
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let asked = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    if let Some(said) = answer(&asked, port) {
                        stream.write_all(said.as_bytes()).expect("answered");
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_half_open_connection_is_given_up_in_time() {
    let _limit = super::limit::of_test();
    let port = answering(|_, _| None);
    let node = format!("127.0.0.1:{port}");
    let error = refused(&format!("redis://{node}"), &node).await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    // Beside a node that works it costs a part of the time only.
    let url = shared().url().replace("redis://", &format!("redis://{node},"));
    let store = Store::cluster(url).connect_timeout(TIMEOUT).connect().await.expect("a store");
    store.counter(prefix()).add(1).await.expect("counted");
}

#[tokio::test]
async fn a_server_that_greets_and_then_says_nothing_is_given_up_in_time() {
    let _limit = super::limit::of_test();
    let port = answering(|asked, _| asked.contains("HELLO").then(|| "%1\r\n+proto\r\n:3\r\n".to_owned()));
    let node = format!("127.0.0.1:{port}");
    let error = refused(&format!("redis://{node}"), &node).await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_module_of_another_version_is_named() {
    let _limit = super::limit::of_test();
    let port = answering(|asked, port| {
        Some(match () {
            () if asked.contains("CLARET.HELLO") => {
                "-WIREVERSION this module speaks version 99 and you speak 1; use matching ones\r\n".to_owned()
            }
            () if asked.contains("HELLO") => "%1\r\n+proto\r\n:3\r\n".to_owned(),
            () if asked.contains("SLOTS") => {
                format!(
                    "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$40\r\n{port:040x}\r\n"
                )
            }
            () if asked.contains("SSUBSCRIBE") => ">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n".to_owned(),
            () => "+OK\r\n".to_owned(),
        })
    });
    let node = format!("127.0.0.1:{port}");
    let error = refused(&format!("redis://{node}"), &node).await;
    assert!(matches!(error, ConnectError::OtherVersion { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("version 99") && text.contains("upgrade the older one"), "{text}");
}

#[tokio::test]
async fn what_is_no_redis_is_told() {
    let _limit = super::limit::of_test();
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n", "$-7\r\n", "*1000000000\r\n"] {
        let port = answering(move |_, _| Some(answer.to_owned()));
        let node = format!("127.0.0.1:{port}");
        refused(&format!("redis://{node}"), &node).await;
    }
}

#[tokio::test]
async fn a_stopped_and_a_dead_node_are_named_by_who_connects() {
    let _limit = super::limit::of_test();
    let mut cluster = fresh(3);
    let node = cluster.servers()[1].address();
    cluster.servers()[1].pause();
    let error = refused(&cluster.url(), &node).await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    cluster.servers()[1].resume();
    cluster.server_mut(1).kill();
    let error = refused(&cluster.url(), &node).await;
    assert!(error.to_string().contains("check that the server runs"), "{error}");
}

#[tokio::test]
async fn a_cluster_that_is_covered_in_part_says_which_slots_are_missing() {
    let _limit = super::limit::of_test();
    let module = claret_rig::Module::of_sources().expect("the module");
    let server = Server::options().module(module).config("cluster-enabled yes").start().expect("a server");
    server.query::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "99", "200", "16383"]).expect("its slots");
    let error = refused(&server.url(), "slots 100 to 199").await;
    assert!(matches!(error, ConnectError::Uncovered { .. }), "{error}");
    assert!(error.to_string().contains("--cluster fix"), "{error}");
}

#[tokio::test]
async fn another_database_and_what_is_no_url_are_refused_without_asking() {
    let _limit = super::limit::of_test();
    for (url, said) in [
        ("redis://127.0.0.1:1/3", "database 0 only"),
        ("redis://:secret@127.0.0.1:1/3", "database 0 only"),
        ("redis://127.0.0.1:99999", "port"),
        ("redis://127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:7000", "redis://"),
        ("", "redis://"),
        ("redis://", "address"),
        ("mysql://h", "neither redis nor rediss"),
        ("redis://h?grants=often", "neither push nor poll"),
        ("redis://nowhere.invalid", "nowhere.invalid:6379"),
    ] {
        let error = refused(url, said).await;
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

/// Transfers between all nodes while one of them stops for five seconds: each commits, or says clearly that it did not
/// or that nobody knows; no money comes or goes.
#[tokio::test]
async fn a_node_that_stops_for_five_seconds_leaves_nothing_half_applied() {
    let _limit = super::limit::of_test();
    let cluster = fresh(3);
    let store = Store::connect(cluster.url()).await.expect("a store");
    let keys = keys(&cluster);
    let until = Instant::now() + Duration::from_secs(7);
    let tasks: Vec<_> = (0..6)
        .map(|at| {
            let (store, from, to) = (store.clone(), keys[at % 3].clone(), keys[(at + 1) % 3].clone());
            tokio::spawn(async move {
                let (mut done, mut failed) = (0, 0);
                while Instant::now() < until {
                    let (from, to) = (from.clone(), to.clone());
                    let transfer = |tx: claret::Tx| {
                        let (from, to) = (from.clone(), to.clone());
                        async move {
                            tx.counter(&from).get().await?;
                            tx.counter(&from).add(-1)?;
                            tx.counter(&to).add(1)?;
                            Ok(())
                        }
                    };
                    match store.transaction(transfer).await {
                        Ok(()) => done += 1,
                        Err(error) => {
                            let is_clear = matches!(error, Error::Unknown(_)) || error.is_retryable();
                            assert!(is_clear, "{error}");
                            failed += 1;
                        }
                    }
                }
                (done, failed)
            })
        })
        .collect();
    // Transfers go on for a while before and during the stop; how many, is all the same.
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.servers()[1].pause();
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.servers()[1].resume();
    let (mut done, mut failed) = (0, 0);
    for task in tasks {
        let (more, fewer) = task.await.expect("no panic");
        (done, failed) = (done + more, failed + fewer);
    }
    println!("{done} transfers committed, {failed} did not or are unknown");
    assert!(done > 10, "{done}");
    let mut sum = 0;
    for key in &keys {
        sum += store.counter(key).get().await.expect("read");
    }
    assert_eq!(sum, 0);
    store.close().await.expect("it closes");
    for shard in 0..3 {
        let held = cluster.servers()[shard].info("claret", "claret_held_keys").expect("its numbers");
        assert_eq!(held.as_deref(), Some("0"), "locks are free");
    }
}

#[tokio::test]
async fn a_type_of_ones_own_is_an_error_that_names_the_type_and_the_nodes() {
    let store = Store::connect(shared().url()).await.expect("a store");
    let record = store.record::<Faulty>(prefix());
    for error in [
        record.issue(FaultyOp::Add(1)).await.expect_err("no such type"),
        record.run::<i64>(FaultyOp::Get).await.expect_err("no such type"),
    ] {
        assert!(
            matches!(error, Error::Execute(ExecuteError::Invalid { .. })) && !error.is_retryable(),
            "{error:?}"
        );
        let node = format!("127.0.0.1:{}", shared().servers()[0].port());
        for named in ["'faulty'", &node, "in_memory"] {
            assert!(error.to_string().contains(named), "{error} does not name {named}");
        }
    }
}
