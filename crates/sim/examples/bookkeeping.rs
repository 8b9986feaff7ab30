//! What the state machines' own work costs on this machine: the constants of the performance model that nobody
//! else has measured (`lock`, `message` and `process_message` in `model/costs.rs`).
//!
//! `cargo run --release -p claret-sim --example bookkeeping`. Medians over batches of 64 transactions, short enough
//! that most are not interrupted; counters, so that the data itself costs next to nothing.

use std::hint::black_box;
use std::time::Instant;

use claret_core::message::{Asks, Call, KeyedCall, Link, Listed, Members, Participants, Request, Response};
use claret_core::{
    AttemptId, CallNo, Client, Incarnation, Limits, Member, Session, SessionId, Shard, ShardId, Switches,
    Time, TxId, key_hash,
};
use claret_types::{Bytes, Counter, CounterOp, Operation};

const KEYS: usize = 1_000;
const ROUNDS: usize = 15;
/// Transactions in flight at once, and how many of such batches make a round.
const IN_FLIGHT: usize = 64;
const BATCHES: usize = 100;

/// Increments of keys that look random.
struct Draw {
    keys: Vec<Bytes>,
    state: u64,
}

impl Draw {
    fn new() -> Self {
        Draw { keys: (0..KEYS).map(|at| Bytes::from(format!("raw:{at}"))).collect(), state: 1 }
    }

    fn next(&mut self) -> (Bytes, Operation) {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = self.keys[(self.state >> 33) as usize % KEYS].clone();
        (key, Operation::new::<Counter>(CounterOp::Add(1)))
    }
}

fn shard() -> Shard {
    Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, Limits::default())
}

/// Nanoseconds for an operation alone.
fn unlocked(shard: &mut Shard, draw: &mut Draw, found: &mut Vec<f64>) {
    for _ in 0..BATCHES {
        let calls: Vec<_> = (0..4 * IN_FLIGHT).map(|_| draw.next()).collect();
        let began = Instant::now();
        for (key, op) in &calls {
            black_box(shard.unlocked(key_hash(key), key, op).expect("a counter"));
            shard.finish_instant();
        }
        found.push(began.elapsed().as_nanos() as f64 / calls.len() as f64);
    }
}

/// Nanoseconds for a transaction's part at one of two shards: a prepare of so many operations, and an apply.
fn locked(
    shard: &mut Shard,
    draw: &mut Draw,
    session: &mut Session,
    operations: usize,
    found: &mut Vec<f64>,
) {
    let listed = |shard| Listed { shard: ShardId(shard), incarnation: None };
    let participants: Participants = [listed(0), listed(1)].into();
    let link = Link { session: session.id(), connection: 0 };
    for _ in 0..BATCHES {
        let births: Vec<_> = (0..IN_FLIGHT).map(|_| session.begin(Time(1))).collect();
        let attempt = |tx: TxId| AttemptId { tx, attempt: 1 };
        let mut requests: Vec<Request> = births
            .iter()
            .map(|birth| {
                let calls = (0..operations as u32).map(|no| {
                    let (key, op) = draw.next();
                    KeyedCall { key, call: Call { no: CallNo(no), op, member: Member(0), reserve: None } }
                });
                Request::Prepare {
                    attempt: attempt(birth.tx),
                    birth: *birth,
                    participants: participants.clone(),
                    relies_on: 0,
                    calls: calls.collect(),
                    members: Members::All,
                    asks: Asks::Vote,
                    undone: Default::default(),
                }
            })
            .collect();
        requests.extend(births.iter().map(|birth| Request::Apply { attempt: attempt(birth.tx) }));
        let began = Instant::now();
        for request in requests {
            shard.handle(Time(1), link, request);
            while let Some(output) = shard.poll_output() {
                black_box(output);
            }
        }
        found.push(began.elapsed().as_nanos() as f64 / IN_FLIGHT as f64);
        births.iter().for_each(|birth| session.end(birth.tx));
        shard.handle(Time(1), link, Request::Heartbeat { live: Vec::new(), low_water: session.low_water() });
        while shard.poll_output().is_some() {}
    }
}

/// Nanoseconds for an operation or any other message at a client process: four operations at two shards, two votes, two
/// applies and two acknowledgements make 10.
fn driven(client: &mut Client, draw: &mut Draw, found: &mut Vec<f64>) {
    for _ in 0..BATCHES {
        let calls: Vec<_> = (0..4 * IN_FLIGHT).map(|_| draw.next()).collect();
        let began = Instant::now();
        for four in calls.chunks(4) {
            let tx = client.begin(Time(1), 1);
            for (at, (key, op)) in four.iter().enumerate() {
                let place = (at as u16 % 2, key.clone());
                client.buffer(Time(1), (tx, 1), place, op.clone()).expect("it runs");
            }
            client.commit(Time(1), (tx, 1)).expect("it runs");
        }
        client.settle(Time(1));
        while let Some((from, request)) = client.poll_send() {
            let response = match request {
                Request::Prepare { attempt, .. } => {
                    Response::Voted { attempt, shard: from, replies: Vec::new() }
                }
                Request::Apply { attempt } => Response::Applied { attempt, shard: from },
                other => unreachable!("{other:?}"),
            };
            client.handle_response(Time(1), from, response);
            client.settle(Time(1));
        }
        while let Some(event) = client.poll_event() {
            black_box(event);
        }
        found.push(began.elapsed().as_nanos() as f64 / (10 * IN_FLIGHT) as f64);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let (mut draw, mut plain, mut held) = (Draw::new(), shard(), shard());
    let mut session = Session::new(SessionId(0));
    let mut client = Client::direct(SessionId(0), Switches::CLARET, Limits::default(), 2);
    let mut found: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        unlocked(&mut plain, &mut draw, &mut found[0]);
        locked(&mut held, &mut draw, &mut session, 1, &mut found[1]);
        locked(&mut held, &mut draw, &mut session, 5, &mut found[2]);
        driven(&mut client, &mut draw, &mut found[3]);
    }
    let [unlocked, one, five, process] = found.map(median);
    let each = (five - one) / 4.0;
    println!("an operation alone                         {unlocked:6.0} ns");
    println!("an operation with its lock                 {each:6.0} ns");
    println!("lock: the difference                       {:6.0} ns", each - unlocked);
    println!("prepare and apply of one operation         {one:6.0} ns");
    println!("message: half of that without the operation {:5.0} ns", (one - each) / 2.0);
    println!("process_message                            {process:6.0} ns");
}
