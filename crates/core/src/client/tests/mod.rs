//! A client driven by hand: its connections and transactions, message by message.

mod batches;
mod connections;
mod hostile;
mod transactions;

use std::sync::Arc;

use claret_types::{Counter, CounterOp, Operation, Reply};

use super::*;
use crate::ids::TxId;
use crate::switches::{Discipline, Ordered};
use crate::ways::{ProcessWay, WaySwitches};

const SESSION: SessionId = SessionId(7);
const SHARD: ShardId = ShardId(0);
const OTHER: ShardId = ShardId(1);
const INCARNATION: Incarnation = Incarnation(5);
/// The slot that [`SHARD`] serves, and that of [`OTHER`].
const SLOT: u16 = 0;
const OTHER_SLOT: u16 = 1;
const CONNECTION: u32 = 1;
const OTHER_CONNECTION: u32 = 2;

fn node(name: &str) -> Node {
    Arc::from(name)
}

fn range(slot: u16, name: &str) -> SlotRange {
    SlotRange { first: slot, last: slot, node: node(name) }
}

/// Without any connection.
fn unconnected() -> Client {
    unconnected_with(Switches::CLARET)
}

fn unconnected_with(switches: Switches) -> Client {
    let mut client = Client::new(SESSION, switches, Limits::default(), 2, Pacing::default());
    client.adopt(Time(0), vec![range(SLOT, "a"), range(OTHER_SLOT, "b")]);
    client
}

/// Connected to both shards, which took the first heartbeat.
fn connected() -> Client {
    connect(unconnected())
}

fn connect(mut client: Client) -> Client {
    for (connection, name, shard) in [(CONNECTION, "a", SHARD), (OTHER_CONNECTION, "b", OTHER)] {
        client.connected(Time(0), connection, &node(name), (shard, INCARNATION), Limits::default().lease_us);
        let mut requests = Vec::new();
        client.take(shard, connection, &mut requests);
        assert!(matches!(requests[..], [Request::Heartbeat { .. }]), "{requests:?}");
        client.deliver(Time(0), (shard, connection), 1, std::iter::empty());
    }
    client
}

/// The table, and each way that has all transactions.
fn all_switches() -> impl Iterator<Item = Switches> {
    let by = |way: &ProcessWay| Switches::over_network_by(*way, Ordered::Never, WaySwitches::ROUNDS);
    [Switches::CLARET].into_iter().chain(ProcessWay::ALL.iter().map(by))
}

/// One with a coordinator for each transaction, and one for each way that has them all.
fn all_clients() -> impl Iterator<Item = Client> {
    all_switches().map(|switches| connect(unconnected_with(switches)))
}

fn attempt(sequence: u64) -> AttemptId {
    AttemptId { tx: TxId { session: SESSION, sequence: Sequence(sequence) }, attempt: 1 }
}

fn add() -> Operation {
    Operation::new::<Counter>(CounterOp::Add(1))
}

fn add_returning() -> Operation {
    Operation::new::<Counter>(CounterOp::AddReturning(1))
}

/// What leaves for a shard by now. The shard has answered all before.
fn sent_to(client: &mut Client, now: u64, shard: ShardId) -> Vec<Request> {
    client.settle(Time(now));
    let connection = if shard == SHARD { CONNECTION } else { OTHER_CONNECTION };
    let mut requests = Vec::new();
    client.take(shard, connection, &mut requests);
    client.deliver(Time(now), (shard, connection), 1, std::iter::empty());
    client.check_invariants();
    requests
}

fn told(client: &mut Client, now: u64) -> Vec<(TxHandle, Event)> {
    client.settle(Time(now));
    std::iter::from_fn(|| client.poll_event()).collect()
}

/// A transaction that adds to a counter at the shard, and commits: its prepare waits to be sent.
fn committing(client: &mut Client, now: u64) -> TxHandle {
    let tx = client.begin(Time(now), 1);
    client.buffer(Time(now), (tx, 1), (SLOT, "k".into()), add()).expect("it runs");
    client.commit(Time(now), (tx, 1)).expect("it runs");
    client.settle(Time(now));
    tx
}
