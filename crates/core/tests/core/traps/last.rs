//! What could go wrong when the last participant decides (P9), hot shards are asked last (P49), and a prepare holds
//! nothing behind what it waits for (P47).

use claret_core::message::{Asks, Refusal, Request, Response};
use claret_core::{CallNo, Contention, Event, Incarnation, Limits, ShardId, Switches};
use claret_types::{Bounded, BoundedCounter, BoundedCounterOp, Operation};

use crate::harness::{Body, Kind, Tx, World, incr, incr_returning, sadd, sadd_returning, scard};

/// A transaction that adds one to 'k' on two shards and asks the second one last.
fn spread(w: &mut World) -> Tx {
    let tx = w.begin();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr_returning(1));
    }
    w.commit_with_last(tx, 1);
    tx
}

/// How many came with the commit.
fn answers(w: &mut World, tx: Tx) -> usize {
    let replies = |event| if let Event::Committed { replies } = event { replies.len() } else { 0 };
    w.events(tx).into_iter().map(replies).sum()
}

fn counters(w: &World) -> [i64; 2] {
    [0, 1].map(|shard| w.counter(shard, "k"))
}

#[test]
fn the_last_one_votes_applies_and_lets_go_in_one_step() {
    let mut w = World::new(2);
    let tx = spread(&mut w);
    assert_eq!((w.count(Kind::Prepare, 0), w.count(Kind::Prepare, 1)), (1, 0), "the others are asked first");
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Voted, 0);
    w.deliver(Kind::Prepare, 1);
    assert_eq!(counters(&w), [0, 1]);
    assert_eq!((w.shards[0].locked_records(), w.shards[1].locked_records()), (1, 0));
    w.run();
    assert!(w.committed(tx));
    assert_eq!((counters(&w), answers(&mut w, tx)), ([1, 1], 2));
    w.assert_quiet();
}

/// Bug: its answer is lost, and the prepare, sent again, is refused as late, or carried out twice. Mend: what is applied
/// is remembered with its answers.
#[test]
fn the_answer_of_the_last_one_is_lost() {
    let mut w = World::new(2);
    let tx = spread(&mut w);
    w.run_until(|message| message.kind() == Kind::Committed);
    w.lose_all();
    w.pass(Limits::default().resend_us);
    w.run();
    assert!(w.committed(tx));
    assert_eq!((counters(&w), answers(&mut w, tx)), ([1, 1], 2));
    w.assert_quiet();
}

/// Bug: the client dies when the last one has applied and nobody else knows. Mend: those who voted ask it (P25, row 1).
#[test]
fn the_client_dies_when_the_last_one_has_decided() {
    let mut w = World::new(2);
    spread(&mut w);
    w.run_until(|message| message.kind() == Kind::Committed);
    w.client_dies();
    w.pass_without_coordinators(Limits::default().lease_us);
    w.run();
    assert_eq!(counters(&w), [1, 1]);
}

/// Bug: those who voted give up, and the last prepare comes late. Mend: asking writes no (P24), and it finds that.
#[test]
fn the_last_prepare_comes_when_the_others_have_given_up() {
    let mut w = World::new(2);
    spread(&mut w);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Voted, 0);
    let late = w.hold(Kind::Prepare, 1);
    w.client_dies();
    w.pass_without_coordinators(Limits::default().lease_us);
    w.run();
    w.hand_over(late);
    w.run();
    assert_eq!(counters(&w), [0, 0]);
    assert_eq!((w.shards[0].locked_records(), w.shards[1].locked_records()), (0, 0));
}

/// A withdraw that finds the last one decided is too late: the transaction is committed.
#[test]
fn a_withdraw_that_comes_after_the_decision_is_told_of_it() {
    let mut w = World::new(2);
    let tx = spread(&mut w);
    w.run_until(|message| message.kind() == Kind::Committed);
    w.lose_all();
    w.abort(tx);
    w.run();
    assert!(w.committed(tx) && !w.aborted(tx));
    assert_eq!(counters(&w), [1, 1]);
    w.assert_quiet();
}

/// A shard that was not asked yet never says yes: that is a refusal, and those who voted hear of it.
#[test]
fn an_abort_before_the_last_one_is_asked_needs_no_answer_of_it() {
    let mut w = World::new(2);
    let tx = spread(&mut w);
    w.deliver(Kind::Prepare, 0);
    w.abort(tx);
    assert!(w.aborted(tx));
    w.run();
    assert_eq!(counters(&w), [0, 0]);
    w.assert_quiet();
}

/// Bug: a prepare that waits for one record holds those behind it, and two that met in this way wait for each other.
#[test]
fn a_prepare_that_waits_holds_nothing_behind() {
    let mut w = World::new(1);
    let holder = w.holder(0, "a", incr_returning(1));
    let waiting = w.begin();
    for key in ["a", "b"] {
        w.buffer(waiting, 0, key, incr_returning(1));
    }
    w.commit(waiting);
    w.run();
    assert!(!w.committed(waiting));
    let passing = w.begin();
    w.buffer(passing, 0, "b", incr_returning(1));
    w.commit(passing);
    w.run();
    assert!(w.committed(passing), "nobody holds 'b'");
    w.commit(holder);
    w.run();
    assert!(w.committed(waiting));
    assert_eq!((w.counter(0, "a"), w.counter(0, "b")), (2, 2));
    w.assert_quiet();
}

/// Bug: two transactions read a set's size and add to it in one prepare; both get the read, and neither the add.
/// Mend: the first call on a record takes along what the later ones need.
#[test]
fn two_that_read_and_write_one_record_do_not_share_the_read() {
    let mut w = World::new(1);
    let holder = w.holder(0, "s", sadd_returning("x"));
    let both = [w.begin(), w.begin()];
    for tx in both {
        w.buffer(tx, 0, "s", scard());
        w.buffer(tx, 0, "s", sadd("y"));
        w.commit(tx);
    }
    w.run();
    w.commit(holder);
    w.run();
    for tx in both {
        assert!(w.committed(tx) && w.restarts(tx) == 0);
    }
    w.assert_quiet();
}

/// Bug: in one step somebody is found unable to do what it waited for, and somebody else, who goes on to the same record,
/// changes what that was judged by before it is written. Consequence: refused for a state that came after it in
/// the order of commits (found by the simulator). Mend: what was decided is written before anybody goes on.
#[test]
fn what_is_found_impossible_is_written_before_others_go_on() {
    let bounded = Operation::new::<BoundedCounter>;
    let mut w = World::new(1);
    w.set_up(0, "b", bounded(BoundedCounterOp::Create(Bounded { value: 1, min: -3, max: 2 })));
    let holder = w.begin();
    w.execute(holder, 0, "a", incr_returning(1));
    w.execute(holder, 0, "b", bounded(BoundedCounterOp::Get));
    w.run();
    let taking = w.begin();
    w.buffer(taking, 0, "a", incr(1));
    w.buffer(taking, 0, "b", bounded(BoundedCounterOp::Take(2)));
    let failing = w.begin();
    w.buffer(failing, 0, "b", bounded(BoundedCounterOp::Add(2)));
    for tx in [taking, failing] {
        w.commit(tx);
        w.run();
    }
    w.commit(holder);
    w.deliver(Kind::Prepare, 0);
    let (taking, failing) = (w.attempt(taking), w.attempt(failing));
    let told: Vec<_> = w
        .bag
        .iter()
        .filter_map(|message| match &message.body {
            Body::Response(_, _, response @ (Response::Committed { .. } | Response::Refused { .. })) => {
                Some(response)
            }
            _ => None,
        })
        .collect();
    let at =
        |attempt| told.iter().position(|response| response.attempt() == Some(attempt)).expect("it is told");
    assert!(matches!(told[at(failing)], Response::Refused { refusal: Refusal::Operation { .. }, .. }));
    assert!(at(failing) < at(taking));
}

/// Two transactions use the same hot records in opposite orders, and lock them in one.
#[test]
fn hot_records_are_locked_in_one_order_whoever_asks() {
    let mut w = World::new(3);
    let mut contention = Contention::new(Switches::CLARET, Limits { hot_waits_min: 2, ..Limits::default() });
    let places = [(0, "cold"), (1, "warm"), (2, "hot")];
    let uses = |w: &mut World, places: &mut dyn Iterator<Item = (u32, &str)>| {
        let tx = w.begin();
        places.for_each(|(shard, key)| {
            w.buffer(tx, shard, key, incr(1));
        });
        tx
    };
    for round in 0..4 {
        for (shard, key) in places.into_iter().skip(1 + round % 2) {
            let tx = uses(&mut w, &mut std::iter::once((shard, key)));
            let _ = contention.arrange(w.coordinator_mut(tx));
            w.commit(tx);
            // It says which call waits.
            let queued = Response::Queued { attempt: w.attempt(tx), no: Some(CallNo(0)) };
            contention.learn(w.coordinator(tx), ShardId(shard), &queued);
        }
    }
    let orders = [uses(&mut w, &mut places.into_iter()), uses(&mut w, &mut places.into_iter().rev())]
        .map(|tx| contention.arrange(w.coordinator_mut(tx)).to_vec());
    assert_eq!(orders, [vec![ShardId(1), ShardId(2)], vec![ShardId(1), ShardId(2)]]);
    // What nobody waits for is asked at once, and a shard that only knows what it shares with it is not hot.
    let cold = uses(&mut w, &mut places.into_iter().take(1));
    assert!(contention.arrange(w.coordinator_mut(cold)).is_empty());
}

/// Without anything hot all prepares leave at once; the only participant is the last one.
#[test]
fn a_single_participant_is_told_that_it_is_the_last() {
    let mut w = World::new(2);
    let tx = w.begin();
    w.buffer(tx, 1, "k", incr(1));
    w.commit(tx);
    let Body::Request(_, Request::Prepare { asks, .. }) = w.hold(Kind::Prepare, 1).body else {
        panic!("a prepare")
    };
    assert_eq!(asks, Asks::Decision);
}

/// Bug: the host of a shard is about to be replaced, and everybody who asks it also asks others. Consequence: the others
/// vote, the answer never comes, and nobody knows the end. Mend: who rests is asked alone (P50).
#[test]
fn a_shard_that_rests_is_asked_before_anybody_else() {
    let mut w = World::new(3);
    let mut contention = Contention::new(Switches::CLARET, Limits::default());
    let over_all = |w: &mut World, contention: &mut Contention| {
        let tx = w.begin();
        for shard in 0..3 {
            w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
            w.buffer(tx, shard, "k", incr(1));
        }
        let _ = contention.arrange(w.coordinator_mut(tx));
        w.commit(tx);
        tx
    };
    let asked = |w: &World| [0, 1, 2].map(|shard| w.count(Kind::Prepare, shard));
    let first = over_all(&mut w, &mut contention);
    assert_eq!(asked(&w), [1, 1, 1]);
    let attempt = w.attempt(first);
    let (refusal, since) = (Refusal::ReadOnly, Incarnation(1));
    let rests = Response::Refused { attempt, shard: ShardId(1), refusal, since };
    contention.learn(w.coordinator(first), ShardId(1), &rests);
    w.run();
    let second = over_all(&mut w, &mut contention);
    assert_eq!(asked(&w), [0, 1, 0]);
    // What would be said for it if it were gone: nobody else has voted, so the end is certain.
    let gone = w.hold(Kind::Prepare, 1);
    let Body::Request(_, prepare) = &gone.body else { panic!("a prepare") };
    let answer = prepare.answer_of_removed(ShardId(1), Incarnation(2)).expect("an answer");
    let now = w.now;
    w.coordinator_mut(second).handle_response(now, ShardId(1), answer);
    assert!(!w.events(second).contains(&Event::Unknown));
    // A vote ends its rest.
    let third = over_all(&mut w, &mut contention);
    assert_eq!(asked(&w), [0, 1, 0]);
    let voted = Response::Voted { attempt: w.attempt(third), shard: ShardId(1), replies: vec![] };
    contention.learn(w.coordinator(third), ShardId(1), &voted);
    w.run();
    over_all(&mut w, &mut contention);
    assert_eq!(asked(&w), [1, 1, 1]);
}
