//! The one shard of this node: what goes into it, what comes out, its time and its lives.
//!
//! The shard is entered from commands, from the bus and from timers. Each entry hands in what it has, carries out what
//! came out of it (answers, pushes, messages to peers) and sees that a timer is set for what is due next.
//!
//! A shard begins when the node serves slots as a primary. It begins anew, as another incarnation, when the node
//! becomes a primary or panicked: what it had in memory may be wrong then. When slots leave it goes on as another
//! incarnation that remembers the votes, even if none is left.

pub(crate) mod admission;
pub(crate) mod vanish;

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use claret_core::message::{Link, Output, PeerMessage, Refusal, Request, Response, Status};
use claret_core::{
    AttemptId, Incarnation, Limits, SessionId, Shard, ShardId, Survives, Switches, Time, wire,
};
use redis_module::raw;

use crate::entries::bus::{self, Sent};
use crate::entries::config;
use crate::entries::exec::{Next, OneShots};
use crate::entries::plain::{Guard, OWN};
use crate::ffi::{Ctx, Flag, Log, OnMainThread, Timer, guarded};
use crate::node::admission::{self, Name};
use crate::node::vanish;
use crate::parts::error::Error;
use crate::parts::native::Keyspace;
use crate::parts::sessions::{Delivery, Sessions};
use crate::parts::slots;

/// The host of this process.
pub(crate) static HOST: OnMainThread<Host> = OnMainThread::new();

/// How long a timer waits that found that nothing can be written, in milliseconds.
const BARRED_MS: u64 = 10;

/// How long an attempt in doubt waits at most before it asks the other shards again, in microseconds.
const INQUIRE_US_MAX: u64 = 5_000_000;

/// How old a transaction may say that it is (P22c), in microseconds.
const BIRTH_AGE_US_MAX: u64 = 60_000_000;

/// How long a phase takes in joiners once somebody waits for its end: about two round trips of a busy client.
const PHASE_US_MAX: u64 = 500;

/// See the module's text.
pub(crate) struct Host {
    began: Instant,
    pub(crate) shard: Option<Shard>,
    incarnation: Incarnation,
    pub(crate) sessions: Sessions,
    pub(crate) guard: Guard,
    pub(crate) oneshots: OneShots,
    /// Sessions whose last connection closed since the last entry.
    deserted: Vec<SessionId>,
    /// Set for the shard's next deadline.
    timer: Option<(Timer, Time)>,
    /// Set for what an event left to do.
    soon: Option<Timer>,
    /// What had not voted was refused, since the node is drained.
    is_drained: bool,
    /// Another node has the same name, and that was logged.
    is_namesake: bool,
    /// The timer of the patrol is set; otherwise the server's cron sees when there is something to look after.
    is_patrolled: bool,
    pub(crate) counts: Counts,
}

/// What the host counts, besides the shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    pub(crate) requests: u64,
    pub(crate) operations: u64,
    pub(crate) frame_bytes: u64,
    pub(crate) replies: u64,
    pub(crate) pushes: u64,
    pub(crate) pushes_unheard: u64,
    pub(crate) polls: u64,
    pub(crate) elders_told: u64,
    pub(crate) deserted: u64,
    pub(crate) peer_messages_in: u64,
    pub(crate) peer_messages_out: u64,
    pub(crate) peer_messages_unsent: u64,
    pub(crate) peer_messages_refused: u64,
    pub(crate) incarnations: u64,
    pub(crate) panics: u64,
    pub(crate) patrols: u64,
    pub(crate) resolved: u64,
}

impl Host {
    /// `own` is the number of the session under which transactions of one go run: random, so that nobody guesses it.
    pub(crate) fn new(own: SessionId) -> Self {
        Host {
            began: Instant::now(),
            shard: None,
            incarnation: Incarnation(0),
            sessions: Sessions::default(),
            guard: Guard::default(),
            oneshots: OneShots::new(own),
            deserted: Vec::new(),
            timer: None,
            soon: None,
            is_drained: false,
            is_namesake: false,
            is_patrolled: true,
            counts: Counts::default(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.began.elapsed().as_micros() as u64)
    }

    // --- lives of the shard ---

    /// Looks who owns what, and whether the shard has to begin, begin anew, or end.
    pub(crate) fn look_around(&mut self, ctx: Ctx) {
        let before = slots::renew(ctx);
        if ctx.is(Flag::Replica) || ctx.is(Flag::Loading) {
            return self.end(ctx);
        }
        // What comes to a shard that served nothing is as new to it as to one that begins.
        let lost = before.is_some_and(|before| {
            slots::view(|view| !view.keeps(&before) || view.serves_some() && !before.serves_some())
                .unwrap_or(false)
        });
        let (serves, id) =
            slots::view(|view| (view.serves_some(), view.shard())).unwrap_or((false, Ok(None)));
        match (&mut self.shard, id) {
            (None, _) if serves => self.begin(ctx),
            // The node has another id: it was reset, and is another one to everybody.
            (Some(shard), Ok(Some(id))) if shard.id() != id => {
                self.end(ctx);
                self.begin(ctx);
            }
            (Some(_), _) if lost => self.go_on(ctx),
            (Some(_), _) | (None, _) => {}
        }
    }

    /// Slots left, even all of them: what was voted stays, and whoever asks hears of it.
    fn go_on(&mut self, ctx: Ctx) {
        let (now, next) = (self.now(), next_incarnation(self.incarnation));
        let Some(shard) = &mut self.shard else { return };
        shard.restart(now, next, Survives::Votes);
        self.incarnation = next;
        self.counts.incarnations += 1;
        self.dismiss();
        ctx.log(Log::Notice, &format!("slots left or came: the shard goes on as incarnation {}", next.0));
    }

    fn begin(&mut self, ctx: Ctx) {
        let id = match slots::view(|view| view.serves_some().then(|| view.shard())).flatten() {
            Some(Ok(Some(id))) => id,
            Some(Err(other)) => {
                // Said once and not with each patrol.
                if !std::mem::replace(&mut self.is_namesake, true) {
                    let mend = "give this one another with CLUSTER RESET HARD";
                    ctx.log(
                        Log::Warning,
                        &format!("no shard begins: the id of node {other} begins alike; {mend}"),
                    );
                }
                return;
            }
            Some(Ok(None)) | None => return,
        };
        self.is_namesake = false;
        self.incarnation = next_incarnation(self.incarnation);
        self.counts.incarnations += 1;
        let shard = Shard::over(&Keyspace, id, self.incarnation, Switches::CLARET, limits());
        self.shard = Some(shard);
        self.guard.shard_begins(ctx);
        ctx.log(Log::Notice, &format!("shard {id} begins as incarnation {}", self.incarnation.0));
    }

    /// What comes before anything else in an entry: whoever waits no more is refused, and from the first look on that sees
    /// the setting nobody has a lock that it could still vote for.
    pub(crate) fn drain(&mut self, now: Time) {
        self.refuse_late(now);
        let is_draining = config::DRAIN.get() == 1;
        if let Some(shard) = self.shard.as_mut().filter(|_| is_draining && !self.is_drained) {
            shard.refuse_unvoted(now, &Refusal::ReadOnly);
        }
        self.is_drained = is_draining;
    }

    /// The shard's memory goes. Its sessions have to say hello again.
    fn end(&mut self, ctx: Ctx) {
        self.dismiss();
        if self.shard.take().is_some() {
            config::DRAIN.value.store(0, Ordering::Relaxed);
            ctx.log(Log::Notice, "the shard ends: this node serves no slots as a primary");
        }
    }

    /// Whoever speaks to another incarnation has to know, so everybody says hello again.
    fn dismiss(&mut self) {
        self.oneshots.clear();
        for poller in self.sessions.clear() {
            poller.release(0);
        }
        self.guard.clear();
    }

    /// After a panic nothing in memory can be trusted.
    pub(crate) fn begin_anew(&mut self, ctx: Ctx) {
        self.counts.panics += 1;
        self.dismiss();
        self.shard = None;
        self.begin(ctx);
    }

    /// As a replica, or as a primary that was one, the node remembers nothing that counts.
    pub(crate) fn role_changed(&mut self, ctx: Ctx) {
        self.end(ctx);
    }

    // --- inputs ---

    /// Takes a frame of a session; what can be said at once.
    pub(crate) fn frame(
        &mut self,
        ctx: Ctx,
        link: Link,
        requests: Vec<Request>,
    ) -> Result<Vec<Response>, Error> {
        let foreign = |request: &Request| match request {
            Request::Heartbeat { live, .. } => live.iter().any(|attempt| attempt.tx.session != link.session),
            Request::Execute { attempt, .. }
            | Request::Prepare { attempt, .. }
            | Request::Apply { attempt }
            | Request::Withdraw { attempt }
            | Request::Abort { attempt, .. }
            | Request::Ask { attempt } => attempt.tx.session != link.session,
        };
        if requests.iter().any(foreign) {
            return Err(Error::OtherSession);
        }
        let now = self.now();
        self.drain(now);
        self.come_with(ctx, &requests);
        let Some(shard) = &mut self.shard else { return Err(Error::NotReady) };
        self.counts.frames += 1;
        self.counts.requests += requests.len() as u64;
        vanish::tell(now, shard);
        let eldest = Time(unix_time().0.saturating_sub(BIRTH_AGE_US_MAX));
        shard.begin(now);
        for mut request in requests {
            if let Request::Execute { birth, .. } | Request::Prepare { birth, .. } = &mut request {
                birth.time = birth.time.max(eldest);
            }
            self.counts.operations += match &request {
                Request::Execute { calls, .. } => calls.len() as u64,
                Request::Prepare { calls, .. } => calls.len() as u64,
                _ => 0,
            };
            match unlisted(shard.id(), &request) {
                Some(attempt) => shard.turn_away(now, link, attempt, Refusal::Unlisted),
                None => {
                    admission::drop_reserves(&mut request);
                    shard.handle_further(now, link, request);
                }
            }
            vanish::tell(now, shard);
        }
        let mut reply = self.sessions.take(link.session);
        self.carry_out(ctx, Some((link.session, &mut reply)));
        self.counts.replies += reply.len() as u64;
        Ok(reply)
    }

    /// A session comes that was not known, and the shard is another incarnation to it than to any that came before.
    pub(crate) fn greet(&mut self, session: SessionId, user: &Name) -> Option<Incarnation> {
        let shard = self.shard.as_mut()?;
        self.incarnation = next_incarnation(self.incarnation);
        shard.greet(session, user.account(), self.incarnation);
        Some(self.incarnation)
    }

    /// Takes a message of another shard.
    pub(crate) fn peer(&mut self, ctx: Ctx, message: PeerMessage) {
        let now = self.now();
        self.drain(now);
        let Some(shard) = &mut self.shard else { return };
        self.counts.peer_messages_in += 1;
        vanish::tell(now, shard);
        shard.handle_peer(now, message);
        self.carry_out(ctx, None);
    }

    /// A client's connection closed. What follows may write, and so waits for a timer.
    pub(crate) fn closed(&mut self, ctx: Ctx, client: u64) {
        self.guard.closed(client);
        if let Some(session) = self.sessions.closed(self.now(), client) {
            self.deserted.push(session);
            self.come_back(ctx, 0);
        }
    }

    /// Does what events left to do, and what is due.
    fn due(&mut self, ctx: Ctx) {
        let now = self.now();
        self.drain(now);
        let mut deserted = std::mem::take(&mut self.deserted);
        deserted.retain(|session| !self.sessions.is_bound(*session));
        if let Some(shard) = &mut self.shard {
            vanish::tell(now, shard);
            for session in deserted {
                self.counts.deserted += 1;
                shard.deserted(now, session);
            }
        }
        if let Some(shard) = &mut self.shard {
            shard.handle_timeout(now);
        }
        self.carry_out(ctx, None);
    }

    /// Refuses transactions of one go whose clients wait no more: before anything comes into the shard that could grant
    /// what they wait for.
    pub(crate) fn refuse_late(&mut self, now: Time) {
        let late = self.oneshots.take_late();
        if let Some(shard) = self.shard.as_mut().filter(|_| !late.is_empty()) {
            shard.refuse_these(now, &late, &Refusal::LostLocks);
        }
    }

    /// Clients whose time is over are let go, or withdrawn. Whether others wait.
    pub(crate) fn expire_blocked(&mut self, now: Time) -> bool {
        for (session, poller) in self.sessions.late(now) {
            poller.release(session.0);
        }
        self.oneshots.expire(now) || self.sessions.is_polled()
    }

    // --- outputs ---

    /// Carries out what the shard wants, and sets the timer. Answers to `own` go where it says, those to others into
    /// their outboxes, and from there to whoever listens.
    pub(crate) fn carry_out(&mut self, ctx: Ctx, mut own: Option<(SessionId, &mut Vec<Response>)>) {
        if own.is_none() {
            self.guard.stir();
        }
        let now = self.now();
        self.refuse_late(now);
        if let Some(shard) = &mut self.shard {
            vanish::tell(now, shard);
        }
        while let Some(output) = self.shard.as_mut().and_then(Shard::poll_output) {
            match output {
                Output::Respond { session, response } if session == self.oneshots.session() => {
                    self.hear(ctx, response);
                }
                Output::Respond { session, response } => {
                    self.counts.elders_told += u64::from(matches!(response, Response::Elder { .. }));
                    match &mut own {
                        Some((asking, reply)) if *asking == session => reply.push(response),
                        _ if session == OWN => self.hear_own(response),
                        _ => self.sessions.put(session, response),
                    }
                }
                Output::Tell { shard, message } => match bus::tell(ctx, shard, &message) {
                    Sent::Yes => self.counts.peer_messages_out += 1,
                    Sent::No => self.counts.peer_messages_unsent += 1,
                    Sent::ToNobody => self.answer_for_the_gone(shard, &message),
                },
            }
        }
        while let Some((session, delivery)) = self.sessions.next_delivery() {
            match delivery {
                Delivery::Wake(poller) => poller.release(session.0),
                Delivery::Push(channel, responses) => {
                    self.counts.pushes += 1;
                    if ctx.publish(&channel, &wire::encode_responses(&responses)) == 0 {
                        self.counts.pushes_unheard += 1;
                        self.sessions.put_back(session, responses);
                    }
                }
            }
        }
        self.set_timer(ctx);
    }

    /// A shard whose memory is gone would say so, if there was one (P26b).
    fn answer_for_the_gone(&mut self, from: ShardId, message: &PeerMessage) {
        let now = self.now();
        if let (Some(shard), PeerMessage::Inquire { attempt, .. }) = (&mut self.shard, message) {
            shard.handle_peer(now, PeerMessage::Answer { attempt: *attempt, from, status: Status::Lost });
        }
    }

    /// A response to one of the node's own attempts: a plain command that waits.
    fn hear_own(&mut self, response: Response) {
        let now = self.now();
        if let Some(shard) = &mut self.shard {
            self.guard.hear(now, shard, response);
        }
    }

    /// An answer to a transaction of one go.
    fn hear(&mut self, ctx: Ctx, response: Response) {
        match self.oneshots.hear(response) {
            None => {}
            Some(Next::Prepare(number)) => self.prepare_one(ctx, number),
            Some(Next::Withdraw(attempt)) => {
                let (now, link) = (self.now(), self.oneshots.link());
                if let Some(shard) = &mut self.shard {
                    shard.handle(now, link, Request::Withdraw { attempt });
                }
            }
        }
        if self.oneshots.is_floor_due() {
            self.beat();
        }
    }

    /// The heartbeat of the module's own session.
    fn beat(&mut self) {
        let (now, link) = (self.now(), self.oneshots.link());
        if let Some(shard) = &mut self.shard
            && let Some(request) = self.oneshots.heartbeat()
        {
            shard.handle(now, link, request);
        }
    }

    /// A timer that is early only looks again, so it is moved when something is due earlier, and not otherwise.
    fn set_timer(&mut self, ctx: Ctx) {
        self.patrol_again(ctx, config::TOPOLOGY_MS.get());
        let Some(due) = self.shard.as_ref().and_then(Shard::poll_timeout) else { return };
        if let Some((timer, at)) = self.timer {
            if at <= due {
                return;
            }
            ctx.stop(timer);
        }
        let millis = due.since(self.now()) / 1_000 + 1;
        self.timer = Some((ctx.timer(millis, deadline_fired), due));
    }

    pub(crate) fn come_back(&mut self, ctx: Ctx, millis: u64) {
        if self.soon.is_none() {
            self.soon = Some(ctx.timer(millis, soon_fired));
        }
    }
}

/// The attempt of a prepare, if it lists somebody who is no shard of this cluster, or not this one as it was greeted: to ask
/// such a one what became of it would be in vain, and it would stay in doubt for ever; and to whoever does not say as what it
/// knows this shard, nothing could be said that was forgotten.
fn unlisted(own: ShardId, request: &Request) -> Option<AttemptId> {
    let Request::Prepare { attempt, participants, .. } = request else { return None };
    let is_own = participants.iter().any(|listed| listed.shard == own && listed.incarnation.is_some());
    let knows_all =
        || slots::view(|view| participants.iter().all(|it| it.shard == own || view.knows(it.shard)));
    (!is_own || knows_all() != Some(true)).then_some(*attempt)
}

fn next_incarnation(before: Incarnation) -> Incarnation {
    Incarnation(unix_time().0.max(before.0 + 1))
}

/// The time of day: births of transactions are compared between processes.
pub(crate) fn unix_time() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64)
}

/// The bounds of a shard that begins now.
pub(crate) fn limits() -> Limits {
    Limits {
        lease_us: config::LEASE_MS.get() * 1_000,
        inquire_us: config::INQUIRE_MS.get() * 1_000,
        inquire_us_max: INQUIRE_US_MAX,
        phase_us_max: PHASE_US_MAX,
        answers_bytes_max: config::ANSWERS_BYTES_MAX.get() as usize,
        calls_max: config::CALLS_MAX.get() as u32,
        user_bytes_max: config::USER_BYTES_MAX.get() as usize,
        shard_bytes_max: config::SHARD_BYTES_MAX.get() as usize,
        strangers_max: config::STRANGERS_MAX.get() as usize,
        ..Limits::default()
    }
}

/// Whether what is decided now could not be carried out: clients are paused, which nobody but a client may ignore, or
/// the cluster is down.
pub(crate) fn is_barred(ctx: Ctx) -> bool {
    Ctx::must_not_write() || slots::may_write(ctx).is_err()
}

/// After a panic, wherever it was.
pub(crate) fn mend(ctx: Ctx) {
    HOST.with(|host| host.begin_anew(ctx));
}

unsafe extern "C" fn deadline_fired(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded(ctx, "a timer", mend, |ctx| {
        HOST.with(|host| {
            host.timer = None;
            host.due_unless_barred(ctx);
        })
    });
}

unsafe extern "C" fn soon_fired(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded(ctx, "a timer", mend, |ctx| {
        HOST.with(|host| {
            host.soon = None;
            host.due_unless_barred(ctx);
        })
    });
}

impl Host {
    /// While nothing can be written: later, then.
    fn due_unless_barred(&mut self, ctx: Ctx) {
        if is_barred(ctx) { self.come_back(ctx, BARRED_MS) } else { self.due(ctx) }
    }
}

/// The patrol: looks around every `claret.topology-ms`, as long as there is something that changes without an entry. A
/// server alone with its clients, none of which is a session, is not woken for it.
impl Host {
    fn patrol(&mut self, ctx: Ctx) {
        self.counts.patrols += 1;
        self.look_around(ctx);
        let (now, after_us) = (self.now(), config::FORGET_MS.get() * 1_000);
        let forgotten = self.sessions.forget(now, after_us);
        if let Some(shard) = &mut self.shard {
            shard.set_bounds(limits());
            shard.forget_strangers(now, after_us);
            forgotten.into_iter().for_each(|session| shard.forget(now, session));
        }
        if !is_barred(ctx) {
            self.drain(self.now());
            self.beat();
            self.carry_out(ctx, None);
        }
    }

    /// Whether nothing has to be looked after: no slots, no client process, no transaction, and the shard is there where
    /// one should be.
    fn is_quiet(&self, ctx: Ctx) -> bool {
        let is_primary = !ctx.is(Flag::Replica) && !ctx.is(Flag::Loading);
        !ctx.is(Flag::Cluster)
            && self.shard.is_some() == is_primary
            && self.is_drained == (config::DRAIN.get() == 1)
            && self.sessions.len() == 0
            && self.oneshots.len() == 0
            && self.guard.len() == 0
            && self.shard.as_ref().is_none_or(|shard| shard.open_attempts() == 0)
    }

    fn patrol_again(&mut self, ctx: Ctx, millis: u64) {
        if !std::mem::replace(&mut self.is_patrolled, true) {
            ctx.timer(millis, patrol);
        }
    }

    /// The server's own round, for which it wakes anyway.
    pub(crate) fn server_looked_around(&mut self, ctx: Ctx) {
        if !self.is_patrolled && !self.is_quiet(ctx) {
            self.patrol_again(ctx, 0);
        }
    }
}

pub(crate) unsafe extern "C" fn patrol(ctx: *mut raw::RedisModuleCtx, _: *mut c_void) {
    // SAFETY: the server's context, for the time of this call.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded(ctx, "the patrol", mend, |ctx| HOST.with(|host| host.patrol(ctx)));
    guarded(ctx, "the patrol", mend, |ctx| {
        HOST.with(|host| {
            host.is_patrolled = false;
            if !host.is_quiet(ctx) {
                host.patrol_again(ctx, config::TOPOLOGY_MS.get());
            }
        });
    });
}
