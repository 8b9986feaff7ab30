//! Traps 3, 4 and 19: locks and refusals die with the shard, and late messages must not bring them back.

use claret_core::message::{Asks, Request};
use claret_core::{Backup, Cause, Event, Incarnation, Limits, Shard, ShardId, Survives, Switches};
use claret_types::Reply;

use crate::harness::{Kind, World, get, incr, incr_returning};

/// Bug: T reads x at A, A restarts, U writes x, T prepares at the new A and votes. Consequence: a vote on a stale
/// read. Mend: the list names the incarnations that granted, and another one refuses. (A late double of the read
/// makes the numbers of grants agree.)
#[test]
fn trap_03_locks_die_with_the_shard() {
    let mut w = World::new(2);
    let reader = w.begin();
    w.execute(reader, 0, "x", get());
    let double = w.bag[0].clone();
    w.run();
    w.restart_shard(0);
    w.set_up(0, "x", incr(1));
    w.hand_over(double);
    w.run();
    w.buffer(reader, 1, "y", incr(1));
    w.commit(reader);
    w.run();
    assert!(!w.committed(reader), "it read x before the write and would write y after it");
    assert_eq!(w.events(reader).last(), Some(&Event::Unknown));
    w.pass(Limits::default().lease_us);
    w.run();
    assert_eq!(w.counter(1, "y"), 0);
    w.assert_quiet();
}

/// The same without the double: the prepare relies on a grant that nobody remembers.
#[test]
fn trap_03_a_prepare_names_the_grants_it_relies_on() {
    let mut w = World::new(1);
    let reader = w.holder(0, "x", get());
    w.heartbeat_without(0); // Gone, and the refusal is lost with the session's memory:
    w.lose_all();
    assert!(w.answered(reader));
    w.restart_shard(0);
    let attempt = w.attempt(reader);
    let birth = w.coordinator(reader).birth();
    let listed = claret_core::message::Listed { shard: ShardId(0), incarnation: Some(Incarnation(2)) };
    let participants = std::sync::Arc::from([listed]);
    let members = claret_core::message::Members::All;
    w.send(
        0,
        Request::Prepare {
            attempt,
            birth,
            participants,
            relies_on: 1,
            calls: vec![],
            members,
            asks: Asks::Vote,
            undone: Default::default(),
        },
    );
    w.deliver(Kind::Prepare, 0);
    assert_eq!(w.count(Kind::Refused, 0), 1);
}

/// Bug: B writes no and restarts; the prepare, late, gets a yes; A asks B and applies. Consequence: a transaction that
/// its user was told is aborted. Mend: the list names the incarnation of every participant that is known.
#[test]
fn trap_03_refusals_die_with_the_shard() {
    let mut w = World::new(2);
    let tx = w.begin();
    for shard in [0, 1] {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Voted, 0);
    let late = w.hold(Kind::Prepare, 1);
    w.abort(tx);
    w.deliver(Kind::Withdraw, 1);
    w.deliver(Kind::Refused, 1);
    assert!(w.aborted(tx));
    w.lose_all();
    w.restart_shard(1);
    w.hand_over(late);
    w.run();
    w.pass_without_coordinators(Limits::default().lease_us);
    w.run();
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (0, 0));
    w.assert_quiet();
}

/// Bug: of two reads sent together, one is granted before a restart and one after it, and the later answer comes
/// first. Consequence: as many grants as the prepare relies on, and a vote on a stale read. Mend: a coordinator that
/// sees two incarnations of a shard restarts.
#[test]
fn trap_03_answers_of_two_incarnations() {
    let mut w = World::new(2);
    let reader = w.begin();
    w.execute(reader, 0, "x", get());
    w.execute(reader, 0, "z", get());
    w.deliver(Kind::Execute, 0);
    let late = w.hold(Kind::Granted, 0);
    w.restart_shard(0);
    w.set_up(0, "x", incr(1));
    w.hand_over(late);
    w.run();
    let events = w.events(reader);
    assert!(
        matches!(events.last(), Some(Event::Restart { cause: Cause::Refused(_) })),
        "no answer may be relied on: {events:?}"
    );
    w.assert_quiet();
}

/// Bug: a shard restarts after its vote, a late double opens the attempt there again, and the apply finds it
/// unprepared. Consequence: a lock that nobody releases, and a failed assertion. Mend: it is given up.
#[test]
fn trap_03_an_apply_finds_what_came_late() {
    let mut w = World::new(2);
    let tx = w.begin();
    w.execute(tx, 0, "k", incr_returning(1));
    let double = w.bag[0].clone();
    w.run();
    w.buffer(tx, 1, "k", incr(1));
    w.commit(tx);
    w.run_until(|message| message.kind() == Kind::Apply);
    w.restart_shard(0);
    w.hand_over(double);
    assert_eq!(w.shards[0].open_attempts(), 1);
    w.run();
    assert!(w.coordinator(tx).is_over());
    w.assert_quiet();
}

/// Bug: an execute sits in a socket while its transaction aborts; then it arrives. Consequence: a lock that the live
/// session renews for ever. Mend: the abort leaves a tombstone.
#[test]
fn trap_19_a_late_execute_finds_a_tombstone() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.execute(tx, 0, "k", get());
    let late = w.hold(Kind::Execute, 0);
    w.abort(tx);
    w.run();
    w.hand_over(late);
    w.run();
    w.assert_quiet();
}

/// The same when the tombstone is gone, because the low-water mark has passed it.
#[test]
fn trap_19_a_late_execute_is_below_the_low_water_mark() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.execute(tx, 0, "k", get());
    let late = w.hold(Kind::Execute, 0);
    w.abort(tx);
    w.run();
    assert!(w.coordinator(tx).is_over());
    let over = w.attempt(tx).tx;
    w.session.end(over);
    w.heartbeat(0);
    assert_eq!(w.shards[0].remembered(), 0);
    w.hand_over(late);
    w.run();
    w.assert_quiet();
}

/// The same when the abort is still to come: the session has a newer connection, and the old one's words are
/// dropped.
#[test]
fn trap_19_a_late_execute_comes_over_an_old_connection() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.execute(tx, 0, "k", get());
    let late = w.hold(Kind::Execute, 0);
    w.connection = 1;
    w.heartbeat(0);
    w.hand_over(late);
    assert_eq!(w.shards[0].open_attempts(), 0);
    assert!(w.bag.is_empty());
}

/// Bug: what came over an old connection was answered 'refused' with nothing written. Consequence: the coordinator names
/// that as the no, and a participant drops what another has applied. Mend: it is dropped without a word.
#[test]
fn trap_19_an_old_connection_is_no_refusal() {
    let mut w = World::new(2);
    let tx = w.begin();
    for shard in [0, 1] {
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    let double = w.bag[1].clone();
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1); // Both have voted: it is committed.
    w.connection = 1;
    w.heartbeat(1);
    w.lose_all();
    w.hand_over(double);
    w.run();
    assert_eq!(w.restarts(tx), 0, "nobody has written no");
    w.pass(Limits::default().resend_us);
    w.run();
    assert!(w.committed(tx));
    assert_eq!((w.counter(0, "k"), w.counter(1, "k")), (1, 1));
}

/// The same when nothing else tells: the next heartbeat does not list the attempt.
#[test]
fn trap_19_a_heartbeat_drops_what_it_does_not_list() {
    let mut w = World::new(1);
    let forgotten = w.holder(0, "k", get());
    let kept = w.holder(0, "k", get());
    let (live, low_water) = (vec![w.attempt(kept)], w.session.low_water());
    w.send(0, Request::Heartbeat { live, low_water });
    w.run();
    assert_eq!(w.shards[0].open_attempts(), 1);
    assert_eq!(w.restarts(forgotten), 1);
    w.commit(kept);
    w.run();
    assert!(w.committed(kept));
}

/// Two calls of one transaction on one record are under way, and the second message overtakes the first: the
/// second call would be executed before the first. Mend: a call carries those before it that are not answered.
#[test]
fn calls_on_one_record_keep_their_order() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.execute(tx, 0, "k", incr_returning(1));
    w.execute(tx, 0, "k", get());
    let first = w.hold(Kind::Execute, 0);
    w.deliver(Kind::Execute, 0);
    w.hand_over(first);
    w.run();
    assert_eq!(w.answers(tx), [Reply::Int(1), Reply::Int(1)]);
    w.commit(tx);
    w.run();
    assert_eq!(w.counter(0, "k"), 1);
    w.assert_quiet();
}

/// Votes that outlive a restart: the shard that comes back still holds what it voted for, finishes it, and does not
/// take the new incarnation for a reason to refuse it; what had not voted is gone and restarts.
#[test]
fn votes_that_survive_are_kept() {
    let mut w = World::new(2);
    let tx = w.begin();
    for shard in [0, 1] {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    let open = w.begin();
    w.execute(open, 0, "other", incr_returning(1));
    w.run_until(|message| message.kind() == Kind::Voted);
    w.restart_shard_with(0, Survives::Votes);
    w.pass(Limits::default().resend_us);
    w.run();
    w.commit(open);
    w.run();
    assert!(w.committed(tx));
    assert_eq!([w.counter(0, "k"), w.counter(1, "k")], [1, 1]);
    assert_eq!(w.restarts(open), 1);
    assert_eq!(w.counter(0, "other"), 0);
    w.assert_quiet();
}

/// Records outlive the restart, votes do not: who relied on a lock there restarts, once its host has connected anew.
#[test]
fn records_that_survive_without_votes() {
    let mut w = World::new(1);
    let done = w.begin();
    w.buffer(done, 0, "k", incr(7));
    w.commit(done);
    w.run();
    let reader = w.begin();
    w.execute(reader, 0, "k", get());
    w.run();
    w.restart_shard_with(0, Survives::Records);
    w.coordinator_mut(reader).meet(ShardId(0), Incarnation(2));
    w.commit(reader);
    w.run();
    assert_eq!(w.counter(0, "k"), 7);
    assert_eq!(w.restarts(reader), 1);
    w.assert_quiet();
}

/// Bug: the only participant commits, its answer is lost, it restarts without its memory, and the prepare comes again:
/// refused, as relying on another incarnation. Consequence: the coordinator takes that for a recorded no, and the
/// transaction is run, and counts, twice. Mend: a shard that cannot remember says so, and the user hears that the end
/// is unknown.
#[test]
fn trap_08_a_lost_memory_is_no_refusal() {
    let mut w = World::new(1);
    let tx = w.begin();
    w.coordinator_mut(tx).meet(ShardId(0), Incarnation(1));
    w.buffer(tx, 0, "k", incr(1));
    w.commit(tx);
    w.deliver(Kind::Prepare, 0);
    w.lose_all();
    w.restart_shard_with(0, Survives::Records);
    w.pass(Limits::default().resend_us);
    w.run();
    assert_eq!(w.events(tx), [Event::Unknown]);
    assert_eq!(w.counter(0, "k"), 1);
    w.assert_quiet();
}

/// Bug: as above, and the new incarnation writes a no for another reason than the prepare: its user takes the
/// transaction back, or somebody asks. Consequence: the user hears 'aborted', or runs it again, though it counted. Mend:
/// a no says since when the shard remembers, and counts only for attempts that list nothing earlier.
#[test]
fn trap_08_a_no_written_after_the_loss_is_no_refusal() {
    let takes_back = |w: &mut World, tx| w.abort(tx);
    let refusal_of_a_question = |w: &mut World, tx| {
        w.send(0, Request::Ask { attempt: w.attempt(tx) });
    };
    let answer_to_a_question = |w: &mut World, tx| {
        w.send(0, Request::Ask { attempt: w.attempt(tx) });
        w.deliver(Kind::Other, 0);
        w.hold(Kind::Refused, 0); // Lost.
    };
    for happens in [takes_back, refusal_of_a_question, answer_to_a_question] {
        let mut w = World::new(1);
        let tx = w.begin();
        w.coordinator_mut(tx).meet(ShardId(0), Incarnation(1));
        w.buffer(tx, 0, "k", incr(1));
        w.commit(tx);
        w.deliver(Kind::Prepare, 0);
        w.lose_all();
        w.restart_shard_with(0, Survives::Records);
        happens(&mut w, tx);
        w.run();
        assert_eq!(w.events(tx), [Event::Unknown]);
        assert_eq!(w.counter(0, "k"), 1);
    }
}

/// The same with two: the one that forgot may have voted, and the other has. If the other had written no, the
/// attempt would be void for certain.
#[test]
fn trap_08_all_others_voted() {
    for refuses in [false, true] {
        let mut w = World::new(2);
        let holder = refuses.then(|| w.holder(1, "k", incr_returning(1)));
        let tx = w.begin();
        for shard in [0, 1] {
            w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
            w.buffer(tx, shard, "k", incr(1));
        }
        w.commit(tx);
        w.deliver(Kind::Prepare, 0);
        w.lose_all();
        w.restart_shard_with(0, Survives::Records);
        w.pass(Limits::default().resend_us);
        w.run();
        match holder {
            Some(holder) => {
                assert_eq!(w.restarts(tx), 1, "the other withdrew before it voted");
                w.abort(holder);
                w.run();
            }
            None => {
                assert_eq!(w.events(tx), [Event::Unknown]);
                assert_eq!(w.shards[1].open_attempts(), 1, "in doubt until it has asked the other");
                w.pass(Limits::default().lease_us);
                w.run();
            }
        }
        assert_eq!([w.counter(0, "k"), w.counter(1, "k")], [0, 0]);
        w.assert_quiet();
    }
}

/// Bug: of two that voted, one learns from the other that all have, applies, and restarts without its votes. The other
/// asks it, hears that it forgot, gives up, and calls that a recorded no. Consequence: the transaction is run again,
/// and counts twice where it was applied. Mend: a no for want of another's memory says so. Found by the exhaustive
/// search.
#[test]
fn trap_08_giving_up_for_want_of_memory_is_no_refusal() {
    let mut w = World::new(2);
    let tx = w.begin();
    for shard in [0, 1] {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    w.deliver(Kind::Prepare, 0);
    w.deliver(Kind::Prepare, 1);
    w.lose_all();
    w.pass_without_coordinators(Limits::default().lease_us);
    w.deliver(Kind::Inquire, 0);
    w.deliver(Kind::Answer, 1);
    assert_eq!(w.counter(1, "k"), 1, "it knows that all have voted");
    w.restart_shard_with(1, Survives::Records);
    w.deliver(Kind::Inquire, 1);
    w.deliver(Kind::Answer, 0);
    w.pass(Limits::default().resend_us);
    w.run();
    assert_eq!(w.events(tx), [Event::Unknown]);
    assert_eq!([w.counter(0, "k"), w.counter(1, "k")], [0, 1]);
    w.assert_quiet();
}

/// Bug: three have voted, and the third applies by recovery; the first restarts and forgets. The coordinator knows of two
/// votes and a lost memory, and has the second abort. Consequence: half of it is kept where asking would have kept
/// all. Mend: who tells its user that the end is unknown lets those who voted ask each other.
#[test]
fn trap_08_an_unknown_end_is_not_decided_by_the_coordinator() {
    let mut w = World::new(3);
    let tx = w.begin();
    for shard in [0, 1, 2] {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    for shard in [0, 1, 2] {
        w.deliver(Kind::Prepare, shard);
    }
    let unheard = w.hold(Kind::Voted, 0);
    w.deliver(Kind::Voted, 1);
    let third = w.hold(Kind::Voted, 2);
    w.time_out_shard(2, Limits::default().lease_us);
    w.run();
    assert_eq!(w.counter(2, "k"), 1, "all were prepared");
    w.restart_shard_with(0, Survives::Records);
    w.hand_over(third);
    w.pass(Limits::default().resend_us);
    w.run();
    assert_eq!(w.events(tx), [Event::Unknown]);
    drop(unheard);
    w.pass(Limits::default().lease_us);
    w.run();
    assert_eq!([w.counter(1, "k"), w.counter(2, "k")], [1, 1], "the second asked the third");
    w.assert_quiet();
}

/// Bug: a shard votes, the other one applies, and it goes on without its prepare. Consequence: half of a transaction. Mend: a vote
/// leaves when every replica has it (S1), and whoever is promoted holds it again (S6).
#[test]
fn trap_04_a_vote_is_told_when_every_replica_has_it() {
    let mut w = World::new(2);
    w.shards[0].replicate();
    let tx = w.begin();
    for shard in [0, 1] {
        w.coordinator_mut(tx).meet(ShardId(shard), Incarnation(1));
        w.buffer(tx, shard, "k", incr(1));
    }
    w.commit(tx);
    for shard in [0, 1] {
        w.deliver(Kind::Prepare, shard);
    }
    assert_eq!((w.count(Kind::Voted, 0), w.count(Kind::Voted, 1)), (0, 1), "no replica has the first one");
    let mut backup = Backup::default();
    w.replicate(0, &mut backup);
    w.deliver(Kind::Voted, 0);
    w.deliver(Kind::Voted, 1);
    w.deliver(Kind::Apply, 1);
    w.lose_all();
    let promoted = Shard::promote(backup, None, w.now, Incarnation(2), Switches::CLARET, Limits::default());
    w.shards[0] = promoted.expect("it is of a shard");
    w.pass(Limits::default().lease_us);
    w.run();
    assert_eq!([w.counter(0, "k"), w.counter(1, "k")], [1, 1], "it asks the other one");
}
