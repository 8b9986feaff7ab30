//! Loads that once stopped a node, beside the same in plain commands: how long each takes, and how long a PING on another
//! connection waits meanwhile. What it prints depends on the machine; with a release build:
//!
//! ```text
//! cargo build --release -p claret-module
//! CLARET_MODULE=target/release/libclaret_module.so cargo run --release -p claret-module --example loads
//! ```

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use claret_core::message::{Request, Response};
use common::{Process, Server, wait_until};

/// How long something took, and how long another connection waited for a PING meanwhile at most.
fn beside_pings(server: &Server, work: impl FnOnce()) -> (Duration, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut connection, told) = (server.connect(), Arc::clone(&stop));
    let pings = thread::spawn(move || {
        let mut longest = Duration::ZERO;
        while !told.load(Ordering::Relaxed) {
            let began = Instant::now();
            redis::cmd("PING").query::<String>(&mut connection).expect("a PONG");
            longest = longest.max(began.elapsed());
        }
        longest
    });
    let began = Instant::now();
    work();
    let took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    (took, pings.join().expect("the pings"))
}

fn report(what: &str, claret: (Duration, Duration), plain: (Duration, Duration)) {
    let ratio = claret.0.as_secs_f64() / plain.0.as_secs_f64();
    println!(
        "{what}: {:?}, plain {:?}, ratio {ratio:.2}; PING waits {:?}, beside plain {:?}",
        claret.0, plain.0, claret.1, plain.1
    );
}

/// Commits, and asks until the vote is there.
fn commit(process: &mut Process, request: Request) {
    let mut answers = process.frame(&[request]);
    while answers.is_empty() {
        answers = process.frame(&[]);
    }
    assert!(matches!(answers[..], [Response::Committed { .. }]), "{answers:?}");
}

/// The same calls as a transaction of one shard and as plain commands in one pipeline.
fn compare(what: &str, calls: &[(String, String)]) {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 1);
    let claret = beside_pings(&server, || {
        let attempt = process.begin();
        let calls: Vec<(&str, &str)> = calls.iter().map(|(key, words)| (&key[..], &words[..])).collect();
        let request = process.prepare(attempt, &calls);
        commit(&mut process, request);
    });
    let mut connection = server.connect();
    let plain = beside_pings(&server, || {
        let mut pipe = redis::pipe();
        for (key, words) in calls {
            let mut words = words.split(' ');
            pipe.cmd(words.next().expect("a name"))
                .arg(format!("plain:{key}"))
                .arg(words.collect::<Vec<_>>())
                .ignore();
        }
        pipe.query::<()>(&mut connection).expect("plain commands");
    });
    report(what, claret, plain);
}

fn ten_thousand_adds_on_one_key() {
    let calls: Vec<_> = (0..10_000).map(|no| ("tags".to_owned(), format!("SADD m{no}"))).collect();
    compare("10,000 SADD on one key", &calls);
}

fn a_hundred_thousand_pushes_on_seven_lists() {
    let calls: Vec<_> = (0..100_000).map(|no| (format!("list{}", no % 7), "RPUSH v".to_owned())).collect();
    compare("100,000 void pushes on 7 lists", &calls);
}

fn forty_thousand_keys_read_with_one_held() {
    let server = Server::start(&[]);
    let keys: Vec<String> = (0..40_000).map(|no| format!("key{no}")).collect();
    let mget = |server: &Server| {
        let mut connection = server.connect();
        let keys = keys.clone();
        thread::spawn(move || {
            let got = redis::cmd("MGET").arg(keys).query::<Vec<Option<String>>>(&mut connection);
            assert_eq!(got.expect("all keys").len(), 40_000);
        })
    };
    let plain = beside_pings(&server, || mget(&server).join().expect("plain"));
    let mut process = Process::hello(&server, 1);
    let claret = beside_pings(&server, || {
        let attempt = process.begin();
        let held = process.execute(attempt, 0, "key0", "GETSET x");
        process.frame(&[held]);
        let reader = mget(&server);
        let mut watch = server.connect();
        wait_until("it waits", || {
            let info: String = redis::cmd("INFO").arg("claret").query(&mut watch).expect("numbers");
            info.contains("claret_plain_open:1")
        });
        process.frame(&[Request::Withdraw { attempt }]);
        reader.join().expect("it is let in");
    });
    report("MGET of 40,000 keys, one of them held for a while", claret, plain);
}

fn main() {
    ten_thousand_adds_on_one_key();
    a_hundred_thousand_pushes_on_seven_lists();
    forty_thousand_keys_read_with_one_held();
}
