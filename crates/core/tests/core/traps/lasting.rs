//! Calls that are ordered though they can fail: they are let in where nothing that may come makes them (P82).
//!
//! Records `x` and `y` are strings, on the shards 0 and 1.

use claret_core::{Event, Limits};
use claret_types::{End, List, ListOp, Operation, Reply, Text};

use super::ordered::{ALWAYS, placed as placed_on_sets, told};
use crate::harness::{Kind, Tx, World, get, incr, incr_returning, set};

fn world() -> World {
    World::with(2, ALWAYS, Limits::default())
}

fn placed(w: &mut World, suggested: u64, calls: &[(u32, Operation)]) -> Tx {
    placed_on_sets(w, suggested, calls)
}

/// The record `x` holds this, and it is settled; the clock of shard 1 is high for what meets it there.
fn begun(content: &str) -> World {
    let mut w = world();
    placed(&mut w, 1, &[(0, set(content))]);
    placed(&mut w, 5_000, &[(1, set("0"))]);
    w.run();
    w.tick_all(10);
    w.run();
    w
}

/// An increment of `x` that has voted there, and whose place is not known before shard 1 hears of it.
fn pending(w: &mut World, by: Operation) -> (Tx, crate::harness::Message) {
    let adder = placed(w, 100, &[(0, by), (1, get())]);
    w.deliver(Kind::Prepare, 0);
    let late = w.hold(Kind::Prepare, 1);
    (adder, late)
}

fn end(w: &mut World) {
    w.run();
    w.tick_all(100_000);
    w.run();
    w.shards.iter().for_each(claret_core::Shard::check_invariants);
}

fn failed(w: &mut World, tx: Tx) -> bool {
    w.events(tx).iter().any(|event| matches!(event, Event::Failed { .. }))
}

fn content(w: &World) -> Option<Text> {
    w.shards[0].state(b"x").and_then(|state| state.downcast::<claret_types::Counter>().cloned())
}

/// With locks one of them would have to give way.
#[test]
fn counters_that_meet_in_both_orders_wait_for_nobody() {
    let mut w = world();
    let one = placed(&mut w, 100, &[(0, incr_returning(1)), (1, get())]);
    let other = placed(&mut w, 100, &[(0, get()), (1, incr_returning(1))]);
    let late = w.hold(Kind::Prepare, 1);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    assert_eq!((w.count(Kind::Voted, 0), w.count(Kind::Voted, 1)), (2, 1), "nobody waits");
    w.hand_over(late);
    end(&mut w);
    let mut answers = [told(&mut w, one).expect("told"), told(&mut w, other).expect("told")];
    answers.sort_by_key(|answers| format!("{answers:?}"));
    let first = [vec![Reply::Int(0), Reply::Int(1)], vec![Reply::Int(1), Reply::Int(1)]];
    let second = [vec![Reply::Int(1), Reply::Int(0)], vec![Reply::Int(1), Reply::Int(1)]];
    assert!(answers == first || answers == second, "one is before the other, everywhere: {answers:?}");
}

/// What stands in line keeps its type (P14), so a word waits until it is carried out.
#[test]
fn a_word_is_not_written_before_an_increment_that_has_voted() {
    let mut w = begun("7");
    let (adder, late) = pending(&mut w, incr_returning(1));
    let writer = placed(&mut w, 200, &[(0, set("seven"))]);
    w.deliver(Kind::Prepare, 0);
    w.hand_over(late);
    end(&mut w);
    assert!(told(&mut w, writer).is_some());
    assert_eq!(content(&w), Some(Text::Bytes("seven".into())), "the word was written later");
    assert_eq!(told(&mut w, adder), Some(vec![Reply::Int(8), Reply::Int(0)]));
}

/// The other way round: the word stands in line, and the increment finds a number still.
#[test]
fn an_increment_waits_for_a_word_that_has_voted_and_fails() {
    let mut w = begun("7");
    let writer = placed(&mut w, 100, &[(0, set("seven")), (1, get())]);
    w.deliver(Kind::Prepare, 0);
    let late = w.hold(Kind::Prepare, 1);
    let adder = placed(&mut w, 50, &[(0, incr(1))]);
    w.deliver(Kind::Prepare, 0);
    assert_eq!(w.count(Kind::Voted, 0), 1, "it waits");
    w.hand_over(late);
    end(&mut w);
    assert!(told(&mut w, writer).is_some());
    assert!(failed(&mut w, adder), "it is no number any more");
}

/// Bug: an increment is ordered whatever is there. Consequence: it is committed, and cannot be done. Mend: what could not be done now is
/// executed under a lock, and its error told.
fn on_a_word() -> bool {
    let mut w = begun("seven");
    let adder = placed(&mut w, 100, &[(0, incr(1)), (1, get())]);
    end(&mut w);
    failed(&mut w, adder)
}

#[test]
fn an_increment_of_a_word_fails() {
    assert!(on_a_word());
}

/// Bug: increments near the bound are ordered. Consequence: each fits, both vote, and the second cannot be done. Mend: they lock, and
/// draw what there is.
fn near_the_bound() -> (bool, bool) {
    let mut w = begun(&(i64::MAX - 1).to_string());
    let (first, late) = pending(&mut w, incr_returning(1));
    let second = placed(&mut w, 200, &[(0, incr_returning(1))]);
    w.deliver(Kind::Prepare, 0);
    w.hand_over(late);
    end(&mut w);
    (told(&mut w, first).is_some(), failed(&mut w, second))
}

#[test]
fn near_the_bound_increments_lock() {
    assert_eq!(near_the_bound(), (true, true));
}

/// Bug: whoever draws by a lock takes all that is left beside those in order. Consequence: one of these has more to add, whose call comes
/// later and is not asked for its room again; it commits, and the sum is too large. Mend: beside a line a draw by a lock leaves ample room.
fn a_large_draw_beside_a_small_one() -> bool {
    let mut w = begun("0");
    let (_, late) = pending(&mut w, incr(1));
    placed(&mut w, 200, &[(0, incr(i64::MAX - 1)), (1, get())]);
    w.deliver(Kind::Prepare, 0);
    let has_voted = w.count(Kind::Voted, 0) == 2;
    drop(late);
    has_voted
}

#[test]
fn a_large_draw_leaves_room_for_those_in_order() {
    assert!(!a_large_draw_beside_a_small_one());
}

/// Those who draw on a list draw on what is in it, of which nobody in order needs anything.
#[test]
fn a_pop_does_not_wait_for_pushes_in_order() {
    let list = |op| Operation::new::<List>(op);
    let push = |end| list(ListOp::Push(end, ["a".into()].into_iter().collect()));
    let mut w = world();
    placed(&mut w, 100, &[(0, push(End::Back))]);
    w.run();
    placed(&mut w, 200, &[(0, push(End::Back)), (1, get())]);
    w.deliver(Kind::Prepare, 0);
    let pop = w.begin();
    w.execute(pop, 0, "x", list(ListOp::Pop(End::Front)));
    w.deliver(Kind::Execute, 0);
    w.run_until(|message| message.kind() == Kind::Prepare || message.kind() == Kind::Apply);
    assert!(w.answered(pop));
}

/// Bug: those who draw in order pass all who draw. Consequence: one stands before somebody who made its room. Mend: small draws where
/// the room is ample have no order among each other, and one beside all others.
fn behind_who_made_room() -> bool {
    let mut w = begun(&i64::MAX.to_string());
    let taker = placed(&mut w, 100, &[(0, incr(i64::MIN + 1)), (1, get())]);
    w.run();
    assert!(w.shards[0].final_timestamp(w.attempt(taker)).is_some_and(|at| at.0 > 5_000));
    let adder = placed(&mut w, 200, &[(0, incr(1))]);
    w.deliver(Kind::Prepare, 0);
    let attempt = w.attempt(adder);
    w.shards[0].final_timestamp(attempt).is_some_and(|at| at.0 > 5_000)
}

#[test]
fn a_small_draw_comes_after_the_large_one_that_made_its_room() {
    assert!(behind_who_made_room());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn what_is_ordered_and_cannot_be_done_is_noticed() {
    use claret_core::{Bug, with_bug};
    assert!(!with_bug(Some(Bug::OrderedThoughImpossible), on_a_word));
    assert_ne!(with_bug(Some(Bug::OrderedNearBounds), near_the_bound), (true, true));
    assert!(with_bug(Some(Bug::DrawsInOrderForgotten), a_large_draw_beside_a_small_one));
    assert!(!with_bug(Some(Bug::LittleDrawsUnordered), behind_who_made_room));
}
