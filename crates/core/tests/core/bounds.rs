//! A shard bounds what it keeps for each user and for all, whatever users and other shards send, and still keeps what
//! the protocol needs (P58 to P60).

use claret_core::message::{
    Asks, Bound, Call, KeyedCall, Link, Listed, Members, Output, PeerMessage, Refusal, Request, Response,
    Status,
};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId, Survives,
    Switches, Time, TxId, Written,
};
use claret_types::{Bytes, Operation, Register, RegisterOp};

pub(crate) const NOW: Time = Time(1);
pub(crate) const HERE: ShardId = ShardId(1);
pub(crate) const OTHER: ShardId = ShardId(2);
pub(crate) const FIRST: Incarnation = Incarnation(10);

/// Whose sessions: 1 and 2 are of one user, 3 is of another.
const ACCOUNTS: [(u64, u64); 3] = [(1, 7), (2, 7), (3, 8)];

fn shard(limits: Limits) -> Shard {
    let mut shard = Shard::new(HERE, Incarnation(1), Switches::CLARET, limits);
    for (session, account) in ACCOUNTS {
        shard.greet(SessionId(session), account, FIRST);
    }
    shard
}

pub(crate) fn attempt(session: u64, sequence: u64) -> AttemptId {
    let tx = TxId { session: SessionId(session), sequence: Sequence(sequence) };
    AttemptId { tx, attempt: 1 }
}

fn get_set(value: &str) -> Operation {
    Operation::new::<Register>(RegisterOp::GetSet(Bytes::copy_from(value.as_bytes())))
}

fn call(no: u32) -> Call {
    Call { no: CallNo(no), op: get_set("value"), member: Member(0), reserve: None }
}

/// On a record of its own.
fn execute(attempt: AttemptId, no: u32) -> Request {
    let birth = Birth { time: NOW, tx: attempt.tx };
    let key = Bytes::copy_from(attempt.to_string().as_bytes());
    Request::Execute {
        attempt,
        birth,
        incarnation: None,
        key,
        calls: [call(no)].into_iter().collect(),
        undone: Default::default(),
    }
}

fn prepare(attempt: AttemptId, relies_on: u32, calls: u32, listed: &[(ShardId, Incarnation)]) -> Request {
    let key = Bytes::copy_from(attempt.to_string().as_bytes());
    let call = |no| KeyedCall { key: key.clone(), call: call(no) };
    let listed = listed.iter().map(|(shard, it)| Listed { shard: *shard, incarnation: Some(*it) });
    Request::Prepare {
        attempt,
        birth: Birth { time: NOW, tx: attempt.tx },
        participants: listed.collect(),
        relies_on,
        calls: (0..calls).map(call).collect(),
        members: Members::All,
        asks: Asks::Decision,
        undone: Default::default(),
    }
}

pub(crate) fn send(shard: &mut Shard, request: Request) -> Vec<Response> {
    let session = match &request {
        Request::Heartbeat { .. } | Request::Tick { .. } | Request::Look { .. } => SessionId(1),
        Request::Execute { attempt, .. }
        | Request::Prepare { attempt, .. }
        | Request::Apply { attempt }
        | Request::Withdraw { attempt }
        | Request::Abort { attempt, .. }
        | Request::Ask { attempt }
        | Request::AskBehind { attempt }
        | Request::ApplyAt { attempt, .. } => attempt.tx.session,
    };
    shard.handle(NOW, Link { session, connection: 1 }, request);
    outputs(shard)
        .into_iter()
        .filter_map(|it| if let Output::Respond { response, .. } = it { Some(response) } else { None })
        .collect()
}

fn outputs(shard: &mut Shard) -> Vec<Output> {
    shard.check_invariants();
    std::iter::from_fn(|| shard.poll_output()).collect()
}

fn is_over(responses: &[Response], which: Bound) -> bool {
    matches!(responses, [Response::Refused { refusal: Refusal::TooMuch { bound, .. }, .. }] if *bound == which)
}

/// Opens attempts of a session until one is too much; how many were not.
pub(crate) fn fill(shard: &mut Shard, session: u64) -> u64 {
    for sequence in 1..10_000 {
        let responses = send(shard, execute(attempt(session, sequence), 0));
        if let [Response::Refused { refusal, .. }] = &responses[..] {
            assert!(is_over(&responses, Bound::UserBytes), "{refusal}");
            let text = refusal.to_string();
            assert!(text.contains("claret.user-bytes-max") && text.contains("20000"), "{text}");
            return sequence - 1;
        }
        assert!(matches!(responses[..], [Response::Granted { .. }]), "{responses:?}");
    }
    panic!("nothing was ever too much")
}

#[test]
fn sessions_of_one_user_share_one_bound_and_those_of_others_do_not() {
    let mut shard = shard(Limits { user_bytes_max: 20_000, ..Limits::default() });
    let open = fill(&mut shard, 1);
    assert!(open > 5, "{open}");
    assert!(is_over(&send(&mut shard, execute(attempt(2, 1), 0)), Bound::UserBytes), "of the same user");
    assert!(shard.kept_bytes() <= 20_000);
    let other = send(&mut shard, execute(attempt(3, 1), 0));
    assert!(matches!(other[..], [Response::Granted { .. }]), "of another user: {other:?}");
    // What was taken in ends as ever, and then there is room again.
    for sequence in 1..=open {
        let ended = send(&mut shard, prepare(attempt(1, sequence), 1, 0, &[(HERE, FIRST)]));
        assert!(matches!(ended[..], [Response::Committed { .. }]), "{ended:?}");
    }
    send(&mut shard, Request::Heartbeat { live: Vec::new(), low_water: Sequence(open + 2) });
    let again = send(&mut shard, execute(attempt(1, open + 2), 0));
    assert!(matches!(again[..], [Response::Granted { .. }]), "{again:?}");
}

#[test]
fn all_users_together_have_a_bound() {
    let mut shard = shard(Limits { shard_bytes_max: 20_000, ..Limits::default() });
    let taken = (1..100).take_while(|sequence| {
        let responses = send(&mut shard, execute(attempt(1 + sequence % 3, *sequence), 0));
        matches!(responses[..], [Response::Granted { .. }])
    });
    assert!((5..20).contains(&taken.count()));
    assert!(is_over(&send(&mut shard, execute(attempt(3, 200), 0)), Bound::ShardBytes));
}

#[test]
fn a_transaction_has_so_many_calls_in_however_many_messages() {
    let mut shard = shard(Limits { calls_max: 5, ..Limits::default() });
    for no in 0..5 {
        let responses = send(&mut shard, execute(attempt(1, 1), no));
        assert!(matches!(responses[..], [Response::Granted { .. }]), "{responses:?}");
        send(&mut shard, execute(attempt(1, 1), no)); // The same again is no other call.
    }
    assert!(is_over(&send(&mut shard, execute(attempt(1, 1), 5)), Bound::Calls));
    send(&mut shard, execute(attempt(1, 2), 0));
    assert!(is_over(&send(&mut shard, prepare(attempt(1, 2), 1, 5, &[(HERE, FIRST)])), Bound::Calls));
    assert_eq!((shard.open_attempts(), shard.stats().commits), (0, 0));
}

/// A no has to be remembered, and whoever wants may ask for as many as it likes.
#[test]
fn noes_for_which_there_is_no_room_are_written_for_a_range() {
    let mut shard = shard(Limits { user_bytes_max: 20_000, ..Limits::default() });
    let open = fill(&mut shard, 1);
    for sequence in 20_000..30_000 {
        send(&mut shard, Request::Withdraw { attempt: attempt(1, sequence) });
        send(&mut shard, Request::Ask { attempt: attempt(1, sequence) });
    }
    // The last one that was noted may reach beyond it.
    assert!(shard.kept_bytes() < 20_500 && shard.remembered() < 100, "{}", shard.kept_bytes());
    for sequence in 1..=open {
        let ended = send(&mut shard, prepare(attempt(1, sequence), 1, 0, &[(HERE, FIRST)]));
        assert!(matches!(ended[..], [Response::Committed { .. }]), "what is open is none of them: {ended:?}");
    }
    send(&mut shard, Request::Heartbeat { live: Vec::new(), low_water: Sequence(open + 1) });
    // There is room now, and what was refused stays refused.
    for sequence in [open + 1, 20_000, 25_000, 29_999] {
        let late = send(&mut shard, prepare(attempt(1, sequence), 0, 1, &[(HERE, FIRST)]));
        assert!(matches!(late[..], [Response::Refused { .. }]), "{late:?}");
        assert_eq!(shard.written(attempt(1, sequence)), Some(Status::Refused));
    }
    let later = send(&mut shard, prepare(attempt(1, 30_000), 0, 1, &[(HERE, FIRST)]));
    assert!(matches!(later[..], [Response::Committed { .. }]), "{later:?}");
    send(&mut shard, Request::Heartbeat { live: Vec::new(), low_water: Sequence(30_001) });
    assert_eq!(shard.kept_bytes(), 0);
}

fn ask(shard: &mut Shard, about: AttemptId) -> Option<Status> {
    shard.handle_peer(NOW, PeerMessage::Inquire { attempt: about, from: OTHER, listed: Some(FIRST) });
    outputs(shard).into_iter().find_map(|it| match it {
        Output::Tell { message: PeerMessage::Answer { status, .. }, .. } => Some(status),
        _ => None,
    })
}

/// Whoever is asked writes a no, for whatever another node asks about.
#[test]
fn what_another_node_asks_about_is_bounded_and_forgotten() {
    let mut shard = shard(Limits { strangers_max: 10, user_bytes_max: 20_000, ..Limits::default() });
    let answered = (100..200).filter(|session| ask(&mut shard, attempt(*session, 1)).is_some()).count();
    assert_eq!((answered, shard.stats().unanswered), (10, 90));
    assert_eq!(ask(&mut shard, attempt(100, 1)), Some(Status::Refused), "what is known is told again");
    // Of a session that is here as much is noted as its user may have.
    let answered = (1..10_000).filter(|sequence| ask(&mut shard, attempt(1, *sequence)).is_some()).count();
    assert!((10..1_000).contains(&answered) && shard.kept_bytes_of(7) < 21_000, "{answered}");
    shard.forget_strangers(Time(5_000), 10_000);
    shard.handle_timeout(Time(5_000));
    assert_eq!(shard.sessions(), 3 + 10, "not so soon");
    shard.forget_strangers(Time(20_000), 10_000);
    shard.handle_timeout(Time(20_000));
    assert_eq!(shard.sessions(), 3);
    assert_eq!(ask(&mut shard, attempt(150, 1)), Some(Status::Refused), "there is room for others");
}

/// Bug: what was applied with others was remembered for ever when its session died. Mend: the others are asked whether
/// they know the end.
#[test]
fn what_is_applied_with_others_is_forgotten_when_they_have_decided() {
    let mut shard = shard(Limits::default());
    for sequence in 1..=100 {
        let done = send(&mut shard, prepare(attempt(1, sequence), 0, 1, &[(HERE, FIRST), (OTHER, FIRST)]));
        assert!(matches!(done[..], [Response::Committed { .. }]), "{done:?}");
        send(&mut shard, Request::Withdraw { attempt: attempt(1, 1_000 + sequence) });
    }
    shard.forget(NOW, SessionId(1));
    let (mut now, mut rounds, mut asked) = (NOW, 0, 0);
    while let Some(due) = shard.poll_timeout().filter(|_| shard.departed() > 0) {
        now = now.max(due);
        shard.handle_timeout(now);
        for output in outputs(&mut shard) {
            let Output::Tell { shard: to, message: PeerMessage::Inquire { attempt, .. } } = output else {
                panic!("{output:?}")
            };
            assert_eq!(to, OTHER);
            asked += 1;
            // In doubt for a while, or away.
            let status = match (rounds, attempt.tx.sequence.0 % 3) {
                (0..3, 1) => Some(Status::Prepared),
                (0..5, 2) => None,
                _ => Some(Status::Applied),
            };
            if let Some(status) = status {
                shard.handle_peer(now, PeerMessage::Answer { attempt, from: OTHER, status });
            }
        }
        rounds += 1;
        assert!(rounds < 100, "{} are left", shard.remembered());
    }
    assert_eq!((shard.sessions(), shard.remembered(), shard.kept_bytes()), (2, 0, 0));
    assert!(asked < 600, "not again and again: {asked}");
}

/// Bug: who wanted to know what became of an attempt heard that it was applied; and, when its session was gone and another shard
/// had asked late, that it was refused. Mend: of a session that is gone a no is no answer (P89).
#[test]
fn a_no_that_was_written_when_the_decision_was_forgotten_is_lost_to_who_wants_to_know() {
    for greets in [true, false] {
        let mut shard = shard(Limits::default());
        let done = send(&mut shard, prepare(attempt(1, 1), 0, 1, &[(HERE, FIRST)]));
        assert!(matches!(done[..], [Response::Committed { .. }]), "{done:?}");
        assert_eq!(shard.tell_written(attempt(1, 1), greets).written, Written::Applied);
        shard.forget(NOW, SessionId(1));
        while let Some(due) = shard.poll_timeout().filter(|_| shard.departed() > 0) {
            shard.handle_timeout(due.max(NOW));
        }
        assert_eq!(ask(&mut shard, attempt(1, 1)), Some(Status::Refused), "whoever asks writes a no");
        assert_eq!(shard.tell_written(attempt(1, 1), greets).written, Written::Lost);
    }
}

/// Nobody is refused because somebody wanted to know.
#[test]
fn who_wants_to_know_writes_nothing() {
    let mut shard = shard(Limits::default());
    assert_eq!(shard.tell_written(attempt(1, 1), true).written, Written::Nothing);
    assert_eq!(
        shard.tell_written(attempt(9, 1), true).written,
        Written::Lost,
        "a session that nobody greeted"
    );
    let done = send(&mut shard, prepare(attempt(1, 1), 0, 1, &[(HERE, FIRST)]));
    assert!(matches!(done[..], [Response::Committed { .. }]), "{done:?}");
    send(&mut shard, Request::Withdraw { attempt: attempt(1, 2) });
    assert_eq!(shard.tell_written(attempt(1, 2), true).written, Written::Refused);
    send(&mut shard, Request::Heartbeat { live: Vec::new(), low_water: Sequence(3) });
    assert_eq!(shard.tell_written(attempt(1, 1), true).written, Written::Forgotten);
}

/// Bug: a session that was forgotten and came back was taken for a new one. Consequence: a commit that it sent again, since it
/// had not heard of its end, was done twice. Mend: it is greeted under a later incarnation, and what lists an
/// earlier one is as lost as with the memory of a shard.
#[test]
fn who_comes_back_when_it_is_forgotten_does_nothing_twice() {
    let mut shard = shard(Limits::default());
    let commit = |at| prepare(attempt(1, 1), 0, 1, &[(HERE, at)]);
    assert!(matches!(send(&mut shard, commit(FIRST))[..], [Response::Committed { .. }]));
    shard.forget(NOW, SessionId(1));
    shard.handle_timeout(NOW);
    assert_eq!(shard.sessions(), 2);
    let later = Incarnation(20);
    shard.greet(SessionId(1), 7, later);
    assert_eq!((shard.incarnation_to(SessionId(1)), shard.incarnation_to(SessionId(2))), (later, FIRST));
    let again = send(&mut shard, commit(FIRST));
    assert!(matches!(again[..], [Response::Refused { since, .. }] if since == later), "{again:?}");
    let asked = send(&mut shard, Request::Ask { attempt: attempt(1, 1) });
    assert!(matches!(asked[..], [Response::Asked { since, .. }] if since == later), "{asked:?}");
    let fresh = send(&mut shard, execute(attempt(1, 2), 0));
    assert!(
        matches!(fresh[..], [Response::Granted { incarnation, .. }] if incarnation == later),
        "{fresh:?}"
    );
    let done = send(&mut shard, prepare(attempt(1, 2), 1, 1, &[(HERE, later)]));
    assert!(matches!(done[..], [Response::Committed { .. }]), "{done:?}");
    assert_eq!(shard.stats().commits, 2);
}

/// Who comes back before all is forgotten is asked about no more, and keeps what is left.
#[test]
fn who_comes_back_in_time_is_not_forgotten() {
    let mut shard = shard(Limits::default());
    send(&mut shard, prepare(attempt(1, 1), 0, 1, &[(HERE, FIRST), (OTHER, FIRST)]));
    shard.forget(NOW, SessionId(1));
    shard.handle_timeout(NOW);
    shard.greet(SessionId(1), 7, Incarnation(20));
    outputs(&mut shard);
    let answer = PeerMessage::Answer { attempt: attempt(1, 1), from: OTHER, status: Status::Applied };
    shard.handle_peer(NOW, answer);
    assert_eq!((shard.departed(), shard.remembered(), shard.poll_timeout()), (0, 1, None));
    assert_eq!(shard.written(attempt(1, 1)), Some(Status::Applied));
}

/// Bug: whoever was greeted again by a shard that goes on with its votes was told that all was forgotten. Consequence: the
/// ends of transactions were unknown whenever a slot moved. Mend: only what was forgotten is.
#[test]
fn who_is_greeted_by_a_later_incarnation_with_all_votes_has_lost_nothing() {
    let mut shard = shard(Limits::default());
    send(&mut shard, execute(attempt(1, 1), 0));
    shard.restart(NOW, Incarnation(15), Survives::Votes);
    shard.greet(SessionId(1), 7, Incarnation(20));
    let late = send(&mut shard, prepare(attempt(1, 1), 1, 0, &[(HERE, FIRST), (OTHER, FIRST)]));
    let is_no = |it: &Response| matches!(it, Response::Refused { since, .. } if *since <= FIRST);
    assert!(late.iter().all(is_no) && late.len() == 1, "a no that is certain: {late:?}");
}
