//! Slots that move from shard to shard, nodes that leave, and when processes learn of it.
//!
//! A slot leaves a shard as it leaves a server with the module: newcomers are refused, and when nobody uses anything
//! in it any more its records leave, all at once. Processes hear of it when they ask for the topology; until then
//! they send their calls to the old place.

use claret_core::message::{PeerMessage, Status};
use claret_core::{SessionId, ShardId, Survives, Time, Timestamp};

use crate::check::Violation;
use crate::event::SimEvent;
use crate::random::Stream;
use crate::slots::{Leaving, slot_of};
use crate::tamper::Tampering;
use crate::world::World;

/// A process that asks for the topology is answered after so many microseconds at most.
const LEARN_US_MAX: u64 = 3_000;

/// A process that found that a node serves nothing and does not answer gives it up within so many microseconds.
const PART_US_MAX: u64 = 10_000;

/// A shard that does not know who owns keys now hears so when it was looked at so often.
const GOSSIP_STEPS: u64 = 6;

impl World {
    /// When which slots move, and which node leaves. Only external records can go from one to another.
    pub(crate) fn schedule_moves(&mut self) {
        let (moves, leaves) = (self.config.faults.moves, self.config.faults.leaves);
        let shards = u64::from(self.config.shards);
        let loses_records = self.config.faults.restarts > 0 && self.config.survives() == Survives::Nothing;
        // Without phases nobody is in a queue: who is told to ask again may be let in after the slot went.
        if !self.config.is_external() || !self.config.phasing || shards < 2 || loses_records {
            return;
        }
        let random = &mut self.draws.stream(Stream::Moves);
        let until = self.config.faults.until_us;
        for _ in 0..moves {
            let slot = random.below(u64::from(self.cluster.slots.count())) as u16;
            let (at, to) = (random.below(until), ShardId(random.below(shards) as u32));
            self.schedule(Time(at), SimEvent::Move(slot, to));
        }
        // A shard with replicas is never taken for gone (S13).
        if leaves && !self.config.is_replicated() {
            // It gives all its slots away, one after the other, and is gone some time after the last one.
            let leaver = ShardId(random.below(shards) as u32);
            self.cluster.slots.leaver = Some(leaver);
            for slot in 0..self.cluster.slots.count() {
                let to = ShardId((leaver.0 + 1 + random.below(shards - 1) as u32) % self.config.shards);
                if self.cluster.slots.owner(slot) == leaver {
                    self.schedule(Time(random.below(until)), SimEvent::Move(slot, to));
                }
            }
            self.schedule(Time(until + random.below(until)), SimEvent::Leave(leaver));
        }
    }

    /// A slot is to go to another shard.
    pub(crate) fn begin_move(&mut self, slot: u16, to: ShardId) -> Result<(), Violation> {
        let from = self.cluster.slots.owner(slot);
        let is_moving = self.cluster.slots.leaving.iter().any(|leaving| leaving.slot == slot);
        if from == to || is_moving || self.cluster.has_left(to) {
            return Ok(());
        }
        self.outcome.faults += 1;
        self.store(from).expect("records are external").close(slot);
        self.cluster.slots.leaving.push(Leaving { slot, to, batch: None });
        self.ask_back_now(from);
        self.drain_shard(from)
    }

    /// Who uses a slot that is to leave is asked for it, again and again.
    pub(crate) fn ask_back(&mut self, from: ShardId) {
        if self.cluster.slots.is_to_ask_back(from) {
            self.ask_back_now(from);
        }
    }

    fn ask_back_now(&mut self, from: ShardId) {
        let (now, slots) = (self.shard_time(from), self.cluster.slots.count());
        let leaving = self.cluster.slots.leaving_from(from);
        self.shard(from).ask_back(now, |key| leaving.contains(&slot_of(key, slots)));
    }

    /// A slot of a shard that can go: nobody uses anything in it, and the replicas have what was written there. It leaves no more.
    fn next_to_go(&mut self, from: ShardId) -> Result<Option<Leaving>, Violation> {
        let slots = self.cluster.slots.count();
        for at in (0..self.cluster.slots.leaving.len()).rev() {
            let Leaving { slot, batch, .. } = self.cluster.slots.leaving[at];
            if self.cluster.slots.owner(slot) != from {
                continue;
            }
            let is_used = self.shard(from).keys_in_use().any(|key| slot_of(key, slots) == slot);
            let batch = if is_used { None } else { batch.or_else(|| self.shard(from).ask_replicas()) };
            self.cluster.slots.leaving[at].batch = batch;
            self.replicate(from)?;
            if !is_used && batch.is_none_or(|batch| self.shard(from).is_replicated_to(batch)) {
                return Ok(Some(self.cluster.slots.leaving.swap_remove(at)));
            }
        }
        Ok(None)
    }

    /// Slots of a shard in which nobody uses anything any more go.
    pub(crate) fn finish_moves(&mut self, from: ShardId) -> Result<(), Violation> {
        let mut takers: Vec<ShardId> = Vec::new();
        while let Some(Leaving { slot, to, .. }) = self.next_to_go(from)? {
            // What is on its way to replicas is of records from before the slot goes.
            [from, to].into_iter().try_for_each(|id| self.replicate_at_once(id))?;
            let records = self.store(from).expect("records are external").give(slot);
            let used = self.shard(from).hand_over();
            self.shard(to).take_over(used);
            self.store(to).expect("records are external").take(slot, records);
            [from, to].into_iter().for_each(|id| self.have_records(id));
            takers.push(to);
            self.cluster.slots.go(slot, to);
            self.tell_owners(from);
            self.tell_owners(to);
            self.outcome.moved += 1;
            self.trace.note(self.now, &[60, u64::from(slot), u64::from(to.0)], || {
                format!("slot {slot} goes from {from} to {to}")
            });
        }
        // Before they serve it, their replicas know up to where timestamps were used (S17).
        takers.into_iter().try_for_each(|to| self.replicate_at_once(to))?;
        if self.cluster.slots.leaver == Some(from)
            && !self.cluster.slots.serves(from)
            && self.draws.frames.chance(500)
        {
            // At once, with what it has just answered.
            self.cluster.slots.leaver = None;
            self.schedule(self.now, SimEvent::Leave(from));
        }
        Ok(())
    }

    /// A node leaves for good, if it serves nothing. What its shard remembers is lost.
    pub(crate) fn leave_cluster(&mut self, shard: ShardId) -> Result<(), Violation> {
        let is_taking = self.cluster.slots.leaving.iter().any(|it| it.to == shard);
        if self.cluster.slots.serves(shard) || is_taking {
            // Not yet.
            let again = self.now.plus(self.config.faults.until_us);
            if again.0 < 4 * self.config.faults.until_us {
                self.schedule(again, SimEvent::Leave(shard));
            }
            return Ok(());
        }
        if self.cluster.has_left(shard) {
            return Ok(());
        }
        self.outcome.faults += 1;
        self.outcome.left += 1;
        self.cluster.remove(shard);
        self.note_carried_out(shard, Survives::Records);
        self.ledger.note_restart(shard, Survives::Records, Timestamp::default());
        let sessions: Vec<SessionId> = self.processes.keys().copied().collect();
        for session in sessions {
            self.tear(session, shard);
            if let Some(number) = self.processes[&session].connection_to(shard) {
                let at = self.now.plus(self.draws.client.below(PART_US_MAX));
                self.schedule(at, SimEvent::Broken(session, shard, number));
            }
            self.ask_topology(session);
        }
        Ok(())
    }

    /// Whoever asks a removed shard hears from its own host that nobody knows (P56).
    pub(crate) fn answer_for_removed(&mut self, asking: ShardId, removed: ShardId, message: &PeerMessage) {
        if let PeerMessage::Inquire { attempt, .. } = message {
            let answer = PeerMessage::Answer { attempt: *attempt, from: removed, status: Status::Lost };
            self.schedule(self.now.plus(1), SimEvent::Peer { from: removed, to: asking, message: answer });
        }
    }

    /// A shard hears in time who owns keys.
    pub(crate) fn gossip(&mut self, id: ShardId) {
        let version = self.cluster.slots.version();
        let host = self.host(id);
        host.behind = if host.knows == version { 0 } else { host.behind + 1 };
        if host.behind > GOSSIP_STEPS {
            self.tell_owners(id);
        }
    }

    /// A shard hears who owns keys.
    pub(crate) fn tell_owners(&mut self, id: ShardId) {
        let (owners, version) = (self.cluster.slots.owners(), self.cluster.slots.version());
        let host = self.host(id);
        host.shard.know_owners(owners);
        (host.knows, host.behind, host.settled) = (version, 0, host.shard.safe_time());
    }

    // --- what processes learn ---

    /// A process has a reason to ask who serves what.
    pub(crate) fn ask_topology(&mut self, session: SessionId) {
        let Some(process) = self.processes.get_mut(&session) else { return };
        if !std::mem::replace(&mut process.asks_topology, true) {
            let at = self.now.plus(1 + self.draws.client.below(LEARN_US_MAX));
            self.schedule(at, SimEvent::Learn(session));
        }
    }

    pub(crate) fn learn_topology(&mut self, session: SessionId) -> Result<(), Violation> {
        let (now, topology) = (self.local(session), self.cluster.slots.topology());
        let Some(process) = self.processes.get_mut(&session) else { return Ok(()) };
        process.asks_topology = false;
        let Some(client) = &mut process.client else { return Ok(()) };
        if !self.faults.is(Tampering::SlotsStay) {
            client.adopt(now, topology);
        }
        for shard in (0..self.config.shards).map(ShardId) {
            if self.cluster.slots.serves(shard) {
                continue;
            }
            // One that lives answers for itself. One that does not is given up in time.
            if self.cluster.has_left(shard) {
                let at = self.now.plus(self.draws.client.below(PART_US_MAX));
                self.schedule(at, SimEvent::Part(session, shard));
            }
        }
        self.pump(session)
    }
}
