//! Plain commands beside transactions: a test for each row of `docs/plain-commands.md`, on a real server.

use std::thread::sleep;
use std::time::Duration;

use crate::common::beside::{Waits, bulk, commit, error, hold, hold_more, number, ok, rig, run, vote};
use crate::common::{Process, Server, cluster, wait_until};
use claret_core::AttemptId;
use claret_core::message::{Refusal, Request, Response};
use redis::Value;

#[test]
fn what_is_not_held_and_what_commutes_runs_untouched() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "SADD s x");
    hold(&mut process, "s", "SADD.RETURNING y");
    ok(&mut plain, "SET other 1");
    assert_eq!(ok(&mut plain, "SADD s z"), Value::Int(1), "another element");
    assert_eq!(ok(&mut plain, "SISMEMBER s x"), Value::Int(1));
    hold(&mut process, "r", "GET");
    assert_eq!(ok(&mut plain, "GET r"), Value::Nil, "readers share");
    assert_eq!(ok(&mut plain, "STRLEN r"), Value::Int(0));
    assert_eq!(number(&mut plain, "plain_guarded"), 0);
}

#[test]
fn a_conflicting_command_waits_for_the_commit_and_sees_all_of_it() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "MSET {a}1 old {a}2 old");
    let attempt = hold(&mut process, "{a}1", "GETSET new");
    hold_more(&mut process, attempt, 2, "{a}2", "GETSET new");
    let read = Waits::on(&server, "MGET {a}1 {a}2");
    let write = Waits::on(&server, "SET {a}1 newest");
    read.still();
    commit(&mut process, attempt, 2);
    let (seen, done) = (read.answer(), write.answer());
    assert_eq!(done, Value::Okay);
    let Value::Array(seen) = seen else { panic!("{seen:?}") };
    assert!(seen[0] == bulk("new") || seen[0] == bulk("newest"), "{seen:?}");
    assert_eq!(seen[1], bulk("new"), "never half of it");
    assert_eq!(number(&mut plain, "plain_open"), 0);
    assert_eq!(number(&mut plain, "held_keys"), 0);
}

/// DEL, UNLINK, EXPIRE, RENAME, COPY, RESTORE, SORT STORE: commands that write keys, whatever they do to them.
#[test]
fn every_command_that_writes_a_held_key_waits_for_it() {
    let (server, mut process, mut plain) = rig();
    let Value::BulkString(dump) = ({
        ok(&mut plain, "SET d 9");
        ok(&mut plain, "DUMP d")
    }) else {
        panic!("a dump")
    };
    for line in [
        "DEL {k}",
        "UNLINK {k}",
        "EXPIRE {k} 100",
        "PERSIST {k}",
        "RENAME {k} {k}2",
        "RENAME {k}3 {k}",
        "COPY {k}3 {k} REPLACE",
        "SORT {k}list STORE {k}",
        "GETDEL {k}",
        "SETRANGE {k} 0 x",
        "LCS {k} {k}3",
        "TYPE {k}",
        "DUMP {k}",
        "OBJECT ENCODING {k}",
    ] {
        ok(&mut plain, "MSET {k} 1 {k}3 3");
        ok(&mut plain, "DEL {k}list");
        ok(&mut plain, "RPUSH {k}list 1 2");
        let attempt = hold(&mut process, "{k}", "INCRBY.RETURNING 4");
        let waits = Waits::on(&server, line);
        waits.still();
        // What it waits for beside the held key it holds.
        if !line.contains("{k}3") {
            assert_eq!(ok(&mut plain, "GET {k}3"), bulk("3"), "{line} did nothing yet");
        }
        commit(&mut process, attempt, 1);
        waits.outcome().unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    ok(&mut plain, "SET {k} 1");
    let attempt = hold(&mut process, "{k}", "INCRBY.RETURNING 4");
    let mut restore = redis::cmd("RESTORE");
    restore.arg("{k}").arg(0).arg(dump).arg("REPLACE");
    let waits = Waits::on_command(&server, restore);
    waits.still();
    commit(&mut process, attempt, 1);
    assert_eq!(waits.answer(), Value::Okay);
    assert_eq!(ok(&mut plain, "GET {k}"), bulk("9"));
}

#[test]
fn a_wait_is_bounded_and_leaves_nothing() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "CONFIG SET claret.plain-wait-ms 100");
    let attempt = hold(&mut process, "k", "GETSET a");
    let refused = error(&mut plain, "SET k b");
    assert!(refused.contains("TryAgain") || refused.contains("TRYAGAIN"), "{refused}");
    assert_eq!(number(&mut plain, "plain_open"), 0);
    commit(&mut process, attempt, 1);
    assert_eq!(ok(&mut plain, "GET k"), bulk("a"));
}

#[test]
fn a_client_that_goes_away_waits_no_longer() {
    let (server, mut process, mut plain) = rig();
    let attempt = hold(&mut process, "k", "GETSET a");
    let mut other = server.connect();
    let id: i64 = redis::cmd("CLIENT").arg("ID").query(&mut other).expect("its number");
    let waiting = std::thread::spawn(move || run(&mut other, "SET k b"));
    wait_until("it waits", || number(&mut plain, "plain_open") == 1);
    ok(&mut plain, &format!("CLIENT KILL ID {id}"));
    wait_until("it is gone", || number(&mut plain, "plain_open") == 0);
    assert!(waiting.join().expect("no panic").is_err());
    commit(&mut process, attempt, 1);
    assert_eq!(ok(&mut plain, "GET k"), bulk("a"), "what it wanted was not done");
}

/// Trap 20: what was queued before the lock runs after it, were it not for a look at EXEC.
#[test]
fn exec_is_refused_while_a_queued_key_is_held_and_finds_it_free_next_time() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "SET {k} 1");
    ok(&mut plain, "MULTI");
    ok(&mut plain, "INCR {k}");
    ok(&mut plain, "INCR {k}2");
    let attempt = hold(&mut process, "{k}", "GETSET 10");
    let refused = error(&mut plain, "EXEC");
    assert!(refused.contains("EXECABORT") || refused.contains("ExecAbort"), "{refused}");
    assert_eq!(ok(&mut plain, "EXISTS {k}2"), Value::Int(0), "nothing of it ran");
    // Somebody else wants the key, too: the reservation is the elder.
    commit(&mut process, attempt, 1);
    let other = process.begin();
    let execute = process.execute(other, 1, "{k}", "GETSET 20");
    let answers = process.frame(&[execute]);
    assert!(matches!(answers[..], [Response::Queued { .. }]), "{answers:?}");
    ok(&mut plain, "MULTI");
    ok(&mut plain, "INCR {k}");
    assert_eq!(ok(&mut plain, "EXEC"), Value::Array(vec![Value::Int(11)]), "the keys were kept for it");
}

/// Bug: a MULTI was begun before the shard, so nobody knows its keys, and its EXEC breaks into a transaction. Mend: until
/// none is open any more that was not seen, every EXEC is refused while anything is held.
#[test]
fn exec_of_a_multi_that_is_older_than_the_shard_breaks_no_transaction() {
    let server = crate::common::Server::start_without_module();
    let (mut old, mut plain) = (server.connect(), server.connect());
    ok(&mut old, "MULTI");
    ok(&mut old, "INCR k");
    let () = redis::cmd("MODULE")
        .arg("LOAD")
        .arg(crate::common::module().to_str())
        .query(&mut plain)
        .expect("loaded");
    let mut process = Process::hello(&server, 1);
    let attempt = hold(&mut process, "k", "GETSET 10");
    let refused = error(&mut old, "EXEC");
    assert!(refused.contains("EXECABORT") || refused.contains("ExecAbort"), "{refused}");
    commit(&mut process, attempt, 1);
    assert_eq!(ok(&mut plain, "GET k"), bulk("10"));
    // None is open now, and so those of other keys run as ever.
    let attempt = hold(&mut process, "k", "GETSET 20");
    crate::common::wait_until("it is known that no other is open", || {
        ok(&mut plain, "MULTI");
        ok(&mut plain, "INCR other");
        redis::cmd("EXEC").query::<Value>(&mut plain).is_ok()
    });
    commit(&mut process, attempt, 1);
}

#[test]
fn exec_of_keys_that_nobody_holds_runs() {
    let (_server, mut process, mut plain) = rig();
    hold(&mut process, "k", "GETSET 10");
    ok(&mut plain, "MULTI");
    ok(&mut plain, "INCR other");
    assert_eq!(ok(&mut plain, "EXEC"), Value::Array(vec![Value::Int(1)]));
}

#[test]
fn what_is_queued_while_a_key_is_held_runs_once_it_is_free() {
    let (_server, mut process, mut plain) = rig();
    let attempt = hold(&mut process, "k", "GETSET 10");
    ok(&mut plain, "MULTI");
    assert_eq!(ok(&mut plain, "INCR k"), Value::SimpleString("QUEUED".into()));
    commit(&mut process, attempt, 1);
    assert_eq!(ok(&mut plain, "EXEC"), Value::Array(vec![Value::Int(11)]));
}

#[test]
fn a_script_waits_for_declared_keys_and_fails_on_others() {
    let (server, mut process, mut plain) = rig();
    let attempt = hold(&mut process, "k", "GETSET 10");
    let script = "return redis.call('INCR', KEYS[1])";
    let mut declared = redis::cmd("EVAL");
    declared.arg(script).arg(1).arg("k");
    let waits = Waits::on_command(&server, declared);
    waits.still();
    let undeclared =
        redis::cmd("EVAL").arg("return redis.call('INCR', 'k')").arg(0).query::<Value>(&mut plain);
    let undeclared = format!("{:?}", undeclared.expect_err("it cannot wait"));
    assert!(undeclared.contains("TRYAGAIN") || undeclared.contains("TryAgain"), "{undeclared}");
    commit(&mut process, attempt, 1);
    assert_eq!(waits.answer(), Value::Int(11));
}

/// What became of an attempt that is asked to commit.
fn refusal_of(process: &mut Process, attempt: AttemptId, relies_on: u32) -> Refusal {
    let participants = [(process.shard, Some(process.incarnation))];
    let prepare = process.prepare_with(attempt, relies_on, &[], &participants);
    let answers = process.frame(&[prepare]);
    let refused = answers.iter().find_map(|response| match response {
        Response::Refused { refusal, .. } => Some(refusal.clone()),
        _ => None,
    });
    refused.unwrap_or_else(|| panic!("{answers:?}"))
}

/// Trap 18: T1 reads x and votes; x expires; another sees nothing and writes: no cycle may come of it.
#[test]
fn expiry_of_a_held_key_refuses_who_has_not_voted_and_comes_after_who_has() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "SET k old PX 300");
    ok(&mut plain, "SADD v old");
    ok(&mut plain, "PEXPIRE v 300");
    let open = hold(&mut process, "k", "GET");
    let voted = hold(&mut process, "v", "SADD.RETURNING new");
    vote(&mut process, voted, 1);
    // Their end passes without anybody who looks: whoever looks would make the server notice.
    sleep(Duration::from_millis(400));
    assert!(matches!(refusal_of(&mut process, open, 1), Refusal::Vanished { .. }));
    let answers = process.frame(&[Request::Apply { attempt: voted }]);
    assert!(answers.iter().any(|response| matches!(response, Response::Applied { .. })), "{answers:?}");
    assert_eq!(ok(&mut plain, "EXISTS v"), Value::Int(0), "what was added went with it");
    assert_eq!(number(&mut plain, "held_keys"), 0);
}

#[test]
fn eviction_of_a_held_key_is_as_expiry() {
    let server = Server::start(&["--claret.lease-ms", "60000", "--maxmemory-policy", "allkeys-random"]);
    let (mut process, mut plain) = (Process::hello(&server, 7), server.connect());
    ok(&mut plain, "SET k old");
    let open = hold(&mut process, "k", "GET");
    ok(&mut plain, "CONFIG SET maxmemory 1");
    wait_until("it is evicted", || {
        ok(&mut plain, "PING");
        let info: String = redis::cmd("INFO").arg("stats").query(&mut plain).expect("its numbers");
        info.contains("evicted_keys:1")
    });
    ok(&mut plain, "CONFIG SET maxmemory 0");
    assert!(matches!(refusal_of(&mut process, open, 1), Refusal::Vanished { .. }));
}

#[test]
fn flushes_are_as_if_every_held_key_expired() {
    let (_server, mut process, mut plain) = rig();
    for flush in ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC", "SWAPDB 0 1"] {
        ok(&mut plain, "MSET k old v 1");
        let open = hold(&mut process, "k", "GET");
        let voted = hold(&mut process, "v", "INCRBY.RETURNING 5");
        vote(&mut process, voted, 1);
        ok(&mut plain, flush);
        assert!(matches!(refusal_of(&mut process, open, 1), Refusal::Vanished { .. }), "{flush}");
        process.frame(&[Request::Apply { attempt: voted }]);
        assert_eq!(ok(&mut plain, "DBSIZE"), Value::Int(0), "{flush}");
        ok(&mut plain, "FLUSHALL");
    }
}

/// An item that a transaction has taken and not yet removed goes to nobody else.
#[test]
fn a_blocked_pop_does_not_take_what_a_transaction_took() {
    let (server, mut process, mut plain) = rig();
    let pop = Waits::on(&server, "BLPOP {l} {l}other 10");
    pop.still();
    // One transaction pushes, and in the same frame another one takes.
    let (push, take) = (process.begin(), process.begin());
    let prepare = process.prepare(push, &[("{l}", "RPUSH a")]);
    let execute = process.execute(take, 1, "{l}", "LPOP");
    let answers = process.frame(&[prepare, execute]);
    assert!(answers.iter().any(|response| matches!(response, Response::Granted { .. })), "{answers:?}");
    pop.still();
    commit(&mut process, take, 1);
    pop.still();
    ok(&mut plain, "RPUSH {l} b");
    assert_eq!(pop.answer(), Value::Array(vec![bulk("{l}"), bulk("b")]));
    let late = Waits::on(&server, "BLMOVE {l} {l}to LEFT RIGHT 0.1");
    assert_eq!(late.answer(), Value::Nil);
}

#[test]
fn a_pop_that_was_passed_over_gets_its_item_when_the_key_is_free() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "RPUSH l a");
    let reading = hold(&mut process, "l", "LLEN");
    let pop = Waits::on(&server, "BRPOP l 10");
    pop.still();
    commit(&mut process, reading, 1);
    assert_eq!(pop.answer(), Value::Array(vec![bulk("l"), bulk("a")]));
}

/// A stream is no record, so a transaction can hold its key only while there is none.
#[test]
fn a_stream_read_that_blocks_waits_for_who_holds_its_absent_key() {
    let (server, mut process, mut plain) = rig();
    let attempt = hold(&mut process, "s", "GETSET 1");
    let lines = ["XREAD BLOCK 60000 STREAMS s $", "XREADGROUP GROUP g c BLOCK 60000 STREAMS s >"];
    let reads = lines.map(|line| Waits::on(&server, line));
    for read in &reads {
        read.still();
    }
    process.frame(&[Request::Abort { attempt, refused_by: None }]);
    assert_eq!(reads[0].answer(), Value::Nil, "it does not block now");
    let said = format!("{:?}", reads[1].answer());
    assert!(said.contains("NOGROUP"), "{said}");
    // Where nobody holds the key it sleeps in the server as ever.
    let read = Waits::on(&server, lines[0]);
    read.still();
    ok(&mut plain, "XADD s 1-1 field value");
    assert!(matches!(read.answer(), Value::Array(_) | Value::Map(_)));
}

/// Bug: a prepare waits for one key and is going to lock another one, which is not held yet; its slot leaves. Consequence:
/// it is executed on a key that is elsewhere, and its effect is lost. Mend: such a key keeps its slot, too.
#[test]
fn a_slot_does_not_leave_while_a_prepare_is_about_to_lock_its_key() {
    let servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let mut plain = servers[0].connect();
    let other: String = redis::cmd("CLUSTER").arg("MYID").query(&mut servers[1].connect()).expect("its id");
    // The slots of "b" and "bar" are 3300 and 5061, the first node's.
    let mut process = Process::hello(&servers[0], 7);
    let holder = hold(&mut process, "b", "GETSET 1");
    let waiting = process.begin();
    let prepare = process.prepare(waiting, &[("b", "GETSET 2"), ("bar", "GETSET 3")]);
    let answers = process.frame(&[prepare]);
    assert!(matches!(answers[..], [Response::Queued { .. }]), "{answers:?}");
    let leave = format!("CLUSTER SETSLOT 5061 MIGRATING {other}");
    let leaves = Waits::on(&servers[0], &leave);
    leaves.still();
    commit(&mut process, holder, 1);
    assert_eq!(leaves.answer(), Value::Okay);
    assert_eq!(ok(&mut plain, "MGET bar"), Value::Array(vec![bulk("3")]));
}

/// Trap 17: a key that is held and absent would be granted at the new node as well.
#[test]
fn a_slot_does_not_leave_while_its_keys_are_held() {
    let servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let mut plain = [servers[0].connect(), servers[1].connect()];
    let ids: Vec<String> =
        plain.iter_mut().map(|it| redis::cmd("CLUSTER").arg("MYID").query(it).expect("its id")).collect();
    // The slot of "bar" is 5061, the first node's.
    let mut process = Process::hello(&servers[0], 7);
    let attempt = hold(&mut process, "bar", "GETSET 1");
    ok(&mut plain[1], &format!("CLUSTER SETSLOT 5061 IMPORTING {}", ids[0]));
    let leaves = Waits::on(&servers[0], &format!("CLUSTER SETSLOT 5061 MIGRATING {}", ids[1]));
    leaves.still();
    let migrate = format!("MIGRATE 127.0.0.1 {} bar 0 1000", servers[1].port);
    let moves = Waits::on(&servers[0], &migrate);
    moves.still();
    commit(&mut process, attempt, 1);
    assert_eq!((moves.answer(), leaves.answer()), (Value::Okay, Value::Okay));
    // From now on the slot is nobody's, for transactions.
    let absent = process.begin();
    let execute = process.execute(absent, 1, "{bar}2", "GET");
    let answers = process.frame(&[execute]);
    let refused = matches!(&answers[..], [Response::Refused { refusal: Refusal::Elsewhere { .. }, .. }]);
    assert!(refused, "{answers:?}");
    for connection in &mut plain {
        ok(connection, &format!("CLUSTER SETSLOT 5061 NODE {}", ids[1]));
    }
    assert_eq!(ok(&mut plain[1], "GET bar"), bulk("1"));
    wait_until("the shard that lost a slot is another one", || {
        let after = process.begin();
        let execute = process.execute(after, 1, "bar", "GET");
        match process.try_frame(&[execute]) {
            Ok(answers) => {
                let is_elsewhere =
                    matches!(&answers[..], [Response::Refused { refusal: Refusal::Elsewhere { .. }, .. }]);
                assert!(is_elsewhere, "{answers:?}");
                false
            }
            Err(error) => format!("{error:?}").contains("NOSESSION"),
        }
    });
}

#[test]
fn who_may_not_run_the_command_may_not_by_waiting_either() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "ACL SETUSER some on >pw ~a:* +@all");
    ok(&mut plain, "ACL SETUSER few on >pw ~* +get +set");
    let held = hold(&mut process, "b:1", "GETSET x");
    let mut some = server.connect_as("some", "pw");
    for line in
        ["SET b:1 y", "CLARET.WRITE SET b:1 y", "CLARET.READ GET b:1", "CLARET.WRITE MSET a:1 1 b:1 1"]
    {
        let refused = error(&mut some, line);
        assert!(refused.contains("NoPerm") || refused.contains("NOPERM"), "{line}: {refused}");
    }
    let mut few = server.connect_as("few", "pw");
    ok(&mut few, "SET other 1");
    // What it may do it may wait for: the commands that the module puts before it need no right of their own.
    let waits = std::thread::spawn(move || run(&mut few, "SET b:1 y"));
    wait_until("it waits", || number(&mut plain, "plain_open") == 1);
    commit(&mut process, held, 1);
    assert_eq!(waits.join().expect("no panic"), Ok(Value::Okay));
}

/// Rights that are taken away count for what is under way.
#[test]
fn a_change_of_rights_ends_what_has_not_voted() {
    let (server, mut process, mut plain) = rig();
    let open = hold(&mut process, "k", "GETSET x");
    let voted = hold(&mut process, "v", "GETSET x");
    vote(&mut process, voted, 1);
    ok(&mut plain, "ACL SETUSER default -get");
    assert_eq!(refusal_of(&mut process, open, 1), Refusal::LostLocks);
    process.frame(&[Request::Apply { attempt: voted }]);
    ok(&mut server.connect(), "ACL SETUSER default +@all");
    assert_eq!(ok(&mut plain, "GET v"), bulk("x"), "after a vote nothing fails for a permission");
}

/// The key expires between two frames, with nothing to notice it: whoever commits in one go must not come in between.
#[test]
fn nobody_overtakes_who_has_voted_by_an_expiry() {
    let server = Server::start(&["--claret.lease-ms", "60000", "--enable-debug-command", "yes"]);
    let (mut process, mut plain) = (Process::hello(&server, 7), server.connect());
    ok(&mut plain, "DEBUG SET-ACTIVE-EXPIRE 0");
    ok(&mut plain, "SET k old PX 150");
    let voted = hold(&mut process, "k", "GET");
    vote(&mut process, voted, 1);
    // Nobody may look for the end: the server would notice it.
    sleep(Duration::from_millis(250));
    let answers = process.commit("k", "GET");
    assert!(matches!(answers[..], [Response::Queued { .. }]), "it waits for who has voted: {answers:?}");
    let answers = process.frame(&[Request::Apply { attempt: voted }]);
    assert!(answers.iter().any(|response| matches!(response, Response::Committed { .. })), "{answers:?}");
}

/// Neither waits: they look at one node as it is.
#[test]
fn scans_show_what_is_committed() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "SET old 1");
    let attempt = hold(&mut process, "new", "GETSET 1");
    let listed = |plain: &mut redis::Connection| {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(plain).expect("the keys");
        let (_, mut scanned): (u64, Vec<String>) = redis::cmd("SCAN").arg(0).query(plain).expect("a scan");
        scanned.sort();
        let size: usize = redis::cmd("DBSIZE").query(plain).expect("its size");
        assert_eq!((size, keys.len()), (scanned.len(), scanned.len()));
        scanned
    };
    assert_eq!(listed(&mut plain), ["old"]);
    assert_eq!(ok(&mut plain, "RANDOMKEY"), bulk("old"));
    commit(&mut process, attempt, 1);
    assert_eq!(listed(&mut plain), ["new", "old"]);
}

/// A replica knows of no locks; of a transaction it has nothing, or all that it did at this shard.
#[test]
fn a_replica_is_read_at_once_and_shows_all_of_a_transaction_or_nothing() {
    let (server, mut process, mut plain) = rig();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &server.port.to_string()]);
    let mut below = replica.connect();
    ok(&mut plain, "MSET {k}1 old {k}2 old");
    let both = |connection: &mut redis::Connection| ok(connection, "MGET {k}1 {k}2");
    let pair = |value: &str| Value::Array(vec![bulk(value), bulk(value)]);
    wait_until("it has the values", || run(&mut below, "MGET {k}1 {k}2") == Ok(pair("old")));
    let attempt = hold(&mut process, "{k}1", "GETSET new");
    hold_more(&mut process, attempt, 2, "{k}2", "GETSET new");
    assert_eq!(both(&mut below), pair("old"), "it does not wait");
    commit(&mut process, attempt, 2);
    wait_until("it has the others", || {
        let seen = both(&mut below);
        assert!(seen == pair("old") || seen == pair("new"), "{seen:?}");
        seen == pair("new")
    });
}

/// A client's own cache hears of a key when it changes, which is at the commit.
#[test]
fn a_clients_cache_is_told_when_a_transaction_commits() {
    let (server, mut process, mut plain) = rig();
    ok(&mut plain, "SET k old");
    let client =
        redis::Client::open(format!("redis://127.0.0.1:{}/?protocol=resp3", server.port)).expect("an url");
    let mut caching = client.get_connection().expect("it answers");
    let (sender, pushes) = std::sync::mpsc::channel::<redis::PushInfo>();
    caching.set_push_sender(sender);
    ok(&mut caching, "CLIENT TRACKING ON");
    assert_eq!(ok(&mut caching, "GET k"), bulk("old"));
    let attempt = hold(&mut process, "k", "GETSET new");
    let is_told = |caching: &mut redis::Connection| {
        ok(caching, "PING");
        pushes.try_iter().any(|push| push.kind == redis::PushKind::Invalidate)
    };
    assert!(!is_told(&mut caching), "nothing has changed");
    commit(&mut process, attempt, 1);
    wait_until("it is told", || is_told(&mut caching));
    assert_eq!(ok(&mut caching, "GET k"), bulk("new"));
}
