//! `claret.schema` on a real server: what it refuses, what is refused as a schema, and that it stays.

use crate::common::beside::{Waits, commit, hold, number, ok, rig};
use crate::common::{call, module, operation, told};
use claret_core::LookNo;
use claret_core::message::{Refusal, Request, Response, Seen};
use claret_rig::{Module, Server as RigServer};
use claret_types::{Bytes, OpError, SCHEMA_BYTES_MAX, SCHEMA_PREFIXES_MAX, Schema};
use redis::{Connection, Value};

const SHOP: &str =
    "prefix cart: dict closed\n  field owner string\n  field total integer\nprefix seen: set\n";

fn set(plain: &mut Connection, schema: &str) -> Result<(), String> {
    let set = redis::cmd("CONFIG").arg("SET").arg("claret.schema").arg(schema).query(plain);
    set.map_err(|error| format!("{error:?}"))
}

fn kept(plain: &mut Connection) -> String {
    let pair: Vec<String> =
        redis::cmd("CONFIG").arg("GET").arg("claret.schema").query(plain).expect("it is a setting");
    pair[1].clone()
}

#[track_caller]
fn assert_refused(answers: &[Response], key: &str, says: &str) {
    let [Response::Refused { refusal: refusal @ Refusal::AgainstSchema { key: named, error }, .. }] = answers
    else {
        panic!("{says}: {answers:?}")
    };
    assert!(matches!(**error, OpError::AgainstSchema { .. }) && *named == Bytes::from(key), "{refusal}");
    assert!(!refusal.is_retryable() && refusal.to_string().contains(says), "{refusal}");
}

/// Nobody holds a raw session to a client's manners: the node looks at each call, whichever way it comes.
#[test]
fn what_breaks_the_schema_is_refused_to_a_raw_session() {
    let (_server, mut process, mut plain) = rig();
    set(&mut plain, SHOP).expect("a schema");
    assert_eq!(number(&mut plain, "schema_prefixes"), 2);
    let another_type = "'cart:' holds a dict, and this is an operation of a set";
    assert_refused(&process.commit("cart:1", "SADD x"), "cart:1", another_type);
    let attempt = process.begin();
    let execute = process.execute(attempt, 1, "cart:1", "SADD.RETURNING x");
    assert_refused(&process.frame(&[execute]), "cart:1", another_type);
    // Calls that are alike but for their arguments, of which the host hears once otherwise.
    let attempt = process.begin();
    let calls = [("cart:1", "HSET total 5"), ("cart:1", "HSET total abc"), ("seen:1", "SADD x")];
    let prepare = process.prepare(attempt, &calls);
    assert_refused(
        &process.frame(&[prepare]),
        "cart:1",
        "an integer in the field 'total', and this is 'abc'",
    );
    assert_refused(&process.commit("cart:1", "HINCRBY owner 1"), "cart:1", "and this is an addition");
    assert_refused(&process.commit("cart:1", "HSET colour red"), "cart:1", "holds no field 'colour'");
    assert_refused(&process.commit("cart:1", "RECORD.PUT set a"), "cart:1", "an operation of a set");
    let ops = [operation("SCARD")].into_iter().collect();
    let look = Request::Look { look: LookNo(1), key: Bytes::from("cart:1"), ops, at_once: true };
    let answers = process.frame(&[look]);
    let [Response::Looked { seen: Seen::Refused(Refusal::AgainstSchema { .. }), .. }] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(ok(&mut plain, "DBSIZE"), Value::Int(0), "nothing was done");
    assert!(matches!(process.commit("cart:1", "HSET total 5")[..], [Response::Committed { .. }]));
    assert!(matches!(process.commit("other", "HSET total abc")[..], [Response::Committed { .. }]));
    set(&mut plain, "").expect("none");
    assert!(matches!(process.commit("cart:1", "HSET total abc")[..], [Response::Committed { .. }]));
}

#[test]
fn one_shot_transactions_are_refused_as_others() {
    let (_server, _process, mut plain) = rig();
    set(&mut plain, SHOP).expect("a schema");
    let exec = redis::cmd("CLARET.EXEC")
        .arg("3 SADD cart:1 x".split(' ').collect::<Vec<_>>())
        .query::<Value>(&mut plain);
    let error = format!("{:?}", exec.expect_err("it breaks the schema"));
    assert!(error.contains("SADD breaks the schema") && error.contains("cart:1"), "{error}");
}

/// What was let in before a schema came stays: rights that change do not take back what is done either.
#[test]
fn a_schema_counts_for_what_comes_behind_it() {
    let (_server, mut process, mut plain) = rig();
    let attempt = hold(&mut process, "cart:1", "SADD.RETURNING x");
    set(&mut plain, SHOP).expect("a schema");
    let more = Request::Execute {
        attempt,
        birth: crate::common::birth(attempt),
        incarnation: Some(process.incarnation),
        key: Bytes::from("cart:1"),
        calls: [call(2, operation("SADD.RETURNING y"))].into_iter().collect(),
        undone: Default::default(),
    };
    assert_refused(&process.frame(&[more]), "cart:1", "an operation of a set");
    set(&mut plain, "").expect("none");
    let attempt = hold(&mut process, "cart:2", "SADD.RETURNING x");
    set(&mut plain, SHOP).expect("a schema");
    commit(&mut process, attempt, 1);
    assert_eq!(ok(&mut plain, "SCARD cart:2"), Value::Int(1));
}

/// A plain command that waits for a transaction is carried out when it ends, as one that does not wait is.
#[test]
fn plain_commands_are_not_judged() {
    let (server, mut process, mut plain) = rig();
    let attempt = hold(&mut process, "cart:1", "SADD.RETURNING x");
    set(&mut plain, SHOP).expect("a schema");
    let waits = Waits::on(&server, "SISMEMBER cart:1 x");
    waits.still();
    commit(&mut process, attempt, 1);
    assert_eq!(waits.answer(), Value::Int(1));
    ok(&mut plain, "SADD cart:1 y");
    assert_eq!(ok(&mut plain, "SCARD cart:1"), Value::Int(2));
}

#[test]
fn what_is_no_schema_is_refused_and_the_one_before_stays() {
    let (_server, mut process, mut plain) = rig();
    set(&mut plain, &format!("# A shop.\n{SHOP}")).expect("a schema");
    assert_eq!(kept(&mut plain), SHOP, "as it is written");
    for (text, says) in [
        ("prefix a: set\nprefix a: list", "line 2: the prefix 'a:' is a set above already"),
        ("prefix a: sett", "line 1: there is no type 'sett'"),
        ("schema", "line 1: 'schema' begins no line of a schema"),
    ] {
        let error = set(&mut plain, text).expect_err("none");
        assert!(error.contains(says), "{error}");
    }
    let too_large = "x".repeat(SCHEMA_BYTES_MAX + 1);
    let error = set(&mut plain, &too_large).expect_err("too large");
    assert!(error.contains("a schema in bytes of 65537 is over the limit of 65536"), "{error}");
    let huge = "prefix a: set\n".repeat(4 << 20);
    assert!(set(&mut plain, &huge).expect_err("huge").contains("over the limit of 65536"));
    let set_bytes = redis::cmd("CONFIG")
        .arg("SET")
        .arg("claret.schema")
        .arg(&b"prefix \xff set"[..])
        .query::<()>(&mut plain);
    let error = format!("{:?}", set_bytes.expect_err("no text"));
    assert!(error.contains("no UTF-8 from byte 7 on"), "{error}");
    assert_eq!(kept(&mut plain), SHOP);
    assert_refused(&process.commit("cart:1", "SADD x"), "cart:1", "an operation of a set");
}

#[test]
fn a_welcome_tells_the_digest() {
    let (server, _process, mut plain) = rig();
    let greet = |person| {
        told(&crate::common::hello(&mut server.connect(), person, 1, &["POLL"]).expect("welcome"), "schema")
            .clone()
    };
    assert_eq!(greet(21), Value::BulkString(b"none".to_vec()));
    set(&mut plain, SHOP).expect("a schema");
    let digest = Schema::parse(SHOP).expect("a schema").digest().to_string();
    assert_eq!(greet(22), Value::BulkString(digest.into_bytes()));
}

/// It is rewritten into the configuration file, however long and whatever bytes are in it, and read from there, again and again.
#[test]
fn a_schema_outlives_its_server() {
    let module = Module::at(module()).expect("it is built");
    let mut server = RigServer::options().module(module).start().expect("a server");
    let set = |server: &RigServer, schema: &str| {
        server.query::<()>(&["CONFIG", "SET", "claret.schema", schema]).expect("a schema");
        server.query::<()>(&["CONFIG", "REWRITE"]).expect("it has a file");
    };
    let kept = |server: &RigServer| {
        server.query::<Vec<String>>(&["CONFIG", "GET", "claret.schema"]).expect("a setting")[1].clone()
    };
    let odd = "prefix \"\\x00 \\\"\\\\'\\xff\" set\nprefix größe list\n";
    let many: String =
        (0..SCHEMA_PREFIXES_MAX).map(|at| format!("prefix p{at:04}:{{x}} bounded-counter\n")).collect();
    for schema in [SHOP, odd, &many] {
        set(&server, schema);
        for _ in 0..2 {
            server.restart().expect("it starts");
            assert_eq!(kept(&server), schema);
            server.query::<()>(&["CONFIG", "REWRITE"]).expect("it has a file");
        }
    }
    set(&server, "");
    server.restart().expect("it starts");
    assert_eq!(kept(&server), "");
}

/// A schema in the configuration file that is none: the server says why, and does not start without it.
#[test]
fn a_server_does_not_start_with_what_is_no_schema() {
    let module = Module::at(module()).expect("it is built");
    let options =
        RigServer::options().module(module).config("claret.schema \"prefix a: set\\nprefix a: list\"");
    let error = options.start().expect_err("no schema").to_string();
    assert!(error.contains("line 2: the prefix 'a:' is a set above already"), "{error}");
}
