//! What the ledger makes of a run, by hand.

use std::collections::BTreeMap;

use claret_core::message::{Asks, Call, KeyedCall, Listed, Members, Request, Response};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Survives, Time, Timestamp,
    TxHandle, TxId,
};
use claret_types::{Bytes, Counter, CounterOp, Operation, Reply, Unique};

use super::{Ledger, LedgerEnd};
use crate::reference::Reference;
use crate::run::RunId;

const BOTH: [ShardId; 2] = [ShardId(0), ShardId(1)];

/// The key of each shard's record.
fn key_of(shard: ShardId) -> Bytes {
    ["x", "y"][shard.0 as usize].into()
}

fn attempt(session: u64) -> AttemptId {
    AttemptId { tx: TxId { session: SessionId(session), sequence: Sequence(1) }, attempt: 1 }
}

/// A transaction of one operation at each of these shards is asked to vote.
fn prepare(ledger: &mut Ledger, session: u64, shards: &[ShardId], op: &Operation) -> RunId {
    let run = RunId { session: SessionId(session), tx: TxHandle(1), run: 1 };
    ledger.note_begin(run, Time(1));
    for shard in shards {
        ledger.note_issued(run, &key_of(*shard), op, None);
    }
    for (no, shard) in (0..).zip(shards) {
        let call = Call { no: CallNo(no), op: op.clone(), member: Member(0), reserve: None };
        let request = Request::Prepare {
            attempt: attempt(session),
            birth: Birth { time: Time(1), tx: attempt(session).tx },
            participants: shards.iter().map(|shard| Listed { shard: *shard, incarnation: None }).collect(),
            relies_on: 0,
            calls: vec![KeyedCall { key: key_of(*shard), call }],
            members: Members::All,
            asks: Asks::Place(Timestamp(1)),
        };
        ledger.note_request(*shard, &request, |_| vec![run]);
    }
    run
}

/// Bug of the checker: what a shard had carried out in part before it lost everything was taken for never carried out. Consequence: an
/// answer that was right, of who had seen it there, was called wrong. Mend: it was there until the records were lost.
#[test]
fn what_a_shard_carried_out_in_part_was_seen_before_it_lost_everything() {
    let mut ledger = Ledger::new(false, true, usize::MAX);
    let (add, get) =
        (Operation::new::<Counter>(CounterOp::Add(1)), Operation::new::<Counter>(CounterOp::Get));
    // The second shard has released its lock, and waits with what else it has there.
    prepare(&mut ledger, 1, &BOTH, &add);
    for shard in BOTH {
        let at = Timestamp(10);
        let (behind, replies) = (Timestamp(0), Some(Vec::new()));
        let placed =
            Response::Placed { attempt: attempt(1), shard, at, behind, replies, is_tentative: false };
        ledger.note_response(shard, &placed, None, Time(2)).expect("a vote");
    }
    let done = |session, shard, at, replies: Vec<(CallNo, Reply)>| {
        let (attempt, behind, replies) = (attempt(session), Timestamp(0), Some(replies));
        Response::Done { attempt, shard, at: Timestamp(at), behind, replies }
    };
    ledger.note_response(BOTH[0], &done(1, BOTH[0], 10, Vec::new()), None, Time(3)).expect("it is committed");
    // Another one reads it there.
    let reader = prepare(&mut ledger, 2, &BOTH[1..], &get);
    let seen = Reply::Int(1);
    let read = done(2, BOTH[1], 20, vec![(CallNo(0), seen.clone())]);
    ledger.note_response(BOTH[1], &read, None, Time(4)).expect("it is alone");
    ledger.note_heard(reader, 0, &seen).expect("an answer");
    ledger.told_committed(reader, Time(5)).expect("it is committed");
    ledger
        .note_carried_out(BOTH[1], Survives::Nothing, |id, key| id == attempt(1) && *key == key_of(BOTH[1]));
    ledger.note_restart(BOTH[1], Survives::Nothing, Timestamp(30));

    let mut left = Reference::default();
    left.run(&key_of(BOTH[0]), &add, Unique(0)).expect("an addition");
    let records: BTreeMap<_, _> = left.records().iter().collect();
    let end = LedgerEnd {
        reference: Reference::default(),
        records,
        place: &|key| if *key == key_of(BOTH[0]) { BOTH[0] } else { BOTH[1] },
        is_carried_out: &|_, _, _| false,
        settled: true,
    };
    assert_eq!(ledger.check_serial(end), Ok(()));
    assert_eq!(ledger.torn(), 1);
}
