//! Many transactions over twins, with every message delivered, doubled or kept back as a seed says, while the host
//! loses records, refuses attempts and restarts its shards.

use claret_core::message::{Link, Output, PeerMessage, Refusal, Request, Response};
use claret_core::{
    AttemptId, Closed, Coordinator, Discipline, Event, Incarnation, Limits, Session, SessionId, ShardId,
    Survives, Switches, Time,
};
use claret_types::{Bytes, Counter, CounterOp, DataType, Operation, UidGenerator, builtin_examples};

use super::twins::Twins;

const LINK: Link = Link { session: SessionId(7), connection: 0 };
const TRANSACTIONS: usize = 150;
const RUNNING: usize = 8;
const STEPS: usize = 200_000;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// A key, its shard, and the operations that belong there.
struct Place {
    key: Bytes,
    shard: usize,
    ops: Vec<Operation>,
}

/// One for each type, in turn at one shard and the other; two more of some, and one for the types that share records. The last one has
/// the unique numbers, at shard 0.
fn places() -> Vec<Place> {
    let is_unique = |name: &str| name == UidGenerator::NAME;
    let of = |name: &str| builtin_examples().find(|(kind, _)| kind.name == name).expect("it is built in").1;
    let text = ["register", "counter", "float-counter"].map(of).concat();
    let more = [("text", text), ("set too", of("set")), ("list too", of("list"))];
    let each = builtin_examples().map(|(kind, ops)| (kind.name, ops)).filter(|(name, _)| !is_unique(name));
    let place =
        |(at, (key, ops)): (usize, (&str, Vec<Operation>))| Place { key: key.into(), shard: at % 2, ops };
    let mut places: Vec<Place> = each.chain(more).enumerate().map(place).collect();
    places.push(Place { key: "uid".into(), shard: 0, ops: of(UidGenerator::NAME) });
    places
}

/// Nothing in the name of an attempt that is over is taken (P61).
fn assert_closed(now: Time, coordinator: &mut Coordinator, ended: AttemptId) {
    let before = coordinator.digest();
    let op = || Operation::new::<Counter>(CounterOp::AddReturning(1));
    assert_eq!(coordinator.execute(now, ended, ShardId(0), "k".into(), op(), None), Err(Closed));
    assert_eq!(coordinator.buffer(ended, ShardId(0), "k".into(), op()), Err(Closed));
    assert_eq!(coordinator.commit(now, ended, &[]), Err(Closed));
    assert_eq!(coordinator.digest(), before, "it changed something");
}

struct Client {
    coordinator: Coordinator,
    /// Each with its place, and whether its answer is wanted before the commit.
    script: Vec<(usize, Operation, bool)>,
    at: usize,
    aborts: bool,
    ending: bool,
    done: bool,
}

enum Message {
    Request(usize, Request),
    Response(usize, Response),
    Peer(usize, PeerMessage),
}

struct World {
    random: Random,
    now: Time,
    places: Vec<Place>,
    shards: Vec<Twins>,
    session: Session,
    clients: Vec<Client>,
    bag: Vec<Message>,
    switches: Switches,
    limits: Limits,
    committed: usize,
    vanished: usize,
    refused: usize,
}

impl World {
    fn new(seed: u64, switches: Switches) -> Self {
        let limits = Limits {
            lease_us: 30_000,
            inquire_us: 5_000,
            inquire_us_max: 5_000,
            resend_us: 3_000,
            ..Limits::default()
        };
        let places = places();
        let mut shards = [0, 1].map(|id| Twins::new(id, switches, limits));
        for place in &places {
            let probes = place.ops.iter().step_by(5).map(|op| (place.key.clone(), op.clone()));
            shards[place.shard].probes.extend(probes);
        }
        World {
            random: Random(seed * 2 + 1),
            now: Time(1),
            places,
            shards: shards.into(),
            session: Session::new(LINK.session),
            clients: Vec::new(),
            bag: Vec::new(),
            switches,
            limits,
            committed: 0,
            vanished: 0,
            refused: 0,
        }
    }

    fn begin(&mut self) {
        let random = &mut self.random;
        let steps = 1 + random.below(5);
        let favourite = random.below(self.places.len());
        let script = (0..steps).map(|_| {
            let place = if random.one_in(2) { favourite } else { random.below(self.places.len()) };
            // The last place has the unique numbers, which are the twins' own outside of shard 0.
            let of = if random.one_in(50) { random.below(self.places.len() - 1) } else { place };
            let op = random.pick(&self.places[of].ops).clone();
            let waits = op.returns() && !random.one_in(5);
            (place, op, waits)
        });
        let script = script.collect();
        let birth = self.session.begin(self.now);
        let coordinator = Coordinator::new(birth, self.switches, self.limits, birth.tx.sequence.0);
        let aborts = self.random.one_in(12);
        self.clients.push(Client { coordinator, script, at: 0, aborts, ending: false, done: false });
    }

    /// The application does its next step, if it does not wait.
    fn act(&mut self, at: usize) {
        let now = self.now;
        let client = &mut self.clients[at];
        let attempt = client.coordinator.attempt();
        if client.done || client.ending || client.coordinator.awaits_answers() {
            return;
        }
        let Some((place, op, waits)) = client.script.get(client.at).cloned() else {
            client.ending = true;
            return if client.aborts {
                client.coordinator.abort(now)
            } else {
                client.coordinator.commit(now, attempt, &[]).expect("it runs")
            };
        };
        client.at += 1;
        let Place { key, shard, .. } = &self.places[place];
        let shard = ShardId(*shard as u32);
        if waits {
            client.coordinator.execute(now, attempt, shard, key.clone(), op, None).expect("it runs");
        } else {
            client.coordinator.buffer(attempt, shard, key.clone(), op).expect("it runs");
        }
    }

    /// Takes what the coordinators want sent, and tells their applications.
    fn collect(&mut self) {
        for client in &mut self.clients {
            while let Some((shard, request)) = client.coordinator.poll_send() {
                self.bag.push(Message::Request(shard.0 as usize, request));
            }
            while let Some(event) = client.coordinator.poll_event() {
                match event {
                    Event::Answer { .. } | Event::Behind { .. } | Event::Seen { .. } => {}
                    Event::Restart { .. } => {
                        let ended = client.coordinator.attempt();
                        assert_closed(self.now, &mut client.coordinator, ended);
                        client.coordinator.restart(ended).expect("it was told to");
                        assert_closed(self.now, &mut client.coordinator, ended);
                        (client.at, client.ending) = (0, false);
                    }
                    Event::Committed { .. } => {
                        self.committed += 1;
                        client.done = true;
                    }
                    Event::Aborted | Event::Failed { .. } => client.done = true,
                    Event::Unknown => panic!("votes survive here"),
                }
            }
            if client.done && client.coordinator.is_over() {
                self.session.end(client.coordinator.birth().tx);
            }
        }
    }

    /// Hands an input to the twins at a shard.
    fn give(&mut self, at: usize, input: impl Fn(&mut claret_core::Shard)) {
        for output in self.shards[at].both(input) {
            self.bag.push(match output {
                Output::Respond { response, .. } => {
                    if let Response::Refused { refusal, .. } = &response {
                        self.vanished += usize::from(matches!(refusal, Refusal::Vanished { .. }));
                        self.refused += usize::from(*refusal == Refusal::ReadOnly);
                    }
                    Message::Response(at, response)
                }
                Output::Tell { shard, message } => Message::Peer(shard.0 as usize, message),
            });
        }
    }

    /// Delivers one of the messages, and sometimes twice.
    fn deliver(&mut self) {
        if self.bag.is_empty() {
            return;
        }
        let message = self.bag.remove(self.random.below(self.bag.len().min(6)));
        let now = self.now;
        match message {
            Message::Request(shard, request) => {
                let times = if self.random.one_in(30) { 2 } else { 1 };
                (0..times).for_each(|_| self.give(shard, |it| it.handle(now, LINK, request.clone())));
            }
            Message::Peer(shard, message) => self.give(shard, |it| it.handle_peer(now, message.clone())),
            Message::Response(shard, response) => {
                let tx = response.attempt().expect("it is about one").tx;
                let client = self.clients.iter_mut().find(|it| it.coordinator.birth().tx == tx);
                let coordinator = &mut client.expect("it began").coordinator;
                coordinator.handle_response(now, ShardId(shard as u32), response);
            }
        }
    }

    /// What happens to a host.
    fn trouble(&mut self) {
        let now = self.now;
        match self.random.below(20) {
            0..12 => {
                let Place { key, shard, .. } = self.random.pick(&self.places);
                let (key, shard) = (key.clone(), *shard);
                self.shards[shard].lose(&key);
                self.give(shard, |it| it.vanished(now, std::slice::from_ref(&key)));
            }
            12..15 => {
                let shard = self.random.below(2);
                self.give(shard, |it| it.refuse_unvoted(now, &Refusal::ReadOnly));
            }
            15..19 if !self.clients.is_empty() => {
                let attempt = self.random.pick(&self.clients).coordinator.attempt();
                let shard = self.random.below(2);
                self.give(shard, |it| it.turn_away(now, LINK, attempt, Refusal::ReadOnly));
            }
            _ => {
                let shard = 1; // Not that of the unique numbers.
                let next = Incarnation(self.shards[shard].incarnation().0 + 1);
                self.give(shard, |it| it.restart(now, next, Survives::Votes));
            }
        }
    }

    fn pass(&mut self, micros: u64) {
        self.now = self.now.plus(micros);
        let now = self.now;
        (0..2).for_each(|shard| self.give(shard, |it| it.handle_timeout(now)));
        self.clients.iter_mut().for_each(|client| client.coordinator.handle_timeout(now));
    }

    fn heartbeat(&mut self) {
        let live = self.clients.iter().flat_map(|client| client.coordinator.live()).collect();
        let request = Request::Heartbeat { live, low_water: self.session.low_water() };
        self.bag.extend([0, 1].map(|shard| Message::Request(shard, request.clone())));
    }

    fn run(&mut self) {
        let mut step = 0;
        while self.clients.len() < TRANSACTIONS || self.clients.iter().any(|client| !client.done) {
            step += 1;
            assert!(step < STEPS, "somebody waits for ever");
            let running: Vec<usize> = (0..self.clients.len()).filter(|at| !self.clients[*at].done).collect();
            match self.random.below(100) {
                0..5 if running.len() < RUNNING && self.clients.len() < TRANSACTIONS => self.begin(),
                5..30 if !running.is_empty() => {
                    let at = *self.random.pick(&running);
                    self.act(at);
                }
                97 => self.heartbeat(),
                98 => {
                    let micros = self.random.below(1500) as u64;
                    self.pass(micros);
                }
                99 if self.random.one_in(3) => self.trouble(),
                _ => self.deliver(),
            }
            self.collect();
        }
    }

    /// Until all locks are gone.
    fn settle(&mut self) {
        for _ in 0..40 {
            while !self.bag.is_empty() {
                self.deliver();
                self.collect();
            }
            self.heartbeat();
            self.pass(self.limits.inquire_us);
            self.collect();
        }
        for twins in &self.shards {
            twins.assert_quiet();
            twins.compare();
        }
    }
}

/// Runs seeds; at least a part of what can happen did.
fn check(seeds: std::ops::Range<u64>, switches: Switches) {
    let (mut committed, mut vanished, mut refused, mut waits) = (0, 0, 0, 0);
    for seed in seeds {
        let mut world = World::new(seed, switches);
        world.run();
        world.settle();
        committed += world.committed;
        vanished += world.vanished;
        refused += world.refused;
        waits += world.shards.iter().map(|twins| twins.stats().waits).sum::<u64>();
    }
    assert!(
        committed > 0 && vanished > 0 && refused > 0 && waits > 0,
        "{committed} {vanished} {refused} {waits}"
    );
}

#[test]
fn records_elsewhere_are_as_records_in_memory() {
    check(0..60, Switches::CLARET);
}

#[test]
fn the_same_with_reader_writer_locks() {
    check(100..110, Switches::over_network(Discipline::ReaderWriterPhased));
}

#[test]
fn the_same_without_phases() {
    check(200..210, Switches::over_network(Discipline::Abstract));
}
