//! The service of transactions: the client state machine of the process, `claret_core::Client`, behind one mutex. It does the
//! handshake with nodes, carries frames between their connections and the machine, and runs timers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use claret_core::message::{Request, Response};
use claret_core::{
    CallNo, Client, Event, Incarnation, Limits, LookNo, Node, Pacing, SessionId, ShardId, SlotRange,
    Switches, Time, TxHandle, wire,
};
use claret_identity::Identity;
use claret_planted::{Bug, is_planted};
use claret_redis::connection::{Connection, refusal, unreachable_at};
use claret_redis::net::{Net, Service};
use claret_redis::topology::{SLOTS, Topology};
use claret_redis::{Address, Backoff, ConnectError, Secret};
use claret_types::{Bytes, Operation, Reply, Schema, SchemaDigest};
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::frames::Frames;
use super::handshake::{self, Durability, Handshake};
use super::settings::Settings;
use crate::mailbox::{Mailbox, Wakers};

/// A node that owes an answer for so long is thought to be in the way.
const SILENCE: Duration = Duration::from_millis(500);

/// How long a poll waits at the server for something to come.
const POLL: Duration = Duration::from_millis(1_000);

/// See the module's text.
#[derive(Debug)]
pub(crate) struct ClusterClient {
    /// Who this process is to all nodes.
    identity: Identity,
    /// What nobody else knows of the names of the channels that grants are pushed on.
    secret: Secret<u64>,
    settings: Settings,
    /// What all nodes have.
    durability: OnceLock<Durability>,
    machine: Mutex<Machine>,
    /// Connections made so far.
    connections: AtomicU32,
    began: std::time::Instant,
    /// Microseconds of the calendar when it began, so that births of several processes can be compared.
    calendar: u64,
    /// Wakes the timer.
    sooner: Notify,
    /// Wakes whoever asks for the topology.
    doubts: Notify,
}

impl ClusterClient {
    pub(super) fn new(
        settings: Settings,
        identity: Identity,
        secret: Secret<u64>,
        switches: Switches,
        limits: Limits,
    ) -> Self {
        let session = identity.session();
        let calendar = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        ClusterClient {
            identity,
            secret,
            settings,
            durability: OnceLock::new(),
            machine: Mutex::new(Machine::new(session, switches, limits)),
            connections: AtomicU32::new(0),
            began: std::time::Instant::now(),
            calendar: calendar.as_micros() as u64,
            sooner: Notify::new(),
            doubts: Notify::new(),
        }
    }

    /// What the user says of types, and its digest.
    pub(super) fn schema(&self) -> Option<&(Schema, SchemaDigest)> {
        self.settings.schema.as_deref()
    }

    pub(super) fn now(&self) -> Time {
        Time(self.calendar + self.began.elapsed().as_micros() as u64)
    }

    /// Does something with the machine, and what follows from it.
    pub(super) fn visit<R>(&self, act: impl FnOnce(&mut Machine, Time) -> R) -> R {
        let now = self.now();
        let mut machine = self.machine.lock();
        let result = act(&mut machine, now);
        let outcome = machine.settle(now);
        drop(machine);
        if let Some(woken) = outcome.woken {
            woken.into_iter().for_each(Waker::wake);
        }
        if outcome.is_sooner {
            self.sooner.notify_one();
        }
        if outcome.doubts_topology {
            self.doubts.notify_one();
        }
        result
    }

    /// Looks at the machine without changing anything that others have to hear of.
    pub(super) fn look<R>(&self, at: impl FnOnce(&mut Machine) -> R) -> R {
        at(&mut self.machine.lock())
    }

    /// A node that owes an answer for longer than any lock is worth waiting for.
    pub(super) fn silent(&self, net: &Net<ClusterClient>) -> Option<ConnectError> {
        let (node, since) = self.look(|machine| machine.client.slowest())?;
        let waited = Duration::from_micros(self.now().since(since));
        let is_long = waited > SILENCE.min(net.settings().response_timeout());
        let reason = format!("no answer for {waited:?}");
        is_long.then(|| ConnectError::Unreachable { node: node.to_string(), reason })
    }

    pub(super) fn deliver(&self, link: &ShardLink, frames: usize, responses: &mut Vec<Response>) {
        let from = (link.shard, link.connection);
        self.visit(|machine, now| {
            machine.client.deliver(now, from, frames, responses.drain(..));
            machine.client.handle_timeout(now);
        });
    }

    /// Does what is due until the store is closed.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            let due = self.look(Machine::promise);
            let due = due.map(|due| Instant::now() + Duration::from_micros(due.since(self.now())));
            tokio::select! {
                () = self.sooner.notified() => {}
                () = async { sleep_until(due.expect("guarded")).await }, if due.is_some() => {}
            }
            self.visit(|machine, now| machine.client.handle_timeout(now));
        }
    }

    /// What is said on a connection.
    fn introduction(&self, connection: u32, expected: Option<ShardId>) -> Handshake<'_> {
        let (identity, user) = (&self.identity, self.settings.redis.user());
        Handshake { identity, user, secret: self.secret, connection, expected }
    }

    /// Collects grants on a connection of its own.
    async fn poll_grants(self: Arc<Self>, node: Address, link: ShardLink) {
        let mut backoff = Backoff::new(u64::from(link.connection));
        loop {
            // Whatever goes wrong here the connection of the requests hears as well, and tells.
            let _ = self.poll_until_broken(&node, link, &mut backoff).await;
            sleep(backoff.pause()).await;
        }
    }

    async fn poll_until_broken(
        &self,
        node: &Address,
        link: ShardLink,
        backoff: &mut Backoff,
    ) -> Result<(), ConnectError> {
        let mut connection = Connection::open(&self.settings.redis, node).await?;
        handshake::listen(&mut connection, self.introduction(link.connection, Some(link.name))).await?;
        connection.set_bounds(self.settings.redis.limits().of_work());
        let session = self.identity.session().0.to_string();
        let words = ["CLARET.POLL".to_owned(), session, POLL.as_millis().to_string()];
        let patience = POLL + self.settings.redis.response_timeout();
        loop {
            let asked = timeout(patience, connection.ask(&words)).await;
            let late = |_| unreachable_at(node, format!("no answer for {patience:?}"));
            let reply = asked.map_err(late)??.map_err(|error| refusal(node, error))?;
            backoff.reset();
            if let Reply::Bytes(bytes) = reply {
                let mut responses = wire::decode_responses(&bytes).map_err(|error| {
                    ConnectError::NotUnderstood { node: node.to_string(), reason: error.to_string() }
                })?;
                self.deliver(&link, 0, &mut responses);
            }
        }
    }
}

impl Service for ClusterClient {
    type Handler = Frames;

    async fn handshake(self: Arc<Self>, connection: &mut Connection) -> Result<Frames, ConnectError> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let node = connection.node().clone();
        let (topology, expected) =
            self.look(|machine| (machine.topology().clone(), machine.expected_at(&node)));
        let handshake = self.introduction(number, expected);
        let hello = handshake::exchange(connection, &topology, self.settings.grants, handshake).await?;
        let ours = *self.durability.get_or_init(|| hello.durability);
        if ours != hello.durability && !is_planted(Bug::DurabilitiesMixed) {
            let (theirs, ours) = (hello.durability.name(), ours.name());
            return Err(ConnectError::MixedDurability { node: node.to_string(), theirs, ours });
        }
        if let Some(schema) = self.schema()
            && schema.1 != hello.schema
            && !is_planted(Bug::SchemasDiffer)
        {
            let (theirs, ours) = (hello.schema, schema.1);
            return Err(ConnectError::OtherSchema { node: node.to_string(), theirs, ours });
        }
        let link = ShardLink { shard: hello.shard, name: hello.name, connection: number };
        let shard = (hello.shard, hello.incarnation);
        self.visit(|machine, now| machine.connected(now, number, (&node, hello.name), shard, hello.lease_us));
        let poll = (!hello.pushes)
            .then(|| tokio::spawn(Arc::clone(&self).poll_grants(node.clone(), link)).abort_handle());
        Ok(Frames::new(self, node, link, hello.incarnation, poll))
    }

    fn adopt(&self, topology: &Topology) {
        self.visit(|machine, now| machine.adopt(now, topology));
    }

    fn is_gone(&self, node: &Address) {
        self.visit(|machine, now| machine.part_with(now, node));
    }

    /// Transactions wait for it until their deadlines.
    fn is_away(&self, _: &Address, _: &ConnectError) {}

    fn doubts(&self) -> &Notify {
        &self.doubts
    }
}

/// A shard, and the connection that serves it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardLink {
    pub(super) shard: ShardId,
    /// The name of its node.
    pub(super) name: ShardId,
    pub(super) connection: u32,
}

/// What the one mutex guards: the client state machine of the process, and whom to wake.
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
struct Outcome {
    woken: Option<Wakers>,
    /// The timer is to look sooner than it is going to.
    is_sooner: bool,
    /// Somebody has a reason to believe that the topology changed.
    doubts_topology: bool,
}

impl Machine {
    fn new(session: SessionId, switches: Switches, limits: Limits) -> Self {
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

    fn adopt(&mut self, now: Time, topology: &Topology) {
        self.topology = topology.clone();
        let ranges = topology.ranges().iter().map(|range| SlotRange {
            first: range.first,
            last: range.last,
            node: name_of(&range.node),
        });
        self.client.adopt(now, ranges.collect());
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The name that the topology has for a node, or, of one that serves nothing any more, that which it said it had.
    fn expected_at(&self, node: &Address) -> Option<ShardId> {
        match self.topology.slot_at(node) {
            Some(_) => self.topology.id_at(node).map(|id| ShardId(id.0)),
            None => self.names.get(node).copied(),
        }
    }

    /// A node left the cluster, or became a replica, and answers no more.
    fn part_with(&mut self, now: Time, node: &Address) {
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

    fn connected(
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

    // --- time ---

    /// The timer looks: when it is to look again.
    fn promise(&mut self) -> Option<Time> {
        self.promised = self.client.poll_timeout();
        self.promised
    }

    /// Brings about what follows from what went in, and tells whom it concerns.
    fn settle(&mut self, now: Time) -> Outcome {
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
pub(super) mod tests {
    use bytes::BytesMut;
    use claret_core::ways::WaySwitches;

    use claret_redis::ReplyLimits;
    use claret_redis::connection::Handler as _;
    use claret_redis::fuzzing::{Dice, LIMITS, damaged, samples};
    use claret_redis::resp::{Message, Reader};

    use super::super::settings::settings;
    use super::*;
    use crate::mode::Mode;

    pub(crate) const SHARD: ShardId = ShardId(0);
    pub(crate) const CONNECTION: u32 = 1;

    /// With one shard, that is connected.
    pub(crate) fn client() -> Arc<ClusterClient> {
        let settings = settings("redis://h:1");
        let node = settings.redis.seeds()[0].clone();
        let switches = Mode::CommutingPhased.over_network(true, WaySwitches::ROUNDS);
        let identity = Identity::of_seed(&[7; 32]);
        let client = ClusterClient::new(settings, identity, Secret(2), switches, Limits::default());
        client.adopt(&Topology::alone(node.clone()));
        client.visit(|machine, now| {
            machine.connected(now, CONNECTION, (&node, SHARD), (SHARD, Incarnation(5)), 1_000_000)
        });
        Arc::new(client)
    }

    /// What the time for responses is held against.
    #[test]
    fn a_frame_without_an_answer_is_owed_one_until_it_comes() {
        let client = client();
        let (node, link) = (
            client.settings.redis.seeds()[0].clone(),
            ShardLink { shard: SHARD, name: SHARD, connection: CONNECTION },
        );
        let mut frames = Frames::new(client, node, link, Incarnation(5), None);
        assert_eq!(frames.waits(), None);
        let mut out = BytesMut::new();
        assert!(!frames.fill(Waker::noop(), &mut out) && !out.is_empty(), "the first heartbeat");
        let first = frames.waits().expect("an answer is owed");
        std::thread::yield_now();
        assert!(frames.waits().is_some_and(|since| since >= first));
        let mut reader = Reader::new(ReplyLimits::default().of_work());
        assert_eq!(frames.take(b"$0\r\n\r\n", &mut reader), Ok(6));
        assert_eq!(frames.waits(), None);
    }

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
        machine.client.deliver(Time(0), (SHARD, 1), 1, std::iter::empty());
        machine.client.handle_timeout(Time(0));
        assert!(machine.promise() > Some(Time(1_000_000)), "the next one is far away");
        assert!(!machine.settle(Time(1)).is_sooner, "nothing is new");
        let node = Address::new("h", 1);
        machine.connected(Time(2), 2, (&node, SHARD), (SHARD, Incarnation(5)), 300_000);
        assert!(machine.settle(Time(2)).is_sooner, "a shorter lease");
    }
}
