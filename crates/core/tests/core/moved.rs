//! A slot moves while a transaction has calls on a record in it: they go to one shard all the same (P44).

use claret_core::message::Request;
use claret_core::{Client, Incarnation, Limits, Node, Pacing, SessionId, ShardId, SlotRange, Switches, Time};
use claret_types::{Bounded, BoundedCounter, BoundedCounterOp, Operation};

/// The only slot.
fn served_by(node: &Node) -> Vec<SlotRange> {
    vec![SlotRange { first: 0, last: 0, node: node.clone() }]
}

/// The shards that hear of calls on one record: one is kept for the commit, then its slot goes to the second shard, and then one
/// is executed.
fn told_of_calls() -> Vec<ShardId> {
    let (now, session) = (Time(1), SessionId(1));
    let mut client = Client::new(session, Switches::CLARET, Limits::default(), 1, Pacing::default());
    let nodes: [Node; 2] = ["first:1".into(), "second:1".into()];
    client.adopt(now, served_by(&nodes[0]));
    for (node, number) in nodes.iter().zip(0..) {
        client.connected(now, number, node, (ShardId(number), Incarnation(1)), 1_000_000);
    }
    let (tx, place) = (client.begin(now, 1), || (0, "seats".into()));
    let create = BoundedCounterOp::Create(Bounded { value: 5, min: 0, max: 5 });
    let create = Operation::new::<BoundedCounter>(create);
    client.buffer(now, (tx, 1), place(), create).expect("it runs");
    client.adopt(now, served_by(&nodes[1]));
    let take = Operation::new::<BoundedCounter>(BoundedCounterOp::TakeReturning(1));
    client.execute(now, (tx, 1), place(), take, None).expect("it runs");
    client.settle(now);
    let mut told = Vec::new();
    for number in 0..2 {
        let mut requests = Vec::new();
        client.take(ShardId(number), number, &mut requests);
        let is_call = |request: &&Request| matches!(request, Request::Execute { .. });
        told.extend(requests.iter().filter(is_call).map(|_| ShardId(number)));
    }
    told
}

/// At the second shard it would find no record: the first one has to say that it is not there any more.
#[test]
fn calls_on_one_record_go_to_one_shard_though_its_slot_has_moved() {
    assert_eq!(told_of_calls(), [ShardId(0)]);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_client_that_parts_them_is_noticed() {
    use claret_core::{Bug, with_bug};
    assert_eq!(with_bug(Some(Bug::CallsOfOneRecordPart), told_of_calls), [ShardId(1)]);
}
