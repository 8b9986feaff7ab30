//! What happens in a cluster when a client process dies: the shards resolve it among themselves, over the bus.

use std::time::{Duration, Instant};

use crate::common::{Process, Server, cluster, poll, wait_until};
use claret_core::message::{Refusal, Request, Response, Status};

/// A key of the first node: slot 5061.
const HERE: &str = "bar";
/// A key of the second of two: slot 12182.
const THERE: &str = "foo";

fn value(server: &Server, key: &str) -> Option<i64> {
    redis::cmd("GET").arg(key).query(&mut server.connect()).expect("a number")
}

fn held_keys(server: &Server) -> bool {
    let info: String = redis::cmd("INFO").arg("claret").query(&mut server.connect()).expect("its numbers");
    !info.contains("claret_held_keys:0\r\n")
}

/// A process with a connection to each of two nodes.
fn both(servers: &[Server], session: u64) -> (Process, Process) {
    (Process::hello(&servers[0], session), Process::hello(&servers[1], session))
}

#[test]
fn the_shards_resolve_what_a_dead_client_left() {
    let servers = cluster(2, &[]);
    // All have voted, no apply left: it is committed (P3), and applied without the client.
    let (mut here, mut there) = both(&servers, 21);
    let participants = [(here.shard, Some(here.incarnation)), (there.shard, Some(there.incarnation))];
    let attempt = here.begin();
    let first = here.prepare_with(attempt, 0, &[(HERE, "INCRBY 7")], &participants);
    let second = there.prepare_with(attempt, 0, &[(THERE, "INCRBY -7")], &participants);
    assert!(matches!(&here.frame(&[first])[..], [Response::Voted { .. }]));
    assert!(matches!(&there.frame(&[second])[..], [Response::Voted { .. }]));
    assert!(held_keys(&servers[0]) && held_keys(&servers[1]));
    let died = Instant::now();
    drop((here, there));
    wait_until("both apply", || (value(&servers[0], HERE), value(&servers[1], THERE)) == (Some(7), Some(-7)));
    let bound = Duration::from_secs(2);
    assert!(died.elapsed() < bound, "the lease is ten seconds, the bound without it {bound:?}");
    // One has voted, the other never heard of it: it is aborted, and a late prepare finds that.
    let (mut here, mut there) = both(&servers, 22);
    let participants = [(here.shard, Some(here.incarnation)), (there.shard, Some(there.incarnation))];
    let attempt = here.begin();
    let first = here.prepare_with(attempt, 0, &[(HERE, "INCRBY 1")], &participants);
    let late = there.prepare_with(attempt, 0, &[(THERE, "INCRBY -1")], &participants);
    here.frame(&[first]);
    drop(here);
    wait_until("its locks are free", || !held_keys(&servers[0]));
    let told = there.frame(&[late]);
    assert!(matches!(told.last(), Some(Response::Refused { refusal: Refusal::Recovered, .. })), "{told:?}");
    let asked = there.frame(&[Request::Ask { attempt }]);
    assert!(matches!(&asked[..], [Response::Asked { status: Status::Refused, .. }]), "{asked:?}");
    assert_eq!((value(&servers[0], HERE), value(&servers[1], THERE)), (Some(7), Some(-7)));
    assert!(poll(&mut servers[1].connect(), 22, 0).is_empty());
}

#[test]
fn nobody_waits_for_the_word_of_a_node_that_left_the_cluster() {
    let servers = cluster(2, &["--cluster-require-full-coverage", "no"]);
    let (mut here, there) = both(&servers, 23);
    let participants = [(here.shard, Some(here.incarnation)), (there.shard, Some(there.incarnation))];
    let attempt = here.begin();
    let vote = here.prepare_with(attempt, 0, &[(HERE, "INCRBY 1")], &participants);
    assert!(matches!(&here.frame(&[vote])[..], [Response::Voted { .. }]));
    let mut plain = servers[0].connect();
    let id: String = redis::cmd("CLUSTER").arg("MYID").query(&mut servers[1].connect()).expect("its id");
    let () = redis::cmd("CLUSTER").arg(&["FORGET", &id]).query(&mut plain).expect("it is forgotten");
    drop(here);
    wait_until("its locks are free", || !held_keys(&servers[0]));
    assert_eq!(value(&servers[0], HERE), None, "whoever is gone took its vote along");
    drop(there);
}

#[test]
fn a_lease_ends_what_a_silent_client_holds() {
    let server = Server::start(&["--claret.lease-ms", "200"]);
    let mut here = Process::hello(&server, 31);
    let attempt = here.begin();
    let execute = here.execute(attempt, 1, HERE, "INCRBY.RETURNING 1");
    let (began, mut sent, mut told) = (Instant::now(), Instant::now(), Vec::new());
    here.frame(&[execute]);
    // On a machine so slow that a heartbeat comes after the lease, it keeps nothing: that ends the loop.
    while sent.elapsed() < Duration::from_millis(150) && began.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(Duration::from_millis(20));
        let now = Instant::now();
        let low_water = claret_core::Sequence(1);
        told.extend(here.frame(&[Request::Heartbeat { live: vec![attempt], low_water }]));
        let is_held = held_keys(&server);
        assert!(is_held || sent.elapsed() >= Duration::from_millis(150), "a heartbeat keeps it");
        sent = now;
    }
    wait_until("the lease is over", || !held_keys(&server));
    told.extend(here.frame(&[]));
    told.retain(|response| matches!(response, Response::Refused { .. }));
    assert!(matches!(&told[..], [Response::Refused { refusal: Refusal::LeaseExpired, .. }]), "{told:?}");
}

#[test]
fn nothing_is_decided_while_the_cluster_is_down() {
    let mut servers = cluster(3, &[]);
    let mut here = Process::hello(&servers[0], 41);
    let other = Process::hello(&servers[2], 42).shard;
    let attempt = here.begin();
    let participants = [(here.shard, Some(here.incarnation)), (other, None)];
    let prepare = here.prepare_with(attempt, 0, &[(HERE, "INCR")], &participants);
    assert!(matches!(&here.frame(&[prepare])[..], [Response::Voted { .. }]));
    servers[2].kill();
    let mut plain = servers[0].connect();
    wait_until("the cluster is down", || {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut plain).expect("its state");
        info.contains("cluster_state:fail")
    });
    let refused = here.try_frame(&[Request::Apply { attempt }]).expect_err("no write would be carried out");
    assert!(format!("{refused:?}").to_uppercase().contains("CLUSTERDOWN"), "{refused:?}");
    let () = redis::cmd("CONFIG")
        .arg("SET")
        .arg("cluster-require-full-coverage")
        .arg("no")
        .query(&mut plain)
        .expect("set");
    wait_until("the rest serves", || here.try_frame(&[Request::Apply { attempt }]).is_ok());
    assert_eq!(value(&servers[0], HERE), Some(1));
}
