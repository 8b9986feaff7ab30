//! Ordered calls at real nodes (P73 to P88): who waits for the clocks of others, and for how long at most; what is ordered at all.

use std::process::Command;

use crate::common::beside::{Waits, bulk, error, ok};
use crate::common::{Process, Server, cluster, wait_until};
use claret_core::message::{Asks, Refusal, Request, Response};
use claret_core::{AttemptId, CallNo, Timestamp};
use claret_types::Reply;
use redis::Value;

/// A key of the first of two nodes: slot 5061. So are those with its name in braces.
const HERE: &str = "bar";
/// A key of the second: slot 12182.
const THERE: &str = "foo";

/// Two nodes that order every call. `skew_ms`: what their clocks may be apart, and so how long a silent one is waited for.
fn nodes(skew_ms: &str) -> Vec<Server> {
    let options = ["--claret.ordering", "2", "--claret.clock-skew-ms", skew_ms];
    let patient = ["--cluster-node-timeout", "60000", "--claret.plain-wait-ms", "60000"];
    cluster(2, &[&options[..], &patient].concat())
}

/// A process with a connection to each of two nodes.
fn both(servers: &[Server], person: u64) -> (Process, Process) {
    (Process::hello(&servers[0], person), Process::hello(&servers[1], person))
}

/// The prepare, asking for a place.
fn stamped(mut prepare: Request) -> Request {
    let Request::Prepare { asks, .. } = &mut prepare else { unreachable!("it is one") };
    *asks = Asks::Place(Timestamp::default());
    prepare
}

/// What this process answers to a prepare with both nodes, of one call on one key.
fn votes(process: &mut Process, other: &Process, attempt: AttemptId, call: (&str, &str)) -> Vec<Response> {
    let participants = [(process.shard, Some(process.incarnation)), (other.shard, Some(other.incarnation))];
    let prepare = process.prepare_with(attempt, 0, &[call], &participants);
    process.frame(&[stamped(prepare)])
}

fn placed_at(answers: &[Response]) -> Timestamp {
    let at = answers.iter().find_map(|answer| match answer {
        Response::Placed { at, .. } | Response::Done { at, .. } => Some(*at),
        _ => None,
    });
    at.unwrap_or_else(|| panic!("it has a place: {answers:?}"))
}

/// A transaction of one call on one key, which is carried out at once.
fn commit(process: &mut Process, call: (&str, &str)) -> Timestamp {
    let attempt = process.begin();
    let prepare = stamped(process.prepare(attempt, &[call]));
    let answers = process.frame(&[prepare]);
    assert!(answers.iter().any(|answer| matches!(answer, Response::Done { .. })), "{answers:?}");
    placed_at(&answers)
}

/// Stops a node in its tracks, and lets it go on.
fn signal(server: &Server, name: &str) {
    let status = Command::new("kill").args([name, &server.pid().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// What was ordered on a key is not settled while another node has not said that it is past it: whoever would tell of it waits,
/// or is sent away where it cannot wait. Other keys are free.
#[test]
fn trap_32_a_plain_command_tells_of_what_is_not_settled() {
    let servers = nodes("60000");
    let mut here = Process::hello(&servers[0], 1);
    let mut plain = servers[0].connect();
    ok(&mut plain, "MSET bar{bar}2 free {bar}free free");
    signal(&servers[1], "-STOP");
    commit(&mut here, (HERE, "SET v"));
    let waiting = ["GET bar", "MGET bar bar{bar}2", "APPEND bar w", "CLARET.EXEC 2 GET bar"];
    let waiting = waiting.map(|line| Waits::on(&servers[0], line));
    for waits in &waiting {
        waits.still();
    }
    assert_eq!(ok(&mut plain, "GET {bar}free"), bulk("free"));
    // One that does not say which keys it uses.
    let script = redis::cmd("EVAL").arg("return redis.call('GET', 'bar')").arg(0).to_owned();
    let in_script = script.query::<Value>(&mut plain).expect_err("a script cannot wait").to_string();
    assert!(in_script.to_uppercase().contains("TRYAGAIN"), "{in_script}");
    ok(&mut plain, "MULTI");
    ok(&mut plain, &format!("GET {HERE}"));
    let in_exec = error(&mut plain, "EXEC");
    assert!(in_exec.to_uppercase().contains("EXECABORT"), "{in_exec}");
    signal(&servers[1], "-CONT");
    let answers: Vec<Value> = waiting.iter().map(Waits::answer).collect();
    let is_value = |value: &Value| *value == bulk("v") || *value == bulk("vw");
    assert!(is_value(&answers[0]), "{answers:?}");
    assert!(matches!(&answers[1], Value::Array(both) if is_value(&both[0]) && both[1] == bulk("free")));
    assert_eq!(answers[2], Value::Int(2));
}

/// A node that says nothing is not waited for longer than clocks can be apart.
#[test]
fn a_silent_node_keeps_nobody_waiting_for_ever() {
    let servers = nodes("300");
    let mut here = Process::hello(&servers[0], 1);
    signal(&servers[1], "-STOP");
    commit(&mut here, (HERE, "SET v"));
    let answers = ["GET bar", "CLARET.EXEC 2 GET bar"].map(|line| Waits::on(&servers[0], line).answer());
    assert_eq!(answers, [bulk("v"), Value::Array(vec![bulk("v")])]);
    signal(&servers[1], "-CONT");
}

/// Who has voted comes before a flush: it is carried out on what was there, and nothing of it is left. Whoever comes later is
/// behind it.
#[test]
fn a_flush_comes_after_who_has_voted() {
    let servers = nodes("1000");
    let (mut here, mut there) = both(&servers, 1);
    let mut plain = servers[0].connect();
    ok(&mut plain, "SADD bar a b");
    let attempt = here.begin();
    let voted = placed_at(&votes(&mut here, &there, attempt, (HERE, "SADD.RETURNING a")));
    let at = placed_at(&votes(&mut there, &here, attempt, (THERE, "SET w"))).max(voted);
    ok(&mut plain, "FLUSHALL");
    let second = here.begin();
    let waits = votes(&mut here, &there, second, (HERE, "SCARD"));
    assert!(matches!(&waits[..], [Response::Queued { .. }, ..]), "{waits:?}");
    let mut told = here.frame(&[Request::ApplyAt { attempt, at }]);
    wait_until("the next one has its turn", || {
        told.extend(here.frame(&[]));
        told.iter().any(|response| matches!(response, Response::Placed { .. }))
    });
    let done = told.iter().find_map(|response| match response {
        Response::Done { attempt: done, replies, .. } if *done == attempt => replies.clone(),
        _ => None,
    });
    assert_eq!(done, Some(vec![(CallNo(1), Reply::Int(0))]), "it finds what was there");
    let next = told.iter().find(|response| matches!(response, Response::Placed { .. }));
    assert!(placed_at(next.map(std::slice::from_ref).unwrap_or_default()) > voted);
    here.frame(&[Request::Abort { attempt: second, refused_by: Some(there.shard) }]);
    assert_eq!(ok(&mut plain, "EXISTS bar"), Value::Int(0), "nothing of it is left");
}

/// What conflicts on an ordered record votes at once; where a record expires, or the server may throw it away, it locks.
#[test]
fn what_may_vanish_by_itself_is_locked() {
    let servers = nodes("1000");
    let (mut here, there) = both(&servers, 1);
    let second_votes = |here: &mut Process, what: &str, is_ordered: bool| {
        let attempts = [here.begin(), here.begin()];
        let answers = attempts.map(|attempt| votes(here, &there, attempt, (HERE, "SET v")));
        let is_placed = matches!(&answers[1][..], [Response::Placed { .. }]);
        let is_queued = matches!(&answers[1][..], [Response::Queued { .. }, ..]);
        assert!(is_placed == is_ordered && is_queued != is_ordered, "{what}: {answers:?}");
        for attempt in attempts {
            here.frame(&[Request::Abort { attempt, refused_by: Some(there.shard) }]);
        }
    };
    let mut plain = servers[0].connect();
    second_votes(&mut here, "an absent key", true);
    ok(&mut plain, "SET bar 1 EX 1000");
    second_votes(&mut here, "a key that expires", false);
    ok(&mut plain, "DEL bar");
    ok(&mut plain, "CONFIG SET maxmemory 1gb maxmemory-policy allkeys-lru");
    wait_until("the node knows", || {
        let attempts = [here.begin(), here.begin()];
        let answers = attempts.map(|attempt| votes(&mut here, &there, attempt, (HERE, "SET v")));
        for attempt in attempts {
            here.frame(&[Request::Abort { attempt, refused_by: Some(there.shard) }]);
        }
        matches!(&answers[1][..], [Response::Queued { .. }, ..])
    });
}

/// The switch says which records of a node are ordered, from the next transaction on.
#[test]
fn the_switch_takes_effect_while_the_node_runs() {
    let servers = nodes("1000");
    let mut here = Process::hello(&servers[0], 1);
    let mut plain = servers[0].connect();
    let unstamped = |here: &mut Process| here.commit(HERE, "SET v");
    let is_refused =
        |answers: &[Response]| matches!(answers, [Response::Refused { refusal: Refusal::Unstamped, .. }]);
    let answers = unstamped(&mut here);
    assert!(is_refused(&answers), "{answers:?}");
    commit(&mut here, (HERE, "SET v"));
    ok(&mut plain, "CONFIG SET claret.ordering 0");
    let mut last = Vec::new();
    wait_until("what was ordered is settled", || {
        ok(&mut plain, "GET bar");
        last = unstamped(&mut here);
        matches!(&last[..], [Response::Committed { .. }])
    });
    ok(&mut plain, "CONFIG SET claret.ordering 2");
    wait_until("every call is ordered again", || is_refused(&unstamped(&mut here)));
    commit(&mut here, (HERE, "SET v"));
}

/// A slot moves with keys on which calls were ordered just before: its node waits for the others' clocks, and the node that gets
/// them does not, since the first one is at work until it has.
#[test]
fn a_slot_moves_with_what_was_ordered_in_it() {
    let servers = nodes("1000");
    let mut here = Process::hello(&servers[0], 1);
    let mut connections = [servers[0].connect(), servers[1].connect()];
    let ids = connections.each_mut().map(|connection| match ok(connection, "CLUSTER MYID") {
        Value::BulkString(id) => String::from_utf8(id).expect("a text"),
        other => panic!("no id: {other:?}"),
    });
    let [first, second] = &mut connections;
    ok(second, &format!("CLUSTER SETSLOT 5061 IMPORTING {}", ids[0]));
    let keys = ["bar", "{bar}1", "{bar}2"];
    for key in keys {
        commit(&mut here, (key, "SET v"));
    }
    ok(first, &format!("CLUSTER SETSLOT 5061 MIGRATING {}", ids[1]));
    let port = servers[1].port.to_string();
    let moved = Waits::on(&servers[0], &format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {}", keys.join(" ")));
    assert_eq!(moved.answer(), Value::Okay);
    ok(second, &format!("CLUSTER SETSLOT 5061 NODE {}", ids[1]));
    ok(first, &format!("CLUSTER SETSLOT 5061 NODE {}", ids[1]));
    assert_eq!(Waits::on(&servers[1], "GET bar").answer(), bulk("v"));
}
