//! Trap 22: an attempt is refused while its user does something else, and the user goes on with it.
//!
//! Bug: the coordinator takes calls, and the commit, of an attempt that is over. Consequence: a commit that lists
//! only later calls, half of the transaction; or a call whose answer counts for a call of the next attempt, which
//! then waits for ever. Mend: calls, commits and restarts name their attempt, and nothing is taken for an attempt
//! that is over (P61).

use claret_core::message::Request;
use claret_core::{AttemptId, CallNo, Closed, Coordinator, Event, Limits, ShardId, Switches};

use crate::harness::{Kind, Tx, World, get, incr, incr_returning};

/// A transaction that has read `k` at shard 0, whose attempt that shard has refused since.
fn refused(w: &mut World) -> (Tx, AttemptId) {
    let tx = w.holder(0, "k", incr_returning(1));
    let attempt = w.attempt(tx);
    w.heartbeat_without(0);
    w.run();
    assert_eq!(w.restarts(tx), 1);
    w.events(tx);
    (tx, attempt)
}

fn execute(w: &mut World, tx: Tx, attempt: AttemptId, shard: u32) -> Result<CallNo, Closed> {
    let now = w.now;
    w.coordinator_mut(tx).execute(now, attempt, ShardId(shard), "k".into(), get(), None)
}

fn buffer(w: &mut World, tx: Tx, attempt: AttemptId, shard: u32) -> Result<CallNo, Closed> {
    w.coordinator_mut(tx).buffer(attempt, ShardId(shard), "k".into(), incr(10))
}

fn commit(w: &mut World, tx: Tx, attempt: AttemptId) -> Result<(), Closed> {
    let now = w.now;
    w.coordinator_mut(tx).commit(now, attempt, &[])
}

/// Nothing of an attempt is taken, and nothing comes of the try.
fn assert_closed(w: &mut World, tx: Tx, attempt: AttemptId) {
    let before = w.coordinator(tx).digest();
    assert_eq!(execute(w, tx, attempt, 1), Err(Closed));
    assert_eq!(buffer(w, tx, attempt, 1), Err(Closed));
    assert_eq!(commit(w, tx, attempt), Err(Closed));
    let coordinator = w.coordinator_mut(tx);
    assert_eq!(coordinator.take_buffered(attempt), None);
    assert_eq!(coordinator.put_back(attempt, Vec::new()), Err(Closed));
    assert_eq!(coordinator.close_instantly(attempt), Err(Closed));
    assert_eq!(coordinator.digest(), before, "it changed something");
    assert_eq!((coordinator.poll_send(), coordinator.poll_event()), (None, None));
}

#[test]
fn trap_22_a_closed_attempt_takes_nothing_and_half_of_it_does_not_commit() {
    let mut w = World::new(2);
    let (tx, attempt) = refused(&mut w);
    assert_closed(&mut w, tx, attempt);
    w.restart(tx);
    w.execute(tx, 0, "k", incr_returning(1));
    w.run();
    w.buffer(tx, 1, "k", incr(10));
    w.commit(tx);
    w.run();
    assert!(w.committed(tx));
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (1, 10), "once, and all of it");
    w.assert_quiet();
}

#[test]
fn trap_22_a_call_of_a_closed_attempt_leaves_no_answer_for_the_next() {
    let mut w = World::new(2);
    let (tx, attempt) = refused(&mut w);
    assert_eq!(execute(&mut w, tx, attempt, 1), Err(Closed));
    w.restart(tx);
    assert!(!w.coordinator(tx).awaits_answers(), "the next attempt has asked for nothing");
    w.execute(tx, 1, "k", get());
    w.run();
    w.pass(Limits::default().resend_us + 1);
    w.run();
    assert_eq!(w.answers(tx).len(), 1, "one call, one answer");
    w.commit(tx);
    w.run();
    assert!(w.committed(tx));
    w.assert_quiet();
}

#[test]
fn a_call_of_an_earlier_attempt_is_not_taken_for_one_of_this() {
    let mut w = World::new(2);
    let (tx, attempt) = refused(&mut w);
    w.restart(tx);
    assert_closed(&mut w, tx, attempt);
    let next = w.attempt(tx);
    assert_eq!(w.coordinator_mut(tx).restart(next), Err(Closed), "it runs");
    assert_eq!(w.coordinator_mut(tx).restart(attempt), Err(Closed), "it runs again already");
    w.buffer(tx, 1, "k", incr(1));
    w.commit(tx);
    w.run();
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (0, 1));
}

#[test]
fn a_commit_under_way_takes_no_more_calls() {
    let mut w = World::new(2);
    let tx = w.begin();
    let attempt = w.attempt(tx);
    w.buffer(tx, 0, "k", incr(1));
    w.buffer(tx, 1, "k", incr(1));
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Voted);
    assert_closed(&mut w, tx, attempt);
    w.run();
    assert_closed(&mut w, tx, attempt);
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (1, 1));
    assert_eq!(w.coordinator_mut(tx).restart(attempt), Err(Closed), "what is committed is not run again");
    w.assert_quiet();
}

#[test]
fn a_commit_before_all_is_answered_aborts() {
    let mut w = World::new(2);
    let tx = w.begin();
    let attempt = w.attempt(tx);
    w.execute(tx, 0, "k", incr_returning(1));
    w.buffer(tx, 1, "k", incr(1));
    assert_eq!(commit(&mut w, tx, attempt), Err(Closed));
    w.run();
    assert_eq!(w.events(tx), [Event::Aborted]);
    assert_closed(&mut w, tx, attempt);
    assert_eq!(w.coordinator_mut(tx).restart(attempt), Err(Closed), "its user was not told to");
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (0, 0));
    w.assert_quiet();
}

#[test]
fn a_coordinator_that_serves_another_transaction_takes_nothing_of_the_one_before() {
    let mut w = World::new(2);
    let (now, switches, limits) = (w.now, Switches::CLARET, Limits::default());
    let (first, second) = (w.session.begin(now), w.session.begin(now));
    let mut coordinator = Coordinator::new(first, switches, limits, 1);
    let attempt = coordinator.attempt();
    assert!(!coordinator.vacate(), "it runs");
    assert_eq!(coordinator.attempt(), attempt);
    assert_eq!(coordinator.close_instantly(attempt), Ok(()));
    assert!(coordinator.vacate());
    for renewed in [false, true] {
        if renewed {
            coordinator.renew(second, 1, &[]);
        }
        let before = coordinator.digest();
        let key = || "k".into();
        assert_eq!(coordinator.execute(now, attempt, ShardId(0), key(), get(), None), Err(Closed));
        assert_eq!(coordinator.buffer(attempt, ShardId(0), key(), incr(1)), Err(Closed));
        assert_eq!(coordinator.commit(now, attempt, &[]), Err(Closed));
        assert_eq!(coordinator.restart(attempt), Err(Closed));
        assert_eq!(coordinator.digest(), before, "it changed something");
    }
    let mine = coordinator.attempt();
    assert_eq!(coordinator.buffer(mine, ShardId(0), "k".into(), incr(1)), Ok(CallNo(0)));
    assert_eq!(coordinator.commit(now, mine, &[]), Ok(()));
    assert!(matches!(coordinator.poll_send(), Some((ShardId(0), Request::Prepare { .. }))));
}

#[test]
fn calls_that_were_taken_are_put_back_before_those_that_came_meanwhile() {
    let mut w = World::new(1);
    let tx = w.begin();
    let attempt = w.attempt(tx);
    let (first, second) = (w.buffer(tx, 0, "k", incr(1)), CallNo(1));
    let taken = w.coordinator_mut(tx).take_buffered(attempt).expect("nothing was sent");
    assert_eq!(w.buffer(tx, 0, "k", incr(2)), second);
    assert_eq!(w.coordinator_mut(tx).close_instantly(attempt), Err(Closed), "there is more than was taken");
    w.coordinator_mut(tx).put_back(attempt, taken).expect("it runs");
    let all = w.coordinator_mut(tx).take_buffered(attempt).expect("nothing was sent");
    let numbers: Vec<CallNo> = all.iter().map(|(_, call)| call.call.no).collect();
    assert_eq!(numbers, [first, second]);
}
