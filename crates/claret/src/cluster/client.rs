//! The service of transactions: it does the handshake with nodes, carries frames between their connections and the
//! client state machine, and runs timers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use claret_core::message::Response;
use claret_core::{Limits, ShardId, Switches, Time, wire};
use claret_identity::Identity;
use claret_planted::{Bug, is_planted};
use claret_redis::connection::{Connection, refusal, unreachable_at};
use claret_redis::net::{Net, Service};
use claret_redis::topology::Topology;
use claret_redis::{Address, Backoff, ConnectError, Secret};
use claret_types::{Reply, Schema, SchemaDigest};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::frames::Frames;
use super::handshake::{self, Durability, Handshake};
use super::machine::Machine;
use super::settings::Settings;

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
            woken.into_iter().for_each(std::task::Waker::wake);
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
        self.visit(|machine, now| machine.deliver(now, from, frames, responses.drain(..)));
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

#[cfg(test)]
pub(super) mod tests {
    use std::task::Waker;

    use bytes::BytesMut;
    use claret_core::Incarnation;
    use claret_core::ways::WaySwitches;

    use claret_redis::ReplyLimits;
    use claret_redis::connection::Handler as _;
    use claret_redis::resp::Reader;

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
}
