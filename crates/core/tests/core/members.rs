//! Attempts of several members, which need not agree to stay: what one that has left did or waited for counts no more (C13). Who is a
//! member, a way to commit decides (`docs/combining.md`); shards know of members whoever does.

use claret_core::message::Members;
use claret_core::{Coordinator, Member, ShardId, Time};
use smallvec::smallvec;

use crate::harness::{Tx, World, incr, incr_returning};

const STAYS: Member = Member(0);
const LEAVES: Member = Member(1);

/// Executes a call of the member that is going to leave.
fn execute_for_leaver(w: &mut World, tx: Tx) {
    let now = w.now;
    let shard = ShardId(0);
    let no = w.coordinator_mut(tx).execute_for(now, LEAVES, shard, "left".into(), incr_returning(5), None);
    no.expect("it runs");
    w.collect();
}

/// That member leaves, and the other one commits.
fn commit_without_leaver(w: &mut World, tx: Tx) {
    let now: Time = w.now;
    let coordinator: &mut Coordinator = w.coordinator_mut(tx);
    coordinator.leave(LEAVES);
    coordinator.buffer_for(STAYS, ShardId(0), "kept".into(), incr(1)).expect("it runs");
    coordinator.commit_for(now, Members::Only(smallvec![STAYS]), &[]).expect("it runs");
    w.collect();
    w.run();
}

/// What both counters show in the end.
fn what_counts() -> (i64, i64) {
    let mut w = World::new(1);
    let tx = w.begin();
    execute_for_leaver(&mut w, tx);
    w.run();
    commit_without_leaver(&mut w, tx);
    assert!(w.committed(tx));
    (w.counter(0, "kept"), w.counter(0, "left"))
}

#[test]
fn what_a_member_did_that_left_is_not_carried_out() {
    assert_eq!(what_counts(), (1, 0));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_shard_that_carries_it_out_is_noticed() {
    use claret_core::{Bug, with_bug};
    assert_eq!(with_bug(Some(Bug::PartedCount), what_counts), (1, 5));
}

/// Whether the record for which it waited is free in the end.
fn is_free() -> bool {
    let mut w = World::new(1);
    let holder = w.holder(0, "left", incr_returning(1));
    let tx = w.begin();
    execute_for_leaver(&mut w, tx);
    w.run();
    commit_without_leaver(&mut w, tx);
    assert!(w.committed(tx), "what has left is not waited for");
    w.commit(holder);
    w.run();
    w.shards[0].locked_records() == 0
}

#[test]
fn what_a_member_waited_for_that_left_it_waits_for_no_more() {
    assert!(is_free());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_place_in_a_queue_that_stays_is_noticed() {
    use std::panic::catch_unwind;

    use claret_core::{Bug, with_bug};
    let is_free = with_bug(Some(Bug::PartedWaits), || catch_unwind(is_free));
    assert!(!matches!(is_free, Ok(true)), "{is_free:?}");
}
