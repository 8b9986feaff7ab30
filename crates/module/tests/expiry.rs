//! Keys that expire while transactions hold them, to the millisecond.

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use claret_core::message::{Refusal, Request, Response};
use claret_core::{Sequence, ShardId};
use common::beside::ok;
use common::{Process, Server};
use redis::{Connection, Value};

/// The time of day, in microseconds: the server's clock is this machine's.
fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64
}

/// Does nothing until then: what is tested is less than a millisecond.
fn spin_until(time: u64) {
    while micros() < time {
        std::hint::spin_loop();
    }
}

/// A list of six that ends with the millisecond that is returned.
fn mortal_list(plain: &mut Connection) -> u64 {
    ok(plain, "DEL k");
    ok(plain, "RPUSH k 1 2 3 4 5 6");
    let end = micros() / 1_000 + 4;
    assert_eq!(ok(plain, &format!("PEXPIREAT k {end}")), Value::Int(1));
    end
}

fn list(plain: &mut Connection) -> Vec<Value> {
    match ok(plain, "LRANGE k 0 -1") {
        Value::Array(items) => items,
        other => panic!("a list, not {other:?}"),
    }
}

/// Bug: a key that was looked at in the last millisecond of its life was looked at again a whole millisecond later.
/// Consequence: it expires in between, and a transaction that counted on it commits as if nothing had happened, or writes
/// what it promised of the old record into a new one. Mend: until it is gone it is looked at each time.
#[test]
fn nobody_counts_on_a_key_in_the_millisecond_after_its_end() {
    let server = Server::start(&["--enable-debug-command", "local", "--claret.lease-ms", "60000"]);
    let mut process = Process::hello(&server, 1);
    let mut plain = server.connect();
    ok(&mut plain, "DEBUG SET-ACTIVE-EXPIRE 0");
    let mut refused = 0;
    for round in 0..200 {
        let end = mortal_list(&mut plain);
        let is_voted = round % 2 == 1;
        let attempt = process.begin();
        let execute = process.execute(attempt, 1, "k", "RPUSH.RETURNING 7");
        let told = process.frame(&[execute]);
        if !matches!(&told[..], [Response::Granted { reply: claret_types::Reply::Int(7), .. }]) {
            // The machine was slow, and the list is gone already.
            process.frame(&[Request::Abort { attempt, refused_by: None }]);
            continue;
        }
        let alone = (process.shard, Some(process.incarnation));
        let two = [alone, (ShardId(9_000), None)];
        if is_voted {
            let prepare = process.prepare_with(attempt, 1, &[], &two);
            process.frame(&[prepare]);
        }
        let floor = Sequence(attempt.tx.sequence.0);
        spin_until(end * 1_000 + 700);
        process.frame(&[Request::Heartbeat { live: [attempt].into_iter().collect(), floor }]);
        spin_until(end * 1_000 + 1_250);
        if is_voted {
            process.frame(&[Request::Apply { attempt }]);
        } else {
            let commit = process.prepare_with(attempt, 1, &[], &[alone]);
            let told = process.frame(&[commit]);
            let is_refused = told.iter().any(|told| {
                matches!(told, Response::Refused { refusal, .. } if !matches!(refusal, Refusal::Operation { .. }))
            });
            assert!(is_refused, "round {round}: the list was gone by then: {told:?}");
            refused += 1;
        }
        // Who had voted comes before the end, and so what it wrote is gone as well.
        assert_eq!(list(&mut plain), [], "round {round}");
    }
    assert!(refused > 0, "the machine is too slow to see anything");
}
