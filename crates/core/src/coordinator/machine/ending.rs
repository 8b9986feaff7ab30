//! How attempts and transactions end, and what comes after: the next attempt, or another transaction in the same memory.

use claret_types::{Bytes, Operation};
use smallvec::SmallVec;

use super::{Coordinator, Goal, State};
use crate::coordinator::closing::Closing;
use crate::coordinator::participants::Participant;
use crate::coordinator::ways::ordered::Stamp;
use crate::coordinator::{Cause, Closed, Event};
use crate::ids::{AttemptId, Birth, Incarnation, ShardId, Time};
use crate::message::Refusal;
use crate::planted::{Bug, is_planted};

/// Ends of attempts.
impl Coordinator {
    /// Aborts the attempt at everybody who may hold something of it.
    pub(super) fn close_attempt(&mut self, now: Time, refused_by: Option<ShardId>) {
        self.close(now, refused_by, false);
    }

    fn close(&mut self, now: Time, refused_by: Option<ShardId>, is_unknown: bool) {
        let attempt = self.attempt();
        // Direct delivery keeps no record of what is over: a call that followed the refused one, or was asked for
        // again beside it, began the attempt anew there. So whoever refused hears of the end as well.
        let forgets = self.switches.is_direct();
        let is_running = self.state == State::Running;
        let holds = |participant: &&Participant| match participant.is_asked() || is_running {
            true => forgets || Some(participant.shard()) != refused_by,
            false => participant.has_executed(),
        };
        let waiting: SmallVec<[ShardId; 4]> =
            self.participants.iter().filter(holds).map(Participant::shard).collect();
        if self.closing.close(Closing { attempt, refused_by, is_unknown, waiting }, &mut self.out) {
            self.expect_answers(now);
        }
        self.state = State::Idle { again: false };
        self.forget_attempt();
    }

    /// Those who voted ask each other and find out, once this attempt is not kept alive any more (P25): one of them may
    /// have applied it.
    pub(super) fn end_unknown(&mut self, now: Time) {
        self.close(now, None, true);
        self.out.tell(Event::Unknown);
    }

    /// Ends an attempt that should be run again.
    pub(super) fn end_attempt(&mut self, now: Time, goal: Goal) {
        if self.state == State::Preparing {
            return self.withdraw(now, goal);
        }
        self.close_attempt(now, None);
        let cause = if goal == Goal::Busy { Cause::Busy } else { Cause::GaveWay };
        self.tell_restart(cause);
    }

    /// The attempt is over, and its user may run the transaction again.
    pub(super) fn tell_restart(&mut self, cause: Cause) {
        self.state = State::Idle { again: true };
        self.out.tell(Event::Restart { cause });
    }

    /// The transaction cannot be done, which its user may not hear yet (P78).
    pub(super) fn fail(&mut self, refusal: Refusal) {
        let is_told = self.stamp.may_tell_failure(&refusal);
        self.state = State::Idle { again: is_told };
        if is_told {
            self.out.tell(Event::Failed { refusal: refusal.without_timestamp() });
        }
    }

    pub(super) fn forget_attempt(&mut self) {
        self.participants.clear();
        self.calls.forget_outstanding();
        self.blocked.end();
        self.retries.clear_backoff();
        if self.closing.is_empty() {
            self.retries.clear_resend();
        }
    }
}

/// The next attempt.
impl Coordinator {
    /// Begins the next attempt, after [`Event::Restart`] of this one, or [`Event::Failed`]. The birth stays (P22).
    ///
    /// # Errors
    /// [`Closed`] when the transaction's user was told neither of that attempt, or it runs again already.
    pub fn restart(&mut self, ended: AttemptId) -> Result<(), Closed> {
        if ended != self.attempt() || self.state != (State::Idle { again: true }) {
            return Err(Closed);
        }
        self.begin_next();
        Ok(())
    }

    /// Restarts a transaction whose last attempt used these operations, not those that this coordinator saw:
    /// it was a member of another attempt (trap 12).
    ///
    /// # Errors
    /// [`Closed`] when its user was not told to run it again.
    pub fn restart_after(&mut self, used: &[(Bytes, Operation)]) -> Result<(), Closed> {
        if self.state != (State::Idle { again: true }) {
            return Err(Closed);
        }
        self.calls.replace(self.switches.discipline(), used);
        self.begin_next();
        Ok(())
    }

    fn begin_next(&mut self) {
        self.number += u32::from(!is_planted(Bug::AttemptsShareNumber));
        self.state = State::Running;
        self.calls.begin_next(self.switches.discipline());
        self.round.begin_next();
        self.ways.begin_next();
        self.stamp.begin_next();
        self.blocked.begin_next();
        self.retries.begin_next();
    }

    /// The transaction goes on elsewhere, as a member of another attempt, or has not begun here: it may come back by
    /// [`Self::restart_after`]. Nothing was sent.
    pub fn park(&mut self) {
        self.state = State::Idle { again: true };
    }
}

/// Another transaction.
impl Coordinator {
    /// Forgets its transaction, which is over, as if it was new: until [`Self::renew`] it is nobody's. Returns whether
    /// it did: one that is not over stays as it is.
    #[must_use]
    pub fn vacate(&mut self) -> bool {
        if !self.is_over() {
            return false;
        }
        (self.number, self.state) = (1, State::Idle { again: false });
        self.participants.clear();
        self.participants.forget_all_met();
        self.calls.reset();
        self.round.reset();
        self.turns.reset();
        (self.ways, self.stamp) = (Default::default(), Stamp::default());
        self.blocked = Default::default();
        self.out.reset();
        true
    }

    /// After [`Self::vacate`]: another transaction begins its first attempt, as by [`Self::new`], and the host knows
    /// these incarnations ([`Self::meet`]).
    pub fn renew(&mut self, birth: Birth, seed: u64, met: &[(ShardId, Incarnation)]) {
        self.birth = birth;
        self.state = State::Running;
        self.retries = super::Retries::new(seed);
        self.participants.meet_all(met);
    }
}

#[cfg(test)]
mod tests {
    use claret_types::{Bytes, Operation, Set, SetOp};

    use super::*;
    use crate::ids::{Sequence, SessionId, Time, TxId};
    use crate::limits::Limits;
    use crate::message::{Refusal, Response};
    use crate::switches::Switches;

    const MET: [(ShardId, Incarnation); 2] = [(ShardId(0), Incarnation(7)), (ShardId(1), Incarnation(8))];

    fn birth(sequence: u64) -> Birth {
        let tx = TxId { session: SessionId(5), sequence: Sequence(sequence) };
        Birth { time: Time(sequence), tx }
    }

    fn fresh(sequence: u64) -> Coordinator {
        let mut coordinator =
            Coordinator::new(birth(sequence), Switches::CLARET, Limits::default(), sequence);
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
