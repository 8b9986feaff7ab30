//! Transactions of one go (`CLARET.EXEC`): prepares that are the whole commit, under a session of the module's own.
//!
//! An elder that waits for what one holds is let past: it withdraws and begins again with the birth that it has, so it is
//! the eldest itself in time (P21, P22).
//!
//! Nothing here reaches the shard or a client: what is to be asked of the shard is returned, and who is let go is taken with
//! [`OneShots::poll_released`].

use std::collections::{BTreeMap, VecDeque};

use claret_core::message::{Call, KeyedCall, Link, Listed, Members, Refusal, Request, Response};
use claret_core::{AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, TxId};
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
    /// Ended since the shard was last told the floor.
    since_floor: u32,
    /// Some may be late, and the shard was not told.
    is_any_late: bool,
    pub(crate) count: u64,
}

/// More often it does not begin again.
const ATTEMPTS_MAX: u32 = 1_000;

/// After so many the shard is told that it may forget them.
const FLOOR_EVERY: u32 = 64;

impl OneShots {
    /// Under a session that nobody can guess.
    pub(crate) fn new(session: SessionId) -> Self {
        OneShots {
            session,
            next: 1,
            open: BTreeMap::new(),
            ended: HashMap::default(),
            released: VecDeque::new(),
            since_floor: 0,
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
        let one = OneShot { birth, attempt: 1, calls, user, client, blocked, until, late: false };
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
                no: CallNo(at as u32 + 1),
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
            is_last: true,
        };
        Some((request, &one.user))
    }

    /// Hears an answer of the shard. What is to be done now: withdraw, or prepare again. Clients wait for so many
    /// milliseconds.
    pub(crate) fn hear(&mut self, response: Response, wait_ms: u64) -> Option<Next> {
        let (attempt, number) = (response.attempt(), response.attempt().tx.sequence.0);
        let one = self.open.get_mut(&number).filter(|one| one.attempt == attempt.attempt)?;
        match response {
            Response::Committed { replies, .. } => {
                let mut answers: BTreeMap<u32, Reply> =
                    replies.into_iter().map(|(no, it)| (no.0, it)).collect();
                let count = one.calls.len() as u32;
                let answers = (1..=count).map(|no| answers.remove(&no).unwrap_or(Reply::Ok)).collect();
                self.end(number, Ok(answers));
                None
            }
            Response::Refused { refusal, .. }
                if is_passing(&refusal) && !one.late && one.attempt < ATTEMPTS_MAX =>
            {
                one.attempt += 1;
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

    fn end(&mut self, number: u64, ended: Ended) {
        self.since_floor += 1;
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
            (one.blocked, one.late) = (None, true);
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
        if self.open.is_empty() && self.since_floor == 0 {
            return None;
        }
        self.since_floor = 0;
        let floor = Sequence(self.open.keys().next().copied().unwrap_or(self.next));
        let live =
            self.open.iter().map(|(number, one)| AttemptId { tx: self.tx(*number), attempt: one.attempt });
        Some(Request::Heartbeat { live: live.collect(), floor })
    }

    /// Whether the floor is far behind.
    pub(crate) fn is_floor_due(&self) -> bool {
        self.since_floor >= FLOOR_EVERY
    }

    /// The shard ends: so does everything here.
    pub(crate) fn clear(&mut self) {
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.end(number, Err(Error::NotReady));
        }
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
