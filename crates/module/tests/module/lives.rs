//! When the shard of a node begins, restarts and ends; and its bounds.

use crate::common::beside::{number, ok};
use crate::common::{Process, Server, cluster, hello, poll, wait_until};
use claret_core::message::{Refusal, Request, Response, Status};
use claret_core::{AttemptId, ShardId};
use redis::{Connection, Value};

fn refused(connection: &mut Connection) -> String {
    let frame = redis::cmd("CLARET.FRAME").arg("").query::<Value>(connection);
    format!("{:?}", frame.expect_err("refused"))
}

#[test]
fn a_primary_that_becomes_a_replica_and_back_begins_another_incarnation() {
    let other = Server::start(&[]);
    let server = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let mut process = Process::hello(&server, 1);
    let mut plain = server.connect();
    let held = process.begin();
    let execute = process.execute(held, 1, "k", "INCRBY.RETURNING 1");
    process.frame(&[execute]);
    let port = other.port;
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(port).query(&mut plain).expect("a replica");
    let role = refused(&mut process.connection);
    assert!(role.contains("READONLY") || role.contains("ReadOnly"), "{role}");
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut plain).expect("a primary");
    assert!(refused(&mut process.connection).contains("NOSESSION"), "it has to say hello again");
    let mut again = Process::over(process.connection, 1, 2, &[]);
    assert!(again.incarnation > process.incarnation);
    let late = again.prepare_with(held, 1, &[], &[(process.shard, Some(process.incarnation))]);
    let told = again.frame(&[late]);
    assert!(matches!(&told[..], [Response::Refused { refusal: Refusal::LostLocks, .. }]), "{told:?}");
}

/// A node votes for `bar` (slot 5061) and holds `hello` (866); then these slots are the other's, as the node hears by
/// gossip: it would not give away one of a held key by itself. Returns the process, who said hello again, and the vote.
fn lose(servers: &[Server], slots: &[(u16, u16)]) -> (Process, AttemptId) {
    let mut here = Process::hello(&servers[0], 1);
    let voted = here.begin();
    let other = Process::hello(&servers[1], 2).shard;
    let both = [(here.shard, Some(here.incarnation)), (other, None)];
    let prepare = here.prepare_with(voted, 0, &[("bar", "INCR")], &both);
    here.frame(&[prepare]);
    let held = here.begin();
    let execute = here.execute(held, 1, "hello", "INCRBY.RETURNING 1");
    here.frame(&[execute]);
    let mut other = servers[1].connect();
    let id: String = redis::cmd("CLUSTER").arg("MYID").query(&mut other).expect("its id");
    for slot in slots.iter().flat_map(|(first, last)| *first..=*last) {
        let slot = slot.to_string();
        let setslot = redis::cmd("CLUSTER").arg(&["SETSLOT", &slot, "NODE", &id]).query(&mut other);
        let () = setslot.expect("the slot moves");
    }
    wait_until("it says hello again", || {
        here.try_frame(&[]).is_err_and(|error| format!("{error:?}").contains("NOSESSION"))
    });
    let mut again = Process::over(here.connection, 1, 2, &[]);
    again.next = here.next;
    assert_eq!(again.shard, here.shard, "whatever it serves, it is who voted");
    assert!(again.incarnation > here.incarnation);
    (again, voted)
}

fn apply(process: &mut Process, voted: AttemptId) -> Option<i64> {
    let applied = process.frame(&[Request::Apply { attempt: voted }]);
    assert!(matches!(&applied[..], [Response::Applied { .. }]), "{applied:?}");
    redis::cmd("GET").arg("bar").query(&mut process.connection).expect("a number")
}

#[test]
fn a_node_that_loses_slots_keeps_its_votes_and_begins_another_incarnation() {
    let servers = cluster(2, &[]);
    let (mut again, voted) = lose(&servers, &[(866, 866)]);
    let gone = again.commit("hello", "INCR");
    assert!(matches!(&gone[..], [Response::Refused { refusal: Refusal::Elsewhere { .. }, .. }]), "{gone:?}");
    assert_eq!(apply(&mut again, voted), Some(1));
}

#[test]
fn a_node_that_loses_its_lowest_slots_keeps_its_name_and_its_votes() {
    let servers = cluster(2, &[]);
    let (mut again, voted) = lose(&servers, &[(0, 9)]);
    assert_eq!(apply(&mut again, voted), Some(1));
}

#[test]
fn a_node_that_gave_all_slots_away_still_says_what_it_voted() {
    // It would become a replica of who got them, and remember nothing.
    let servers = cluster(2, &["--cluster-allow-replica-migration", "no"]);
    let mut here = Process::hello(&servers[0], 1);
    let (voted, late) = (here.begin(), here.begin());
    let other = Process::hello(&servers[1], 2).shard;
    let both = [(here.shard, Some(here.incarnation)), (other, None)];
    let prepare = here.prepare_with(voted, 0, &[("bar", "INCR")], &both);
    here.frame(&[prepare]);
    assert_eq!(apply(&mut here, voted), Some(1));
    for (connection, verbs) in [
        (&mut here.connection, &["DELSLOTSRANGE"][..]),
        (&mut servers[1].connect(), &["DELSLOTSRANGE", "ADDSLOTSRANGE"]),
    ] {
        for verb in verbs {
            let () = redis::cmd("CLUSTER").arg(&[verb, "0", "8191"]).query(connection).expect("slots move");
        }
    }
    wait_until("it says hello again", || {
        here.try_frame(&[]).is_err_and(|error| format!("{error:?}").contains("NOSESSION"))
    });
    let mut again = Process::over(here.connection, 1, 2, &[]);
    assert_eq!(again.shard, here.shard);
    let asked = again.frame(&[Request::Ask { attempt: voted }]);
    assert!(matches!(&asked[..], [Response::Asked { status: Status::Applied, .. }]), "{asked:?}");
    let prepare = again.prepare_with(late, 0, &[("bar", "INCR")], &[(again.shard, Some(again.incarnation))]);
    let refused = again.frame(&[prepare]);
    let is_elsewhere =
        |it: &Response| matches!(it, Response::Refused { refusal: Refusal::Elsewhere { .. }, .. });
    assert!(is_elsewhere(&refused[0]), "{refused:?}");
    // When slots come back it is another incarnation: another node may have counted unique numbers for them meanwhile.
    // It may not have heard yet whose they are; then they are nobody's.
    let mut cluster = |words: &[&str]| redis::cmd("CLUSTER").arg(words).query::<Value>(&mut again.connection);
    let _ = cluster(&["DELSLOTSRANGE", "0", "8191"]);
    // First the epoch: with a smaller one than the other's, slots go back when that one says what it has.
    cluster(&["BUMPEPOCH"]).expect("for good");
    cluster(&["ADDSLOTSRANGE", "0", "8191"]).expect("slots come");
    wait_until("it says hello again", || {
        again.try_frame(&[]).is_err_and(|error| format!("{error:?}").contains("NOSESSION"))
    });
    let third = Process::over(again.connection, 1, 3, &[]);
    assert!(third.shard == again.shard && third.incarnation > again.incarnation);
}

#[test]
fn a_drained_node_keeps_what_was_voted_and_refuses_the_rest() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 1);
    let mut plain = server.connect();
    let drain = |plain: &mut Connection, value: &str| {
        let () = redis::cmd("CONFIG").arg(&["SET", "claret.drain", value]).query(plain).expect("set");
    };
    let (voted, held) = (process.begin(), process.begin());
    let both = [(process.shard, Some(process.incarnation)), (ShardId(9_000), None)];
    let vote = process.prepare_with(voted, 0, &[("v", "INCR")], &both);
    let execute = process.execute(held, 1, "h", "INCRBY.RETURNING 1");
    process.frame(&[vote, execute]);
    drain(&mut plain, "1");
    // Its locks are all there, but it might vote only when the last vote was counted.
    let late = process.prepare_with(held, 1, &[], &[(process.shard, Some(process.incarnation))]);
    let refused = process.frame(&[late]);
    let rests = |it: &Response| matches!(it, Response::Refused { refusal: Refusal::ReadOnly, .. });
    assert!(refused.iter().any(rests) && !refused.iter().any(|it| matches!(it, Response::Committed { .. })));
    for line in ["INCR", "GET"] {
        assert!(rests(&process.commit("n", line)[0]), "{line}");
    }
    let exec = redis::cmd("CLARET.EXEC").arg(&["3", "INCRBY", "n", "1"]).query::<Value>(&mut plain);
    assert!(exec.expect_err("refused").to_string().to_uppercase().contains("READONLY"));
    let () = redis::cmd("INCR").arg("p").query(&mut plain).expect("plain commands are the server's");
    let applied = process.frame(&[Request::Apply { attempt: voted }]);
    assert!(matches!(&applied[..], [Response::Applied { .. }]), "{applied:?}");
    let value: i64 = redis::cmd("GET").arg("v").query(&mut plain).expect("a number");
    assert_eq!(value, 1);
    drain(&mut plain, "0");
    assert!(matches!(process.commit("n", "INCR")[..], [Response::Committed { .. }]));
}

#[test]
fn the_module_stays() {
    let server = Server::start(&[]);
    let mut process = Process::hello(&server, 1);
    let unload = redis::cmd("MODULE").arg("UNLOAD").arg("claret").query::<Value>(&mut process.connection);
    assert!(unload.is_err());
    assert!(matches!(&process.commit("k", "INCR")[..], [Response::Committed { .. }]));
}

#[test]
fn frames_outboxes_and_sessions_have_bounds() {
    let server = Server::start(&["--claret.frame-bytes-max", "2048", "--claret.outbox-max", "16"]);
    let mut process = Process::hello(&server, 1);
    let mut plain = server.connect();
    let long = format!("SET {}", "x".repeat(4096));
    let attempt = process.begin();
    let prepare = process.prepare(attempt, &[("k", &long)]);
    let refused = process.try_frame(&[prepare]).expect_err("too long");
    assert!(refused.to_string().contains("claret.frame-bytes-max"), "{refused}");
    // Twenty wait for one key; nobody fetches their grants.
    let mut holder = Process::hello(&server, 2);
    let held = holder.begin();
    let execute = holder.execute(held, 1, "k", "GETSET a");
    holder.frame(&[execute]);
    for _ in 0..20 {
        let waiting = process.begin();
        let execute = process.execute(waiting, 1, "k", "register:GET");
        process.frame(&[execute]);
    }
    holder.frame(&[Request::Abort { attempt: held, refused_by: None }]);
    let info: String = redis::cmd("INFO").arg("claret").query(&mut plain).expect("its numbers");
    assert!(info.contains("claret_outbox:16\r\n") && info.contains("claret_outbox_dropped:4\r\n"), "{info}");
    assert_eq!(poll(&mut server.connect(), 1, 0).len(), 16);
    let () =
        redis::cmd("CONFIG").arg("SET").arg("claret.sessions-max").arg(2).query(&mut plain).expect("set");
    let more = hello(&mut plain, 3, 1, &[]).expect_err("too many");
    assert!(more.to_string().contains("claret.sessions-max"), "{more}");
}

/// Bug: a session without a connection was forgotten only when something else was due. Consequence: on an idle node the dead
/// count against `claret.sessions-max`. Mend: the periodic check looks.
#[test]
fn a_session_without_a_connection_is_forgotten_after_a_lease_on_an_idle_node_too() {
    let server = Server::start(&["--claret.lease-ms", "100"]);
    let process = Process::hello(&server, 1);
    let mut plain = server.connect();
    let mut sessions = || {
        let info: String = redis::cmd("INFO").arg("claret").query(&mut plain).expect("its numbers");
        info.contains("claret_sessions:1\r\n")
    };
    assert!(sessions());
    drop(process);
    wait_until("it is forgotten", || !sessions());
}

/// Bug: the module looked around ten times a second, whoever was there. Consequence: an idle server was woken twice as often as
/// without the module, and its count of turns, `instantaneous_eventloop_cycles_per_sec`, showed it. Mend: where nothing can
/// change without an entry, the periodic check ends, and the server's own round sees when it has to begin again.
#[test]
fn an_idle_server_without_sessions_is_not_woken_for_a_check() {
    let server = Server::start(&["--claret.lease-ms", "100"]);
    let (mut plain, mut clock) = (server.connect(), server.connect());
    let mut seconds = || {
        let info: String = redis::cmd("INFO").arg("server").query(&mut clock).expect("its numbers");
        let line = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
        line.expect("how long it runs").parse::<u64>().expect("a number")
    };
    let mut rests = |plain: &mut Connection| {
        wait_until("it looks around no more", || {
            let (checks, before) = (number(plain, "checks"), seconds());
            wait_until("more than a second passes", || seconds() > before + 1);
            number(plain, "checks") == checks
        });
        number(plain, "checks")
    };
    let before = rests(&mut plain);
    let process = Process::hello(&server, 1);
    wait_until("somebody has come", || number(&mut plain, "checks") > before);
    drop(process);
    wait_until("who went is forgotten", || number(&mut plain, "sessions") == 0);
    let before = rests(&mut plain);
    ok(&mut plain, "CONFIG SET claret.drain 1");
    wait_until("transactions are refused", || number(&mut plain, "checks") > before);
    let before = rests(&mut plain);
    ok(&mut plain, "REPLICAOF 127.0.0.1 1");
    assert_eq!(number(&mut plain, "serving"), 0);
    rests(&mut plain);
    ok(&mut plain, "REPLICAOF NO ONE");
    wait_until("a shard begins", || number(&mut plain, "serving") == 1);
    assert!(number(&mut plain, "checks") > before);
}

#[test]
fn what_nobody_hears_is_kept_for_the_next_frame() {
    let server = Server::start(&[]);
    let mut one = Process::hello(&server, 1);
    // Has not subscribed.
    let mut two = Process::over(server.connect(), 2, 1, &["PUSH", "claret:default:two"]);
    let first = one.begin();
    let execute = one.execute(first, 1, "k", "GETSET a");
    one.frame(&[execute]);
    let second = two.begin();
    let execute = two.execute(second, 1, "k", "register:GET");
    two.frame(&[execute]);
    one.frame(&[Request::Abort { attempt: first, refused_by: None }]);
    let told = two.frame(&[]);
    assert!(matches!(&told[..], [Response::Granted { .. }]), "{told:?}");
}
