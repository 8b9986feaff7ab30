//! Traps of callers who are told too soon, where calls are ordered (P77, P78): each with the planted bug that springs it. Seeds of the
//! simulator rarely have what it takes, so these scripts show that the bugs are noticed.
//!
//! Records `x`, `y` and `z` are sets, on the shards 0, 1 and 2.

use claret_core::message::{Asks, Link, Request, Response, owners_digest};
use claret_core::{
    Client, Event, Incarnation, Limits, Node, Pacing, SessionId, ShardId, SlotRange, Time, Timestamp,
};
use claret_types::{Counter, CounterOp, Operation, Reply, Set, SetOp};

use super::ordered::{ALWAYS, placed, told};
use crate::harness::{Kind, Tx, World, sadd, scard};

/// What the callers of this script were told while they had to wait.
type Early = Vec<Reply>;

/// A reader of `x` and `y` has voted at `y`, early in the order, and its prepare to `x` is late. A writer comes behind it at `y`, and
/// another reader behind the writer at `z`: that one met nobody. Whoever begins once it was told may be placed at `x` before the
/// reader that is late, and so before all three.
fn behind_what_is_not_settled() -> Option<Early> {
    let mut w = World::with(3, ALWAYS, Limits::default());
    placed(&mut w, 1, &[(0, scard()), (1, scard())]);
    w.hold(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    placed(&mut w, 2_000, &[(1, sadd("a")), (2, sadd("a"))]);
    w.run();
    let second = placed(&mut w, 3_000, &[(2, scard())]);
    w.run();
    told(&mut w, second)
}

/// The writer alone, which conflicts with the reader that is late: what that stands at in the end nobody knows.
fn beside_who_is_present() -> Option<Early> {
    let mut w = World::with(3, ALWAYS, Limits::default());
    placed(&mut w, 1, &[(0, scard()), (1, scard())]);
    w.hold(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let writer = placed(&mut w, 5_000, &[(1, sadd("a")), (2, sadd("a"))]);
    w.run();
    w.tick_all(2_000);
    told(&mut w, writer)
}

/// A writer met nobody, and its vote at `y` is smaller than at `x`. Who comes to `y` before the apply is placed between the two, and
/// so before the writer.
fn with_a_vote_below_its_place() -> (Option<Early>, Option<Early>) {
    let mut w = World::with(2, ALWAYS, Limits::default());
    let link = Link { session: SessionId(8), connection: 0 };
    w.shards[0].handle(w.now, link, Request::Tick { want: Timestamp(5_000) });
    assert!(w.shards[0].poll_output().is_some());
    let writer = placed(&mut w, 1_600, &[(0, sadd("a")), (1, sadd("a"))]);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    w.deliver(Kind::Voted, 0);
    w.deliver(Kind::Voted, 1);
    let early = told(&mut w, writer);
    let reader = placed(&mut w, 1_700, &[(1, scard())]);
    w.deliver(Kind::Prepare, 1);
    w.run();
    w.tick_all(9_000);
    w.run();
    (early, told(&mut w, reader))
}

/// A writer is told when all clocks have come to its place. Then another one writes `x`, and then the late reader comes there. What
/// the reader sees at `x` and `y`.
fn behind_published_clocks() -> Option<Early> {
    let mut w = World::with(3, ALWAYS, Limits::default());
    let reader = placed(&mut w, 1, &[(0, scard()), (1, scard())]);
    let late = w.hold(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let writer = placed(&mut w, 2_000, &[(1, sadd("a")), (2, sadd("a"))]);
    w.run();
    w.tick_all(2_000);
    assert_eq!(told(&mut w, writer), Some(Vec::new()));
    placed(&mut w, 1, &[(0, sadd("b"))]);
    w.deliver(Kind::Prepare, 0);
    w.hand_over(late);
    w.run();
    w.tick_all(10_000);
    told(&mut w, reader)
}

/// That a record is of another type tells of whoever made it so.
fn of_an_error() -> bool {
    let mut w = World::with(2, ALWAYS, Limits::default());
    placed(&mut w, 5_000, &[(0, sadd("a"))]);
    w.run();
    let wrong = w.begin();
    w.execute(wrong, 0, "x", Operation::new::<Counter>(CounterOp::AddReturning(1)));
    w.run();
    let fails = |w: &mut World, tx: Tx| w.events(tx).iter().any(|it| matches!(it, Event::Failed { .. }));
    let early = fails(&mut w, wrong);
    w.tick_all(5_000);
    assert!(early || fails(&mut w, wrong), "it is told in the end");
    early
}

/// An error tells of all that was done to a record. Who adds to it later commutes with what was there, and still comes behind it.
fn placed_before_what_an_error_saw() -> bool {
    let mut w = World::with(2, ALWAYS, Limits::default());
    placed(&mut w, 5_000, &[(0, sadd("a"))]);
    w.run();
    let wrong = w.begin();
    w.execute(wrong, 0, "x", Operation::new::<Counter>(CounterOp::AddReturning(1)));
    w.run();
    let later = placed(&mut w, 1_500, &[(0, sadd("b"))]);
    w.run();
    w.shards[0].final_timestamp(w.attempt(later)).expect("it is carried out") <= Timestamp(5_000)
}

/// A client process has heard the clock of one of two shards, and that has come to where its caller waits for it.
fn before_all_shards_are_heard() -> bool {
    let (now, session) = (Time(1), SessionId(1));
    let mut client = Client::new(session, ALWAYS, Limits::default(), 1, Pacing::default());
    let nodes: [Node; 2] = ["first:1".into(), "second:1".into()];
    let ranges =
        nodes.iter().zip(0..).map(|(node, at)| SlotRange { first: at, last: at, node: node.clone() });
    client.adopt(now, ranges.collect());
    for (node, number) in nodes.iter().zip(0..) {
        client.connected(now, number, node, (ShardId(number), Incarnation(1)), 1_000_000);
    }
    let tx = client.begin(now, 1);
    let add = Operation::new::<Set>(SetOp::Add(["a".into()].into_iter().collect()));
    client.buffer(now, (tx, 1), (0, "x".into()), add).expect("it runs");
    client.commit(now, (tx, 1)).expect("it runs");
    client.settle(now);
    let mut requests = Vec::new();
    client.take(ShardId(0), 0, &mut requests);
    let prepare = requests.into_iter().find_map(|request| match request {
        Request::Prepare { attempt, asks: Asks::Place(_), .. } => Some(attempt),
        _ => None,
    });
    let (attempt, at) = (prepare.expect("it left"), Timestamp(500));
    let replies = Some(Vec::new());
    let done = Response::Done { attempt, shard: ShardId(0), at, behind: Timestamp(at.0 - 1), replies };
    client.handle_response(now, ShardId(0), done);
    let owners = owners_digest([ShardId(0), ShardId(1)].into_iter());
    let ticked = Response::Ticked { clock: at, now, passed: Timestamp::default(), orders: true, owners };
    client.handle_response(now, ShardId(0), ticked.clone());
    client.settle(now);
    let is_told = |client: &mut Client| {
        std::iter::from_fn(|| client.poll_event()).any(|(_, event)| matches!(event, Event::Committed { .. }))
    };
    let early = is_told(&mut client);
    client.handle_response(now, ShardId(1), ticked);
    client.settle(now);
    assert!(early || is_told(&mut client), "it is told in the end");
    early
}

#[test]
fn nobody_is_told_too_soon() {
    assert_eq!(behind_what_is_not_settled(), None);
    assert_eq!(beside_who_is_present(), None);
    assert_eq!(with_a_vote_below_its_place().0, None);
    assert_eq!(behind_published_clocks(), Some(vec![Reply::Int(1), Reply::Int(1)]));
    assert!(!of_an_error());
    assert!(!placed_before_what_an_error_saw());
    assert!(!before_all_shards_are_heard());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn whoever_tells_too_soon_is_noticed() {
    use claret_core::{Bug, with_bug};
    let seen = vec![Reply::Int(1)];
    assert_eq!(with_bug(Some(Bug::UnsettledCounts), behind_what_is_not_settled), Some(seen));
    assert_eq!(with_bug(Some(Bug::PresentIsSettled), beside_who_is_present), Some(Vec::new()));
    // And whoever began after it was told does not see it.
    let unseen = (Some(Vec::new()), Some(vec![Reply::Int(0)]));
    assert_eq!(with_bug(Some(Bug::BehindBelowFinal), with_a_vote_below_its_place), unseen);
    // It sees the second one, which began after the first was told, and not the first.
    let torn = Some(vec![Reply::Int(1), Reply::Int(0)]);
    assert_eq!(with_bug(Some(Bug::VoteBelowClock), behind_published_clocks), torn);
    assert_eq!(with_bug(Some(Bug::ClockNotKept), behind_published_clocks), torn);
    assert!(with_bug(Some(Bug::ErrorToldAtOnce), of_an_error));
    assert!(with_bug(Some(Bug::ErrorUnnoted), placed_before_what_an_error_saw));
    assert!(with_bug(Some(Bug::OneClockIsSafeTime), before_all_shards_are_heard));
    assert!(with_bug(Some(Bug::UnheardLeftOut), before_all_shards_are_heard));
}
