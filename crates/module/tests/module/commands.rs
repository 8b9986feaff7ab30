//! Commands of the server as steps of a transaction (A19 to A25 of docs/scripts.md): they are carried out with the commit, and answer
//! then; what cannot be done is refused before the vote.

use claret_core::CallNo;
use claret_core::message::{Refusal, Request, Response};
use claret_types::Reply;
use redis::Value;

use crate::common::beside::{Waits, bulk, number, ok, rig, run};
use crate::common::{Process, Server, wait_until};

/// The calls of one transaction: what it is answered, or why it is refused.
fn commit(process: &mut Process, calls: &[(&str, &str)]) -> Result<Vec<(CallNo, Reply)>, Refusal> {
    let attempt = process.begin();
    let prepare = process.prepare(attempt, calls);
    match process.frame(&[prepare]).pop().expect("an answer") {
        Response::Committed { replies, .. } => Ok(replies),
        Response::Refused { refusal, .. } => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn refused(process: &mut Process, key: &str, words: &str) -> String {
    commit(process, &[(key, words)]).expect_err("it cannot be done").to_string()
}

#[test]
fn commands_are_carried_out_in_their_order_and_answer_with_the_commit() {
    let (_server, mut process, mut plain) = rig();
    let calls = [
        ("log", "RECORD.RUN XADD log 5-1 f v"),
        ("sum", "INCRBY 3"),
        ("seen", "RECORD.RUN PFADD seen ann"),
        ("log", "RECORD.RUN_RO XLEN log"),
        ("log", "RECORD.RUN EXPIRE log 100"),
        ("log", "RECORD.RUN XADD log 5-2 f w"),
        ("log", "RECORD.RUN_RO XRANGE log - +"),
    ];
    let replies = commit(&mut process, &calls).expect("it commits");
    let entry =
        |id: &str, value: &str| Reply::Array(vec![id.into(), Reply::Array(vec!["f".into(), value.into()])]);
    let expected = [
        (1, Reply::from("5-1")),
        (3, Reply::Int(1)),
        (4, Reply::Int(1)),
        (5, Reply::Int(1)),
        (6, Reply::from("5-2")),
        (7, Reply::Array(vec![entry("5-1", "v"), entry("5-2", "w")])),
    ];
    assert_eq!(replies, expected.map(|(no, reply)| (CallNo(no), reply)));
    assert_eq!(ok(&mut plain, "TTL log"), Value::Int(100));
    assert_eq!(ok(&mut plain, "GET sum"), bulk("3"));
    assert_eq!(ok(&mut plain, "DBSIZE"), Value::Int(3), "what was tried on other keys is gone");
}

/// Bug: each command was looked at behind all that came before it, so that a MULTI of 4,000 XADD took two seconds.
#[test]
fn many_commands_of_one_transaction_are_not_looked_at_again_for_each() {
    let (_server, mut process, mut plain) = rig();
    let before = number(&mut plain, "replays");
    let calls = vec![("log", "RECORD.RUN XADD log * f v"); 300];
    assert_eq!(commit(&mut process, &calls).expect("it commits").len(), 300);
    assert_eq!(ok(&mut plain, "XLEN log"), Value::Int(300));
    let looked_at = number(&mut plain, "replays") - before;
    assert!(looked_at < 600, "{looked_at}");
    // What matters of them is known, however many there are.
    let many = |first: &[&'static str], last: &'static str| {
        let padding = ["RECORD.RUN EXPIRE other 100"; 12].map(|words| ("other", words));
        let own = first.iter().map(|words| ("other", *words));
        own.chain(padding).chain([("other", last)]).collect::<Vec<_>>()
    };
    let add = "RECORD.RUN XADD other 5-1 f v";
    let create = "RECORD.RUN XGROUP CREATE other g $";
    let read = "RECORD.RUN XREADGROUP GROUP g me STREAMS other >";
    for (first, last, why) in [
        (&[add, create][..], create, "BUSYGROUP"),
        (&[add, create, "RECORD.RUN DEL other", add], read, "NOGROUP"),
        (&[add, "RECORD.RUN DEL other", "RECORD.RUN RPUSH other x"], "RECORD.RUN XLEN other", "WRONGTYPE"),
        (&[add, create, "RECORD.RUN XGROUP DESTROY other g"], read, "NOGROUP"),
    ] {
        let said = commit(&mut process, &many(first, last)).expect_err("it cannot be done").to_string();
        assert!(said.contains(why), "{first:?} {last}: {said}");
    }
    let again = [add, create, "RECORD.RUN DEL other", add, create, "RECORD.RUN XADD other 6-1 f v"];
    assert_eq!(commit(&mut process, &many(&again, read)).expect("it commits").len(), 19);
}

#[test]
fn nobody_comes_between_a_vote_and_a_command_and_it_answers_once_more() {
    let server = Server::start_with(&[("CLARET_PLANTED_SHARDS", "1")], &[]);
    let mut process = Process::hello(&server, 7);
    let mut plain = server.connect();
    ok(&mut plain, "XADD log 1-1 f v");
    let attempt = process.begin();
    let own = (process.shard, Some(process.incarnation));
    let other = (claret_core::ShardId(process.shard.0 + 1), None);
    let prepare = process.prepare_with(attempt, 0, &[("log", "RECORD.RUN XADD log 2-1 f w")], &[own, other]);
    let answers = process.frame(&[prepare]);
    assert!(matches!(&answers[..], [Response::Voted { replies, .. }] if replies.is_empty()), "{answers:?}");
    let reader = Waits::on(&server, "XLEN log");
    reader.still();
    for _ in 0..2 {
        let answers = process.frame(&[Request::Apply { attempt }]);
        let [Response::Committed { replies, .. }] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(replies, &[(CallNo(1), Reply::from("2-1"))]);
    }
    assert_eq!(reader.answer(), Value::Int(2));
    assert_eq!(ok(&mut plain, "XLEN log"), Value::Int(2), "it was carried out once");
}

#[test]
fn what_cannot_be_done_is_refused_before_the_vote() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "SET text x");
    ok(&mut plain, "XADD log 5-5 f v");
    ok(&mut plain, "XGROUP CREATE log workers $");
    for (key, words, why) in [
        ("text", "RECORD.RUN XADD text * f v", "WRONGTYPE"),
        ("text", "RECORD.RUN PFADD text a", "WRONGTYPE Key is not a valid HyperLogLog"),
        ("log", "RECORD.RUN XADD log 5-5 f v", "equal or smaller"),
        ("log", "RECORD.RUN XADD log MAXLEN ~ 10 5-4 f v", "equal or smaller"),
        ("log", "RECORD.RUN XADD log x f v", "Invalid stream ID"),
        ("log", "RECORD.RUN XADD log", "wrong number of arguments"),
        ("log", "RECORD.RUN XADD log 4-* f v", "equal or smaller"),
        ("log", "RECORD.RUN XDEL log wrong", "Invalid stream ID"),
        ("log", "RECORD.RUN XACK log workers wrong", "Invalid stream ID"),
        ("log", "RECORD.RUN XGROUP CREATE log others wrong", "Invalid stream ID"),
        ("log", "RECORD.RUN XSETID log 5-4", "smaller than the target"),
        ("log", "RECORD.RUN_RO XINFO CONSUMERS log nobody", "NOGROUP"),
        ("log", "RECORD.RUN RESTORE log 0 x", "payload version"),
        ("log", "RECORD.RUN XGROUP CREATE log workers $", "BUSYGROUP"),
        ("log", "RECORD.RUN XREADGROUP GROUP nobody me STREAMS log >", "NOGROUP"),
        ("none", "RECORD.RUN XGROUP CREATE none workers $", "requires the key to exist"),
        ("map", "RECORD.RUN GEOADD map 200 100 x", "invalid longitude,latitude"),
        ("map", "RECORD.RUN BITFIELD map SET u99 0 1", "Invalid bitfield type"),
        ("map", "RECORD.RUN NOSUCH map", "unknown command"),
        ("map", "RECORD.RUN BLPOP map 1", "cannot be a step"),
        ("map", "RECORD.RUN EVAL x 1 map", "cannot be a step"),
        ("map", "RECORD.RUN SORT map BY w_*", "cannot be a step"),
        ("map", "RECORD.RUN PFMERGE map other", "on one key alone"),
        ("map", "RECORD.RUN SET other x", "on one key alone"),
    ] {
        let said = commit(&mut process, &[("sum", "INCRBY 1"), (key, words)]);
        let said = said.map_or_else(|refusal| refusal.to_string(), |replies| format!("done: {replies:?}"));
        assert!(said.contains(why), "{words}: {said}");
    }
    assert_eq!(ok(&mut plain, "EXISTS sum"), Value::Int(0), "nothing of them is done");
    assert_eq!(ok(&mut plain, "DBSIZE"), Value::Int(2));
}

#[test]
fn what_the_transaction_did_before_counts() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "SET text x");
    ok(&mut plain, "XADD log 5-5 f v");
    ok(&mut plain, "XGROUP CREATE log workers $");
    let replies = commit(
        &mut process,
        &[("log", "DEL"), ("log", "RECORD.RUN XADD log 1-1 f v"), ("log", "RECORD.RUN XADD log 2-1 f v")],
    );
    assert_eq!(replies.expect("it begins anew").len(), 2);
    let calls = [
        ("log", "RECORD.RUN XGROUP CREATE log new $"),
        ("log", "RECORD.RUN XREADGROUP GROUP new me STREAMS log >"),
        ("log", "RECORD.RUN XREADGROUP GROUP workers me STREAMS log >"),
    ];
    assert!(
        commit(&mut process, &calls).expect_err("it went with the stream").to_string().contains("NOGROUP")
    );
    assert_eq!(commit(&mut process, &calls[..2]).expect("both").len(), 2);
    let calls = [
        ("seen", "RECORD.RUN PFADD seen a"),
        ("seen", "RECORD.RUN PFADD seen b"),
        ("seen", "RECORD.RUN PFCOUNT seen"),
    ];
    let replies = commit(&mut process, &calls).expect("it counts").into_iter().map(|(_, reply)| reply);
    assert_eq!(replies.collect::<Vec<_>>(), [1, 1, 2].map(Reply::Int));
    let said = commit(&mut process, &[("word", "SET x"), ("word", "RECORD.RUN PFADD word a")]);
    assert!(said.expect_err("a word").to_string().contains("HyperLogLog"));
    // Words that are as the key is are none.
    let replies =
        commit(&mut process, &[("7", "RECORD.RUN BITFIELD 7 SET u8 7 1"), ("7", "RECORD.RUN EXPIRE 7 7")]);
    assert_eq!(replies.expect("it is done").len(), 2);
    // What overwrites does so whatever is there.
    let calls = [
        ("log", "RECORD.RUN XADD log 9-1 f v"),
        ("log", "RECORD.RUN SET log x"),
        ("log", "RECORD.RUN_RO GET log"),
    ];
    let replies = commit(&mut process, &calls).expect("it is overwritten");
    assert_eq!(replies[1..], [(CallNo(2), Reply::Ok), (CallNo(3), Reply::from("x"))]);
    let replies = commit(&mut process, &[("text", "DEL"), ("text", "RECORD.RUN XADD text 1-1 f v")]);
    assert_eq!(replies.expect("it is gone by then"), [(CallNo(2), Reply::from("1-1"))]);
    let said = commit(&mut process, &[("new", "SADD x"), ("new", "RECORD.RUN XADD new * f v")]);
    assert!(said.expect_err("a set by then").to_string().contains("WRONGTYPE"));
    let said = commit(&mut process, &[("more", "RECORD.RUN XADD more * f v"), ("more", "EXISTS")]);
    assert!(said.expect_err("an operation behind it").to_string().contains("further commands alone"));
}

#[test]
fn a_command_says_whether_it_writes() {
    let (_server, mut process, mut plain) = rig();
    assert!(refused(&mut process, "log", "RECORD.RUN_RO XADD log * f v").contains("may write"));
    ok(&mut plain, "XGROUP CREATE log workers $ MKSTREAM");
    let read = "RECORD.RUN_RO XREADGROUP GROUP workers me STREAMS log >";
    assert!(refused(&mut process, "log", read).contains("may write"));
    assert!(commit(&mut process, &[("log", "RECORD.RUN_RO XINFO STREAM log")]).is_ok());
    ok(&mut plain, "XADD log 1-1 f v");
    let replies = commit(&mut process, &[("log", "RECORD.RUN_RO XLEN log")]).expect("it reads");
    assert_eq!(replies, [(CallNo(1), Reply::Int(1))]);
    // Each answer has a bound, and all of them together.
    ok(&mut plain, &format!("XADD log 2-1 f {}", "x".repeat(9 << 20)));
    let read = ("log", "RECORD.RUN_RO XRANGE log - +");
    let replies = commit(&mut process, &[read, read, read, read]).expect("it reads");
    let failed = |(_, reply): &(CallNo, Reply)| matches!(reply, Reply::Failed(_));
    assert_eq!(replies.iter().map(failed).collect::<Vec<_>>(), [false, false, false, true]);
    ok(&mut plain, &format!("XADD log 3-1 f {}", "x".repeat(9 << 20)));
    let replies = commit(&mut process, &[read]).expect("it reads");
    assert!(failed(&replies[0]), "over 16 MiB");
}

/// A31.
#[test]
fn a_server_is_asked_now_of_what_is_committed() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "XADD log 5-1 f v");
    ok(&mut plain, "PFADD seen ann bob");
    let before = ok(&mut plain, "DUMP seen");
    let calls = [
        ("log", "RECORD.ASK XLEN log"),
        ("none", "RECORD.ASK XLEN none"),
        ("seen", "RECORD.ASK PFCOUNT seen"),
        ("log", "RECORD.RUN XADD log 6-1 f w"),
    ];
    let replies = commit(&mut process, &calls).expect("it commits");
    let right = [(1, Reply::Int(1)), (2, Reply::Int(0)), (3, Reply::Int(2)), (4, Reply::from("6-1"))];
    assert_eq!(replies, right.map(|(no, reply)| (CallNo(no), reply)));
    assert_eq!(ok(&mut plain, "DUMP seen"), before, "nothing was counted in it");
    assert_eq!(ok(&mut plain, "DBSIZE"), Value::Int(2), "what it was copied to is gone");
    // What is long is not copied to be counted.
    ok(&mut plain, &format!("SETRANGE long {} x", 70_000));
    assert!(refused(&mut process, "long", "RECORD.ASK PFCOUNT long").contains("not a valid HyperLogLog"));
    ok(&mut plain, "DEL long");
    let asked = commit(&mut process, &[("sum", "INCRBY 3"), ("sum", "RECORD.ASK BITFIELD_RO sum GET u8 0")]);
    assert!(asked.expect_err("changed before").to_string().contains("which this transaction has changed"));
    for (words, why) in [
        ("RECORD.ASK XADD log * f v", "may write"),
        ("RECORD.ASK XLEN", "wrong number of arguments"),
        ("RECORD.ASK XINFO CONSUMERS log nobody", "NOGROUP"),
        ("RECORD.ASK GEOSEARCH log FROMLONLAT 1 1 BYRADIUS 1 m", "WRONGTYPE"),
        ("RECORD.ASK SORT log", "cannot be a step"),
        ("RECORD.ASK PFCOUNT log", "WRONGTYPE"),
    ] {
        let said = refused(&mut process, "log", words);
        assert!(said.contains(why), "{words}: {said}");
    }
    run(&mut plain, "ACL SETUSER al on >pw ~log* +@all -xlen &claret:al:*").expect("a user");
    let mut al = Process::over(server.connect_as("al", "pw"), 1, 1, &[]);
    let denied = commit(&mut al, &[("log", "RECORD.ASK XLEN log")]).expect_err("not allowed");
    assert!(matches!(denied, Refusal::Denied { .. }), "{denied}");
    assert!(commit(&mut al, &[("log", "RECORD.ASK XRANGE log - +")]).is_ok());
}

#[test]
fn who_may_not_send_a_command_has_no_such_step() {
    let (server, _process, mut plain) = rig();
    run(&mut plain, "ACL SETUSER al on >pw ~log* +@all -xtrim &claret:al:*").expect("a user");
    let mut al = Process::over(server.connect_as("al", "pw"), 1, 1, &[]);
    assert!(commit(&mut al, &[("log", "RECORD.RUN XADD log 1-1 f v")]).is_ok());
    for (key, words) in [("log", "RECORD.RUN XTRIM log MAXLEN 0"), ("other", "RECORD.RUN XADD other * f v")] {
        let refusal = commit(&mut al, &[(key, words)]).expect_err("not allowed");
        assert!(matches!(refusal, Refusal::Denied { .. }), "{words}: {refusal}");
    }
    // A key that the command has, and the call has not.
    let said = refused(&mut al, "log", "RECORD.RUN XADD other * f v");
    assert!(said.contains("may not run"), "{said}");
    assert_eq!(ok(&mut plain, "XLEN log"), Value::Int(1));
}

#[test]
fn a_record_that_ends_meanwhile_ends_behind_the_command() {
    let server = Server::start_with(&[("CLARET_PLANTED_SHARDS", "1")], &[]);
    let mut process = Process::hello(&server, 7);
    let mut plain = server.connect();
    ok(&mut plain, "XADD log 1-1 f v");
    ok(&mut plain, "PEXPIRE log 300");
    let Value::Int(end) = ok(&mut plain, "PEXPIRETIME log") else { panic!("it has an end") };
    let attempt = process.begin();
    let own = (process.shard, Some(process.incarnation));
    let other = (claret_core::ShardId(process.shard.0 + 1), None);
    let calls = [("log", "RECORD.RUN XADD log 2-1 f w"), ("log", "RECORD.RUN_RO XLEN log")];
    let prepare = process.prepare_with(attempt, 0, &calls, &[own, other]);
    process.frame(&[prepare]);
    wait_until("its time is over", || {
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(&mut plain).expect("the time");
        seconds * 1_000 + micros / 1_000 > end
    });
    let answers = process.frame(&[Request::Apply { attempt }]);
    let [Response::Committed { replies, .. }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(replies, &[(CallNo(1), Reply::from("2-1")), (CallNo(2), Reply::Int(2))]);
    assert_eq!(ok(&mut plain, "EXISTS log"), Value::Int(0), "and then it has ended");
}

#[test]
fn a_replica_has_what_commands_left_and_nothing_of_what_was_tried() {
    let primary = Server::start(&[]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let mut process = Process::hello(&primary, 1);
    let mut above = primary.connect();
    wait_until("the replica is there", || {
        let info: String = redis::cmd("INFO").arg("replication").query(&mut above).expect("its state");
        info.contains("state=online")
    });
    let calls = [
        ("log", "RECORD.RUN XADD log * f v"),
        ("log", "RECORD.RUN XGROUP CREATE log workers 0"),
        ("log", "RECORD.RUN XREADGROUP GROUP workers me STREAMS log >"),
        ("log", "RECORD.RUN PEXPIREAT log 4102444800000"),
        ("sum", "INCRBY 1"),
    ];
    assert_eq!(commit(&mut process, &calls).expect("it commits").len(), 4);
    let synced: i64 = redis::cmd("WAIT").arg(1).arg(5000).query(&mut process.connection).expect("it waits");
    assert_eq!(synced, 1);
    let mut below = replica.connect();
    for line in ["DBSIZE", "XRANGE log - +", "XPENDING log workers", "PEXPIRETIME log", "GET sum"] {
        assert_eq!(ok(&mut above, line), ok(&mut below, line), "{line}");
    }
    assert_eq!(ok(&mut below, "DBSIZE"), Value::Int(2));
}

/// A node, a process, and a transaction with these calls that has voted beside another shard.
fn voted(
    environment: &[(&str, &str)],
    before: &[&str],
    calls: &[(&str, &str)],
) -> (Server, Process, Request) {
    let environment: Vec<_> = [("CLARET_PLANTED_SHARDS", "1")].iter().chain(environment).copied().collect();
    let server = Server::start_with(&environment, &[]);
    let mut process = Process::hello(&server, 7);
    let mut plain = server.connect();
    before.iter().for_each(|line| drop(ok(&mut plain, line)));
    let attempt = process.begin();
    let own = (process.shard, Some(process.incarnation));
    let other = (claret_core::ShardId(process.shard.0 + 1), None);
    let prepare = process.prepare_with(attempt, 0, calls, &[own, other]);
    assert!(matches!(process.frame(&[prepare])[..], [Response::Voted { .. }]));
    (server, process, Request::Apply { attempt })
}

fn applied(process: &mut Process, apply: Request) -> Vec<Reply> {
    match process.frame(&[apply]).pop() {
        Some(Response::Committed { replies, .. }) => replies.into_iter().map(|(_, reply)| reply).collect(),
        other => panic!("{other:?}"),
    }
}

fn vanished(reply: &Reply) -> bool {
    matches!(reply, Reply::Failed(error) if error.to_string().contains("expired or was removed"))
}

#[test]
fn a_command_sees_the_end_that_a_record_has_and_sets_another() {
    let calls = [
        ("log", "RECORD.RUN_RO PTTL log"),
        ("log", "RECORD.RUN EXPIRE log 200 GT"),
        ("log", "RECORD.RUN EXPIRE log 100 GT"),
    ];
    let (server, mut process, apply) = voted(&[], &["XADD log 1-1 f v", "EXPIRE log 100"], &calls);
    let replies = applied(&mut process, apply);
    assert!(matches!(replies[0], Reply::Int(90_000..=100_000)), "{:?}", replies[0]);
    assert_eq!(replies[1..], [Reply::Int(1), Reply::Int(0)]);
    let Value::Int(left) = ok(&mut server.connect(), "PTTL log") else { panic!("an end") };
    assert!((190_000..=200_000).contains(&left), "{left}");
}

#[test]
fn a_record_that_is_gone_by_then_gets_no_command() {
    let calls = [("log", "RECORD.RUN XADD log 2-1 f w"), ("sum", "INCRBY 1")];
    let (server, mut process, apply) = voted(&[], &["XADD log 1-1 f v"], &calls);
    let mut plain = server.connect();
    ok(&mut plain, "FLUSHALL");
    let replies = applied(&mut process, apply);
    assert!(vanished(&replies[0]), "{replies:?}");
    assert_eq!(ok(&mut plain, "EXISTS log"), Value::Int(0));
    // By what the transaction itself did before, too.
    let server = Server::start_with(&[("CLARET_PLANTED_DELAY", "log")], &[]);
    let (mut process, mut plain) = (Process::hello(&server, 7), server.connect());
    ok(&mut plain, "XADD log 1-1 f v");
    ok(&mut plain, "PEXPIRE log 300");
    let Value::Int(end) = ok(&mut plain, "PEXPIRETIME log") else { panic!("it has an end") };
    let expire = format!("PEXPIREAT {end}");
    let replies = commit(&mut process, &[("log", &expire), ("log", "RECORD.RUN XADD log 2-1 f w")]);
    let replies = replies.expect("it commits");
    assert!(vanished(&replies[0].1), "{replies:?}");
    assert_eq!(ok(&mut plain, "EXISTS log"), Value::Int(0), "it does not come back");
}

#[test]
fn what_adds_is_refused_when_memory_has_run_out() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "XADD log 1-1 f v");
    ok(&mut plain, "CONFIG SET maxmemory 1");
    let refusal = commit(&mut process, &[("log", "RECORD.RUN XADD log * f v")]).expect_err("it adds");
    assert!(matches!(refusal, Refusal::NoMemory { .. }), "{refusal}");
    assert!(commit(&mut process, &[("log", "RECORD.RUN XDEL log 1-1")]).is_ok(), "it takes away");
}
