//! `CLARET.EXEC`: a transaction of one go, on keys of this node, for any client and for `redis-cli`.
//!
//! It goes the way of every transaction that has one participant: a prepare that is the whole commit, under a session
//! of the module's own. It waits for locks for a bounded time. An elder that waits for what it holds is let past: it
//! withdraws and begins again with the birth that it has, so it is the eldest itself in time (P21, P22).

use std::collections::BTreeMap;
use std::ffi::c_int;

use claret_core::message::{Call, KeyedCall, Link, Listed, Members, Refusal, Request, Response};
use claret_core::{AttemptId, Birth, CallNo, Incarnation, Member, Sequence, SessionId, ShardId, Time, TxId};
use claret_types::{BUILTIN, Bytes, OpError, Operation, Reply};
use hashbrown::HashMap;
use redis_module::raw;

use crate::entries::config;
use crate::entries::frame::in_first_database;
use crate::entries::locks::Owner;
use crate::ffi::{Arg, Blocked, Ctx, Flag, guarded};
use crate::node::admission::{Caller, Name};
use crate::node::{HOST, limits, mend, unix_time};
use crate::parts::error::{Error, Outcome};
use crate::parts::slots::{self, slot_of};

/// The operations with their keys.
type Calls = Vec<(Bytes, Operation)>;

/// What became of one.
type Ended = Result<Vec<Reply>, Error>;

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
        let (open, ended) = (BTreeMap::new(), HashMap::default());
        OneShots { session, next: 1, open, ended, since_floor: 0, is_any_late: false, count: 0 }
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

    fn begin(&mut self, now: Time, calls: Calls, user: &Name, client: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.count += 1;
        let birth = Birth { time: now, tx: self.tx(number) };
        let user = user.clone();
        self.open.insert(
            number,
            OneShot { birth, attempt: 1, calls, user, client, blocked: None, until: now, late: false },
        );
        number
    }

    /// Whose an attempt is.
    pub(crate) fn owner_of(&self, attempt: AttemptId) -> Option<Owner> {
        let one = self.open.get(&attempt.tx.sequence.0)?;
        Some(Owner { user: one.user.clone(), client: Some(one.client) })
    }

    fn tx(&self, number: u64) -> TxId {
        TxId { session: self.session, sequence: Sequence(number) }
    }

    /// The commit of the present attempt, and whose it is.
    fn prepare(&self, number: u64, shard: ShardId, incarnation: Incarnation) -> Option<(Request, &Name)> {
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

    /// Hears an answer of the shard. What is to be done now: withdraw, or prepare again.
    pub(crate) fn hear(&mut self, response: Response) -> Option<Next> {
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
                let late = Error::LocksNotFree(config::PLAIN_WAIT_MS.get());
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
                blocked.release(number);
            }
            // Its command still runs, or nobody listens.
            None if !one.late => {
                self.ended.insert(number, (ended, None));
            }
            None => {}
        }
    }

    fn take(&mut self, number: u64) -> Option<Ended> {
        self.ended.remove(&number).map(|(ended, _)| ended)
    }

    /// A client's time is over, or it is gone. Whether it still waited: it may have been let go already.
    fn give_up(&mut self, blocked: Blocked) -> bool {
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

impl crate::node::Host {
    /// It comes to its keys.
    fn come_with_one(&mut self, ctx: Ctx, number: u64) {
        if !self.guard.minds_who_comes() {
            return;
        }
        let tx = self.oneshots.tx(number);
        let keys = self
            .oneshots
            .open
            .get(&number)
            .map_or_else(Vec::new, |one| one.calls.iter().map(|(key, _)| key.clone()).collect());
        self.come(ctx, keys.iter().map(|key| (key, tx)));
    }

    /// Hands the present attempt of a transaction of one go to the shard.
    pub(crate) fn prepare_one(&mut self, ctx: Ctx, number: u64) {
        let now = self.now();
        self.come_with_one(ctx, number);
        let Some(shard) = &mut self.shard else { return };
        let link = self.oneshots.link();
        let Some((request, user)) = self.oneshots.prepare(number, shard.id(), shard.incarnation()) else {
            return;
        };
        let _calling = Caller::named(ctx, user).enter();
        shard.handle(now, link, request);
    }
}

/// `CLARET.EXEC words operation key [argument ...] [words operation key [argument ...] ...]`
pub(crate) fn exec(ctx: Ctx, arguments: &[Arg<'_>]) -> Outcome {
    in_first_database(ctx)?;
    let calls = parse(&arguments[1..])?;
    let caller = Caller::of(ctx);
    place(&calls)?;
    slots::may_write(ctx)?;
    let may_wait = !caller.is(Flag::Multi) && !caller.is(Flag::Lua) && !caller.is(Flag::DenyBlocking);
    let user = caller.name().clone();
    let ended = HOST.with(|host| {
        if host.shard.is_none() {
            host.look_around(ctx);
        }
        if host.shard.is_none() {
            return Some(Err(Error::NotReady));
        }
        host.refuse_late(host.now());
        let number = host.oneshots.begin(unix_time(), calls, &user, ctx.client());
        host.prepare_one(ctx, number);
        host.carry_out(ctx, None);
        if let Some(ended) = host.oneshots.take(number) {
            return Some(ended);
        }
        let now = host.now();
        let one = host.oneshots.open.get_mut(&number)?;
        if !may_wait {
            (one.late, host.oneshots.is_any_late) = (true, true);
            host.come_back(ctx, 0);
            return Some(Err(Error::KeyHeld));
        }
        let blocked = ctx.block(Some(answer));
        blocked.on_disconnect(Some(gone));
        one.blocked = Some(blocked);
        one.until = now.plus(config::PLAIN_WAIT_MS.get() * 1_000);
        host.look_after(ctx);
        None
    });
    match ended {
        Some(Some(ended)) => reply(ctx, ended),
        Some(None) => Ok(()),
        None => Err(Error::NotReady),
    }
}

fn reply(ctx: Ctx, ended: Ended) -> Outcome {
    let replies = ended?;
    ctx.reply_array(replies.len());
    replies.iter().for_each(|reply| ctx.reply(reply));
    Ok(())
}

fn parse(mut words: &[Arg<'_>]) -> Result<Calls, Error> {
    let limits = limits();
    let mut calls = Calls::new();
    while let [count, rest @ ..] = words {
        let count: Option<usize> = count.number();
        let count = count.filter(|count| (2..=rest.len()).contains(count)).ok_or(Error::ExecWords)?;
        let (one, others) = rest.split_at(count);
        words = others;
        let key = one[1].to_bytes();
        let op = operation(one, limits.value_bytes_max).map_err(Error::Operation)?;
        if key.is_empty() {
            return Err(Error::Operation(OpError::EmptyKey));
        }
        if key.len() > limits.key_bytes_max {
            let (size, limit) = (key.len(), limits.key_bytes_max);
            return Err(Error::Operation(OpError::TooLarge { what: "key", size, limit }));
        }
        calls.push((key, op));
        if calls.len() as u64 > u64::from(limits.calls_max) {
            return Err(Error::TooManyCalls(limits.calls_max));
        }
    }
    if calls.is_empty() { Err(Error::ExecEmpty) } else { Ok(calls) }
}

/// By its name; where several types have it, that of the first.
fn operation(words: &[Arg<'_>], value_bytes_max: usize) -> Result<Operation, OpError> {
    let name = words[0].text().unwrap_or_default().to_ascii_uppercase();
    let arguments: Vec<Bytes> = words[2..].iter().map(|word| word.to_bytes()).collect();
    let kind = BUILTIN.iter().find(|kind| kind.methods.iter().any(|method| method.name == name));
    let kind = kind.ok_or_else(|| OpError::UnknownMethod(words[0].to_bytes().to_string()))?;
    let op = (kind.parse)(&name, &arguments)?;
    op.check(value_bytes_max)?;
    Ok(op)
}

/// All keys are of this node; if they are of another one, that is said as the server says it.
fn place(calls: &Calls) -> Outcome {
    let foreign = |slots: &slots::Slots| {
        let mut elsewhere = calls.iter().map(|(key, _)| slot_of(key)).filter(|slot| !slots.is_mine(*slot));
        let slot = elsewhere.next()?;
        let Some(owner) = slots.owner(slot) else {
            return Some(Error::NobodyServes(slot));
        };
        let together = calls.iter().all(|(key, _)| slots.owner(slot_of(key)) == Some(owner));
        Some(match together {
            true => Error::Moved { slot, address: owner.address.clone() },
            false => Error::CrossSlot,
        })
    };
    slots::view(foreign).flatten().map_or(Ok(()), Err)
}

/// It ended while its client waited, or its time is over.
unsafe extern "C" fn answer(
    ctx: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    _: c_int,
) -> c_int {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let number = ctx.released_with();
    let ended =
        guarded(ctx, "an answer", mend, |_| HOST.with(|host| host.oneshots.take(number))).flatten().flatten();
    if let Err(error) = reply(ctx, ended.unwrap_or(Err(Error::NotReady))) {
        ctx.reply_error(&error.line());
    }
    raw::REDISMODULE_OK as c_int
}

/// Its connection closed.
unsafe extern "C" fn gone(ctx: *mut raw::RedisModuleCtx, blocked: *mut raw::RedisModuleBlockedClient) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let blocked = Blocked::from_raw(blocked);
    guarded(ctx, "a closing client", mend, |ctx| give_up(ctx, blocked));
}

/// It is refused from a timer, or before whatever comes into the shard first, since that may let others in, who write: the
/// server may have answered for it, because the cluster is down, and then it must never be carried out.
fn give_up(ctx: Ctx, blocked: Blocked) {
    let waited = HOST.with(|host| {
        host.come_back(ctx, 0);
        host.oneshots.give_up(blocked)
    });
    if waited == Some(true) {
        blocked.release(0);
    }
}
