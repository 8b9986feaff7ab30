//! The office of transactions: greets nodes, carries frames between their connections and the desk, and keeps the
//! time: what is due, heartbeats, and the last one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use claret_core::message::Response;
use claret_core::{Limits, ShardId, Switches, Time, wire};
use claret_identity::Identity;
use claret_types::Reply;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::connection::{Connection, refusal, unreachable_at};
use super::desk::Desk;
use super::error::ConnectError;
use super::frames::Frames;
use super::greeting::{self, Greeting};
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
    desk: Mutex<Desk>,
    /// Connections made so far.
    connections: AtomicU32,
    /// The shortest lease of any node, in microseconds.
    lease_us: Mutex<u64>,
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
            desk: Mutex::new(Desk::new(session, switches, limits)),
            connections: AtomicU32::new(0),
            lease_us: Mutex::new(limits.lease_us),
            began: std::time::Instant::now(),
            calendar: calendar.as_micros() as u64,
            sooner: Notify::new(),
            doubts: Notify::new(),
        }
    }

    pub(super) fn now(&self) -> Time {
        Time(self.calendar + self.began.elapsed().as_micros() as u64)
    }

    /// Does something at the desk, and what follows from it.
    pub(super) fn at_desk<R>(&self, act: impl FnOnce(&mut Desk, Time) -> R) -> R {
        let now = self.now();
        let mut desk = self.desk.lock();
        let result = act(&mut desk, now);
        desk.settle(now);
        let is_sooner = desk.sooner();
        // Most visits wake nobody: then nothing is carried out of the lock.
        match desk.woken() {
            None => drop(desk),
            Some(woken) => {
                drop(desk);
                woken.into_iter().for_each(std::task::Waker::wake);
            }
        }
        if is_sooner {
            self.sooner.notify_one();
        }
        result
    }

    /// Looks at the desk without changing anything that others have to hear of.
    pub(super) fn look<R>(&self, at: impl FnOnce(&mut Desk) -> R) -> R {
        at(&mut self.desk.lock())
    }

    /// Somebody has a reason to believe that the topology changed.
    pub(super) fn doubt_topology(&self) {
        self.doubts.notify_one();
    }

    /// A node that owes an answer for longer than any lock is worth waiting for.
    pub(super) fn silent(&self, net: &Net<Hub>) -> Option<ConnectError> {
        let (node, since) = self.look(|desk| desk.most_owing())?;
        let waited = Duration::from_micros(self.now().since(since));
        let is_long = waited > SILENCE.min(net.settings.response_timeout);
        is_long.then(|| unreachable_at(&node, format!("no answer for {waited:?}")))
    }

    pub(super) fn deliver(&self, lane: &Lane, frames: usize, responses: &mut Vec<Response>) {
        self.at_desk(|desk, now| {
            desk.deliver(now, lane.shard, lane.connection, frames, responses.drain(..));
            desk.handle_timeout(now);
        });
    }

    /// Does what is due, and sends heartbeats, until the store is closed.
    pub(super) async fn keep_time(self: Arc<Self>) {
        let mut beat = interval(self.beat());
        loop {
            // At the beginning, and when a node gave a shorter lease than those before: at once then.
            if beat.period() != self.beat() {
                beat = interval(self.beat());
            }
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let due = self.look(Desk::promise);
            let due = due.map(|due| Instant::now() + Duration::from_micros(due.since(self.now())));
            tokio::select! {
                () = self.sooner.notified() => {}
                () = async { sleep_until(due.expect("guarded")).await }, if due.is_some() => {}
                _ = beat.tick() => self.at_desk(Desk::heartbeat),
            }
            self.at_desk(Desk::handle_timeout);
        }
    }

    /// A node gave this lease, in microseconds.
    fn note_lease(&self, lease_us: u64) {
        let is_shorter = {
            let mut shortest = self.lease_us.lock();
            let is_shorter = lease_us < *shortest;
            *shortest = lease_us.min(*shortest);
            is_shorter
        };
        if is_shorter {
            self.sooner.notify_one();
        }
    }

    fn beat(&self) -> Duration {
        Duration::from_micros((*self.lease_us.lock() / 3).max(1_000))
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
        let (topology, expected) = self.look(|desk| (desk.topology().clone(), desk.expected_at(&node)));
        let greeting = self.greeting(number, expected);
        let hello = greeting::exchange(connection, &topology, self.settings.grants, greeting).await?;
        let lane = Lane { shard: hello.shard, connection: number };
        self.note_lease(hello.lease_us);
        self.at_desk(|desk, now| desk.bind(now, number, &node, hello.shard, hello.incarnation));
        let poll = (!hello.pushes)
            .then(|| tokio::spawn(Arc::clone(&self).poll_grants(node.clone(), lane)).abort_handle());
        Ok(Frames::new(self, node, lane, hello.incarnation, poll))
    }

    fn adopt(&self, topology: &Topology) {
        self.at_desk(|desk, now| desk.adopt(now, topology));
    }

    fn is_gone(&self, node: &Address) {
        self.at_desk(|desk, now| desk.part_with(now, node));
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
    use claret_core::message::Request;
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
        hub.at_desk(|desk, now| desk.bind(now, CONNECTION, &node, SHARD, Incarnation(5)));
        Arc::new(hub)
    }

    /// Heartbeats that wait to be sent; the shard answers them at once.
    fn heartbeats(hub: &Hub) -> usize {
        let mut requests = Vec::new();
        hub.look(|desk| desk.take(SHARD, CONNECTION, Waker::noop(), &mut requests));
        hub.at_desk(|desk, now| desk.deliver(now, SHARD, CONNECTION, 1, std::iter::empty()));
        requests.iter().filter(|request| matches!(request, Request::Heartbeat { .. })).count()
    }

    /// So many come in this time.
    async fn within(hub: &Hub, time: Duration) -> usize {
        let mut count = 0;
        for _ in 0..100 {
            sleep(time / 100).await;
            count += heartbeats(hub);
        }
        count
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

    #[tokio::test(start_paused = true)]
    async fn shards_hear_of_the_process_three_times_in_the_shortest_lease() {
        let hub = hub();
        [9_000_000, 3_000_000, 6_000_000].into_iter().for_each(|lease| hub.note_lease(lease));
        let keeper = tokio::spawn(Arc::clone(&hub).keep_time());
        heartbeats(&hub);
        let count = within(&hub, Duration::from_secs(30)).await;
        assert!((29..=31).contains(&count), "{count}");
        // A node that comes later and gives less is not left waiting for the next one of those.
        hub.note_lease(300_000);
        let count = within(&hub, Duration::from_secs(1)).await;
        assert!((9..=11).contains(&count), "{count}");
        keeper.abort();
    }
}
