//! What the simulator found, each reduced to the messages that matter.

use claret_core::message::{Refusal, Request, Response};
use claret_core::{Discipline, Event, Limits, Sequence, Switches};

use claret_types::{BoundedCounter, BoundedCounterOp, KeyspaceOp, Moment, Operation, Register, RegisterOp};

use crate::harness::{Body, Kind, World, get, incr, incr_returning, sadd, sadd_returning};

const UNPHASED: Switches = Switches::over_network(Discipline::Abstract);

const DIRECT: Switches = Switches::in_process(Discipline::AbstractPhased);

/// Bug: without phases each copy of a prepare is answered 'busy'. The one that exhausts the tries makes the
/// coordinator withdraw; the next, late, ended the attempt at once, without a recorded no. Consequence: the user
/// hears 'void', and the participants, all of which voted, commit. Mend: a busy counts only while it is awaited.
#[test]
fn a_late_busy_does_not_end_an_attempt_that_is_being_withdrawn() {
    let limits = Limits { lock_tries_max: 0, ..Limits::default() };
    let mut w = World::with(2, UNPHASED, limits);
    let holder = w.holder(1, "k", incr_returning(10));
    let tx = w.begin();
    w.buffer(tx, 0, "k", incr(1));
    w.buffer(tx, 1, "k", incr(1));
    w.commit(tx);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let busy = w.hold(Kind::Other, 1);
    w.hand_over(busy.clone()); // The tries are over: it withdraws.
    let withdraw = w.hold(Kind::Withdraw, 1);
    w.hand_over(busy);
    assert_eq!(w.restarts(tx), 0, "nobody has written no");
    w.lose_all();
    w.abort(holder);
    w.run();
    w.hand_over(withdraw);
    w.run();
    assert_eq!(w.restarts(tx), 1);
    w.assert_quiet();
}

/// Bug: with direct delivery nothing is remembered of an attempt that was refused, so a second execute that left
/// together with the refused one began it anew. Consequence: a lock that nobody ever gives back. Mend: the
/// coordinator sends its abort to the refuser too, behind the calls that were on their way.
#[test]
fn a_call_that_follows_a_refused_one_leaves_nothing_behind() {
    let mut w = World::with(1, DIRECT, Limits::default());
    w.set_up(0, "words", sadd("x"));
    let tx = w.begin();
    w.execute(tx, 0, "words", get()); // A set is no counter.
    w.execute(tx, 0, "k", incr_returning(1));
    w.run();
    let failed = |event: &Event| matches!(event, Event::Failed { refusal: Refusal::Operation { .. } });
    assert!(w.events(tx).iter().any(failed));
    w.assert_quiet();
    assert!(w.coordinator(tx).is_over());
}

/// The same without phases: a busy call makes the coordinator ask again for another one beside it, which is granted
/// already. The busy one is refused now, and the double of the other begins the attempt anew.
#[test]
fn a_call_asked_for_again_beside_a_refused_one_leaves_nothing_behind() {
    let mut w = World::with(1, Switches::in_process(Discipline::Abstract), Limits::default());
    w.set_up(0, "words", sadd("x"));
    let holder = w.holder(0, "words", sadd_returning("y"));
    let tx = w.begin();
    w.execute(tx, 0, "words", get()); // A set is no counter; but first, somebody holds it.
    w.execute(tx, 0, "k", incr_returning(1));
    w.deliver(Kind::Execute, 0);
    w.deliver(Kind::Execute, 0);
    let granted = w.hold(Kind::Granted, 0);
    w.abort(holder);
    w.run();
    w.pass(Limits::default().backoff_us_max);
    w.deliver(Kind::Execute, 0);
    w.deliver(Kind::Execute, 0);
    w.hand_over(granted);
    w.run();
    let failed = |event: &Event| matches!(event, Event::Failed { refusal: Refusal::Operation { .. } });
    assert!(w.events(tx).iter().any(failed));
    w.assert_quiet();
}

/// Bug: without phases a prepare that was busy is sent again. With direct delivery nothing is remembered of a refusal, so what came
/// again before its coordinator had heard of one began the attempt anew. Consequence: a record expired under a transaction, its user
/// heard that it is run again, and it committed; then the next run committed, too. Mend: a refusal stays one until the
/// coordinator's abort says that it knows.
#[test]
fn a_prepare_that_comes_again_after_a_refusal_does_not_commit() {
    let mut w = World::with(1, Switches::in_process(Discipline::Abstract), Limits::default());
    let until = KeyspaceOp::SetUntil { value: "old".into(), at: Moment::At(1_000) };
    w.set_up(0, "k", Operation::from(until));
    let holder = w.holder(0, "other", incr_returning(10));
    let tx = w.begin();
    w.buffer(tx, 0, "k", Operation::new::<Register>(RegisterOp::Get));
    w.buffer(tx, 0, "other", incr(1));
    w.commit(tx);
    w.run(); // It has the first, and is to ask again for the second.
    let now = w.now;
    assert_eq!(w.shards[0].expire(now, 2_000).len(), 1);
    w.abort(holder);
    w.deliver(Kind::Abort, 0);
    w.pass(Limits::default().backoff_us_max);
    let refused = w.hold(Kind::Refused, 0);
    w.deliver(Kind::Prepare, 0);
    assert_eq!(w.count(Kind::Committed, 0), 0, "it is refused");
    w.hand_over(refused);
    w.run();
    assert_eq!((w.restarts(tx), w.committed(tx), w.counter(0, "other")), (1, false, 0));
    w.assert_quiet();
}

/// Bug: with direct delivery a withdraw of what had just been committed was answered 'refused'. Consequence: none,
/// as long as 'committed' is heard first; it was untrue all the same. Mend: whoever is gone has been answered.
#[test]
fn a_withdraw_after_a_direct_commit_is_not_refused() {
    let mut w = World::with(1, DIRECT, Limits::default());
    let tx = w.begin();
    w.buffer(tx, 0, "k", incr(1));
    w.commit(tx);
    w.deliver(Kind::Prepare, 0);
    let committed = w.hold(Kind::Committed, 0);
    w.abort(tx);
    w.deliver(Kind::Withdraw, 0);
    assert_eq!(w.count(Kind::Refused, 0), 0);
    w.hand_over(committed);
    w.run();
    assert!(w.committed(tx) && !w.aborted(tx));
}

/// A withdraw so late that the session's low-water mark has passed the commit: the answer does not claim a no that was
/// written.
#[test]
fn a_withdraw_below_the_low_water_mark_is_stale() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.buffer(tx, 0, "k", incr(1));
    w.commit(tx);
    w.run();
    let attempt = w.attempt(tx);
    let low_water = Sequence(attempt.tx.sequence.0 + 1);
    w.send(0, Request::Heartbeat { live: Vec::new(), low_water });
    w.run();
    let aborts = w.shards[0].stats().aborts;
    w.send(0, Request::Withdraw { attempt });
    w.deliver(Kind::Withdraw, 0);
    let answer = w.hold(Kind::Refused, 0);
    let Body::Response(_, _, Response::Refused { refusal, .. }) = answer.body else { panic!("a refusal") };
    assert_eq!((refusal, w.shards[0].stats().aborts), (Refusal::Stale, aborts));
}

/// Bug: one release finds a transaction impossible on two records, both of which exist only because of it. The
/// first error ends it; it then stopped waiting on the second record, which was gone by then. Consequence: the
/// shard panicked. Mend: a record that is gone is no longer waited for.
#[test]
fn an_attempt_that_fails_on_two_records_at_once_ends_once() {
    let bounded = Operation::new::<BoundedCounter>;
    let mut w = World::new(1);
    let holder = w.begin();
    for key in ["a", "b"] {
        w.execute(holder, 0, key, bounded(BoundedCounterOp::Get));
    }
    w.run();
    let tx = w.begin();
    for key in ["a", "b"] {
        w.execute(tx, 0, key, bounded(BoundedCounterOp::Take(1))); // There is nothing to take from.
    }
    w.run();
    assert_eq!(w.shards[0].stats().waits, 2);
    w.abort(holder);
    w.run();
    let failed = |event: &Event| matches!(event, Event::Failed { refusal: Refusal::Operation { .. } });
    assert_eq!(w.events(tx).iter().filter(|event| failed(event)).count(), 1);
    w.assert_quiet();
}
