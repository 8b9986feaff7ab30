//! The lock table as seen through a shard: who shares a record, who waits, who is let in, and what is left behind.

use claret_core::message::Refusal;
use claret_core::{Cause, Discipline, Event, Limits, Switches};
use claret_types::{
    BoundedCounter, BoundedCounterOp, Claims, Dict, DictOp, Mode, Operation, Reply, Set, few,
};

use crate::harness::{
    Kind, Tx, World, get, incr, incr_returning, sadd, sadd_returning, scard, set, sismember,
};

const READER_WRITER: Switches = Switches::over_network(Discipline::ReaderWriterPhased);
const WITHOUT_PHASES: Switches = Switches::over_network(Discipline::Abstract);

/// Two shards; a transaction over both, stopped after its votes: it holds `op`'s claims on 'k' at the first.
fn pending(w: &mut World, op: Operation) -> Tx {
    let tx = w.begin();
    w.buffer(tx, 0, "k", op);
    w.buffer(tx, 1, &format!("other {}", tx.0), incr(1));
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Apply);
    tx
}

fn answered(w: &World, all: &[Tx]) -> Vec<bool> {
    all.iter().map(|tx| w.answered(*tx)).collect()
}

// --- sharing ---

#[test]
fn operations_that_commute_share_a_record() {
    let mut w = World::new(2);
    let adders: Vec<Tx> = (0..10).map(|_| pending(&mut w, incr(1))).collect();
    assert!(adders.iter().all(|tx| w.committed(*tx)), "all have voted, none has applied");
    assert_eq!((w.counter(0, "k"), w.shards[0].open_attempts()), (0, 10));
    w.run();
    assert_eq!(w.counter(0, "k"), 10);
    w.assert_quiet();
}

#[test]
fn operations_on_different_elements_share_a_record() {
    let mut w = World::new(1);
    let all = ["a", "b", "c"].map(|member| w.holder(0, "s", sadd_returning(member)));
    assert_eq!(answered(&w, &all), [true; 3]);
    let same = w.holder(0, "s", sadd_returning("b"));
    assert!(!w.answered(same));
}

#[test]
fn what_an_operation_claims_depends_on_the_state() {
    let mut w = World::new(2);
    w.set_up(0, "k", sadd("in"));
    let counter = w.holder(0, "k", scard());
    let present = pending(&mut w, sadd("in"));
    assert!(w.committed(present), "it changes nothing, and commutes with the count");
    let absent = pending(&mut w, sadd("out"));
    assert!(!w.committed(absent));
    w.commit(counter);
    w.run();
    assert!(w.committed(absent));
}

#[test]
fn reader_writer_locks_exclude_what_commutes() {
    let mut w = World::with(2, READER_WRITER, Limits::default());
    let first = pending(&mut w, incr(1));
    let second = pending(&mut w, incr(1));
    assert!(w.committed(first) && !w.committed(second));
    w.run();
    assert!(w.committed(second));
    let readers = [w.holder(0, "k", get()), w.holder(0, "k", get())];
    assert_eq!(w.answers(readers[0]), [Reply::Int(2)]);
    assert_eq!(w.answers(readers[1]), [Reply::Int(2)], "readers share");
    let writer = w.holder(0, "k", incr_returning(1));
    assert!(!w.answered(writer));
}

#[test]
fn two_types_on_one_key_exclude_each_other() {
    let mut w = World::new(1);
    let counted = w.holder(0, "k", scard());
    let bounded = w.holder(0, "k", Operation::new::<BoundedCounter>(BoundedCounterOp::Get));
    assert!(
        w.answered(counted) && !w.answered(bounded),
        "two reads, of two types, of a record that is not there"
    );
    let written = w.begin();
    w.buffer(written, 0, "k", sadd("a"));
    w.commit(written);
    w.run();
    w.commit(counted);
    w.run();
    assert!(matches!(w.events(bounded)[..], [Event::Answer { .. }]), "the elder of the two");
    w.commit(bounded);
    w.run();
    let members = w.shards[0].state(b"k").and_then(|state| state.downcast::<Set>()).map(|set| set.len());
    assert_eq!(members, Some(1));
}

// --- phases ---

#[test]
fn a_phase_grants_a_whole_mode_at_once() {
    let mut w = World::new(1);
    let writer = w.holder(0, "k", incr_returning(1));
    let readers: Vec<Tx> = (0..5).map(|_| w.holder(0, "k", get())).collect();
    let other = w.holder(0, "k", incr_returning(1));
    let late = w.holder(0, "k", get());
    assert_eq!(answered(&w, &readers), [false; 5]);
    w.commit(writer);
    w.run();
    assert_eq!(answered(&w, &readers), [true; 5]);
    assert!(w.answered(late), "the same mode, and the phase has just begun");
    assert!(!w.answered(other));
    assert_eq!(w.shards[0].stats().phases, 1);
}

#[test]
fn the_eldest_waiter_begins_the_next_phase() {
    let mut w = World::new(1);
    let writer = w.holder(0, "k", incr_returning(1));
    let elder = w.begin();
    let reader = w.holder(0, "k", get());
    w.execute(elder, 0, "k", incr_returning(1));
    w.run();
    w.commit(writer);
    w.run();
    assert!(w.answered(elder) && !w.answered(reader), "though the reader came first");
}

/// Who gets into a phase for whose end somebody waits, of five that come.
fn joiners() -> Vec<bool> {
    let limits = Limits { phase_joins_max: 3, ..Limits::default() };
    let mut w = World::with(1, Switches::CLARET, limits);
    let free: Vec<Tx> = (0..10).map(|_| w.holder(0, "k", get())).collect();
    assert_eq!(answered(&w, &free), [true; 10], "nobody waits, nobody counts");
    w.holder(0, "k", incr_returning(1));
    let joiners: Vec<Tx> = (0..5).map(|_| w.holder(0, "k", get())).collect();
    answered(&w, &joiners)
}

#[test]
fn a_phase_takes_in_so_many_joiners_once_somebody_waits() {
    assert_eq!(joiners(), [true, true, true, false, false]);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_phase_that_takes_in_everybody_is_noticed() {
    use claret_core::{Bug, with_bug};
    assert_eq!(with_bug(Some(Bug::NeverCapped), joiners), [true; 5]);
}

#[test]
fn a_phase_takes_in_joiners_for_so_long_once_somebody_waits() {
    let mut w = World::new(1);
    w.holder(0, "k", get());
    w.pass(Limits::default().phase_us_max);
    w.holder(0, "k", incr_returning(1));
    let soon = w.holder(0, "k", get());
    w.pass(Limits::default().phase_us_max);
    let late = w.holder(0, "k", get());
    assert_eq!(answered(&w, &[soon, late]), [true, false]);
}

#[test]
fn who_holds_the_record_overtakes_all_who_wait() {
    let limits = Limits { phase_joins_max: 0, ..Limits::default() };
    let mut w = World::with(1, Switches::CLARET, limits);
    let elder = w.begin();
    let holder = w.holder(0, "k", get());
    let other = w.holder(0, "k", get());
    w.execute(elder, 0, "k", incr_returning(1));
    w.run();
    w.execute(holder, 0, "k", incr_returning(5));
    w.run();
    assert_eq!(w.answers(holder).len(), 1, "the other reader is in its way");
    w.commit(other);
    w.run();
    assert_eq!(w.answers(holder), [Reply::Int(0), Reply::Int(5)]);
    assert!(!w.answered(elder), "though it is elder, and came first");
}

#[test]
fn a_waiter_that_gives_up_lets_the_next_in() {
    let limits = Limits { phase_joins_max: 0, ..Limits::default() };
    let mut w = World::with(1, Switches::CLARET, limits);
    w.holder(0, "k", get());
    let writer = w.holder(0, "k", incr_returning(1));
    let reader = w.holder(0, "k", get());
    assert_eq!(answered(&w, &[writer, reader]), [false, false]);
    w.abort(writer);
    w.run();
    assert!(w.answered(reader), "only the writer was in its way");
}

#[test]
fn a_withdrawn_prepare_lets_the_next_in() {
    let limits = Limits { phase_joins_max: 0, ..Limits::default() };
    let mut w = World::with(2, Switches::CLARET, limits);
    w.holder(0, "k", get());
    let writer = pending(&mut w, incr(1));
    let reader = w.holder(0, "k", get());
    assert!(!w.answered(reader));
    w.abort(writer);
    w.run();
    assert!(w.aborted(writer) && w.answered(reader));
}

#[test]
fn so_many_may_wait_for_a_record() {
    let limits = Limits { waiters_max: 2, ..Limits::default() };
    let mut w = World::with(1, Switches::CLARET, limits);
    w.holder(0, "k", incr_returning(1));
    let waiting = [w.holder(0, "k", get()), w.holder(0, "k", get())];
    let refused = w.holder(0, "k", get());
    let crowded = Event::Failed { refusal: Refusal::Crowded("k".into()) };
    assert_eq!(w.events(refused), [crowded]);
    assert!(waiting.iter().all(|tx| w.events(*tx).is_empty()));
    let elsewhere = w.holder(0, "j", get());
    assert!(w.answered(elsewhere));
}

// --- own writes ---

#[test]
fn own_writes_are_read_and_nobody_elses() {
    let mut w = World::new(1);
    w.set_up(0, "k", incr(10));
    let tx = w.begin();
    w.buffer(tx, 0, "k", incr(1));
    w.buffer(tx, 0, "k", incr(2));
    w.execute(tx, 0, "k", get());
    w.run();
    assert_eq!(w.answers(tx), [Reply::Int(13)]);
    assert_eq!(w.counter(0, "k"), 10, "deferred until the commit");
    w.execute(tx, 0, "k", incr_returning(4));
    w.run();
    assert_eq!(w.answers(tx)[1], Reply::Int(17));
    let other = w.holder(0, "k", get());
    assert!(!w.answered(other));
    w.abort(tx);
    w.run();
    assert_eq!(w.answers(other), [Reply::Int(10)]);
}

/// Bug: of more than eight own calls on a record, those were looked at that may matter to the next one, and not what these stand on: here
/// the increment of a field and the text that was in it before, without its removal between them. Consequence: the shard panicked.
#[test]
fn an_own_write_stands_on_all_that_came_before_it_on_its_elements() {
    let dict = |op| Operation::new::<Dict>(op);
    let texts = |fields: &[&'static str]| {
        DictOp::Set(fields.iter().map(|field| ((*field).into(), "text".into())).collect())
    };
    for also in [Claims::record(Mode::EXCLUSIVE), dict(texts(&["x"])).footprint()] {
        let mut w = World::new(1);
        let tx = w.begin();
        w.buffer(tx, 0, "d", dict(texts(&["x", "y"])));
        for field in 0..8 {
            w.buffer(tx, 0, "d", dict(DictOp::Set(few([(field.to_string().into(), "v".into())]))));
        }
        w.buffer(tx, 0, "d", dict(DictOp::Remove(few(["y".into()]))));
        w.execute_reserving(tx, 0, "d", dict(DictOp::AddReturning("y".into(), 1)), Some(also));
        w.run();
        w.execute(tx, 0, "d", dict(DictOp::RemoveReturning(few(["x".into()]))));
        w.run();
        w.execute(tx, 0, "d", dict(DictOp::Get("y".into())));
        w.run();
        w.commit(tx);
        w.run();
        assert_eq!(w.answers(tx), [Reply::Int(1), Reply::Int(1), Reply::Bytes("1".into())]);
        w.assert_quiet();
    }
}

#[test]
fn an_own_write_of_a_new_record_is_undone_with_it() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.buffer(tx, 0, "s", sadd("a"));
    w.execute(tx, 0, "s", sismember("a"));
    w.run();
    assert_eq!(w.answers(tx), [Reply::bool(true)]);
    assert!(w.shards[0].state(b"s").is_none());
    w.abort(tx);
    w.run();
    assert_eq!(w.shards[0].contents().count(), 0);
    w.assert_quiet();
}

#[test]
fn answers_of_buffered_calls_travel_with_the_commit() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.buffer(tx, 0, "k", set("5"));
    let no = w.buffer(tx, 0, "k", incr_returning(1));
    w.commit(tx);
    w.run();
    assert_eq!(w.events(tx), [Event::Committed { replies: vec![(no, Reply::Int(6))] }]);
}

// --- what is left behind ---

#[test]
fn an_idle_record_carries_no_lock() {
    let mut w = World::new(1);
    let holder = w.holder(0, "k", incr_returning(1));
    let waiter = w.holder(0, "k", get());
    let absent = w.holder(0, "absent", get());
    assert_eq!(w.shards[0].locked_records(), 2);
    for tx in [holder, waiter, absent] {
        w.commit(tx);
        w.run();
    }
    assert_eq!(w.shards[0].locked_records(), 0);
    assert_eq!(w.shards[0].contents().count(), 1, "a record that was only looked for leaves nothing");
    w.assert_quiet();
}

// --- without phases ---

#[test]
fn a_busy_record_is_asked_for_again_and_nothing_is_executed_twice() {
    let mut w = World::with(1, WITHOUT_PHASES, Limits::default());
    let reader = w.holder(0, "k", get());
    let tx = w.begin();
    w.buffer(tx, 0, "k", set("5"));
    w.execute(tx, 0, "k", incr_returning(1));
    w.run();
    for _ in 0..3 {
        w.pass(Limits::default().backoff_us_max);
        w.run();
    }
    assert!(!w.answered(tx) && w.shards[0].stats().waits > 2, "refused, and asked for again");
    w.commit(reader);
    w.run();
    w.pass(Limits::default().backoff_us_max);
    w.run();
    assert_eq!(w.answers(tx), [Reply::Int(6)]);
    w.commit(tx);
    w.run();
    assert_eq!(w.counter(0, "k"), 6);
    w.assert_quiet();
}

#[test]
fn a_call_that_was_granted_before_a_busy_one_is_executed_once() {
    for switches in [WITHOUT_PHASES, Switches::in_process(Discipline::Abstract)] {
        let mut w = World::with(2, switches, Limits::default());
        let adder = pending(&mut w, incr(10));
        let tx = w.begin();
        w.buffer(tx, 0, "k", incr(1)); // Shares with the adder,
        w.execute(tx, 0, "k", get()); // and this does not.
        w.run_until(|message| message.kind() == Kind::Apply);
        assert!(!w.answered(tx));
        w.run();
        assert!(w.committed(adder));
        w.pass(Limits::default().backoff_us_max);
        w.run();
        assert_eq!(w.answers(tx), [Reply::Int(11)]);
        w.commit(tx);
        w.run();
        assert_eq!(w.counter(0, "k"), 11);
        w.assert_quiet();
    }
}

#[test]
fn a_busy_prepare_is_sent_again_and_executed_once() {
    let mut w = World::with(2, WITHOUT_PHASES, Limits::default());
    let reader = w.holder(0, "k", get());
    let tx = w.begin();
    for key in ["j", "k"] {
        w.buffer(tx, 0, key, incr(1));
    }
    w.buffer(tx, 1, "k", incr(1));
    w.commit(tx);
    w.run();
    w.commit(reader);
    w.run();
    assert!(!w.committed(tx));
    w.pass(Limits::default().backoff_us_max);
    w.run();
    assert!(w.committed(tx));
    assert_eq!([w.counter(0, "j"), w.counter(0, "k"), w.counter(1, "k")], [1, 1, 1]);
    w.assert_quiet();
}

#[test]
fn a_record_that_stays_busy_ends_the_attempt() {
    let limits = Limits { lock_tries_max: 2, ..Limits::default() };
    let mut w = World::with(1, WITHOUT_PHASES, limits);
    w.holder(0, "k", get());
    let tx = w.holder(0, "k", incr_returning(1));
    for _ in 0..2 {
        assert_eq!(w.restarts(tx), 0);
        w.pass(limits.backoff_us_max);
        w.run();
    }
    assert_eq!(w.events(tx), [Event::Restart { cause: Cause::Busy }]);
    assert_eq!(w.shards[0].open_attempts(), 1);
}

/// P68: who asks for no lock twice does not wait in the queue of a shard that has phases, either.
#[test]
fn who_asks_for_no_lock_twice_withdraws_where_it_is_queued() {
    let mut w = World::new(2);
    let reader = w.holder(0, "k", get());
    w.speak_as(WITHOUT_PHASES, Limits { lock_tries_max: 0, ..Limits::default() });
    let refused = w.begin();
    for shard in [0, 1] {
        w.buffer(refused, shard, "k", incr(1));
    }
    w.commit(refused);
    w.run();
    assert_eq!(w.events(refused), [Event::Restart { cause: Cause::Busy }]);
    assert_eq!((w.shards[0].open_attempts(), w.shards[1].open_attempts()), (1, 0), "the reader's alone");
    w.commit(reader);
    w.run();
    assert_eq!([w.counter(0, "k"), w.counter(1, "k")], [0, 0]);
    w.assert_quiet();
}
