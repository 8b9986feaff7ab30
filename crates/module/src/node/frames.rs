//! What comes to the shard, which is frames of client processes, messages of other shards, and time; and what it says then.

use claret_core::message::{Call, Link, Output, PeerMessage, Refusal, Request, Response, Status};
use claret_core::{AttemptId, SessionId, Shard, ShardId, Time, wire};
use claret_planted::{Bug, is_planted};
use claret_types::Operation;

use super::keyspace::Keyspace;
use super::peers::Sent;
use super::rights::Calling;
use super::{BARRED_MS, Caller, Node, settings, unix_time};
use crate::ffi::Ctx;
use crate::parts::error::Error;
use crate::parts::letters::{Letter, Says};
use crate::parts::one_shots::Next;
use crate::parts::queue::OWN;
use crate::parts::sessions::{Delivery, OutboxBounds, SessionBounds};

/// How old a transaction may say that it is (P51), in microseconds.
const BIRTH_AGE_US_MAX: u64 = 60_000_000;

/// For so many answers room is made before they are there.
const ANSWERS_MAX: usize = 1_024;

impl Node {
    /// Takes a frame of a client, of so many bytes; what can be said at once.
    pub(crate) fn frame(
        &mut self,
        ctx: Ctx,
        caller: Caller,
        requests: Vec<Request>,
        bytes: usize,
    ) -> Result<Vec<Response>, Error> {
        let link = self.sessions.link(ctx.client(), caller.name())?;
        self.counts.frame_bytes += bytes as u64;
        let count = requests.len();
        let _calling = self.take_requests(ctx, caller, link, requests)?;
        let mut reply = self.sessions.take(link.session);
        reply.reserve(count.min(ANSWERS_MAX)); // Mostly each is answered once.
        self.carry_out(ctx, Some((link.session, &mut reply)));
        self.counts.replies += reply.len() as u64;
        Ok(reply)
    }

    /// Hands requests of a session to the shard; what it wants said then is not said yet. The caller is in as long as what is returned lives.
    pub(super) fn take_requests(
        &mut self,
        ctx: Ctx,
        caller: Caller,
        link: Link,
        requests: Vec<Request>,
    ) -> Result<Calling, Error> {
        let calling = self.keyspace.enter(caller);
        let foreign = |request: &Request| match request {
            Request::Heartbeat { live, .. } => live.iter().any(|attempt| attempt.tx.session != link.session),
            Request::Execute { attempt, .. }
            | Request::Prepare { attempt, .. }
            | Request::Apply { attempt }
            | Request::Withdraw { attempt }
            | Request::Abort { attempt, .. }
            | Request::Ask { attempt }
            | Request::AskBehind { attempt }
            | Request::ApplyAt { attempt, .. } => attempt.tx.session != link.session,
            Request::Tick { .. } | Request::Look { .. } => false,
        };
        if requests.iter().any(foreign) && !is_planted(Bug::SpeaksForOthers) {
            return Err(Error::OtherSession);
        }
        self.are_replicas_there()?;
        let now = self.catch_up(ctx);
        self.come_with(ctx, &requests);
        let keyspace = self.keyspace;
        let Some(shard) = &mut self.shard else { return Err(Error::NotReady) };
        self.counts.frames += 1;
        self.counts.requests += requests.len() as u64;
        let eldest = Time(unix_time().0.saturating_sub(BIRTH_AGE_US_MAX));
        shard.begin(now);
        let sums = keyspace.keep_sums();
        for mut request in requests {
            if let Request::Execute { birth, .. } | Request::Prepare { birth, .. } = &mut request {
                birth.time =
                    if is_planted(Bug::BirthsUnbounded) { birth.time } else { birth.time.max(eldest) };
            }
            self.counts.operations += resolve(&mut request);
            match unlisted(keyspace, shard.id(), &request) {
                Some(attempt) => shard.turn_away(now, link, attempt, Refusal::Unlisted),
                None => {
                    keyspace.drop_reserves(&mut request);
                    shard.handle_further(now, link, request);
                }
            }
            keyspace.tell(ctx, now, shard, &[]);
        }
        drop(sums);
        Ok(calling)
    }

    /// Takes a message of another shard.
    pub(crate) fn peer(&mut self, ctx: Ctx, message: PeerMessage) {
        let now = self.catch_up(ctx);
        let Some(shard) = &mut self.shard else { return };
        self.counts.peer_messages_in += 1;
        shard.handle_peer(now, message);
        self.carry_out(ctx, None);
    }

    /// Takes messages of another shard that came together.
    pub(crate) fn peers(&mut self, ctx: Ctx, messages: Vec<PeerMessage>) {
        let now = self.catch_up(ctx);
        let keyspace = self.keyspace;
        let Some(shard) = &mut self.shard else { return };
        self.counts.peer_messages_in += messages.len() as u64;
        shard.begin(now);
        for message in messages {
            shard.handle_further_peer(now, message);
            keyspace.tell(ctx, now, shard, &[]);
        }
        self.carry_out(ctx, None);
    }
}

/// What the shard wants said.
impl Node {
    /// Carries out what the shard wants, and sets the timer. Answers to `own` go where it says, those to others into
    /// their outboxes, and from there to whoever listens.
    pub(crate) fn carry_out(&mut self, ctx: Ctx, own: Option<(SessionId, &mut Vec<Response>)>) {
        if own.is_none() {
            self.plain.blocked.stir();
        }
        self.tell_shard(ctx);
        self.seek_safe_time(ctx);
        self.say(ctx, own);
        // Some have got what they waited for, and now wait for that to be settled.
        if !self.safe_time.is_sought() && (self.plain.queue.settles() || self.one_shots.settles()) {
            self.safe_time.seek_if(true);
            self.seek_safe_time(ctx);
            self.say(ctx, None);
        }
        self.tell_replicas(ctx);
        if self.plain.errands.is_any() && self.plain.errands.is_due(self.now()) {
            self.send_mail_soon(ctx);
        }
        self.set_timer(ctx);
    }

    /// Says what the shard wants said.
    pub(super) fn say(&mut self, ctx: Ctx, mut own: Option<(SessionId, &mut Vec<Response>)>) {
        while let Some(output) = self.shard.as_mut().and_then(Shard::poll_output) {
            match output {
                Output::Respond { session, response } if session == self.one_shots.session() => {
                    self.hear(ctx, response);
                }
                Output::Respond { session, response } => {
                    self.counts.elders_told += u64::from(matches!(response, Response::Elder { .. }));
                    match &mut own {
                        Some((asking, reply)) if *asking == session => reply.push(response),
                        _ if session == OWN => self.hear_own(response),
                        _ => self.sessions.put(session, response, outbox_bounds()),
                    }
                }
                Output::Tell { shard, message } => self.tell_peer(ctx, shard, &message),
            }
        }
        while let Some((session, delivery)) = self.sessions.next_delivery() {
            match delivery {
                Delivery::Wake(poller) => poller.release(session.0),
                Delivery::Letter { home, link, answered, responses } => {
                    let says = Says::Answers { answered, responses };
                    self.answer_letter(ctx, home, Letter { link, says });
                }
                Delivery::Push(channel, responses) => {
                    self.counts.pushes += 1;
                    if ctx.publish(&channel, &wire::encode_responses(&responses)) == 0 {
                        self.counts.pushes_unheard += 1;
                        let is_lost = is_planted(Bug::UnheardPushLost);
                        let unheard = if is_lost { Vec::new() } else { responses };
                        self.sessions.put_back(session, unheard);
                    }
                }
            }
        }
    }

    fn tell_peer(&mut self, ctx: Ctx, shard: ShardId, message: &PeerMessage) {
        match self.send(ctx, shard, message) {
            Sent::Yes => self.counts.peer_messages_out += 1,
            Sent::No => self.counts.peer_messages_unsent += 1,
            Sent::ToNobody => self.answer_for_the_gone(shard, message),
        }
    }

    /// A shard whose memory is gone would say so, if there was one (P56).
    fn answer_for_the_gone(&mut self, from: ShardId, message: &PeerMessage) {
        let now = self.now();
        if let (Some(shard), PeerMessage::Inquire { attempt, .. }) = (&mut self.shard, message) {
            shard.handle_peer(now, PeerMessage::Answer { attempt: *attempt, from, status: Status::Lost });
        }
    }

    /// A response to one of the node's own attempts: a plain command that waits.
    fn hear_own(&mut self, response: Response) {
        self.with_queue(|queue, now, shard| {
            if let Some(shard) = shard {
                queue.hear(now, shard, response);
            }
        });
    }

    /// An answer to a transaction of one go.
    fn hear(&mut self, ctx: Ctx, response: Response) {
        let safe_time = self.shard.as_ref().map(Shard::safe_time).unwrap_or_default();
        let next = self.one_shots.hear(response, safe_time, settings::PLAIN_WAIT_MS.get());
        self.safe_time.seek_if(self.one_shots.settles());
        self.release_one_shots();
        match next {
            None => {}
            // A clock's word is heard while nothing may be written, and may be what it waited for.
            Some(Next::Prepare(number)) if self.keyspace.is_barred(ctx) => {
                let why = self.keyspace.may_write(ctx).err().unwrap_or(Error::Paused);
                self.one_shots.end(number, Err(why));
                self.release_one_shots();
            }
            Some(Next::Prepare(number)) => self.prepare_one(ctx, number),
            Some(Next::Withdraw(attempt)) => {
                let (now, link) = (self.now(), self.one_shots.link());
                if let Some(shard) = &mut self.shard {
                    shard.handle(now, link, Request::Withdraw { attempt });
                }
            }
        }
        if self.one_shots.is_low_water_due() {
            self.beat();
        }
    }
}

/// Time, and who is gone.
impl Node {
    /// A client's connection closed. What follows may write, and so waits for a timer.
    pub(crate) fn closed(&mut self, ctx: Ctx, client: u64) {
        self.plain.open_multis.end(Some(client).filter(|_| !is_planted(Bug::ClosedMultiStays)));
        if let Some(session) =
            self.sessions.closed(self.now(), client).filter(|_| !is_planted(Bug::DeadClientHolds))
        {
            self.sessions.note_deserted(session);
            self.come_back(ctx, 0);
        }
    }

    /// Does what events left to do, and what is due.
    pub(super) fn due(&mut self, ctx: Ctx) {
        let now = self.catch_up(ctx);
        let deserted = self.sessions.take_deserted();
        if let Some(shard) = &mut self.shard {
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

    /// Sets the timer for what is due next.
    pub(super) fn set_timer(&mut self, ctx: Ctx) {
        self.check_again(ctx, settings::TOPOLOGY_MS.get());
        let due = self.shard.as_ref().and_then(Shard::poll_timeout);
        let Some(due) = due.into_iter().chain(self.plain.errands.poll_timeout()).min() else { return };
        self.timers.set_deadline(ctx, due, || self.clock.now());
    }

    pub(crate) fn come_back(&mut self, ctx: Ctx, millis: u64) {
        self.timers.set_soon(ctx, millis);
    }

    /// The timer for the shard's next deadline.
    pub(crate) fn deadline_fired(&mut self, ctx: Ctx) {
        self.timers.deadline_fired();
        self.due_unless_barred(ctx);
    }

    /// The timer for what an event left to do.
    pub(crate) fn soon_fired(&mut self, ctx: Ctx) {
        self.timers.soon_fired();
        self.write_backup(ctx);
        self.due_unless_barred(ctx);
    }

    /// While nothing can be written: later, then.
    fn due_unless_barred(&mut self, ctx: Ctx) {
        if self.keyspace.is_barred(ctx) { self.come_back(ctx, BARRED_MS) } else { self.due(ctx) }
    }

    /// Tells the shard what has changed behind its back, and of transactions of one go whose clients wait no more: before anything comes
    /// into it that could grant what they wait for.
    pub(super) fn tell_shard(&mut self, ctx: Ctx) {
        // Whoever is let in for that may write.
        let may_refuse = self.one_shots.is_any_late() && !self.keyspace.is_barred(ctx);
        let late = if may_refuse { self.one_shots.take_late() } else { Vec::new() };
        let now = self.now();
        if let Some(shard) = &mut self.shard {
            self.keyspace.tell(ctx, now, shard, &late);
        }
    }

    /// Clients whose time is over are let go, or withdrawn. Whether others wait.
    pub(crate) fn expire_blocked(&mut self, now: Time) -> bool {
        for (session, poller) in self.sessions.late(now) {
            poller.release(session.0);
        }
        let is_any_errand = self.plain.errands.expire(now);
        self.release_errands();
        self.one_shots.expire(now) || self.sessions.is_polled() || is_any_errand
    }
}

/// The attempt of a prepare, if it lists somebody who is no shard of this cluster, or not this one as it was greeted: to ask
/// such a one what became of it would be in vain, and it would stay in doubt for ever; and to whoever does not say as what it
/// knows this shard, nothing could be said that was forgotten.
fn unlisted(keyspace: &Keyspace, own: ShardId, request: &Request) -> Option<AttemptId> {
    let Request::Prepare { attempt, participants, .. } = request else { return None };
    let is_own = participants.iter().any(|listed| listed.shard == own && listed.incarnation.is_some());
    let knows_all =
        || keyspace.view(|view| participants.iter().all(|it| it.shard == own || view.knows(it.shard)));
    ((!is_own || knows_all() != Some(true)) && !is_planted(Bug::StrangersListed)).then_some(*attempt)
}

/// Makes times absolute that are relative to now (P71). Returns how many operations there are.
fn resolve(request: &mut Request) -> u64 {
    let make_absolute = |op: &mut Operation| {
        if op.is_timed() {
            op.resolve(Ctx::unix_ms);
        }
    };
    let each = |call: &mut Call| make_absolute(&mut call.op);
    match request {
        Request::Look { ops, .. } => {
            ops.iter_mut().for_each(make_absolute);
            ops.len() as u64
        }
        Request::Execute { calls, .. } => {
            calls.iter_mut().for_each(each);
            calls.len() as u64
        }
        Request::Prepare { calls, .. } => {
            calls.iter_mut().map(|keyed| &mut keyed.call).for_each(each);
            calls.len() as u64
        }
        _ => 0,
    }
}

pub(super) fn session_bounds() -> SessionBounds {
    SessionBounds {
        sessions_max: settings::SESSIONS_MAX.get(),
        user_sessions_max: settings::USER_SESSIONS_MAX.get(),
    }
}

fn outbox_bounds() -> OutboxBounds {
    OutboxBounds {
        count_max: settings::OUTBOX_MAX.get(),
        bytes_max: settings::OUTBOX_BYTES_MAX.get(),
        all_bytes_max: settings::OUTBOXES_BYTES_MAX.get(),
    }
}
