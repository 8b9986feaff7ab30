//! Traps 15 and 16: what is voted can be applied, in every order and for every subset of pending effects.

use claret_core::Event;
use claret_types::{
    Bounded, BoundedCounter, BoundedCounterOp, Bytes, Counter, CounterOp, Dict, DictOp, End, Few, List,
    ListOp, Operation, Register, RegisterOp, Reply,
};

use crate::harness::{Kind, Tx, World, get, incr};

fn bounded(op: BoundedCounterOp) -> Operation {
    Operation::new::<BoundedCounter>(op)
}

fn push(end: End, values: &[&str]) -> Operation {
    Operation::new::<List>(ListOp::Push(end, values.iter().map(|value| Bytes::from(*value)).collect()))
}

fn pop(end: End) -> Operation {
    Operation::new::<List>(ListOp::Pop(end))
}

fn append(piece: &str) -> Operation {
    Operation::new::<Register>(RegisterOp::Append(piece.into()))
}

/// A transaction of one operation at shard 0, kept pending by a second participant.
fn pending(w: &mut World, key: &str, op: Operation) -> Tx {
    let tx = w.begin();
    w.buffer(tx, 0, key, op);
    w.buffer(tx, 1, "other", incr(1));
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Apply);
    tx
}

/// Bug: a counter one below its bound, two increments; each fits, both vote, the second overflows when it is applied.
/// Consequence: what was voted cannot be done. Mend: what is pending is summed against the room that is left.
#[test]
fn trap_15_apply_cannot_fail() {
    let mut w = World::new(2);
    w.set_up(0, "k", incr(i64::MAX - 1));
    let first = pending(&mut w, "k", incr(1));
    let second = pending(&mut w, "k", incr(1));
    assert!(w.committed(first) && !w.committed(second), "the second waits for what the first leaves");
    w.run();
    assert!(matches!(w.events(second)[..], [Event::Failed { .. }]), "and overflows before it votes");
    assert_eq!((w.counter(0, "k"), w.counter(1, "other")), (i64::MAX, 1));
    w.assert_quiet();
}

/// Bug: a transaction puts a number over a text and adds to it; after nine calls there, a call on another field is executed
/// on top of the sum, which drew on the room, without what made a number of it. Consequence: what was granted cannot be
/// done, and the shard panics. Mend: a draw on an element is of no concern to a call on another one, as its effect is.
#[test]
fn a_sum_on_one_field_is_no_concern_of_another() {
    let dict = Operation::new::<Dict>;
    let mut w = World::new(1);
    let fields = [("x", "text"), ("y", "here")].map(|(field, value)| (field.into(), value.into()));
    w.set_up(0, "k", dict(DictOp::Set(fields.into_iter().collect())));
    let tx = w.begin();
    w.buffer(tx, 0, "k", dict(DictOp::Set(Few::from_iter([("x".into(), "1".into())]))));
    for amount in 1..=8 {
        w.buffer(tx, 0, "k", dict(DictOp::Add("x".into(), amount)));
    }
    for field in ["x", "y", "x"] {
        w.execute(tx, 0, "k", dict(DictOp::Get(field.into())));
        w.run();
    }
    assert_eq!(w.answers(tx), ["37", "here", "37"].map(|value| Reply::Bytes(value.into())));
    w.commit(tx);
    w.run();
    assert!(w.committed(tx));
    w.assert_quiet();
}

/// Trap 15 with a bound of the user's: three withdrawals that are fine pair by pair.
#[test]
fn trap_15_three_withdrawals_that_fit_pair_by_pair() {
    let mut w = World::new(2);
    w.set_up(0, "k", bounded(BoundedCounterOp::Create(Bounded { value: 5, min: 0, max: 9 })));
    let all = [2, 2, 2].map(|amount| pending(&mut w, "k", bounded(BoundedCounterOp::Take(amount))));
    assert_eq!(all.map(|tx| w.committed(tx)), [true, true, false]);
    w.run();
    assert!(matches!(w.events(all[2])[..], [Event::Failed { .. }]), "1 is left");
    w.assert_quiet();
}

/// Bug: a withdrawal counts on a deposit that is pending, and the deposit is given up. Consequence: an overdraft. Mend:
/// escrow counts pending withdrawals, never pending deposits; "not enough" waits for the deposit's end.
#[test]
fn trap_16_escrow_never_counts_pending_deposits() {
    for gives_up in [true, false] {
        let mut w = World::new(1);
        w.set_up(0, "k", bounded(BoundedCounterOp::Create(Bounded { value: 1, min: 0, max: 9 })));
        let depositor = w.holder(0, "k", bounded(BoundedCounterOp::AddReturning(5)));
        let taker = w.holder(0, "k", bounded(BoundedCounterOp::TakeReturning(3)));
        assert!(!w.answered(taker), "neither yes nor no while the deposit is pending");
        if gives_up {
            w.abort(depositor)
        } else {
            w.commit(depositor)
        }
        w.run();
        assert_eq!(w.answers(taker), [Reply::Int(if gives_up { 0 } else { 1 })]);
    }
}

/// Bug: T1 and T2 pop and are told m1 and m2; T2 applies first and, run again, removes m1. Consequence: m1 is handed
/// out twice, m2 is lost. Mend: pops at one end conflict, and an effect names the values that it takes.
#[test]
fn trap_16_pops_take_what_was_answered() {
    let mut w = World::new(1);
    w.set_up(0, "k", push(End::Back, &["m1", "m2", "m3"]));
    let first = w.holder(0, "k", pop(End::Front));
    let second = w.holder(0, "k", pop(End::Front));
    let other_end = w.holder(0, "k", pop(End::Back));
    assert_eq!(w.answers(first), [Reply::Bytes("m1".into())]);
    assert!(!w.answered(second));
    assert_eq!(w.answers(other_end), [Reply::Bytes("m3".into())], "a value of its own");
    w.commit(other_end);
    w.run();
    w.commit(first);
    w.run();
    assert_eq!(w.answers(second), [Reply::Bytes("m2".into())]);
    w.commit(second);
    w.run();
    assert!(w.shards[0].state(b"k").is_none(), "empty");
}

/// The same from both ends of the last value: it is drawn once.
#[test]
fn trap_16_the_last_value_is_popped_once() {
    let mut w = World::new(1);
    w.set_up(0, "k", push(End::Back, &["m"]));
    let front = w.holder(0, "k", pop(End::Front));
    let back = w.holder(0, "k", pop(End::Back));
    assert!(w.answered(front) && !w.answered(back));
    w.commit(front);
    w.run();
    assert_eq!(w.answers(back), [Reply::Nil]);
}

/// Bug: pushes answer nothing, and are taken to commute. Consequence: what lies where depends on the order of applies.
/// Mend: void pushes at one end conflict; at two ends they do not.
#[test]
fn trap_16_void_pushes_conflict() {
    let mut w = World::new(2);
    w.set_up(0, "k", push(End::Back, &["m"]));
    let all = [(End::Back, "a"), (End::Back, "b"), (End::Front, "c")]
        .map(|(end, value)| pending(&mut w, "k", push(end, &[value])));
    assert_eq!(all.map(|tx| w.committed(tx)), [true, false, true]);
    w.run();
    let reader = w.holder(0, "k", Operation::new::<List>(ListOp::Range { start: 0, stop: -1 }));
    let values = ["c", "m", "a", "b"].map(|value| Reply::Bytes(value.into()));
    assert_eq!(w.answers(reader), [Reply::Array(values.into())]);
}

/// The same for pieces of a string.
#[test]
fn trap_16_void_appends_conflict() {
    let mut w = World::new(2);
    let first = pending(&mut w, "k", append("a"));
    let second = pending(&mut w, "k", append("b"));
    assert!(w.committed(first) && !w.committed(second));
    w.run();
    let reader = w.holder(0, "k", Operation::new::<Register>(RegisterOp::Get));
    assert_eq!(w.answers(reader), [Reply::Bytes("ab".into())]);
}

/// Bug: an effect is decided again when it is applied. Consequence: two increments that were told 1 and 2 leave 1.
/// Mend: effects carry amounts, and who saw the value keeps others from moving it.
#[test]
fn trap_16_effects_carry_amounts() {
    let mut w = World::new(1);
    let add = |amount| Operation::new::<Counter>(CounterOp::AddReturning(amount));
    let first = w.holder(0, "k", add(1));
    let second = w.holder(0, "k", add(1));
    assert!(!w.answered(second));
    w.commit(first);
    w.run();
    w.commit(second);
    w.run();
    assert_eq!((w.answers(first), w.answers(second)), (vec![Reply::Int(1)], vec![Reply::Int(2)]));
    let reader = w.holder(0, "k", get());
    assert_eq!(w.answers(reader), [Reply::Int(2)]);
}
