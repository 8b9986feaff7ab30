//! What the ledger makes of a run, by hand.

use std::collections::BTreeSet;

use claret_core::message::{Asks, Call, KeyedCall, Listed, Members, Refusal, Request, Response};
use claret_core::{
    AttemptId, Birth, CallNo, Member, Sequence, SessionId, ShardId, Survives, Time, Timestamp, TxHandle, TxId,
};
use claret_types::{Bytes, Counter, CounterOp, OpError, Operation, Reply, Unique};

use super::{Ledger, LedgerEnd};
use crate::reference::Reference;
use crate::run::RunId;

const BOTH: [ShardId; 2] = [ShardId(0), ShardId(1)];

const X: (ShardId, &str) = (BOTH[0], "x");
const Y: (ShardId, &str) = (BOTH[1], "y");

fn attempt(session: u64) -> AttemptId {
    AttemptId { tx: TxId { session: SessionId(session), sequence: Sequence(1) }, attempt: 1 }
}

fn add() -> Operation {
    Operation::new::<Counter>(CounterOp::Add(1))
}

/// A transaction of one operation on each of these records is asked to vote.
fn prepare(ledger: &mut Ledger, session: u64, records: &[(ShardId, &str)], op: &Operation) -> RunId {
    let run = RunId { session: SessionId(session), tx: TxHandle(1), run: 1 };
    ledger.note_begin(run, Time(1));
    for (_, key) in records {
        ledger.note_issued(run, &Bytes::from(*key), op, None);
    }
    let listed = || records.iter().map(|(shard, _)| Listed { shard: *shard, incarnation: None });
    for (no, (shard, key)) in (0..).zip(records) {
        let call = Call { no: CallNo(no), op: op.clone(), member: Member(0), reserve: None };
        let request = Request::Prepare {
            attempt: attempt(session),
            birth: Birth { time: Time(1), tx: attempt(session).tx },
            participants: listed().collect(),
            relies_on: 0,
            calls: vec![KeyedCall { key: Bytes::from(*key), call }],
            members: Members::All,
            asks: Asks::Place(Timestamp(1)),
            undone: Default::default(),
        };
        ledger.note_request(*shard, &request, |_| vec![run]);
    }
    run
}

fn done(ledger: &mut Ledger, session: u64, shard: ShardId, at: u64, replies: Vec<(CallNo, Reply)>) {
    let (attempt, behind, replies) = (attempt(session), Timestamp(0), Some(replies));
    let done = Response::Done { attempt, shard, at: Timestamp(at), behind, replies };
    ledger.note_response(shard, &done, None, Time(3)).expect("it is committed");
}

/// Both shards say yes.
fn vote(ledger: &mut Ledger, session: u64) {
    for shard in BOTH {
        let (at, behind, replies) = (Timestamp(10), Timestamp(0), Some(Vec::new()));
        let placed =
            Response::Placed { attempt: attempt(session), shard, at, behind, replies, is_tentative: false };
        ledger.note_response(shard, &placed, None, Time(2)).expect("a vote");
    }
}

/// One that adds to both records has voted, and the first shard has carried it out.
fn add_to_both(ledger: &mut Ledger) {
    prepare(ledger, 1, &[X, Y], &add());
    vote(ledger, 1);
    done(ledger, 1, BOTH[0], 10, Vec::new());
}

/// Another one reads a record, alone.
fn read(ledger: &mut Ledger, record: (ShardId, &str), seen: i64) {
    let reader = prepare(ledger, 2, &[record], &Operation::new::<Counter>(CounterOp::Get));
    let seen = Reply::Int(seen);
    done(ledger, 2, record.0, 20, vec![(CallNo(0), seen.clone())]);
    ledger.note_heard(reader, 0, &seen).expect("an answer");
    ledger.told_committed(reader, Time(5)).expect("it is committed");
}

/// Checks the end, at which these records hold 1.
fn check(ledger: &Ledger, records: &[&str]) -> Result<(), String> {
    let mut left = Reference::default();
    for key in records {
        left.run(&Bytes::from(*key), &add(), Unique(0)).expect("an addition");
    }
    let end = LedgerEnd {
        reference: Reference::default(),
        records: left.records().iter().collect(),
        place: &|key| if *key == Bytes::from(X.1) { BOTH[0] } else { BOTH[1] },
        is_carried_out: &|_, _, _| false,
        settled: true,
    };
    ledger.check_serial(end)
}

/// Bug of the checker: what a shard had carried out in part before it lost everything was taken for never carried out. Consequence: an
/// answer that was right, of who had seen it there, was called wrong. Mend: it was there until the records were lost.
#[test]
fn what_a_shard_carried_out_in_part_was_seen_before_it_lost_everything() {
    let mut ledger = Ledger::new(true, usize::MAX);
    add_to_both(&mut ledger);
    // The second shard has released its lock, and waits with what else it has there.
    read(&mut ledger, Y, 1);
    ledger
        .note_carried_out(BOTH[1], Survives::Nothing, |id, key| id == attempt(1) && *key == Bytes::from(Y.1));
    ledger.note_restart(BOTH[1], Survives::Nothing, Timestamp(30));
    assert_eq!(check(&ledger, &[X.1]), Ok(()));
    assert_eq!(ledger.torn(), 1);
}

/// Bug of the checker: a record vanished under a transaction that had voted there, and another shard forgot that it had voted, too. So
/// it was given up here, and whoever had waited went on. Consequence: the record was taken to vanish behind it, where its timestamp
/// was far ahead, and who found nothing was called wrong. Mend: nobody comes behind what was given up.
#[test]
fn what_vanishes_under_one_that_is_given_up_does_not_come_behind_it() {
    let mut ledger = Ledger::new(true, usize::MAX);
    prepare(&mut ledger, 3, &[X], &add());
    done(&mut ledger, 3, X.0, 5, Vec::new());
    prepare(&mut ledger, 1, &[X, Y], &add());
    for (shard, at) in [(X.0, 6), (Y.0, 1_000)] {
        let (at, behind, replies) = (Timestamp(at), Timestamp(0), Some(Vec::new()));
        let placed =
            Response::Placed { attempt: attempt(1), shard, at, behind, replies, is_tentative: false };
        ledger.note_response(shard, &placed, None, Time(2)).expect("a vote");
    }
    ledger.note_vanished(X.0, (&[X.1.into()], &BTreeSet::new()), Time(4), None);
    ledger.note_restart(Y.0, Survives::Records, Timestamp(1_000));
    read(&mut ledger, X, 0);
    assert_eq!(check(&ledger, &[]), Ok(()));
    assert_eq!(ledger.torn(), 1);
}

/// Bug of the checker: a transaction had been carried out on a record, whose slot went to another shard. That one had forgotten what it
/// had voted of the transaction on a record of its own. Consequence: when the first record vanished there, that was taken to come before
/// the transaction, and who found nothing was called wrong. Mend: what counts is where the record was when it was voted on.
#[test]
fn what_vanishes_where_its_slot_went_comes_behind_who_used_it_before() {
    let mut ledger = Ledger::new(true, usize::MAX);
    add_to_both(&mut ledger);
    ledger.note_carried_out(BOTH[1], Survives::Records, |_, _| false);
    ledger.note_restart(BOTH[1], Survives::Records, Timestamp(15));
    ledger.note_vanished(BOTH[1], (&[X.1.into()], &BTreeSet::new()), Time(4), None);
    read(&mut ledger, (BOTH[1], X.1), 0);
    assert_eq!(check(&ledger, &[]), Ok(()));
}

/// Bug of the checker: a record vanished before its slot went, and somebody who had voted at that shard on another record used it where
/// it went. Consequence: the record was taken to vanish behind that, and who saw what was written there was called wrong. Mend: of a vote
/// nobody heard of, what counts is whether it was on this record.
#[test]
fn what_vanishes_does_not_come_behind_who_voted_there_on_another_record() {
    let mut ledger = Ledger::new(true, usize::MAX);
    prepare(&mut ledger, 3, &[X], &add());
    done(&mut ledger, 3, X.0, 5, Vec::new());
    prepare(&mut ledger, 1, &[(BOTH[0], "z"), (BOTH[1], X.1)], &add());
    ledger.note_vanished(BOTH[0], (&[X.1.into()], &BTreeSet::from([attempt(1)])), Time(4), None);
    vote(&mut ledger, 1);
    BOTH.into_iter().for_each(|shard| done(&mut ledger, 1, shard, 10, Vec::new()));
    read(&mut ledger, (BOTH[1], X.1), 1);
    assert_eq!(check(&ledger, &["z", X.1]), Ok(()));
}

/// A shard refuses what a run demands of a record, and its user hears so.
fn refused_for(ledger: &mut Ledger, demanded: i64, found: i64) -> Result<(), String> {
    let op = Operation::new::<Counter>(CounterOp::Get).demanding(&Reply::Int(demanded));
    let run = prepare(ledger, 2, &[X], &op);
    let error = OpError::Unexpected { method: "GET".into(), found: Box::new(Reply::Int(found)) };
    let refusal = Refusal::Operation { key: X.1.into(), error: Box::new(error) };
    ledger.note_failed(run, (X.0, 0, attempt(2)), &refusal);
    ledger.told_failed(run, true, Time(5)).expect("a shard said so");
    check(ledger, &[X.1])
}

/// O9: what was found instead of what was demanded is told, so it has to be true.
#[test]
fn what_was_found_instead_is_judged() {
    let added = || {
        let mut ledger = Ledger::new(false, usize::MAX);
        prepare(&mut ledger, 1, &[X], &add());
        let committed = Response::Committed { attempt: attempt(1), replies: Vec::new() };
        ledger.note_response(X.0, &committed, None, Time(2)).expect("it is committed");
        ledger
    };
    assert_eq!(refused_for(&mut added(), 0, 1), Ok(()));
    let wrong = refused_for(&mut added(), 0, 7).expect_err("it holds 1");
    assert!(wrong.contains("answers (integer) 7") && wrong.contains("answers (integer) 1"), "{wrong}");
    let met = refused_for(&mut added(), 1, 0).expect_err("it is as demanded");
    assert!(met.contains("can be done"), "{met}");
}
