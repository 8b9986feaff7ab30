//! One-shot transactions (`CLARET.EXEC`): prepares that are the whole commit, under a session of the module's own.
//!
//! A one-shot gives way to an elder that waits for what it holds: it withdraws and begins again with its old birth,
//! so in time it is the eldest itself (P21, P22).
//!
//! Nothing here reaches the shard or a client: requests to the shard are returned, and [`OneShots::poll_released`]
//! hands out clients to let go.

use std::collections::{BTreeMap, VecDeque};

use claret_core::message::{Asks, Call, KeyedCall, Link, Listed, Members, Refusal, Request, Response};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, Timestamp, TxId,
};
use claret_planted::{Bug, is_planted};
use claret_types::{Bytes, Operation, Reply};
use hashbrown::HashMap;

use crate::ffi::Blocked;
use crate::parts::error::Error;
use crate::parts::owner::{Name, Owner};

/// The operations with their keys.
pub(crate) type Calls = Vec<(Bytes, Operation)>;

/// What became of one.
pub(crate) type Ended = Result<Vec<Reply>, Error>;

/// One that has not ended.
struct OneShot {
    birth: Birth,
    attempt: u32,
    calls: Calls,
    /// Who asked: asked again for each attempt, because rights may change meanwhile.
    user: Name,
    /// The server's number of the connection.
    client: u64,
    blocked: Option<Blocked>,
    /// How long its client waits.
    until: Time,
    /// Its client's time is over, or its client is gone.
    late: bool,
    /// It asks for a place in an order, since the shard orders calls (P83).
    is_stamped: bool,
    /// It is over, and is told when the safe time is there (P78).
    unsettled: Option<(Timestamp, Ended)>,
}

/// All of this node.
pub(crate) struct OneShots {
    session: SessionId,
    next: u64,
    open: BTreeMap<u64, OneShot>,
    /// With the client that is going to be answered.
    ended: HashMap<u64, (Ended, Option<Blocked>), foldhash::fast::FixedState>,
    /// Clients that are let go, each with the number of its transaction.
    released: VecDeque<(Blocked, u64)>,
    /// Ended since the shard was last told the low-water mark.
    since_low_water: u32,
    /// Some may be late, and the shard was not told.
    is_any_late: bool,
    pub(crate) count: u64,
}

/// The number of the first call.
const FIRST: u32 = 1;

/// More often it does not begin again.
const ATTEMPTS_MAX: u32 = 1_000;

/// After so many the shard is told that it may forget them.
const LOW_WATER_EVERY: u32 = 64;

impl OneShots {
    /// Under a session that nobody can guess.
    pub(crate) fn new(session: SessionId) -> Self {
        OneShots {
            session,
            next: 1,
            open: BTreeMap::new(),
            ended: HashMap::default(),
            released: VecDeque::new(),
            since_low_water: 0,
            is_any_late: false,
            count: 0,
        }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Their one connection to the shard.
    pub(crate) fn link(&self) -> Link {
        Link { session: self.session, connection: 0 }
    }

    /// How many have not ended.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// One begins, of this birth; the number it goes by.
    pub(crate) fn begin(&mut self, birth: Time, calls: Calls, owner: (&Name, u64)) -> u64 {
        let number = self.next;
        self.next += 1;
        self.count += 1;
        let birth = Birth { time: birth, tx: self.tx(number) };
        let (user, client) = (owner.0.clone(), owner.1);
        let (blocked, until) = (None, Time(0));
        let (late, is_stamped, unsettled) = (false, false, None);
        let one =
            OneShot { birth, attempt: 1, calls, user, client, blocked, until, late, is_stamped, unsettled };
        self.open.insert(number, one);
        number
    }

    /// Whose an attempt is.
    pub(crate) fn owner_of(&self, attempt: AttemptId) -> Option<Owner> {
        let one = self.open.get(&attempt.tx.sequence.0)?;
        Some(Owner { user: one.user.clone(), client: Some(one.client) })
    }

    pub(crate) fn tx(&self, number: u64) -> TxId {
        TxId { session: self.session, sequence: Sequence(number) }
    }

    /// The keys of one.
    pub(crate) fn keys(&self, number: u64) -> impl Iterator<Item = &Bytes> {
        self.open.get(&number).into_iter().flat_map(|one| one.calls.iter().map(|(key, _)| key))
    }

    /// The commit of the present attempt, and whose it is.
    pub(crate) fn prepare(
        &self,
        number: u64,
        shard: ShardId,
        incarnation: Incarnation,
    ) -> Option<(Request, &Name)> {
        let one = self.open.get(&number)?;
        let call = |(at, (key, op)): (usize, &(Bytes, Operation))| KeyedCall {
            key: key.clone(),
            call: Call {
                no: CallNo(at as u32 + FIRST),
                op: op.clone(),
                member: Member::default(),
                reserve: None,
            },
        };
        let request = Request::Prepare {
            attempt: AttemptId { tx: self.tx(number), attempt: one.attempt },
            birth: one.birth,
            participants: [Listed { shard, incarnation: Some(incarnation) }].into(),
            relies_on: 0,
            calls: one.calls.iter().enumerate().map(call).collect(),
            members: Members::All,
            asks: if one.is_stamped { Asks::Place(Timestamp::default()) } else { Asks::Decision },
            undone: Default::default(),
        };
        Some((request, &one.user))
    }

    /// Hears an answer of the shard. What is to be done now: withdraw, or prepare again. Clients wait for so many
    /// milliseconds.
    pub(crate) fn hear(&mut self, response: Response, safe_time: Timestamp, wait_ms: u64) -> Option<Next> {
        let attempt = response.attempt()?;
        let number = attempt.tx.sequence.0;
        let one = self.open.get_mut(&number).filter(|one| one.attempt == attempt.attempt)?;
        match response {
            Response::Committed { replies, .. } => {
                let answers = one.answers(replies);
                self.end(number, Ok(answers));
                None
            }
            Response::Done { at, behind, replies, .. } => {
                one.unsettled = Some((behind.min(at), Ok(one.answers(replies.unwrap_or_default()))));
                self.settle(safe_time, wait_ms);
                None
            }
            Response::Refused { refusal: refusal @ Refusal::OperationBehind { .. }, .. } => {
                let behind = refusal.of_operation().map(|(_, behind)| behind).unwrap_or_default();
                one.unsettled = Some((behind, Err(Error::Refused(refusal.without_timestamp()))));
                self.settle(safe_time, wait_ms);
                None
            }
            Response::Refused { refusal, .. }
                if is_passing(&refusal)
                    && !one.late
                    && (one.attempt < ATTEMPTS_MAX || is_planted(Bug::TriedForEver)) =>
            {
                one.attempt += 1;
                one.is_stamped |= refusal == Refusal::Unstamped;
                Some(Next::Prepare(number))
            }
            Response::Refused { refusal, .. } => {
                let late = Error::LocksNotFree(wait_ms);
                let error = if one.late { late } else { Error::Refused(refusal) };
                self.end(number, Err(error));
                None
            }
            Response::Elder { .. } => Some(Next::Withdraw(attempt)),
            _ => None,
        }
    }

    /// Whether some are over, and wait for the safe time.
    pub(crate) fn settles(&self) -> bool {
        self.open.values().any(|one| one.unsettled.is_some())
    }

    /// The safe time is here. O(those that have not ended).
    pub(crate) fn settle(&mut self, safe_time: Timestamp, wait_ms: u64) {
        let is_there = |one: &OneShot| one.unsettled.as_ref().is_some_and(|(until, _)| *until <= safe_time);
        let settled = self.open.iter().filter(|(_, one)| is_there(one)).map(|(number, _)| *number);
        for number in settled.collect::<Vec<_>>() {
            let one = self.open.get_mut(&number).and_then(|one| Some((one.late, one.unsettled.take()?.1)));
            match one {
                Some((true, Err(_))) => self.end(number, Err(Error::LocksNotFree(wait_ms))),
                Some((_, ended)) => self.end(number, ended),
                None => {}
            }
        }
    }

    /// One is over.
    pub(crate) fn end(&mut self, number: u64, ended: Ended) {
        self.since_low_water += 1;
        let Some(one) = self.open.remove(&number) else { return };
        match one.blocked {
            Some(blocked) => {
                self.ended.insert(number, (ended, Some(blocked)));
                self.released.push_back((blocked, number));
            }
            // Its command still runs, or nobody listens.
            None if !one.late => {
                self.ended.insert(number, (ended, None));
            }
            None => {}
        }
    }

    /// What became of one that has ended: once.
    pub(crate) fn take(&mut self, number: u64) -> Option<Ended> {
        self.ended.remove(&number).map(|(ended, _)| ended)
    }

    /// The next client that is let go, with the number of its transaction: once each.
    pub(crate) fn poll_released(&mut self) -> Option<(Blocked, u64)> {
        self.released.pop_front()
    }

    /// The client of one that has not ended waits from now on.
    pub(crate) fn wait(&mut self, number: u64, client: Blocked, until: Time) {
        if let Some(one) = self.open.get_mut(&number) {
            (one.blocked, one.until) = (Some(client), until);
        }
    }

    /// The client of one that has not ended does not wait.
    pub(crate) fn leave(&mut self, number: u64) {
        if let Some(one) = self.open.get_mut(&number) {
            (one.late, self.is_any_late) = (true, true);
        }
    }

    /// A client's time is over, or it is gone. Whether it still waited: it may have been let go already.
    pub(crate) fn give_up(&mut self, blocked: Blocked) -> bool {
        self.ended.retain(|_, (_, client)| *client != Some(blocked));
        self.is_any_late = true;
        let mut waits = self.open.values_mut().filter(|one| one.blocked == Some(blocked));
        waits.next().is_some_and(|one| {
            (one.blocked, one.late) = (None, !is_planted(Bug::DepartedExecGoesOn));
            true
        })
    }

    /// Notes whose time is over; whether any other one waits. They are withdrawn then, and answered when that is done.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let mut is_any = false;
        for one in self.open.values_mut().filter(|one| one.blocked.is_some()) {
            one.late |= one.until <= now;
            self.is_any_late |= one.late;
            is_any |= !one.late;
        }
        is_any
    }

    /// Whether some may be late, and the shard was not told.
    pub(crate) fn is_any_late(&self) -> bool {
        self.is_any_late
    }

    /// Those whose client waits no more, and which the shard was not told of.
    pub(crate) fn take_late(&mut self) -> Vec<AttemptId> {
        if !std::mem::take(&mut self.is_any_late) {
            return Vec::new();
        }
        let late = self.open.iter().filter(|(_, one)| one.late);
        late.map(|(number, one)| AttemptId { tx: self.tx(*number), attempt: one.attempt }).collect()
    }

    /// That those which are open live, and the others may be forgotten.
    pub(crate) fn heartbeat(&mut self) -> Option<Request> {
        if self.open.is_empty() && self.since_low_water == 0 {
            return None;
        }
        self.since_low_water = 0;
        let eldest = self.open.keys().next().copied().unwrap_or(self.next);
        let low_water = Sequence(if is_planted(Bug::LowWaterAboveOpen) { self.next } else { eldest });
        let live =
            self.open.iter().map(|(number, one)| AttemptId { tx: self.tx(*number), attempt: one.attempt });
        Some(Request::Heartbeat { live: live.collect(), low_water })
    }

    /// Whether the low-water mark is far behind.
    pub(crate) fn is_low_water_due(&self) -> bool {
        self.since_low_water >= LOW_WATER_EVERY
    }

    /// The shard ends: so does everything here.
    pub(crate) fn clear(&mut self) {
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.end(number, Err(Error::NotReady));
        }
    }
}

/// The answers of so many calls, in the order of these, which are numbered from `first`.
pub(crate) fn in_their_order(
    first: u32,
    calls: usize,
    replies: impl IntoIterator<Item = (CallNo, Reply)>,
) -> Vec<Reply> {
    if is_planted(Bug::AnswersAsTheyCame) {
        return replies.into_iter().map(|(_, reply)| reply).collect();
    }
    let mut answers: BTreeMap<u32, Reply> = replies.into_iter().map(|(no, it)| (no.0, it)).collect();
    (first..).take(calls).map(|no| answers.remove(&no).unwrap_or(Reply::Ok)).collect()
}

impl OneShot {
    fn answers(&self, replies: Vec<(CallNo, Reply)>) -> Vec<Reply> {
        in_their_order(FIRST, self.calls.len(), replies)
    }
}

/// What an answer asks for.
pub(crate) enum Next {
    Prepare(u64),
    Withdraw(AttemptId),
}

/// Whether the next attempt may find it otherwise at once.
fn is_passing(refusal: &Refusal) -> bool {
    refusal.is_retryable() && !matches!(refusal, Refusal::Elsewhere { .. } | Refusal::ReadOnly)
}

#[cfg(test)]
mod tests {
    use claret_core::message::{Refusal, Request, Response};
    use claret_core::{AttemptId, CallNo, Incarnation, Sequence, SessionId, ShardId, Time, Timestamp};
    use claret_types::{Bytes, Counter, CounterOp, OpError, Operation, Reply};

    use super::{ATTEMPTS_MAX, Asks, LOW_WATER_EVERY, Next, OneShots};
    use crate::parts::error::Error;
    use crate::parts::owner::Name;
    use crate::parts::testing::client;

    const WAIT_MS: u64 = 5_000;

    fn begun(shots: &mut OneShots) -> u64 {
        let incr = |key| (Bytes::from(key), Operation::new::<Counter>(CounterOp::AddReturning(1)));
        shots.begin(Time(7), vec![incr("a"), incr("b")], (&Name::new(b"ada"), 33))
    }

    fn new() -> OneShots {
        OneShots::new(SessionId(9))
    }

    fn attempt(shots: &OneShots, number: u64, attempt: u32) -> AttemptId {
        AttemptId { tx: shots.tx(number), attempt }
    }

    fn refused(attempt: AttemptId, refusal: Refusal) -> Response {
        Response::Refused { attempt, shard: ShardId(0), refusal, since: Incarnation(1) }
    }

    fn committed(attempt: AttemptId) -> Response {
        let replies = vec![(CallNo(2), Reply::Int(5)), (CallNo(1), Reply::Int(4))];
        Response::Committed { attempt, replies }
    }

    #[test]
    fn one_is_a_prepare_that_is_the_whole_commit_and_is_answered_in_order() {
        let mut shots = new();
        let number = begun(&mut shots);
        let (request, user) = shots.prepare(number, ShardId(3), Incarnation(1)).expect("it is open");
        let Request::Prepare { attempt, calls, asks: Asks::Decision, birth, .. } = request else {
            panic!("{request:?}")
        };
        assert_eq!((calls.len(), birth.time, user.to_string()), (2, Time(7), "ada".to_owned()));
        assert_eq!(shots.owner_of(attempt).and_then(|owner| owner.client), Some(33));
        shots.wait(number, client(1), Time(100));
        assert!(shots.hear(committed(attempt), Timestamp::MAX, WAIT_MS).is_none());
        assert_eq!((shots.poll_released(), shots.poll_released()), (Some((client(1), number)), None));
        assert_eq!(shots.take(number), Some(Ok(vec![Reply::Int(4), Reply::Int(5)])));
        assert_eq!((shots.take(number), shots.len()), (None, 0));
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_may_not_is_told() {
        let mut shots = new();
        let number = begun(&mut shots);
        let (first, second) = (attempt(&shots, number, 1), attempt(&shots, number, 2));
        let next = shots.hear(refused(first, Refusal::LostLocks), Timestamp::MAX, WAIT_MS);
        assert!(matches!(next, Some(Next::Prepare(again)) if again == number));
        assert!(
            shots.hear(committed(first), Timestamp::MAX, WAIT_MS).is_none(),
            "of an attempt that is over"
        );
        assert_eq!(shots.len(), 1);
        let elder = Response::Elder { attempt: second, shard: ShardId(0), birth: Time(1) };
        assert!(
            matches!(shots.hear(elder, Timestamp::MAX, WAIT_MS), Some(Next::Withdraw(it)) if it == second)
        );
        let error = OpError::NotANumber("score".into());
        let refusal = Refusal::Operation { key: Bytes::from("a"), error: error.into() };
        assert!(shots.hear(refused(second, refusal.clone()), Timestamp::MAX, WAIT_MS).is_none());
        assert_eq!(shots.take(number), Some(Err(Error::Refused(refusal))));
        for refusal in [Refusal::ReadOnly, Refusal::Elsewhere { key: Bytes::from("a") }] {
            let number = begun(&mut shots);
            let first = attempt(&shots, number, 1);
            assert!(
                shots.hear(refused(first, refusal.clone()), Timestamp::MAX, WAIT_MS).is_none(),
                "it would not pass soon"
            );
            assert_eq!(shots.take(number), Some(Err(Error::Refused(refusal))));
        }
    }

    #[test]
    fn it_is_not_tried_for_ever() {
        let mut shots = new();
        let number = begun(&mut shots);
        for at in 1..ATTEMPTS_MAX {
            let next =
                shots.hear(refused(attempt(&shots, number, at), Refusal::LostLocks), Timestamp::MAX, WAIT_MS);
            assert!(next.is_some(), "attempt {at}");
        }
        let last = refused(attempt(&shots, number, ATTEMPTS_MAX), Refusal::LostLocks);
        assert!(shots.hear(last, Timestamp::MAX, WAIT_MS).is_none());
        assert_eq!(shots.take(number), Some(Err(Error::Refused(Refusal::LostLocks))));
    }

    #[test]
    fn one_whose_time_is_over_is_refused_and_then_answered() {
        let mut shots = new();
        let number = begun(&mut shots);
        shots.wait(number, client(1), Time(100));
        assert!(shots.expire(Time(99)) && shots.take_late().is_empty(), "it waits still");
        assert!(!shots.expire(Time(100)));
        let late = attempt(&shots, number, 1);
        assert_eq!(shots.take_late(), [late]);
        assert_eq!(shots.poll_released(), None, "not before the shard has refused it");
        assert!(
            shots.hear(refused(late, Refusal::LostLocks), Timestamp::MAX, WAIT_MS).is_none(),
            "nobody tries again"
        );
        assert_eq!(shots.poll_released(), Some((client(1), number)));
        assert_eq!(shots.take(number), Some(Err(Error::LocksNotFree(WAIT_MS))));
    }

    #[test]
    fn a_client_that_goes_is_let_go_once_and_its_answer_is_forgotten() {
        let mut shots = new();
        let numbers = [begun(&mut shots), begun(&mut shots)];
        numbers.iter().zip(1..).for_each(|(number, at)| shots.wait(*number, client(at), Time(100)));
        assert!(!shots.give_up(client(9)) && shots.give_up(client(1)) && !shots.give_up(client(1)));
        let gone = attempt(&shots, numbers[0], 1);
        assert!(shots.take_late().contains(&gone));
        assert!(shots.hear(committed(gone), Timestamp::MAX, WAIT_MS).is_none());
        assert_eq!((shots.take(numbers[0]), shots.poll_released()), (None, None), "nobody listens");
        let other = attempt(&shots, numbers[1], 1);
        assert!(shots.hear(committed(other), Timestamp::MAX, WAIT_MS).is_none());
        assert_eq!(shots.poll_released(), Some((client(2), numbers[1])));
        assert!(!shots.give_up(client(2)), "it was let go");
        assert_eq!(shots.take(numbers[1]), None, "and is gone before its answer ran");
    }

    #[test]
    fn one_that_cannot_wait_is_late_at_once() {
        let mut shots = new();
        let number = begun(&mut shots);
        shots.leave(number);
        assert_eq!(shots.take_late(), [attempt(&shots, number, 1)]);
        assert!(shots.take_late().is_empty(), "the shard is told once");
    }

    #[test]
    fn the_low_water_mark_is_the_oldest_that_is_open_and_is_told_in_time() {
        let mut shots = new();
        assert!(shots.heartbeat().is_none(), "there is nothing to say");
        let first = begun(&mut shots);
        for _ in 0..LOW_WATER_EVERY {
            assert!(!shots.is_low_water_due());
            let number = begun(&mut shots);
            assert!(shots.hear(committed(attempt(&shots, number, 1)), Timestamp::MAX, WAIT_MS).is_none());
        }
        assert!(shots.is_low_water_due());
        let open = attempt(&shots, first, 1);
        let Some(Request::Heartbeat { live, low_water }) = shots.heartbeat() else { panic!("one is open") };
        assert_eq!((live, low_water), (vec![open], Sequence(first)));
        shots.clear();
        assert_eq!(shots.take(first), Some(Err(Error::NotReady)));
        let Some(Request::Heartbeat { live, low_water }) = shots.heartbeat() else { panic!("one has ended") };
        assert_eq!((live.len(), low_water), (0, Sequence(first + u64::from(LOW_WATER_EVERY) + 1)));
        assert!(shots.heartbeat().is_none());
    }
}
