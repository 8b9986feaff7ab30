//! Plain `MULTI` beside transactions: an EXEC runs whole or not at all, and only keys that its client may use count for it.

use crate::common::beside::{bulk, commit, error, hold, number, ok, rig, run};
use crate::common::{Process, wait_until};
use redis::{Connection, Value};

/// `MULTI`, a write of a key that nobody holds, this line, `EXEC`: what EXEC answers.
fn exec_with(plain: &mut Connection, free: &str, line: &str) -> Result<Vec<Value>, String> {
    ok(plain, "MULTI");
    ok(plain, &format!("INCR {free}"));
    let queued = run(plain, line);
    assert_eq!(queued, Ok(Value::SimpleString("QUEUED".into())), "{line}");
    match redis::cmd("EXEC").query::<Value>(plain) {
        Ok(Value::Array(items)) => Ok(items),
        Ok(other) => panic!("{line}: {other:?}"),
        Err(error) => Err(format!("{error:?}").to_uppercase()),
    }
}

fn is_abort(answer: &str) -> bool {
    answer.contains("EXECABORT")
}

/// Bug: a transaction has read a key as a counter. EXEC compared with its type, and let `MULTI, INCR other, GET key, EXEC`
/// run; the GET within compared as a register's, and was answered TRYAGAIN: half of the MULTI was done. Mend: what EXEC
/// let through runs.
#[test]
fn exec_runs_whole_or_not_at_all_whatever_type_a_transaction_holds_a_key_with() {
    let (_server, mut process, mut plain) = rig();
    let holds = [
        "register:GET",
        "GETSET 1",
        "counter:GET",
        "counter:INCRBY.RETURNING 1",
        "float-counter:GET",
        "SCARD",
        "SADD.RETURNING a",
        "HGET f",
        "HSET.RETURNING f v",
        "LLEN",
        "RPUSH.RETURNING a",
        "ZCARD",
        "ZADD.RETURNING 1 a",
    ];
    let lines = [
        "GET {k}",
        "STRLEN {k}",
        "SET {k} 2",
        "INCR {k}",
        "INCRBYFLOAT {k} 1",
        "MGET {k} {k}2",
        "EXISTS {k}",
        "TYPE {k}",
        "SADD {k} b",
        "SCARD {k}",
        "HGET {k} g",
        "HLEN {k}",
        "LLEN {k}",
        "RPUSH {k} b",
        "LPOP {k}",
        "ZCARD {k}",
        "ZADD {k} 2 b",
        "DEL {k}",
        "UNLINK {k}",
        "SORT {k}",
        "LMOVE {k}3 {k} LEFT LEFT",
    ];
    let (mut run_whole, mut refused) = (0, 0);
    for hold_words in holds {
        for line in lines {
            ok(&mut plain, "DEL {k}free");
            let attempt = hold(&mut process, "{k}", hold_words);
            match exec_with(&mut plain, "{k}free", line) {
                Ok(items) => {
                    run_whole += 1;
                    let shown = format!("{items:?}").to_uppercase();
                    assert!(!shown.contains("TRYAGAIN"), "{line} beside {hold_words}: {shown}");
                }
                Err(answer) => {
                    refused += 1;
                    assert!(is_abort(&answer), "{line} beside {hold_words}: {answer}");
                    assert_eq!(ok(&mut plain, "EXISTS {k}free"), Value::Int(0), "{line} beside {hold_words}");
                }
            }
            process.frame(&[claret_core::message::Request::Abort { attempt, refused_by: None }]);
            wait_until("no key is kept", || number(&mut plain, "plain_open") == 0);
            ok(&mut plain, "DEL {k}");
        }
    }
    // How many it is on Redis 7.0 depends on how soon it is known that nobody has a MULTI open.
    assert!(run_whole > 0 && refused > 0, "{run_whole} ran, {refused} were refused");
}

/// The very case of a counter that a transaction has only read: readers share, whatever their types.
#[test]
fn a_plain_read_shares_with_a_transaction_that_only_reads() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "SET {k} 5");
    for words in ["counter:GET", "float-counter:GET", "register:GET"] {
        let attempt = hold(&mut process, "{k}", words);
        for line in ["GET {k}", "STRLEN {k}", "MGET {k} {k}2", "GETRANGE {k} 0 -1", "TYPE {k}"] {
            ok(&mut plain, line);
        }
        let answer = exec_with(&mut plain, "{k}free", "GET {k}").expect("readers share");
        assert_eq!(answer[1], bulk("5"), "{words}");
        commit(&mut process, attempt, 1);
    }
    assert_eq!((number(&mut plain, "plain_guarded"), number(&mut plain, "exec_aborts")), (0, 0));
}

/// Whether the server tells the module who sends a command: Redis 7.0 does not.
fn names_clients(plain: &mut Connection) -> bool {
    let info: String = redis::cmd("INFO").arg("server").query(plain).expect("its version");
    !info.contains("redis_version:7.0")
}

/// A line, and its keys. What is at them does not matter: the keys are what is looked at.
const USES: &[(&str, &[&str])] = &[
    ("SET {k}1 v", &["{k}1"]),
    ("DEL {k}1 {k}2 {k}3", &["{k}1", "{k}2", "{k}3"]),
    ("UNLINK {k}1 {k}2", &["{k}1", "{k}2"]),
    ("EXISTS {k}1 {k}2", &["{k}1", "{k}2"]),
    ("TOUCH {k}1 {k}2", &["{k}1", "{k}2"]),
    ("MGET {k}1 {k}2", &["{k}1", "{k}2"]),
    ("MSET {k}1 v {k}2 v", &["{k}1", "{k}2"]),
    ("MSETNX {k}1 v {k}2 v", &["{k}1", "{k}2"]),
    ("RENAME {k}1 {k}2", &["{k}1", "{k}2"]),
    ("COPY {k}1 {k}2", &["{k}1", "{k}2"]),
    ("BITOP NOT {k}1 {k}2", &["{k}1", "{k}2"]),
    ("PFMERGE {k}1 {k}2", &["{k}1", "{k}2"]),
    ("LCS {k}1 {k}2", &["{k}1", "{k}2"]),
    ("SMOVE {k}1 {k}2 m", &["{k}1", "{k}2"]),
    ("LMOVE {k}1 {k}2 LEFT LEFT", &["{k}1", "{k}2"]),
    ("RPOPLPUSH {k}1 {k}2", &["{k}1", "{k}2"]),
    ("SORT {k}1", &["{k}1"]),
    ("SORT {k}1 STORE {k}2", &["{k}1", "{k}2"]),
    ("EVAL return{} 2 {k}1 {k}2", &["{k}1", "{k}2"]),
    ("EVAL_RO return{} 2 {k}1 {k}2", &["{k}1", "{k}2"]),
    ("SUNIONSTORE {k}1 {k}2 {k}3", &["{k}1", "{k}2", "{k}3"]),
    ("SINTERCARD 2 {k}1 {k}2", &["{k}1", "{k}2"]),
    ("ZUNIONSTORE {k}1 2 {k}2 {k}3", &["{k}1", "{k}2", "{k}3"]),
    ("ZRANGESTORE {k}1 {k}2 0 1", &["{k}1", "{k}2"]),
    ("GEORADIUS {k}1 1 1 1 m STORE {k}2", &["{k}1", "{k}2"]),
    ("GEOSEARCHSTORE {k}1 {k}2 FROMLONLAT 1 1 BYRADIUS 1 m", &["{k}1", "{k}2"]),
    ("LMPOP 2 {k}1 {k}2 LEFT", &["{k}1", "{k}2"]),
    ("ZMPOP 2 {k}1 {k}2 MIN", &["{k}1", "{k}2"]),
    ("XREAD STREAMS {k}1 {k}2 0 0", &["{k}1", "{k}2"]),
    ("OBJECT ENCODING {k}1", &["{k}1"]),
    ("CLARET.WRITE SET {k}1 v", &["{k}1"]),
    ("CLARET.READ-ANY MGET {k}1 {k}2", &["{k}1", "{k}2"]),
];

/// Those that wait for something to take, which stay asleep instead of waiting.
const POPS: &[(&str, &[&str])] = &[
    ("BLPOP {k}1 {k}2 0", &["{k}1", "{k}2"]),
    ("BLMOVE {k}1 {k}2 LEFT LEFT 0", &["{k}1", "{k}2"]),
    ("BRPOPLPUSH {k}1 {k}2 0", &["{k}1", "{k}2"]),
    ("BLMPOP 0 2 {k}1 {k}2 LEFT", &["{k}1", "{k}2"]),
    ("BZPOPMIN {k}1 {k}2 0", &["{k}1", "{k}2"]),
    ("BZMPOP 0 2 {k}1 {k}2 MIN", &["{k}1", "{k}2"]),
];

fn abort(process: &mut Process, attempt: claret_core::AttemptId) {
    process.frame(&[claret_core::message::Request::Abort { attempt, refused_by: None }]);
}

/// Each key of each command counts for EXEC, whichever of them is held, and by itself.
#[test]
fn exec_is_refused_for_each_key_of_what_was_queued() {
    let (_server, mut process, mut plain) = rig();
    for (line, keys) in USES.iter().chain(POPS) {
        for key in *keys {
            ok(&mut plain, "MULTI");
            ok(&mut plain, "INCR {k}free");
            ok(&mut plain, line);
            let attempt = hold(&mut process, key, "GETSET 1");
            let refused = error(&mut plain, "EXEC").to_uppercase();
            assert!(is_abort(&refused), "{line} while {key} is held: {refused}");
            abort(&mut process, attempt);
            wait_until("no key is kept", || number(&mut plain, "plain_open") == 0);
        }
    }
    assert_eq!(ok(&mut plain, "EXISTS {k}free"), Value::Int(0), "nothing of it ran");
}

/// By itself a command waits for each of its keys, whichever of them is held.
#[test]
fn a_command_waits_for_each_of_its_keys() {
    let (server, mut process, mut plain) = rig();
    for (line, keys) in USES {
        for key in *keys {
            let attempt = hold(&mut process, key, "GETSET 1");
            let waits = crate::common::beside::Waits::on(&server, line);
            wait_until(&format!("{line} waits for {key}"), || number(&mut plain, "plain_open") == 1);
            abort(&mut process, attempt);
            waits.answer();
        }
        ok(&mut plain, "DEL {k}1 {k}2 {k}3");
    }
}

/// One key is held and in nobody's way; another one is.
#[test]
fn every_held_key_is_judged_and_not_the_first_alone() {
    let (server, mut process, mut plain) = rig();
    let reader = hold(&mut process, "{k}1", "GET");
    let writer = hold(&mut process, "{k}2", "GETSET 1");
    ok(&mut plain, "MULTI");
    ok(&mut plain, "MGET {k}1 {k}2");
    assert!(is_abort(&error(&mut plain, "EXEC").to_uppercase()));
    let waits = crate::common::beside::Waits::on(&server, "MGET {k}1 {k}2");
    waits.still();
    commit(&mut process, reader, 1);
    commit(&mut process, writer, 1);
    assert_eq!(waits.answer(), Value::Array(vec![Value::Nil, bulk("1")]));
}

/// A refused EXEC is over: its keys count for no other one. Redis 7.0 forgets them when nobody has a MULTI open.
#[test]
fn a_refused_exec_leaves_no_keys_behind() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "CONFIG SET claret.reservation-ms 10");
    ok(&mut plain, "MULTI");
    ok(&mut plain, "INCR k");
    hold(&mut process, "k", "GETSET 1");
    assert!(is_abort(&error(&mut plain, "EXEC").to_uppercase()));
    let runs = |plain: &mut Connection| {
        ok(plain, "MULTI");
        ok(plain, "INCR other");
        redis::cmd("EXEC").query::<Value>(plain).is_ok()
    };
    if names_clients(&mut plain) {
        assert!(runs(&mut plain), "its own keys alone");
    } else {
        wait_until("the keys are forgotten", || runs(&mut plain));
    }
}

/// What closed connections had queued is forgotten.
#[test]
fn a_multi_goes_with_its_connection() {
    let (server, mut process, mut plain) = rig();
    for _ in 0..10 {
        let mut other = server.connect();
        ok(&mut other, "MULTI");
        ok(&mut other, "INCR k");
    }
    wait_until("they are forgotten", || number(&mut plain, "multis_open") == 0);
    hold(&mut process, "k", "GETSET 1");
    ok(&mut plain, "MULTI");
    assert_eq!(number(&mut server.connect(), "multis_open"), 1);
    ok(&mut plain, "INCR other");
    assert_eq!(ok(&mut plain, "EXEC"), Value::Array(vec![Value::Int(1)]));
    wait_until("none is open", || number(&mut plain, "multis_open") == 0);
}

// --- users ---

fn exec(client: &mut Connection, line: &str) -> (String, String) {
    ok(client, "MULTI");
    let queued = format!("{:?}", run(client, line));
    (queued, format!("{:?}", redis::cmd("EXEC").query::<Value>(client)))
}

/// Bug: keys were noted before the server had asked for the right to them, so whoever might run MULTI could have keys of
/// others reserved, and learn from EXEC's answer which are held. Mend: only keys that the client may use count.
#[test]
fn who_may_not_use_a_key_reserves_nothing_and_learns_nothing() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "ACL SETUSER nobody on >pw ~own* -@all +multi +exec +get");
    let mut nobody = server.connect_as("nobody", "pw");
    let free = exec(&mut nobody, "GET secret");
    hold(&mut process, "secret", "GETSET 1");
    let held = exec(&mut nobody, "GET secret");
    assert_eq!(held, free, "its answers do not tell whether a key is held");
    assert_eq!((number(&mut plain, "plain_waits"), number(&mut plain, "exec_aborts")), (0, 0));
    // The same of one without a MULTI, and of a key that is held in the MULTI of another.
    let mut other = server.connect();
    ok(&mut other, "MULTI");
    ok(&mut other, "GET secret");
    let without = error(&mut nobody, "EXEC");
    assert!(without.contains("EXEC without MULTI"), "{without}");
    let own = exec(&mut nobody, "GET own");
    assert!(own.1.contains("nil"), "keys of others are in nobody's way: {own:?}");
    let all: Vec<String> = redis::cmd("ACL")
        .arg("LOG")
        .query::<Vec<Value>>(&mut plain)
        .expect("denials")
        .iter()
        .map(|entry| format!("{entry:?}"))
        .collect();
    assert!(!all.is_empty(), "denials are logged");
    let refused = error(&mut other, "EXEC").to_uppercase();
    assert!(is_abort(&refused), "who may use it is refused: {refused}");
}

/// An open MULTI stops nobody but its own client, where the server tells who that is.
#[test]
fn the_open_multi_of_one_stops_no_exec_of_another() {
    let (server, mut process, mut plain) = rig();
    if !names_clients(&mut plain) {
        return;
    }
    hold(&mut process, "k", "GETSET 1");
    let mut other = server.connect();
    ok(&mut other, "MULTI");
    ok(&mut other, "GET k");
    for _ in 0..3 {
        ok(&mut plain, "MULTI");
        ok(&mut plain, "INCR own");
        ok(&mut plain, "EXEC");
    }
    assert!(is_abort(&error(&mut other, "EXEC").to_uppercase()));
}

/// Whoever has not said who it is makes the guard note, reserve and run nothing.
#[test]
fn who_has_not_said_who_it_is_gets_nowhere() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "SET free 1");
    hold(&mut process, "secret", "GETSET 1");
    ok(&mut plain, "CONFIG SET requirepass pw");
    for user in ["default on", "default off"] {
        ok(&mut plain, &format!("ACL SETUSER {user}"));
        for line in [
            "MULTI",
            "GET secret",
            "EXEC",
            "BLPOP secret 0",
            "SET secret 2",
            "CLARET.READ-ANY GET free",
            // Not what it thinks of the command: that one does not wait, is none, or only writes.
            "CLARET.READ-ANY PING",
            "CLARET.WRITE-ANY NOSUCH k",
            "CLARET.READ-ANY SET free 2",
            "CLARET.WRITE-ANY SET free 2",
            "CLARET.WRITE-ANY BLPOP l 0",
            "CLARET.READ GET free",
            "CLARET.WRITE-ANY EVAL return{} 0",
        ] {
            let refused = error(&mut server.connect(), line).to_uppercase();
            assert!(refused.contains("NOAUTH"), "{user}: {line}: {refused}");
            let mut one = server.connect();
            let _ = run(&mut one, "MULTI");
            assert!(error(&mut one, line).to_uppercase().contains("NOAUTH"), "{line}");
            assert!(error(&mut one, "EXEC").to_uppercase().contains("NOAUTH"), "{line}");
        }
    }
    assert_eq!(ok(&mut plain, "GET free"), bulk("1"));
    assert_eq!((number(&mut plain, "plain_waits"), number(&mut plain, "exec_aborts")), (0, 0));
}

/// Whoever may use a key for what the command does with it may wait for it, too.
#[test]
fn a_right_to_read_or_to_write_is_enough_to_wait() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "SET k 5");
    ok(&mut plain, "ACL SETUSER reads on >pw %R~k -@all +get +set");
    ok(&mut plain, "ACL SETUSER writes on >pw %W~k -@all +set +get +sadd");
    for (user, line, answer) in [
        ("reads", "GET k", bulk("10")),
        ("writes", "SET k 1", Value::Okay),
        ("writes", "SADD s 1", Value::Nil),
    ] {
        ok(&mut plain, "SET k 5");
        let attempt = hold(&mut process, "k", "GETSET 10");
        let mut client = server.connect_as(user, "pw");
        if line == "SADD s 1" {
            assert!(error(&mut client, line).to_uppercase().contains("NOPERM"));
        } else {
            let text = line.to_owned();
            let waits = std::thread::spawn(move || run(&mut client, &text));
            wait_until("it waits", || number(&mut plain, "plain_open") == 1);
            commit(&mut process, attempt, 1);
            assert_eq!(waits.join().expect("no panic"), Ok(answer), "{user}: {line}");
            continue;
        }
        commit(&mut process, attempt, 1);
    }
    // The other use is refused as ever, held or not, and logged as what it is.
    let attempt = hold(&mut process, "k", "GETSET 10");
    for (user, line) in [("reads", "SET k 1"), ("writes", "GET k")] {
        ok(&mut plain, "ACL LOG RESET");
        let mut client = server.connect_as(user, "pw");
        let refused = error(&mut client, line);
        assert!(refused.contains("NOPERM") || refused.contains("NoPerm"), "{user}: {line}: {refused}");
        let log = format!("{:?}", redis::cmd("ACL").arg("LOG").query::<Value>(&mut plain));
        let (reason, object) = (format!("{:?}", bulk("key")), format!("{:?}", bulk("k")));
        assert!(log.contains(&reason) && log.contains(&object), "{user}: {line}: {log}");
    }
    commit(&mut process, attempt, 1);
}

/// Bug: what a module refuses in the client's name was told in words of its own (Redis 7.0). And it is logged.
#[test]
fn a_denial_is_told_and_logged_as_the_servers_own() {
    let (server, _process, mut plain) = rig();
    ok(&mut plain, "ACL SETUSER few on >pw ~own* +@all -set");
    let mut few = server.connect_as("few", "pw");
    for (line, object) in [("SET own 1", "set"), ("MGET own other", "other")] {
        ok(&mut plain, "ACL LOG RESET");
        let own = error(&mut few, line);
        ok(&mut plain, "ACL LOG RESET");
        let way = if line.starts_with("SET") { "CLARET.WRITE-ANY" } else { "CLARET.READ-ANY" };
        assert_eq!(error(&mut few, &format!("{way} {line}")), own);
        let log = format!("{:?}", redis::cmd("ACL").arg("LOG").query::<Value>(&mut plain));
        assert!(log.contains(&format!("{:?}", bulk(object))), "{line}: {log}");
    }
}

/// Whoever may not change the lists does not end other people's transactions by trying to.
#[test]
fn a_change_of_rights_that_was_refused_ends_nothing() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "ACL SETUSER nobody on >pw ~own* -@all +get +multi +exec");
    let mut nobody = server.connect_as("nobody", "pw");
    let attempt = hold(&mut process, "k", "GETSET 1");
    error(&mut nobody, "ACL SETUSER default -getset");
    let _ = exec(&mut nobody, "ACL SETUSER default -getset");
    commit(&mut process, attempt, 1);
    let attempt = hold(&mut process, "k", "GETSET 2");
    ok(&mut plain, "ACL SETUSER default -getset");
    let participants = [(process.shard, Some(process.incarnation))];
    let prepare = process.prepare_with(attempt, 1, &[], &participants);
    let answers = format!("{:?}", process.frame(&[prepare]));
    assert!(answers.contains("LostLocks"), "a change of its own rights does: {answers}");
}
