//! Traps 1, 2 and 6: each participant writes one yes or no for each attempt, once, and keeps it as long as somebody
//! may ask.

use claret_core::message::{Request, Status};
use claret_core::{Cause, Event, Limits, Switches};

use crate::harness::{Kind, Tx, World, get, incr, incr_returning};

/// A transaction over the first `shards` shards that adds one to 'k' on each.
fn spread(w: &mut World, shards: u32) -> Tx {
    let tx = w.begin();
    (0..shards).for_each(|shard| {
        w.buffer(tx, shard, "k", incr(1));
    });
    w.commit(tx);
    tx
}

/// Bug: A votes, B waits, and the coordinator declares the transaction aborted; B is let in and votes, and A, asking
/// B, hears yes and applies. Consequence: half of an aborted transaction. Mend: only a recorded no aborts.
#[test]
fn trap_01_abort_by_fiat_splits_a_transaction() {
    let mut w = World::new(2);
    let holder = w.holder(1, "k", incr_returning(10));
    let tx = spread(&mut w, 2);
    w.run(); // A voted, B waits.
    w.abort(tx);
    assert!(!w.aborted(tx), "not before a no is written");
    let withdraw = w.hold(Kind::Withdraw, 1);
    w.commit(holder);
    w.run(); // B votes; the vote arrives, and so the transaction is committed.
    w.hand_over(withdraw);
    w.run();
    assert!(w.committed(tx) && !w.aborted(tx));
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (1, 11));
    w.assert_quiet();
}

/// The other half: an abort that names no refusal reaches a participant that has voted.
#[test]
fn trap_01_who_voted_ignores_an_abort_without_a_refusal() {
    let mut w = World::new(2);
    let tx = spread(&mut w, 2);
    w.run_until(|message| message.kind() == Kind::Apply);
    let attempt = w.attempt(tx);
    w.send(0, Request::Abort { attempt, refused_by: None });
    w.deliver(Kind::Abort, 0);
    w.run();
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (1, 1));
}

/// A withdraw that overtakes its prepare leaves a no, which the prepare finds.
#[test]
fn trap_01_no_vote_after_a_no() {
    let mut w = World::new(2);
    let tx = spread(&mut w, 2);
    let late = w.hold(Kind::Prepare, 1);
    w.abort(tx);
    w.run();
    assert!(w.aborted(tx));
    w.hand_over(late);
    w.run();
    w.assert_quiet();
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (0, 0));
}

/// Bug: attempt 1 on {A, B} got A's yes and B's no; attempt 2 on {A, C} takes A's old yes for its own.
/// Consequence: committed although A has not locked anything for it. Mend: every message names its attempt.
#[test]
fn trap_02_one_id_over_several_attempts() {
    let mut w = World::new(3);
    let tx = spread(&mut w, 2);
    let attempt = w.attempt(tx);
    assert_eq!(w.inquire(1, attempt, None), Status::Refused);
    w.deliver(Kind::Prepare, 0);
    let old_yes = w.hold(Kind::Voted, 0);
    w.run_until(|message| message.kind() == Kind::Abort);
    assert!(matches!(w.events(tx)[..], [Event::Restart { cause: Cause::Refused(_) }]));
    w.restart(tx);
    w.buffer(tx, 0, "k", incr(1));
    w.buffer(tx, 2, "k", incr(1));
    w.commit(tx);
    w.hand_over(old_yes);
    w.deliver(Kind::Prepare, 2);
    w.deliver(Kind::Voted, 2);
    assert!(!w.committed(tx), "A has not voted for this attempt");
    w.run();
    assert!(w.committed(tx));
    assert_eq!([0, 1, 2].map(|shard| w.counter(shard, "k")), [1, 0, 1]);
    w.assert_quiet();
}

/// Bug: all voted, the user is told, A applies and forgets; B's apply is lost, B asks A, hears nothing and aborts.
/// Consequence: half a transaction. Mend: what is applied is remembered until every participant acknowledged it.
#[test]
fn trap_06_records_dropped_too_early() {
    let mut w = World::new(2);
    let tx = spread(&mut w, 2);
    w.run_until(|message| message.kind() == Kind::Apply);
    assert!(w.committed(tx));
    w.deliver(Kind::Apply, 0);
    w.lose_all();
    w.heartbeat(0); // The low-water mark stands below a transaction that is not acknowledged everywhere.
    assert_eq!(w.shards[0].remembered(), 1);
    w.pass_without_coordinators(Limits::default().lease_us);
    w.run();
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (1, 1));
    w.assert_quiet();
}

/// The other half: below the low-water mark everything is refused, never taken for new.
#[test]
fn trap_06_below_the_low_water_mark_nothing_is_new() {
    let mut w = World::new(1);
    let tx = spread(&mut w, 1);
    let double = w.bag[0].clone();
    w.run();
    let low_water = w.attempt(tx).tx;
    w.session.end(low_water);
    w.heartbeat(0);
    assert_eq!(w.shards[0].remembered(), 0);
    w.hand_over(double);
    w.run();
    assert_eq!(w.counter(0, "k"), 1);
    w.assert_quiet();
}

/// A prepare that comes twice is answered twice and executed once.
#[test]
fn trap_06_a_doubled_commit_is_executed_once() {
    let mut w = World::new(1);
    let _tx = spread(&mut w, 1);
    let double = w.bag[0].clone();
    w.deliver(Kind::Prepare, 0);
    w.hold(Kind::Committed, 0); // Lost.
    w.hand_over(double);
    w.run_until(|message| message.kind() == Kind::Committed);
    assert_eq!(w.count(Kind::Committed, 0), 1);
    assert_eq!(w.counter(0, "k"), 1);
}

/// Bug: of a message with several calls whose answers were lost, a shard says again so much and no more, and the coordinator
/// sends the same message again each time. Consequence: the same answer comes each time, and the others never do. Mend:
/// what is answered does not go again.
#[test]
fn answers_that_are_too_many_to_be_said_again_at_once_come_one_by_one() {
    let limits = Limits { again_bytes_max: 1, ..Limits::default() };
    let mut w = World::with(1, Switches::CLARET, limits);
    let tx = w.begin();
    for by in 1..=3 {
        w.buffer(tx, 0, "k", incr_returning(by));
    }
    w.execute(tx, 0, "k", get());
    w.deliver(Kind::Execute, 0);
    w.lose_all();
    for _ in 0..4 {
        w.pass(limits.resend_us);
        w.run();
    }
    assert_eq!(w.answers(tx).len(), 4);
    w.commit(tx);
    w.run();
    assert!(w.committed(tx) && w.counter(0, "k") == 6);
    w.assert_quiet();
}
