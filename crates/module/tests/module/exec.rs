//! `CLARET.EXEC`, `CLARET.LOCKS`, `CLARET.RESOLVE`, `INFO claret` and `CONFIG claret.*` on a real server.

use std::time::{Duration, Instant};

use crate::common::{Process, Server, cluster, wait_until};
use claret_core::ShardId;
use claret_core::message::{Request, Response};
use redis::{Connection, RedisResult, Value};

fn exec(connection: &mut Connection, line: &str) -> RedisResult<Value> {
    redis::cmd("CLARET.EXEC").arg(line.split(' ').collect::<Vec<_>>()).query(connection)
}

fn error(connection: &mut Connection, line: &str) -> String {
    exec(connection, line).expect_err(line).to_string()
}

fn number(connection: &mut Connection, name: &str) -> u64 {
    let shown: String = redis::cmd("INFO").arg("claret").query(connection).expect("its numbers");
    let line = shown.lines().find_map(|line| line.strip_prefix(&format!("claret_{name}:")));
    line.unwrap_or_else(|| panic!("{name} is not in {shown}")).parse().expect("a number")
}

#[test]
fn a_transaction_of_one_go_answers_each_operation_or_does_nothing() {
    let server = Server::start(&[]);
    let mut plain = server.connect();
    wait_until("the shard begins", || exec(&mut plain, "3 SADD tags red 2 INCR hits").is_ok());
    let all =
        exec(&mut plain, "2 get hits 2 smembers tags 3 incrby.returning hits 4 3 sadd.returning tags blue");
    let red = Value::Array(vec![Value::BulkString(b"red".to_vec())]);
    let hits = Value::BulkString(b"1".to_vec());
    assert_eq!(all.expect("done"), Value::Array(vec![hits, red, Value::Int(5), Value::Int(1)]));
    let wrong = exec(&mut plain, "2 INCR hits 2 INCR tags").expect_err("a set");
    assert!(format!("{wrong:?}").contains("WRONGTYPE"), "{wrong:?}");
    let hits: i64 = redis::cmd("GET").arg("hits").query(&mut plain).expect("a number");
    assert_eq!(hits, 5, "nothing was done");
    assert!(error(&mut plain, "2 NONSENSE k").contains("unknown operation"));
    assert!(error(&mut plain, "3 INCR hits").contains("number of its words"));
    assert!(error(&mut plain, "3 INCRBY hits x").contains("not an integer"));
    let docs: Value =
        redis::cmd("COMMAND").arg("DOCS").arg("CLARET.EXEC").query(&mut plain).expect("its page");
    assert!(format!("{docs:?}").contains("Runs operations on keys of this node"), "{docs:?}");
}

#[test]
fn it_waits_for_a_holder_and_gives_up_in_time() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 1);
    let first = process.begin();
    let execute = process.execute(first, 1, "k", "GETSET a");
    process.frame(&[execute]);
    let mut plain = server.connect();
    let () =
        redis::cmd("CONFIG").arg("SET").arg("claret.plain-wait-ms").arg(100).query(&mut plain).expect("set");
    let began = Instant::now();
    assert!(error(&mut plain, "2 GET k 2 INCR other").contains("not free within"));
    assert!(began.elapsed() >= Duration::from_millis(99));
    let () =
        redis::cmd("CONFIG").arg("SET").arg("claret.plain-wait-ms").arg(5000).query(&mut plain).expect("set");
    let mut other = server.connect();
    let waiting = std::thread::spawn(move || exec(&mut other, "2 GET k 2 INCR other"));
    wait_until("it waits", || number(&mut plain, "execs_open") == 1);
    let locks: Value = redis::cmd("CLARET.LOCKS").arg("k").query(&mut plain).expect("the locks");
    let Value::Array(records) = locks else { panic!("an array") };
    assert_eq!(records.len(), 1);
    let prepare = process.prepare_with(first, 1, &[], &[(process.shard, Some(process.incarnation))]);
    assert!(matches!(&process.frame(&[prepare])[..], [Response::Committed { .. }]));
    let answers = waiting.join().expect("it ended").expect("done");
    let Value::Array(answers) = answers else { panic!("an array") };
    assert_eq!(answers[0], Value::BulkString(b"a".to_vec()));
    let other: i64 = redis::cmd("GET").arg("other").query(&mut plain).expect("a number");
    assert_eq!((other, number(&mut plain, "open_attempts"), number(&mut plain, "held_keys")), (1, 0, 0));
}

#[test]
fn in_scripts_and_in_multi_it_does_not_wait() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 1);
    let mut plain = server.connect();
    let script = "return redis.call('CLARET.EXEC', '2', 'INCR.RETURNING', ARGV[1])";
    let eval = |key: &str| redis::cmd("EVAL").arg(script).arg(0).arg(key).to_owned();
    let done: Vec<i64> = eval("hits").query(&mut plain).expect("done");
    assert_eq!(done, [1]);
    let first = process.begin();
    let execute = process.execute(first, 1, "held", "GETSET a");
    process.frame(&[execute]);
    let refused = eval("held").query::<Value>(&mut plain).expect_err("held");
    assert!(format!("{refused:?}").to_uppercase().contains("TRYAGAIN"), "{refused:?}");
    let mut both = redis::pipe();
    both.atomic()
        .cmd("CLARET.EXEC")
        .arg(&["2", "INCR", "hits"])
        .cmd("CLARET.EXEC")
        .arg(&["2", "GET", "held"]);
    assert!(both.query::<Value>(&mut plain).is_err());
    wait_until("what did not wait is withdrawn", || number(&mut plain, "execs_open") == 0);
    let acl =
        redis::cmd("ACL").arg(&["SETUSER", "al", "on", ">pw", "~a:*", "+@all"]).query::<Value>(&mut plain);
    acl.expect("a user");
    let mut al = server.connect_as("al", "pw");
    assert!(eval("hits").query::<Value>(&mut al).is_err(), "a script does no more than its caller may");
    let hits: i64 = redis::cmd("GET").arg("hits").query(&mut plain).expect("a number");
    assert_eq!(hits, 2);
}

#[test]
fn many_at_once_on_the_same_keys_in_other_orders_all_end() {
    let server = Server::start(&[]);
    let mut plain = server.connect();
    wait_until("the shard begins", || exec(&mut plain, "2 INCR a 2 INCR b").is_ok());
    // Each takes both counters exclusively, in either order, while interactive ones hold one of them.
    let threads: Vec<_> = (0..4)
        .map(|at| {
            let mut connection = server.connect();
            std::thread::spawn(move || {
                let line = if at % 2 == 0 {
                    "2 INCR.RETURNING a 2 INCR.RETURNING b"
                } else {
                    "2 INCR.RETURNING b 2 INCR.RETURNING a"
                };
                for _ in 0..200 {
                    exec(&mut connection, line).expect("done");
                }
            })
        })
        .collect();
    let mut process = Process::hello(&server, 3);
    for _ in 0..50 {
        let attempt = process.begin();
        let execute = process.execute(attempt, 1, "b", "INCR.RETURNING");
        process.frame(&[execute]);
        process.frame(&[Request::Abort { attempt, refused_by: None }]);
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it ended"));
    let (a, b): (i64, i64) = redis::cmd("MGET").arg(&["a", "b"]).query(&mut plain).expect("numbers");
    assert_eq!((a, b), (801, 801));
    assert_eq!((number(&mut plain, "open_attempts"), number(&mut plain, "held_keys")), (0, 0));
}

#[test]
fn an_operator_resolves_what_is_in_doubt() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 11);
    let mut plain = server.connect();
    for (decision, left) in [("COMMIT", Some("x")), ("ABORT", None)] {
        let attempt = process.begin();
        let both = [(process.shard, Some(process.incarnation)), (ShardId(9999), None)];
        let prepare = process.prepare_with(attempt, 0, &[(decision, "SET x")], &both);
        let voted = process.frame(&[prepare]);
        assert!(matches!(voted.last(), Some(Response::Voted { .. })), "{voted:?}");
        assert_eq!(number(&mut plain, "in_doubt"), 1);
        let () = redis::cmd("CLARET.RESOLVE")
            .arg(attempt.to_string())
            .arg(decision)
            .query(&mut plain)
            .expect("it is in doubt");
        let value: Option<String> = redis::cmd("GET").arg(decision).query(&mut plain).expect("a string");
        assert_eq!(value.as_deref(), left);
        assert_eq!((number(&mut plain, "in_doubt"), number(&mut plain, "held_keys")), (0, 0));
        let again =
            redis::cmd("CLARET.RESOLVE").arg(attempt.to_string()).arg(decision).query::<Value>(&mut plain);
        assert!(again.expect_err("decided").to_string().contains("not in doubt"));
    }
    assert!(server.log().contains("is committed by user 'default'"));
}

#[test]
fn keys_of_another_node_are_moved_and_of_several_nodes_refused() {
    let servers = cluster(2, &[]);
    let mut plain = servers[0].connect();
    // A shard is named after its node.
    for server in &servers {
        let id: String = redis::cmd("CLUSTER").arg("MYID").query(&mut server.connect()).expect("its id");
        let name = u32::from_str_radix(&id[..8], 16).expect("digits");
        assert_eq!(Process::hello(server, 1).shard, ShardId(name));
    }
    // Slots: foo 12182, bar 5061, hello 866.
    assert!(exec(&mut plain, "3 SET bar 1 3 SET hello 2").is_ok(), "two slots of one node");
    let moved = exec(&mut plain, "3 SET foo 1").expect_err("of the other node");
    assert!(format!("{moved:?}").to_uppercase().contains("MOVED"), "{moved:?}");
    assert!(error(&mut plain, "3 SET foo 1 3 SET bar 2").contains("one node"));
}

/// Bug: Redis 7.0 itself answers clients that wait when the cluster is down, and the transaction of one go went on
/// waiting. Consequence: it was answered CLUSTERDOWN and carried out when its locks were free, before the timer that
/// withdraws it. Mend: whoever waits no more is refused before anything else comes into the shard. Later servers let
/// them wait, and then all of it is carried out.
#[test]
fn what_was_answered_by_the_server_is_not_carried_out_later() {
    let servers = cluster(2, &["--claret.lease-ms", "60000", "--claret.plain-wait-ms", "60000"]);
    // Its slot, 5061, is the first node's.
    let mut process = Process::hello(&servers[0], 1);
    let holder = process.begin();
    let execute = process.execute(holder, 1, "bar", "GETSET 1");
    process.frame(&[execute]);
    let waits: Vec<_> = (0..3)
        .map(|_| {
            let mut waits = servers[0].connect();
            waits.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
            std::thread::spawn(move || exec(&mut waits, "3 APPEND bar x"))
        })
        .collect();
    let mut plain = servers[0].connect();
    wait_until("they wait", || number(&mut plain, "open_attempts") == 4);
    let signal = |name: &str| {
        let pid = servers[1].pid().to_string();
        let status = std::process::Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(status.success());
    };
    let about: String = redis::cmd("INFO").arg("server").query(&mut plain).expect("its version");
    let answers_who_waits = about.contains("redis_version:7.0");
    signal("-STOP");
    wait_until("the cluster is down", || {
        let state: String = redis::cmd("CLUSTER").arg("INFO").query(&mut plain).expect("its state");
        state.contains("cluster_state:fail")
    });
    wait_until("who waits is answered, or waits on", || {
        !answers_who_waits || waits.iter().all(|waits| waits.is_finished())
    });
    signal("-CONT");
    let commit = process.prepare_with(holder, 1, &[], &[(process.shard, Some(process.incarnation))]);
    let until = Instant::now() + Duration::from_secs(30);
    let told = loop {
        match process.try_frame(std::slice::from_ref(&commit)) {
            Ok(told) => break told,
            Err(error) => assert!(Instant::now() < until, "the cluster is down: {error}"),
        }
    };
    assert!(told.iter().any(|told| matches!(told, Response::Committed { .. })), "{told:?}");
    let answers: Vec<_> = waits.into_iter().map(|waits| waits.join().expect("an answer")).collect();
    for answer in &answers {
        match answer {
            Ok(_) => assert!(!answers_who_waits, "{answers:?}"),
            Err(error) => assert!(format!("{error:?}").to_uppercase().contains("CLUSTERDOWN"), "{answers:?}"),
        }
    }
    wait_until("nobody is left", || number(&mut plain, "open_attempts") == 0);
    let value: String = redis::cmd("GET").arg("bar").query(&mut plain).expect("a value");
    let done = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(value, format!("1{}", "x".repeat(done)), "what was refused is not there: {answers:?}");
}

/// Who leaves while its transaction of one go waits has no transaction any more, however long the holder stays.
#[test]
fn a_departed_clients_transaction_is_withdrawn_while_it_waits() {
    let server = Server::start(&["--claret.lease-ms", "60000", "--claret.plain-wait-ms", "60000"]);
    let mut process = Process::hello(&server, 1);
    let holder = process.begin();
    let execute = process.execute(holder, 1, "k", "GETSET 1");
    process.frame(&[execute]);
    let mut plain = server.connect();
    let mut goes = std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let words = ["CLARET.EXEC", "3", "APPEND", "k", "x"];
    let line: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    std::io::Write::write_all(&mut goes, format!("*5\r\n{}", line.concat()).as_bytes()).expect("it is sent");
    wait_until("it waits", || number(&mut plain, "open_attempts") == 2);
    drop(goes);
    wait_until("it is withdrawn", || number(&mut plain, "open_attempts") == 1);
    let commit = process.prepare_with(holder, 1, &[], &[(process.shard, Some(process.incarnation))]);
    process.frame(&[commit]);
    let value: String = redis::cmd("GET").arg("k").query(&mut plain).expect("a value");
    assert_eq!(value, "1");
}
