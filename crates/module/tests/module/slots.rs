//! Slots that leave a node: `CLUSTER SETSLOT` beside transactions, with replicas and without.

use std::net::Shutdown;

use crate::common::beside::{Waits, bulk, commit, error, hold, ok, run};
use crate::common::{Process, Server, cluster, hello, wait_until};
use claret_core::message::{Refusal, Request, Response};
use redis::{Connection, Value};

/// The slot of "bar", one of the first node's of two.
const SLOT: &str = "5061";

fn id_of(server: &Server) -> String {
    redis::cmd("CLUSTER").arg("MYID").query(&mut server.connect()).expect("its id")
}

/// A replica of each.
fn replicas_of(servers: &[Server]) -> Vec<Server> {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let replicas: Vec<Server> = servers.iter().map(|_| Server::start(&options)).collect();
    for (server, replica) in servers.iter().zip(&replicas) {
        let mut plain = replica.connect();
        ok(&mut plain, &format!("CLUSTER MEET 127.0.0.1 {}", server.port));
        let follow = format!("CLUSTER REPLICATE {}", id_of(server));
        wait_until("it knows whom to follow", || run(&mut plain, &follow).is_ok());
        let mut primary = server.connect();
        wait_until("it has the records", || {
            let info: String =
                redis::cmd("INFO").arg("replication").query(&mut primary).expect("how it stands");
            info.contains("connected_slaves:1") && info.contains("state=online")
        });
    }
    replicas
}

fn is_elsewhere(answers: &[Response]) -> bool {
    matches!(answers, [Response::Refused { refusal: Refusal::Elsewhere { .. }, .. }])
}

/// What a new transaction is told of a key, which it does not keep.
fn asks(process: &mut Process, key: &str) -> Vec<Response> {
    let attempt = process.begin();
    let execute = process.execute(attempt, 1, key, "GET");
    let told = process.frame(&[execute]);
    process.frame(&[Request::Abort { attempt, refused_by: None }]);
    told
}

/// Bug: the module runs `CLUSTER SETSLOT` for its client, and Valkey 8 makes the client wait there until its replicas have
/// acknowledged. Consequence: an assertion ends the primary, at each step of each slot that moves. Mend: what may wait
/// is run by the server itself.
#[test]
fn a_slot_moves_between_nodes_that_have_replicas() {
    let mut servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let replicas = replicas_of(&servers);
    let ids: Vec<String> = servers.iter().map(id_of).collect();
    let mut plain: Vec<Connection> = servers.iter().map(Server::connect).collect();
    let mut process = Process::hello(&servers[0], 7);
    process.commit("bar", "GETSET 1");
    ok(&mut plain[1], &format!("CLUSTER SETSLOT {SLOT} IMPORTING {}", ids[0]));
    ok(&mut plain[0], &format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", ids[1]));
    // From the answer on it is nobody's, for transactions.
    let told = asks(&mut process, "{bar}2");
    assert!(is_elsewhere(&told), "{told:?}");
    ok(&mut plain[0], &format!("MIGRATE 127.0.0.1 {} bar 0 1000", servers[1].port));
    for connection in plain.iter_mut().rev() {
        ok(connection, &format!("CLUSTER SETSLOT {SLOT} NODE {}", ids[1]));
    }
    assert_eq!(ok(&mut plain[1], "GET bar"), bulk("1"));
    assert!(servers.iter_mut().all(Server::runs));
    drop(replicas);
}

/// The same while its keys are in use: it is told to try again, where it cannot be made to wait, and finds them free.
#[test]
fn a_slot_of_held_keys_leaves_a_node_that_has_replicas_after_them() {
    let mut servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let replicas = replicas_of(&servers);
    let other = id_of(&servers[1]);
    let mut process = Process::hello(&servers[0], 7);
    let attempt = hold(&mut process, "bar", "GETSET 1");
    let leave = format!("CLUSTER SETSLOT {SLOT} MIGRATING {other}");
    let leaves = Waits::on(&servers[0], &leave);
    leaves.still();
    commit(&mut process, attempt, 1);
    let answer = leaves.answer();
    if answer != Value::Okay {
        let text = format!("{answer:?}");
        assert!(text.contains("TRYAGAIN") || text.contains("TryAgain"), "{text}");
        let told = asks(&mut process, "{bar}2");
        assert!(is_elsewhere(&told), "nobody takes the slot's keys meanwhile: {told:?}");
        ok(&mut servers[0].connect(), &leave);
    }
    assert!(servers.iter_mut().all(Server::runs));
    drop(replicas);
}

/// Bug: SETSLOT answered -TRYAGAIN at once while a key of the slot was in use. Consequence: `redis-cli --cluster reshard`
/// stops half-way and leaves the slot open. Mend: it waits as other plain commands do, and nobody new comes in.
#[test]
fn a_slot_that_leaves_waits_for_who_holds_its_keys_and_lets_nobody_in() {
    let servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let other = id_of(&servers[1]);
    let mut process = Process::hello(&servers[0], 7);
    let attempt = hold(&mut process, "bar", "GETSET 1");
    let leaves = Waits::on(&servers[0], &format!("CLUSTER SETSLOT {SLOT} MIGRATING {other}"));
    leaves.still();
    let told = asks(&mut process, "{bar}2");
    assert!(is_elsewhere(&told), "{told:?}");
    let told = asks(&mut process, "hello");
    assert!(matches!(told[..], [Response::Granted { .. }]), "other slots go on: {told:?}");
    // A plain command waits its turn all the same.
    let waits = Waits::on(&servers[0], "GET bar");
    waits.still();
    leaves.still();
    commit(&mut process, attempt, 1);
    assert_eq!(waits.answer(), bulk("1"));
    assert_eq!(leaves.answer(), Value::Okay);
    let told = asks(&mut process, "{bar}2");
    assert!(is_elsewhere(&told), "{told:?}");
}

/// Bug: who waits for a key runs when its slot is another node's. Consequence: it is told "Attempted to access a non local key in a
/// cluster node", which no client of a cluster knows what to do about. Mend: it is told to try again, and is redirected then.
#[test]
fn who_waited_for_a_key_that_left_is_told_to_try_again() {
    let servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let ids: Vec<String> = servers.iter().map(id_of).collect();
    let mut plain: Vec<Connection> = servers.iter().map(Server::connect).collect();
    let mut process = Process::hello(&servers[0], 7);
    let attempt = hold(&mut process, "bar", "GET");
    let waits = Waits::on(&servers[0], "SET bar 3");
    waits.still();
    // Nobody asks the first node.
    for step in [format!("IMPORTING {}", ids[0]), format!("NODE {}", ids[1])] {
        ok(&mut plain[1], &format!("CLUSTER SETSLOT {SLOT} {step}"));
    }
    wait_until("the first node knows", || format!("{:?}", run(&mut plain[0], "GET bar")).contains("Moved"));
    drop(process.try_frame(&[Request::Abort { attempt, refused_by: None }]));
    let told = format!("{:?}", waits.answer());
    assert!(told.contains("TryAgain") && told.contains("left this node"), "{told}");
    assert_eq!(ok(&mut plain[1], "GET bar"), Value::Nil, "nothing was done");
}

/// Bug: the shard goes on as another incarnation, as slots left, while a command waits. Consequence: its client is told that keys
/// were held for all of the time that it may wait, which has not passed. Mend: it is told what happened.
#[test]
fn who_waits_while_slots_leave_is_told_that_they_left() {
    let servers = cluster(2, &["--claret.lease-ms", "60000", "--claret.plain-wait-ms", "60000"]);
    let ids: Vec<String> = servers.iter().map(id_of).collect();
    let mut plain: Vec<Connection> = servers.iter().map(Server::connect).collect();
    let mut process = Process::hello(&servers[0], 7);
    hold(&mut process, "bar", "GET");
    let waits = Waits::on(&servers[0], "SET bar 3");
    waits.still();
    // Nobody asks the first node, and nobody lets go of the key.
    for step in [format!("IMPORTING {}", ids[0]), format!("NODE {}", ids[1])] {
        ok(&mut plain[1], &format!("CLUSTER SETSLOT {SLOT} {step}"));
    }
    let told = format!("{:?}", waits.answer());
    assert!(told.contains("TryAgain") && told.contains("left this node"), "{told}");
    assert_eq!(ok(&mut plain[1], "GET bar"), Value::Nil, "nothing was done");
}

#[test]
fn a_slot_waits_for_a_bounded_time_and_is_open_again() {
    let options = ["--claret.lease-ms", "60000", "--claret.plain-wait-ms", "200"];
    let servers = cluster(2, &options);
    let other = id_of(&servers[1]);
    let mut plain = servers[0].connect();
    let mut process = Process::hello(&servers[0], 7);
    hold(&mut process, "bar", "GETSET 1");
    let refused = error(&mut plain, &format!("CLUSTER SETSLOT {SLOT} NODE {other}"));
    assert!(refused.contains("TRYAGAIN") || refused.contains("TryAgain"), "{refused}");
    let told = asks(&mut process, "{bar}2");
    assert!(matches!(told.last(), Some(Response::Granted { .. })), "{told:?}");
    // Meanwhile who holds the key heard that an elder waits: it gives way where it waits itself (P35).
    assert!(told.iter().any(|told| matches!(told, Response::Elder { .. })), "{told:?}");
    // In MULTI it cannot wait.
    ok(&mut plain, "MULTI");
    ok(&mut plain, &format!("CLUSTER SETSLOT {SLOT} MIGRATING {other}"));
    let answers = format!("{:?}", run(&mut plain, "EXEC"));
    assert!(answers.contains("TRYAGAIN") || answers.contains("TryAgain"), "{answers}");
}

#[test]
fn a_slot_is_open_again_when_who_wanted_it_is_gone_or_may_not() {
    let servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let other = id_of(&servers[1]);
    let mut plain = servers[0].connect();
    ok(&mut plain, "ACL SETUSER few on >pw ~* +get +claret.write");
    let mut process = Process::hello(&servers[0], 7);
    let attempt = hold(&mut process, "bar", "GETSET 1");
    let leave = format!("CLUSTER SETSLOT {SLOT} MIGRATING {other}");
    let refused = error(&mut servers[0].connect_as("few", "pw"), &leave).to_lowercase();
    assert!(refused.contains("noperm") || refused.contains("acl"), "{refused}");
    let told = asks(&mut process, "{bar}2");
    assert!(matches!(told[..], [Response::Granted { .. }]), "{told:?}");
    let line: Vec<String> = leave.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let mut goes = std::net::TcpStream::connect(("127.0.0.1", servers[0].port)).expect("it listens");
    std::io::Write::write_all(&mut goes, format!("*5\r\n{}", line.concat()).as_bytes()).expect("it is sent");
    wait_until("the slot is closed", || is_elsewhere(&asks(&mut process, "{bar}3")));
    goes.shutdown(Shutdown::Both).expect("it closes");
    wait_until("the slot is open", || !is_elsewhere(&asks(&mut process, "{bar}4")));
    // A command that the server refuses opens it, too.
    commit(&mut process, attempt, 1);
    let refused = error(&mut plain, "CLUSTER SETSLOT 5061 MIGRATING nobody");
    assert!(
        refused.contains("nobody") || refused.contains("Unknown") || refused.contains("know"),
        "{refused}"
    );
    wait_until("the slot is open", || !is_elsewhere(&asks(&mut process, "{bar}5")));
}

/// Bug: on Valkey a slot stayed closed to transactions while the client whose command had closed it waited in one that it
/// sent later. Mend: what it sends next says that the server has run the one before.
#[test]
fn a_slot_is_open_again_though_who_wanted_it_goes_on_with_commands_that_wait() {
    let servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let mut process = Process::hello(&servers[0], 7);
    let mut goes_on = std::net::TcpStream::connect(("127.0.0.1", servers[0].port)).expect("it listens");
    let lines = format!("CLUSTER SETSLOT {SLOT} MIGRATING nobody\r\nBLPOP {{hello}}none 0\r\n");
    std::io::Write::write_all(&mut goes_on, lines.as_bytes()).expect("both are sent");
    let mut plain = servers[0].connect();
    wait_until("it waits", || {
        let info: String = redis::cmd("INFO").arg("clients").query(&mut plain).expect("how many wait");
        info.contains("blocked_clients:1")
    });
    wait_until("the slot is open", || !is_elsewhere(&asks(&mut process, "{bar}5")));
}

/// Bug: a channel was held against the slots that the node had when it looked last. Consequence: who greeted a node to which
/// slots had just come was told that it does not serve them, and gave it up. Mend: it looks again, and what it does not serve
/// now is asked for again.
#[test]
fn a_channel_of_a_slot_that_just_came_is_taken() {
    let server = Server::start(&["--cluster-enabled", "yes", "--claret.topology-ms", "60000"]);
    let mut plain = server.connect();
    ok(&mut plain, "CLUSTER ADDSLOTSRANGE 0 8191");
    drop(Process::hello(&server, 1));
    let mut channel_in = |half: i64| {
        let names = (0..).map(|number| format!("claret:default:{number}"));
        let mut in_half = names.filter(|name| {
            let slot: i64 =
                redis::cmd("CLUSTER").arg("KEYSLOT").arg(name).query(&mut plain).expect("its slot");
            slot / 8192 == half
        });
        in_half.next().expect("some are")
    };
    let (here, there) = (channel_in(0), channel_in(1));
    hello(&mut server.connect(), 2, 1, &["PUSH", &here]).expect("it serves that");
    let refused = hello(&mut server.connect(), 3, 1, &["PUSH", &there]).expect_err("nobody serves that");
    assert!(format!("{refused:?}").to_uppercase().contains("TRYAGAIN"), "{refused:?}");
    ok(&mut plain, "CLUSTER ADDSLOTSRANGE 8192 16383");
    hello(&mut server.connect(), 4, 1, &["PUSH", &there]).expect("its slot has come");
}
