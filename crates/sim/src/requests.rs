//! Requests leave a process: they are noted and may be tampered with, and the process may die of it.

use claret_core::message::{Link, Request};
use claret_core::{SessionId, ShardId, Time};

use crate::event::SimEvent;
use crate::tamper::{Sent, Tampering};
use crate::world::World;

impl World {
    /// What becomes of a request that leaves a process.
    pub(crate) fn leaves(&mut self, to: ShardId, link: Link, request: &mut Request) -> Sent {
        let last = ShardId(self.config.shards - 1);
        let sent = self.faults.plant.on_request(to, last, request);
        if !sent.passes {
            return sent;
        }
        if let Request::Heartbeat { live, .. } = request
            && self.faults.is(Tampering::HeartbeatOmitsIdle)
            && let Some(process) = self.processes.get(&link.session)
        {
            live.retain(|attempt| process.awaits_answers(*attempt));
        }
        self.faults.tamper.send(to, link, request)
    }

    /// A process sends a request: it is noted, and the process may die of it. Returns whether it survived.
    pub(crate) fn may_send(&mut self, session: SessionId, to: ShardId, request: &Request) -> bool {
        if self.faults.kills_sender(self.outcome.messages) {
            self.kill(session);
            return false;
        }
        self.outcome.messages += 1;
        let process = self.processes.get_mut(&session).expect("it sends");
        self.ledger.note_request(to, request, |attempt| process.members(attempt));
        true
    }

    /// Something of a process arrives at that time.
    pub(crate) fn note_arrival(&mut self, session: SessionId, at: Time) {
        if let Some(process) = self.processes.get_mut(&session) {
            process.last_arrival = process.last_arrival.max(at);
        }
    }

    /// Where shards are a call away: sends a request. Returns whether the process survived it.
    pub(crate) fn call_shard(&mut self, session: SessionId, to: ShardId, mut request: Request) -> bool {
        if !self.may_send(session, to, &request) {
            return false;
        }
        let link = Link { session, connection: 0 };
        let Sent { passes, forged } = self.leaves(to, link, &mut request);
        if let Some(response) = forged {
            self.schedule(self.now, SimEvent::Response { from: to, session, response });
        }
        if passes {
            self.note_arrival(session, self.now);
            self.schedule(self.now, SimEvent::Request { to, link, request });
        }
        true
    }
}
