//! Combining: what is shared, what must not be shared, and who pays for whom. `docs/combining.md` numbers the rules;
//! a test of a trap has its number.

use super::rig::{COMBINING_FAR, Rig, add, contains, count, incr, int, members, place, remove};
use claret_core::message::{Refusal, Request, Response};
#[cfg(feature = "planted-bugs")]
use claret_core::{Bug, with_bug};
use claret_core::{
    CallNo, Cause, Client, Closed, Discipline, Event, Incarnation, Limits, SessionId, ShardId, Switches,
    Time, TxHandle,
};
use claret_types::{OpError, Reply};

const K1: &str = "k1"; // on shard 0
const K2: &str = "k2"; // on shard 1

fn joined(rig: &Rig) -> u64 {
    rig.clients[0].combining().expect("it combines").joined
}

#[test]
fn a_shared_read_sends_nothing_and_both_commit_with_one_prepare() {
    let mut rig = Rig::new(1);
    rig.seed(K1, add("x"));
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    assert_eq!(rig.answers(a), [int(1)]);
    rig.sent.clear();

    rig.execute(b, K1, count());
    assert_eq!(rig.answers(b), [int(1)], "answered at once");
    rig.pump();
    assert!(rig.sent.is_empty(), "no message: {:?}", rig.sent);

    rig.commit(a);
    rig.pump();
    assert!(rig.sent.is_empty(), "the prepare waits for the other member");
    rig.commit(b);
    rig.pump();
    let prepares = rig.sent.iter().filter(|(_, request)| matches!(request, Request::Prepare { .. }));
    assert_eq!(prepares.count(), 1);
    assert!(rig.committed(a) && rig.committed(b));
    let stats = rig.clients[0].combining().expect("it combines");
    assert_eq!((rig.clients[0].combined(), stats.joined, stats.group_commits), (1, 1, 1));
    rig.assert_quiet();
}

#[test]
fn a_read_is_derived_from_a_wider_one() {
    let mut rig = Rig::new(1);
    rig.seed(K1, add("x"));
    let (a, b, c) = (rig.begin(0), rig.begin(0), rig.begin(0));
    rig.execute(a, K1, members());
    rig.pump();
    rig.execute(b, K1, contains("x"));
    rig.execute(c, K1, count());
    assert_eq!(rig.answers(b), [int(1)]);
    assert_eq!(rig.answers(c), [int(1)]);
}

#[test]
fn with_the_switch_off_a_client_speaks_like_bare_coordinators() {
    let mut rig = Rig::with(1, Switches::in_process(Discipline::AbstractPhased));
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    assert!(rig.answers(b).is_empty(), "not shared");
    rig.pump();
    assert_eq!(rig.answers(b), [int(0)]);
    rig.commit(a);
    rig.pump();
    assert!(rig.committed(a), "waits for nobody");
    assert_eq!(rig.clients[0].combined(), 0);
}

#[test]
fn buffered_writes_travel_with_their_member_and_answers_find_it() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.buffer(b, K2, add("from b")); // Numbered before b joins.
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.buffer(a, K2, add("from a"));
    let asked = rig.buffer(b, "k3", incr(5, true));
    rig.commit(a);
    rig.commit(b);
    rig.pump();
    assert_eq!(rig.set(K2), ["from a", "from b"]);
    assert_eq!(rig.committed_replies(a), []);
    assert_eq!(rig.committed_replies(b), [(asked, int(5))]);
    rig.assert_quiet();
}

#[test]
fn trap_13_two_members_must_not_both_commit_on_the_before_state() {
    // Each reads the size of one set and adds to the other: one of them must see the other's element.
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count()); // Combined.
    rig.execute(b, K2, count());
    rig.pump();
    assert_eq!((rig.answers(a), rig.answers(b)), (vec![int(0)], vec![int(0), int(0)]));
    rig.buffer(a, K2, add("from a")); // Conflicts with b's size of k2: a is taken out.
    assert_eq!(rig.restarted(a), Some(Cause::Parted));
    rig.buffer(b, K1, add("from b"));
    rig.commit(b);
    rig.pump();
    assert!(rig.committed(b));

    rig.restart(a);
    rig.execute(a, K1, count());
    rig.pump();
    assert_eq!(rig.answers(a).last(), Some(&int(1)), "sees the other's element");
    rig.buffer(a, K2, add("from a"));
    rig.commit(a);
    rig.pump();
    assert!(rig.committed(a));
    assert_eq!((rig.set(K1), rig.set(K2)), (vec!["from b".to_string()], vec!["from a".to_string()]));
    rig.assert_quiet();
}

#[test]
fn trap_13_own_writes_on_a_record_share_no_read_there() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, contains("x"));
    rig.pump();
    rig.buffer(b, K1, add("x"));
    rig.execute(b, K1, contains("x"));
    assert!(rig.answers(b).is_empty(), "the held answer lacks b's own element");
    rig.commit(a);
    rig.pump();
    assert_eq!(rig.answers(b), [int(1)]);

    let c = rig.begin(0);
    rig.execute(c, "k3", contains("x"));
    rig.pump();
    rig.buffer(c, "k3", add("x"));
    rig.execute(c, "k3", contains("x"));
    rig.pump();
    assert_eq!(rig.answers(c), [int(0), int(1)], "its own first read is no answer either");
}

#[test]
fn trap_13_a_member_with_writes_reads_only_its_own_effects() {
    let mut rig = Rig::new(1);
    rig.seed(K1, add("old"));
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, contains("old"));
    rig.pump();
    rig.execute(b, K1, contains("old"));
    assert_eq!(joined(&rig), 1);
    rig.buffer(a, K1, add("x"));
    rig.buffer(b, K1, add("y"));
    rig.execute(a, K1, contains("x"));
    rig.pump();
    assert_eq!(rig.answers(a), [int(1), int(1)], "its own write");
    rig.execute(b, K1, contains("y"));
    rig.pump();
    assert_eq!(rig.answers(b), [int(1), int(1)], "its own write");
    rig.commit(a);
    rig.commit(b);
    rig.pump();
    assert!(rig.committed(a) && rig.committed(b));
    assert_eq!(rig.set(K1), ["old", "x", "y"]);
}

#[test]
fn trap_14_nobody_shares_a_read_once_the_prepare_is_on_its_way() {
    let mut rig = Rig::new(2);
    let a = rig.begin(0);
    rig.execute(a, K1, count());
    rig.pump();
    assert_eq!(rig.answers(a), [int(0)]);
    rig.commit(a); // The prepare is on its way, and so is its answer.
    rig.deliver_requests();
    let t9 = rig.begin(1);
    rig.buffer(t9, K1, add("from t9"));
    rig.commit(t9);
    rig.pump_session(1);
    assert!(rig.committed(t9), "committed before b begins");

    let b = rig.begin(0);
    rig.execute(b, K1, count());
    assert!(rig.answers(b).is_empty(), "must not share the old read");
    rig.pump();
    assert_eq!(rig.answers(b), [int(1)]);
    assert!(rig.committed(a));
}

#[test]
fn trap_14_an_elder_makes_a_group_stop_waiting_for_a_mate() {
    let mut rig = Rig::new(2);
    let elder = rig.begin(1);
    rig.now = Time(10);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.commit(a);
    rig.pump();
    rig.buffer(elder, K1, add("x"));
    rig.commit(elder);
    rig.pump();
    assert!(!rig.committed(elder), "waits for the read");
    let wait = rig.limits.give_way_us;
    assert!(wait < rig.limits.group_wait_us_max);
    rig.advance(wait);
    assert!(rig.committed(a) && rig.committed(elder));
    assert_eq!(rig.restarted(b), Some(Cause::Parted));
}

#[test]
fn an_elder_keeps_joiners_out() {
    let mut rig = Rig::new(2);
    let elder = rig.begin(1);
    rig.now = Time(10);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.buffer(elder, K1, add("x"));
    rig.commit(elder);
    rig.pump();
    rig.execute(b, K1, count());
    assert!(rig.answers(b).is_empty(), "would prolong the phase that the elder waits for");
    let id_of = |tx: (usize, TxHandle)| rig.clients[0].attempt(tx.1).expect("running").tx;
    assert_ne!(id_of(a), id_of(b), "asks the shard, which caps phases");
}

#[test]
fn what_a_member_did_before_it_conflicted_does_not_count() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.execute(b, K2, contains("never"));
    rig.buffer(b, K2, add("buffered"));
    rig.execute(b, "k3", incr(7, true)); // Executed: its effect is at the shard.
    rig.pump();
    rig.buffer(b, K1, add("conflicts with a's size"));
    assert_eq!(rig.restarted(b), Some(Cause::Parted));
    rig.buffer(a, "k4", incr(1, false));
    rig.commit(a);
    rig.pump();
    assert!(rig.committed(a));
    assert_eq!(rig.set(K1), Vec::<String>::new());
    assert_eq!(rig.set(K2), Vec::<String>::new());
    assert_eq!((rig.number("k3"), rig.number("k4")), (0, 1));
    rig.assert_unlocked();
}

#[test]
fn two_members_add_one_element_and_it_stays_when_the_first_leaves() {
    // Executed on top of the first one's effect, the second add would be none.
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K2, count());
    rig.pump();
    rig.execute(b, K2, count());
    for tx in [a, b] {
        rig.buffer(tx, K1, add("x"));
        rig.execute(tx, K1, contains("far away"));
        rig.pump();
    }
    rig.abort(a);
    rig.commit(b);
    rig.pump();
    assert!(rig.committed(b), "{:?}", rig.events);
    assert_eq!(rig.set(K1), ["x"]);
}

#[test]
fn draws_of_two_members_are_never_too_much_together() {
    // Each increment fits and both together do not: the group ends, and each finds out on its own.
    let mut rig = Rig::new(1);
    rig.seed("k3", incr(i64::MAX - 1, false));
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    for tx in [a, b] {
        rig.buffer(tx, "k3", incr(1, false));
    }
    rig.commit(a);
    rig.commit(b);
    rig.pump();
    assert!(rig.restarted(a).is_some() && rig.restarted(b).is_some());
    for tx in [a, b] {
        rig.restart(tx);
        rig.buffer(tx, "k3", incr(1, false));
        rig.commit(tx);
        rig.pump();
    }
    assert!(rig.committed(a));
    assert!(
        matches!(rig.failed(b), Some(Refusal::Operation { error, .. }) if matches!(**error, OpError::Overflow(..)))
    );
    assert_eq!(rig.number("k3"), i64::MAX);
}

#[test]
fn the_leader_leaves_and_the_others_commit() {
    let mut rig = Rig::new(1);
    let (a, b, c) = (rig.begin(0), rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.buffer(a, K2, add("from a"));
    rig.pump();
    rig.execute(b, K1, count());
    rig.execute(c, K1, count());
    rig.buffer(b, K2, add("from b"));
    rig.abort(a);
    assert_eq!(rig.last(a), Some(&Event::Aborted));
    rig.commit(b);
    rig.commit(c);
    rig.pump();
    assert!(rig.committed(b) && rig.committed(c));
    assert_eq!(rig.set(K2), ["from b"]);
    rig.assert_quiet();
}

/// C9. One leaves, and the effects of all who stay are carried out.
#[test]
fn who_joins_after_somebody_left_counts_and_so_do_the_others() {
    let run = || {
        let mut rig = Rig::new(1);
        let (a, b, c) = (rig.begin(0), rig.begin(0), rig.begin(0));
        rig.execute(a, K1, count());
        rig.pump();
        rig.execute(b, K1, count());
        rig.abort(b);
        rig.execute(c, K1, count());
        rig.buffer(a, K2, add("from a"));
        rig.buffer(c, K2, add("from c"));
        rig.commit(a);
        rig.commit(c);
        rig.pump();
        assert!(rig.committed(a) && rig.committed(c));
        rig.set(K2)
    };
    assert_eq!(run(), ["from a", "from c"]);
    #[cfg(feature = "planted-bugs")]
    assert_eq!(with_bug(Some(Bug::MatesLeftBehind), run), ["from a"]);
}

/// P71, C4. What may empty a record may end its expiry, too: it does not commute with what adds to the record, and a process does not know
/// whether it expires.
#[test]
fn who_may_empty_a_record_has_no_mate_that_adds_to_it() {
    let run = || {
        let mut rig = Rig::new(1);
        let (a, b) = (rig.begin(0), rig.begin(0));
        rig.execute(a, K1, count());
        rig.pump();
        rig.execute(b, K1, count());
        rig.buffer(b, K2, remove("x"));
        rig.buffer(a, K2, add("y"));
        rig.restarted(a)
    };
    assert_eq!(run(), Some(Cause::Parted));
    #[cfg(feature = "planted-bugs")]
    assert_eq!(with_bug(Some(Bug::GroupForgetsExpiry), run), None);
}

#[test]
fn a_leader_that_restarts_takes_another_id_and_waits_for_its_former_group() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    let before = rig.clients[0].attempt(a.1);
    rig.buffer(a, K1, add("conflicts with b's size"));
    assert_eq!(rig.restarted(a), Some(Cause::Parted));
    rig.restart(a);
    assert_ne!(rig.clients[0].attempt(a.1).unwrap().tx, before.unwrap().tx);
    rig.execute(a, K1, count());
    rig.buffer(a, K1, add("x"));
    rig.deliver_requests();
    rig.pump();
    assert_eq!(rig.answers(a), [int(0)], "the restart reserves the add, which waits for b's read");
    rig.commit(b);
    rig.pump();
    assert_eq!(rig.answers(a), [int(0), int(0)]);
    rig.commit(a);
    rig.pump();
    assert!(rig.committed(a) && rig.committed(b));
    assert_eq!(rig.set(K1), ["x"]);
    rig.assert_quiet();
}

#[test]
fn an_error_of_one_does_not_doom_the_other() {
    let mut rig = Rig::new(1);
    rig.seed(K2, add("makes k2 a set"));
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.execute(b, K2, incr(1, true)); // WRONGTYPE
    rig.pump();
    for tx in [a, b] {
        let Some(Cause::Refused(Refusal::Operation { .. })) = rig.restarted(tx) else { panic!("{tx:?}") };
    }
    for tx in [a, b] {
        rig.restart(tx);
        rig.execute(tx, K1, count());
    }
    rig.pump();
    assert_eq!(joined(&rig), 1, "retries do not combine");
    rig.execute(b, K2, incr(1, true));
    rig.commit(a);
    rig.pump();
    assert!(rig.committed(a));
    assert!(
        matches!(rig.failed(b), Some(Refusal::Operation { error, .. }) if matches!(**error, OpError::WrongType { .. }))
    );
    rig.assert_quiet();
}

#[test]
fn who_dawdles_is_taken_out() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.commit(a);
    rig.pump();
    rig.advance(rig.limits.group_wait_us_max - 1);
    assert!(!rig.committed(a));
    rig.advance(1);
    assert!(rig.committed(a));
    assert_eq!(rig.restarted(b), Some(Cause::Parted));
    rig.commit(b); // Too late, and ignored: the restart is on its way to the application.
    rig.restart(b);
    rig.execute(b, K1, count());
    rig.pump();
    rig.commit(b);
    rig.pump();
    assert!(rig.committed(b));
    rig.assert_quiet();
}

#[test]
fn who_dawdles_in_a_queue_leaves_the_queue_with_the_prepare() {
    let mut rig = Rig::new(2);
    let holder = rig.begin(1);
    rig.execute(holder, K2, incr(1, true));
    rig.pump();
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.execute(b, K2, incr(1, true)); // Waits for the holder, at another shard than the read.
    rig.commit(a);
    rig.pump();
    rig.advance(rig.limits.group_wait_us_max);
    assert!(rig.committed(a), "{:?}", rig.last(a));
    assert_eq!(rig.restarted(b), Some(Cause::Parted));
    rig.commit(holder);
    rig.pump();
    assert!(rig.committed(holder));
    assert_eq!(rig.number(K2), 1);
    rig.assert_unlocked();
}

#[test]
fn two_members_calls_on_one_record_go_one_after_the_other() {
    // An attempt waits at most once on one record.
    let mut rig = Rig::new(2);
    let holder = rig.begin(1);
    rig.execute(holder, K2, count());
    rig.execute(holder, K2, contains("x"));
    rig.buffer(holder, K2, add("y"));
    rig.execute(holder, K2, count());
    rig.pump();
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.execute(a, K2, count());
    rig.execute(b, K2, count());
    rig.pump();
    assert_eq!((rig.answers(a).len(), rig.answers(b).len()), (1, 1), "both wait");
    rig.sent.clear();
    rig.commit(holder);
    rig.pump();
    assert_eq!((rig.answers(a), rig.answers(b)), (vec![int(0), int(1)], vec![int(0), int(1)]));
    assert!(!rig.sent.iter().any(|(_, request)| matches!(request, Request::Execute { .. })), "shared");
    rig.commit(a);
    rig.commit(b);
    rig.pump();
    assert!(rig.committed(a) && rig.committed(b));
    rig.assert_quiet();
}

#[test]
fn groups_are_bounded() {
    let mut rig = Rig::new(1);
    let leader = rig.begin(0);
    rig.execute(leader, K1, count());
    rig.pump();
    let others: Vec<(usize, TxHandle)> = (0..rig.limits.group_members_max).map(|_| rig.begin(0)).collect();
    let shared = others.iter().filter(|tx| {
        rig.execute(**tx, K1, count());
        !rig.answers(**tx).is_empty()
    });
    assert_eq!(shared.count(), rig.limits.group_members_max as usize - 1);
}

#[test]
fn an_abort_after_the_prepare_left_does_not_doom_the_mates() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.buffer(b, K2, add("from b"));
    rig.commit(a);
    rig.commit(b);
    rig.abort(a);
    rig.pump();
    assert!(rig.committed(a) && rig.committed(b), "a's end was no longer its own to decide");
    rig.assert_quiet();
}

#[test]
fn a_shared_read_reserves_what_the_restart_will_need() {
    // Trap 12: after a size that was shared, and an add that conflicted, the retry's first touch takes both.
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.buffer(b, K1, add("x"));
    assert_eq!(rig.restarted(b), Some(Cause::Parted));
    rig.restart(b);
    rig.sent.clear();
    rig.execute(b, K1, count());
    rig.pump();
    let Some((_, Request::Execute { calls, .. })) = rig.sent.first() else { panic!("{:?}", rig.sent) };
    let reserved = calls[0].reserve.as_ref().expect("reserves");
    let wanted = add("x").footprint();
    assert!(wanted.list.iter().all(|claim| reserved.list.contains(claim)));
}

#[test]
fn a_reply_is_what_the_set_holds_not_what_another_type_would() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, super::rig::get());
    assert!(rig.answers(b).is_empty());
    rig.pump();
    assert_eq!(joined(&rig), 0);
    assert_ne!(rig.answers(b), [Reply::Nil]);
}

/// Bug: a member's call waits at a shard that is asked last; the member leaves, and the others give up before that shard is
/// asked. It was asked nothing and granted nothing, so it heard of no end. Consequence: the call keeps its place there, and
/// is granted a lock that nobody gives back before a heartbeat. Mend: who was sent anything hears of the end.
#[test]
fn a_shard_that_was_only_waited_at_hears_of_the_end() {
    let limits = Limits { hot_waits_min: 0, ..Limits::default() };
    let mut client = Client::direct(SessionId(1), COMBINING_FAR, limits, 2);
    let (now, first, last) = (Time(0), ShardId(0), ShardId(1));
    let (a, b) = (client.begin(now, 1), client.begin(now, 2));
    let no = client.execute(now, (a, 1), place(K1), count(), None).expect("it runs");
    let attempt = client.attempt(a).expect("it runs");
    let (reply, incarnation) = (int(0), Incarnation(1));
    client.handle_response(now, first, Response::Granted { attempt, no, reply, granted: 1, incarnation });
    client.execute(now, (b, 1), place(K1), count(), None).expect("it runs");
    assert_eq!(client.attempt(b), Some(attempt), "they combine");
    client.execute(now, (a, 1), place(K2), members(), None).expect("it runs");
    client.handle_response(now, last, Response::Queued { attempt, no: None });
    client.abort(now, a);
    client.buffer(now, (b, 1), place("k4"), add("x")).expect("it runs");
    client.commit(now, (b, 1)).expect("it runs");
    client.settle(now);
    let sent: Vec<_> = std::iter::from_fn(|| client.poll_send()).collect();
    let prepared = |shard| sent.iter().any(|(to, it)| *to == shard && matches!(it, Request::Prepare { .. }));
    assert!(prepared(first) && !prepared(last), "{sent:?}");
    client.abort(now, b);
    client.settle(now);
    let ended: Vec<_> = std::iter::from_fn(|| client.poll_send()).map(|(to, _)| to).collect();
    assert!(ended.contains(&first) && ended.contains(&last), "{ended:?}");
}

/// Trap 22 with combining: what is of an attempt that is over is not taken, whoever asks.
#[test]
fn a_client_that_combines_takes_nothing_of_an_attempt_that_is_over() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    // It conflicts with its mate's read, parts, and restarts.
    rig.buffer(b, K1, add("x"));
    assert_eq!(rig.restarted(b), Some(Cause::Parted));
    let (now, stale) = (rig.now, (b.1, 1));
    for again in [false, true] {
        if again {
            rig.restart(b);
        }
        rig.sent.clear();
        let client = &mut rig.clients[0];
        assert_eq!(client.execute(now, stale, place(K1), count(), None), Err(Closed));
        assert_eq!(client.buffer(now, stale, place(K1), add("y")), Err(Closed));
        assert_eq!(client.commit(now, stale), Err(Closed));
        client.settle(now);
        assert_eq!((client.poll_send(), client.poll_event()), (None, None));
    }
    let stale = rig.clients[0].restart(now, stale);
    assert_eq!(stale, Err(Closed), "it runs again already");
    rig.commit(a);
    rig.buffer(b, K1, add("z"));
    rig.commit(b);
    rig.pump();
    assert!(rig.committed(a) && rig.committed(b));
    assert_eq!(rig.set(K1), ["z"]);
    let over = rig.at(b);
    assert_eq!(rig.clients[0].commit(now, over), Err(Closed));
    rig.assert_quiet();
}

#[test]
fn a_member_that_wants_to_commit_takes_no_more_calls() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.commit(a);
    assert_eq!(rig.buffer(a, K2, add("late")), CallNo(u32::MAX));
    rig.commit(b);
    rig.pump();
    assert!(rig.committed(a) && rig.committed(b));
    assert!(rig.set(K2).is_empty());
    rig.assert_quiet();
}

#[test]
fn a_member_that_commits_before_it_is_answered_is_aborted_and_its_mates_go_on() {
    let mut rig = Rig::new(1);
    let (a, b) = (rig.begin(0), rig.begin(0));
    rig.execute(a, K1, count());
    rig.pump();
    rig.execute(b, K1, count());
    rig.buffer(b, "k3", add("lost"));
    rig.execute(b, K2, count());
    rig.commit(b);
    assert_eq!(rig.last(b), Some(&Event::Aborted));
    rig.buffer(a, K2, add("kept"));
    rig.commit(a);
    rig.pump();
    assert!(rig.committed(a));
    assert_eq!((rig.set("k3"), rig.set(K2)), (Vec::new(), vec!["kept".to_owned()]));
    rig.assert_quiet();
}
