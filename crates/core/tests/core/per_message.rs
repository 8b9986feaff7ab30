//! A message costs what it is about, not what its attempt has at the shard. What is looked at besides is counted, so nothing here
//! depends on the speed of a machine.

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, Request, Response, Status, Undone,
};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId, Switches,
    Time, TxId,
};
use claret_types::{Bytes, End, List, ListOp, Operation, few};

const NOW: Time = Time(1);
const LINK: Link = Link { session: SessionId(7), connection: 1 };
const TX: TxId = TxId { session: LINK.session, sequence: Sequence(1) };
const ATTEMPT: AttemptId = AttemptId { tx: TX, attempt: 1 };
const BIRTH: Birth = Birth { time: NOW, tx: TX };

/// So many messages of a kind come.
const MESSAGES: u32 = 300;

fn push() -> Operation {
    Operation::new::<List>(ListOp::Push(End::Back, few([Bytes::from("v")])))
}

fn length() -> Operation {
    Operation::new::<List>(ListOp::Len)
}

fn call(no: u32, op: Operation) -> Call {
    Call { no: CallNo(no), op, member: Member(0), reserve: None }
}

fn execute(key: &str, calls: impl IntoIterator<Item = Call>, undone: &[(u32, u32)]) -> Request {
    let range = |(from, to): &(u32, u32)| Undone { from: CallNo(*from), to: CallNo(*to) };
    Request::Execute {
        attempt: ATTEMPT,
        birth: BIRTH,
        incarnation: None,
        key: key.into(),
        calls: calls.into_iter().collect(),
        undone: undone.iter().map(range).collect::<Vec<_>>().into(),
    }
}

fn prepare(calls: Vec<KeyedCall>, relies_on: u32) -> Request {
    let listed = |shard| Listed { shard: ShardId(shard), incarnation: None };
    Request::Prepare {
        attempt: ATTEMPT,
        birth: BIRTH,
        participants: [1, 2].map(listed).into_iter().collect(),
        relies_on,
        calls,
        members: Members::All,
        asks: Asks::Vote,
        undone: Default::default(),
    }
}

fn finish(shard: &mut Shard) -> Vec<Response> {
    let mut responses = Vec::new();
    loop {
        while let Some(output) = shard.poll_output() {
            if let Output::Respond { response, .. } = output {
                responses.push(response);
            }
        }
        if shard.poll_timeout() != Some(NOW) {
            return responses;
        }
        shard.handle_timeout(NOW);
    }
}

/// A shard where the attempt pushed so often, on one record or on many.
fn open(count: u32, keys: u32) -> Shard {
    let mut shard = Shard::new(ShardId(1), Incarnation(1), Switches::CLARET, Limits::default());
    for key in 0..keys {
        let calls = (1..=count).filter(|no| no % keys == key).map(|no| call(no, push()));
        shard.handle(NOW, LINK, execute(&format!("k{key}"), calls, &[]));
        finish(&mut shard);
    }
    assert_eq!(shard.stats().grants, u64::from(count));
    shard
}

/// One that has voted, and answered each call.
fn voted(count: u32) -> Shard {
    let mut shard = Shard::new(ShardId(1), Incarnation(1), Switches::CLARET, Limits::default());
    let calls = (1..=count).map(|no| KeyedCall { key: "k0".into(), call: call(no, length()) });
    shard.handle(NOW, LINK, prepare(calls.collect(), 0));
    finish(&mut shard);
    assert_eq!(shard.written(ATTEMPT), Some(Status::Prepared));
    shard
}

/// What is looked at for many messages, where the first has come.
fn visits(mut shard: Shard, request: &dyn Fn(u32) -> Request) -> u64 {
    shard.handle(NOW, LINK, request(0));
    finish(&mut shard);
    let before = shard.stats().visits;
    shard.begin(NOW);
    for no in 1..=MESSAGES {
        shard.handle_further(NOW, LINK, request(no));
    }
    let visits = shard.stats().visits - before;
    finish(&mut shard);
    shard.check_invariants();
    visits
}

/// No more than a few for each message, and for one of them once all that there is.
fn assert_each_costs_little(what: &str, of: impl Fn(u32) -> Shard, request: impl Fn(u32) -> Request) {
    let count = 5_000;
    let visits = visits(of(count), &request);
    let most = u64::from(4 * MESSAGES + 2 * count);
    assert!(visits <= most, "{what}: {visits} looked at, beside {count} calls");
}

#[test]
fn what_is_undone_and_known_is_not_looked_for_again_with_each_message() {
    for (keys, next) in [(1, "k0"), (1, "other"), (5_000, "k7")] {
        for op in [push, length] {
            let request = |no| execute(next, [call(10_000 + no, op())], &[(1, 2)]);
            assert_each_costs_little("what is known", |count| open(count, keys), request);
        }
    }
}

#[test]
fn what_is_undone_a_little_more_with_each_message_costs_that_little() {
    for (keys, next) in [(1, "k0"), (1, "other"), (5_000, "k7")] {
        let request = |no| execute(next, [call(10_000 + no, length())], &[(1, 2 + no)]);
        assert_each_costs_little("news", |count| open(count, keys), request);
    }
}

#[test]
fn calls_that_wait_are_not_looked_through_for_what_others_undid() {
    let of = |count| {
        let mut shard = open(1, 1);
        // Others hold what the attempt waits for.
        let tx = TxId { session: SessionId(8), sequence: Sequence(1) };
        for no in 0..count {
            let key = format!("held{no}");
            let request = Request::Execute {
                attempt: AttemptId { tx, attempt: 1 },
                birth: Birth { time: NOW, tx },
                incarnation: None,
                key: key.as_str().into(),
                calls: [call(no, length())].into_iter().collect(),
                undone: Default::default(),
            };
            shard.handle(NOW, Link { session: tx.session, connection: 1 }, request);
            shard.handle(NOW, LINK, execute(&key, [call(2 + no, push())], &[]));
        }
        finish(&mut shard);
        shard
    };
    let request = |no| execute("k0", [call(10_000 + no, length())], &[(2, 3 + no)]);
    assert_each_costs_little("what waits", of, request);
}

/// Bug: calls that come behind one that is undone, and go with it, were kept, and counted by nobody: message after message.
#[test]
fn what_is_left_out_is_not_kept() {
    let mut shard = open(1, 1);
    for message in 0..MESSAGES {
        let behind = (0..100).map(|no| call(1_000 + 100 * message + no, push()));
        let calls = [call(5, length())].into_iter().chain(behind);
        shard.handle(NOW, LINK, execute("k0", calls, &[(5, 6)]));
        finish(&mut shard);
    }
    let before = shard.stats().visits;
    shard.handle(NOW, LINK, execute("k0", [call(1_000_000, length())], &[(5, 900_000)]));
    assert!(shard.stats().visits - before < 10, "{} of them are kept", shard.stats().visits - before);
    finish(&mut shard);
    shard.check_invariants();
}

#[test]
fn a_second_heartbeat_in_a_frame_looks_at_nothing() {
    let request = |_| Request::Heartbeat { live: vec![ATTEMPT], low_water: Sequence(0) };
    assert_each_costs_little("a heartbeat", |count| open(count, count), request);
}

#[test]
fn a_vote_that_is_asked_for_again_and_again_is_not_copied_each_time() {
    let of = |count| {
        let mut shard = voted(count);
        // As much as may be said again has been.
        shard.set_bounds(Limits::default());
        shard
    };
    let doubles: [(&str, &dyn Fn(u32) -> Request); 3] = [
        ("a prepare", &|_| prepare(Vec::new(), 0)),
        ("a withdraw", &|_| Request::Withdraw { attempt: ATTEMPT }),
        ("an abort", &|_| Request::Abort { attempt: ATTEMPT, refused_by: None }),
    ];
    for (what, request) in doubles {
        let said =
            u64::try_from(Limits::default().again_bytes_max / size_of::<claret_types::Reply>()).unwrap_or(0);
        let visits = visits(of(5_000), request);
        assert!(visits <= said + 5_000, "{what}: {visits} answers looked at");
    }
}

#[test]
fn a_newer_attempt_does_not_look_at_all_older_ones() {
    let mut shard = Shard::new(ShardId(1), Incarnation(1), Switches::CLARET, Limits::default());
    let count = 500;
    shard.begin(NOW);
    for number in 1..=count {
        let attempt = AttemptId { tx: TX, attempt: number };
        let key = format!("k{number}").as_str().into();
        let mut request = prepare(vec![KeyedCall { key, call: call(0, push()) }], 0);
        if let Request::Prepare { attempt: of, .. } = &mut request {
            *of = attempt;
        }
        shard.handle_further(NOW, LINK, request);
        assert_eq!(shard.written(attempt), Some(Status::Prepared));
    }
    let visits = shard.stats().visits;
    assert!(visits <= 16 * u64::from(count), "{visits} older ones looked at");
}
