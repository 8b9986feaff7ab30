//! Traps 9 to 12: who waits for whom, who is notified, who gives way; and that nobody waits in vain.

use claret_core::Limits;
use claret_types::{Bounded, BoundedCounter, BoundedCounterOp, Operation, Reply};

use crate::harness::{Kind, Tx, World, get, incr, incr_returning, sadd_returning, scard, set, sismember};

fn give_way(w: &mut World) {
    w.pass(Limits::default().give_way_us);
    w.run();
}

fn take_returning(amount: i64) -> Operation {
    Operation::new::<BoundedCounter>(BoundedCounterOp::TakeReturning(amount))
}

fn stock(value: i64) -> Operation {
    Operation::new::<BoundedCounter>(BoundedCounterOp::Create(Bounded { value, min: 0, max: 100 }))
}

/// Bug: two one-shot transactions over the same two shards each hold one record and wait for the other; each "has
/// prepared", so neither gives way. Consequence: both stand still for ever. Mend: give way unless all votes are in.
#[test]
fn trap_09_partly_voted_deadlock() {
    let mut w = World::new(2);
    let elder = w.begin();
    let younger = w.begin();
    for tx in [elder, younger] {
        w.buffer(tx, 0, "x", incr_returning(1));
        w.buffer(tx, 1, "y", incr_returning(1));
    }
    w.commit(elder);
    let late = w.hold(Kind::Prepare, 1);
    w.run(); // The elder has x,
    w.commit(younger);
    w.run(); // the younger has y and voted there,
    w.hand_over(late); // and each waits for the other.
    w.run();
    assert!(!w.committed(elder) && !w.committed(younger));
    give_way(&mut w);
    assert!(w.committed(elder), "the younger gave way although it had voted");
    assert_eq!(w.restarts(younger), 1);
    w.assert_quiet();
}

/// Bug: who gave way sends all its prepares at once again, and meets the next one as it met the first: each of them
/// holds what the other waits for. Consequence: many restarts for each commit where several records are hot. Mend: the
/// prepares of later attempts leave in turn, in the order of shards.
#[test]
fn after_giving_way_prepares_leave_in_turn() {
    let mut w = World::new(2);
    let (elder, younger, youngest) = (w.begin(), w.begin(), w.begin());
    for tx in [elder, younger, youngest] {
        w.buffer(tx, 1, "y", incr_returning(1));
        w.buffer(tx, 0, "x", incr_returning(1));
    }
    w.commit(elder);
    let late = w.hold(Kind::Prepare, 1);
    w.run();
    w.commit(younger);
    w.run();
    w.hand_over(late);
    w.pass(Limits::default().give_way_us);
    w.run();
    assert!(w.committed(elder) && w.restarts(younger) == 1);
    w.restart(younger);
    for (shard, key) in [(1, "y"), (0, "x")] {
        w.buffer(younger, shard, key, incr_returning(1));
    }
    w.commit(younger);
    assert_eq!((w.count(Kind::Prepare, 0), w.count(Kind::Prepare, 1)), (1, 0), "the first shard comes first");
    let first = w.hold(Kind::Prepare, 0);
    w.commit(youngest);
    w.run();
    assert!(w.committed(youngest), "it is first at both: nothing of the other is in its way");
    w.hand_over(first);
    w.deliver(Kind::Voted, 0);
    assert_eq!(w.count(Kind::Prepare, 1), 1, "voted at the first, it asks the second");
    w.run();
    assert!(w.committed(younger) && w.restarts(younger) == 1);
    w.assert_quiet();
}

/// Bug: word that a call waits comes late, when the call has its answer and the prepares are out, and the commit counts as waiting from
/// then on. Consequence: it gives way to an elder in vain. Mend: at the commit, what names a call that came before is dropped.
#[test]
fn a_late_word_that_a_call_waits_is_not_of_the_commit() {
    let mut w = World::new(2);
    let elder = w.begin();
    let first = w.holder(0, "x", incr_returning(1));
    let tx = w.begin();
    w.execute(tx, 0, "x", incr_returning(1));
    w.deliver(Kind::Execute, 0);
    let late = w.hold(Kind::Queued, 0);
    w.abort(first);
    w.run();
    assert!(w.answered(tx), "it has what it waited for");
    w.execute(elder, 0, "x", incr_returning(1));
    w.run(); // It is told of an elder.
    w.buffer(tx, 0, "own", incr(1));
    w.buffer(tx, 1, "y", incr(1));
    w.commit(tx);
    w.hand_over(late);
    assert_eq!(w.coordinator(tx).waits(), None);
    w.pass(Limits::default().give_way_us);
    assert_eq!((w.count(Kind::Withdraw, 0), w.count(Kind::Withdraw, 1)), (0, 0), "it waits for nobody");
    w.run();
    assert!(w.committed(tx) && w.restarts(tx) == 0);
    w.abort(elder);
    w.run();
    w.assert_quiet();
}

/// The same word of a call that comes with the prepare counts, until the shard has voted.
#[test]
fn a_commit_that_waits_says_so() {
    let mut w = World::new(2);
    let holder = w.holder(0, "x", incr_returning(1));
    let tx = w.begin();
    w.buffer(tx, 0, "x", incr_returning(1));
    w.buffer(tx, 1, "y", incr(1));
    w.commit(tx);
    w.deliver(Kind::Prepare, 0);
    let word = w.hold(Kind::Queued, 0);
    w.hand_over(word.clone());
    assert!(w.coordinator(tx).waits().is_some_and(|it| it.records.len() == 1));
    w.abort(holder);
    w.deliver(Kind::Abort, 0);
    w.deliver(Kind::Voted, 0);
    assert_eq!(w.coordinator(tx).waits(), None);
    w.hand_over(word);
    assert_eq!(w.coordinator(tx).waits(), None, "it has voted");
    w.run();
    assert!(w.committed(tx));
    w.assert_quiet();
}

/// Bug: a phase that is capped refuses a request that all its holders admit, and the request then waits for a
/// waiter younger than itself, which is told of nothing. Consequence: a cycle that no notice breaks. Mend: who is
/// elder than all conflicting waiters joins even a capped phase.
#[test]
fn trap_10_a_capped_phase_makes_edges_to_waiters() {
    let limits = Limits { phase_joins_max: 0, ..Limits::default() };
    let mut w = World::with(1, claret_core::Switches::CLARET, limits);
    let t3 = w.begin();
    let t1 = w.begin();
    let t2 = w.begin();
    w.execute(t1, 0, "x", get());
    w.execute(t3, 0, "y", incr_returning(1));
    w.run();
    w.execute(t2, 0, "x", incr_returning(1));
    w.run();
    w.execute(t1, 0, "y", get());
    w.run();
    w.execute(t3, 0, "x", get());
    w.run();
    assert_eq!(w.answers(t3).len(), 2, "elder than the waiter: it joins although the phase is capped");
    for tx in [t3, t1, t2] {
        w.commit(tx);
        w.run();
        assert!(w.committed(tx));
    }
    w.assert_quiet();
}

/// The same trap, its other half: an upgrade that stood behind the waiters would wait for those that wait for
/// it. A waiter that holds the record overtakes all.
#[test]
fn trap_10_who_holds_the_record_overtakes_all_waiters() {
    let limits = Limits { phase_joins_max: 0, ..Limits::default() };
    let mut w = World::with(1, claret_core::Switches::CLARET, limits);
    let elder = w.begin();
    let holder = w.holder(0, "k", get());
    w.execute(elder, 0, "k", incr_returning(5));
    w.run();
    w.execute(holder, 0, "k", incr_returning(1));
    w.run();
    assert_eq!(w.answers(holder), [Reply::Int(0), Reply::Int(1)], "though the phase is capped");
    assert!(!w.answered(elder));
    w.commit(holder);
    w.run();
    assert_eq!(w.answers(elder), [Reply::Int(6)]);
}

/// Bug: the notice comes while the younger runs; later the younger blocks and nobody tells it again. Consequence: a
/// deadlock unseen. Mend: a notice is a level, looked at whenever the transaction blocks.
#[test]
fn trap_11_notices_are_levels() {
    let mut w = World::new(2);
    let elder = w.begin();
    let younger = w.begin();
    w.execute(elder, 1, "y", incr_returning(1));
    w.execute(younger, 0, "x", incr_returning(1));
    w.run();
    w.execute(elder, 0, "x", incr_returning(1));
    w.run(); // The younger is told, and is not blocked:
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 0);
    w.execute(younger, 1, "y", incr_returning(1));
    w.run(); // now it is.
    assert_eq!(w.restarts(younger), 0, "not before a round trip has passed");
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 1);
    assert_eq!(w.answers(elder).len(), 2);
}

/// The same trap when the notice is lost with a connection: the next heartbeat tells again.
#[test]
fn trap_11_a_lost_notice_is_told_again() {
    let mut w = World::new(2);
    let elder = w.begin();
    let younger = w.begin();
    w.execute(elder, 1, "y", incr_returning(1));
    w.execute(younger, 0, "x", incr_returning(1));
    w.run();
    w.execute(elder, 0, "x", incr_returning(1));
    w.run_until(|message| message.kind() == Kind::Elder);
    w.hold(Kind::Elder, 0); // Lost.
    w.execute(younger, 1, "y", incr_returning(1));
    w.run();
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 0);
    w.heartbeat(0);
    w.run();
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 1);
}

/// The same trap by way of a grant: one that is granted beside a waiting elder is told with the grant.
#[test]
fn trap_11_a_grant_carries_the_eldest_waiter() {
    let mut w = World::new(1);
    let reader = w.holder(0, "k", get());
    w.holder(0, "k", incr_returning(1));
    let joiner = w.begin();
    w.execute(joiner, 0, "k", get());
    w.deliver(Kind::Execute, 0);
    assert_eq!(w.count(Kind::Elder, 0), 1);
    w.run();
    assert!(w.answered(joiner) && w.answered(reader));
}

/// Bug: that a queue's holders have been told was noted for the queue as a whole, though its waiters are about
/// different elements. Consequence: the holder of the second element hears nothing of the elder that waits for
/// it, and both stand still. Mend: only waiters for the whole record spare the look at the holders.
#[test]
fn trap_11_holders_of_another_element_are_told_too() {
    let mut w = World::new(2);
    let first = w.begin();
    w.holder(0, "s", sadd_returning("a"));
    w.execute(first, 0, "s", sadd_returning("a"));
    w.run(); // Waits for 'a', told.
    let elder = w.begin();
    w.execute(elder, 1, "y", incr_returning(1));
    w.run();
    let younger = w.holder(0, "s", sadd_returning("b"));
    w.execute(elder, 0, "s", sadd_returning("b"));
    w.execute(younger, 1, "y", incr_returning(1));
    w.run();
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 1);
    assert_eq!(w.answers(elder).len(), 2);
}

/// Bug: the note outlived the waiter it was about. Consequence: a holder that came since hears nothing of the
/// next elder. Mend: the note goes with the waiter.
#[test]
fn trap_11_what_was_told_of_a_waiter_goes_with_it() {
    let mut w = World::new(2);
    let gone = w.begin();
    let elder = w.begin();
    w.execute(elder, 1, "y", incr_returning(1));
    let reader = w.holder(0, "k", get());
    w.execute(gone, 0, "k", incr_returning(1));
    w.run();
    let younger = w.begin();
    w.holder(0, "k", incr_returning(1)); // Keeps the queue in being.
    w.abort(gone);
    w.run();
    w.execute(younger, 0, "k", get()); // Elder than who waits now, so it is told nothing.
    w.run();
    assert!(w.answered(younger));
    w.execute(elder, 0, "k", incr_returning(1));
    w.execute(younger, 1, "y", incr_returning(1));
    w.run();
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 1);
    w.commit(reader);
    w.run();
    assert_eq!(w.answers(elder).len(), 2);
}

/// Bug: a waiter of another type was matched against the holders by its own modes' numbers. Consequence: numbers
/// that mean something else, and a holder that hears nothing. Mend: types that differ conflict.
#[test]
fn trap_11_a_waiter_of_another_type_is_told_of() {
    let mut w = World::new(2);
    let elder = w.begin();
    w.execute(elder, 1, "y", incr_returning(1));
    let younger = w.begin();
    w.execute(younger, 0, "k", scard()); // On a record that is not there, any type may ask.
    w.run();
    w.execute(elder, 0, "k", Operation::new::<BoundedCounter>(BoundedCounterOp::Get));
    w.execute(younger, 1, "y", incr_returning(1));
    w.run();
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 1);
    assert_eq!(w.answers(elder).len(), 2);
}

/// Bug: withdrawals commute by mode, so a withdrawal that waits for another's draw conflicted with nobody.
/// Consequence: the holder is told nothing, and both stand still. Mend: drawing the same way is a conflict.
#[test]
fn trap_11_the_holder_of_a_draw_is_told() {
    let mut w = World::new(2);
    w.set_up(0, "stock", stock(5));
    let elder = w.begin();
    w.execute(elder, 1, "y", incr_returning(1));
    let younger = w.holder(0, "stock", take_returning(3));
    w.execute(elder, 0, "stock", take_returning(3));
    w.execute(younger, 1, "y", incr_returning(1));
    w.run();
    assert_eq!(w.answers(elder).len(), 1);
    give_way(&mut w);
    assert_eq!(w.restarts(younger), 1);
    assert_eq!(w.answers(elder), [Reply::Int(1), Reply::Int(1)]);
}

/// Bug: as above, in the queue. Consequence: small withdrawals pass a big one for ever. Mend: they join while the
/// phase takes joiners, and then stand behind it.
#[test]
fn small_withdrawals_do_not_pass_a_big_one_for_ever() {
    let limits = Limits { phase_joins_max: 2, ..Limits::default() };
    let mut w = World::with(1, claret_core::Switches::CLARET, limits);
    w.set_up(0, "stock", stock(10));
    let holder = w.holder(0, "stock", take_returning(5));
    let big = w.holder(0, "stock", take_returning(6));
    let small: Vec<Tx> = (0..4).map(|_| w.holder(0, "stock", take_returning(1))).collect();
    assert!(!w.answered(big));
    let passed = small.iter().filter(|tx| w.answered(**tx)).count();
    assert_eq!(passed, 2, "as many as a phase takes in");
    w.abort(holder);
    w.run();
    assert!(w.answered(big), "10 - 2 leave room for 6");
}

/// Bug: N transactions read a record and then write it; they share the read, and all but one restart, again and
/// again. Mend: a restarted attempt takes at first touch the join of all modes that its last one used there.
#[test]
fn trap_12_upgrades() {
    let mut w = World::new(1);
    let all: Vec<Tx> = (0..5).map(|_| w.begin()).collect();
    for tx in &all {
        w.execute(*tx, 0, "k", get());
    }
    w.run();
    for (value, tx) in all.iter().enumerate() {
        w.buffer(*tx, 0, "k", set(&value.to_string()));
        w.commit(*tx);
    }
    w.run();
    give_way(&mut w);
    assert!(w.committed(all[0]), "the eldest is the one that needs not give way");
    for tx in &all[1..] {
        assert_eq!(w.restarts(*tx), 1);
        w.events(*tx);
        w.restart(*tx);
        w.execute(*tx, 0, "k", get());
    }
    w.run();
    let reading = all[1..].iter().filter(|tx| w.answered(**tx)).count();
    assert_eq!(reading, 1, "the read takes the write's mode, so one has it at a time");
    for (value, tx) in all.iter().enumerate().skip(1) {
        w.buffer(*tx, 0, "k", set(&value.to_string()));
        w.commit(*tx);
        w.run();
        assert!(w.committed(*tx) && w.restarts(*tx) == 0, "once each, in order of birth");
    }
    assert_eq!(w.counter(0, "k"), 4);
    w.assert_quiet();
}

/// The same trap where the first touch is a buffered addition that a read follows, and an attempt in between
/// ends before it comes to the record: what is needed is taken with the first call, and is not forgotten.
#[test]
fn trap_12_what_is_needed_is_taken_with_the_first_call() {
    let mut w = World::new(2);
    let pair = [w.begin(), w.begin()];
    for tx in pair {
        add_then_read(&mut w, tx);
        w.run();
    }
    w.heartbeat_without(0);
    w.run();
    for tx in pair {
        w.restart(tx);
        w.execute(tx, 0, "other", get());
    }
    w.heartbeat_without(0);
    w.run();
    let adder = w.begin();
    w.buffer(adder, 0, "k", incr(1));
    w.buffer(adder, 1, "z", incr(1));
    w.commit(adder);
    w.run_until(|message| message.kind() == Kind::Apply);
    for tx in pair {
        w.restart(tx);
        w.events(tx);
        add_then_read(&mut w, tx);
    }
    w.run_until(|message| message.kind() == Kind::Apply); // Both could add beside the adder.
    w.run(); // It applies, and leaves the record to one of the two,
    give_way(&mut w);
    assert!(
        pair.iter().all(|tx| w.restarts(*tx) == 0),
        "which neither shares it with the other nor gives way"
    );
    for tx in pair {
        assert!(w.answered(tx));
        w.commit(tx);
        w.run();
    }
    assert_eq!(w.counter(0, "k"), 3);
}

fn add_then_read(w: &mut World, tx: Tx) {
    w.buffer(tx, 0, "k", incr(1));
    w.execute(tx, 0, "k", get());
}

/// Bug: what an attempt used on a record was joined by number, though it used two types there. Consequence: a
/// mode that the other type does not have, and a panic. Mend: two types together need the record alone.
#[test]
fn trap_12_modes_of_two_types_do_not_mix() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.execute(tx, 0, "k", scard());
    w.execute(tx, 0, "k", Operation::new::<BoundedCounter>(BoundedCounterOp::Get));
    w.run();
    assert_eq!(w.answers(tx).len(), 2);
    w.heartbeat_without(0);
    w.run();
    assert_eq!(w.restarts(tx), 1);
    w.restart(tx);
    w.events(tx);
    w.execute(tx, 0, "k", scard());
    w.run();
    assert!(w.answered(tx));
    let other = w.holder(0, "k", scard());
    assert!(!w.answered(other));
}

/// Bug: a waiter was looked at before the elder one that stood before its rival, and then got in. Consequence: it
/// waits though nothing elder is in its way, and nobody is told. Mend: a release looks until nothing moves.
#[test]
fn a_waiter_is_looked_at_again_when_the_one_in_its_way_got_in() {
    let mut w = World::new(1);
    let holders = ["a", "b", "c"].map(|member| w.holder(0, "s", sadd_returning(member)));
    w.holder(0, "s", sadd_returning("c")); // Heads the queue of adds, and stays there.
    let first = w.holder(0, "s", sismember("a")); // Heads the queue of questions.
    let adder = w.holder(0, "s", sadd_returning("b"));
    w.holder(0, "s", sismember("b"));
    w.commit(holders[1]);
    w.run();
    assert!(!w.answered(adder), "the queue of the question to 'b' has an elder head");
    w.commit(holders[0]);
    w.run();
    assert!(w.answered(first));
    assert!(w.answered(adder), "and now it has not");
}

/// Bug: a waiter counted itself among those it must not pass. Consequence: where a mode conflicts with itself, the
/// waiter of one element waits for those of all others. Mend: it is not in its own way.
#[test]
fn a_waiter_is_not_in_its_own_way() {
    let mut w = World::new(1);
    w.holder(0, "s", sadd_returning("a"));
    let b = w.holder(0, "s", sadd_returning("b"));
    w.holder(0, "s", sadd_returning("a"));
    let waiter = w.holder(0, "s", sadd_returning("b"));
    w.commit(b);
    w.run();
    assert!(w.answered(waiter));
}

/// Bug: any queue whose eldest got in was granted as a whole and began the phase's count anew. Consequence: whoever
/// waits for one element is passed by younger ones again and again, as long as another element is busy. Mend:
/// only the eldest of all waiters begins a phase.
#[test]
fn only_the_eldest_waiter_begins_a_phase() {
    let mut w = World::new(1);
    w.holder(0, "s", sismember("a"));
    let elder = w.holder(0, "s", sadd_returning("a"));
    let other = w.holder(0, "s", sadd_returning("b"));
    w.holder(0, "s", sismember("b"));
    w.pass(Limits::default().phase_us_max); // Capped:
    let younger = w.holder(0, "s", sismember("a"));
    assert!(!w.answered(younger));
    w.commit(other); // the reader of 'b' gets in,
    w.run();
    assert!(!w.answered(younger) && !w.answered(elder), "the one of 'a' does not pass its elder");
}
