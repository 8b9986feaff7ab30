//! Messages that come late: over connections whose other end is gone and that nobody has closed, when all that they speak of is over.
//! They change nothing.

use crate::common::{Process, Server, cluster, wait_until};
use claret_core::message::{Refusal, Request, Response, Status};

/// A key of the first node: slot 5061.
const HERE: &str = "bar";
/// A key of the second of two: slot 12182.
const THERE: &str = "foo";

fn value(server: &Server, key: &str) -> Option<i64> {
    redis::cmd("GET").arg(key).query(&mut server.connect()).expect("a number")
}

/// Nothing is held, open or in doubt there.
fn is_free(server: &Server) -> bool {
    let info: String = redis::cmd("INFO").arg("claret").query(&mut server.connect()).expect("its numbers");
    ["held_keys", "open_attempts", "in_doubt"].iter().all(|it| info.contains(&format!("claret_{it}:0\r\n")))
}

/// The connections stay open, and say nothing for longer than a lease: a client vanished, and its last messages are on the way.
fn two_nodes_with_short_leases() -> Vec<Server> {
    cluster(2, &["--claret.lease-ms", "200", "--claret.forget-ms", "500"])
}

fn both(servers: &[Server], session: u64) -> (Process, Process) {
    (Process::hello(&servers[0], session), Process::hello(&servers[1], session))
}

fn refusals(told: &[Response]) -> Vec<Refusal> {
    let refusal = |response: &Response| match response {
        Response::Refused { refusal, .. } => Some(refusal.clone()),
        _ => None,
    };
    told.iter().filter_map(refusal).collect()
}

#[test]
fn a_prepare_that_comes_after_its_attempt_was_aborted_changes_nothing() {
    let servers = two_nodes_with_short_leases();
    let (mut here, mut there) = both(&servers, 21);
    let participants = [(here.shard, Some(here.incarnation)), (there.shard, Some(there.incarnation))];
    let attempt = here.begin();
    let first = here.prepare_with(attempt, 0, &[(HERE, "INCRBY 1")], &participants);
    let late = there.prepare_with(attempt, 0, &[(THERE, "INCRBY -1")], &participants);
    assert!(matches!(&here.frame(std::slice::from_ref(&first))[..], [Response::Voted { .. }]));
    wait_until("it is aborted, and its locks are free", || is_free(&servers[0]));
    // Others use the keys meanwhile.
    let (mut other, mut another) = both(&servers, 22);
    other.commit(HERE, "INCRBY 5");
    another.next = other.next;
    another.commit(THERE, "INCRBY 5");
    // What is on the way comes twice, as it is sent again where a connection was lost.
    for _ in 0..2 {
        for told in [there.frame(std::slice::from_ref(&late)), here.frame(std::slice::from_ref(&first))] {
            assert!(refusals(&told).contains(&Refusal::Recovered), "{told:?}");
            assert!(!told.iter().any(|response| matches!(response, Response::Voted { .. })), "{told:?}");
        }
    }
    here.frame(&[Request::Apply { attempt }]);
    there.frame(&[Request::Apply { attempt }]);
    let asked = there.frame(&[Request::Ask { attempt }]);
    assert!(matches!(&asked[..], [Response::Asked { status: Status::Refused, .. }]), "{asked:?}");
    wait_until("nothing is held", || servers.iter().all(is_free));
    assert_eq!((value(&servers[0], HERE), value(&servers[1], THERE)), (Some(5), Some(5)));
}

#[test]
fn a_commit_that_comes_after_its_lease_changes_nothing() {
    let server = Server::start(&["--claret.lease-ms", "200", "--claret.forget-ms", "500"]);
    let mut process = Process::hello(&server, 31);
    let attempt = process.begin();
    let execute = process.execute(attempt, 1, HERE, "INCRBY.RETURNING 1");
    process.frame(std::slice::from_ref(&execute));
    let late = process.prepare_with(attempt, 1, &[], &[(process.shard, Some(process.incarnation))]);
    wait_until("the lease is over", || is_free(&server));
    Process::hello(&server, 32).commit(HERE, "INCRBY 5");
    let told = process.frame(&[execute, late]);
    assert!(refusals(&told).contains(&Refusal::LeaseExpired), "{told:?}");
    assert!(!told.iter().any(|response| matches!(response, Response::Committed { .. })), "{told:?}");
    process.frame(&[Request::Apply { attempt }]);
    wait_until("nothing is held", || is_free(&server));
    assert_eq!(value(&server, HERE), Some(5));
}

#[test]
fn an_apply_that_comes_after_the_shards_have_applied_it_themselves_changes_nothing() {
    let servers = two_nodes_with_short_leases();
    let (mut here, mut there) = both(&servers, 41);
    let participants = [(here.shard, Some(here.incarnation)), (there.shard, Some(there.incarnation))];
    let attempt = here.begin();
    let first = here.prepare_with(attempt, 0, &[(HERE, "INCRBY 7")], &participants);
    let second = there.prepare_with(attempt, 0, &[(THERE, "INCRBY -7")], &participants);
    assert!(matches!(&here.frame(std::slice::from_ref(&first))[..], [Response::Voted { .. }]));
    assert!(matches!(&there.frame(std::slice::from_ref(&second))[..], [Response::Voted { .. }]));
    wait_until("they apply it", || {
        (value(&servers[0], HERE), value(&servers[1], THERE)) == (Some(7), Some(-7))
    });
    wait_until("nothing is held", || servers.iter().all(is_free));
    here.frame(&[first, Request::Apply { attempt }]);
    there.frame(&[second, Request::Apply { attempt }]);
    // Nor does an abort, which nobody who knew better would send.
    here.frame(&[Request::Abort { attempt, refused_by: None }]);
    wait_until("nothing is held", || servers.iter().all(is_free));
    assert_eq!((value(&servers[0], HERE), value(&servers[1], THERE)), (Some(7), Some(-7)));
}
