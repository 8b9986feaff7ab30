//! How often a shard allocates for a call, counted: so that it does not become more.

use claret_core::message::{Asks, Call, KeyedCall, Link, Listed, Members, Participants, Request};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId, Switches,
    Time, TxId,
};
use claret_types::{
    Bytes, Counter, CounterOp, Dict, DictOp, Operation, Register, RegisterOp, Set, SetOp, few,
};

const NOW: Time = Time(1);
const SHARD: ShardId = ShardId(1);
const LINK: Link = Link { session: SessionId(7), connection: 1 };

fn attempt(sequence: u64) -> AttemptId {
    AttemptId { tx: TxId { session: LINK.session, sequence: Sequence(sequence) }, attempt: 1 }
}

fn execute(sequence: u64, op: &Operation) -> Request {
    let call = Call { no: CallNo(0), op: op.clone(), member: Member(0), reserve: None };
    Request::Execute {
        attempt: attempt(sequence),
        birth: Birth { time: NOW, tx: attempt(sequence).tx },
        incarnation: None,
        key: Bytes::from("k"),
        calls: [call].into_iter().collect(),
        undone: Default::default(),
    }
}

fn commit(sequence: u64) -> Request {
    let participants: Participants = [Listed { shard: SHARD, incarnation: None }].into_iter().collect();
    Request::Prepare {
        attempt: attempt(sequence),
        birth: Birth { time: NOW, tx: attempt(sequence).tx },
        participants,
        relies_on: 1,
        calls: Vec::<KeyedCall>::new(),
        members: Members::All,
        asks: Asks::Decision,
        undone: Default::default(),
    }
}

/// Says a request, and drops what is answered.
fn say(shard: &mut Shard, request: Request) {
    shard.handle(NOW, LINK, request);
    while shard.poll_output().is_some() {}
}

/// What somebody else holds and this one shares: reads, and writes that commute. Kept of a call are a participant, its number, and
/// its answer with room for more; a write has the element in its effect and in what it claims, too.
#[test]
fn a_call_that_is_granted_at_once_allocates_this_often() {
    let element = || Bytes::from("e");
    let ops = [
        ("SISMEMBER", 4, Operation::new::<Set>(SetOp::Contains(element()))),
        ("SADD.RETURNING", 9, Operation::new::<Set>(SetOp::AddReturning(few([element()])))),
        ("GET", 4, Operation::new::<Register>(RegisterOp::Get)),
        ("HGET", 4, Operation::new::<Dict>(DictOp::Get(element()))),
        ("INCRBY", 4, Operation::new::<Counter>(CounterOp::Add(1))),
    ];
    for (what, bound, op) in ops {
        let mut shard = Shard::new(SHARD, Incarnation(1), Switches::CLARET, Limits::default());
        say(&mut shard, execute(1, &op));
        let mut most = 0;
        // The first ones make room that is kept.
        for sequence in 2..2_000 {
            let request = execute(sequence, &op);
            let counted = allocation_counter::measure(|| say(&mut shard, request));
            if sequence >= 1_000 {
                most = most.max(counted.count_total);
            }
            say(&mut shard, commit(sequence));
        }
        assert!(most <= bound, "{what}: {most}");
    }
}
