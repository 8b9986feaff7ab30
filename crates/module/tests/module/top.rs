//! `CLARET.TOP`: what waits for what at a node, as an operator sees it and nobody else does.

use crate::common::beside::{Waits, commit, error, hold, number, ok, rig, run, vote};
use crate::common::{Process, Server, told, wait_until};
use claret_core::message::Response;
use redis::{Connection, Value};

fn top(connection: &mut Connection) -> Value {
    ok(connection, "CLARET.TOP")
}

fn int(answer: &Value, name: &str) -> i64 {
    let Value::Int(number) = told(answer, name) else { panic!("{name} is a number: {answer:?}") };
    *number
}

fn text(value: &Value) -> String {
    let Value::BulkString(bytes) = value else { panic!("a text, not {value:?}") };
    String::from_utf8(bytes.clone()).expect("ASCII")
}

fn items(value: &Value) -> &[Value] {
    let Value::Array(items) = value else { panic!("an array, not {value:?}") };
    items
}

/// The keys that are shown, in their order.
fn keys(answer: &Value) -> Vec<String> {
    items(told(answer, "keys")).iter().map(|key| text(told(key, "key"))).collect()
}

fn key<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let mut keys = items(told(answer, "keys")).iter();
    keys.find(|key| text(told(key, "key")) == name).unwrap_or_else(|| panic!("{name} is not in {answer:?}"))
}

/// Names and counts: modes and how many claims.
fn counts(value: &Value) -> Vec<(String, i64)> {
    let pair = |pair: &Value| match items(pair) {
        [name, Value::Int(count)] => (text(name), *count),
        other => panic!("a name and a count, not {other:?}"),
    };
    items(value).iter().map(pair).collect()
}

/// An operation that has to wait.
fn wait_for(process: &mut Process, key: &str, words: &str) -> claret_core::AttemptId {
    let attempt = process.begin();
    let execute = process.execute(attempt, 1, key, words);
    let answers = process.frame(&[execute]);
    assert!(matches!(answers[..], [Response::Queued { .. }]), "{answers:?}");
    attempt
}

/// Holds a key, and may hear of those who wait for others that it holds.
fn take(process: &mut Process, key: &str) {
    let attempt = process.begin();
    let execute = process.execute(attempt, 1, key, "GETSET a");
    let answers = process.frame(&[execute]);
    assert!(answers.iter().any(|it| matches!(it, Response::Granted { .. })), "{answers:?}");
}

#[test]
fn a_hot_key_is_shown_with_its_operations_modes_holder_and_waiters() {
    let (server, mut holder, mut plain) = rig();
    let mut other = Process::hello(&server, 8);
    let none = top(&mut plain);
    assert_eq!((int(&none, "held_keys"), keys(&none)), (0, vec![]));

    let held = hold(&mut holder, "hot", "GETSET a");
    hold(&mut holder, "cold", "GETSET a");
    let first = wait_for(&mut other, "hot", "GETSET b");
    wait_for(&mut other, "hot", "register:GET");
    let execs = Waits::on(&server, "CLARET.EXEC 2 GET hot");
    execs.still();
    let plain_command = Waits::on(&server, "GET hot");
    plain_command.still();

    let shown = top(&mut plain);
    assert_eq!(keys(&shown), ["hot"], "for the other one nobody had to wait");
    assert_eq!((int(&shown, "held_keys"), int(&shown, "looked_at"), int(&shown, "hidden")), (2, 2, 0));
    let hot = key(&shown, "hot");
    let [waiters, holders, joined, in_line] =
        ["waiters", "holders", "joined", "in_line"].map(|it| int(hot, it));
    assert_eq!((waiters, holders, joined, in_line), (4, 1, 0, 0));
    assert!(int(hot, "waited_us") > 0);
    assert_eq!(text(told(hot, "type")), "register");
    let waits: Vec<(String, i64, i64)> = items(told(hot, "waits"))
        .iter()
        .map(|it| match items(it) {
            [method, Value::Int(recent), Value::Int(total)] => (text(method), *recent, *total),
            other => panic!("a method with counts, not {other:?}"),
        })
        .collect();
    assert!(waits.contains(&("GETSET".to_owned(), 1, 1)), "{waits:?}");
    // Of a transaction, of CLARET.EXEC, and a plain one.
    assert!(waits.contains(&("GET".to_owned(), 3, 3)), "{waits:?}");
    assert_eq!(counts(told(hot, "held")).iter().map(|(_, count)| count).sum::<i64>(), 1);
    assert!(counts(told(hot, "wanted")).len() > 1, "readers and a writer wait: {hot:?}");

    // Who waits for whom, by the names that CLARET.RESOLVE takes, and whose they are.
    let behind = items(told(hot, "behind"));
    assert_eq!(behind.len(), 4);
    let of = |attempt: &str| behind.iter().find(|it| text(&items(it)[0]).starts_with(attempt));
    let waits = items(of(&format!("{first} open user=default client=")).expect("it waits"));
    assert_eq!(text(&waits[1]), "GETSET");
    assert!(text(&waits[2]).starts_with(&format!("{held} open user=default client=")), "{waits:?}");
    let locks: Vec<Vec<Value>> = redis::cmd("CLARET.LOCKS").arg("hot").query(&mut plain).expect("the locks");
    assert!(locks[0][1] == Value::Array(vec![waits[2].clone()]), "as CLARET.LOCKS shows it: {locks:?}");

    vote(&mut holder, held, 1);
    let shown = top(&mut plain);
    let voted = items(told(key(&shown, "hot"), "behind")).iter().map(|it| text(&items(it)[2]));
    assert!(voted.into_iter().all(|it| it.starts_with(&format!("{held} voted "))));
    ok(&mut plain, &format!("CLARET.RESOLVE {held} COMMIT"));
    let shown = top(&mut plain);
    assert_eq!(keys(&shown), ["hot"], "it was hot a moment ago");
}

#[test]
fn counters_are_those_of_info() {
    let (_server, mut process, mut plain) = rig();
    for _ in 0..3 {
        process.commit("a", "INCR");
    }
    let held = hold(&mut process, "b", "INCR.RETURNING");
    commit(&mut process, held, 1);
    let shown = top(&mut plain);
    let counters = told(&shown, "counters");
    for name in ["commits", "transactions", "operations", "frames", "requests", "waits", "aborts"] {
        assert_eq!(int(counters, name) as u64, number(&mut plain, name), "{name}");
    }
    assert_eq!((int(counters, "commits"), int(counters, "transactions")), (4, 4));
    assert_eq!(int(told(&shown, "gauges"), "sessions"), 1);
    let later = top(&mut plain);
    assert!(int(&later, "now_us") > int(&shown, "now_us"), "rates are by the node's clock");
}

#[test]
fn keys_are_shown_by_the_rule_of_claret_locks() {
    let (server, mut holder, mut plain) = rig();
    let mut other = Process::hello(&server, 8);
    for key in ["a:1", "b:1"] {
        take(&mut holder, key);
        wait_for(&mut other, key, "GETSET b");
    }
    assert_eq!(keys(&top(&mut plain)).len(), 2);
    ok(&mut plain, "ACL SETUSER al on >pw ~a:* +@all");
    ok(&mut plain, "ACL SETUSER noconfig on >pw ~* +@all -config");
    ok(&mut plain, "ACL SETUSER notype on >pw ~* +@all -type");
    let shown = top(&mut server.connect_as("al", "pw"));
    assert_eq!((keys(&shown), int(&shown, "hidden")), (vec!["a:1".to_owned()], 1));
    assert!(!format!("{shown:?}").contains("b:1"));
    let shown = top(&mut server.connect_as("notype", "pw"));
    assert_eq!((keys(&shown), int(&shown, "hidden")), (vec![], 2));
    let refused = error(&mut server.connect_as("noconfig", "pw"), "CLARET.TOP");
    assert!(refused.contains("users who may run CONFIG"), "{refused}");
}

#[test]
fn what_is_answered_has_a_bound() {
    let (server, mut holder, mut plain) = rig();
    let mut others: Vec<Process> = (8..10).map(|person| Process::hello(&server, person)).collect();
    for wrong in ["COUNT", "COUNT 0", "COUNT 129", "COUNT -1", "COUNT x", "K", "COUNT 1 2"] {
        assert!(error(&mut plain, &format!("CLARET.TOP {wrong}")).contains("usage"), "{wrong}");
    }
    // So many waits that the table of the counted is full, on keys that are hot by turns.
    for at in 0..300 {
        let key = format!("k{at}");
        take(&mut holder, &key);
        others.iter_mut().for_each(|other| _ = wait_for(other, &key, "GETSET b"));
    }
    let large = "l".repeat(1025);
    take(&mut holder, &large);
    wait_for(&mut others[0], &large, "GETSET b");
    for (words, most) in [("CLARET.TOP", 32), ("CLARET.TOP COUNT 1", 2), ("CLARET.TOP count 128", 256)] {
        let shown = ok(&mut plain, words);
        let keys = keys(&shown);
        assert!(keys.len() == most, "{words}: {} keys", keys.len());
        assert!(!keys.contains(&large));
        assert_eq!((int(&shown, "held_keys"), int(&shown, "looked_at") > 200), (301, true));
        // Somebody has waited longest for the first one, however many were hot since.
        assert!(words == "CLARET.TOP COUNT 1" || keys.contains(&"k0".to_owned()), "{keys:?}");
    }
    for at in 0..40 {
        wait_for(&mut others[at % 2], "k7", "GETSET b");
    }
    let shown = top(&mut plain);
    let hot = key(&shown, "k7");
    assert_eq!((keys(&shown)[0].as_str(), int(hot, "waiters")), ("k7", 42));
    assert_eq!(items(told(hot, "behind")).len(), 8);
}

#[test]
fn a_node_without_a_shard_says_so() {
    let server = Server::start(&["--cluster-enabled", "yes"]);
    let mut plain = server.connect();
    let why = "no transactions are served here, because this node serves no slots as a primary";
    let said = error(&mut plain, "CLARET.TOP");
    assert!(said.contains("NOTREADY") && said.contains(why), "{said}");
    assert!(info(&mut plain).contains(&format!("claret_state:{why}\r\nclaret_serving:0\r\n")));
    ok(&mut plain, "CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until("it serves", || run(&mut plain, "CLARET.TOP").is_ok());
}

fn info(connection: &mut Connection) -> String {
    redis::cmd("INFO").arg("claret").query(connection).expect("its numbers")
}

/// Bug: a node that refused all transactions was said to serve, by `INFO` and by `CLARET.TOP`.
#[test]
fn a_node_that_refuses_transactions_says_that_it_serves_none_and_why() {
    let server = Server::start(&[]);
    let mut plain = server.connect();
    let state = |plain: &mut Connection| text(told(&top(plain), "state"));
    assert_eq!(state(&mut plain), "ok");
    assert!(info(&mut plain).contains("claret_state:ok\r\nclaret_serving:1\r\n"));
    ok(&mut plain, "CONFIG SET claret.drain 1");
    let drained = "no transactions are served here, because it is drained";
    assert!(state(&mut plain).starts_with(drained), "{}", state(&mut plain));
    assert!(info(&mut plain).contains("claret_serving:0\r\n"));
    ok(&mut plain, "CONFIG SET claret.drain 0");
    assert_eq!(state(&mut plain), "ok");
    // The server refuses every command that may write.
    ok(&mut plain, "CONFIG SET min-replicas-to-write 1");
    assert!(error(&mut plain, "CLARET.EXEC 2 GET k").contains("good replicas"));
    let alone = "no transactions are served here, because the server takes no writes now: min-replicas-to-write is 1, and 0 replicas";
    assert!(state(&mut plain).starts_with(alone), "{}", state(&mut plain));
    assert!(info(&mut plain).contains("claret_serving:0\r\n"));
    ok(&mut plain, "CONFIG SET min-replicas-to-write 0");
    assert_eq!(state(&mut plain), "ok");
}
