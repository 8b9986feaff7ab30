//! Shards in the simulated world: what each says is noted, checked and sent; they hear of each other, and restart.

use claret_core::message::{Link, Output, PeerMessage, Request, Response, Status};
use claret_core::{SessionId, ShardId, Survives, Time};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::host::Host;
use crate::network::Endpoint;
use crate::tamper::Tampering;
use crate::ways;
use crate::world::World;

impl World {
    /// A shard's process ends and begins again; all connect to it anew, each in its time.
    pub(crate) fn restart_shard(&mut self, id: ShardId, until: Time) -> Result<(), Violation> {
        let (now, survives) = (self.shard_time(id), self.config.survives());
        self.note_carried_out(id, survives);
        self.host(id).restart(now, survives);
        self.outcome.faults += 1;
        self.outcome.shard_restarts += 1;
        let clock = self.host(id).shard.clock();
        self.ledger.note_restart(id, survives, clock);
        self.faults.pause(Endpoint::Shard(id), until);
        if !self.config.direct {
            self.break_all_to(id, until);
        }
        self.drain_shard(id)
    }

    /// A shard is about to restart, or to leave.
    pub(crate) fn note_carried_out(&mut self, id: ShardId, survives: Survives) {
        let shard = self.cluster.shard(id);
        self.ledger.note_carried_out(id, survives, |attempt, key| shard.has_carried_out(attempt, key));
    }

    /// Sends what a shard has to say, and checks it.
    pub(crate) fn drain_shard(&mut self, id: ShardId) -> Result<(), Violation> {
        self.ledger.note_clocks(std::iter::once(self.passed()));
        self.ask_back(id);
        while let Some(output) = self.host(id).shard.poll_output() {
            match output {
                Output::Respond { session, response } => self.send_response(id, session, response)?,
                Output::Tell { shard: to, message } => {
                    self.note_told(id, &message)?;
                    self.send_peer(id, to, message);
                }
            }
        }
        self.note_what_waits(id);
        self.replicate(id)?;
        self.finish_moves(id)?;
        self.gossip(id);
        // What this input had the shard say was decided before the input raised its clock.
        let owners = self.cluster.slots.owners();
        let owners = self.cluster.hosts().iter().filter(|host| owners.contains(&host.shard.id()));
        self.ledger.note_clocks(owners.map(|host| host.shard.clock_for_certain()));
        self.shard(id).check_invariants();
        if !self.cluster.has_left(id) {
            self.asking.look(self.cluster.shard(id), &mut self.ledger)?;
        }
        let host = self.host(id);
        if host.shard.open_attempts() == 0 && host.store.as_ref().is_some_and(|store| store.holds_an_end()) {
            return Err(format!("{id}: an end is held, and nobody has voted"));
        }
        let due = host.shard.poll_timeout();
        if due != host.timer {
            host.timer = due;
            if let Some(due) = due {
                let at = host.clock.reaches(due);
                self.schedule(at, SimEvent::ShardTimer(id, due));
            }
        }
        Ok(())
    }

    /// Some words of a way say that their sender has written yes, where the client may not hear of that.
    fn note_told(&mut self, from: ShardId, message: &PeerMessage) -> Result<(), Violation> {
        match message {
            PeerMessage::Way { attempt, words, .. } if ways::says_yes(words) => {
                self.ledger.note_yes(*attempt, from, self.now)
            }
            PeerMessage::Way { .. }
            | PeerMessage::Inquire { .. }
            | PeerMessage::Answer { .. }
            | PeerMessage::AskClock { .. }
            | PeerMessage::Clock { .. } => Ok(()),
        }
    }

    fn send_response(
        &mut self,
        from: ShardId,
        session: SessionId,
        response: Response,
    ) -> Result<(), Violation> {
        let Some(mut response) = self.faults.plant.on_response(from, response) else { return Ok(()) };
        if !self.faults.tamper.respond(from, &mut response) {
            return Ok(());
        }
        self.check_not_stale(session, &response)?;
        let Host { shard, replicas, .. } = self.cluster.host(from);
        // What has waited for replicas tells of what was written then: meanwhile it may be forgotten, and a no be there.
        let is_late = replicas.is_some() && matches!(response, Response::Applied { .. });
        let written = response.attempt().filter(|_| !is_late).and_then(|attempt| shard.written(attempt));
        self.ledger.note_response(from, &response, written, self.now)?;
        if let Response::Refused { attempt, refusal, .. } = &response
            && let Some(process) = self.processes.get(&session)
            && let [run] = process.members(*attempt)[..]
        {
            let life = self.life_of(from);
            self.ledger.note_failed(run, (from, life, *attempt), refusal);
        }
        if let Response::Voted { attempt, .. } = response
            && self.faults.is(Tampering::ReleaseAtVote)
        {
            let link = Link { session, connection: self.lines.last_heard(from, session) };
            let request = Request::Apply { attempt };
            self.schedule(self.now, SimEvent::Request { to: from, link, request });
        }
        match &mut self.lines.answering {
            Some((whose, responses)) if *whose == session => responses.push(response),
            _ if self.config.direct => {
                self.outcome.messages += 1;
                self.schedule(self.now, SimEvent::Response { from, session, response });
            }
            _ => self.push(from, session, response),
        }
        Ok(())
    }

    pub(crate) fn send_peer(&mut self, from: ShardId, to: ShardId, message: PeerMessage) {
        self.outcome.messages += 1;
        if !self.faults.tamper.tell(from, to, &message) {
            return;
        }
        for at in self.lines.network.arrivals(self.now, Endpoint::Shard(from), Endpoint::Shard(to)) {
            self.schedule(at, SimEvent::Peer { from, to, message: message.clone() });
        }
    }

    /// A shard hears of another.
    pub(crate) fn hear_peer(
        &mut self,
        from: ShardId,
        to: ShardId,
        message: PeerMessage,
    ) -> Result<(), Violation> {
        if self.peer_comes_to_stale(to, &message) {
            return Ok(());
        }
        if let PeerMessage::Inquire { attempt, .. } = message
            && self.faults.is(Tampering::QuestionWritesNothing)
            && self.shard(to).written(attempt).is_none()
        {
            self.send_peer(to, from, PeerMessage::Answer { attempt, from: to, status: Status::Refused });
            return Ok(());
        }
        let now = self.shard_time(to);
        let forged = self.faults.tamper.forge_answers(to, &message);
        for message in std::iter::once(message).chain(forged) {
            self.shard(to).handle_peer(now, message);
        }
        self.drain_shard(to)
    }
}
