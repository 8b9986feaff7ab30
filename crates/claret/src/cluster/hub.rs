//! The office of transactions: greets nodes, carries frames between their connections and the client state machine, and keeps
//! the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use claret_core::message::Response;
use claret_core::{Limits, ShardId, Switches, Time, wire};
use claret_identity::Identity;
use claret_types::Reply;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::connection::{Connection, refusal, unreachable_at};
use super::error::ConnectError;
use super::frames::Frames;
use super::greeting::{self, Greeting};
use super::machine::Machine;
use super::net::{Net, Office};
use super::options::{Address, Settings};
use super::secret::Secret;
use super::topology::Topology;

/// A node that owes an answer for so long is thought to be in the way.
const SILENCE: Duration = Duration::from_millis(500);

/// How long a poll waits at the server for something to come.
const POLL: Duration = Duration::from_millis(1_000);

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Who this process is to all nodes.
    identity: Identity,
    /// What nobody else knows of the names of the channels that grants are pushed on.
    secret: Secret<u64>,
    settings: Settings,
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

impl Hub {
    pub(super) fn new(
        settings: Settings,
        identity: Identity,
        secret: Secret<u64>,
        switches: Switches,
        limits: Limits,
    ) -> Self {
        let session = identity.session();
        let calendar = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Hub {
            identity,
            secret,
            settings,
            machine: Mutex::new(Machine::new(session, switches, limits)),
            connections: AtomicU32::new(0),
            began: std::time::Instant::now(),
            calendar: calendar.as_micros() as u64,
            sooner: Notify::new(),
            doubts: Notify::new(),
        }
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
    pub(super) fn silent(&self, net: &Net<Hub>) -> Option<ConnectError> {
        let (node, since) = self.look(|machine| machine.client.slowest())?;
        let waited = Duration::from_micros(self.now().since(since));
        let is_long = waited > SILENCE.min(net.settings.response_timeout);
        let reason = format!("no answer for {waited:?}");
        is_long.then(|| ConnectError::Unreachable { node: node.to_string(), reason })
    }

    pub(super) fn deliver(&self, lane: &Lane, frames: usize, responses: &mut Vec<Response>) {
        let from = (lane.shard, lane.connection);
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
    fn greeting(&self, connection: u32, expected: Option<ShardId>) -> Greeting<'_> {
        let (identity, user) = (&self.identity, self.settings.user());
        Greeting { identity, user, secret: self.secret, connection, expected }
    }

    /// Collects grants on a connection of its own.
    async fn poll_grants(self: Arc<Self>, node: Address, lane: Lane) {
        let mut backoff = Backoff::new(u64::from(lane.connection));
        loop {
            // Whatever goes wrong here the connection of the requests hears as well, and tells.
            let _ = self.poll_until_broken(&node, lane, &mut backoff).await;
            sleep(backoff.next()).await;
        }
    }

    async fn poll_until_broken(
        &self,
        node: &Address,
        lane: Lane,
        backoff: &mut Backoff,
    ) -> Result<(), ConnectError> {
        let mut connection = Connection::open(&self.settings, node).await?;
        greeting::listen(&mut connection, self.greeting(lane.connection, Some(lane.shard))).await?;
        connection.set_bounds(self.settings.limits.of_work());
        let session = self.identity.session().0.to_string();
        let words = ["CLARET.POLL".to_owned(), session, POLL.as_millis().to_string()];
        let patience = POLL + self.settings.response_timeout;
        loop {
            let asked = timeout(patience, connection.ask(&words)).await;
            let late = |_| unreachable_at(node, format!("no answer for {patience:?}"));
            let reply = asked.map_err(late)??.map_err(|error| refusal(node, error))?;
            backoff.reset();
            if let Reply::Bytes(bytes) = reply {
                let mut responses = wire::decode_responses(&bytes).map_err(|error| {
                    ConnectError::NotUnderstood { node: node.to_string(), reason: error.to_string() }
                })?;
                self.deliver(&lane, 0, &mut responses);
            }
        }
    }
}

impl Office for Hub {
    type Duty = Frames;

    async fn greet(self: Arc<Self>, connection: &mut Connection) -> Result<Frames, ConnectError> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let node = connection.node.clone();
        let (topology, expected) =
            self.look(|machine| (machine.topology().clone(), machine.expected_at(&node)));
        let greeting = self.greeting(number, expected);
        let hello = greeting::exchange(connection, &topology, self.settings.grants, greeting).await?;
        let lane = Lane { shard: hello.shard, connection: number };
        let shard = (hello.shard, hello.incarnation);
        self.visit(|machine, now| machine.connected(now, number, &node, shard, hello.lease_us));
        let poll = (!hello.pushes)
            .then(|| tokio::spawn(Arc::clone(&self).poll_grants(node.clone(), lane)).abort_handle());
        Ok(Frames::new(self, node, lane, hello.incarnation, poll))
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
pub(super) struct Lane {
    pub(super) shard: ShardId,
    pub(super) connection: u32,
}

#[cfg(test)]
pub(super) mod tests {
    use std::task::Waker;

    use bytes::BytesMut;
    use claret_core::{Delivery, Incarnation};

    use super::super::bounds::ReplyLimits;
    use super::super::connection::Duty as _;
    use super::super::options::settings;
    use super::super::resp::Reader;
    use super::*;
    use crate::host::Mode;

    pub(crate) const SHARD: ShardId = ShardId(0);
    pub(crate) const CONNECTION: u32 = 1;

    /// With one shard, that is connected.
    pub(crate) fn hub() -> Arc<Hub> {
        let settings = settings("redis://h:1");
        let node = settings.seeds[0].clone();
        let switches = Mode::BoostPhase.switches(Delivery::Network);
        let identity = Identity::of_seed(&[7; 32]);
        let hub = Hub::new(settings, identity, Secret(2), switches, Limits::default());
        hub.adopt(&Topology::alone(node.clone()));
        hub.visit(|machine, now| {
            machine.connected(now, CONNECTION, &node, (SHARD, Incarnation(5)), 1_000_000)
        });
        Arc::new(hub)
    }

    /// What the time for responses is held against.
    #[test]
    fn a_frame_without_an_answer_is_owed_one_until_it_comes() {
        let hub = hub();
        let (node, lane) = (hub.settings.seeds[0].clone(), Lane { shard: SHARD, connection: CONNECTION });
        let mut frames = Frames::new(hub, node, lane, Incarnation(5), None);
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
