//! Trap 7: recovery's answers, one test for each row of the table in `shard/recovery.rs`; and who may ask.

use claret_core::message::{Asks, Call, Link, PeerMessage, Request, Status};
use claret_core::{
    AttemptId, Birth, CallNo, Incarnation, Limits, Member, Sequence, SessionId, Shard, ShardId, Switches,
    Time, TxId,
};

use crate::harness::{Kind, Tx, World, get, incr, incr_returning};

/// A transaction over three shards, its prepares under way.
fn spread(w: &mut World) -> Tx {
    let tx = w.begin();
    for shard in [0, 1, 2] {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    tx
}

/// The same, voted everywhere; the client dies before it hears of it.
fn voted(w: &mut World) -> Tx {
    let tx = spread(w);
    for shard in [0, 1, 2] {
        w.deliver(Kind::Prepare, shard);
    }
    w.client_dies();
    tx
}

fn leases_run_out(w: &mut World) {
    w.pass_without_coordinators(Limits::default().lease_us);
}

fn counters(w: &World) -> [i64; 3] {
    [0, 1, 2].map(|shard| w.counter(shard, "k"))
}

/// Row 1: any `Applied`: apply, whoever else does not answer.
#[test]
fn trap_07_any_applied_applies() {
    let mut w = World::new(3);
    let tx = spread(&mut w);
    w.run_until(|message| message.kind() == Kind::Apply);
    assert!(w.committed(tx));
    w.deliver(Kind::Apply, 0);
    w.client_dies();
    leases_run_out(&mut w);
    w.run_until(|message| message.kind() == Kind::Inquire && message.shard() != 0);
    assert_eq!(counters(&w), [1, 1, 1]);
}

/// Row 2: any `Refused`: abort. Nothing there: a no is recorded, which a late prepare finds.
#[test]
fn trap_07_nothing_there_writes_no() {
    let mut w = World::new(3);
    spread(&mut w);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    let late = w.hold(Kind::Prepare, 2);
    w.client_dies();
    leases_run_out(&mut w);
    w.run();
    w.hand_over(late);
    w.lose_all();
    leases_run_out(&mut w);
    assert_eq!(counters(&w), [0, 0, 0]);
    w.assert_quiet();
}

/// Row 2 again: waiting there is no vote either, and a no is recorded.
#[test]
fn trap_07_waiting_there_writes_no() {
    let mut w = World::new(3);
    let holder = w.holder(2, "k", incr_returning(1));
    let tx = spread(&mut w);
    let attempt = w.attempt(tx);
    w.run_until(|message| message.kind() == Kind::Voted);
    assert_eq!(w.inquire(2, attempt, Some(Incarnation(1))), Status::Refused);
    w.run();
    assert_eq!(w.restarts(tx), 1);
    w.commit(holder);
    w.run();
    assert_eq!(counters(&w), [0, 0, 1]);
    w.assert_quiet();
}

/// Row 3: all `Prepared`: everybody voted yes, so it is committed, though its client never knew.
#[test]
fn trap_07_all_prepared_applies() {
    let mut w = World::new(3);
    voted(&mut w);
    leases_run_out(&mut w);
    w.run();
    assert_eq!(counters(&w), [1, 1, 1]);
    w.assert_quiet();
}

/// Row 4: everybody answered, and one has lost its memory: abort (a shard without durable votes, trap 8).
#[test]
fn trap_07_lost_and_nobody_applied_aborts() {
    let mut w = World::new(3);
    voted(&mut w);
    w.restart_shard(2);
    leases_run_out(&mut w);
    w.run_until(|message| message.kind() == Kind::Inquire && message.shard() == 1);
    assert_eq!(w.shards[0].open_attempts(), 1, "the third may have applied: in doubt until it answers");
    w.run();
    assert_eq!(counters(&w), [0, 0, 0]);
    w.assert_quiet();
}

/// Row 4 does not come before row 1: a shard that has lost its memory, and has since written a no of its own, says
/// `Lost`, so that the one that applied is heard.
#[test]
fn trap_07_a_no_of_a_later_incarnation_does_not_outdo_an_applied() {
    let mut w = World::new(3);
    let tx = spread(&mut w);
    let late = w.bag.iter().find(|message| message.shard() == 2).cloned().expect("the third prepare");
    w.run_until(|message| message.kind() == Kind::Apply);
    w.deliver(Kind::Apply, 1);
    w.client_dies();
    w.restart_shard(2);
    let attempt = w.attempt(tx);
    assert_eq!(w.inquire(2, attempt, None), Status::Refused); // A no of incarnation 2.
    w.hand_over(late);
    w.lose_all();
    leases_run_out(&mut w);
    w.run_until(|message| message.kind() == Kind::Inquire && message.shard() == 1);
    assert_eq!(w.shards[0].open_attempts(), 1, "in doubt");
    w.run();
    assert_eq!(w.counter(0, "k"), 1);
}

/// Row 5: otherwise it stays in doubt, keeps its locks and asks again.
#[test]
fn trap_07_in_doubt_keeps_the_locks_and_asks_again() {
    let mut w = World::new(3);
    voted(&mut w);
    leases_run_out(&mut w);
    w.run_until(|message| message.kind() == Kind::Inquire && message.shard() == 2);
    w.lose_all();
    assert_eq!(w.shards[0].open_attempts(), 1);
    w.client_is_gone = false; // Another one comes:
    let reader = w.holder(0, "k", get());
    assert!(!w.answered(reader), "the lock is kept");
    w.pass_without_coordinators(Limits::default().inquire_us);
    w.run();
    assert_eq!(counters(&w), [1, 1, 1]);
    assert!(w.answered(reader));
}

/// Only who has voted asks: without a vote, a lease that runs out is a no.
#[test]
fn trap_07_only_prepared_participants_ask() {
    let mut w = World::new(2);
    let holder = w.holder(1, "k", incr_returning(1));
    let tx = w.begin();
    w.buffer(tx, 1, "k", incr(1));
    w.buffer(tx, 0, "j", incr(1));
    w.commit(tx);
    let late = w.hold(Kind::Prepare, 0);
    w.run();
    leases_run_out(&mut w);
    assert_eq!((w.count(Kind::Inquire, 0), w.count(Kind::Inquire, 1)), (0, 0));
    w.run();
    w.hand_over(late);
    w.run();
    assert_eq!((w.restarts(holder), w.restarts(tx)), (1, 1));
    w.assert_quiet();
}

/// A host that sees the last connection of a session close need not wait for leases: what has voted asks, what has not
/// is refused, by the same rules (P52).
#[test]
fn trap_07_who_is_deserted_asks_at_once() {
    let mut w = World::new(3);
    voted(&mut w);
    w.desert(1);
    w.run();
    assert_eq!(counters(&w), [0, 1, 0], "the others have not heard of it, and only answered");
    w.desert(0);
    w.desert(2);
    w.run();
    assert_eq!(counters(&w), [1, 1, 1]);
    w.assert_quiet();
    let mut w = World::new(3);
    let holder = w.holder(0, "k", incr_returning(1));
    assert!(w.answered(holder));
    w.client_dies();
    w.desert(0);
    assert_eq!((w.shards[0].open_attempts(), w.shards[0].locked_records()), (0, 0));
}

/// Bug: where much was to be ended it went on later, with whatever the session had begun meanwhile. Consequence: a session
/// that connected again lost what it had just begun. Mend: what is open when it is deserted ends, and no more.
#[test]
fn trap_07_who_connects_again_keeps_what_it_began_since() {
    const LINK: Link = Link { session: SessionId(7), connection: 1 };
    let limits = Limits { at_once_max: 4, ..Limits::default() };
    let mut shard = Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, limits);
    let now = Time(1);
    let execute = |shard: &mut Shard, sequence: u64| {
        let tx = TxId { session: LINK.session, sequence: Sequence(sequence) };
        let op = incr_returning(1);
        let call = Call { no: CallNo(0), op, member: Member(0), reserve: None };
        let request = Request::Execute {
            attempt: AttemptId { tx, attempt: 1 },
            birth: Birth { time: now, tx },
            incarnation: None,
            key: format!("k{sequence}").as_str().into(),
            calls: [call].into_iter().collect(),
            undone: Default::default(),
        };
        shard.handle(now, LINK, request);
    };
    (1..=20).for_each(|sequence| execute(&mut shard, sequence));
    shard.deserted(now, LINK.session);
    let left = shard.open_attempts();
    assert!(left > 0, "it is put off");
    execute(&mut shard, 21);
    assert!(shard.open_attempts() > 1);
    while shard.poll_timeout() == Some(now) {
        shard.handle_timeout(now);
    }
    assert_eq!((shard.open_attempts(), shard.locked_records()), (1, 1));
}

/// What a shard says that was not asked does not count as one of the others' answers.
#[test]
fn trap_07_only_listed_shards_are_heard() {
    let mut w = World::new(3);
    let tx = voted(&mut w);
    leases_run_out(&mut w);
    w.run_until(|message| message.kind() == Kind::Inquire && message.shard() != 1);
    let attempt = w.attempt(tx);
    let stranger = PeerMessage::Answer { attempt, from: ShardId(9), status: Status::Prepared };
    w.shards[0].handle_peer(w.now, stranger);
    assert_eq!(w.shards[0].open_attempts(), 1, "one of two has answered");
}

/// Who hears nothing asks ever more seldom, and never less often than the bound: a shard that is away costs no more the longer
/// it is.
#[test]
fn who_is_in_doubt_asks_ever_more_seldom() {
    let mut w = World::new(3);
    voted(&mut w);
    let (limits, shard) = (Limits::default(), &mut w.shards[0]);
    while shard.poll_output().is_some() {}
    let mut asked_at = shard.poll_timeout().expect("its lease");
    shard.handle_timeout(asked_at);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let questions = std::iter::from_fn(|| shard.poll_output()).count();
        assert_eq!(questions, 2, "each of the others is asked once");
        let due = shard.poll_timeout().expect("it asks again");
        pauses.push(due.since(asked_at));
        shard.handle_timeout(due);
        asked_at = due;
    }
    assert_eq!(pauses[..3], [1, 2, 4].map(|times| times * limits.inquire_us));
    assert!(pauses.is_sorted() && pauses.last() == Some(&limits.inquire_us_max), "{pauses:?}");
}

/// A participant that is alone on its list decides, whatever the coordinator says: nobody could tell it the end.
#[test]
fn who_is_alone_on_its_list_is_the_last() {
    use claret_core::message::{Call, KeyedCall, Link, Listed, Members, Request};
    let mut w = World::new(1);
    let birth = w.session.begin(w.now);
    let attempt = claret_core::AttemptId { tx: birth.tx, attempt: 1 };
    let (no, member) = (claret_core::CallNo(1), claret_core::Member::default());
    let prepare = Request::Prepare {
        attempt,
        birth,
        participants: [Listed { shard: ShardId(0), incarnation: None }].into(),
        relies_on: 0,
        calls: vec![KeyedCall { key: "k".into(), call: Call { no, op: incr(1), member, reserve: None } }],
        members: Members::All,
        asks: Asks::Vote,
        undone: Default::default(),
    };
    w.shards[0].handle(w.now, Link { session: birth.tx.session, connection: 0 }, prepare);
    assert_eq!(w.shards[0].written(attempt), Some(Status::Applied));
    assert_eq!(w.counter(0, "k"), 1);
}
