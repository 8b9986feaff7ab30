//! Edge cases of the guard: clients that disconnect at the wrong moment, pauses, scripts within commands that waited,
//! commands that do not belong there. `plain.rs` has the rules.

use std::time::Duration;

use crate::common::beside::{A_MOMENT, Waits, bulk, commit, error, hold, number, ok, rig, run, vote};
use crate::common::{Process, Server, hello, session, wait_until};
use claret_core::Time;
use claret_core::message::{Request, Response};
use redis::{Connection, Value};

/// Pipelined behind a commit that lets somebody go, so that it happens before that client is answered.
fn commit_and_then(process: &mut Process, attempt: claret_core::AttemptId, line: &str) {
    let participants = [(process.shard, Some(process.incarnation))];
    let prepare = process.prepare_with(attempt, 1, &[], &participants);
    let mut pipe = redis::pipe();
    pipe.cmd("CLARET.FRAME").arg(claret_core::wire::encode_requests(&[prepare]));
    let mut words = line.split(' ');
    pipe.cmd(words.next().expect("a name")).arg(words.collect::<Vec<_>>());
    let _: Vec<Value> = pipe.query(&mut process.connection).expect("both are done");
}

fn client_id(connection: &mut Connection) -> i64 {
    redis::cmd("CLIENT").arg("ID").query(connection).expect("its number")
}

#[test]
fn a_client_that_goes_when_it_was_let_go_is_let_go_once() {
    let (mut server, mut process, mut plain) = rig();
    for line in ["SET k b", "CLARET.EXEC 3 SET k b", "CLARET.POLL 8 5000"] {
        let attempt = hold(&mut process, "k", "GETSET a");
        let mut reader = Process::hello(&server, 8);
        let reading = reader.begin();
        let read = reader.execute(reading, 1, "k", "GET");
        if line.starts_with("CLARET.POLL") {
            reader.frame(&[read]);
        }
        let mut other = server.connect();
        let id = client_id(&mut other);
        hello(&mut other, 8, 1, &["LISTEN"]).expect("it may listen");
        let text = line.replace("POLL 8", &format!("POLL {}", session(8).0));
        let waiting = std::thread::spawn(move || run(&mut other, &text));
        let is_blocked = |plain: &mut Connection| {
            let info: String = redis::cmd("INFO").arg("clients").query(plain).expect("its numbers");
            info.contains("blocked_clients:1")
        };
        wait_until("it waits", || is_blocked(&mut plain));
        commit_and_then(&mut process, attempt, &format!("CLIENT KILL ID {id}"));
        assert!(waiting.join().expect("no panic").is_err(), "{line}");
        assert_eq!(ok(&mut plain, "PING"), Value::SimpleString("PONG".into()), "{line}");
        assert!(server.runs(), "{line}");
        drop(reader);
        wait_until("nothing is held", || number(&mut plain, "held_keys") == 0);
        assert_eq!((number(&mut plain, "plain_open"), number(&mut plain, "execs_open")), (0, 0));
    }
    assert_eq!(number(&mut plain, "panics"), 0);
}

#[test]
fn a_client_whose_time_is_over_when_it_was_let_go_is_let_go_once() {
    let (mut server, mut process, mut plain) = rig();
    ok(&mut plain, "CONFIG SET claret.plain-wait-ms 100");
    let attempt = hold(&mut process, "k", "GETSET a");
    let waits = Waits::on(&server, "SET k b");
    wait_until("it waits", || number(&mut plain, "plain_open") == 1);
    // The server looks at times only after the sleep, in which the time of the one who waits ends.
    ok(&mut plain, "CONFIG SET claret.plain-wait-ms 5000");
    let script = "local t = redis.call('TIME'); local e = t[1]*1000000 + t[2] + 200000; repeat t = redis.call('TIME') until t[1]*1000000 + t[2] > e";
    let participants = [(process.shard, Some(process.incarnation))];
    let prepare = process.prepare_with(attempt, 1, &[], &participants);
    let mut pipe = redis::pipe();
    pipe.cmd("CLARET.FRAME").arg(claret_core::wire::encode_requests(&[prepare]));
    pipe.cmd("EVAL").arg(script).arg(0);
    let _: Vec<Value> = pipe.query(&mut process.connection).expect("both are done");
    waits.answer();
    ok(&mut plain, "PING");
    assert!(server.runs());
    assert_eq!((number(&mut plain, "plain_open"), number(&mut plain, "held_keys")), (0, 0));
}

/// One whose writes go somewhere: only then does the server mind a write in a pause.
fn writing_rig() -> (Server, Process, Connection) {
    let server = Server::start(&["--claret.lease-ms", "60000", "--appendonly", "yes"]);
    let process = Process::hello(&server, 7);
    let plain = server.connect();
    (server, process, plain)
}

/// What a transaction of one shard waits for is in the way of a plain command, so it commits when that gives up.
fn queue_behind(process: &mut Process) {
    // A phase that somebody waits behind still takes in who comes at once.
    std::thread::sleep(A_MOMENT);
    let attempt = process.begin();
    let mut prepare = process.prepare(attempt, &[("k", "GET"), ("other", "INCR")]);
    if let Request::Prepare { birth, .. } = &mut prepare {
        birth.time = Time(u64::MAX);
    }
    let answers = process.frame(&[prepare]);
    assert!(matches!(answers[..], [Response::Queued { .. }]), "{answers:?}");
}

/// Whatever ends while clients are paused lets nobody write: the server would end itself.
#[test]
fn who_gives_up_while_clients_are_paused_lets_others_in_later() {
    let (mut server, mut process, mut plain) = writing_rig();
    for give_up in ["its time is over", "its connection closes"] {
        ok(&mut plain, "DEL k other");
        let reader = hold(&mut process, "k", "GET");
        let millis = if give_up == "its time is over" { 200 } else { 5_000 };
        ok(&mut plain, &format!("CONFIG SET claret.plain-wait-ms {millis}"));
        let mut other = server.connect();
        let id = client_id(&mut other);
        let waiting = std::thread::spawn(move || run(&mut other, "SET k b"));
        wait_until("it waits", || number(&mut plain, "plain_open") == 1);
        queue_behind(&mut process);
        let commits = number(&mut plain, "commits");
        ok(&mut plain, "CLIENT PAUSE 60000 WRITE");
        if give_up == "its connection closes" {
            ok(&mut plain, &format!("CLIENT KILL ID {id}"));
        }
        assert!(waiting.join().expect("no panic").is_err(), "{give_up}");
        // No event tells that nothing happens.
        std::thread::sleep(A_MOMENT);
        assert!(server.runs(), "{give_up}");
        assert_eq!(number(&mut plain, "commits"), commits, "{give_up}: nothing is written yet");
        ok(&mut plain, "CLIENT UNPAUSE");
        wait_until("it commits after the pause", || number(&mut plain, "commits") == commits + 1);
        assert_eq!(ok(&mut plain, "GET other"), bulk("1"));
        commit(&mut process, reader, 1);
        assert_eq!(number(&mut plain, "held_keys"), 0);
    }
}

/// Bug: a transaction of one go whose client had left was refused with whatever came next, in a pause, too. Consequence: who waited behind it
/// was let in, and its write ended the server. Mend: it is refused when writes are possible again.
#[test]
fn who_waits_behind_one_that_left_in_a_pause_is_let_in_later() {
    let (mut server, mut process, mut plain) = writing_rig();
    let holder = hold(&mut process, "b", "GETSET a");
    let mut other = server.connect();
    let id = client_id(&mut other);
    let left = std::thread::spawn(move || run(&mut other, "CLARET.EXEC 3 SET k x 3 SET b x"));
    wait_until("it waits", || number(&mut plain, "execs_open") == 1);
    queue_behind(&mut process);
    let commits = number(&mut plain, "commits");
    ok(&mut plain, "CLIENT PAUSE 60000 WRITE");
    ok(&mut plain, &format!("CLIENT KILL ID {id}"));
    assert!(left.join().expect("no panic").is_err());
    // It only reads, so it is no concern of the pause, and comes to the shard.
    let reads = Waits::on(&server, "GET b");
    reads.still();
    // No event tells that nothing happens.
    std::thread::sleep(A_MOMENT);
    assert!(server.runs());
    assert_eq!(number(&mut plain, "commits"), commits, "nothing is written yet");
    ok(&mut plain, "CLIENT UNPAUSE");
    wait_until("it commits after the pause", || number(&mut plain, "commits") == commits + 1);
    assert_eq!(ok(&mut plain, "GET other"), bulk("1"));
    commit(&mut process, holder, 1);
    assert_eq!(reads.answer(), bulk("a"));
    wait_until("nothing is held", || number(&mut plain, "held_keys") == 0);
}

/// Let go by a commit, and before its command runs all are paused.
#[test]
fn who_is_let_go_into_a_pause_writes_nothing_in_it() {
    let (mut server, mut process, mut plain) = writing_rig();
    let attempt = hold(&mut process, "k", "GETSET a");
    let waits = Waits::on(&server, "SET k b");
    waits.still();
    commit_and_then(&mut process, attempt, "CLIENT PAUSE 400 WRITE");
    ok(&mut plain, "PING");
    assert!(server.runs());
    assert_eq!(ok(&mut plain, "GET k"), bulk("a"), "nothing is written yet");
    let answer = format!("{:?}", waits.answer()).to_uppercase();
    assert!(answer.contains("TRYAGAIN"), "{answer}");
    wait_until("the pause is over", || number(&mut plain, "plain_open") == 0);
    ok(&mut plain, "SET k b");
    assert_eq!((number(&mut plain, "plain_open"), number(&mut plain, "held_keys")), (0, 0));
}

#[test]
fn a_reservation_that_ends_in_a_pause_lets_nobody_write() {
    let (mut server, mut process, mut plain) = writing_rig();
    ok(&mut plain, "CONFIG SET claret.reservation-ms 500");
    let attempt = hold(&mut process, "k", "GETSET a");
    ok(&mut plain, "MULTI");
    ok(&mut plain, "GET k");
    error(&mut plain, "EXEC");
    commit(&mut process, attempt, 1);
    queue_behind(&mut process);
    let commits = number(&mut plain, "commits");
    ok(&mut plain, "CLIENT PAUSE 60000 WRITE");
    // Longer than the reservation; no event tells that its end lets nobody in.
    std::thread::sleep(Duration::from_millis(550));
    assert!(server.runs());
    assert_eq!(number(&mut plain, "commits"), commits);
    ok(&mut plain, "CLIENT UNPAUSE");
    wait_until("it commits after the pause", || number(&mut plain, "commits") == commits + 1);
}

#[test]
fn a_script_that_waited_breaks_no_key_that_it_did_not_declare() {
    let (server, mut process, mut plain) = rig();
    let declared = hold(&mut process, "{k}1", "GETSET 10");
    let held = hold(&mut process, "{k}2", "GETSET 20");
    let mut other = server.connect();
    let waits = std::thread::spawn(move || {
        let script = "redis.call('INCR', KEYS[1]); return redis.call('INCR', '{k}2')";
        redis::cmd("EVAL").arg(script).arg(1).arg("{k}1").query::<i64>(&mut other)
    });
    wait_until("it waits", || number(&mut plain, "plain_open") == 1);
    commit(&mut process, declared, 1);
    let refused = format!("{:?}", waits.join().expect("no panic").expect_err("the other key is held"));
    assert!(refused.to_uppercase().contains("TRYAGAIN"), "{refused}");
    commit(&mut process, held, 1);
    assert_eq!(ok(&mut plain, "MGET {k}1 {k}2"), Value::Array(vec![bulk("11"), bulk("20")]));
}

/// Whoever may run scripts could otherwise end the server.
#[test]
fn what_a_script_may_not_run_it_may_not_run_this_way() {
    let (mut server, _process, mut plain) = rig();
    for inner in ["'EVAL', 'return 1', '0'", "'FCALL', 'f', '0'", "'CLARET.WRITE', 'SET', 'k', 'v'"] {
        let script = format!("return redis.call('CLARET.WRITE', {inner})");
        let answer = redis::cmd("EVAL").arg(script).arg(0).query::<Value>(&mut plain);
        assert!(answer.is_err(), "{inner}: {answer:?}");
        ok(&mut plain, "PING");
        assert!(server.runs(), "{inner}");
    }
}

/// They are for commands that have keys; SYNC, for one, would make a replica of nobody.
#[test]
fn only_commands_with_keys_run_as_if_they_waited() {
    let (mut server, _process, mut plain) = rig();
    let names: Vec<String> = redis::cmd("COMMAND").arg("LIST").query(&mut plain).expect("all commands");
    assert!(names.len() > 200);
    for name in &names {
        let mut other = server.connect();
        for command in ["CLARET.WRITE", "CLARET.READ"] {
            let _ = redis::cmd(command).arg(name).arg(&["k", "1", "1", "1"]).query::<Value>(&mut other);
            let _ = redis::cmd(command).arg(name).query::<Value>(&mut other);
        }
        ok(&mut plain, "PING");
        assert!(server.runs(), "{name}");
    }
    for name in ["SYNC", "MULTI", "EXEC", "SUBSCRIBE", "SHUTDOWN", "FLUSHALL", "CLARET.HELLO", "CLARET.WRITE"]
    {
        let refused = error(&mut plain, &format!("CLARET.WRITE {name} 1 2 3"));
        assert!(refused.contains("no command that waits"), "{name}: {refused}");
    }
}

/// A name that is no key's.
#[test]
fn a_shard_channel_is_no_key() {
    let (_server, mut process, mut plain) = rig();
    hold(&mut process, "ch", "GETSET 1");
    assert_eq!(ok(&mut plain, "SPUBLISH ch hello"), Value::Int(0));
    assert_eq!(number(&mut plain, "plain_guarded"), 0);
}

/// The pop's keys are among those that EXEC looks at.
#[test]
fn exec_is_refused_for_the_key_of_a_pop() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "MULTI");
    ok(&mut plain, "INCR {l}n");
    ok(&mut plain, "BLPOP {l} 0");
    hold(&mut process, "{l}", "LLEN");
    let refused = error(&mut plain, "EXEC");
    assert!(refused.to_uppercase().contains("EXECABORT"), "{refused}");
    assert_eq!(ok(&mut plain, "EXISTS {l}n"), Value::Int(0), "nothing of it ran");
}

/// Without a cluster a server has several databases; records are those of the first.
#[test]
fn other_databases_are_other_keys() {
    let (server, mut process, mut plain) = rig();
    let voted = hold(&mut process, "k", "SETNX.RETURNING mine");
    vote(&mut process, voted, 1);
    ok(&mut plain, "SELECT 1");
    ok(&mut plain, "MSET k 1 j 2");
    ok(&mut plain, "FLUSHDB");
    ok(&mut plain, "SWAPDB 1 2");
    ok(&mut plain, "SET k theirs");
    let mut moving = server.connect();
    let moves = std::thread::spawn(move || {
        ok(&mut moving, "SELECT 1");
        run(&mut moving, "MOVE k 0")
    });
    wait_until("it waits: it would write a key that is held", || number(&mut plain, "plain_open") == 1);
    assert!(!moves.is_finished());
    process.frame(&[Request::Apply { attempt: voted }]);
    assert_eq!(moves.join().expect("no panic"), Ok(Value::Int(0)), "there is one already");
    ok(&mut plain, "SELECT 0");
    assert_eq!(ok(&mut plain, "GET k"), bulk("mine"), "a flush of another database took nothing of it");
}

#[test]
fn a_pop_in_another_database_waits_for_no_transaction() {
    let (_server, mut process, mut plain) = rig();
    hold(&mut process, "l", "LLEN");
    ok(&mut plain, "SELECT 1");
    ok(&mut plain, "RPUSH l a");
    assert_eq!(ok(&mut plain, "BLPOP l 1"), Value::Array(vec![bulk("l"), bulk("a")]));
}

/// Put behind `CLARET.READ` a command answers what it would have answered, in both protocols, also after a wait.
#[test]
fn answers_are_those_of_the_command_itself() {
    let (server, mut process, mut plain) = rig();
    for line in [
        "RPUSH l a b",
        "SADD s a b c",
        "HSET h f v g w",
        "ZADD z 1 a 2.5 b",
        "GEOADD g 13.361389 38.115556 p",
        "XADD x 1-1 f v",
        "SET t text",
        "PFADD p a",
        "SET {t}u tent",
    ] {
        ok(&mut plain, line);
    }
    let lines = [
        "GET t",
        "GET missing",
        "MGET t missing l",
        "STRLEN t",
        "LRANGE l 0 -1",
        "LPOS l z",
        "SMEMBERS s",
        "SMISMEMBER s a z",
        "HGETALL h",
        "HRANDFIELD h 2 WITHVALUES",
        "ZSCORE z b",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZMSCORE z a q",
        "ZRANK z q",
        "GEOPOS g p q",
        "XRANGE x - +",
        "XREAD STREAMS x 0",
        "XINFO STREAM x",
        "LCS t {t}u IDX",
        "OBJECT ENCODING h",
        "EXISTS t missing",
        "TTL t",
        "LRANGE t 0 1",
        "SINTERCARD 1 s",
        "EVAL_RO return{1,false,'x'} 1 t",
        "EVAL_RO return{double=3.5} 1 t",
    ];
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port);
        let client = redis::Client::open(url).expect("an url");
        let mut reader = client.get_connection().expect("it answers");
        for line in lines {
            // A container is looked at as one that writes.
            let before =
                if line.starts_with("OBJECT") || line.starts_with("XINFO") { "WRITE" } else { "READ" };
            let (own, behind) =
                (run(&mut reader, line), run(&mut reader, &format!("CLARET.{before} {line}")));
            assert_eq!(format!("{own:?}"), format!("{behind:?}"), "{protocol} {line}");
        }
        let attempt = hold(&mut process, "h", &format!("HSET.RETURNING f {protocol}"));
        let waits = std::thread::spawn(move || ok(&mut reader, "HGETALL h"));
        wait_until("it waits", || number(&mut plain, "plain_open") == 1);
        commit(&mut process, attempt, 1);
        let (seen, is_map) = (waits.join().expect("no panic"), protocol == "resp3");
        assert_eq!(matches!(seen, Value::Map(_)), is_map, "{seen:?}");
    }
}
