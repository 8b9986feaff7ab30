//! Traps of calls that sleep until their record has something for them (P91), each with the planted bug that springs it.

use claret_core::message::{Asks, Call, KeyedCall, Listed, Members, Request, UndoneCalls};
use claret_core::{Bug, CallNo, Limits, Member, ShardId, with_bug};
use claret_types::{Bytes, Operation, Reply};
use smallvec::smallvec;

use crate::harness::{Kind, Tx, World, sadd_returning, scard, set};

fn operation(kind: &str, method: &str, arguments: &[&str]) -> Operation {
    let arguments: Vec<Bytes> = arguments.iter().map(|argument| Bytes::from(*argument)).collect();
    let kind = claret_types::builtin_types().iter().find(|it| it.name == kind).expect("a built-in type");
    (kind.parse)(method, &arguments).expect("an operation")
}

fn push(value: &str) -> Operation {
    operation("list", "RPUSH", &[value])
}

fn pop() -> Operation {
    operation("list", "LPOP", &[])
}

/// Transactions that sleep on a record, in the order in which they began.
fn sleepers(w: &mut World, count: usize, key: &str) -> Vec<Tx> {
    let begin = |_| {
        let tx = w.begin();
        w.execute(tx, 0, key, pop().waiting());
        w.run();
        tx
    };
    (0..count).map(begin).collect()
}

fn commit_push(w: &mut World, key: &str, value: &str) -> bool {
    let tx = w.begin();
    w.buffer(tx, 0, key, push(value));
    w.commit(tx);
    w.run();
    w.committed(tx)
}

fn popped(w: &World, tx: Tx) -> Vec<Reply> {
    w.answers(tx)
}

fn bytes(value: &str) -> Vec<Reply> {
    vec![Reply::Bytes(value.into())]
}

/// Bug: nobody, or everybody, or the youngest is woken. What each of three sleepers has after one push, how many sleep still, and what
/// they have after all have come.
fn one_push_for_three() -> (Vec<Vec<Reply>>, usize, Vec<Vec<Reply>>) {
    let mut w = World::new(1);
    let all = sleepers(&mut w, 3, "jobs");
    assert!(commit_push(&mut w, "jobs", "a"));
    let first: Vec<_> = all.iter().map(|tx| popped(&w, *tx)).collect();
    let sleeps = w.shards[0].sleepers();
    for tx in &all {
        if w.answered(*tx) {
            w.commit(*tx);
        }
    }
    w.run();
    for value in ["b", "c"] {
        commit_push(&mut w, "jobs", value);
        for tx in &all {
            if w.answered(*tx) && !w.committed(*tx) {
                w.commit(*tx);
                w.run();
            }
        }
    }
    (first, sleeps, all.iter().map(|tx| popped(&w, *tx)).collect())
}

#[test]
fn trap_62_one_push_wakes_the_one_who_has_slept_longest() {
    let (first, sleeps, all) = one_push_for_three();
    assert_eq!(first, [bytes("a"), vec![], vec![]]);
    assert_eq!(sleeps, 2, "nobody else was woken");
    assert_eq!(all, [bytes("a"), bytes("b"), bytes("c")]);
    let right = (first, sleeps, all);
    for bug in [Bug::SleepersForgotten, Bug::AllSleepersWoken, Bug::YoungestSleeperFirst] {
        assert_ne!(with_bug(Some(bug), one_push_for_three), right, "{bug:?}");
    }
}

/// Bug: who was woken gives up, and what it was woken for lies there while others sleep.
fn given_up() -> Vec<Vec<Reply>> {
    let mut w = World::new(1);
    let all = sleepers(&mut w, 2, "jobs");
    assert!(commit_push(&mut w, "jobs", "a"));
    assert_eq!(popped(&w, all[0]), bytes("a"));
    w.abort(all[0]);
    w.run();
    all[1..].iter().map(|tx| popped(&w, *tx)).collect()
}

#[test]
fn trap_63_who_was_woken_and_gives_up_leaves_it_to_the_next() {
    assert_eq!(given_up(), [bytes("a")]);
    assert_ne!(with_bug(Some(Bug::SleepersPassNothingOn), given_up), [bytes("a")]);
}

#[test]
fn trap_63_the_same_where_its_process_is_gone_or_its_lease_is_over() {
    for is_deserted in [true, false] {
        let mut w = World::new(1);
        let all = sleepers(&mut w, 1, "jobs");
        assert!(!w.answered(all[0]));
        match is_deserted {
            true => w.desert(0),
            false => w.time_out_shard(0, Limits::default().lease_us),
        }
        assert_eq!(w.shards[0].sleepers(), 0, "nothing sleeps for who is gone");
        let tx = w.begin();
        w.buffer(tx, 0, "jobs", push("a"));
        w.commit(tx);
        w.run();
        let last = w.begin();
        w.execute(last, 0, "jobs", operation("list", "LLEN", &[]));
        w.run();
        assert_eq!(w.answers(last), [Reply::Int(1)], "what it slept for is there");
    }
}

/// Bug: a call sleeps for ever while its transaction holds what whoever would bring something needs.
fn sleeper_with_a_lock() -> bool {
    let mut w = World::new(1);
    let tx = w.begin();
    w.execute(tx, 0, "tags", scard());
    w.execute(tx, 0, "jobs", pop().waiting());
    w.run();
    w.shards[0].sleepers() > 0
}

#[test]
fn trap_64_who_holds_something_does_not_sleep() {
    assert!(!sleeper_with_a_lock());
    assert!(with_bug(Some(Bug::SleepersHold), sleeper_with_a_lock));
}

/// Bug: a call that its user has undone goes on sleeping, and keeps those who came later from being woken.
fn undone_and_next() -> Vec<Reply> {
    let mut w = World::new(1);
    let tx = w.begin();
    let attempt = w.attempt(tx);
    w.coordinator_mut(tx).may_fail_from(attempt, Some(CallNo(0))).expect("it runs");
    let no = w.execute(tx, 0, "jobs", pop().waiting());
    w.run();
    assert_eq!(w.shards[0].sleepers(), 1);
    let now = w.now;
    w.coordinator_mut(tx).undo(now, attempt, no).expect("it runs");
    w.execute(tx, 0, "tags", scard());
    w.run();
    w.commit(tx);
    w.run();
    assert!(w.committed(tx));
    let next = sleepers(&mut w, 1, "jobs")[0];
    commit_push(&mut w, "jobs", "a");
    popped(&w, next)
}

#[test]
fn trap_64_a_call_that_is_undone_sleeps_no_more() {
    assert_eq!(undone_and_next(), bytes("a"));
    let planted = std::panic::catch_unwind(|| with_bug(Some(Bug::UndoneSleep), undone_and_next));
    assert_ne!(planted.unwrap_or_default(), bytes("a"));
}

/// Bug: a member that left its group went on sleeping.
#[test]
fn trap_64_a_member_that_left_sleeps_no_more() {
    let mut w = World::new(1);
    let tx = w.begin();
    let (attempt, birth) = (w.attempt(tx), w.coordinator(tx).birth());
    let call = |no, op, member| Call { no: CallNo(no), op, member: Member(member), reserve: None };
    let (key, calls) = (Bytes::from("jobs"), smallvec![call(0, pop().waiting(), 1)]);
    let undone = UndoneCalls::default();
    let incarnation = None;
    w.send(0, Request::Execute { attempt, birth, incarnation, key, calls, undone: undone.clone() });
    w.run();
    assert_eq!(w.shards[0].sleepers(), 1);
    w.send(
        0,
        Request::Prepare {
            attempt,
            birth,
            participants: vec![Listed { shard: ShardId(0), incarnation }].into(),
            relies_on: 0,
            calls: vec![KeyedCall { key: Bytes::from("x"), call: call(1, set("1"), 0) }],
            members: Members::Only(smallvec![Member(0)]),
            asks: Asks::Decision,
            undone,
        },
    );
    w.run();
    assert_eq!(w.shards[0].sleepers(), 0);
    w.shards[0].check_invariants();
}

#[test]
fn trap_64_who_sleeps_asks_for_nothing_else() {
    let mut w = World::new(1);
    let tx = sleepers(&mut w, 1, "jobs")[0];
    w.execute(tx, 0, "tags", scard());
    w.run();
    assert!(!w.committed(tx));
    assert_eq!(w.shards[0].sleepers(), 0);
}

/// Bug: who finds nothing waits for those who hold the record, is elder than they, and has them give way.
#[test]
fn trap_64_who_finds_nothing_is_in_nobodys_way() {
    let mut w = World::new(1);
    let all = sleepers(&mut w, 1, "tags");
    let holder = w.holder(0, "tags", sadd_returning("red"));
    let other = w.begin();
    w.execute(other, 0, "tags", sadd_returning("blue"));
    w.run();
    assert!(w.answered(other), "adds share the record still");
    for tx in [holder, other] {
        w.commit(tx);
        w.run();
        assert!(w.committed(tx));
    }
    assert!(!w.answered(all[0]), "a set is slept through");
}

/// A record becomes one of another type, and then one that is waited for.
#[test]
fn trap_65_a_record_of_another_type_is_slept_through_and_those_of_each_type_are_woken() {
    let mut w = World::new(1);
    let of_list = sleepers(&mut w, 1, "k");
    let of_set = w.begin();
    w.execute(of_set, 0, "k", operation("scored-set", "ZRANGE", &["0", "0"]).waiting());
    w.run();
    w.set_up(0, "k", set("text"));
    assert!(!w.answered(of_list[0]) && !w.answered(of_set));
    assert_eq!(w.shards[0].sleepers(), 2);
    let tx = w.begin();
    w.buffer(tx, 0, "k", operation("keyspace", "DEL", &[]));
    w.buffer(tx, 0, "k", operation("scored-set", "ZADD", &["1", "a"]));
    w.commit(tx);
    w.run();
    assert!(w.answered(of_set) && !w.answered(of_list[0]), "whoever of its type came first is woken");
    w.commit(of_set);
    w.abort(of_list[0]);
    w.run();
    w.assert_quiet();
}

/// The message with the answer is lost, and the call is asked for again: it is not done twice.
#[test]
fn trap_66_an_answer_that_is_lost_is_said_again_and_nothing_is_taken_twice() {
    let mut w = World::new(1);
    let all = sleepers(&mut w, 1, "jobs");
    let tx = w.begin();
    w.buffer(tx, 0, "jobs", push("a"));
    w.buffer(tx, 0, "jobs", push("b"));
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Granted);
    w.lose_all();
    w.pass(Limits::default().resend_us);
    w.run();
    assert_eq!(popped(&w, all[0]), bytes("a"));
    w.commit(all[0]);
    w.run();
    assert!(w.committed(all[0]));
    let next = w.begin();
    w.execute(next, 0, "jobs", pop());
    w.run();
    assert_eq!(w.answers(next), bytes("b"));
}
