//! Traps of ordered calls: places, final timestamps, and when callers are told (P73 to P86).
//!
//! Records `x`, `y` and `z` are sets, on the shards 0, 1 and 2.

use claret_core::ways::WaySwitches;
use claret_core::{Event, Limits, Ordered, Switches};
use claret_types::{Operation, Reply};

use crate::harness::{Kind, Message, Tx, World, incr_returning, sadd, sadd_returning, scard, sismember};

pub(crate) const ALWAYS: Switches = Switches::claret(Ordered::Always, false, WaySwitches::ROUNDS);

fn world(shards: u32) -> World {
    World::with(shards, ALWAYS, Limits::default())
}

fn key(shard: u32) -> &'static str {
    ["x", "y", "z"][shard as usize]
}

/// A transaction of one call at each of these shards, whose prepares have left.
pub(crate) fn placed(w: &mut World, suggested: u64, calls: &[(u32, Operation)]) -> Tx {
    let tx = w.begin();
    for (shard, op) in calls {
        w.buffer(tx, *shard, key(*shard), op.clone());
    }
    w.commit_at(tx, suggested);
    tx
}

/// What its caller was told: the answers, in the order of the calls.
pub(crate) fn told(w: &mut World, tx: Tx) -> Option<Vec<Reply>> {
    let events = w.events(tx);
    events.into_iter().find_map(|event| match event {
        Event::Committed { mut replies } => {
            replies.sort_by_key(|(no, _)| *no);
            Some(replies.into_iter().map(|(_, reply)| reply).collect())
        }
        _ => None,
    })
}

fn check(w: &World) {
    w.shards.iter().for_each(claret_core::Shard::check_invariants);
}

#[test]
fn who_meets_nobody_is_told_after_one_round() {
    let mut w = world(2);
    let tx = placed(&mut w, 100, &[(0, sadd("a")), (1, scard())]);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    w.deliver(Kind::Voted, 0);
    w.deliver(Kind::Voted, 1);
    assert_eq!(told(&mut w, tx), Some(vec![Reply::Int(0)]));
    w.run();
    check(&w);
    assert_eq!(w.shards[0].open_attempts() + w.shards[1].open_attempts(), 0);
}

/// Two that each come first at one shard: with locks one of them would have to give way.
#[test]
fn who_meet_in_both_orders_wait_for_nobody() {
    let mut w = world(2);
    let one = placed(&mut w, 100, &[(0, sadd("a")), (1, scard())]);
    let other = placed(&mut w, 100, &[(0, scard()), (1, sadd("b"))]);
    let late: Vec<Message> = vec![w.hold(Kind::Prepare, 1)];
    // The prepare of the other one to 0 comes behind the first one's; that of the first to 1 behind the other's.
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    late.into_iter().for_each(|message| w.hand_over(message));
    w.run();
    check(&w);
    assert_eq!((told(&mut w, one), told(&mut w, other)), (None, None), "both met somebody");
    w.tick_all(100_000);
    w.run();
    let (one, other) = (told(&mut w, one), told(&mut w, other));
    let counts = (one.expect("told")[0].clone(), other.expect("told")[0].clone());
    assert!(
        counts == (Reply::Int(0), Reply::Int(1)) || counts == (Reply::Int(1), Reply::Int(0)),
        "one of them is before the other, everywhere: {counts:?}"
    );
}

/// Bug: who is committed is told. Consequence: a transaction that begins after that is ordered before it at a third shard, for one
/// that was placed there late. Mend: it is told when all clocks have come to its place.
#[test]
fn trap_26_told_before_all_clocks_have_come_to_its_place() {
    let mut w = world(3);
    let reader = placed(&mut w, 1, &[(0, scard()), (1, scard())]);
    let late = w.hold(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let writer = placed(&mut w, 2_000, &[(1, sadd("a")), (2, sadd("a"))]);
    w.deliver(Kind::Prepare, 1);
    w.deliver(Kind::Prepare, 2);
    w.run_until(|message| message.shard() == 0);
    assert_eq!(
        told(&mut w, writer),
        None,
        "the reader stands before it at one shard, and nobody knows where it ends"
    );
    w.tick_all(2_000);
    assert_eq!(told(&mut w, writer), Some(Vec::new()));
    // It begins after the writer was told, so whoever sees it sees the writer.
    let later = placed(&mut w, 1, &[(0, sadd("b"))]);
    w.deliver(Kind::Prepare, 0);
    w.hand_over(late);
    w.run();
    w.tick_all(10_000);
    w.run();
    check(&w);
    assert!(told(&mut w, later).is_some());
    assert_eq!(
        told(&mut w, reader),
        Some(vec![Reply::Int(1), Reply::Int(1)]),
        "it saw the later one, and so the writer"
    );
}

/// Bug: answers that came with a vote are believed. Consequence: the attempt gets a later place, another one is carried out before it,
/// and its answers are of no place. Mend: it is executed again in its place.
#[test]
fn trap_27_answers_of_a_place_that_was_not_final() {
    let mut w = world(2);
    // The clock of y is high for adds and reads: its vote there is larger than at x.
    let high = placed(&mut w, 5_000, &[(1, sadd("h"))]);
    w.run();
    let reader = placed(&mut w, 1_000, &[(0, scard()), (1, scard())]);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let between = placed(&mut w, 2_000, &[(0, sadd("a"))]);
    w.run();
    check(&w);
    w.tick_all(100_000);
    w.run();
    assert!(told(&mut w, high).is_some() && told(&mut w, between).is_some());
    assert_eq!(
        told(&mut w, reader),
        Some(vec![Reply::Int(1), Reply::Int(1)]),
        "the other one came before its place"
    );
}

/// Bug: ordered calls pass locks. Consequence: what an interactive transaction has seen changes before it commits. Mend: an
/// ordered call waits for locks before it votes, and a lock for entries until they are carried out (P80).
#[test]
fn trap_28_ordered_calls_and_locks_wait_for_each_other() {
    let mut w = world(1);
    let holder = w.holder(0, "x", sismember("a"));
    let adder = placed(&mut w, 100, &[(0, sadd("a"))]);
    w.run();
    assert_eq!(told(&mut w, adder), None, "it waits for the lock");
    w.commit_at(holder, 200);
    w.run();
    w.tick_all(10_000);
    w.run();
    assert!(told(&mut w, holder).is_some() && told(&mut w, adder).is_some());
    // And the other way round.
    let mut w = world(2);
    let adder = placed(&mut w, 100, &[(0, sadd("a")), (1, sadd("a"))]);
    w.deliver(Kind::Prepare, 0);
    let looker = w.begin();
    w.execute(looker, 0, "x", sismember("a"));
    w.deliver(Kind::Execute, 0);
    w.run_until(|message| message.kind() == Kind::Prepare || message.kind() == Kind::Apply);
    assert!(!w.answered(looker), "what was voted comes first");
    w.run();
    check(&w);
    assert_eq!(w.answers(looker), [Reply::Int(1)]);
    w.tick_all(10_000);
    assert!(told(&mut w, adder).is_some());
}

/// Bug: participants whose coordinator died carry out each at its own vote. Consequence: two such transactions are in different
/// orders at their shards. Mend: the largest of all votes (P84).
#[test]
fn trap_29_a_death_leaves_one_place_everywhere() {
    let mut w = world(2);
    let high = placed(&mut w, 5_000, &[(1, sadd("h"))]);
    w.run();
    assert!(told(&mut w, high).is_some());
    let reader = placed(&mut w, 1_000, &[(0, sadd("r")), (1, scard())]);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let attempt = w.attempt(reader);
    w.client_is_gone = true;
    w.lose_all();
    w.pass_without_coordinators(Limits::default().lease_us);
    w.run();
    check(&w);
    let places: Vec<_> = w.shards.iter().map(|shard| shard.final_timestamp(attempt)).collect();
    assert!(places[0].is_some() && places[0] == places[1], "{places:?}");
    assert_eq!(w.shards[0].open_attempts() + w.shards[1].open_attempts(), 0);
}

/// A set and a counter by one key: which of the two is there shows only when they are executed.
#[test]
fn calls_of_two_types_on_one_record_lock() {
    let mut w = world(2);
    let tx = w.begin();
    w.buffer(tx, 0, "x", sadd("a"));
    w.buffer(tx, 0, "x", Operation::new::<claret_types::Counter>(claret_types::CounterOp::Get));
    w.buffer(tx, 1, "y", sadd("a"));
    w.commit_at(tx, 100);
    w.run();
    check(&w);
    assert!(w.events(tx).iter().any(|event| matches!(event, Event::Failed { .. })), "it waits for itself");
    assert_eq!(w.shards[0].open_attempts() + w.shards[1].open_attempts(), 0);
}

/// On one of its records somebody stands before it, on the other nobody: a shard that stops now must not have half of it.
#[test]
fn a_shard_carries_all_of_an_attempt_out_at_once() {
    let mut w = world(2);
    let before = placed(&mut w, 50, &[(0, sadd("b")), (1, sadd("b"))]);
    w.deliver(Kind::Prepare, 0);
    let late = w.hold(Kind::Prepare, 1);
    let tx = w.begin();
    w.buffer(tx, 0, "other", sadd("a"));
    w.buffer(tx, 0, "x", scard());
    w.commit_at(tx, 100);
    w.deliver(Kind::Prepare, 0);
    check(&w);
    assert_eq!(w.shards[0].state(b"other"), None, "half of it is carried out");
    w.hand_over(late);
    w.run();
    w.tick_all(1_000);
    w.run();
    check(&w);
    assert!(w.shards[0].state(b"other").is_some());
    assert_eq!((told(&mut w, before), told(&mut w, tx)), (Some(vec![]), Some(vec![Reply::Int(1)])));
}

/// Bug: an entry that got its final timestamp told who stood before it of those alone who waited on that record. It had been told
/// on another one. Consequence: an elder waits there for it, it waits for a younger one, and that one for the elder, for ever. Mend:
/// what an attempt hears on one of its records counts on all of them (P81).
#[test]
fn trap_30_an_elder_on_one_record_waits_for_who_stands_before_on_another() {
    let mut w = world(2);
    let elder = w.holder(1, "k", incr_returning(1));
    let younger = w.begin();
    w.buffer(younger, 0, "x", sadd("a"));
    w.buffer(younger, 1, "k", incr_returning(1));
    w.commit_at(younger, 2_000);
    w.run();
    let between = w.begin();
    w.buffer(between, 0, "x", scard());
    w.buffer(between, 0, "other", scard());
    w.buffer(between, 1, "y", sadd("b"));
    w.commit_at(between, 3_000);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    w.execute(elder, 0, "other", sadd_returning("c"));
    w.run();
    w.pass(Limits::default().give_way_us);
    w.run();
    check(&w);
    assert_eq!(w.restarts(younger), 1, "it is in the way of the elder one");
    assert_eq!(w.answers(elder).len(), 2);
}
