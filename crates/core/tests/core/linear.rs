//! Work grows linearly with the request, not with its square, and no input does all of a long transaction at once.
//! Work is counted, so nothing here depends on the speed of a machine.

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, Participants, Request, Response, Status,
};
use claret_core::{
    AttemptId, Birth, CallNo, Coordinator, Event, Incarnation, Limits, Member, Sequence, SessionId, Shard,
    ShardId, Switches, Time, TxId,
};
use claret_types::{
    Bytes, Counter, CounterOp, Dict, DictOp, End, List, ListOp, Operation, Register, RegisterOp, ScoredSet,
    ScoredSetOp, Set, SetOp, few,
};

const NOW: Time = Time(1);
const SHARD: ShardId = ShardId(1);
const LINK: Link = Link { session: SessionId(7), connection: 1 };

fn birth(sequence: u64) -> Birth {
    Birth { time: NOW, tx: TxId { session: LINK.session, sequence: Sequence(sequence) } }
}

fn attempt(sequence: u64) -> AttemptId {
    AttemptId { tx: birth(sequence).tx, attempt: 1 }
}

fn shard() -> Shard {
    Shard::new(SHARD, Incarnation(1), Switches::CLARET, Limits::default())
}

fn call(no: u32, op: Operation) -> Call {
    Call { no: CallNo(no), op, member: Member(0), reserve: None }
}

fn name(no: u32) -> Bytes {
    Bytes::from(format!("e{no}").as_str())
}

/// A kind of call, and the call by number.
type Kind = (&'static str, fn(u32) -> Operation);

/// One of each kind of call that a transaction makes many of on one record.
const MANY: &[Kind] = &[
    ("SADD", |no| Operation::new::<Set>(SetOp::Add(few([name(no)])))),
    ("SADD.RETURNING", |no| Operation::new::<Set>(SetOp::AddReturning(few([name(no)])))),
    ("SCARD between SADDs", |no| {
        Operation::new::<Set>(if no.is_multiple_of(2) { SetOp::Add(few([name(no)])) } else { SetOp::Len })
    }),
    ("RPUSH", |no| Operation::new::<List>(ListOp::Push(End::Back, few([name(no)])))),
    ("LPUSH.RETURNING", |no| Operation::new::<List>(ListOp::PushReturning(End::Front, few([name(no)])))),
    ("INCRBY", |_| Operation::new::<Counter>(CounterOp::Add(1))),
    ("APPEND", |no| Operation::new::<Register>(RegisterOp::Append(name(no)))),
    ("HSET", |no| Operation::new::<Dict>(DictOp::Set(few([(name(no), Bytes::from("v"))])))),
    ("ZADD", |no| Operation::new::<ScoredSet>(ScoredSetOp::Add(few([(name(no), f64::from(no))])))),
];

/// What a shard did so far: executions, and effects that were added before them.
fn work(shard: &Shard) -> u64 {
    shard.stats().looks + shard.stats().replays
}

/// Hands out what came, and lets time pass as long as something is due at once.
fn finish(shard: &mut Shard) -> Vec<Response> {
    let mut responses = Vec::new();
    loop {
        while let Some(output) = shard.poll_output() {
            if let Output::Respond { response, .. } = output {
                responses.push(response);
            }
        }
        shard.check_invariants();
        if shard.poll_timeout() != Some(NOW) {
            return responses;
        }
        shard.handle_timeout(NOW);
    }
}

fn prepare_after(granted: u32, calls: Vec<KeyedCall>) -> Request {
    let mut request = prepare(calls, true);
    if let Request::Prepare { relies_on, .. } = &mut request {
        *relies_on = granted;
    }
    request
}

fn prepare(calls: Vec<KeyedCall>, others: bool) -> Request {
    let listed = |shard| Listed { shard, incarnation: None };
    let participants: Participants =
        [SHARD, ShardId(2)].into_iter().take(if others { 2 } else { 1 }).map(listed).collect();
    Request::Prepare {
        attempt: attempt(1),
        birth: birth(1),
        participants,
        relies_on: 0,
        calls,
        members: Members::All,
        asks: if others { Asks::Vote } else { Asks::Decision },
        undone: Default::default(),
    }
}

/// At most a little more than twice the work for twice as much.
fn assert_linear(what: &str, work: impl Fn(u32) -> u64) {
    let (once, twice) = (work(20_000), work(40_000));
    assert!(twice * 10 <= once * 23, "{what}: {once} for 20,000 and {twice} for 40,000");
}

#[test]
fn a_prepare_of_n_calls_on_one_record_costs_n() {
    for (what, op) in MANY {
        for others in [false, true] {
            assert_linear(what, |count| {
                let mut shard = shard();
                let key = || Bytes::from("k");
                let calls = (0..count).map(|no| KeyedCall { key: key(), call: call(no, op(no)) }).collect();
                shard.handle(NOW, LINK, prepare(calls, others));
                let responses = finish(&mut shard);
                assert!(
                    matches!(responses[..], [Response::Voted { .. } | Response::Committed { .. }]),
                    "{what}: {responses:?}"
                );
                work(&shard)
            });
        }
    }
}

#[test]
fn n_executes_on_elements_of_one_record_cost_n() {
    for (what, op) in MANY.iter().filter(|(what, _)| ["SADD.RETURNING", "HSET", "ZADD"].contains(what)) {
        assert_linear(what, |count| {
            let mut shard = shard();
            for no in 0..count / 8 {
                let calls = [call(no, op(no))].into_iter().collect();
                let (attempt, birth, key) = (attempt(1), birth(1), Bytes::from("k"));
                shard.handle(
                    NOW,
                    LINK,
                    Request::Execute {
                        attempt,
                        birth,
                        incarnation: None,
                        key,
                        calls,
                        undone: Default::default(),
                    },
                );
                finish(&mut shard);
            }
            work(&shard)
        });
    }
}

#[test]
fn one_input_executes_no_more_calls_than_it_may() {
    let mut shard = shard();
    let most = Limits::default().at_once_max as u64;
    let keys = ["a", "b", "c"].map(Bytes::from);
    let op = |no: u32| Operation::new::<List>(ListOp::Push(End::Back, few([name(no)])));
    let calls =
        (0..10_000).map(|no| KeyedCall { key: keys[no as usize % 3].clone(), call: call(no, op(no)) });
    shard.handle(NOW, LINK, prepare(calls.collect(), true));
    let mut inputs = 1;
    let mut looks = shard.stats().looks;
    assert!(looks <= most, "{looks}");
    while shard.poll_timeout() == Some(NOW) {
        // Whoever else comes meanwhile gets its turn.
        let other = AttemptId { tx: birth(2).tx, attempt: inputs };
        shard.handle(
            NOW,
            LINK,
            Request::Execute {
                attempt: other,
                birth: birth(2),
                incarnation: None,
                key: "other".into(),
                calls: [call(0, Operation::new::<Counter>(CounterOp::AddReturning(1)))].into_iter().collect(),
                undone: Default::default(),
            },
        );
        shard.handle(NOW, LINK, Request::Withdraw { attempt: other });
        shard.handle_timeout(NOW);
        let more = shard.stats().looks - looks;
        assert!(more <= most + 1, "{more}");
        looks += more;
        inputs += 1;
        shard.check_invariants();
    }
    assert!(u64::from(inputs) >= 10_000 / most, "{inputs}");
    assert_eq!(shard.written(attempt(1)), Some(Status::Prepared));
}

#[test]
fn one_that_is_put_off_can_be_withdrawn_and_leaves_nothing() {
    let mut shard = shard();
    let op = |no: u32| Operation::new::<Set>(SetOp::AddReturning(few([name(no)])));
    let calls = (0..5_000).map(|no| KeyedCall { key: "k".into(), call: call(no, op(no)) }).collect();
    shard.handle(NOW, LINK, prepare(calls, true));
    shard.handle_timeout(NOW);
    assert_eq!(shard.written(attempt(1)), None);
    shard.handle(NOW, LINK, Request::Withdraw { attempt: attempt(1) });
    let responses = finish(&mut shard);
    assert!(matches!(responses[..], [Response::Refused { .. }]), "{responses:?}");
    assert_eq!((shard.locked_records(), shard.open_attempts()), (0, 0));
}

#[test]
fn after_many_calls_one_of_another_type_is_still_refused() {
    let mut shard = shard();
    let add = |no: u32| Operation::new::<Set>(SetOp::Add(few([name(no)])));
    let put = Operation::new::<Dict>(DictOp::Set(few([(name(0), Bytes::from("v"))])));
    let calls = (0..20).map(add).chain([put]).zip(0..);
    let calls = calls.map(|(op, no)| KeyedCall { key: "k".into(), call: call(no, op) }).collect();
    shard.handle(NOW, LINK, prepare(calls, false));
    let responses = finish(&mut shard);
    assert!(matches!(responses[..], [Response::Refused { .. }]), "{responses:?}");
}

#[test]
fn a_deserted_session_lets_go_bit_by_bit() {
    let mut shard = shard();
    let count = 3 * Limits::default().at_once_max as u64;
    for sequence in 1..=count {
        shard.handle(
            NOW,
            LINK,
            Request::Execute {
                attempt: attempt(sequence),
                birth: birth(sequence),
                incarnation: None,
                key: name(sequence as u32),
                calls: [call(0, Operation::new::<Counter>(CounterOp::AddReturning(1)))].into_iter().collect(),
                undone: Default::default(),
            },
        );
    }
    shard.deserted(NOW, LINK.session);
    shard.handle_timeout(NOW);
    let left = shard.open_attempts();
    assert!(left > 0 && (left as u64) < count, "{left}");
    finish(&mut shard);
    assert_eq!((shard.locked_records(), shard.open_attempts()), (0, 0));
}

/// A coordinator whose shard grants each execute as soon as it comes, or later all together.
#[test]
fn n_executes_of_one_coordinator_carry_few_calls_more_than_n() {
    for keys in [1, 4, u32::MAX] {
        assert_linear("calls sent", |count| {
            let count = count / 4;
            let mut coordinator = Coordinator::new(birth(1), Switches::CLARET, Limits::default(), 1);
            for no in 0..count {
                let op = Operation::new::<Set>(SetOp::AddReturning(few([name(no)])));
                let attempt = coordinator.attempt();
                coordinator.execute(NOW, attempt, SHARD, name(no % keys), op, None).expect("it runs");
            }
            let (mut sent, mut answered) = (0, 0);
            let mut granted = 0;
            while let Some((_, request)) = coordinator.poll_send() {
                let Request::Execute { attempt, calls, .. } = request else { panic!("{request:?}") };
                sent += calls.len() as u64;
                for call in calls {
                    granted += 1;
                    let (reply, incarnation) = (claret_types::Reply::Int(1), Incarnation(1));
                    let no = call.no;
                    let response = Response::Granted { attempt, no, reply, granted, incarnation };
                    coordinator.handle_response(NOW, SHARD, response);
                }
                while let Some(event) = coordinator.poll_event() {
                    answered += u32::from(matches!(event, Event::Answer { .. }));
                }
            }
            assert_eq!(answered, count);
            assert!(!coordinator.awaits_answers());
            sent
        });
    }
}

/// Executes calls of another transaction.
fn execute(sequence: u64, key: &str, calls: impl IntoIterator<Item = Call>) -> Request {
    Request::Execute {
        attempt: attempt(sequence),
        birth: birth(sequence),
        incarnation: None,
        key: key.into(),
        calls: calls.into_iter().collect(),
        undone: Default::default(),
    }
}

fn push(no: u32) -> Operation {
    Operation::new::<List>(ListOp::Push(End::Back, few([name(no)])))
}

fn increment() -> Operation {
    Operation::new::<Counter>(CounterOp::AddReturning(1))
}

#[test]
fn who_is_put_off_keeps_no_lease_from_ending_and_no_session_from_being_cleared() {
    let mut shard = shard();
    let (others, gone) = (SessionId(8), SessionId(9));
    for (session, key) in [(others, "a"), (gone, "b")] {
        let tx = TxId { session, sequence: Sequence(1) };
        let (attempt, birth) = (AttemptId { tx, attempt: 1 }, Birth { time: NOW, tx });
        let (link, calls) = (Link { session, connection: 1 }, [call(0, increment())].into_iter().collect());
        let request = Request::Execute {
            attempt,
            birth,
            incarnation: None,
            key: key.into(),
            calls,
            undone: Default::default(),
        };
        shard.handle(NOW, link, request);
    }
    let late = NOW.plus(Limits::default().lease_us);
    let most = Limits::default().at_once_max as u32;
    let calls = (0..10 * most).map(|no| KeyedCall { key: "k".into(), call: call(no, push(no)) }).collect();
    shard.handle(Time(late.0 - 1), LINK, prepare(calls, true));
    shard.deserted(late, gone);
    shard.handle_timeout(late);
    assert!(!shard.is_held(b"a"), "its lease is over");
    assert!(!shard.is_held(b"b"), "nobody is there any more");
    assert_eq!(shard.written(attempt(1)), None, "there is more to do");
}

#[test]
fn those_who_were_put_off_and_are_gone_take_no_turn() {
    let mut shard = shard();
    let most = Limits::default().at_once_max as u32;
    for sequence in 2..1_000 {
        shard.handle(NOW, LINK, execute(sequence, "k", (0..=most).map(|no| call(no, push(no)))));
        shard.handle(NOW, LINK, Request::Abort { attempt: attempt(sequence), refused_by: None });
    }
    assert_eq!(shard.poll_timeout().filter(|due| *due == NOW), None);
    let calls =
        (0..most + most / 2).map(|no| KeyedCall { key: "k".into(), call: call(no, push(no)) }).collect();
    shard.handle(NOW, LINK, prepare(calls, true));
    shard.handle_timeout(NOW);
    assert_eq!(shard.written(attempt(1)), Some(Status::Prepared));
}

/// A transaction that may not wait has one input for all of it.
#[test]
fn as_many_calls_as_one_input_may_execute_are_voted_on_in_it() {
    let mut shard = shard();
    let most = Limits::default().at_once_max as u32;
    let calls = (0..most)
        .map(|no| KeyedCall { key: format!("k{no}").as_str().into(), call: call(no, increment()) })
        .collect();
    shard.handle(NOW, LINK, prepare(calls, true));
    assert_eq!(shard.written(attempt(1)), Some(Status::Prepared));
}

#[test]
fn those_who_have_little_left_go_on_together() {
    let mut shard = shard();
    let add = |no: u32| Operation::new::<Set>(SetOp::AddReturning(few([name(no)])));
    let most = Limits::default().at_once_max as u32;
    for sequence in 1..=100 {
        let key = format!("k{sequence}");
        shard.handle(NOW, LINK, execute(sequence, &key, (0..=most).map(|no| call(no, add(no)))));
    }
    let looks = shard.stats().looks;
    shard.handle_timeout(NOW);
    shard.check_invariants();
    assert!(shard.stats().looks > looks + 2, "{} more", shard.stats().looks - looks);
    finish(&mut shard);
    assert_eq!(shard.stats().looks, u64::from(100 * (most + 1)));
}

#[test]
fn an_answer_is_said_again_once_for_an_input_however_often_it_is_asked_for() {
    let mut shard = shard();
    let get = || Operation::new::<Register>(RegisterOp::Get);
    shard.handle(NOW, LINK, execute(1, "k", [call(1, get())]));
    finish(&mut shard);
    shard.handle(NOW, LINK, execute(1, "k", (0..10_000).map(|_| call(1, get()))));
    let responses = finish(&mut shard);
    assert!(matches!(responses[..], [Response::Granted { no: CallNo(1), .. }]), "{}", responses.len());
}

#[test]
fn what_comes_in_one_frame_does_no_more_than_one_input_may() {
    let mut shard = shard();
    let most = Limits::default().at_once_max as u64;
    shard.begin(NOW);
    for no in 0..5_000 {
        shard.handle_further(NOW, LINK, execute(1, "k", [call(no, push(no))]));
    }
    assert!(work(&shard) <= 4 * most, "{}", work(&shard));
    finish(&mut shard);
    shard.handle(NOW, LINK, prepare_after(5_000, Vec::new()));
    assert_eq!(shard.written(attempt(1)), Some(Status::Prepared));
    assert_eq!(shard.stats().grants, 5_000);
    assert!(work(&shard) <= 200 * most, "{}", work(&shard));
    // Whoever comes when all is spent is put off before the first call, and leaves nothing if it goes.
    shard.begin(NOW);
    let many: Vec<Call> = (0..most as u32).map(|no| call(no, increment())).collect();
    shard.handle_further(NOW, LINK, execute(2, "spent", many));
    let grants = shard.stats().grants;
    for (sequence, key) in [(3, "gone"), (4, "stays")] {
        shard.handle_further(NOW, LINK, execute(sequence, key, [call(0, increment())]));
        assert_eq!((shard.stats().grants, shard.is_held(key.as_bytes())), (grants, false));
    }
    shard.handle_further(NOW, LINK, Request::Withdraw { attempt: attempt(3) });
    finish(&mut shard);
    assert_eq!((shard.is_held(b"gone"), shard.is_held(b"stays")), (false, true));
}

#[test]
fn many_sessions_that_are_deserted_together_let_go_bit_by_bit() {
    let mut shard = shard();
    let most = Limits::default().at_once_max;
    for session in 0..3 * most as u64 {
        let tx = TxId { session: SessionId(session), sequence: Sequence(1) };
        let (attempt, birth) = (AttemptId { tx, attempt: 1 }, Birth { time: NOW, tx });
        let calls = [call(0, increment())].into_iter().collect();
        let request = Request::Execute {
            attempt,
            birth,
            incarnation: None,
            key: name(session as u32),
            calls,
            undone: Default::default(),
        };
        shard.handle(NOW, Link { session: tx.session, connection: 1 }, request);
    }
    for session in 0..3 * most as u64 {
        shard.deserted(NOW, SessionId(session));
    }
    shard.handle_timeout(NOW);
    assert!(shard.open_attempts() >= 2 * most && shard.open_attempts() < 3 * most);
    finish(&mut shard);
    assert_eq!((shard.locked_records(), shard.open_attempts()), (0, 0));
}

#[test]
fn bytes_that_one_input_has_said_again_are_bounded_and_all_are_said_in_the_end() {
    let mut shard = shard();
    let long = Bytes::from("x".repeat(1 << 18).as_str());
    let set = Operation::new::<Register>(RegisterOp::Set(long));
    shard.handle(NOW, LINK, execute(1, "k", [call(0, set)]));
    let get = |no| call(no, Operation::new::<Register>(RegisterOp::Get));
    shard.handle(NOW, LINK, execute(1, "k", (1..=10).map(get)));
    assert_eq!(finish(&mut shard).len(), 10);
    let mut heard = std::collections::BTreeSet::new();
    for _ in 0..3 {
        shard.begin(NOW);
        for _ in 0..100 {
            let missing: Vec<Call> = (1..=10).filter(|no| !heard.contains(no)).map(get).collect();
            shard.handle_further(NOW, LINK, execute(1, "k", missing));
        }
        let responses = finish(&mut shard);
        assert!(responses.len() <= 5, "{}", responses.len());
        heard.extend(responses.iter().map(|response| match response {
            Response::Granted { no, .. } => no.0,
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(heard.len(), 10);
    // Votes that are asked for again, too.
    let get = |no| KeyedCall { key: "k".into(), call: get(no) };
    shard.handle(NOW, LINK, prepare_after(11, (20..24).map(get).collect()));
    assert_eq!(finish(&mut shard).len(), 1);
    shard.begin(NOW);
    for _ in 0..100 {
        shard.handle_further(NOW, LINK, Request::Withdraw { attempt: attempt(1) });
    }
    assert_eq!(finish(&mut shard).len(), 1);
}
