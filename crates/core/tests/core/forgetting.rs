//! A shard bounds what it remembers of a session, and forgets it with the session, except what somebody can still ask
//! for (P57). It also bounds what it repeats at once (P38).

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, PeerMessage, Refusal, Request, Response, Status,
};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId, Switches,
    Time, TxId,
};
use claret_types::{Bytes, Operation, Register, RegisterOp};

const NOW: Time = Time(1);

fn link(session: u64) -> Link {
    Link { session: SessionId(session), connection: 1 }
}

fn attempt(session: u64, sequence: u64) -> AttemptId {
    let tx = TxId { session: SessionId(session), sequence: Sequence(sequence) };
    AttemptId { tx, attempt: 1 }
}

fn shard(answers_bytes_max: usize) -> Shard {
    let limits = Limits { answers_bytes_max, ..Limits::default() };
    Shard::new(ShardId(1), Incarnation(1), Switches::CLARET, limits)
}

fn get_set(value: &[u8]) -> Operation {
    Operation::new::<Register>(RegisterOp::GetSet(Bytes::copy_from(value)))
}

fn prepare(attempt: AttemptId, op: Operation, others: bool) -> Request {
    let call = Call { no: CallNo(0), op, member: Member(0), reserve: None };
    let listed = [ShardId(1), ShardId(2)].map(|shard| Listed { shard, incarnation: None });
    Request::Prepare {
        attempt,
        birth: Birth { time: NOW, tx: attempt.tx },
        participants: listed[..if others { 2 } else { 1 }].into(),
        relies_on: 0,
        calls: vec![KeyedCall { key: "k".into(), call }],
        members: Members::All,
        asks: Asks::Decision,
        undone: Default::default(),
    }
}

fn answers(shard: &mut Shard) -> Vec<Response> {
    shard.check_invariants();
    let outputs = std::iter::from_fn(|| shard.poll_output());
    outputs
        .filter_map(|it| if let Output::Respond { response, .. } = it { Some(response) } else { None })
        .collect()
}

#[test]
fn answers_beyond_the_bound_go_and_their_commit_is_not_done_twice() {
    let mut shard = shard(1_000);
    let large = [b'x'; 600];
    for sequence in 1..=3 {
        let request = prepare(attempt(1, sequence), get_set(&large), false);
        shard.handle(NOW, link(1), request);
        assert!(matches!(answers(&mut shard)[..], [Response::Committed { .. }]));
    }
    // The latest is told again; of the one before nobody knows the answer, and it is not run again.
    shard.handle(NOW, link(1), prepare(attempt(1, 3), get_set(&large), false));
    assert!(matches!(answers(&mut shard)[..], [Response::Committed { .. }]));
    shard.handle(NOW, link(1), prepare(attempt(1, 2), get_set(b"twice"), false));
    let unknown = answers(&mut shard);
    assert!(matches!(unknown[..], [Response::Refused { refusal: Refusal::Unknown, .. }]), "{unknown:?}");
    shard.handle(NOW, link(1), Request::Withdraw { attempt: attempt(1, 2) });
    let unknown = answers(&mut shard);
    assert!(matches!(unknown[..], [Response::Refused { refusal: Refusal::Unknown, .. }]), "{unknown:?}");
    assert_eq!(shard.written(attempt(1, 2)), Some(Status::Applied));
    assert_eq!(shard.stats().commits, 3);
}

/// Bug: of calls that come again together the first answers are said again, as many as may be said at once. Consequence:
/// where those are known and the last one was lost, it is lost each time, and the transaction never goes on. Mend: the
/// last one, which is asked for, is said first.
#[test]
fn what_is_asked_for_is_said_again_before_what_came_along() {
    let limits = Limits { again_bytes_max: 1, ..Limits::default() };
    let mut shard = Shard::new(ShardId(1), Incarnation(1), Switches::CLARET, limits);
    let birth = Birth { time: NOW, tx: attempt(1, 1).tx };
    let call = |no| Call { no: CallNo(no), op: get_set(b"x"), member: Member(0), reserve: None };
    let execute = || Request::Execute {
        attempt: attempt(1, 1),
        birth,
        incarnation: None,
        key: "k".into(),
        calls: [0, 1, 2].map(call).into_iter().collect(),
        undone: Default::default(),
    };
    shard.handle(NOW, link(1), execute());
    assert_eq!(answers(&mut shard).len(), 3);
    shard.handle(NOW, link(1), execute());
    let again = answers(&mut shard);
    assert!(matches!(again[..], [Response::Granted { no: CallNo(2), .. }]), "{again:?}");
}

#[test]
fn sessions_that_come_and_go_leave_nothing() {
    let mut shard = shard(1_000);
    for session in 1..=1_000 {
        shard.handle(NOW, link(session), prepare(attempt(session, 1), get_set(b"x"), false));
        shard.handle(NOW, link(session), Request::Ask { attempt: attempt(session, 1) });
        shard.handle(NOW, link(session), Request::Heartbeat { live: Vec::new(), low_water: Sequence(2) });
        shard.forget(NOW, SessionId(session));
        shard.handle_timeout(NOW);
        answers(&mut shard);
    }
    assert_eq!((shard.sessions(), shard.remembered()), (0, 0));
}

#[test]
fn what_others_may_ask_for_stays_when_its_session_is_gone() {
    let mut shard = shard(1_000);
    shard.handle(NOW, link(1), prepare(attempt(1, 1), get_set(b"x"), true));
    shard.handle(NOW, link(1), Request::Withdraw { attempt: attempt(1, 2) });
    shard.deserted(NOW, SessionId(1));
    shard.handle_timeout(NOW);
    shard.forget(NOW, SessionId(1));
    answers(&mut shard);
    for (sequence, written) in [(1, Status::Applied), (2, Status::Refused)] {
        let attempt = attempt(1, sequence);
        shard.handle_peer(NOW, PeerMessage::Inquire { attempt, from: ShardId(2), listed: None });
        let Some(Output::Tell { message: PeerMessage::Answer { status, .. }, .. }) = shard.poll_output()
        else {
            panic!("no answer")
        };
        assert_eq!(status, written);
    }
}
