//! What everybody may answer for a removed shard (P56).
//!
//! It is what the shard itself would say as an incarnation that remembers and serves nothing, so coordinators need no
//! special rule for it.

use smallvec::SmallVec;

use crate::ids::{Incarnation, ShardId};
use crate::message::{Refusal, Request, Response, Seen, Status};

impl Request {
    /// The answer of `shard`, whose last incarnation was older than `since`; none is owed to a heartbeat.
    pub fn answer_of_removed(&self, shard: ShardId, since: Incarnation) -> Option<Response> {
        let refused = |attempt, refusal| Some(Response::Refused { attempt, shard, refusal, since });
        match *self {
            Request::Execute { attempt, .. } | Request::Prepare { attempt, .. } => {
                refused(attempt, Refusal::LostLocks)
            }
            Request::Withdraw { attempt } => refused(attempt, Refusal::Withdrawn),
            Request::Apply { attempt } => Some(Response::Applied { attempt, shard }),
            Request::Abort { attempt, .. } => Some(Response::Aborted { attempt, shard }),
            Request::Ask { attempt } => Some(Response::Asked { attempt, status: Status::Refused, since }),
            Request::AskBehind { attempt } => Some(Response::Behind { attempt, records: SmallVec::new() }),
            Request::ApplyAt { attempt, at } => {
                Some(Response::Done { attempt, shard, at, behind: at, replies: None })
            }
            // It is asked elsewhere, once that is known.
            Request::Look { look, .. } => Some(Response::Looked { look, seen: Seen::Later }),
            Request::Heartbeat { .. } | Request::Tick { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use claret_types::{Counter, CounterOp, Operation};

    use crate::ids::{AttemptId, Birth, CallNo, Member, Sequence, SessionId, Time, TxId};
    use crate::message::{Asks, Call, KeyedCall, Link, Listed, Members, Output};
    use crate::{Limits, Shard, Survives, Switches};

    use super::*;

    const SHARD: ShardId = ShardId(4);
    const LINK: Link = Link { session: SessionId(7), connection: 1 };

    /// What a shard says that voted, lost everything, and is asked as if nothing had happened.
    fn of_a_shard(request: &Request) -> Vec<Response> {
        let mut shard = Shard::new(SHARD, Incarnation(1), Switches::CLARET, Limits::default());
        shard.handle(Time(1), LINK, prepare());
        shard.restart(Time(2), Incarnation(2), Survives::Nothing);
        shard.handle(Time(3), LINK, request.clone());
        let outputs = std::iter::from_fn(|| shard.poll_output());
        outputs
            .filter_map(|output| match output {
                Output::Respond { response, .. } => Some(response),
                Output::Tell { .. } => None,
            })
            .collect()
    }

    fn attempt() -> AttemptId {
        AttemptId { tx: TxId { session: LINK.session, sequence: Sequence(1) }, attempt: 1 }
    }

    fn birth() -> Birth {
        Birth { time: Time(1), tx: attempt().tx }
    }

    fn call() -> Call {
        Call {
            no: CallNo(0),
            member: Member(0),
            op: Operation::new::<Counter>(CounterOp::Add(1)),
            reserve: None,
        }
    }

    fn prepare() -> Request {
        let listed = |shard| Listed { shard, incarnation: Some(Incarnation(1)) };
        Request::Prepare {
            attempt: attempt(),
            birth: birth(),
            participants: Arc::from([listed(SHARD), listed(ShardId(5))]),
            relies_on: 0,
            calls: vec![KeyedCall { key: "k".into(), call: call() }],
            members: Members::All,
            asks: Asks::Vote,
            undone: Default::default(),
        }
    }

    #[test]
    fn it_is_what_a_shard_answers_that_remembers_nothing() {
        let attempt = attempt();
        let requests = [
            prepare(),
            Request::Execute {
                attempt,
                birth: birth(),
                incarnation: Some(Incarnation(1)),
                key: "k".into(),
                calls: smallvec::smallvec![call()],
                undone: Default::default(),
            },
            Request::Withdraw { attempt },
            Request::Abort { attempt, refused_by: None },
            Request::Ask { attempt },
            Request::AskBehind { attempt },
            Request::Apply { attempt },
        ];
        for request in requests {
            let answer = request.answer_of_removed(SHARD, Incarnation(2));
            assert_eq!(answer, of_a_shard(&request).pop(), "{request:?}");
        }
    }
}
