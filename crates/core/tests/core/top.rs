//! What an operator is shown of a shard that is slow: bounded, by key and operation, and of one's own keys alone.

use claret_core::message::{Asks, Call, KeyedCall, Link, Listed, Members, Request};
use claret_core::ways::WaySwitches;
use claret_core::{
    AttemptId, Birth, CallNo, HotRecord, Incarnation, Limits, Member, Ordered, Sequence, SessionId, Shard,
    ShardId, Switches, Time, Timestamp, Top, TxId,
};
use claret_types::{Bytes, Operation, Register, RegisterOp, Set, TypeInfo};

const HERE: ShardId = ShardId(2);
const LINK: Link = Link { session: SessionId(1), connection: 0 };

fn shard(switches: Switches) -> Shard {
    let mut shard = Shard::new(HERE, Incarnation(1), switches, Limits::default());
    shard.greet(LINK.session, 7, Incarnation(1));
    shard
}

fn attempt(sequence: u64) -> AttemptId {
    AttemptId { tx: TxId { session: LINK.session, sequence: Sequence(sequence) }, attempt: 1 }
}

fn birth(attempt: AttemptId) -> Birth {
    Birth { time: Time(attempt.tx.sequence.0), tx: attempt.tx }
}

fn get_set() -> Operation {
    Operation::new::<Register>(RegisterOp::GetSet(Bytes::from("value")))
}

fn of_set(method: &str, arguments: &[&str]) -> Operation {
    let arguments: Vec<Bytes> = arguments.iter().map(|it| Bytes::from(*it)).collect();
    (TypeInfo::of::<Set>().parse)(method, &arguments).expect("it is well-formed")
}

fn add(member: &str) -> Operation {
    of_set("SADD", &[member])
}

fn call(op: Operation) -> Call {
    Call { no: CallNo(1), op, member: Member(0), reserve: None }
}

fn execution(sequence: u64, key: &str, op: Operation) -> Request {
    let attempt = attempt(sequence);
    let (birth, calls) = (birth(attempt), [call(op)].into_iter().collect());
    Request::Execute {
        attempt,
        birth,
        incarnation: None,
        key: Bytes::from(key),
        calls,
        undone: Default::default(),
    }
}

fn execute(shard: &mut Shard, now: Time, sequence: u64, key: &str, op: Operation) {
    shard.handle(now, LINK, execution(sequence, key, op));
    shard.check_invariants();
}

fn prepare(shard: &mut Shard, sequence: u64, key: &str, op: Operation, listed: &[ShardId], asks: Asks) {
    let attempt = attempt(sequence);
    let listed = listed.iter().map(|shard| Listed { shard: *shard, incarnation: Some(Incarnation(1)) });
    let request = Request::Prepare {
        attempt,
        birth: birth(attempt),
        participants: listed.collect(),
        relies_on: 0,
        calls: vec![KeyedCall { key: Bytes::from(key), call: call(op) }],
        members: Members::All,
        asks,
        undone: Default::default(),
    };
    shard.handle(Time(10), LINK, request);
    shard.check_invariants();
}

fn top(shard: &Shard, now: Time, count: usize) -> Top {
    shard.top(now, count, 0, |_| true)
}

fn keys(top: &Top) -> Vec<String> {
    top.records.iter().map(|record| record.key.to_string()).collect()
}

#[test]
fn who_waits_for_whom_and_in_which_modes() {
    let mut shard = shard(Switches::CLARET);
    execute(&mut shard, Time(1), 1, "hot", get_set());
    execute(&mut shard, Time(1), 2, "cold", get_set());
    for sequence in 3..6 {
        execute(&mut shard, Time(100), sequence, "hot", get_set());
    }
    let top = top(&shard, Time(350), 10);
    assert_eq!((keys(&top), top.known, top.looked_at, top.hidden), (vec!["hot".to_owned()], 2, 2, 0));
    let HotRecord { waits, kind, held, wanted, holders, waiters, waited_us, in_line, behind, .. } =
        &top.records[0];
    assert_eq!((waits[0].method, waits[0].recent, waits[0].total), ("GETSET", 3, 3));
    assert_eq!((*kind, *holders, *waiters, *waited_us, *in_line), (Some("register"), 1, 3, 250, 0));
    assert_eq!((held.len(), held[0].claims, held[0].mode), (1, 1, wanted[0].mode));
    assert_eq!(wanted[0].claims, 3);
    let named: Vec<_> = behind.iter().map(|it| (it.waiter, it.method, it.holder)).collect();
    let waits = |sequence| (attempt(sequence), "GETSET", Some(attempt(1)));
    assert_eq!(named, [3, 4, 5].map(waits), "eldest first");
}

#[test]
fn who_waits_behind_others_alone_waits_for_no_holder() {
    let mut shard = shard(Switches::CLARET);
    execute(&mut shard, Time(1), 1, "set", add("red"));
    execute(&mut shard, Time(2), 2, "set", of_set("SCARD", &[]));
    // It would commute with who holds, and is younger than who waits: once the phase takes in nobody any more it waits.
    let late = Time(10_000_000);
    execute(&mut shard, late, 3, "set", of_set("SADD.RETURNING", &["blue"]));
    let top = top(&shard, late, 10);
    let behind: Vec<_> = top.records[0].behind.iter().map(|it| (it.waiter, it.holder)).collect();
    assert_eq!(behind, [(attempt(2), Some(attempt(1))), (attempt(3), None)]);
}

#[test]
fn the_hottest_come_first_and_those_waited_for_longest_are_not_left_out() {
    let mut shard = shard(Switches::CLARET);
    let mut sequence = 0;
    let mut next = || {
        sequence += 1;
        sequence
    };
    for (key, waiters) in [("old", 1), ("a", 2), ("b", 4), ("c", 3)] {
        execute(&mut shard, Time(next()), next(), key, get_set());
        for _ in 0..waiters {
            execute(&mut shard, Time(next()), next(), key, get_set());
        }
    }
    assert_eq!(keys(&top(&shard, Time(100), 2)), ["b", "c", "old", "a"]);
    assert_eq!(keys(&top(&shard, Time(100), 9)), ["b", "c", "a", "old"]);
    // What was counted is forgotten in time; who waits still is found all the same.
    let later = top(&shard, Time(3_600_000_000), 2);
    assert_eq!((later.records[0].waits.len(), later.records[0].recent()), (0, 0));
    assert_eq!(keys(&later)[0], "old");
}

#[test]
fn keys_that_may_not_be_seen_are_counted_and_not_named() {
    let mut shard = shard(Switches::CLARET);
    for (sequence, key) in [(1, "mine"), (3, "theirs")] {
        execute(&mut shard, Time(1), sequence, key, get_set());
        execute(&mut shard, Time(1), sequence + 1, key, get_set());
    }
    let mut asked = Vec::new();
    let top = shard.top(Time(2), 10, 0, |key| {
        asked.push(key.to_string());
        &**key == b"mine"
    });
    assert_eq!((keys(&top), top.hidden), (vec!["mine".to_owned()], 1));
    asked.sort();
    assert_eq!(asked, ["mine", "theirs"]);
}

#[test]
fn however_many_are_held_a_bounded_number_is_looked_at_and_in_the_end_all() {
    const RECORDS: u64 = 5_000;
    let mut shard = shard(Switches::CLARET);
    for sequence in 1..=RECORDS {
        shard.handle(Time(1), LINK, execution(sequence, &format!("k{sequence}"), get_set()));
    }
    execute(&mut shard, Time(1), RECORDS + 1, "k4999", get_set());
    // It is not counted any more: somebody has to come upon it.
    let late = Time(3_600_000_000);
    let (mut from, mut looked_at, mut found) = (0, 0, 0);
    for _ in 0..4 {
        let top = shard.top(late, 10, from, |_| true);
        assert!(top.looked_at <= 2048 && top.known == RECORDS as usize, "{}", top.looked_at);
        looked_at += top.looked_at;
        found += usize::from(keys(&top) == ["k4999"]);
        from = top.next;
        if from == 0 {
            break;
        }
    }
    assert_eq!((from, looked_at, found), (0, RECORDS as usize, 1));
    let beyond = shard.top(late, 10, usize::MAX, |_| true);
    assert!(beyond.looked_at > 0, "a place that is none is the first");
}

#[test]
fn those_who_stand_in_the_line_of_a_record_are_counted() {
    let mut shard = shard(Switches::claret(Ordered::Always, false, WaySwitches::ROUNDS));
    let asks = |at| Asks::Place(Timestamp(at));
    for sequence in 1..4 {
        let both = [HERE, ShardId(9)];
        prepare(&mut shard, sequence, "set", add("red"), &both, asks(sequence));
    }
    // A lock waits for the line, and so the record is shown.
    execute(&mut shard, Time(20), 4, "set", of_set("SCARD", &[]));
    let top = top(&shard, Time(30), 10);
    assert_eq!((keys(&top), top.records[0].in_line), (vec!["set".to_owned()], 3));
}

#[test]
fn of_its_participants_one_counts_a_transaction() {
    let mut shard = shard(Switches::CLARET);
    prepare(&mut shard, 1, "a", get_set(), &[HERE], Asks::Decision);
    for (sequence, other) in [(2, ShardId(1)), (3, ShardId(3))] {
        prepare(&mut shard, sequence, "b", add("red"), &[other, HERE], Asks::Vote);
        shard.handle(Time(20), LINK, Request::Apply { attempt: attempt(sequence) });
    }
    let stats = shard.stats();
    assert_eq!((stats.commits, stats.transactions), (3, 2));
}
