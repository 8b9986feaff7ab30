//! The wire: what is encoded comes back, and whatever else comes is refused without harm.

use claret_core::message::{Call, KeyedCall, Listed, Members, Request};
use claret_core::wire::{decode_requests, encode_requests};
use claret_core::{AttemptId, Birth, CallNo, Limits, Member, Sequence, SessionId, ShardId, Time, TxId};
use claret_types::{BUILTIN, Bytes, Operation};

fn op(kind: usize, name: &str, arguments: &[&str]) -> Operation {
    let arguments: Vec<Bytes> = arguments.iter().map(|it| Bytes::from(*it)).collect();
    (BUILTIN[kind].parse)(name, &arguments).expect("well-formed")
}

#[test]
fn a_prepare_comes_back() {
    let attempt = AttemptId { tx: TxId { session: SessionId(u64::MAX), sequence: Sequence(7) }, attempt: 2 };
    let call = |no, op| Call { no: CallNo(no), op, member: Member(0), reserve: None };
    let calls = vec![
        KeyedCall { key: "tags".into(), call: call(0, op(4, "SADD", &["red", "blue"])) },
        KeyedCall { key: "hits".into(), call: call(1, op(1, "INCRBY", &["-3"])) },
    ];
    let prepare = Request::Prepare {
        attempt,
        birth: Birth { time: Time(1), tx: attempt.tx },
        participants: [Listed { shard: ShardId(3), incarnation: None }].into(),
        relies_on: 0,
        calls,
        members: Members::All,
    };
    let frame = encode_requests(std::slice::from_ref(&prepare));
    let came = decode_requests(&frame, &Limits::default()).expect("it is a frame");
    assert_eq!(format!("{came:?}"), format!("{:?}", [prepare]));
}
