//! Trap 23: a participant was put off for a record that its group left behind, and waits for another one when its turn
//! comes.
//!
//! Bug: whose turn it is and who has nothing that was put off is taken to have all it waited for. Consequence: it locks the
//! records behind the one for which it waits, and votes yes; the call that waits is never executed. Mend: what is left behind
//! gives its turn up, only who waits for nothing goes on, and nobody votes who has calls left (P38).

use claret_core::message::{Asks, Call, KeyedCall, Link, Listed, Members, Output, Request, Response, Status};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId, Switches,
    Time, TxId,
};
use claret_types::{Bytes, Counter, State};

use crate::harness::{incr, incr_returning};

const NOW: Time = Time(1);
const SHARD: ShardId = ShardId(1);

fn link(session: u64) -> Link {
    Link { session: SessionId(session), connection: 1 }
}

fn birth(session: u64) -> Birth {
    Birth { time: NOW, tx: TxId { session: SessionId(session), sequence: Sequence(1) } }
}

fn attempt(session: u64) -> AttemptId {
    AttemptId { tx: birth(session).tx, attempt: 1 }
}

fn call(no: u32, member: u16) -> Call {
    let op = if member == HOLDS { incr_returning(1) } else { incr(1) };
    Call { no: CallNo(no), op, member: Member(member), reserve: None }
}

/// A member that asks for answers.
const HOLDS: u16 = 9;

fn execute(session: u64, key: &str, calls: impl IntoIterator<Item = Call>) -> Request {
    Request::Execute {
        attempt: attempt(session),
        birth: birth(session),
        incarnation: None,
        key: key.into(),
        calls: calls.into_iter().collect(),
        undone: Default::default(),
    }
}

fn counter(shard: &Shard, key: &str) -> Option<String> {
    let text = shard.state(key.as_bytes()).and_then(State::downcast::<Counter>)?;
    text.to_bytes().map(|bytes| bytes.to_string())
}

#[test]
fn trap_23_who_was_put_off_for_what_is_left_behind_does_not_vote_while_it_waits() {
    for others in [false, true] {
        let limits = Limits { at_once_max: 1, ..Limits::default() };
        let mut shard = Shard::new(SHARD, Incarnation(1), Switches::CLARET, limits);
        shard.handle(NOW, link(2), execute(2, "r1", [call(0, HOLDS)]));
        // Its second call is put off.
        shard.handle(NOW, link(1), execute(1, "k", [call(0, 2), call(1, 2)]));
        // The member that made it leaves; the other one's call on r1 waits, and r2 stands behind that.
        let keyed = |key: &str, no| KeyedCall { key: Bytes::from(key), call: call(no, 1) };
        let listed = |shard| Listed { shard, incarnation: None };
        let prepare = Request::Prepare {
            attempt: attempt(1),
            birth: birth(1),
            participants: [SHARD, ShardId(2)].into_iter().take(1 + usize::from(others)).map(listed).collect(),
            relies_on: 0,
            calls: vec![keyed("r1", 2), keyed("r2", 3)],
            members: Members::Only([Member(1)].into_iter().collect()),
            asks: if others { Asks::Vote } else { Asks::Decision },
            undone: Default::default(),
        };
        shard.handle(NOW, link(1), prepare);
        for _ in 0..3 {
            shard.handle_timeout(NOW);
            shard.check_invariants();
        }
        assert_eq!(shard.written(attempt(1)), None, "it voted and never had r1");
        shard.handle(NOW, link(2), Request::Withdraw { attempt: attempt(2) });
        while shard.poll_timeout() == Some(NOW) {
            shard.handle_timeout(NOW);
            shard.check_invariants();
        }
        if others {
            assert_eq!(shard.written(attempt(1)), Some(Status::Prepared));
            shard.handle(NOW, link(1), Request::Apply { attempt: attempt(1) });
        }
        let outputs = std::iter::from_fn(|| shard.poll_output());
        let responses = outputs.filter_map(|output| match output {
            Output::Respond { response, .. } => Some(response),
            Output::Tell { .. } => None,
        });
        let ended = |it: &Response| matches!(it, Response::Committed { .. } | Response::Applied { .. });
        assert_eq!(responses.filter(ended).count(), 1);
        let one = || Some("1".to_owned());
        assert_eq!(
            (counter(&shard, "k"), counter(&shard, "r1"), counter(&shard, "r2")),
            (None, one(), one())
        );
    }
}
