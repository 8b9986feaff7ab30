//! What reaches replicas and the append-only file: plain commands, all of one entry in one MULTI.

use crate::common::{Process, Server, wait_until};
use claret_core::ShardId;
use claret_core::message::{Request, Response};
use claret_types::{Access, BUILTIN, Unique, builtin_examples};
use redis::Connection;

/// One transaction with an operation of every kind that adds.
const CALLS: &[(&str, &str)] = &[
    ("hits", "INCRBY 3"),
    ("price", "INCRBYFLOAT 0.1"),
    ("name", "SET ada"),
    ("name", "APPEND !"),
    ("tags", "SADD red blue"),
    ("user", "HSET name ada visits 1"),
    ("user", "HINCRBY visits 2"),
    ("seats", "BCREATE 5 0 10"),
    ("seats", "BDECRBY 2"),
    ("ring", "BCREATE 12 10 100"),
    ("ring", "BDECRBY.WRAP 5"),
    ("bids", "TOPK.ADD 2 1.5 ann"),
    ("bids", "TOPK.ADD 2 2.5 bob"),
    ("bids", "TOPK.ADD 2 3.5 cy"),
    ("board", "ZADD 1 a 2 b"),
    ("board", "ZINCRBY 5 a"),
    ("rating", "BAG.ADD 4"),
    ("queue", "RPUSH a b c"),
    ("queue", "LPOP"),
    ("ids", "UID.NEXT"),
    ("gone", "SET x"),
    ("absent", "SETNX y"),
    ("less", "DECRBY 3"),
    ("front", "LPUSH a b"),
    ("copy", "RECORD.PUT set a b"),
    ("seats", "BRESIZE 0 20"),
    ("user", "EXPIRE 5000"),
    ("board", "PEXPIRE 5000000"),
    ("tags", "PEXPIREAT 4102444800000"),
    ("soon", "SETEX 5000 v"),
    ("soon", "PSETEX 5000000 v"),
    ("late", "PSETEXAT 4102444800000 v"),
    ("doc", "JSON.SET $ {\"a\":{\"b\":1,\"c\":2},\"s\":\"x\",\"l\":[]}"),
    ("doc", "JSON.NUMINCRBY $.a.b 2"),
    ("doc", "JSON.STRAPPEND $.s \"y\""),
    ("doc", "JSON.ARRAPPEND $.l 1 2"),
];

/// And one, after it, with every operation that takes away.
const REMOVALS: &[(&str, &str)] = &[
    ("hits", "DECR"),
    ("hits", "INCR"),
    ("hits", "INCR"),
    ("tags", "SREM red"),
    ("user", "HDEL name"),
    ("seats", "BINCRBY 1"),
    ("board", "ZREM b"),
    ("queue", "RPOP"),
    ("front", "LPOP"),
    ("name", "GETSET grace"),
    ("gone", "DEL"),
    ("user", "PERSIST"),
    ("board", "PERSIST"),
    ("soon", "DEL.RETURNING"),
    ("doc", "JSON.MERGE $ {\"a\":{\"b\":null},\"n\":{}}"),
    ("doc", "JSON.DEL $.a.c"),
];

/// And one more: on a record of its own for each type that is not among them, its examples that write.
fn added() -> Vec<(String, String)> {
    let tried =
        |name: &str| CALLS.iter().chain(REMOVALS).any(|(_, words)| words.split(' ').next() == Some(name));
    let mut calls = Vec::new();
    for (kind, operations) in builtin_examples() {
        if kind.methods.iter().any(|method| tried(method.name.trim_end_matches(".RETURNING"))) {
            continue;
        }
        let mut state = None;
        for op in operations.iter().filter(|op| op.method().access == Access::Write) {
            let Ok(executed) = op.execute(state.as_ref(), Unique(1)) else { continue };
            executed.effect.into_iter().for_each(|effect| drop(effect.apply(&mut state)));
            let words = op
                .arguments()
                .iter()
                .fold(op.method().name.to_owned(), |words, word| format!("{words} {word}"));
            calls.push((format!("added:{}", kind.name), words));
        }
    }
    calls
}

/// Everything there is, as bytes that do not depend on order.
fn content(connection: &mut Connection) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).expect("the keys");
    keys.sort();
    let mut shown = Vec::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query(connection).expect("its type");
        let command = match kind.as_str() {
            "string" => redis::cmd("MGET").arg(&key).to_owned(),
            "set" => redis::cmd("SMEMBERS").arg(&key).to_owned(),
            "hash" => redis::cmd("HGETALL").arg(&key).to_owned(),
            "zset" => redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").to_owned(),
            "list" => redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).to_owned(),
            other => panic!("a {other}"),
        };
        let mut parts: Vec<String> = command.query(connection).expect("its value");
        match kind.as_str() {
            "set" => parts.sort(),
            "hash" => {
                let mut pairs: Vec<String> = parts.chunks(2).map(|pair| pair.join("=")).collect();
                pairs.sort();
                parts = pairs;
            }
            _ => {}
        }
        let until: i64 = redis::cmd("PEXPIRETIME").arg(&key).query(connection).expect("an expiry, or -1");
        let until = if until == -1 { String::new() } else { format!(" until {until}") };
        shown.push(format!("{key} {kind} {parts:?}{until}"));
    }
    shown
}

fn commit_all(process: &mut Process) {
    let added = added();
    let added: Vec<(&str, &str)> = added.iter().map(|(key, words)| (&key[..], &words[..])).collect();
    for calls in [CALLS, REMOVALS, &added].into_iter().filter(|calls| !calls.is_empty()) {
        let attempt = process.begin();
        let prepare = process.prepare(attempt, calls);
        let answers = process.frame(&[prepare]);
        assert!(matches!(&answers[..], [Response::Committed { .. }]), "{answers:?}");
    }
}

/// What the two transactions leave.
const LEFT: [&str; 19] = [
    "absent string [\"y\"]",
    "bids zset [\"bob\", \"2.5\", \"cy\", \"3.5\"]",
    "board zset [\"a\", \"6\"]",
    "copy set [\"a\", \"b\"]",
    r#"doc hash ["$.a={}", "$.l=[1,2]", "$.n={}", "$.s=\"xy\"", "$={}"]"#,
    "front list [\"a\"]",
    "hits string [\"4\"]",
    "ids string [\"1\"]",
    "late string [\"v\"] until 4102444800000",
    "less string [\"-3\"]",
    "name string [\"grace\"]",
    "price string [\"0.1\"]",
    "queue list [\"b\"]",
    "rating hash [\"count=1\", \"max=4\", \"min=4\", \"sum=4\"]",
    "ring hash [\"max=100\", \"min=10\", \"value=98\"]",
    "seats hash [\"max=20\", \"min=0\", \"value=4\"]",
    "tags set [\"blue\"] until 4102444800000",
    "user hash [\"visits=3\"]",
    "{bids}:k string [\"2\"]",
];

#[test]
fn every_operation_that_writes_is_among_them() {
    let added = added();
    let words = CALLS.iter().chain(REMOVALS).map(|(_, words)| *words);
    let words = words.chain(added.iter().map(|(_, words)| &words[..]));
    let tried: Vec<&str> = words
        .filter_map(|words| words.split(' ').next())
        .map(|name| name.trim_end_matches(".RETURNING"))
        .collect();
    for method in BUILTIN.iter().flat_map(|kind| kind.methods) {
        let name = method.name.trim_end_matches(".RETURNING");
        // What a command of the server changes it has commands of its own for: see `commands`.
        if method.access == Access::Write && name != "RECORD.RUN" {
            assert!(tried.contains(&name), "{name} is not tried");
        }
    }
}

#[test]
fn a_replica_gets_the_same_in_one_multi() {
    let primary = Server::start(&[]);
    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let mut process = Process::hello(&primary, 1);
    let mut above = primary.connect();
    wait_until("the replica is there", || {
        let info: String = redis::cmd("INFO").arg("replication").query(&mut above).expect("its state");
        info.contains("state=online")
    });
    commit_all(&mut process);
    let synced: i64 = redis::cmd("WAIT").arg(1).arg(5000).query(&mut process.connection).expect("it waits");
    assert_eq!(synced, 1);
    let mut below = replica.connect();
    let content = (content(&mut above), content(&mut below));
    assert_eq!(content.0, content.1);
    let known = content.0.iter().filter(|line| !line.starts_with("added:"));
    assert_eq!(known.collect::<Vec<_>>(), LEFT.iter().collect::<Vec<_>>());
    // The replica itself serves no shard.
    let refused = crate::common::hello(&mut below, 2, 1, &[]).expect_err("a replica");
    assert!(format!("{refused:?}").to_uppercase().contains("READONLY"), "{refused:?}");
}

#[test]
fn the_append_only_file_has_one_multi_and_brings_everything_back() {
    let options = [
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--enable-debug-command",
        "yes",
        "--aof-use-rdb-preamble",
        "no",
    ];
    let server = Server::start(&options);
    let mut process = Process::hello(&server, 1);
    commit_all(&mut process);
    let mut connection = server.connect();
    let before = content(&mut connection);
    let dir = server.dir().join("appendonlydir");
    let files = std::fs::read_dir(&dir).expect("the files").map(|entry| entry.expect("a file").path());
    let incremental =
        files.into_iter().find(|path| path.to_string_lossy().contains(".incr.")).expect("the tail");
    let written = String::from_utf8_lossy(&std::fs::read(&incremental).expect("its bytes")).into_owned();
    let (multi, exec) = (written.matches("MULTI").count(), written.matches("EXEC").count());
    assert_eq!((multi, exec), (2, 2), "{written}");
    assert!(!written.to_uppercase().contains("CLARET"), "plain commands only");
    let () = redis::cmd("DEBUG").arg("LOADAOF").query(&mut connection).expect("it reads it again");
    assert_eq!(content(&mut connection), before);
}

#[test]
fn what_a_timer_applies_is_propagated_too() {
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let server = Server::start(&options);
    let mut process = Process::hello(&server, 1);
    let mut other = Process::hello(&server, 2);
    let held = process.begin();
    let execute = process.execute(held, 1, "k", "INCRBY.RETURNING 1");
    process.frame(&[execute]);
    // Waits behind the held one, and commits when its client is gone: from a timer.
    let waiting = other.begin();
    let prepare = other.prepare(waiting, &[("k", "INCRBY 5"), ("l", "INCRBY 6")]);
    assert!(matches!(&other.frame(&[prepare])[..], [Response::Queued { .. }]));
    drop(process);
    let mut plain = server.connect();
    wait_until("the timer", || {
        let value: Option<i64> = redis::cmd("GET").arg("k").query(&mut plain).expect("a number");
        value == Some(5)
    });
    let () = redis::cmd("DEBUG").arg("LOADAOF").query(&mut plain).expect("it reads it again");
    let values: (i64, i64) = redis::cmd("MGET").arg(&["k", "l"]).query(&mut plain).expect("numbers");
    assert_eq!(values, (5, 6));
}

#[test]
fn a_timer_writes_nothing_while_clients_are_paused_and_catches_up() {
    let server = Server::start(&["--appendonly", "yes"]);
    let mut process = Process::hello(&server, 1);
    let mut other = Process::hello(&server, 2);
    let held = process.begin();
    let execute = process.execute(held, 1, "k", "INCRBY.RETURNING 1");
    process.frame(&[execute]);
    let waiting = other.begin();
    let prepare = other.prepare(waiting, &[("k", "INCRBY 5")]);
    other.frame(&[prepare]);
    let mut plain = server.connect();
    let () = redis::cmd("CLIENT").arg("PAUSE").arg(400).arg("WRITE").query(&mut plain).expect("a pause");
    let paused = std::time::Instant::now();
    drop(process);
    // Timers fire in the pause; no event tells that they write nothing.
    std::thread::sleep(std::time::Duration::from_millis(150));
    // It waits for those who hold the key, and these for the end of the pause.
    let value: Option<i64> = redis::cmd("GET").arg("k").query(&mut plain).expect("a number");
    assert_eq!(value, Some(5));
    assert!(paused.elapsed() >= std::time::Duration::from_millis(390), "{:?}", paused.elapsed());
}

#[test]
fn what_was_voted_is_applied_whole_by_a_later_frame() {
    let server = Server::start(&["--appendonly", "yes"]);
    let mut process = Process::hello(&server, 1);
    let attempt = process.begin();
    let both = [(process.shard, Some(process.incarnation)), (ShardId(5), None)];
    let prepare = process.prepare_with(attempt, 0, &[("a", "INCR"), ("b", "INCR")], &both);
    process.frame(&[prepare]);
    let mut plain = server.connect();
    // A voted transaction is applied although memory has run out and the user lost all rights.
    let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).query(&mut plain).expect("set");
    let mut second = Process::over(server.connect(), 2, 1, &[]);
    let refused = second.commit("c", "SET x");
    assert!(format!("{refused:?}").contains("NoMemory"), "{refused:?}");
    let read = second.commit("c", "register:GET");
    assert!(matches!(&read[..], [Response::Committed { .. }]), "{read:?}");
    let applied = process.frame(&[Request::Apply { attempt }]);
    assert!(matches!(&applied[..], [Response::Applied { .. }]), "{applied:?}");
    let values: (i64, i64) = redis::cmd("MGET").arg(&["a", "b"]).query(&mut plain).expect("numbers");
    assert_eq!(values, (1, 1));
}

/// What the server refuses a plain command for lack of memory is refused to the operation that does the same, and nothing else.
#[test]
fn what_may_add_is_refused_when_memory_has_run_out() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 1);
    commit_all(&mut process);
    let mut plain = server.connect();
    let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).query(&mut plain).expect("set");
    for (key, words) in CALLS.iter().chain(REMOVALS) {
        let method = words.split(' ').next().expect("a name");
        let command = match method {
            "BCREATE" | "BRESIZE" | "BDECRBY.WRAP" | "BAG.ADD" => "HSET",
            "RECORD.PUT" => "RESTORE",
            "SETEX" | "PSETEX" | "PSETEXAT" => "SET",
            "DEL.RETURNING" => "DEL",
            "BINCRBY" | "BDECRBY" => "HINCRBY",
            "TOPK.ADD" => "ZADD",
            "UID.NEXT" => "INCR",
            "JSON.SET" | "JSON.MERGE" | "JSON.STRAPPEND" | "JSON.ARRAPPEND" => "HSET",
            "JSON.NUMINCRBY" => "HINCRBY",
            "JSON.DEL" => "HDEL",
            plain => plain,
        };
        let about: redis::Value =
            redis::cmd("COMMAND").arg("INFO").arg(command).query(&mut plain).expect("its flags");
        let may_add = format!("{about:?}").contains("denyoom");
        let told = format!("{:?}", process.commit(key, words));
        assert_eq!(told.contains("NoMemory"), may_add, "{words}: {told}");
    }
}
