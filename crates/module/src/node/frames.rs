//! What client processes send: hellos, frames, and polls for later responses.

use claret_core::message::{Call, PeerMessage, Refusal, Request, Response};
use claret_core::{AttemptId, Incarnation, SessionId, Shard, ShardId, Time};
use claret_identity::{Challenge, Signature};
use claret_planted::{Bug, is_planted};
use claret_types::Operation;

use super::keyspace::Keyspace;
use super::{Caller, Node, settings, unix_time};
use crate::ffi::{Blocked, Ctx, Denial};
use crate::parts::error::Error;
use crate::parts::queue::OWN;
use crate::parts::sessions::{Handshake, SessionBounds, Way};
use crate::parts::slots::Slots;

/// How old a transaction may say that it is (P51), in microseconds.
const BIRTH_AGE_US_MAX: u64 = 60_000_000;

/// For so many answers room is made before they are there.
const ANSWERS_MAX: usize = 1_024;

/// What a client says with a hello.
pub(crate) struct Hello<'a> {
    pub(crate) handshake: Handshake<'a>,
    pub(crate) way: Option<Way>,
    pub(crate) proof: Option<Signature>,
}

/// What is answered to a hello.
pub(crate) enum Welcome {
    /// Sign this.
    Prove { shard: ShardId, challenge: Challenge },
    /// The connection speaks for its session.
    In { shard: ShardId, bears: ShardId, incarnation: Incarnation, pushes: bool },
}

/// What is answered to a poll.
pub(crate) enum Polled {
    /// This waited, or nothing, and the client does not wait for more.
    There(Vec<Response>),
    /// Nothing: the client is to wait, with [`Node::poller_waits`].
    Waits,
}

impl Node {
    /// Takes a hello.
    pub(crate) fn hello(&mut self, ctx: Ctx, caller: &Caller, hello: Hello<'_>) -> Result<Welcome, Error> {
        let Hello { handshake, way, proof } = hello;
        if self.shard.is_none() {
            self.look_around(ctx);
        }
        let session = handshake.key.session();
        if [OWN, self.one_shots.session()].contains(&session) {
            return Err(Error::OwnSession);
        }
        self.shard.as_ref().ok_or(Error::NotReady)?;
        // What is signed names the node, and not the shard that it bears: whoever claims to bear another's gains nothing by it.
        let name = self.keyspace.view(Slots::own_name).flatten().ok_or(Error::NotReady)?;
        let Some(proof) = proof else {
            let challenge = Challenge(ctx.random_bytes());
            self.sessions.ask(handshake.client, challenge)?;
            return Ok(Welcome::Prove { shard: name, challenge });
        };
        self.sessions
            .prove(&handshake, name, &proof)
            .inspect_err(|_| caller.log_denial(ctx, b"claret.hello", Denial::Login))?;
        let pushes = matches!(way, Some(Way::Push(_)));
        let is_known = self.sessions.is_known(session);
        let bounds = SessionBounds {
            sessions_max: settings::SESSIONS_MAX.get(),
            user_sessions_max: settings::USER_SESSIONS_MAX.get(),
        };
        self.sessions.hello(&handshake, way, bounds)?;
        let incarnation = match is_known {
            true => self.shard.as_ref().map(|shard| shard.incarnation_to(session)),
            false => self.greet(session, handshake.user),
        };
        // From now on there are transactions at this node.
        self.plain.blocked.come();
        let bears = self.shard.as_ref().map_or(name, Shard::id);
        Ok(Welcome::In { shard: name, bears, incarnation: incarnation.ok_or(Error::NotReady)?, pushes })
    }

    /// Takes a poll of a connection, of this client. `may_wait`: it can be made to wait.
    pub(crate) fn poll(
        &mut self,
        client: u64,
        session: SessionId,
        caller: &Caller,
        may_wait: bool,
    ) -> Result<Polled, Error> {
        self.sessions.may_poll(client, session, caller.name())?;
        self.counts.polls += 1;
        let waiting = self.sessions.take(session);
        Ok(if waiting.is_empty() && may_wait { Polled::Waits } else { Polled::There(waiting) })
    }

    /// The client of a poll waits from now on, for so many milliseconds.
    pub(crate) fn poller_waits(&mut self, ctx: Ctx, session: SessionId, poller: Blocked, millis: u64) {
        let until = self.now().plus(millis * 1_000);
        if let Some(before) = self.sessions.wait(session, poller, until) {
            before.release(session.0);
        }
        self.tick_soon(ctx);
    }

    /// What there is for the client of a poll that was let go.
    pub(crate) fn polled(&mut self, session: SessionId) -> Vec<Response> {
        self.sessions.take(session)
    }

    /// The client of a poll is gone. Whether it still waited.
    pub(crate) fn poller_left(&mut self, poller: Blocked) -> bool {
        self.sessions.stop_waiting(poller)
    }

    /// Takes a frame of a client, of so many bytes; what can be said at once.
    pub(crate) fn frame(
        &mut self,
        ctx: Ctx,
        caller: Caller,
        requests: Vec<Request>,
        bytes: usize,
    ) -> Result<Vec<Response>, Error> {
        let link = self.sessions.link(ctx.client(), caller.name())?;
        let _calling = self.keyspace.enter(caller);
        self.counts.frame_bytes += bytes as u64;
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
        let now = self.now();
        self.drain(now);
        self.come_with(ctx, &requests);
        let keyspace = self.keyspace;
        let Some(shard) = &mut self.shard else { return Err(Error::NotReady) };
        self.counts.frames += 1;
        let count = requests.len();
        self.counts.requests += count as u64;
        keyspace.tell(ctx, now, shard);
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
            keyspace.tell(ctx, now, shard);
        }
        drop(sums);
        let mut reply = self.sessions.take(link.session);
        reply.reserve(count.min(ANSWERS_MAX)); // Mostly each is answered once.
        self.carry_out(ctx, Some((link.session, &mut reply)));
        self.counts.replies += reply.len() as u64;
        Ok(reply)
    }

    /// Takes a message of another shard.
    pub(crate) fn peer(&mut self, ctx: Ctx, message: PeerMessage) {
        let now = self.now();
        self.drain(now);
        let Some(shard) = &mut self.shard else { return };
        self.counts.peer_messages_in += 1;
        self.keyspace.tell(ctx, now, shard);
        shard.handle_peer(now, message);
        self.carry_out(ctx, None);
    }

    /// Takes messages of another shard that came together.
    pub(crate) fn peers(&mut self, ctx: Ctx, messages: Vec<PeerMessage>) {
        let now = self.now();
        self.drain(now);
        let keyspace = self.keyspace;
        let Some(shard) = &mut self.shard else { return };
        self.counts.peer_messages_in += messages.len() as u64;
        keyspace.tell(ctx, now, shard);
        shard.begin(now);
        for message in messages {
            shard.handle_further_peer(now, message);
            keyspace.tell(ctx, now, shard);
        }
        self.carry_out(ctx, None);
    }

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
        let now = self.now();
        self.drain(now);
        let deserted = self.sessions.take_deserted();
        if let Some(shard) = &mut self.shard {
            self.keyspace.tell(ctx, now, shard);
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
        let late = self.one_shots.take_late();
        if let Some(shard) = self.shard.as_mut().filter(|_| !late.is_empty()) {
            shard.refuse_these(now, &late, &Refusal::LostLocks);
        }
    }

    /// Clients whose time is over are let go, or withdrawn. Whether others wait.
    pub(crate) fn expire_blocked(&mut self, now: Time) -> bool {
        for (session, poller) in self.sessions.late(now) {
            poller.release(session.0);
        }
        self.one_shots.expire(now) || self.sessions.is_polled()
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
