//! Plain commands over many keys beside transactions: they ask for the keys that somebody holds, and nobody comes
//! between them and the other keys (P63).

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::beside::{Waits, bulk, commit, hold, number, ok, rig};
use crate::common::{Process, wait_until};
use claret_core::message::{Request, Response};
use claret_core::wire;
use redis::Value;

const KEYS: usize = 200;

fn every_key() -> Vec<String> {
    (0..KEYS).map(|number| format!("k{number}")).collect()
}

fn mget() -> redis::Cmd {
    let mut command = redis::cmd("MGET");
    command.arg(every_key());
    command
}

/// Frames that reach the server together, each as a command of its own.
fn at_once(process: &mut Process, frames: &[Request]) -> Vec<Vec<Response>> {
    let mut pipe = redis::pipe();
    for frame in frames {
        pipe.cmd("CLARET.FRAME").arg(wire::encode_requests(std::slice::from_ref(frame)));
    }
    let answers: Vec<Vec<u8>> = pipe.query(&mut process.connection).expect("all are done");
    answers.iter().map(|bytes| wire::decode_responses(bytes).expect("a frame")).collect()
}

#[test]
fn it_waits_for_what_is_held_and_nobody_comes_between_it_and_the_rest() {
    let (server, mut first, mut plain) = rig();
    let mut second = Process::hello(&server, 8);
    let attempt = hold(&mut first, "k0", "GETSET a");
    let reader = Waits::on_command(&server, mget());
    reader.still();
    // Keys that nobody held when it came are everybody's.
    ok(&mut plain, "SET k1 plain");
    let later = hold(&mut second, "k150", "GETSET b");
    commit(&mut first, attempt, 1);
    reader.still();
    assert_eq!(number(&mut plain, "held_keys"), 2, "what it has, and what it waits for");

    // It is let in, and its client is answered with the server's next turn; this comes before that.
    let participants = [(second.shard, Some(second.incarnation))];
    let prepare = second.prepare_with(later, 1, &[], &participants);
    let next = second.begin();
    let execute = second.execute(next, 1, "k77", "GETSET c");
    let answers = at_once(&mut second, &[prepare, execute]);
    assert!(matches!(answers[0][..], [Response::Committed { .. }]), "{answers:?}");
    assert!(answers[1].is_empty(), "it would come between: {answers:?}");
    let Value::Array(values) = reader.answer() else { panic!("all values") };
    let shown = [0, 1, 77, 150].map(|at| values[at].clone());
    assert_eq!(shown, [bulk("a"), bulk("plain"), Value::Nil, bulk("b")]);
    wait_until("who was held off goes on", || matches!(second.frame(&[])[..], [Response::Granted { .. }]));
    second.frame(&[Request::Withdraw { attempt: next }]);
    wait_until("nothing is held", || number(&mut plain, "held_keys") == 0);
}

#[test]
fn a_client_that_goes_before_it_is_answered_holds_nobody_off() {
    let (server, mut process, mut plain) = rig();
    for goes_late in [false, true] {
        let attempt = hold(&mut process, "k0", &format!("GETSET {goes_late}"));
        let mut connection = server.connect();
        let id: i64 = redis::cmd("CLIENT").arg("ID").query(&mut connection).expect("its number");
        let waiting = std::thread::spawn(move || mget().query::<Value>(&mut connection));
        wait_until("it waits", || number(&mut plain, "plain_open") == 1);
        let participants = [(process.shard, Some(process.incarnation))];
        let prepare = process.prepare_with(attempt, 1, &[], &participants);
        let mut pipe = redis::pipe();
        let kill = |pipe: &mut redis::Pipeline| {
            pipe.cmd("CLIENT").arg("KILL").arg("ID").arg(id).ignore();
        };
        if !goes_late {
            kill(&mut pipe);
        }
        pipe.cmd("CLARET.FRAME").arg(wire::encode_requests(&[prepare])).ignore();
        if goes_late {
            kill(&mut pipe);
        }
        pipe.query::<()>(&mut process.connection).expect("both are done");
        assert!(waiting.join().expect("no panic").is_err(), "{goes_late}");
        wait_until("nothing is held", || number(&mut plain, "held_keys") == 0);
        let answers = process.commit("k5", "INCRBY.RETURNING 1");
        assert!(matches!(answers[..], [Response::Committed { .. }]), "{goes_late}: {answers:?}");
    }
    assert_eq!((number(&mut plain, "plain_open"), number(&mut plain, "panics")), (0, 0));
}

#[test]
fn commands_over_many_keys_see_all_of_a_transaction_or_nothing() {
    let (server, ..) = rig();
    let stop = AtomicBool::new(false);
    let keys = every_key();
    std::thread::scope(|scope| {
        for person in 10..13_u64 {
            let (server, stop, keys) = (&server, &stop, &keys);
            scope.spawn(move || {
                let mut process = Process::hello(server, person);
                let mut at = person as usize;
                while !stop.load(Ordering::Relaxed) {
                    // Two round trips, so that it holds one key while others come.
                    let (from, to) = (&keys[at * 7 % KEYS], &keys[(at * 13 + 1) % KEYS]);
                    at += 1;
                    let attempt = process.begin();
                    let take = process.execute(attempt, 1, from, "DECRBY.RETURNING 1");
                    let mut answers = process.frame(&[take]);
                    let is_granted = |answers: &[Response]| {
                        answers.iter().any(|it| matches!(it, Response::Granted { .. }))
                    };
                    let is_over = |answers: &[Response]| {
                        answers.iter().any(|it| matches!(it, Response::Refused { .. }))
                    };
                    while !is_granted(&answers) && !is_over(&answers) {
                        answers = process.frame(&[]);
                    }
                    if is_over(&answers) {
                        continue;
                    }
                    let participants = [(process.shard, Some(process.incarnation))];
                    let give = process.prepare_with(attempt, 1, &[(to, "INCRBY 1")], &participants);
                    let mut answers = process.frame(&[give]);
                    let ends =
                        |it: &Response| matches!(it, Response::Committed { .. } | Response::Refused { .. });
                    while !answers.iter().any(ends) {
                        // Two that wait for each other: one gives way.
                        if answers.iter().any(|it| matches!(it, Response::Elder { .. })) {
                            process.frame(&[Request::Withdraw { attempt }]);
                            break;
                        }
                        answers = process.frame(&[]);
                    }
                }
            });
        }
        let mut plain = server.connect();
        let mut moved = false;
        for _ in 0..500 {
            let values: Vec<Option<i64>> = mget().query(&mut plain).expect("it is let in");
            let sum: i64 = values.iter().flatten().sum();
            moved |= values.iter().flatten().any(|value| *value != 0);
            assert_eq!(sum, 0, "half of a transaction");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(moved);
        assert!(number(&mut plain, "plain_waits") > 10, "it waited for somebody");
    });
}
