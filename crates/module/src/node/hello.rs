//! How client processes come, and what they poll for: hellos, and later responses for those that nothing is pushed to.

use claret_core::message::Response;
use claret_core::{Incarnation, SessionId, Shard, ShardId};
use claret_identity::{Challenge, Signature};

use super::frames::session_bounds;
use super::{Caller, Node};
use crate::ffi::{Blocked, Ctx, Denial};
use crate::parts::error::Error;
use crate::parts::queue::OWN;
use crate::parts::sessions::{Handshake, Way};
use crate::parts::slots::Slots;

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
        self.sessions.hello(&handshake, way, session_bounds())?;
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
}
