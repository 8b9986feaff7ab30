//! Frames, grants, pushes and polls on a real server.

use std::time::{Duration, Instant};

use crate::common::beside::{number, ok, rig};
use crate::common::{Process, Server, call, hello, operation, poll, session, wait_until};
use claret_core::message::{Refusal, Request, Response};
use claret_core::{ShardId, wire};
use claret_types::Reply;
use redis::{PushInfo, Value};

#[test]
fn a_transaction_of_one_shard_is_one_frame_and_writes_the_users_own_keys() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 7);
    let attempt = process.begin();
    let calls = [("tags", "SADD red blue"), ("hits", "INCRBY 3"), ("hits", "counter:GET"), ("tags", "SCARD")];
    let prepare = process.prepare(attempt, &calls);
    let answers = process.frame(std::slice::from_ref(&prepare));
    let [Response::Committed { replies, .. }] = &answers[..] else { panic!("{answers:?}") };
    let answer = |no: u32| replies.iter().find(|(call, _)| call.0 == no).map(|(_, reply)| reply);
    assert_eq!((answer(3), answer(4)), (Some(&Reply::Int(3)), Some(&Reply::Int(2))));
    let again = process.frame(&[prepare]);
    assert!(matches!(&again[..], [Response::Committed { .. }]), "a double is answered again: {again:?}");
    let mut plain = server.connect();
    let hits: i64 = redis::cmd("GET").arg("hits").query(&mut plain).expect("a string");
    let tags: usize = redis::cmd("SCARD").arg("tags").query(&mut plain).expect("a set");
    assert_eq!((hits, tags), (3, 2));
}

/// Votes of several transactions that add to one counter, and what decides them.
fn voted_to_add(process: &mut Process, key: &str, amounts: &[i64]) -> Vec<Request> {
    let listed = [(process.shard, Some(process.incarnation)), (ShardId(1), None)];
    let decide = |amount: &i64| {
        let attempt = process.begin();
        let prepare = process.prepare_with(attempt, 0, &[(key, &format!("INCRBY {amount}"))], &listed);
        let answers = process.frame(&[prepare]);
        assert!(matches!(answers[..], [Response::Voted { .. }]), "{answers:?}");
        Request::Apply { attempt }
    };
    amounts.iter().map(decide).collect()
}

/// How often a command ran.
fn runs(plain: &mut redis::Connection, command: &str) -> u64 {
    let all: String = redis::cmd("INFO").arg("commandstats").query(plain).expect("counts");
    let found = all.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    found.and_then(|rest| rest.split(',').next()).map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn what_a_frame_adds_to_one_counter_is_one_command() {
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let (mut process, mut plain) = (Process::hello(&server, 1), server.connect());
    let mut requests = voted_to_add(&mut process, "hits", &[1, 2, 3, -1]);
    let others = voted_to_add(&mut process, "misses", &[5, 5]);
    requests.extend(others);
    process.frame(&requests);
    assert_eq!(runs(&mut plain, "incrby"), 2, "one for each counter");
    let values: [i64; 2] = redis::cmd("MGET").arg(&["hits", "misses"]).query(&mut plain).expect("numbers");
    assert_eq!(values, [5, 10]);
}

/// Whoever looks at the counter in the same frame, or does something else to it, finds all that was added.
#[test]
fn nobody_sees_a_counter_without_what_the_same_frame_has_added() {
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let (mut process, mut plain) = (Process::hello(&server, 1), server.connect());
    let mut requests = voted_to_add(&mut process, "hits", &[1, 2]);
    for words in ["counter:GET", "APPEND 0", "INCRBY 4", "counter:GET", "EXPIRE 5000"] {
        let attempt = process.begin();
        requests.push(process.prepare(attempt, &[("hits", words)]));
    }
    let answers = process.frame(&requests);
    let read: Vec<&Reply> = answers
        .iter()
        .filter_map(|answer| match answer {
            Response::Committed { replies, .. } => replies.first().map(|(_, reply)| reply),
            _ => None,
        })
        .filter(|reply| **reply != Reply::Ok)
        .collect();
    assert_eq!(read, [&Reply::Int(3), &Reply::Int(34)], "{answers:?}");
    let value: i64 = redis::cmd("GET").arg("hits").query(&mut plain).expect("a number");
    let left: i64 = redis::cmd("TTL").arg("hits").query(&mut plain).expect("a time");
    assert!(value == 34 && left > 0, "{value}, {left} s");
}

/// What is decided is carried out, whatever happens behind it in the frame.
#[test]
fn what_is_added_is_there_after_a_panic() {
    let server = Server::start_with(&[("CLARET_PLANTED_PANIC", "planted")], &["--claret.lease-ms", "60000"]);
    let (mut process, mut plain) = (Process::hello(&server, 1), server.connect());
    let mut requests = voted_to_add(&mut process, "hits", &[1, 2]);
    let attempt = process.begin();
    requests.push(process.prepare(attempt, &[("planted", "INCR")]));
    assert!(process.try_frame(&requests).is_err(), "it panics");
    let value: i64 = redis::cmd("GET").arg("hits").query(&mut plain).expect("a number");
    assert_eq!(value, 3);
}

/// A client waits for its answer.
fn is_blocked(connection: &mut redis::Connection) -> bool {
    let shown: String = redis::cmd("INFO").arg("clients").query(connection).expect("its numbers");
    shown.contains("blocked_clients:1\r\n")
}

#[test]
fn who_waits_for_an_element_is_told_by_poll_when_it_is_granted() {
    let server = Server::start(&[]);
    let (mut one, mut two) = (Process::hello(&server, 1), Process::hello(&server, 2));
    let first = one.begin();
    let execute = one.execute(first, 1, "tags", "SADD.RETURNING red");
    assert!(matches!(&one.frame(&[execute])[..], [Response::Granted { reply: Reply::Int(1), .. }]));
    let other = two.begin();
    let elsewhere = two.execute(other, 1, "tags", "SADD.RETURNING blue");
    let granted = two.frame(&[elsewhere]);
    assert!(matches!(&granted[..], [Response::Granted { .. }]), "another element is free: {granted:?}");
    let second = two.execute(other, 2, "tags", "SISMEMBER red");
    assert!(matches!(&two.frame(&[second])[..], [Response::Queued { .. }]));
    let mut polling = server.connect();
    let waiting = std::thread::spawn(move || poll(&mut polling, 2, 5_000));
    wait_until("it waits", || is_blocked(&mut server.connect()));
    let prepare = one.prepare_with(first, 1, &[], &[(one.shard, Some(one.incarnation))]);
    assert!(matches!(&one.frame(&[prepare])[..], [Response::Committed { .. }]));
    let told = waiting.join().expect("it polled");
    assert!(matches!(&told[..], [Response::Granted { reply: Reply::Int(1), .. }]), "{told:?}");
}

#[test]
fn a_grant_is_pushed_on_the_connection_that_subscribed() {
    let server = Server::start(&[]);
    let mut one = Process::hello(&server, 1);
    let client =
        redis::Client::open(format!("redis://127.0.0.1:{}/?protocol=resp3", server.port)).expect("an url");
    let mut connection = client.get_connection().expect("it answers");
    connection.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let (sender, pushes) = std::sync::mpsc::channel::<PushInfo>();
    connection.set_push_sender(sender);
    connection
        .send_packed_command(&redis::cmd("SSUBSCRIBE").arg("claret:default:two").get_packed_command())
        .expect("sent");
    connection.recv_response().expect("subscribed");
    let mut two = Process::over(connection, 2, 1, &["PUSH", "claret:default:two"]);
    let first = one.begin();
    let execute = one.execute(first, 1, "k", "GETSET a");
    one.frame(&[execute]);
    let second = two.begin();
    let execute = two.execute(second, 1, "k", "register:GET");
    assert!(matches!(&two.frame(&[execute])[..], [Response::Queued { .. }]));
    one.frame(&[Request::Abort { attempt: first, refused_by: None }]);
    wait_until("the push", || {
        let () = redis::cmd("PING").query::<Value>(&mut two.connection).map(|_| ()).expect("pong");
        pushes.try_iter().any(|push| {
            let Some(Value::BulkString(bytes)) = push.data.last() else { return false };
            let told = wire::decode_responses(bytes).unwrap_or_default();
            matches!(&told[..], [Response::Granted { reply: Reply::Nil, .. }])
        })
    });
}

#[test]
fn a_hello_binds_session_user_and_version() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 9);
    let mut other = server.connect();
    let refused = |result: redis::RedisResult<Value>| result.expect_err("refused").to_string();
    let frame = redis::cmd("CLARET.FRAME").arg("").query(&mut other);
    assert!(refused(frame).contains("NOSESSION"));
    let version = redis::cmd("CLARET.HELLO").arg(999).arg(9).arg(1).query(&mut other);
    assert!(refused(version).contains("WIREVERSION"));
    // As clients of the version before said it.
    let version = redis::cmd("CLARET.HELLO").arg(&["3", "9", "1", "POLL"]).query(&mut other);
    let own = wire::VERSION;
    assert!(refused(version).contains(&format!("speaks version {own} and you speak 3")));
    assert!(refused(hello(&mut other, 9, 0, &[])).contains("NOSESSION"));
    let mut admin = server.connect();
    let () = redis::cmd("ACL")
        .arg(&["SETUSER", "eve", "on", ">pw", "~*", "&*", "+@all"])
        .query(&mut admin)
        .expect("a user");
    let mut eve = server.connect_as("eve", "pw");
    assert!(refused(hello(&mut eve, 9, 2, &[])).contains("another user"));
    let mut listening = server.connect_as("eve", "pw");
    assert!(refused(hello(&mut listening, 9, 2, &["LISTEN"])).contains("another user"));
    let polled = redis::cmd("CLARET.POLL").arg(session(9).0).arg(0).query(&mut eve);
    assert!(refused(polled).contains("NOSESSION"));
    let mut stranger = Process::hello(&server, 10);
    let foreign = process.begin();
    let prepare = stranger.prepare(foreign, &[("k", "INCR")]);
    assert!(stranger.try_frame(&[prepare]).expect_err("foreign").to_string().contains("another session"));
    let garbage = redis::cmd("CLARET.FRAME").arg(&b"\xff\xff\xff"[..]).query(&mut process.connection);
    assert!(refused(garbage).contains("of the frame cannot be read"));
    let () = redis::cmd("MULTI").query(&mut process.connection).expect("it begins");
    let _: Value = redis::cmd("CLARET.FRAME").arg("").query(&mut process.connection).expect("queued");
    let all = redis::cmd("EXEC").query::<Value>(&mut process.connection);
    assert!(format!("{all:?}").contains("cannot be part of MULTI"), "{all:?}");
}

#[test]
fn what_a_dead_client_held_is_free_at_once_and_not_after_a_lease() {
    let server = Server::start(&[]);
    let (mut one, mut two) = (Process::hello(&server, 1), Process::hello(&server, 2));
    let first = one.begin();
    let execute = one.execute(first, 1, "k", "GETSET a");
    one.frame(&[execute]);
    let second = two.begin();
    let execute = two.execute(second, 1, "k", "register:GET");
    assert!(matches!(&two.frame(&[execute])[..], [Response::Queued { .. }]));
    let died = Instant::now();
    drop(one);
    let mut polling = server.connect();
    let told = poll(&mut polling, 2, 5_000);
    assert!(matches!(&told[..], [Response::Granted { reply: Reply::Nil, .. }]), "{told:?}");
    assert!(died.elapsed() < Duration::from_secs(1), "the lease is ten seconds");
}

#[test]
fn a_poll_ends_with_its_time_and_a_newer_one_ends_it() {
    let server = Server::start(&[]);
    let _process = Process::hello(&server, 5);
    let mut polling = server.connect();
    let began = Instant::now();
    assert!(poll(&mut server.connect(), 5, 80).is_empty());
    assert!(began.elapsed() >= Duration::from_millis(79));
    let older = std::thread::spawn(move || poll(&mut polling, 5, 5_000));
    wait_until("it waits", || is_blocked(&mut server.connect()));
    assert!(poll(&mut server.connect(), 5, 50).is_empty());
    assert!(older.join().expect("it ended").is_empty());
    assert!(began.elapsed() < Duration::from_secs(4), "the older one did not wait to its end");
}

#[test]
fn an_operation_on_the_wrong_type_is_refused_and_nothing_is_done() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 3);
    let mut plain = server.connect();
    let () = redis::cmd("RPUSH").arg("list").arg("a").query(&mut plain).expect("a list");
    let attempt = process.begin();
    let prepare = process.prepare(attempt, &[("hits", "INCR"), ("list", "SADD x")]);
    let answers = process.frame(&[prepare]);
    let [Response::Refused { refusal: Refusal::Operation { error, .. }, .. }] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    let hits: Option<i64> = redis::cmd("GET").arg("hits").query(&mut plain).expect("a string");
    assert_eq!(hits, None);
}

/// The connection of a poll closes while it waits: the server frees what it kept for it, which is a client's worth of memory,
/// and the next poll is served.
#[test]
fn a_poll_whose_connection_closed_is_let_go() {
    const POLLS: usize = 100;
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let (mut one, mut two) = (Process::hello(&server, 1), Process::hello(&server, 2));
    let (mut plain, mut other) = (server.connect(), server.connect());
    let mut number = |section: &str, field: &str| -> usize {
        let info: String = redis::cmd("INFO").arg(section).query(&mut plain).expect("how it stands");
        let line = info.lines().find_map(|line| line.strip_prefix(field));
        line.expect("a number").trim().parse().expect("a number")
    };
    let mut used = 0;
    for polls in 0..=POLLS {
        let mut goes = server.connect();
        crate::common::hello(&mut goes, 2, 1, &["LISTEN"]).expect("it may listen");
        let id: i64 = redis::cmd("CLIENT").arg("ID").query(&mut goes).expect("its number");
        let waits = std::thread::spawn(move || {
            let session = crate::common::session(2).0;
            redis::cmd("CLARET.POLL").arg(session).arg(60_000).query::<Vec<u8>>(&mut goes)
        });
        crate::common::wait_until("it waits", || number("clients", "blocked_clients:") == 1);
        let () =
            redis::cmd("CLIENT").arg(&["KILL", "ID", &id.to_string()]).query(&mut other).expect("killed");
        assert!(waits.join().expect("no panic").is_err());
        crate::common::wait_until("it is gone", || number("clients", "blocked_clients:") == 0);
        if polls == 0 {
            used = number("memory", "used_memory:");
        }
    }
    let grown = number("memory", "used_memory:").saturating_sub(used);
    assert!(grown < POLLS * 1_000, "{grown} bytes are kept of {POLLS} polls");
    let first = one.begin();
    let execute = one.execute(first, 1, "k", "GETSET a");
    one.frame(&[execute]);
    let second = two.begin();
    let execute = two.execute(second, 1, "k", "register:GET");
    assert!(matches!(&two.frame(&[execute])[..], [Response::Queued { .. }]));
    drop(one);
    let told = poll(&mut server.connect(), 2, 5_000);
    assert!(matches!(&told[..], [Response::Granted { .. }]), "{told:?}");
}

/// P91: whoever puts something in past the transactions wakes a call that sleeps, without anybody asking again.
#[test]
fn a_plain_push_wakes_a_call_that_sleeps() {
    let (server, mut process, mut plain) = rig();
    let attempt = process.begin();
    let Request::Execute { birth, incarnation, key, .. } = process.execute(attempt, 1, "queue", "LPOP")
    else {
        unreachable!("it is an execute")
    };
    let calls = [call(1, operation("LPOP").waiting())].into_iter().collect();
    let execute = Request::Execute { attempt, birth, incarnation, key, calls, undone: Default::default() };
    let told = process.frame(&[execute]);
    assert!(
        told.iter().all(|it| !matches!(it, Response::Granted { .. } | Response::Refused { .. })),
        "{told:?}"
    );
    assert_eq!(number(&mut plain, "sleeping_calls"), 1);
    ok(&mut plain, "RPUSH queue x");
    let told = poll(&mut server.connect(), 7, 10_000);
    let woken = |it: &Response| matches!(it, Response::Granted { reply: Reply::Bytes(value), .. } if &value[..] == b"x");
    assert!(told.iter().any(woken), "{told:?}");
}
