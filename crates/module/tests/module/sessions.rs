//! Who may speak for a session (`docs/security.md`): only a connection that proves it, each connection at each node
//! separately. Knowing the session's number is worth nothing, and only those who need it learn it.

use crate::common::beside::{Waits, bulk, hold, number, ok, run};
use crate::common::{Process, Server, hello, identity, session, statement, wait_until};
use claret_core::message::{Request, Response};
use claret_core::{AttemptId, Birth, Sequence, Time, TxId, wire};
use claret_identity::Signature;
use redis::{Connection, RedisResult, Value};

/// The first half of a hello, with a key that need not be one's own.
fn ask(connection: &mut Connection, person: u64, number: u32, way: &[&str]) -> Value {
    let key = identity(person).public().to_string();
    let asked = redis::cmd("CLARET.HELLO").arg(wire::VERSION).arg(key).arg(number).arg(way).query(connection);
    asked.expect("anybody may ask")
}

/// The second half.
fn prove(
    connection: &mut Connection,
    person: u64,
    number: u32,
    way: &[&str],
    proof: &Signature,
) -> RedisResult<Value> {
    let key = identity(person).public().to_string();
    let mut cmd = redis::cmd("CLARET.HELLO");
    cmd.arg(wire::VERSION).arg(key).arg(number).arg(way).arg("PROOF").arg(proof.to_string()).query(connection)
}

fn refused<T: std::fmt::Debug>(answer: RedisResult<T>) -> String {
    format!("{:?}", answer.expect_err("it is refused"))
}

fn user(admin: &mut Connection, rules: &[&str]) {
    let () = redis::cmd("ACL").arg("SETUSER").arg(rules).query(admin).expect("a rule");
}

#[test]
fn whoever_knows_the_number_and_the_key_of_a_session_cannot_speak_for_it() {
    let server = Server::start(&[]);
    let mut alice = Process::hello(&server, 7);
    let held = hold(&mut alice, "k", "GETSET x");
    // Signed by another key.
    let mut forger = server.connect();
    let asked = ask(&mut forger, 7, 9, &[]);
    let forged = identity(8).sign(&statement(&identity(7), &asked, 9, &[]).as_statement());
    assert!(refused(prove(&mut forger, 7, 9, &[], &forged)).contains("proof"));
    // What the owner signed, said on another connection and once more on its own.
    let (mut own, mut other) = (server.connect(), server.connect());
    let asked = ask(&mut own, 7, 2, &[]);
    ask(&mut other, 7, 2, &[]);
    let proof = identity(7).sign(&statement(&identity(7), &asked, 2, &[]).as_statement());
    assert!(refused(prove(&mut other, 7, 2, &[], &proof)).contains("proof"));
    prove(&mut own, 7, 2, &[], &proof).expect("it is the owner's");
    assert!(refused(prove(&mut own, 7, 2, &[], &proof)).contains("on another connection"));
    let mut unasked = server.connect();
    assert!(refused(prove(&mut unasked, 7, 2, &[], &proof)).contains("nothing was asked"));
    ask(&mut unasked, 7, 2, &[]);
    assert!(refused(prove(&mut unasked, 7, 2, &[], &proof)).contains("proof"), "another challenge");
    // What was signed is not bent.
    for (number, way) in [(3, &[][..]), (2, &["POLL"]), (2, &["LISTEN"])] {
        let mut other = server.connect();
        let asked = ask(&mut other, 7, number, way);
        let proof = identity(7).sign(&statement(&identity(7), &asked, 2, &[]).as_statement());
        assert!(refused(prove(&mut other, 7, number, way, &proof)).contains("proof"), "{number} {way:?}");
    }
    // Without a proof nothing is heard and nothing said.
    let mut plain = server.connect();
    let (number, frame) = (session(7).0, wire::encode_requests(&[Request::Withdraw { attempt: held }]));
    assert!(refused(run(&mut plain, &format!("CLARET.POLL {number} 0"))).contains("NOSESSION"));
    let said: RedisResult<Value> = redis::cmd("CLARET.FRAME").arg(frame).query(&mut plain);
    assert!(refused(said).contains("NOSESSION"));
    crate::common::beside::commit(&mut alice, held, 1);
}

#[test]
fn a_proof_for_one_node_is_worth_nothing_at_another() {
    let servers = crate::common::cluster(2, &[]);
    let (mut here, mut there) = (servers[0].connect(), servers[1].connect());
    for server in &servers {
        drop(Process::hello(server, 5));
    }
    let (asked, asked_there) = (ask(&mut here, 7, 1, &[]), ask(&mut there, 7, 1, &[]));
    let proof = identity(7).sign(&statement(&identity(7), &asked, 1, &[]).as_statement());
    assert!(refused(prove(&mut there, 7, 1, &[], &proof)).contains("proof"));
    // Not even the same challenge would do.
    let mut there = servers[1].connect();
    let again = ask(&mut there, 7, 1, &[]);
    let mut said = statement(&identity(7), &again, 1, &[]);
    said.shard = crate::common::shard(&asked);
    assert_ne!(crate::common::shard(&asked), crate::common::shard(&asked_there));
    let proof = identity(7).sign(&said.as_statement());
    assert!(refused(prove(&mut there, 7, 1, &[], &proof)).contains("proof"));
}

/// A proof costs the server more than the one who sends it.
#[test]
fn a_connection_has_one_wrong_proof() {
    let server = Server::start(&[]);
    drop(Process::hello(&server, 1));
    let mut connection = server.connect();
    ask(&mut connection, 7, 1, &[]);
    assert!(
        refused(prove(&mut connection, 7, 1, &[], &Signature([0; 64]))).contains("on another connection")
    );
    for person in [7, 8] {
        assert!(refused(hello(&mut connection, person, 1, &[])).contains("on another connection"));
        let proved = prove(&mut connection, person, 1, &[], &Signature([0; 64]));
        assert!(refused(proved).contains("on another connection"));
    }
    hello(&mut server.connect(), 7, 1, &[]).expect("on another one");
}

/// Bug: a connection said hello as often as it liked, for a new session each time. Consequence: a signature to verify and
/// a session to keep for each, and a session that lost its last connection so was not deserted. Mend: once.
#[test]
fn a_connection_says_hello_once() {
    let server = Server::start(&[]);
    let mut plain = server.connect();
    let mut connection = server.connect();
    hello(&mut connection, 7, 2, &[]).expect("the first");
    for person in [7, 8, 9] {
        assert!(refused(hello(&mut connection, person, 3, &["LISTEN"])).contains("on another connection"));
        let proved = prove(&mut connection, person, 3, &[], &Signature([0; 64]));
        assert!(refused(proved).contains("on another connection"), "without a look at the proof");
    }
    assert_eq!(number(&mut plain, "sessions"), 1);
    let empty: RedisResult<Vec<u8>> =
        redis::cmd("CLARET.FRAME").arg(wire::encode_requests(&[])).query(&mut connection);
    empty.expect("it speaks for its session still");
    // So it is with one that proved its session, and is not let in: connection 1 is older.
    let mut older = server.connect();
    for wanted in ["is newer", "on another connection"] {
        assert!(refused(hello(&mut older, 7, 1, &[])).contains(wanted), "{wanted}");
    }
}

/// The number of the session under which `CLARET.EXEC` runs.
fn own_session(admin: &mut Connection) -> u64 {
    let locks: Vec<Vec<Value>> = redis::cmd("CLARET.LOCKS").query(admin).expect("the locks");
    let waiters: Vec<String> = redis::from_redis_value(locks[0][2].clone()).expect("names");
    waiters[0].split('.').next().and_then(|number| number.parse().ok()).expect("a session")
}

/// Somebody else's transaction is forged by whoever learns its session. Holders learn that an elder waits, and nothing
/// else of it.
#[test]
fn what_waits_is_not_named_to_those_who_hold() {
    let server = Server::start(&[]);
    let mut admin = server.connect();
    user(&mut admin, &["m", "on", ">pw", "-@all", "+claret.hello", "+claret.frame", "+get", "%R~k"]);
    let mut mallory = Process::over(server.connect_as("m", "pw"), 8, 1, &[]);
    let attempt = mallory.begin();
    let mut read = mallory.execute(attempt, 1, "k", "counter:GET");
    if let Request::Execute { birth, .. } = &mut read {
        birth.time = Time(u64::MAX);
    }
    let answers = mallory.frame(&[read]);
    assert!(matches!(answers[..], [Response::Granted { .. }]), "{answers:?}");
    let waits = Waits::on(&server, "CLARET.EXEC 3 INCRBY k 5");
    wait_until("it waits", || number(&mut admin, "execs_open") == 1);
    let own = own_session(&mut admin);
    let beat = [Request::Heartbeat { live: vec![attempt], low_water: Sequence(1) }];
    let heard: Vec<u8> = redis::cmd("CLARET.FRAME")
        .arg(wire::encode_requests(&beat))
        .query(&mut mallory.connection)
        .expect("it lives");
    let responses = wire::decode_responses(&heard).expect("a frame");
    assert!(responses.iter().any(|it| matches!(it, Response::Elder { .. })), "{responses:?}");
    assert!(!heard.windows(8).any(|bytes| bytes == own.to_le_bytes()), "nobody is told the number");
    // It would be worth nothing, too.
    let foreign = |sequence| AttemptId {
        tx: TxId { session: claret_core::SessionId(own), sequence: Sequence(sequence) },
        attempt: 1,
    };
    for sequence in 1..4 {
        let (attempt, tx) = (foreign(sequence), foreign(sequence).tx);
        let mut prepare = mallory.prepare(attempt, &[("k", "counter:GET")]);
        if let Request::Prepare { birth, .. } = &mut prepare {
            *birth = Birth { time: Time(0), tx };
        }
        for request in [
            prepare,
            Request::Ask { attempt },
            Request::AskBehind { attempt },
            Request::Withdraw { attempt },
            Request::Abort { attempt, refused_by: None },
            Request::Heartbeat { live: vec![attempt], low_water: Sequence(1 << 63) },
        ] {
            let refused = refused(mallory.try_frame(std::slice::from_ref(&request)));
            assert!(refused.contains("another session"), "{request:?}: {refused}");
        }
    }
    // A low-water mark is of the session that says it.
    mallory.frame(&[
        Request::Withdraw { attempt },
        Request::Heartbeat { live: vec![], low_water: Sequence(1 << 63) },
    ]);
    assert_eq!(waits.answer(), Value::Array(vec![Value::Okay]));
    assert_eq!(ok(&mut admin, "CLARET.EXEC 3 INCRBY k 5"), Value::Array(vec![Value::Okay]));
    assert_eq!(ok(&mut admin, "GET k"), bulk("10"));
}

/// Whoever asks what became of an attempt leaves a no where nothing is: so only its own session asks.
#[test]
fn nobody_ends_the_transactions_of_another_by_asking_about_them() {
    let server = Server::start(&[]);
    let mut admin = server.connect();
    user(&mut admin, &["eve", "on", ">pw", "-@all", "+claret.hello", "+claret.frame"]);
    let mut alice = Process::hello(&server, 7);
    let mut eve = Process::over(server.connect_as("eve", "pw"), 8, 1, &[]);
    let attempt =
        |sequence| AttemptId { tx: TxId { session: session(7), sequence: Sequence(sequence) }, attempt: 1 };
    for sequence in 1..41 {
        let asked = eve.try_frame(&[Request::Ask { attempt: attempt(sequence) }]);
        assert!(refused(asked).contains("another session"));
    }
    for _ in 1..41 {
        let answers = alice.commit("k", "INCR");
        assert!(matches!(answers[..], [Response::Committed { .. }]), "{answers:?}");
    }
    // Of its own it may ask.
    let asked = alice.frame(&[Request::Ask { attempt: attempt(1) }]);
    assert!(matches!(asked[..], [Response::Asked { .. }]), "{asked:?}");
}

/// A name is its bytes. `\xff` is no text, and is shown as U+FFFD is where text is wanted.
#[test]
fn a_user_whose_name_is_no_text_is_nobody_else() {
    let server = Server::start(&[]);
    let mut admin = server.connect();
    let mut connect = |name: &[u8], keys: &str| {
        let rules = [name, b"on", b">pw", keys.as_bytes(), b"+@all"];
        let () = redis::cmd("ACL").arg("SETUSER").arg(&rules).query(&mut admin).expect("a rule");
        let mut connection = server.connect();
        let () = redis::cmd("AUTH").arg(name).arg("pw").query(&mut connection).expect("it may");
        connection
    };
    let (mut low, mut high) = (connect(b"\xff", "~low:*"), connect("\u{fffd}".as_bytes(), "~*"));
    ok(&mut high, "SET secret 42");
    let line = "CLARET.EXEC 3 SET secret stolen";
    let said = refused(run(&mut low, line));
    assert!(said.contains("may not run SET") && said.contains("'\\xff'"), "{said}");
    assert!(refused(run(&mut low, "CLARET.EXEC 2 GET secret")).contains("may not run GET"));
    assert_eq!(ok(&mut high, "GET secret"), bulk("42"));
    ok(&mut low, "CLARET.EXEC 3 SET low:1 x");
    // Nor does it speak for sessions of the other, though it has the key.
    hello(&mut high, 7, 1, &[]).expect("its session");
    assert!(refused(hello(&mut low, 7, 2, &[])).contains("another user"));
    // Nor is it gone when the other is.
    let () = redis::cmd("ACL").arg("DELUSER").arg("\u{fffd}").query(&mut admin).expect("it goes");
    assert_eq!(ok(&mut low, "CLARET.EXEC 2 GET low:1"), Value::Array(vec![bulk("x")]));
}

/// Who says that its transactions are as old as time itself passes those who come now, and nobody who has waited for
/// longer than may be claimed.
#[test]
fn nobody_is_older_than_may_be_claimed() {
    let server = Server::start(&[]);
    let now = || {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after it").as_micros()
            as u64
    };
    let mut holder = Process::hello(&server, 7);
    let held = hold(&mut holder, "k", "GETSET x");
    let with_birth = |process: &mut Process, time: u64, words: &str| {
        let attempt = process.begin();
        let mut execute = process.execute(attempt, 1, "k", words);
        if let Request::Execute { birth, .. } = &mut execute {
            birth.time = Time(time);
        }
        let answers = process.frame(&[execute]);
        assert!(matches!(answers[..], [Response::Queued { .. }]), "{answers:?}");
        attempt
    };
    let (mut honest, mut liar) = (Process::hello(&server, 8), Process::hello(&server, 9));
    let waits = with_birth(&mut honest, now() - 61_000_000, "GETSET honest");
    with_birth(&mut liar, 0, "GETSET liar");
    crate::common::beside::commit(&mut holder, held, 1);
    let granted = honest.frame(&[]);
    let is_granted = |it: &Response| matches!(it, Response::Granted { attempt, .. } if *attempt == waits);
    assert!(granted.iter().any(is_granted), "{granted:?}");
    assert!(liar.frame(&[]).is_empty(), "it came later, and is no older");
}
