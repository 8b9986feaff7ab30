//! Traps 15 and 16: what is voted can be applied, in every order and for every subset of what is pending.

use claret_core::Event;
use claret_types::{
    Bounded, BoundedCounter, BoundedCounterOp, Counter, CounterOp, Operation, Register, RegisterOp, Reply,
};

use crate::harness::{Kind, Tx, World, get, incr};

fn bounded(op: BoundedCounterOp) -> Operation {
    Operation::new::<BoundedCounter>(op)
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
    w.run_until(|letter| letter.kind() == Kind::Apply);
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

/// The same with a bound of the user's: three withdrawals that are fine pair by pair.
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

/// Bug: operations that return nothing are taken to commute, though the order of two pieces shows in what is kept.
/// Consequence: what depends on the order of applies. Mend: void appends conflict.
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

/// Bug: an effect decides again when it is applied: two increments seen as 1 and 2 would show 1 and 1, or 2 twice.
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
