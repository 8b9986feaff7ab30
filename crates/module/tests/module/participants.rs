//! Who is trusted about a transaction of several shards: only shards of the cluster are listed and asked, and only
//! they answer (`docs/security.md`).

use std::io::Write;
use std::net::TcpStream;

use crate::common::beside::{bulk, number, ok, run};
use crate::common::{Process, Server, cluster, wait_until};
use claret_core::message::{PeerMessage, Refusal, Request, Response, Status};
use claret_core::{ShardId, wire};
use claret_types::{Claims, Mode};
use redis::{Connection, Value};

/// Of slot 5061, which the first of two nodes has.
const HERE: &str = "bar";

fn is_unlisted(answers: &[Response]) -> bool {
    matches!(answers, [Response::Refused { refusal: Refusal::Unlisted, .. }])
}

/// To ask a shard that does not exist what became of an attempt is in vain: it would stay in doubt for ever.
#[test]
fn a_vote_is_given_with_shards_of_the_cluster_alone() {
    let servers = cluster(2, &[]);
    let (mut here, there) = (Process::hello(&servers[0], 1), Process::hello(&servers[1], 1));
    let (own, other) = ((here.shard, Some(here.incarnation)), (there.shard, None));
    for listed in [
        &[own, (ShardId(0xdead_beef), None)][..],
        &[own, other, (ShardId(0), None)],
        &[other],
        &[(ShardId(7), None)],
    ] {
        let attempt = here.begin();
        let prepare = here.prepare_with(attempt, 0, &[(HERE, "INCR")], listed);
        let answers = here.frame(std::slice::from_ref(&prepare));
        assert!(is_unlisted(&answers), "{listed:?}: {answers:?}");
        // It is written: the same again is the same.
        assert!(is_unlisted(&here.frame(&[prepare])));
    }
    let attempt = here.begin();
    let twice = here.prepare_with(attempt, 0, &[(HERE, "INCR")], &[own, other, other]);
    assert!(here.try_frame(&[twice]).expect_err("no list").to_string().contains("listed twice"));
    let mut plain = servers[0].connect();
    assert_eq!((number(&mut plain, "in_doubt"), number(&mut plain, "held_keys")), (0, 0));
    let attempt = here.begin();
    let prepare = here.prepare_with(attempt, 0, &[(HERE, "INCR")], &[own, other]);
    let answers = here.frame(&[prepare]);
    assert!(matches!(answers[..], [Response::Voted { .. }]), "{answers:?}");
}

/// Claims in advance are for who is going to write. Of a user who only reads they keep out nobody.
#[test]
fn who_only_reads_keeps_out_no_other_reader() {
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let mut admin = server.connect();
    ok(&mut admin, "SET k 1");
    ok(&mut admin, "ACL SETUSER reader on >pw %R~k -@all +get +claret.hello +claret.frame");
    ok(&mut admin, "CONFIG SET claret.plain-wait-ms 100");
    let mut reader = Process::over(server.connect_as("reader", "pw"), 1, 1, &[]);
    let mut writer = Process::hello(&server, 2);
    let exclusive = |process: &mut Process| {
        let attempt = process.begin();
        let mut execute = process.execute(attempt, 1, "k", "GET");
        let Request::Execute { calls, .. } = &mut execute else { unreachable!("it is one") };
        calls[0].reserve = Some(Box::new(Claims::record(Mode::EXCLUSIVE)));
        let answers = process.frame(&[execute]);
        assert!(matches!(answers[..], [Response::Granted { .. }]), "{answers:?}");
        attempt
    };
    let read = exclusive(&mut reader);
    assert!(matches!(writer.commit("k", "GET")[..], [Response::Committed { .. }]), "both read");
    let mut prepare = reader.prepare_with(
        read,
        1,
        &[("k", "GET")],
        &[(reader.shard, Some(reader.incarnation)), (ShardId(1), None)],
    );
    let Request::Prepare { calls, .. } = &mut prepare else { unreachable!("it is one") };
    calls[0].call.reserve = Some(Box::new(Claims::record(Mode::EXCLUSIVE)));
    let answers = reader.frame(&[prepare]);
    assert!(matches!(answers[..], [Response::Voted { .. }]), "{answers:?}");
    assert!(matches!(writer.commit("k", "GET")[..], [Response::Committed { .. }]), "they read still");
    reader.frame(&[Request::Abort { attempt: read, refused_by: Some(ShardId(1)) }]);
    // Who may write keeps out readers.
    exclusive(&mut writer);
    assert!(matches!(reader.commit("k", "GET")[..], [Response::Queued { .. }]));
}

/// A message of the module on the cluster bus, as a process would write it that can reach the port.
fn on_the_bus(sender: &str, port: u16, message: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 8]; // The module's number.
    body.extend((message.len() as u32).to_be_bytes());
    body.push(67);
    body.extend(message);
    let mut packet = b"RCmb".to_vec();
    packet.extend((2256 + body.len() as u32).to_be_bytes());
    packet.extend([1, port, 9, 0].iter().flat_map(|it: &u16| it.to_be_bytes()));
    packet.extend([0; 24]);
    packet.extend(sender.as_bytes());
    packet.extend([0; 2048 + 40 + 46 + 2 + 30]);
    packet.extend([0, port + 10_000, 1].iter().flat_map(|it: &u16| it.to_be_bytes()));
    packet.extend([0; 4]);
    packet.extend(body);
    packet
}

fn id(connection: &mut Connection) -> String {
    redis::cmd("CLUSTER").arg("MYID").query(connection).expect("its id")
}

/// Only a node that is listed is heard, and only for its own shard. Whoever reaches the bus and takes the name of a listed
/// node is that node to all: this is the server's own bus, and as safe.
#[test]
fn what_comes_over_the_bus_is_of_the_node_that_sends_it() {
    let servers = cluster(2, &["--claret.lease-ms", "60000"]);
    let (mut here, there) = (Process::hello(&servers[0], 1), Process::hello(&servers[1], 1));
    let mut plain = servers[0].connect();
    let (own_id, other_id) = (id(&mut plain), id(&mut servers[1].connect()));
    let attempt = here.begin();
    let both = [(here.shard, Some(here.incarnation)), (there.shard, Some(there.incarnation))];
    let prepare = here.prepare_with(attempt, 0, &[(HERE, "SET half")], &both);
    assert!(matches!(here.frame(&[prepare])[..], [Response::Voted { .. }]));
    // The server takes all that comes over one connection for its first sender's.
    let bus_port = servers[0].port + 10_000;
    let send = |sender: &str, message: &[u8]| {
        let mut bus = TcpStream::connect(("127.0.0.1", bus_port)).expect("the bus");
        bus.write_all(&on_the_bus(sender, servers[1].port, message)).expect("sent");
        bus
    };
    let answer = |from| wire::encode_peer(&PeerMessage::Answer { attempt, from, status: Status::Applied });
    let inquire = wire::encode_peer(&PeerMessage::Inquire { attempt, from: here.shard, listed: None });
    let refused = number(&mut plain, "peer_messages_refused");
    let mut open = Vec::new();
    for (sender, message) in [
        (&own_id, answer(there.shard)),
        (&own_id, inquire.clone()),
        (&other_id, inquire),
        (&other_id, answer(here.shard)),
        (&other_id, vec![]),
        (&other_id, vec![1; 30]),
    ] {
        open.push(send(sender, &message));
        let refused = refused + open.len() as u64;
        wait_until(&format!("{message:?} of {sender} is refused"), || {
            number(&mut plain, "peer_messages_refused") == refused
        });
    }
    // That one the server does not even hand over.
    open.push(send(&"0".repeat(40), &answer(there.shard)));
    assert_eq!((number(&mut plain, "in_doubt"), number(&mut plain, "peer_messages_in")), (1, 0));
    // What the name of a listed node is good for.
    open.push(send(&other_id, &answer(there.shard)));
    wait_until("it is believed", || number(&mut plain, "in_doubt") == 0);
    assert_eq!(ok(&mut plain, &format!("GET {HERE}")), bulk("half"));
}

/// An operator sees whose an attempt is, and ends it: what is open by its name or all of a user, what has voted by its name
/// alone.
#[test]
fn an_operator_ends_what_is_open() {
    let server = Server::start(&["--claret.lease-ms", "60000"]);
    let mut admin = server.connect();
    ok(&mut admin, "ACL SETUSER al on >pw ~* &* +@all");
    ok(&mut admin, "ACL SETUSER few on >pw ~a ~b -@all +config +claret.locks +claret.resolve +type +del");
    let mut al = Process::over(server.connect_as("al", "pw"), 1, 1, &[]);
    let client: i64 = redis::cmd("CLIENT").arg("ID").query(&mut al.connection).expect("its number");
    let open: Vec<_> =
        ["a", "b", "c"].map(|key| crate::common::beside::hold(&mut al, key, "GETSET x")).into();
    let voted = crate::common::beside::hold(&mut al, "v", "GETSET x");
    crate::common::beside::vote(&mut al, voted, 1);
    let locks: Vec<Vec<Value>> = redis::cmd("CLARET.LOCKS").arg("a").query(&mut admin).expect("the locks");
    let holders: Vec<String> = redis::from_redis_value(locks[0][1].clone()).expect("names");
    let begin = format!("{} open user=al client={client} addr=127.0.0.1:", open[0]);
    assert!(holders[0].starts_with(&begin), "{holders:?} and not {begin}");
    let mut few = server.connect_as("few", "pw");
    // Of a key that an operator may not write nothing is decided.
    let refused = format!(
        "{:?}",
        run(&mut few, &format!("CLARET.RESOLVE {} ABORT", open[2])).expect_err("not its key")
    );
    assert!(refused.to_uppercase().contains("NOPERM"), "{refused}");
    let refused =
        format!("{:?}", run(&mut few, "CLARET.RESOLVE USER al ABORT").expect_err("not all its keys"));
    assert!(refused.to_uppercase().contains("NOPERM"), "{refused}");
    let refused = format!(
        "{:?}",
        run(&mut few, &format!("CLARET.RESOLVE {} COMMIT", open[0])).expect_err("it is open")
    );
    assert!(refused.contains("not in doubt"), "{refused}");
    ok(&mut few, &format!("CLARET.RESOLVE {} ABORT", open[0]));
    assert_eq!(number(&mut admin, "held_keys"), 3);
    assert_eq!(ok(&mut admin, "CLARET.RESOLVE USER nobody ABORT"), Value::Int(0));
    assert!(run(&mut admin, "CLARET.RESOLVE USER al COMMIT").is_err());
    assert_eq!(ok(&mut admin, "CLARET.RESOLVE USER al ABORT"), Value::Int(2));
    assert_eq!((number(&mut admin, "held_keys"), number(&mut admin, "in_doubt")), (1, 1), "what voted stays");
    for attempt in open {
        let prepare = al.prepare_with(attempt, 1, &[], &[(al.shard, Some(al.incarnation))]);
        let answers = al.frame(&[prepare]);
        let is_ended = |it: &Response| matches!(it, Response::Refused { refusal: Refusal::Resolved, .. });
        assert!(answers.iter().all(is_ended) && !answers.is_empty(), "{answers:?}");
    }
    ok(&mut admin, &format!("CLARET.RESOLVE {voted} ABORT"));
    assert_eq!((number(&mut admin, "held_keys"), number(&mut admin, "in_doubt")), (0, 0));
    // Transactions of one go, too.
    al.frame(&[]);
    let held = crate::common::beside::hold(&mut al, "k", "GETSET x");
    let waits = crate::common::beside::Waits::on(&server, "CLARET.EXEC 3 SET k y");
    wait_until("it waits", || number(&mut admin, "execs_open") == 1);
    assert_eq!(ok(&mut admin, "CLARET.RESOLVE USER default ABORT"), Value::Int(1));
    let said = format!("{:?}", waits.answer());
    assert!(said.contains("an operator ended it"), "{said}");
    crate::common::beside::commit(&mut al, held, 1);
    assert!(server.log().contains("2 attempts of user 'al' are aborted by user 'default'"));
}

/// A plain command that waits behind a lock is shown with who sent it, and is ended as an attempt is.
#[test]
fn an_operator_sees_and_ends_plain_commands_that_wait() {
    let server = Server::start(&["--claret.lease-ms", "60000", "--claret.plain-wait-ms", "60000"]);
    let mut admin = server.connect();
    ok(&mut admin, "ACL SETUSER plain on >pw ~* &* +@all");
    let mut process = Process::hello(&server, 7);
    let held = crate::common::beside::hold(&mut process, "k", "GETSET x");
    let waits = |line: &str| {
        let mut connection = server.connect_as("plain", "pw");
        let client: i64 = redis::cmd("CLIENT").arg("ID").query(&mut connection).expect("its number");
        let line = line.to_owned();
        (client, std::thread::spawn(move || format!("{:?}", run(&mut connection, &line))))
    };
    let waiters = |admin: &mut Connection| -> Vec<String> {
        let locks: Vec<Vec<Value>> = redis::cmd("CLARET.LOCKS").arg("k").query(admin).expect("the locks");
        redis::from_redis_value(locks[0][2].clone()).expect("names")
    };
    let (client, first) = waits("SET k first");
    wait_until("it waits", || waiters(&mut admin).len() == 1);
    let shown = waiters(&mut admin).remove(0);
    assert!(shown.contains(&format!(" open user=plain client={client} addr=127.0.0.1:")), "{shown}");
    let name = shown.split(' ').next().expect("its name");
    let refused =
        format!("{:?}", run(&mut admin, &format!("CLARET.RESOLVE {name} COMMIT")).expect_err("it is open"));
    assert!(refused.contains("not in doubt"), "{refused}");
    ok(&mut admin, &format!("CLARET.RESOLVE {name} ABORT"));
    let said = first.join().expect("an answer");
    assert!(said.contains("an operator ended it"), "{said}");
    // All of a user at once; what others do stays.
    let (_, second) = waits("SET k second");
    let (_, third) = waits("INCR k");
    wait_until("they wait", || waiters(&mut admin).len() == 2);
    assert_eq!(ok(&mut admin, "CLARET.RESOLVE USER plain ABORT"), Value::Int(2));
    for waiter in [second, third] {
        let said = waiter.join().expect("an answer");
        assert!(said.contains("an operator ended it"), "{said}");
    }
    crate::common::beside::commit(&mut process, held, 1);
    assert_eq!(ok(&mut admin, "GET k"), bulk("x"));
    assert_eq!((number(&mut admin, "held_keys"), number(&mut admin, "plain_open")), (0, 0));
}

/// What is denied within a frame, a hello or a transaction of one go is in the server's log as if it had been a command.
#[test]
fn denials_are_in_the_servers_log() {
    let server = Server::start(&[]);
    let mut admin = server.connect();
    ok(
        &mut admin,
        "ACL SETUSER al on >pw ~a resetchannels -@all +get +config +claret.hello +claret.frame +claret.exec +claret.locks",
    );
    let mut logged = |what: &str| {
        let entries: Vec<Vec<Value>> = redis::cmd("ACL").arg("LOG").query(&mut admin).expect("the log");
        let shown: Vec<String> = entries.iter().map(|entry| format!("{entry:?}")).collect();
        ok(&mut admin, "ACL LOG RESET");
        assert!(
            shown.len() == 1 && shown[0].contains("\"al\"") || shown[0].contains("'al'"),
            "{what}: {shown:?}"
        );
        shown[0].clone()
    };
    let text = |entry: &str, word: &str| {
        let bytes = format!("{:?}", Value::BulkString(word.as_bytes().to_vec()));
        entry.contains(&bytes)
    };
    let mut al = Process::over(server.connect_as("al", "pw"), 1, 1, &[]);
    assert!(matches!(al.commit("b", "GET")[..], [Response::Refused { refusal: Refusal::Denied { .. }, .. }]));
    let entry = logged("a key in a frame");
    assert!(text(&entry, "key") && text(&entry, "b"), "{entry}");
    al.commit("a", "INCR");
    let entry = logged("a command in a frame");
    assert!(text(&entry, "command") && text(&entry, "INCRBY"), "{entry}");
    assert!(run(&mut al.connection, "CLARET.EXEC 2 GET b").is_err());
    let entry = logged("a key in CLARET.EXEC");
    assert!(text(&entry, "key") && text(&entry, "b"), "{entry}");
    assert!(
        crate::common::hello(&mut server.connect_as("al", "pw"), 2, 1, &["PUSH", "claret:al:x"]).is_err()
    );
    let entry = logged("a channel in a hello");
    assert!(text(&entry, "channel") && text(&entry, "claret:al:x"), "{entry}");
    assert!(run(&mut al.connection, "CLARET.LOCKS b").is_err());
    let entry = logged("a key that is looked at");
    assert!(text(&entry, "key") && text(&entry, "b"), "{entry}");
}
