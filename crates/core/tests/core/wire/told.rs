//! What a shard tells its replicas of each example operation: tests and fuzzers begin with these bytes.

use claret_core::message::{Asks, KeyedCall, Link, Listed, Members, Request};
use claret_core::ways::WaySwitches;
use claret_core::wire::encode_change;
use claret_core::{
    Birth, Incarnation, Limits, Ordered, SessionId, Shard, ShardId, Switches, Time, Timestamp,
};
use claret_types::{Bytes, Operation};

use super::samples;

/// Of each operation: that it was granted and voted for, and the same with what was decided then; by locks, and in order.
pub(crate) fn all() -> Vec<Vec<u8>> {
    let told = |asks: Asks| {
        let numbered = (1..).zip(samples::operations());
        numbered.flat_map(move |(number, op)| told_of(number, op, asks.clone()))
    };
    told(Asks::Vote).chain(told(Asks::Place(Timestamp(5)))).collect()
}

fn told_of(number: u64, op: Operation, asks: Asks) -> [Vec<u8>; 2] {
    let ordering = if asks == Asks::Vote { Ordered::Never } else { Ordered::Always };
    let switches = Switches::claret(ordering, false, WaySwitches::ROUNDS);
    let mut shard = Shard::new(ShardId(0), Incarnation(1), switches, Limits::default());
    let link = Link { session: SessionId(7), connection: 0 };
    let attempt = samples::attempt(7, number, 1);
    let listed = |shard| Listed { shard: ShardId(shard), incarnation: Some(Incarnation(1)) };
    shard.greet(link.session, 1, Incarnation(1));
    shard.replicate();
    let prepare = Request::Prepare {
        attempt,
        birth: Birth { time: Time(1), tx: attempt.tx },
        participants: [listed(0), listed(1)].into_iter().collect(),
        relies_on: 0,
        calls: vec![KeyedCall { key: Bytes::from("k"), call: samples::call(1, op) }],
        members: Members::All,
        asks,
        undone: Default::default(),
    };
    let mut told = Vec::new();
    [prepare, Request::Apply { attempt }].map(|request| {
        shard.handle(Time(2), link, request);
        // Nothing is written of what was refused.
        let changes = shard.poll_changes().map(|(_, changes)| changes).unwrap_or_default();
        told.extend(changes.iter().flat_map(|change| encode_change(change).expect("a built-in type")));
        told.clone()
    })
}
