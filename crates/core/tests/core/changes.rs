//! What a shard tells its replicas, as bytes: it comes back as it was, and what no shard says is refused.
//!
//! A fuzzer (`crates/core/fuzz`, `changes`) asks the same of far more bytes; what it finds becomes a test here.

use crate::wire::samples::attempt;
use crate::wire::{samples, told};
use claret_core::message::{Call, Listed, Members};
use claret_core::ways::WaySwitches;
use claret_core::wire::{decode_change, encode_change};
use claret_core::{
    Backup, Birth, Change, Granted, HeldRecord, Incarnation, Limits, Ordered, Shard, ShardId, Switches, Time,
    Timestamp, Vote, VotedAnswers, VotedPlace,
};
use claret_types::{BUILTIN, Bytes, Claims, Mode};
use smallvec::SmallVec;

/// All changes of these bytes.
fn read(mut bytes: &[u8]) -> Vec<Change> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (change, behind) = decode_change(bytes).expect("what is told can be read");
        all.push(change);
        bytes = behind;
    }
    all
}

fn refused(change: &Change) -> String {
    let bytes = encode_change(change).expect("it has a form");
    decode_change(&bytes).expect_err("it is refused").to_string()
}

/// The yes of an attempt over two shards, which holds a counter.
fn vote() -> Vote {
    let (attempt, listed) = (attempt(7, 1, 1), |shard| Listed { shard: ShardId(shard), incarnation: None });
    let kind = BUILTIN.iter().find(|kind| kind.name == "counter").expect("it is built in");
    let granted = Granted { member: Default::default(), claims: Claims::record(Mode(0)), effect: None };
    Vote {
        attempt,
        birth: Birth { time: Time(1), tx: attempt.tx },
        participants: [listed(0), listed(1)].into_iter().collect(),
        members: Members::All,
        replies: Vec::new(),
        account: 1,
        bytes: 100,
        held: vec![HeldRecord {
            key: Bytes::from("k"),
            kind,
            has_vanished: false,
            granted: vec![granted],
            in_order: Default::default(),
        }],
        place: None,
    }
}

fn voted(change: impl FnOnce(&mut Vote)) -> Change {
    let mut vote = vote();
    change(&mut vote);
    Change::Voted(Box::new(vote))
}

fn place(at: u64) -> VotedPlace {
    VotedPlace { at: Timestamp(at), behind: Timestamp(1), answers: VotedAnswers::Later }
}

/// A call that can be ordered, or one that draws too much for that.
fn calls(total: usize) -> SmallVec<[Call; 1]> {
    let op = if total == 1 {
        samples::op("counter", "GET", &[])
    } else {
        samples::op("counter", "INCRBY", &["9000000000"])
    };
    [samples::call(1, op)].into_iter().collect()
}

fn in_order(vote: &mut Vote, place: Option<VotedPlace>) {
    vote.held[0].granted.clear();
    (vote.held[0].in_order, vote.place) = (calls(1), place);
}

fn draws_much(vote: &mut Vote) {
    in_order(vote, Some(place(5)));
    vote.held[0].in_order = calls(0);
}

#[test]
fn what_is_told_of_every_operation_comes_back() {
    for told in told::all() {
        let mut backup = Backup::default();
        for change in read(&told) {
            let bytes = encode_change(&change).expect("it was read");
            assert_eq!(encode_change(&read(&bytes)[0]).expect("it was read"), bytes);
            backup.take(change);
        }
        assert_eq!(backup.shard(), Some(ShardId(0)));
    }
}

/// Bug: whatever could be read of a file or from a primary was kept, also a lock mode that the type does not have, an incarnation
/// after which there is none, and a vote of more bytes than a number holds. Consequence: the replica said that it had it, and panicked
/// when it was to go on as the shard, or went on as an incarnation that was before. Mend: it is refused where it is read, like a
/// request, and nothing is kept of what came with it.
#[test]
fn what_no_shard_says_is_refused_and_not_kept_until_a_promotion() {
    assert!(decode_change(&encode_change(&voted(|_| {})).expect("a form")).is_ok());
    for (change, what) in [
        (Change::Began { shard: ShardId(0), since: Incarnation(u64::MAX) }, "no incarnation"),
        (Change::Incarnation(Incarnation(u64::MAX)), "an incarnation after which"),
        (voted(|vote| vote.held[0].granted[0].claims = Claims::record(Mode(9))), "a lock mode"),
        (voted(|vote| vote.bytes = u64::MAX), "more bytes"),
        (voted(|vote| vote.birth.tx.session.0 += 1), "the birth of another"),
        (voted(|vote| vote.participants = vote.participants[..1].into()), "nobody else"),
        (voted(|vote| vote.participants = [vote.participants[0]; 2].into()), "listed twice"),
        (voted(|vote| vote.held.push(vote.held[0].clone())), "held twice"),
        (voted(|vote| vote.held[0].key = Bytes::from("")), "an empty key"),
        (Change::OfHost(vec![0; 1 << 16].into()), "too long"),
        (voted(|vote| in_order(vote, None)), "without a timestamp"),
        (voted(|vote| in_order(vote, Some(place(1 << 62)))), "a timestamp after which"),
        (
            voted(|vote| vote.place = Some(VotedPlace { answers: VotedAnswers::Tentative(1), ..place(5) })),
            "more answers",
        ),
        (voted(|vote| (vote.held[0].in_order, vote.place) = (calls(1), Some(place(5)))), "in two ways"),
        (voted(draws_much), "never ordered"),
        (Change::Placed { attempt: attempt(7, 1, 1), at: Timestamp::MAX }, "a timestamp after which"),
        (Change::Used(Timestamp::MAX), "a timestamp after which"),
    ] {
        let said = refused(&change);
        let is_said = said.contains(what) || what.starts_with("no ") && said.contains("message 0");
        assert!(is_said, "{what}: {said}");
    }
}

/// Bug: a yes that was told after what was decided of the same attempt was kept beside that. Consequence: whoever was promoted held
/// locks for an attempt that was over, and answered those who asked from the decision: nothing ended the vote. Mend: a yes of what is
/// decided is of nobody.
#[test]
fn a_yes_after_the_decision_holds_nothing() {
    let mut backup = Backup::default();
    backup.take(Change::Began { shard: ShardId(0), since: Incarnation(1) });
    let decided =
        Change::Decided { attempt: vote().attempt, is_applied: true, replies: None, listed: None, at: None };
    for change in [voted(|_| {}), decided, voted(|_| {})] {
        backup.take(change);
    }
    assert_eq!((backup.votes(), backup.decisions()), (0, 1));
    let promoted = Shard::promote(backup, None, Time(1), Incarnation(9), Switches::CLARET, Limits::default());
    let shard = promoted.expect("it is of a shard");
    assert_eq!(shard.held_keys().count(), 0);
    shard.check_invariants();
}

#[test]
fn what_the_host_notes_is_told_when_it_changes_and_to_whoever_comes() {
    let mut shard = Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, Limits::default());
    assert!(!shard.note_of_host(Bytes::from("nobody")), "it has no replicas");
    shard.replicate();
    assert!(shard.note_of_host(Bytes::from("old")) && shard.note_of_host(Bytes::from("new")));
    assert!(!shard.note_of_host(Bytes::from("new")), "they know that");
    let mut backup = Backup::default();
    let mut take = |shard: &mut Shard| {
        let (_, changes) = shard.poll_changes().expect("something is told");
        changes.into_iter().for_each(|change| backup.take(change));
        backup.clone()
    };
    assert_eq!(take(&mut shard).of_host(), b"new");
    shard.replicate();
    let told = take(&mut shard);
    assert_eq!(told.of_host(), b"new", "somebody came");
    let mut copy = Backup::default();
    told.changes().for_each(|change| copy.take(change));
    assert_eq!(copy.of_host(), b"new", "it is in files");
    copy.take(Change::Began { shard: ShardId(0), since: Incarnation(1) });
    assert_eq!(copy.of_host(), b"", "all that was said before counts no more");
}

/// Bug: two votes on one record, each well formed, were of two types that share no modes. Consequence: whoever was promoted looked one
/// up in the table of the other, and panicked.
#[test]
fn votes_of_two_types_on_one_record_are_of_no_shard() {
    let mut backup = Backup::default();
    backup.take(Change::Began { shard: ShardId(0), since: Incarnation(1) });
    backup.take(voted(|vote| in_order(vote, Some(place(5)))));
    let other = |vote: &mut Vote| {
        (vote.attempt, vote.birth.tx) = (attempt(7, 2, 1), attempt(7, 2, 1).tx);
        let set = samples::op("set", "SCARD", &[]);
        (vote.held[0].kind, vote.held[0].granted) = (set.type_info(), Vec::new());
        vote.held[0].in_order = [samples::call(1, set)].into_iter().collect();
        vote.place = Some(place(6));
    };
    backup.take(voted(other));
    backup.take(Change::Placed { attempt: attempt(7, 2, 1), at: Timestamp(6) });
    let promoted = Shard::promote(backup, None, Time(1), Incarnation(9), Switches::CLARET, Limits::default());
    let shard = promoted.expect("it is of a shard");
    assert_eq!(shard.voted_attempts(), 1);
    shard.check_invariants();
}

/// What is told of a place by somebody who has none, or of what is over, does nothing; and what is told twice does it once.
#[test]
fn a_place_of_nobody_does_nothing() {
    let mut backup = Backup::default();
    let placed = |at| Change::Placed { attempt: vote().attempt, at: Timestamp(at) };
    for change in
        [Change::Began { shard: ShardId(0), since: Incarnation(1) }, placed(7), voted(|_| {}), placed(7)]
    {
        backup.take(change);
    }
    assert!(!backup.changes().any(|change| matches!(change, Change::Placed { .. })));
    assert_eq!(backup.held_keys().len(), 1, "it voted without a timestamp, and holds what it held");
    backup.take(voted(|vote| vote.place = Some(place(5))));
    backup.take(placed(7));
    assert_eq!(backup.held_keys().len(), 0, "what it held by locks was carried out");
    backup.take(Change::Dropped(vote().attempt));
    backup.take(placed(9));
    assert_eq!(backup.changes().count(), 3, "the shard, its incarnation and a session");
    // Nobody holds the record of which something is seen.
    backup.take(Change::Vanished { key: Bytes::from("k"), seen: None });
    assert_eq!(backup.changes().count(), 3);
}

/// Bug: the bound of timestamps was told as far ahead of the bound that was known as of the time. Consequence: it went ahead with each
/// promotion, and what is asked for one timestamp waited for time to come after it.
#[test]
fn the_bound_of_timestamps_is_no_further_ahead_after_many_promotions() {
    let switches = Switches::claret(Ordered::Always, false, WaySwitches::ROUNDS);
    let (limits, now) = (Limits::default(), Time(5_000_000));
    let ahead = now.0 + limits.told_ahead_us;
    let mut used = Timestamp(now.0);
    for incarnation in 1..=20 {
        let mut backup = Backup::default();
        let began = Change::Began { shard: ShardId(0), since: Incarnation(1) };
        [began, Change::Used(used)].into_iter().for_each(|change| backup.take(change));
        let promoted = Shard::promote(backup, None, now, Incarnation(incarnation), switches, limits);
        let mut shard = promoted.expect("it is of a shard");
        assert!(shard.clock() >= used, "it begins behind all that may have been used");
        shard.replicate();
        let (_, changes) = shard.poll_changes().expect("everything is told");
        let told = changes.into_iter().filter_map(|change| match change {
            Change::Used(used) => Some(used),
            _ => None,
        });
        used = told.max().expect("a bound is told");
        assert!(used.0 <= ahead, "{used:?} after {incarnation} promotions");
    }
    assert_eq!(used.0, ahead);
}
