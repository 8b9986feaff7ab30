//! Recycling: a coordinator that is over serves another transaction and keeps its lists' memory.

use super::{Chaining, Coordinator, Members, Reserves, State};
use crate::ids::{Birth, Incarnation, ShardId, Timestamp};

/// Room for so many calls, and as many messages, is kept.
const ROOM_MAX: usize = 64;

impl Coordinator {
    /// Forgets its transaction, which is over, as if it was new: until [`Self::renew`] it is nobody's. Returns whether
    /// it did: one that is not over stays as it is.
    #[must_use]
    pub fn vacate(&mut self) -> bool {
        if !self.is_over() {
            return false;
        }
        let Coordinator {
            birth: _,
            number,
            switches: _,
            limits: _,
            state,
            participants,
            met,
            outstanding,
            buffered,
            touched,
            reserves,
            listed,
            members,
            next_call,
            inside,
            only_checked,
            chaining,
            in_turn,
            suggested,
            placed_at,
            told_at,
            horizon,
            failure,
            lost_answers,
            first,
            elder,
            blocked_since,
            resend_at,
            backoff_at,
            tries,
            jitter: _,
            replies,
            closing,
            sends,
            events,
        } = self;
        (*number, *state, *next_call, *tries) = (1, State::Idle { again: false }, 0, 0);
        (*elder, *blocked_since, *resend_at, *backoff_at) = (None, None, None, None);
        (*suggested, *placed_at, *told_at) = (None, None, None);
        (*horizon, *failure, *lost_answers) = (Timestamp::default(), None, false);
        (*listed, *members, *in_turn, *first) = (None, Members::All, false, None);
        (*inside, *chaining) = (None, Chaining::default());
        only_checked.clear();
        participants.clear();
        met.clear();
        outstanding.clear();
        outstanding.shrink_to_fit();
        *reserves = Reserves::default();
        closing.clear();
        empty(buffered);
        empty(touched);
        empty(replies);
        events.clear();
        events.shrink_to(ROOM_MAX);
        sends.clear();
        sends.shrink_to(ROOM_MAX);
        true
    }

    /// After [`Self::vacate`]: another transaction begins its first attempt, as by [`Self::new`], and the host knows
    /// these incarnations ([`Self::meet`]).
    pub fn renew(&mut self, birth: Birth, seed: u64, met: &[(ShardId, Incarnation)]) {
        self.birth = birth;
        self.state = State::Running;
        self.jitter = seed | 1;
        self.met.extend_from_slice(met);
    }
}

fn empty<T>(list: &mut Vec<T>) {
    list.clear();
    list.shrink_to(ROOM_MAX);
}

#[cfg(test)]
mod tests {
    use claret_types::{Bytes, Operation, Set, SetOp};

    use super::*;
    use crate::coordinator::{Event, Switches};
    use crate::ids::{Sequence, SessionId, Time, TxId};
    use crate::limits::Limits;
    use crate::message::{Refusal, Response};
    use crate::switches::{Delivery, Locks};

    const MET: [(ShardId, Incarnation); 2] = [(ShardId(0), Incarnation(7)), (ShardId(1), Incarnation(8))];

    fn birth(sequence: u64) -> Birth {
        let tx = TxId { session: SessionId(5), sequence: Sequence(sequence) };
        Birth { time: Time(sequence), tx }
    }

    fn fresh(sequence: u64) -> Coordinator {
        let phasing = true;
        let (locks, combining, delivery) = (Locks::Abstract, false, Delivery::Network);
        let switches = Switches { locks, phasing, combining, delivery, ..Switches::CLARET };
        let mut coordinator = Coordinator::new(birth(sequence), switches, Limits::default(), sequence);
        MET.iter().for_each(|(shard, incarnation)| coordinator.meet(*shard, *incarnation));
        coordinator
    }

    /// Executes on the first shard and adds on both, twice each.
    fn work(coordinator: &mut Coordinator) {
        let op = |op| Operation::new::<Set>(op);
        let attempt = coordinator.attempt();
        coordinator
            .execute(Time(1), attempt, ShardId(0), "read".into(), op(SetOp::Len), None)
            .expect("it runs");
        let grant = Response::Granted {
            attempt,
            no: crate::CallNo(0),
            reply: claret_types::Reply::Int(0),
            granted: 1,
            incarnation: Incarnation(7),
        };
        coordinator.handle_response(Time(2), ShardId(0), grant);
        for (shard, key) in [(0, "a"), (1, "b"), (0, "a"), (1, "b")] {
            let add = op(SetOp::Add([Bytes::from("x")].into_iter().collect()));
            coordinator.buffer(attempt, ShardId(shard), key.into(), add).expect("it runs");
        }
        coordinator.commit(Time(3), attempt, &[]).expect("it runs");
    }

    #[test]
    fn one_that_is_renewed_is_as_a_new_one() {
        let mut coordinator = fresh(1);
        work(&mut coordinator);
        let (attempt, shard) = (coordinator.attempt(), ShardId(1));
        coordinator.handle_response(Time(4), ShardId(0), Response::Queued { attempt, no: None });
        let elder = Response::Elder { attempt, shard: ShardId(0), birth: Time(0) };
        coordinator.handle_response(Time(4), ShardId(0), elder);
        let (refusal, since) = (Refusal::Recovered, Incarnation(0));
        coordinator.handle_response(Time(5), shard, Response::Refused { attempt, shard, refusal, since });
        coordinator.handle_response(Time(6), ShardId(0), Response::Aborted { attempt, shard: ShardId(0) });
        coordinator.restart(attempt).expect("it was told to");
        work(&mut coordinator);
        let attempt = coordinator.attempt();
        for shard in [ShardId(0), ShardId(1)] {
            coordinator.handle_response(
                Time(7),
                shard,
                Response::Voted { attempt, shard, replies: Vec::new() },
            );
        }
        let mut ended = false;
        while let Some(event) = coordinator.poll_event() {
            ended |= matches!(event, Event::Committed { .. });
        }
        assert!(ended);
        for shard in [ShardId(0), ShardId(1)] {
            coordinator.handle_response(Time(8), shard, Response::Applied { attempt, shard });
        }
        assert!(coordinator.is_over());
        assert!(coordinator.vacate());
        coordinator.renew(birth(2), 2, &MET);
        assert_eq!(format!("{coordinator:?}"), format!("{:?}", fresh(2)));
    }
}
