//! What must be released when an attempt ends, and what must not wait.

use claret_core::message::Request;
use claret_core::{Discipline, Event, Limits, Switches};
use claret_types::Reply;

use crate::harness::{Kind, World, get, incr, incr_returning, set};

/// Bug: one heartbeat refuses two silent attempts; the first one's release grants the second a lock before it
/// has heard of it, and ending the second forgot that lock. Consequence: it is held for ever. Mend: ending an
/// attempt releases what was granted in the same step, too.
#[test]
fn a_lock_granted_in_the_step_that_ends_its_attempt_is_released() {
    let mut w = World::new(1);
    w.holder(0, "k", incr_returning(1));
    w.holder(0, "k", incr_returning(1));
    let low_water = w.session.low_water();
    w.send(0, Request::Heartbeat { live: vec![], low_water });
    w.run();
    w.assert_quiet();
}

/// The same by time: both leases run out in one call.
#[test]
fn leases_that_run_out_together_leave_no_lock() {
    let mut w = World::new(1);
    w.holder(0, "k", incr_returning(1));
    w.holder(0, "k", incr_returning(1));
    w.pass_without_coordinators(Limits::default().lease_us);
    w.assert_quiet();
}

/// Bug: a transaction is granted one of two records and found impossible on the other by the same release.
/// Consequence: refused for the second, it kept the first. Mend: as above.
#[test]
fn an_attempt_that_fails_on_one_record_leaves_the_other() {
    let mut w = World::new(2);
    let holder = w.begin();
    w.execute(holder, 0, "a", get());
    w.execute(holder, 0, "b", get());
    w.run();
    w.buffer(holder, 0, "a", set("no number"));
    w.buffer(holder, 1, "c", incr(1));
    let waiter = w.begin();
    w.buffer(waiter, 0, "a", incr_returning(1));
    w.buffer(waiter, 0, "b", incr_returning(1));
    w.buffer(waiter, 1, "c", incr(1));
    w.commit(waiter);
    w.run();
    w.commit(holder);
    w.run();
    assert!(w.committed(holder));
    assert!(matches!(w.events(waiter)[..], [Event::Failed { .. }]), "'a' is no number any more");
    w.assert_quiet();
}

/// Bug: two executes of one transaction wait for one record, and the second takes the first one's place in the
/// queue. Consequence: the first is never answered. Mend: a transaction waits at most once on one record, and
/// what comes later stands behind.
#[test]
fn two_calls_of_one_transaction_that_wait_for_one_record_are_both_answered() {
    for switches in [Switches::CLARET, Switches::in_process(Discipline::AbstractPhased)] {
        let mut w = World::with(1, switches, Limits::default());
        let holder = w.holder(0, "k", incr_returning(1));
        let waiter = w.begin();
        w.execute(waiter, 0, "k", incr_returning(10));
        w.execute(waiter, 0, "k", get());
        w.run();
        assert!(!w.answered(waiter));
        w.commit(holder);
        w.run();
        assert_eq!(w.answers(waiter), [Reply::Int(11), Reply::Int(11)]);
        w.commit(waiter);
        w.run();
        assert_eq!(w.counter(0, "k"), 11);
        w.assert_quiet();
    }
}

/// Another session that asks is answered itself; the one that began the transaction is not.
#[test]
fn the_answer_to_a_question_goes_to_whoever_asks() {
    use claret_core::message::{Link, Output, Response, Status};
    let mut w = World::new(1);
    w.set_up(0, "k", incr(1));
    let attempt = claret_core::AttemptId {
        tx: claret_core::TxId { session: w.session.id(), sequence: claret_core::Sequence(1) },
        attempt: 1,
    };
    let asker = claret_core::SessionId(8);
    let link = Link { session: asker, connection: 0 };
    w.shards[0].handle(w.now, link, Request::Ask { attempt });
    match w.shards[0].poll_output() {
        Some(Output::Respond { session, response: Response::Asked { status, .. } }) => {
            assert_eq!((session, status), (asker, Status::Applied));
        }
        other => panic!("an answer, not {other:?}"),
    }
    assert_eq!(w.count(Kind::Other, 0), 0);
}
