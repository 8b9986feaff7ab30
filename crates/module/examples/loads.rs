//! Loads that once stopped a node, beside the same in plain commands: the processor time that each takes of the server's
//! thread, and how long a PING on another connection waits meanwhile. A transaction's effects are one step, so what it is
//! measured by is the same commands in a MULTI. What this prints depends on the machine; with a release build:
//!
//! ```text
//! cargo build --release -p claret-module
//! CLARET_MODULE=target/release/libclaret_module.so cargo run --release -p claret-module --example loads
//! ```

#[path = "../tests/module/common/mod.rs"]
mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use claret_core::message::{Request, Response, Seen};
use claret_core::{LookNo, wire};
use claret_types::Bytes;
use common::{Process, Server, operation, wait_until};

/// What something cost.
struct Cost {
    /// Processor time of the server's main thread.
    server: Duration,
    /// How long another connection waited for a PING at most.
    ping: Duration,
}

/// Processor time that the server's main thread has taken.
fn server_time(server: &Server) -> Duration {
    let info: String = redis::cmd("INFO").arg("cpu").query(&mut server.connect()).expect("numbers");
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("the server tells");
        Duration::from_secs_f64(line.trim().parse().expect("seconds"))
    };
    of("used_cpu_user_main_thread:") + of("used_cpu_sys_main_thread:")
}

/// Does some work while another connection sends one PING after the other.
fn beside_pings(server: &Server, work: impl FnOnce()) -> Cost {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut connection, told) = (server.connect(), Arc::clone(&stop));
    let before = server_time(server);
    let pings = thread::spawn(move || {
        let mut longest = Duration::ZERO;
        while !told.load(Ordering::Relaxed) {
            let began = Instant::now();
            redis::cmd("PING").query::<String>(&mut connection).expect("a PONG");
            longest = longest.max(began.elapsed());
            // Not to be what the server is busy with.
            thread::sleep(Duration::from_micros(200));
        }
        longest
    });
    work();
    let server = server_time(server) - before;
    stop.store(true, Ordering::Relaxed);
    Cost { server, ping: pings.join().expect("the pings") }
}

fn report(what: &str, claret: &Cost, plain: &Cost) {
    let ratio = claret.server.as_secs_f64() / plain.server.as_secs_f64();
    println!(
        "{what}: {:.1?} of the server's time, plain {:.1?}, ratio {ratio:.2}; PING waits {:.1?}, beside plain {:.1?}",
        claret.server, plain.server, claret.ping, plain.ping
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

/// So many bytes of frames a reader sends at once.
const READER_BYTES: usize = 64 << 10;

/// So often each of the two is done, in turns.
const ROUNDS: usize = 5;

/// The look for which a node had no time.
fn asked_again(said: &Response) -> Option<LookNo> {
    match said {
        Response::Looked { look, seen: Seen::Later } => Some(*look),
        Response::Looked { seen: Seen::Answer { .. }, .. } => None,
        other => panic!("{other:?}"),
    }
}

/// 64 KiB of frames of a session that looks at a record by one operation, beside the same commands in one plain pipeline: how long PINGs
/// wait at most, the median of some rounds. Looks for which there was no time are asked for again, as a client does, until each is answered.
fn looks_of(server: &Server, process: &mut Process, key: &str, words: &str) {
    let mut looks = Vec::new();
    while wire::encode_requests(&looks).len() < READER_BYTES {
        let some = (0..64).map(|_| {
            let look = LookNo(process.next);
            process.next += 1;
            let ops = [operation(words)].into_iter().collect();
            Request::Look { look, key: Bytes::from(key), ops, at_once: false }
        });
        looks.extend(some);
    }
    let mut connection = server.connect();
    let (mut of_claret, mut of_plain) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_claret.push(beside_pings(server, || {
            let mut left = looks.clone();
            while !left.is_empty() {
                let again: HashSet<LookNo> = process.frame(&left).iter().filter_map(asked_again).collect();
                left.retain(|request| matches!(request, Request::Look { look, .. } if again.contains(look)));
            }
        }));
        of_plain.push(beside_pings(server, || {
            let mut pipe = redis::pipe();
            for _ in &looks {
                let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
                pipe.cmd(name)
                    .arg(key)
                    .arg(rest.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
                pipe.ignore();
            }
            pipe.query::<()>(&mut connection).expect("plain commands");
        }));
    }
    let median = |costs: &mut Vec<Cost>| {
        costs.sort_by_key(|cost| cost.ping);
        costs.swap_remove(ROUNDS / 2)
    };
    let what = format!("{} looks by {words}", looks.len());
    report(&what, &median(&mut of_claret), &median(&mut of_plain));
}

fn readers() {
    let server = Server::start(&[]);
    let load = "for i=1,100000 do redis.call('SADD','set','m'..i) redis.call('RPUSH','list','m'..i) \
                redis.call('HSET','hash','f'..i,'v'..i) redis.call('ZADD','zset',i,'m'..i) end \
                redis.call('SETRANGE','string',20000000,'x') redis.call('SET','number',7)";
    redis::cmd("EVAL").arg(load).arg(0).query::<()>(&mut server.connect()).expect("records");
    let mut process = Process::hello(&server, 1);
    for (key, words) in [
        ("number", "GET"),
        ("string", "STRLEN"),
        ("set", "SCARD"),
        ("set", "SISMEMBER m50000"),
        ("list", "LINDEX 50000"),
        ("list", "LRANGE 0 99"),
        ("hash", "HGET f50000"),
        ("zset", "ZCOUNT 1 90000"),
        ("zset", "ZRANGE 0 99"),
        ("zset", "ZRANK m50000"),
    ] {
        looks_of(&server, &mut process, key, words);
    }
}

/// The same calls as a transaction of one shard, and as plain commands in one MULTI.
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
        pipe.atomic();
        for (key, words) in calls {
            let mut words = words.split(' ');
            pipe.cmd(words.next().expect("a name"))
                .arg(format!("plain:{key}"))
                .arg(words.collect::<Vec<_>>())
                .ignore();
        }
        pipe.query::<()>(&mut connection).expect("plain commands");
    });
    report(what, &claret, &plain);
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
    report("MGET of 40,000 keys, one of them held for a while", &claret, &plain);
}

fn main() {
    ten_thousand_adds_on_one_key();
    a_hundred_thousand_pushes_on_seven_lists();
    forty_thousand_keys_read_with_one_held();
    readers();
}
