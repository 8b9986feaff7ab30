//! Documents on a server: hashes that any client reads, told from others by their root; and what waits for what beside them.

use crate::common::Process;
use crate::common::beside::{Waits, bulk, commit, hold, ok, rig, vote};
use claret_core::message::{Refusal, Response};
use redis::{Connection, Value};

const ADA: &str = "JSON.SET $ {\"name\":\"Ada\",\"a\":{\"b\":1,\"c\":2},\"l\":[1,{\"x\":null}]}";

fn done(process: &mut Process, key: &str, words: &str) {
    let answers = process.commit(key, words);
    assert!(matches!(answers[..], [Response::Committed { .. }]), "{words}: {answers:?}");
}

fn refused(process: &mut Process, key: &str, words: &str) -> String {
    match &process.commit(key, words)[..] {
        [Response::Refused { refusal: Refusal::Operation { error, .. }, .. }] => error.to_string(),
        other => panic!("{words}: {other:?}"),
    }
}

/// `field=text` of a hash, in order.
fn fields(plain: &mut Connection, key: &str) -> Vec<String> {
    let flat: Vec<String> = redis::cmd("HGETALL").arg(key).query(plain).expect("a hash");
    let mut pairs: Vec<String> = flat.chunks(2).map(|pair| pair.join("=")).collect();
    pairs.sort();
    pairs
}

#[test]
fn a_document_is_a_hash_of_paths() {
    let (_server, mut process, mut plain) = rig();
    done(&mut process, "d", ADA);
    let written = ["$.a.b=1", "$.a.c=2", "$.a={}", "$.l=[1,{\"x\":null}]", "$.name=\"Ada\"", "$={}"];
    assert_eq!(fields(&mut plain, "d"), written);
    ok(&mut plain, "PEXPIREAT d 4102444800000");
    done(&mut process, "d", "JSON.SET $ {\"n\":7}");
    assert_eq!(fields(&mut plain, "d"), ["$.n=7", "$={}"]);
    assert_eq!(ok(&mut plain, "PEXPIRETIME d"), Value::Int(4_102_444_800_000), "it is the same record");
    // What plain commands write is part of it.
    ok(&mut plain, "HINCRBY d $.n 5");
    ok(&mut plain, "HSET d $.s \"x\"");
    done(&mut process, "d", "JSON.NUMINCRBY $.n 1");
    done(&mut process, "d", "JSON.STRAPPEND $.s \"y\"");
    assert_eq!(fields(&mut plain, "d"), ["$.n=13", "$.s=\"xy\"", "$={}"]);
    done(&mut process, "d", "JSON.DEL $");
    assert_eq!(ok(&mut plain, "EXISTS d"), Value::Int(0));
}

#[test]
fn what_is_no_document_is_refused_by_name() {
    let (_server, mut process, mut plain) = rig();
    ok(&mut plain, "HSET h f v");
    let error = refused(&mut process, "h", "JSON.SET $ 1");
    assert!(
        error.contains("the key holds a hash without the field $, and JSON.SET works on a document"),
        "{error}"
    );
    ok(&mut plain, "SET s v");
    assert!(refused(&mut process, "s", "JSON.GET $").contains("the key holds a string, and JSON.GET"));
    ok(&mut plain, "XADD x * f v");
    assert!(refused(&mut process, "x", "JSON.GET $").contains("the key holds a stream, and JSON.GET"));
    // Written by other hands, and not as documents write it.
    ok(&mut plain, "HSET broken $ {} $.a {\"b\":1} $.c.d 1 $.n 007");
    for (words, says) in [
        ("JSON.GET $.a", "each member of an object has a field of its own"),
        ("JSON.NUMINCRBY $.n 1", "'$.n' holds '007', which is not JSON"),
        ("JSON.GET $", "correct it with HSET"),
    ] {
        let error = refused(&mut process, "broken", words);
        assert!(error.contains(says), "{words}: {error}");
    }
    ok(&mut plain, "HDEL broken $.a $.n");
    assert!(refused(&mut process, "broken", "JSON.GET $").contains("'$.c' is no object that it could be in"));
    assert_eq!(fields(&mut plain, "broken"), ["$.c.d=1", "$={}"], "nothing was changed");
}

#[test]
fn plain_commands_on_a_document_that_is_held_use_all_of_it() {
    let (server, mut process, mut plain) = rig();
    done(&mut process, "d", ADA);
    let attempt = hold(&mut process, "d", "JSON.GET $.a.b");
    assert_eq!(ok(&mut plain, "HGET d $.a.b"), bulk("1"), "readers share");
    let write = Waits::on(&server, "HSET d $.name \"Bob\"");
    write.still();
    commit(&mut process, attempt, 1);
    assert_eq!(write.answer(), Value::Int(0));
    let attempt = hold(&mut process, "d", "JSON.NUMINCRBY.RETURNING $.a.b 4");
    let read = Waits::on(&server, "HGET d $.name");
    read.still();
    commit(&mut process, attempt, 1);
    assert_eq!(read.answer(), bulk("\"Bob\""));
}

/// Transactions on different places vote side by side; those on what is around wait.
#[test]
fn trap_45_an_emptied_object_stays_on_a_server() {
    let (server, mut process, mut plain) = rig();
    done(&mut process, "d", ADA);
    let mut other = Process::hello(&server, 8);
    let first = hold(&mut process, "d", "JSON.DEL.RETURNING $.a.b");
    vote(&mut process, first, 1);
    done(&mut other, "d", "JSON.DEL $.a.c");
    done(&mut other, "d", "JSON.SET $.name \"Bob\"");
    for words in ["JSON.SET $.a 1", "JSON.GET $.a", "JSON.SET $.a.b 5", "JSON.OBJKEYS $.a"] {
        let attempt = other.begin();
        let prepare = other.prepare(attempt, &[("d", words)]);
        let answers = other.frame(&[prepare]);
        assert!(matches!(answers[..], [Response::Queued { .. }]), "{words}: {answers:?}");
        other.frame(&[claret_core::message::Request::Abort { attempt, refused_by: None }]);
    }
    process.frame(&[claret_core::message::Request::Apply { attempt: first }]);
    let left = ["$.a={}", "$.l=[1,{\"x\":null}]", "$.name=\"Bob\"", "$={}"];
    assert_eq!(fields(&mut plain, "d"), left, "an emptied object stays");
}
