//! Messages of every kind, with every example operation of every built-in type and with values at the edges of their
//! ranges: the tests of the wire, its measurement and its fuzzers begin with these.

use claret_core::message::{
    Asks, Bound, Call, KeyedCall, Listed, Members, PeerMessage, Refusal, Request, Response, Status, WayWords,
};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, Timestamp, TxId,
};
use claret_types::{BUILTIN, Bytes, Claims, Draw, Mode, OpError, Operation, Reply, Scope, builtin_examples};

/// An operation as one would type it, of the type with this number.
pub(crate) fn op(kind: &str, name: &str, arguments: &[&str]) -> Operation {
    let kind = BUILTIN.iter().find(|it| it.name == kind).expect("a built-in type");
    let arguments: Vec<Bytes> = arguments.iter().map(|it| Bytes::from(*it)).collect();
    (kind.parse)(name, &arguments).expect("well-formed")
}

/// Every example operation of every type, and some at the edges.
pub(crate) fn operations() -> Vec<Operation> {
    let mut all: Vec<Operation> = builtin_examples().flat_map(|(_, operations)| operations).collect();
    all.push(op("register", "SET", &[&"long ".repeat(1000)]));
    for number in ["-9223372036854775808", "9223372036854775807", "0"] {
        all.push(op("counter", "INCRBY", &[number]));
        all.push(op("list", "LRANGE", &[number, number]));
        all.push(op("list", "LINDEX", &[number]));
        all.push(op("scored-set", "ZRANGE", &[number, number, "REV", "WITHSCORES"]));
    }
    for float in ["-0.0", "0.1", "5e-324", "1.7976931348623157e308", "-123456789.000001"] {
        all.push(op("float-counter", "INCRBYFLOAT", &[float]));
        all.push(op("summary-bag", "BAG.ADD", &[float]));
        all.push(op("scored-set", "ZADD", &[float, "", "inf", "a", "-inf", "b"]));
        all.push(op("scored-set", "ZCOUNT", &[&format!("({float}"), float]));
        all.push(op("topk", "TOPK.ADD", &["65535", float, "member"]));
    }
    all
}

/// An attempt of one of these sessions.
pub(crate) fn attempt(session: u64, sequence: u64, number: u32) -> AttemptId {
    AttemptId { tx: TxId { session: SessionId(session), sequence: Sequence(sequence) }, attempt: number }
}

fn birth(time: u64, attempt: AttemptId) -> Birth {
    Birth { time: Time(time), tx: attempt.tx }
}

/// A call without a reserve.
pub(crate) fn call(no: u32, op: Operation) -> Call {
    Call { no: CallNo(no), op, member: Member(0), reserve: None }
}

fn reserve() -> Claims {
    Claims::record(Mode(0))
        .and(Scope::element(b"red"), Mode::SHARED)
        .and(Scope::Element(u64::MAX), Mode::EXCLUSIVE)
        .drawing(Draw { down: u64::MAX, up: 1 })
}

/// A prepare of four operations for one of three participants: what most transactions send.
pub(crate) fn typical_prepare() -> Request {
    let attempt = attempt(0x0123_4567_89ab_cdef, 70_000, 1);
    let shards = [0, 5461, 10923];
    let listed =
        shards.map(|shard| Listed { shard: ShardId(shard), incarnation: Some(Incarnation(1 << 50)) });
    let ops = [
        ("user:1000:posts", op("list", "LPUSH", &["post:52811"])),
        ("post:52811", op("dict", "HSET", &["author", "1000", "text", "what a fine day it is today"])),
        ("user:1000:count", op("counter", "INCRBY", &["1"])),
        ("followers:1000", op("set", "SISMEMBER", &["user:2000"])),
    ];
    let calls = ops.into_iter().zip(0..);
    let calls = calls.map(|((key, op), no)| KeyedCall { key: key.into(), call: call(no, op) }).collect();
    Request::Prepare {
        attempt,
        birth: birth(987_654_321_000, attempt),
        participants: listed.into(),
        relies_on: 0,
        calls,
        members: Members::All,
        asks: Asks::Vote,
        undone: Default::default(),
    }
}

/// What answers that.
pub(crate) fn typical_vote() -> Response {
    let attempt = attempt(0x0123_4567_89ab_cdef, 70_000, 1);
    let replies = vec![(CallNo(0), Reply::Int(12)), (CallNo(1), Reply::Int(2)), (CallNo(3), Reply::Int(1))];
    Response::Voted { attempt, shard: ShardId(5461), replies }
}

/// Requests of every kind; each operation in an execute of its own, and all together in a prepare.
pub(crate) fn requests() -> Vec<Request> {
    let first = attempt(7, 1, 1);
    let highest = attempt(u64::MAX, u64::MAX, u32::MAX);
    let execute = |(sequence, op): (u64, Operation)| {
        let attempt = attempt(7, sequence, 1);
        let mut last = call(1, op.clone());
        last.reserve = Some(Box::new(Claims::record(Mode::EXCLUSIVE)));
        Request::Execute {
            attempt,
            birth: birth(sequence, attempt),
            incarnation: None,
            key: op.type_info().name.into(),
            calls: [call(0, op), last].into_iter().collect(),
            undone: Default::default(),
        }
    };
    let mut all: Vec<Request> = (2..).zip(operations()).map(execute).collect();
    let keyed = (0..).zip(operations()).map(|(no, op)| KeyedCall {
        key: op.type_info().name.into(),
        call: Call { no: CallNo(no), op, member: Member(no as u16), reserve: None },
    });
    all.push(Request::Prepare {
        attempt: first,
        birth: birth(u64::MAX, first),
        participants: [Listed { shard: ShardId(0), incarnation: None }].into(),
        relies_on: 0,
        calls: keyed.collect(),
        members: Members::Only([Member(0), Member(u16::MAX)].into_iter().collect()),
        asks: Asks::Decision,
        undone: Default::default(),
    });
    all.push(typical_prepare());
    let mut reserving = call(u32::MAX, op("set", "SADD.RETURNING", &["red"]));
    reserving.reserve = Some(Box::new(reserve()));
    all.push(Request::Execute {
        attempt: highest,
        birth: birth(u64::MAX, highest),
        incarnation: Some(Incarnation(u64::MAX)),
        key: "k".into(),
        calls: [reserving].into_iter().collect(),
        undone: Default::default(),
    });
    all.extend([first, highest].map(|attempt| Request::Apply { attempt }));
    all.extend([first, highest].map(|attempt| Request::Withdraw { attempt }));
    all.push(Request::Abort { attempt: first, refused_by: None });
    all.push(Request::Abort { attempt: first, refused_by: Some(ShardId(u32::MAX)) });
    all.push(Request::Heartbeat { live: Vec::new(), low_water: Sequence(u64::MAX) });
    all.push(Request::Heartbeat { live: vec![first, highest], low_water: Sequence(1) });
    all.push(Request::Ask { attempt: first });
    all.push(Request::AskBehind { attempt: highest });
    all.push(Request::ApplyAt { attempt: first, at: Timestamp::MAX });
    all.push(Request::Tick { want: Timestamp(0) });
    let Request::Prepare { participants, birth, attempt, .. } = typical_prepare() else {
        unreachable!("it is one")
    };
    let ways =
        way_words().map(|WayWords { number, body }| Asks::Way { decides: body.is_empty(), number, body });
    all.extend([Asks::Place(Timestamp(1 << 50))].into_iter().chain(ways).map(|asks| Request::Prepare {
        attempt,
        birth,
        participants: participants.clone(),
        relies_on: 0,
        calls: Vec::new(),
        members: Members::All,
        asks,
        undone: Default::default(),
    }));
    all
}

fn replies() -> Vec<Reply> {
    vec![
        Reply::Nil,
        Reply::Ok,
        Reply::Int(i64::MIN),
        Reply::Int(i64::MAX),
        Reply::Float(-0.0),
        Reply::Float(f64::NEG_INFINITY),
        Reply::Float(f64::MIN_POSITIVE),
        Reply::Bytes("".into()),
        Reply::Bytes("y".repeat(1000).into()),
        Reply::Array(Vec::new()),
        Reply::Array(vec![Reply::Nil, Reply::Array(vec![Reply::Int(1), Reply::Float(0.5)])]),
    ]
}

/// Every error of an operation, as its variants stand in the source.
pub(crate) fn op_errors() -> Vec<OpError> {
    let text = || "1x".to_owned();
    let error = |which| match which {
        0 => OpError::WrongType { found: "list".into(), expected: "set".into(), method: "SADD".into() },
        1 => OpError::UnknownMethod(text()),
        2 => OpError::Arity { method: "SADD".into(), usage: "member ...".into() },
        3 => OpError::Argument { given: text(), expected: "an integer".into() },
        4 => OpError::NotANumber("score".into()),
        5 => OpError::NotNumeric(text(), "an integer".into()),
        6 => OpError::Overflow("the counter".into(), text()),
        7 => OpError::Bound { what: "bounds".into(), given: text(), expected: "min <= max".into() },
        8 => OpError::Insufficient {
            method: "BINCRBY".into(),
            amount: 1,
            value: -1,
            min: i64::MIN,
            max: i64::MAX,
        },
        9 => OpError::Missing { method: "BGET".into(), create: "BCREATE value min max".into() },
        10 => OpError::Mismatch(text()),
        11 => OpError::TooLarge { what: "value".into(), size: usize::MAX, limit: 0 },
        12 => OpError::Panicked { method: "LLEN".into(), message: String::new() },
        13 => OpError::EmptyKey,
        14 => OpError::Custom("the auction is closed".into()),
        15 => OpError::NotOnCluster { kind: "book".into(), nodes: "h:1".into() },
        16 => OpError::NoPlainCommand { method: "BAG.MEAN".into() },
        17 => OpError::Told("\u{fc}".repeat(200)),
        _ => OpError::AgainstSchema {
            prefix: text().into(),
            expected: "a set".into(),
            found: "an operation of a list".into(),
            method: "RPUSH".into(),
        },
    };
    (0..19).map(error).collect()
}

/// One of each kind, and of each kind of error.
pub(crate) fn refusals() -> Vec<Refusal> {
    let failed = |error| Refusal::Operation { key: "k".into(), error: Box::new(error) };
    let mut all: Vec<Refusal> = op_errors().into_iter().map(failed).collect();
    all.extend([
        Refusal::Withdrawn,
        Refusal::Recovered,
        Refusal::LeaseExpired,
        Refusal::LostLocks,
        Refusal::Unknown,
        Refusal::Stale,
        Refusal::Crowded("\0\u{ff}".into()),
        Refusal::Unlisted,
        Refusal::Resolved,
        Refusal::Unstamped,
        Refusal::OnlyRounds,
        Refusal::TooMuch { bound: Bound::UserBytes, limit: 1 << 30 },
        Refusal::Denied { key: "k".into(), reason: "NOPERM".to_owned() },
        Refusal::AgainstSchema { key: "k".into(), error: Box::new(OpError::EmptyKey) },
    ]);
    all
}

const STATUSES: [Status; 7] = [
    Status::Prepared,
    Status::Applied,
    Status::Refused,
    Status::Forgotten,
    Status::Lost,
    Status::PreparedAt(Timestamp(1)),
    Status::AppliedAt(Timestamp(1 << 40)),
];

/// Responses of every kind.
pub(crate) fn responses() -> Vec<Response> {
    let (attempt, shard) = (attempt(1, 2, 3), ShardId(16_383));
    let (incarnation, since) = (Incarnation(1 << 50), Incarnation(3));
    let granted = |reply| Response::Granted { attempt, no: CallNo(9), reply, granted: u32::MAX, incarnation };
    let mut all: Vec<Response> = replies().into_iter().map(granted).collect();
    all.push(Response::Queued { attempt, no: None });
    all.push(Response::Busy { attempt });
    all.push(typical_vote());
    let replies: Vec<_> = (0..).map(CallNo).zip(replies()).collect();
    all.push(Response::Committed { attempt, replies: replies.clone() });
    all.push(Response::Voted { attempt, shard, replies: replies.clone() });
    let (at, behind) = (Timestamp(1 << 50), Timestamp::MAX);
    for (replies, is_tentative) in [(None, false), (Some(replies), true)] {
        all.push(Response::Placed { attempt, shard, at, behind, replies: replies.clone(), is_tentative });
        all.push(Response::Done { attempt, shard, at, behind, replies });
    }
    all.push(Response::Ticked { clock: at, now: Time(7), passed: at, orders: true, owners: 5 });
    let refused = |refusal| Response::Refused { attempt, shard, refusal, since };
    all.extend(refusals().into_iter().map(refused));
    all.push(Response::Applied { attempt, shard });
    all.push(Response::Aborted { attempt, shard });
    all.push(Response::Elder { attempt, shard, birth: Time(u64::MAX) });
    all.extend(STATUSES.map(|status| Response::Asked { attempt, status, since }));
    for count in [0, 1, 9] {
        let record = |no: u8| (Bytes::from(vec![no; 30]), no.is_multiple_of(2).then_some(attempt));
        all.push(Response::Behind { attempt, records: (0..count).map(record).collect() });
    }
    all
}

/// What a way to commit adds to messages, whichever it is.
fn way_words() -> [WayWords; 2] {
    [(1, vec![]), (200, vec![7; 300])].map(|(number, body)| WayWords { number, body: body.into() })
}

/// Messages between shards, of every kind.
pub(crate) fn peers() -> Vec<PeerMessage> {
    let (attempt, from) = (attempt(1, 2, 3), ShardId(5461));
    let inquire = |listed| PeerMessage::Inquire { attempt, from, listed };
    let mut all: Vec<PeerMessage> = [None, Some(Incarnation(9))].map(inquire).into();
    all.extend(STATUSES.map(|status| PeerMessage::Answer { attempt, from, status }));
    all.push(PeerMessage::AskClock { from, incarnation: Incarnation(4), want: Timestamp(9) });
    all.push(PeerMessage::Clock { from, incarnation: Incarnation(4), clock: Timestamp(7), owners: 5 });
    all.extend(way_words().map(|words| PeerMessage::Way { attempt, from, words }));
    all
}
