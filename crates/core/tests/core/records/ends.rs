//! Records of a host that end by their time, and votes about when (P71). Shard 0 is over a host's.

use claret_core::message::Refusal;
use claret_core::{Incarnation, Survives};
use claret_types::{KeyspaceOp, Moment, Operation, Register, RegisterOp, Reply, Set, SetOp};

use super::hooks::{cause, members, plain, vanished, voted, world};
use crate::harness::{Kind, Tx, World, get, incr, sadd, scard};

/// Another value, which has no end.
fn set() -> Operation {
    Operation::new::<Register>(RegisterOp::Set("new".into()))
}

fn set_until(ms: u64) -> Operation {
    Operation::from(KeyspaceOp::SetUntil { value: "old".into(), at: Moment::At(ms) })
}

fn expire_at(ms: u64) -> Operation {
    Operation::from(KeyspaceOp::Expire { at: Moment::At(ms), only_later: false, returning: false })
}

fn extend(ms: u64) -> Operation {
    Operation::from(KeyspaceOp::Expire { at: Moment::At(ms), only_later: true, returning: false })
}

/// It has voted at shard 0 and waits for shard 1.
fn undecided(w: &mut World, key: &str, op: Operation) -> Tx {
    let tx = w.begin();
    w.buffer(tx, 0, key, op);
    w.buffer(tx, 1, "other", incr(1));
    w.commit(tx);
    w.hold(Kind::Prepare, 1);
    w.run();
    tx
}

#[test]
fn the_host_holds_an_end_from_the_vote_about_it_until_it_is_carried_out() {
    let (mut w, store) = world();
    plain(store, "k", &set_until(5_000));
    let tx = voted(&mut w, "k", set());
    assert_eq!(store.holders_of_end("k"), 1);
    w.run();
    assert!(w.committed(tx));
    assert_eq!(store.holders_of_end("k"), 0);
    w.assert_quiet();
}

/// What is counted or read beside an end, or decided at once, holds none.
#[test]
fn only_votes_about_an_end_hold_it() {
    let (mut w, store) = world();
    plain(store, "k", &sadd("x"));
    plain(store, "k", &expire_at(5_000));
    let tx = voted(&mut w, "k", sadd("y"));
    assert_eq!(store.holders_of_end("k"), 0);
    w.run();
    assert!(w.committed(tx));
    let alone = w.begin();
    w.buffer(alone, 0, "k", extend(9_000));
    w.commit(alone);
    w.run();
    assert!(w.committed(alone));
    assert_eq!(store.ends_held(), 0, "it was asked for none");
    w.assert_quiet();
}

/// Several put the end off, who commute: it is held until the last of them is done.
#[test]
fn the_last_who_voted_about_an_end_lets_it_come() {
    let (mut w, store) = world();
    plain(store, "k", &sadd("x"));
    plain(store, "k", &expire_at(5_000));
    let first = voted(&mut w, "k", extend(7_000));
    let apply = w.hold(Kind::Apply, 0);
    let second = voted(&mut w, "k", extend(8_000));
    assert_eq!(store.holders_of_end("k"), 2);
    w.run();
    assert!(w.committed(second));
    assert_eq!(store.holders_of_end("k"), 1);
    w.hand_over(apply);
    w.run();
    assert!(w.committed(first));
    assert_eq!(store.holders_of_end("k"), 0);
    w.assert_quiet();
}

/// T1 has voted to replace k, whose time passes meanwhile, and is undone: k ends then, before T2 is let in.
#[test]
fn an_end_that_was_held_comes_when_the_vote_is_undone() {
    let (mut w, store) = world();
    plain(store, "k", &set_until(5_000));
    let first = undecided(&mut w, "k", set());
    store.pass("k");
    let second = w.begin();
    w.execute(second, 0, "k", get());
    w.run();
    assert!(!w.answered(second) && store.states().contains_key(&b"k"[..]));
    w.abort(first);
    w.run();
    assert!(!store.states().contains_key(&b"k"[..]));
    assert_eq!((store.holders_of_end("k"), w.answers(second)), (0, vec![Reply::Int(0)]));
}

/// Between a call and its vote the time of k passes: who would have decided on it runs again.
#[test]
fn whoever_votes_on_what_is_over_is_refused() {
    let (mut w, store) = world();
    plain(store, "k", &set_until(5_000));
    plain(store, "j", &set_until(5_000));
    store.is_over("k");
    let tx = undecided(&mut w, "k", set());
    assert_eq!(cause(&mut w, tx), Some(vanished()));
    assert!(matches!(vanished(), Refusal::Vanished { .. }));
    let both = w.begin();
    w.buffer(both, 0, "j", set());
    w.buffer(both, 0, "k", set());
    w.buffer(both, 1, "other", incr(1));
    w.commit(both);
    w.run();
    assert!(!w.committed(both));
    assert_eq!(store.holders_of_end("j"), 0, "it was let go");
}

/// Bug: only the voter was refused, and somebody was let in to the record before the shard heard that it had ended: what he
/// had voted by then came to nothing. Mend: all who hold the record or wait for it are refused, before anybody is let in.
#[test]
fn who_holds_a_record_that_is_found_over_runs_again() {
    let (mut w, store) = world();
    plain(store, "k", &sadd("x"));
    plain(store, "k", &expire_at(5_000));
    let beside = w.begin();
    w.execute(beside, 0, "k", Operation::from(KeyspaceOp::Exists));
    w.run();
    store.is_over("k");
    let voter = undecided(&mut w, "k", extend(9_000));
    for tx in [beside, voter] {
        assert_eq!(cause(&mut w, tx), Some(vanished()));
    }
}

/// A shard that forgets its votes holds no end.
#[test]
fn a_restart_without_votes_lets_records_end() {
    for survives in [Survives::Records, Survives::Nothing] {
        let (mut w, store) = world();
        plain(store, "k", &set_until(5_000));
        undecided(&mut w, "k", set());
        assert_eq!(store.holders_of_end("k"), 1);
        let now = w.now;
        w.shards[0].restart(now, Incarnation(2), survives);
        assert_eq!(store.holders_of_end("k"), 0);
    }
}

/// Emptying a record takes its end away, so it is about that, too.
#[test]
fn what_may_empty_a_record_holds_its_end() {
    let (mut w, store) = world();
    plain(store, "k", &sadd("x"));
    plain(store, "k", &expire_at(5_000));
    let tx = voted(&mut w, "k", Operation::new::<Set>(SetOp::Remove(["x".into()].into_iter().collect())));
    assert_eq!(store.holders_of_end("k"), 1);
    w.run();
    assert!(w.committed(tx) && members(store, "k").is_empty());
    let counts = w.begin();
    w.execute(counts, 0, "k", scard());
    w.run();
    assert!(w.answered(counts));
    assert_eq!(store.holders_of_end("k"), 0);
}
