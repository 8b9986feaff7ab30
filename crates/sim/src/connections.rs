//! Connections of client processes: they are made, carry frames and responses, and break.
//!
//! The client state machine hears the same as from the cluster host: that a connection serves a shard, that it is
//! gone, what it brought. In between, frames are late, cut off, refused as a whole, and answered over connections
//! that no longer exist.

use claret_core::message::{Link, Refusal, Request, Response};
use claret_core::{AttemptId, Incarnation, Pipeline, SessionId, ShardId, Time};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::network::Endpoint;
use crate::process::Connection;
use crate::slots::name_of;
use crate::tamper::{Sent, Tampering};
use crate::world::World;

/// A process whose connection broke tries again after so many microseconds at most.
const RECONNECT_US_MAX: u64 = 5_000;

/// Whoever may write does so within so many microseconds: others may add to the frame.
const WRITE_US_MAX: u64 = 40;

/// A frame whose requests are so many is ended: small enough that most takes are several.
const FRAME_REQUESTS: usize = 5;

/// What a shard says to a frame that it does not take.
const REFUSED: &str = "ERR a message of the frame cannot be read";

impl World {
    /// Carries out what happens at a connection of a process.
    pub(crate) fn step_connection(&mut self, event: SimEvent) -> Result<(), Violation> {
        match event {
            SimEvent::Answer { from, session, connection, refused, responses } => {
                self.answered(from, session, connection, refused, responses)
            }
            SimEvent::Push { from, session, connection, response } => {
                self.pushed(from, session, connection, response)
            }
            SimEvent::Write(session, shard, number) => self.write(session, shard, number),
            SimEvent::Connected(session, shard, number, incarnation) => {
                self.connected(session, (shard, number), incarnation);
                self.pump(session)
            }
            SimEvent::Broken(session, shard, number) => {
                self.broken(session, shard, number);
                self.pump(session)
            }
            SimEvent::Break(session, shard) => {
                self.break_connection(session, shard);
                Ok(())
            }
            SimEvent::Reconnect(session, shard, overlaps) => {
                self.reconnect(session, shard, overlaps);
                Ok(())
            }
            SimEvent::Learn(session) => self.learn_topology(session),
            SimEvent::Part(session, shard) => {
                let now = self.local(session);
                let Some(client) = self.client(session) else { return Ok(()) };
                client.part_with(now, &name_of(shard));
                self.pump(session)
            }
            other => unreachable!("not a process's step: {other}"),
        }
    }
}

/// Making and breaking.
impl World {
    /// A process that begins connects to all shards before it does anything, as a store does that is opened.
    pub(crate) fn connect_to_all(&mut self, session: SessionId) {
        let now = self.local(session);
        let topology = self.cluster.slots.topology();
        if let Some(client) = self.client(session) {
            client.adopt(now, topology);
        }
        for number in 0..self.config.shards {
            let shard = ShardId(number);
            if self.cluster.has_left(shard) {
                continue;
            }
            let (connection, incarnation) = (self.dial(session), self.shard(shard).incarnation());
            self.connected(session, (shard, connection), incarnation);
        }
    }

    /// A number for a connection.
    fn dial(&mut self, session: SessionId) -> u32 {
        let process = self.processes.get_mut(&session).expect("it lives");
        process.dialled += 1;
        process.dialled
    }

    /// A process connects anew to a shard. `overlaps`: it does not know yet that its last connection is broken.
    pub(crate) fn reconnect(&mut self, session: SessionId, shard: ShardId, overlaps: bool) {
        let is_closed = self.processes.get(&session).is_none_or(|process| process.is_closed);
        if is_closed || self.client(session).is_none() || self.cluster.has_left(shard) {
            return;
        }
        let before = self.processes[&session].connection_to(shard);
        if let Some(number) = before {
            let broken = SimEvent::Broken(session, shard, number);
            let after = if overlaps { self.draws.client.below(4 * RECONNECT_US_MAX) } else { 0 };
            self.schedule(self.now.plus(after), broken);
        }
        self.outcome.faults += 1;
        let connection = self.dial(session);
        let (from, to) = (Endpoint::Session(session), Endpoint::Shard(shard));
        let arrival = self.lines.network.stream(self.now, from, to, connection);
        let Some(at) = arrival else { return self.reconnect_later(session, shard) };
        self.schedule(at, SimEvent::Handshake(session, shard, connection));
    }

    pub(crate) fn reconnect_later(&mut self, session: SessionId, shard: ShardId) {
        let at = self.now.plus(1 + self.draws.client.below(RECONNECT_US_MAX));
        self.schedule(at, SimEvent::Reconnect(session, shard, false));
    }

    /// A shard answers a handshake: which incarnation it is.
    pub(crate) fn shake_hands(&mut self, session: SessionId, shard: ShardId, connection: u32) {
        if self.cluster.has_left(shard) {
            return;
        }
        let incarnation = self.shard(shard).incarnation();
        let (from, to) = (Endpoint::Shard(shard), Endpoint::Session(session));
        match self.lines.network.stream(self.now, from, to, connection) {
            Some(at) => {
                // Now and then a handshake takes longer than the next one.
                let random = &mut self.draws.client;
                let slow = if random.chance(200) { random.below(4 * RECONNECT_US_MAX) } else { 0 };
                self.schedule(at.plus(slow), SimEvent::Connected(session, shard, connection, incarnation));
            }
            None => self.reconnect_later(session, shard),
        }
    }

    /// A connection serves a shard from now on.
    pub(crate) fn connected(
        &mut self,
        session: SessionId,
        (shard, number): (ShardId, u32),
        as_: Incarnation,
    ) {
        let (now, lease_us) = (self.local(session), self.lease_told_us());
        let Some(client) = self.client(session) else { return };
        client.connected(now, number, &name_of(shard), (shard, as_), lease_us);
        let pipeline = Pipeline::with_frames_of(shard, as_, FRAME_REQUESTS - 1);
        let process = self.processes.get_mut(&session).expect("just seen");
        process.connections.insert((shard, number), Connection { pipeline, is_woken: false });
        if self.cluster.has_left(shard) {
            let at = self.now.plus(self.draws.client.below(RECONNECT_US_MAX));
            self.schedule(at, SimEvent::Broken(session, shard, number));
        }
        self.wake(session, number);
    }

    /// A process finds that a connection is broken, and connects anew if it was the last one.
    pub(crate) fn broken(&mut self, session: SessionId, shard: ShardId, number: u32) {
        let unbinds_newer = self.faults.is(Tampering::UnbindsNewer);
        let Some(process) = self.processes.get_mut(&session) else { return };
        process.connections.remove(&(shard, number));
        let newest = process.connection_to(shard);
        if let Some(client) = &mut process.client {
            let ended = if unbinds_newer { newest.unwrap_or(number) } else { number };
            client.disconnected(shard, ended);
        }
        if self.cluster.has_left(shard) {
            let at = self.now.plus(self.draws.client.below(RECONNECT_US_MAX));
            self.schedule(at, SimEvent::Part(session, shard));
        }
    }

    /// A fault: what is on its way over the last connection between two ends may be lost, and it is made anew.
    pub(crate) fn break_connection(&mut self, session: SessionId, shard: ShardId) {
        if self.draws.client.chance(500) {
            self.tear(session, shard);
        }
        let overlaps = self.draws.client.chance(250);
        self.reconnect(session, shard, overlaps);
    }

    /// Two ends lose sight of each other: what they say over their connections until then is lost, and they connect anew.
    pub(crate) fn break_between(&mut self, a: Endpoint, b: Endpoint, until: Time) {
        let (session, shard) = match (a, b) {
            (Endpoint::Session(session), Endpoint::Shard(shard))
            | (Endpoint::Shard(shard), Endpoint::Session(session)) => (session, shard),
            _ => return,
        };
        let at = until.plus(self.draws.client.below(RECONNECT_US_MAX));
        self.schedule(at, SimEvent::Reconnect(session, shard, false));
    }

    /// A shard restarts: all connect to it anew, each in its time.
    pub(crate) fn break_all_to(&mut self, shard: ShardId, until: Time) {
        let sessions: Vec<SessionId> = self.processes.keys().copied().collect();
        for session in sessions {
            self.tear(session, shard);
            let at = until.plus(self.draws.client.below(RECONNECT_US_MAX));
            self.schedule(at, SimEvent::Reconnect(session, shard, false));
        }
    }

    /// When what leaves now over a connection arrives, if it does.
    pub(crate) fn stream(&mut self, from: Endpoint, to: Endpoint, connection: u32) -> Option<Time> {
        self.lines.stream(self.now, from, to, connection)
    }

    /// What is on its way over the last connection between two ends is lost, both ways.
    pub(crate) fn tear(&mut self, session: SessionId, shard: ShardId) {
        if let Some(number) = self.processes.get(&session).and_then(|process| process.connection_to(shard)) {
            self.lines.tear(session, shard, number);
        }
    }
}

/// Writing.
impl World {
    /// A connection is to look what there is to write, soon.
    pub(crate) fn wake(&mut self, session: SessionId, number: u32) {
        let Some(process) = self.processes.get_mut(&session) else { return };
        let woken = process.connections.iter_mut().find(|((_, known), _)| *known == number);
        let Some(((shard, _), connection)) = woken else { return };
        if !std::mem::replace(&mut connection.is_woken, true) {
            let shard = *shard;
            let at = self.now.plus(self.draws.client.below(WRITE_US_MAX));
            self.schedule(at, SimEvent::Write(session, shard, number));
        }
    }

    /// A connection writes all there is.
    pub(crate) fn write(&mut self, session: SessionId, shard: ShardId, number: u32) -> Result<(), Violation> {
        let now = self.local(session);
        loop {
            let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
            let Some(connection) = process.connections.get_mut(&(shard, number)) else { return Ok(()) };
            connection.is_woken = false;
            let Some(client) = &mut process.client else { return Ok(()) };
            let mut requests = connection.pipeline.spare();
            let is_useless = client.take(shard, number, &mut requests);
            if is_useless && !requests.is_empty() {
                return Err(format!("c{}#{number} has nothing to do, and takes {requests:?}", session.0));
            }
            let counted = usize::from(!requests.is_empty());
            let mut frames: Vec<Vec<Request>> = Vec::new();
            // Types that users wrote cannot be encoded: a frame's length is the number of its requests.
            let append = |_: &Request, frame: &mut Vec<u8>| frame.push(0);
            connection.pipeline.write(requests, append, |requests, _| frames.push(requests.to_vec()));
            if !self.faults.is(Tampering::FramesUncounted) {
                client.add_frames(now, shard, number, frames.len() - counted.min(frames.len()));
            }
            if is_useless {
                self.broken(session, shard, number);
                return Ok(());
            }
            if frames.is_empty() {
                return Ok(());
            }
            for frame in frames {
                if !self.send_frame(session, shard, number, frame)? {
                    return Ok(());
                }
            }
        }
    }

    /// Returns whether the process survived it.
    fn send_frame(
        &mut self,
        session: SessionId,
        to: ShardId,
        connection: u32,
        requests: Vec<Request>,
    ) -> Result<bool, Violation> {
        let link = Link { session, connection };
        let is_whole = self.config.network.framed;
        let mut kept = Vec::new();
        for mut request in requests {
            if !self.may_send(session, to, &request) {
                return Ok(false);
            }
            let Sent { passes, forged } = self.leaves(to, link, &mut request);
            if let Some(response) = forged {
                self.push(to, session, response);
            }
            if passes && is_whole {
                kept.push(request);
            } else if passes {
                self.send_alone(to, link, &request);
            }
        }
        if let Some(at) = self.stream(Endpoint::Session(session), Endpoint::Shard(to), connection) {
            self.note_arrival(session, at);
            self.schedule(at, SimEvent::Frame { to, link, requests: kept });
        }
        Ok(true)
    }

    /// A request goes its own way: it may be lost, doubled, or overtaken.
    pub(crate) fn send_alone(&mut self, to: ShardId, link: Link, request: &Request) {
        for at in self.lines.network.arrivals(self.now, Endpoint::Session(link.session), Endpoint::Shard(to))
        {
            self.note_arrival(link.session, at);
            self.schedule(at, SimEvent::Request { to, link, request: request.clone() });
        }
    }
}

/// What comes back.
impl World {
    /// A shard takes a frame, and answers it; or it does not take it.
    pub(crate) fn handle_frame(
        &mut self,
        to: ShardId,
        link: Link,
        requests: Vec<Request>,
    ) -> Result<(), Violation> {
        if self.cluster.has_left(to) || self.lines.is_torn(link.session, to, link.connection) {
            return Ok(());
        }
        if let Some(at) = self.stale_of(to, link) {
            self.hear_as_stale((to, at), link, requests, true);
            return Ok(());
        }
        let refused = requests.iter().any(|request| self.cannot_be_read(to, request))
            || requests.len() > 1 && self.draws.frames.chance(self.config.faults.refused_frames_permille);
        let mut responses = Vec::new();
        self.outcome.refused_frames += u64::from(refused);
        self.check_begins_with_heartbeat(to, link, refused, &requests)?;
        if !refused {
            let now = self.shard_time(to);
            self.lines.note_heard(to, link);
            self.lines.answering = Some((link.session, Vec::new()));
            for request in requests {
                self.shard(to).handle(now, link, request);
            }
            let drained = self.drain_shard(to);
            responses = self.lines.answering.take().map(|(_, responses)| responses).unwrap_or_default();
            drained?;
        }
        let Link { session, connection } = link;
        if let Some(at) = self.stream(Endpoint::Shard(to), Endpoint::Session(session), connection) {
            let answer = SimEvent::Answer { from: to, session, connection, refused, responses };
            self.schedule(at, answer);
        }
        Ok(())
    }

    /// What begins or goes on over a connection comes behind a heartbeat (P40); of frames that were refused it is not sent
    /// again.
    fn check_begins_with_heartbeat(
        &mut self,
        to: ShardId,
        link: Link,
        refused: bool,
        requests: &[Request],
    ) -> Result<(), Violation> {
        let connection = (link.session, to, link.connection);
        for request in requests {
            match request {
                Request::Heartbeat { .. } => drop(self.lines.begun.insert(connection)),
                Request::Execute { .. } | Request::Prepare { .. }
                    if !self.lines.begun.contains(&connection) =>
                {
                    return Err(format!(
                        "c{}#{}: begins without a heartbeat",
                        link.session.0, link.connection
                    ));
                }
                _ => {}
            }
        }
        if refused {
            self.lines.begun.insert(connection);
        }
        Ok(())
    }

    /// A shard that hears all that a process says, in order, never takes for over what lives there.
    pub(crate) fn check_not_stale(&self, session: SessionId, response: &Response) -> Result<(), Violation> {
        let Response::Refused { attempt, shard, refusal: Refusal::Stale, .. } = response else {
            return Ok(());
        };
        let client = self.processes.get(&session).and_then(|process| process.client.as_ref());
        let lives = client.is_some_and(|client| is_latest(&client.live(), *attempt));
        match lives && self.config.network.framed {
            true => Err(format!("{attempt}: {shard} takes it for over, and it lives")),
            false => Ok(()),
        }
    }

    /// Whether the shard cannot read a request, and never will: a few transactions ask for what it does not know.
    fn cannot_be_read(&mut self, to: ShardId, request: &Request) -> bool {
        let attempt = match request {
            Request::Execute { attempt, .. } | Request::Prepare { attempt, .. } => *attempt,
            _ => return false,
        };
        let number = attempt.tx.session.0 ^ attempt.tx.sequence.0.rotate_left(32) ^ u64::from(to.0) << 16;
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let is_strange = mixed % 1_000 < self.config.programs.unreadable_permille;
        if is_strange {
            self.ledger.note_unreadable(attempt, to);
        }
        is_strange
    }

    /// A process is answered.
    pub(crate) fn answered(
        &mut self,
        from: ShardId,
        session: SessionId,
        number: u32,
        refused: bool,
        responses: Vec<Response>,
    ) -> Result<(), Violation> {
        if self.lines.is_torn(session, from, number) {
            return Ok(());
        }
        let now = self.local(session);
        let (mut responses, in_other_names) = self.hear_as(session, from, responses);
        let heard_over = self.heard_over(session, from, number);
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        let Some(client) = &mut process.client else { return Ok(()) };
        let connection = process.connections.get_mut(&(from, number));
        let has_connection = connection.is_some();
        if let Some(Connection { pipeline, .. }) = connection {
            let ended = match refused {
                true => pipeline.refused(REFUSED).map(|response| responses.extend(response)),
                false => pipeline.taken(),
            };
            ended.map_err(|unexpected| format!("c{}#{number}: {unexpected}", session.0))?;
        }
        client.deliver(now, (from, heard_over), 1, responses.into_iter());
        for (from, number, response) in in_other_names {
            client.deliver(now, (from, number), 0, std::iter::once(response));
        }
        client.handle_timeout(now);
        if let Some(Connection { pipeline, .. }) = process.connections.get(&(from, number)) {
            let (counted, owed) = (client.in_flight(from, number), pipeline.unanswered());
            if let Some(counted) = counted.filter(|counted| *counted != owed) {
                return Err(format!("c{}#{number} counts {counted} frames, and {owed} are owed", session.0));
            }
        }
        self.pump(session)?;
        if has_connection { self.write(session, from, number) } else { Ok(()) }
    }

    /// A shard says something besides: it reaches the process over the connection that the shard knows.
    pub(crate) fn push(&mut self, from: ShardId, session: SessionId, response: Response) {
        let connection = self.lines.last_heard(from, session);
        self.push_over(from, session, connection, response);
    }

    /// The same over a connection of which it is known.
    pub(crate) fn push_over(
        &mut self,
        from: ShardId,
        session: SessionId,
        connection: u32,
        response: Response,
    ) {
        self.outcome.messages += 1;
        let way = (Endpoint::Shard(from), Endpoint::Session(session));
        let arrivals = match self.config.network.framed {
            true => self.stream(way.0, way.1, connection).into_iter().collect(),
            false => self.lines.network.arrivals(self.now, way.0, way.1),
        };
        for at in arrivals {
            let response = response.clone();
            self.schedule(at, SimEvent::Push { from, session, connection, response });
        }
    }

    /// Responses that a process takes for this shard's, and those that it takes for another's, with the connection to that.
    fn hear_as(
        &mut self,
        session: SessionId,
        from: ShardId,
        responses: Vec<Response>,
    ) -> (Vec<Response>, Vec<(ShardId, u32, Response)>) {
        let (mut own, mut others) = (Vec::with_capacity(responses.len()), Vec::new());
        for mut response in responses {
            match self.faults.tamper.hear(from, &mut response) {
                None => {}
                Some(shard) if shard == from => own.push(response),
                Some(shard) => {
                    let process = self.processes.get(&session);
                    let connection = process.and_then(|process| process.connection_to(shard));
                    others.extend(connection.map(|connection| (shard, connection, response)));
                }
            }
        }
        (own, others)
    }

    /// Over which connection a process believes that it hears what came over this one.
    fn heard_over(&self, session: SessionId, from: ShardId, connection: u32) -> u32 {
        let process = self.processes.get(&session).filter(|_| self.faults.is(Tampering::OldConnectionHeard));
        process.and_then(|process| process.connection_to(from)).unwrap_or(connection)
    }

    pub(crate) fn pushed(
        &mut self,
        from: ShardId,
        session: SessionId,
        connection: u32,
        response: Response,
    ) -> Result<(), Violation> {
        if self.config.network.framed && self.lines.is_torn(session, from, connection) {
            return Ok(());
        }
        let now = self.local(session);
        let (responses, in_other_names) = self.hear_as(session, from, vec![response]);
        let heard_over = self.heard_over(session, from, connection);
        let Some(client) = self.client(session) else { return Ok(()) };
        client.deliver(now, (from, heard_over), 0, responses.into_iter());
        for (from, number, response) in in_other_names {
            client.deliver(now, (from, number), 0, std::iter::once(response));
        }
        client.handle_timeout(now);
        self.pump(session)
    }

    /// The lease that shards tell, in microseconds: short enough for clocks as they are.
    fn lease_told_us(&self) -> u64 {
        let skew = if self.config.faults.clocks { crate::clock::RATE_MAX.pow(2) } else { 1 };
        self.config.limits.lease_us / skew
    }
}

/// Whether an attempt is listed, and no later one of its transaction.
fn is_latest(live: &[AttemptId], attempt: AttemptId) -> bool {
    let of_it = live.iter().filter(|listed| listed.tx == attempt.tx);
    of_it.max_by_key(|listed| listed.attempt) == Some(&attempt)
}
