//! What users and their sessions cost a node, and that the node is free of it when they are gone
//! (`docs/security.md`).

use crate::common::beside::{Waits, bulk, error, hold, number, ok};
use crate::common::{Process, Server, cluster, hello, wait_until};
use claret_core::message::{Bound, Refusal, Request, Response};
use claret_core::{Sequence, ShardId};
use redis::{Connection, Value};

/// How many sessions come and go.
const SESSIONS: u64 = 10_000;

/// What may be left of all of them, in bytes: tables that have grown, and what the server keeps of its clients.
const LEFT_BYTES: u64 = 2 << 20;

fn used_memory(connection: &mut Connection) -> u64 {
    let shown: String = redis::cmd("INFO").arg("memory").query(connection).expect("its numbers");
    let line = shown.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.expect("it is told").parse().expect("a number")
}

/// One that commits, asks, waits or holds, with this shard alone or with another, and goes with a goodbye or without.
fn comes_and_goes(server: &Server, person: u64) {
    let mut process = Process::over(server.connect(), person, 1, &[]);
    let (own, other) = ((process.shard, Some(process.incarnation)), (ShardId(9), None));
    match person % 5 {
        0 => drop(process.commit(&format!("k{}", person % 100), "SET x")),
        1 => drop(hold(&mut process, &format!("own{person}"), "GETSET x")),
        2 => {
            // It waits, or holds, and something was asked that never was.
            let attempt = process.begin();
            let execute = process.execute(attempt, 1, "hot", "GETSET x");
            let asked = (0..20).map(|_| Request::Ask { attempt: process.begin() }).collect::<Vec<_>>();
            process.frame(&[&[execute][..], &asked].concat());
        }
        3 => {
            // It has voted, and another one has not.
            let attempt = process.begin();
            let prepare =
                process.prepare_with(attempt, 0, &[(&format!("v{person}"), "SET x")], &[own, other]);
            process.frame(&[prepare]);
            process.frame(&[Request::Abort { attempt, refused_by: Some(ShardId(9)) }]);
        }
        _ => {
            process.commit("said", "INCR");
            process.frame(&[Request::Heartbeat { live: Vec::new(), low_water: Sequence(2) }]);
        }
    }
}

/// Bug: of every session that ever came something was kept for ever: its decisions, if it went without a word, and those of
/// others who asked about it. Consequence: a node grew until it died. Mend: what nobody can ask for is forgotten, and
/// of the rest the others are asked.
#[test]
fn a_node_is_as_large_as_before_when_all_sessions_are_gone() {
    let sessions = std::env::var("CLARET_SESSIONS").ok().and_then(|number| number.parse().ok());
    let sessions: u64 = sessions.unwrap_or(SESSIONS);
    let options = ["--claret.forget-ms", "200", "--claret.sessions-max", "1000000"];
    let server = Server::start(&[&options[..], &["--claret.user-sessions-max", "1000000"]].concat());
    let mut plain = server.connect();
    let round = |from: u64, count: u64| {
        let threads: u64 = 4;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let server = &server;
                scope.spawn(move || {
                    (from..from + count)
                        .filter(|it| it % threads == thread)
                        .for_each(|it| comes_and_goes(server, it));
                });
            }
        });
    };
    let settle = |plain: &mut Connection| {
        wait_until("all is forgotten", || {
            number(plain, "sessions") == 0
                && number(plain, "sessions_remembered") <= 1
                && number(plain, "kept_bytes") == 0
        });
        ok(plain, "FLUSHALL");
        (used_memory(plain), number(plain, "memory_bytes"))
    };
    // Tables that are used for the first time.
    round(0, 500);
    let before = settle(&mut plain);
    round(1_000, sessions);
    let most = (used_memory(&mut plain), number(&mut plain, "memory_bytes"));
    let after = settle(&mut plain);
    println!(
        "{sessions} sessions: used_memory and claret_memory_bytes {before:?}, {most:?} at their end, {after:?} after"
    );
    assert!(after.0 < before.0 + LEFT_BYTES, "{before:?} {after:?}");
    assert!(after.1 < before.1 + LEFT_BYTES / 2, "{before:?} {after:?}");
    assert_eq!((number(&mut plain, "open_attempts"), number(&mut plain, "held_keys")), (0, 0));
}

/// What was applied on two nodes one of them may be in doubt about: it is forgotten when both have said that they are not.
#[test]
fn what_was_applied_on_two_nodes_is_forgotten_on_both() {
    let servers = cluster(2, &["--claret.forget-ms", "100", "--claret.inquire-ms", "50"]);
    let mut plain: Vec<Connection> = servers.iter().map(Server::connect).collect();
    for person in 1..=30 {
        let mut both: Vec<Process> = servers.iter().map(|server| Process::hello(server, person)).collect();
        let attempt = both[0].begin();
        let listed: Vec<_> = both.iter().map(|it| (it.shard, Some(it.incarnation))).collect();
        for (process, key) in both.iter_mut().zip(["bar", "foo"]) {
            let prepare = process.prepare_with(attempt, 0, &[(key, "INCR")], &listed);
            let answers = process.frame(&[prepare]);
            assert!(matches!(answers[..], [Response::Voted { .. }]), "{answers:?}");
        }
        // Of some the last word is lost, and one node asks the other.
        let told = if person % 3 == 0 { 1 } else { 2 };
        both.iter_mut().take(told).for_each(|it| drop(it.frame(&[Request::Apply { attempt }])));
    }
    for plain in &mut plain {
        // A node that is still being asked remembers the session of which it is asked anew, for a moment.
        wait_until("all is forgotten", || {
            let kept = ["sessions_remembered", "in_doubt", "kept_bytes", "sessions_departed"];
            kept.into_iter().all(|name| number(plain, name) == 0)
        });
    }
    assert_eq!((ok(&mut plain[0], "GET bar"), ok(&mut plain[1], "GET foo")), (bulk("30"), bulk("30")));
}

/// Each is bounded by itself, and all of a user together.
#[test]
fn a_user_has_so_many_sessions_and_so_many_bytes_in_all_of_them() {
    let server = Server::start(&["--claret.lease-ms", "60000", "--claret.forget-ms", "50"]);
    let mut admin = server.connect();
    for user in ["al", "bo"] {
        ok(&mut admin, &format!("ACL SETUSER {user} on >pw ~* &* +@all"));
    }
    ok(&mut admin, "CONFIG SET claret.user-sessions-max 2");
    let come = |user: &str, person| Process::over(server.connect_as(user, "pw"), person, 1, &[]);
    let (mut one, mut two) = (come("al", 1), come("al", 2));
    let refused =
        format!("{:?}", hello(&mut server.connect_as("al", "pw"), 3, 1, &[]).expect_err("too many"));
    assert!(refused.contains("user has 2") && refused.contains("claret.user-sessions-max"), "{refused}");
    let mut other = come("bo", 4);
    ok(&mut admin, "CONFIG SET claret.sessions-max 3");
    let refused =
        format!("{:?}", hello(&mut server.connect_as("bo", "pw"), 5, 1, &[]).expect_err("too many"));
    assert!(refused.contains("claret.sessions-max"), "{refused}");
    ok(&mut admin, "CONFIG SET claret.sessions-max 10000");
    // Two sessions of one user share what they may have.
    ok(&mut admin, "CONFIG SET claret.user-bytes-max 1000000");
    let large = "x".repeat(300_000);
    let opens = |process: &mut Process, key: &str| {
        let attempt = process.begin();
        let execute = process.execute(attempt, 1, key, &format!("GETSET {large}"));
        match &process.frame(&[execute])[..] {
            [Response::Granted { .. }] => None,
            [Response::Refused { refusal, .. }] => Some(refusal.clone()),
            other => panic!("{other:?}"),
        }
    };
    // The bounds are taken over with the next look around.
    let mut keys = (0..).map(|key| format!("k{key}"));
    let mut refusal = None;
    while refusal.is_none() {
        refusal = opens(&mut one, &keys.next().expect("endless"));
    }
    let refusal = refusal.expect("too much");
    assert!(matches!(refusal, Refusal::TooMuch { bound: Bound::UserBytes, limit: 1_000_000 }), "{refusal}");
    assert!(refusal.to_string().contains("claret.user-bytes-max"), "{refusal}");
    assert_eq!(opens(&mut two, "t"), Some(refusal), "of the same user");
    assert_eq!(opens(&mut other, "o"), None, "of another one");
    // When one is gone there is room for the other, and for another session.
    drop(one);
    wait_until("it is forgotten", || number(&mut admin, "sessions") == 2);
    assert_eq!(opens(&mut two, "t"), None);
    drop(come("al", 6));
}

/// A bound on the calls of one transaction is that of all its messages, by CONFIG.
#[test]
fn a_transaction_has_so_many_operations() {
    let server = Server::start(&["--claret.calls-max", "3"]);
    let mut process = Process::hello(&server, 1);
    let attempt = process.begin();
    for no in 1..=3 {
        let execute = process.execute(attempt, no, "k", "INCR.RETURNING");
        assert!(matches!(process.frame(&[execute])[..], [Response::Granted { .. }]));
    }
    let execute = process.execute(attempt, 4, "k", "INCR.RETURNING");
    let answers = process.frame(&[execute]);
    let [Response::Refused { refusal, .. }] = &answers[..] else { panic!("{answers:?}") };
    assert!(
        refusal.to_string().contains("claret.calls-max") && refusal.to_string().contains('3'),
        "{refusal}"
    );
    let said = error(&mut server.connect(), &format!("CLARET.EXEC{}", " 2 INCR k".repeat(4)));
    assert!(said.contains("claret.calls-max"), "{said}");
}

/// Bug: a session that was forgotten and came back was taken for a new one, and a commit that it sent again was done twice.
#[test]
fn a_commit_of_a_session_that_was_forgotten_is_not_done_twice() {
    let server = Server::start(&["--claret.forget-ms", "50"]);
    let mut admin = server.connect();
    let mut process = Process::hello(&server, 1);
    let attempt = process.begin();
    let prepare = process.prepare(attempt, &[("k", "INCR")]);
    assert!(matches!(process.frame(std::slice::from_ref(&prepare))[..], [Response::Committed { .. }]));
    let before = process.incarnation;
    drop(process);
    wait_until("it is forgotten", || {
        number(&mut admin, "sessions") == 0 && number(&mut admin, "sessions_remembered") == 0
    });
    let mut again = Process::over(server.connect(), 1, 2, &[]);
    again.next = 2;
    assert!(again.incarnation > before);
    let answers = again.frame(&[prepare]);
    let is_lost =
        |it: &Response| matches!(it, Response::Refused { since, .. } if *since == again.incarnation);
    assert!(answers.iter().all(is_lost) && !answers.is_empty(), "{answers:?}");
    // Nor does it get by who does not say as what it knows the shard.
    let attempt = again.begin();
    let unnamed = again.prepare_with(attempt, 0, &[("k", "INCR")], &[(again.shard, None)]);
    let answers = again.frame(&[unnamed]);
    assert!(matches!(answers[..], [Response::Refused { refusal: Refusal::Unlisted, .. }]), "{answers:?}");
    assert_eq!(ok(&mut admin, "GET k"), bulk("1"));
    // Another connection of it is told the same.
    let welcome = hello(&mut server.connect(), 1, 3, &[]).expect("it may");
    assert_eq!(*crate::common::told(&welcome, "incarnation"), Value::Int(again.incarnation.0 as i64));
}

/// Bug: each try of a plain command that may not wait queued for its keys anew. Consequence: a script in a loop filled the
/// node. Mend: so many at a time, and of more the keys are not kept.
#[test]
fn keys_that_are_kept_for_commands_that_do_not_wait_are_bounded() {
    let server = Server::start(&["--claret.lease-ms", "60000", "--claret.reservations-max", "10"]);
    let mut process = Process::hello(&server, 7);
    let mut plain = server.connect();
    hold(&mut process, "k", "GETSET x");
    for _ in 0..50 {
        let refused = error(&mut plain, "EVAL return(redis.call('set','k','y')) 0");
        assert!(refused.to_uppercase().contains("TRYAGAIN"), "{refused}");
    }
    let waits = number(&mut plain, "plain_open");
    assert!((1..=10).contains(&waits), "{waits}");
    // Who waits is none of them.
    let waiting = Waits::on(&server, "SET k z");
    waiting.still();
    assert_eq!(number(&mut plain, "plain_open"), waits + 1);
}

/// Over what all outboxes may hold, each session has its share, and the rest is asked for again.
#[test]
fn what_waits_for_all_sessions_is_bounded() {
    let server = Server::start(&["--claret.lease-ms", "60000", "--claret.outboxes-bytes-max", "1048576"]);
    let mut plain = server.connect();
    ok(&mut plain, &format!("SET large {}", "x".repeat(100_000)));
    let mut writer = Process::hello(&server, 1);
    let held = hold(&mut writer, "large", &format!("GETSET {}", "y".repeat(100_000)));
    let mut readers: Vec<(Process, Vec<Request>)> = Vec::new();
    for person in 2..42 {
        let mut reader = Process::hello(&server, person);
        let reads = (0..3).map(|_| {
            let attempt = reader.begin();
            reader.execute(attempt, 1, "large", "register:GET")
        });
        let reads: Vec<Request> = reads.collect();
        let answers = reader.frame(&reads);
        assert!(answers.iter().all(|it| matches!(it, Response::Queued { .. })), "{answers:?}");
        readers.push((reader, reads));
    }
    crate::common::beside::commit(&mut writer, held, 1);
    // The latest of each stays, however large it is.
    let (bytes, dropped) = (number(&mut plain, "outbox_bytes"), number(&mut plain, "outbox_dropped"));
    assert!((4_000_000..5_500_000).contains(&bytes) && dropped > 60, "{bytes} {dropped}");
    for (reader, reads) in &mut readers {
        let answers = reader.frame(reads);
        let granted = |attempt| {
            answers.iter().any(|it| matches!(it, Response::Granted { attempt: it, .. } if *it == attempt))
        };
        for read in reads {
            let Request::Execute { attempt, .. } = read else { unreachable!("it is one") };
            assert!(granted(*attempt), "asked again, it is told again");
        }
    }
    assert_eq!(number(&mut plain, "outbox_bytes"), 0);
}
