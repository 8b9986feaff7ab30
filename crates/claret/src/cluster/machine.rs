//! What the one mutex guards: the client state machine of the process, `claret_core::Client`, and whom to wake.

use std::sync::Arc;
use std::task::Waker;

use claret_core::message::{Request, Response};
use claret_core::{
    CallNo, Client, Closed, Event, Incarnation, Limits, LookNo, Node, Pacing, SessionId, ShardId, SlotRange,
    Switches, Time, TxHandle,
};
use claret_planted::{Bug, is_planted};
use claret_redis::Address;
use claret_redis::topology::{SLOTS, Topology};
use claret_types::{Bytes, Operation};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::call::Call;
use crate::mailbox::{Mailbox, Wakers};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) client: Client,
    mailboxes: HashMap<TxHandle, Arc<Mailbox>, foldhash::fast::FixedState>,
    /// Whose looks are on their way, and under which number they know them.
    looks: HashMap<LookNo, (Arc<Mailbox>, CallNo), foldhash::fast::FixedState>,
    /// The tasks of connections, by their numbers: few.
    connections: Vec<(u32, Waker)>,
    woken: Wakers,
    topology: Topology,
    /// What nodes said that their names are. In the durability `strict` the shard that one bears may have another.
    names: HashMap<Address, ShardId, foldhash::fast::FixedState>,
    /// When the timer is going to look.
    promised: Option<Time>,
}

/// What is to be done once the mutex is free.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) woken: Option<Wakers>,
    /// The timer is to look sooner than it is going to.
    pub(super) is_sooner: bool,
    /// Somebody has a reason to believe that the topology changed.
    pub(super) doubts_topology: bool,
}

impl Machine {
    pub(super) fn new(session: SessionId, switches: Switches, limits: Limits) -> Self {
        Machine {
            client: Client::new(session, switches, limits, SLOTS, Pacing::default()),
            mailboxes: HashMap::default(),
            looks: HashMap::default(),
            connections: Vec::new(),
            woken: Wakers::new(),
            topology: Topology::default(),
            names: HashMap::default(),
            promised: None,
        }
    }

    // --- nodes ---

    pub(super) fn adopt(&mut self, now: Time, topology: &Topology) {
        self.topology = topology.clone();
        let ranges = topology.ranges().iter().map(|range| SlotRange {
            first: range.first,
            last: range.last,
            node: name_of(&range.node),
        });
        self.client.adopt(now, ranges.collect());
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The name that the topology has for a node, or, of one that serves nothing any more, that which it said it had.
    pub(super) fn expected_at(&self, node: &Address) -> Option<ShardId> {
        match self.topology.slot_at(node) {
            Some(_) => self.topology.id_at(node).map(|id| ShardId(id.0)),
            None => self.names.get(node).copied(),
        }
    }

    /// A node left the cluster, or became a replica, and answers no more.
    pub(super) fn part_with(&mut self, now: Time, node: &Address) {
        self.client.part_with(now, &node.to_string());
        if self.topology.slot_at(node).is_none() {
            self.names.remove(node);
        }
    }

    // --- transactions ---

    pub(super) fn begin(&mut self, now: Time, mailbox: &Arc<Mailbox>) -> TxHandle {
        let tx = self.client.begin(now, now.0);
        self.mailboxes.insert(tx, Arc::clone(mailbox));
        tx
    }

    /// Takes calls, and keeps them for the commit. `slots`: those of their keys.
    pub(super) fn buffer(
        &mut self,
        now: Time,
        tx: (TxHandle, u32),
        calls: impl Iterator<Item = Call>,
        slots: &[u16],
    ) -> Result<(), Closed> {
        let placed = calls.zip(slots).map(|(Call { key, op }, slot)| ((*slot, key), op));
        self.client.buffer_all(now, tx, placed)
    }

    /// Looks what the last of these operations would answer, behind the others (O1).
    pub(super) fn look(
        &mut self,
        now: Time,
        (mailbox, no): (&Arc<Mailbox>, CallNo),
        place: (u16, Bytes),
        ops: SmallVec<[Operation; 1]>,
    ) {
        let look = self.client.look(now, place, ops);
        self.looks.insert(look, (Arc::clone(mailbox), no));
    }

    /// Nobody waits any more for what was looked at. O(looks on their way).
    pub(super) fn leave_looks(&mut self, mailbox: &Arc<Mailbox>) {
        let left = self.looks.extract_if(|_, (whose, _)| Arc::ptr_eq(whose, mailbox));
        let left: Vec<LookNo> = left.map(|(look, _)| look).collect();
        left.into_iter().for_each(|look| self.client.leave_look(look));
    }

    /// The user is gone.
    pub(super) fn abandon(&mut self, now: Time, tx: TxHandle) {
        self.mailboxes.remove(&tx);
        self.client.abandon(now, tx);
    }

    /// Those who wait for something of a transaction.
    pub(super) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.mailboxes.values().cloned().collect()
    }

    // --- connections ---

    pub(super) fn connected(
        &mut self,
        now: Time,
        connection: u32,
        (node, name): (&Address, ShardId),
        shard: (ShardId, Incarnation),
        lease_us: u64,
    ) {
        self.names.insert(node.clone(), name);
        self.client.connected(
            now,
            connection,
            &name_of(node),
            shard,
            if is_planted(Bug::LeaseUnheard) { 3_600_000_000 } else { lease_us },
        );
    }

    pub(super) fn disconnected(&mut self, shard: ShardId, connection: u32) {
        self.connections.retain(|(number, _)| *number != connection);
        self.client.disconnected(shard, connection);
    }

    /// Moves what waits for a shard into `requests`, as much as one frame may have, and wakes the connection when
    /// there is more. Returns whether the connection has nothing more to do.
    pub(super) fn take(
        &mut self,
        shard: ShardId,
        connection: u32,
        waker: &Waker,
        requests: &mut Vec<Request>,
    ) -> bool {
        let is_done = self.client.take(shard, connection, requests);
        if !is_done {
            match self.connections.iter_mut().find(|(number, _)| *number == connection) {
                Some((_, known)) => known.clone_from(waker),
                None => self.connections.push((connection, waker.clone())),
            }
        }
        is_done
    }

    pub(super) fn deliver(
        &mut self,
        now: Time,
        from: (ShardId, u32),
        frames: usize,
        responses: impl Iterator<Item = Response>,
    ) {
        self.client.deliver(now, from, frames, responses);
        self.client.handle_timeout(now);
    }

    // --- time ---

    /// The timer looks: when it is to look again.
    pub(super) fn promise(&mut self) -> Option<Time> {
        self.promised = self.client.poll_timeout();
        self.promised
    }

    /// Brings about what follows from what went in, and tells whom it concerns.
    pub(super) fn settle(&mut self, now: Time) -> Outcome {
        self.client.settle(now);
        while let Some((tx, event)) = self.client.poll_event() {
            self.tell(tx, event);
        }
        while let Some((look, seen)) = self.client.poll_looked() {
            if let Some((mailbox, no)) = self.looks.remove(&look) {
                mailbox.put_event(Event::Seen { no, seen }, &mut self.woken);
            }
        }
        while let Some(connection) = self.client.poll_ready() {
            let waker = self.connections.iter().find(|(number, _)| *number == connection);
            self.woken.extend(waker.map(|(_, waker)| waker.clone()));
        }
        let due = self.client.poll_timeout();
        let is_sooner = due.is_some_and(|due| self.promised.is_none_or(|promised| due < promised));
        let is_sooner = is_sooner && !is_planted(Bug::TimerUntold);
        if is_sooner {
            self.promised = due;
        }
        // Most visits wake nobody: then nothing is carried out of the lock.
        let woken = (!self.woken.is_empty()).then(|| std::mem::take(&mut self.woken));
        Outcome { woken, is_sooner, doubts_topology: self.client.take_doubt() }
    }

    fn tell(&mut self, tx: TxHandle, event: Event) {
        if event.is_last() {
            // Nobody says that he is gone, after this.
            if let Some(mailbox) = self.mailboxes.remove(&tx) {
                mailbox.put_event(event, &mut self.woken);
            }
        } else if let Some(mailbox) = self.mailboxes.get(&tx) {
            mailbox.put_event(event, &mut self.woken);
        }
    }
}

fn name_of(node: &Address) -> Node {
    node.to_string().into()
}

#[cfg(test)]
mod tests {
    use claret_core::ways::WaySwitches;
    use claret_redis::fuzzing::{Dice, LIMITS, damaged, samples};
    use claret_redis::resp::{Message, Reader};

    use super::*;
    use crate::mode::Mode;

    const SHARD: ShardId = ShardId(0);

    /// Connected to one node at the beginning of time.
    fn connected(lease_us: u64) -> Machine {
        let node = Address::new("h", 1);
        let switches = Mode::CommutingPhased.over_network(true, WaySwitches::ROUNDS);
        let mut machine = Machine::new(SessionId(1), switches, Limits::default());
        machine.adopt(Time(0), &Topology::alone(node.clone()));
        machine.connected(Time(0), 1, (&node, SHARD), (SHARD, Incarnation(5)), lease_us);
        machine
    }

    #[test]
    fn heartbeats_go_by_the_lease_of_the_node() {
        for lease_us in [300_000, 9_000_000] {
            let mut machine = connected(lease_us);
            machine.settle(Time(0));
            let due = machine.promise().expect("a heartbeat");
            assert!(due <= Time(lease_us / 3), "{due:?}");
        }
    }

    #[test]
    fn damaged_replies_to_cluster_slots_are_adopted_or_refused() {
        let (samples, mut dice) = (samples(), Dice::new(0x5eed_0003));
        let asked = Address::new("h", 1);
        let mut taken = 0;
        for _ in 0..60_000 {
            let bytes = damaged(&mut dice, &samples[1..2]);
            let Ok(Some((Message::Reply(value), _))) = Reader::new(LIMITS.of_topology()).next(&bytes) else {
                continue;
            };
            let Ok(reply) = value.reply() else { continue };
            let Ok(topology) = Topology::parse(&reply, &asked, &LIMITS) else { continue };
            taken += 1;
            let switches = Mode::CommutingPhased.over_network(true, WaySwitches::ROUNDS);
            let mut machine = Machine::new(SessionId(7), switches, Limits::default());
            machine.connected(Time(0), 1, (&asked, ShardId(0)), (ShardId(0), Incarnation(5)), 1_000_000);
            machine.adopt(Time(1), &topology);
            machine.client.check_invariants();
        }
        assert!(taken > 1_000, "{taken}");
    }

    #[test]
    fn the_timer_hears_what_is_due_sooner() {
        let mut machine = connected(9_000_000);
        assert!(machine.settle(Time(0)).is_sooner, "the first heartbeat");
        machine.take(SHARD, 1, Waker::noop(), &mut Vec::new());
        machine.deliver(Time(0), (SHARD, 1), 1, std::iter::empty());
        assert!(machine.promise() > Some(Time(1_000_000)), "the next one is far away");
        assert!(!machine.settle(Time(1)).is_sooner, "nothing is new");
        let node = Address::new("h", 1);
        machine.connected(Time(2), 2, (&node, SHARD), (SHARD, Incarnation(5)), 300_000);
        assert!(machine.settle(Time(2)).is_sooner, "a shorter lease");
    }
}
