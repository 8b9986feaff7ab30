//! One-shot transactions that leave in batches (docs/batches.md).

use super::*;
use crate::coordinator::Cause;
use crate::ids::Timestamp;
use crate::message::{Asks, KeyedCall};

/// Connected to both shards, with batches.
fn batching() -> Client {
    batching_with(Limits::default())
}

fn batching_with(limits: Limits) -> Client {
    let switches = Switches::claret(Ordered::Never, true, WaySwitches::ROUNDS);
    let mut client = Client::new(SESSION, switches, limits, 2, Pacing::default());
    client.adopt(Time(0), vec![range(SLOT, "a"), range(OTHER_SLOT, "b")]);
    connect(client)
}

/// A transaction that adds to a counter at each of these slots, wants the sums, and commits.
fn adding(client: &mut Client, now: u64, slots: &[u16]) -> TxHandle {
    let tx = client.begin(Time(now), 1);
    for slot in slots {
        client.buffer(Time(now), (tx, 1), (*slot, "k".into()), add_returning()).expect("it runs");
    }
    client.commit(Time(now), (tx, 1)).expect("it runs");
    client.settle(Time(now));
    tx
}

/// The attempts and calls of the prepares among requests.
fn prepares(requests: &[Request]) -> Vec<(AttemptId, &[KeyedCall])> {
    let of = |request| match request {
        &Request::Prepare { attempt, ref calls, .. } => Some((attempt, &calls[..])),
        _ => None,
    };
    requests.iter().filter_map(of).collect()
}

/// How many calls each prepare among requests has.
fn batch_sizes(requests: &[Request]) -> Vec<usize> {
    prepares(requests).iter().map(|(_, calls)| calls.len()).collect()
}

/// The one prepare that leaves for a shard, and the numbers of its calls.
fn prepare(client: &mut Client, now: u64, shard: ShardId) -> (AttemptId, Vec<CallNo>) {
    let requests = sent_to(client, now, shard);
    let [(attempt, calls)] = prepares(&requests)[..] else { panic!("not one prepare: {requests:?}") };
    (attempt, calls.iter().map(|it| it.call.no).collect())
}

/// A shard votes yes, and counts from a number on.
fn votes(
    client: &mut Client,
    now: u64,
    shard: ShardId,
    (attempt, calls): &(AttemptId, Vec<CallNo>),
    from: i64,
) {
    let replies = calls.iter().zip(from..).map(|(no, sum)| (*no, Reply::Int(sum))).collect();
    client.handle_response(Time(now), shard, Response::Voted { attempt: *attempt, shard, replies });
}

fn refuses(client: &mut Client, now: u64, shard: ShardId, attempt: AttemptId, refusal: Refusal) {
    let refused = Response::Refused { attempt, shard, refusal, since: INCARNATION };
    client.handle_response(Time(now), shard, refused);
}

fn committed(sums: &[(u32, i64)]) -> Event {
    Event::Committed { replies: sums.iter().map(|(no, sum)| (CallNo(*no), Reply::Int(*sum))).collect() }
}

#[test]
fn what_leaves_together_is_one_attempt_and_each_hears_its_own_answers() {
    let mut client = batching();
    let slots: [&[u16]; 3] = [&[SLOT, OTHER_SLOT], &[OTHER_SLOT, SLOT], &[SLOT, SLOT, OTHER_SLOT]];
    let all: Vec<TxHandle> = (0..).zip(slots).map(|(now, slots)| adding(&mut client, now, slots)).collect();
    let first = prepare(&mut client, 3, SHARD);
    let other = prepare(&mut client, 3, OTHER);
    assert_eq!((first.0, first.1.len(), other.1.len()), (other.0, 4, 3));
    assert!(all.iter().all(|tx| client.attempt(*tx) == Some(first.0)), "they speak as their leader");
    votes(&mut client, 4, SHARD, &first, 10);
    assert_eq!(told(&mut client, 4), []);
    votes(&mut client, 5, OTHER, &other, 20);
    let expected = [
        committed(&[(0, 10), (1, 20)]),
        committed(&[(0, 21), (1, 11)]),
        committed(&[(0, 12), (1, 13), (2, 22)]),
    ];
    assert_eq!(told(&mut client, 5), all.into_iter().zip(expected).collect::<Vec<_>>());
    for shard in [SHARD, OTHER] {
        assert_eq!(sent_to(&mut client, 6, shard).first(), Some(&Request::Apply { attempt: first.0 }));
        client.handle_response(Time(6), shard, Response::Applied { attempt: first.0, shard });
    }
    client.settle(Time(7));
    assert!(client.is_over());
}

/// Nothing failed, so they need not pay for going alone.
#[test]
fn a_batch_that_lacks_a_timestamp_goes_again_as_a_batch() {
    let mut client = batching();
    let all = [1, 2, 3].map(|now| adding(&mut client, now, &[SLOT, OTHER_SLOT]));
    let (attempt, calls) = prepare(&mut client, 4, SHARD);
    prepare(&mut client, 4, OTHER);
    client.abort(Time(5), all[1]);
    refuses(&mut client, 6, SHARD, attempt, Refusal::Unstamped);
    let events = told(&mut client, 6);
    assert_eq!(events, [(all[1], Event::Aborted)], "who wanted its end has it");
    let (mut again, fewer) = prepare(&mut client, 7, SHARD);
    assert!(again.tx != attempt.tx && fewer.len() == calls.len() - 1);
    // Not without end.
    for now in 8..71 {
        prepare(&mut client, now, OTHER);
        refuses(&mut client, now, SHARD, again, Refusal::Unstamped);
        (again, _) = prepare(&mut client, now, SHARD);
    }
    prepare(&mut client, 71, OTHER);
    refuses(&mut client, 71, SHARD, again, Refusal::Unstamped);
    assert_eq!(batch_sizes(&sent_to(&mut client, 72, SHARD)), [1, 1]);
}

/// Bug: when a process had stopped to stamp, what it had suggested last stayed, and all that it committed had that timestamp.
/// Consequence: who had stamped once did so for ever, and what it did was never settled for others. Mend: each commit asks anew.
#[test]
fn who_has_stopped_to_stamp_commits_without_a_timestamp() {
    let switches = Switches::claret(Ordered::Adaptive, true, WaySwitches::ROUNDS);
    let mut client = connect(unconnected_with(switches));
    let mut is_stamped = |now: u64, response: Response| {
        client.handle_response(Time(now), SHARD, response);
        let tx = adding(&mut client, now, &[SLOT, OTHER_SLOT]);
        let requests = sent_to(&mut client, now, SHARD);
        client.abort(Time(now), tx);
        client.settle(Time(now));
        requests.iter().any(|it| matches!(it, Request::Prepare { asks: Asks::Place(_), .. }))
    };
    let refused = Refusal::Unstamped;
    let refused =
        Response::Refused { attempt: attempt(99), shard: SHARD, refusal: refused, since: INCARNATION };
    assert!(is_stamped(1, refused));
    let ticked = |now, orders| {
        let (clock, passed) = (Timestamp(now), Timestamp(0));
        Response::Ticked { clock, now: Time(now), passed, orders, owners: 1 }
    };
    assert!(is_stamped(2, ticked(2, true)));
    assert!(!is_stamped(3, ticked(3, false)));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn batches_that_lack_timestamps_and_are_not_sent_again_as_they_should_are_noticed() {
    use crate::planted::{Bug, assert_noticed};
    let noticed: [(Bug, fn()); 3] = [
        (Bug::UnstampedTakenApart, a_batch_that_lacks_a_timestamp_goes_again_as_a_batch),
        (Bug::UnstampedWithoutEnd, a_batch_that_lacks_a_timestamp_goes_again_as_a_batch),
        (Bug::SuggestionStays, who_has_stopped_to_stamp_commits_without_a_timestamp),
    ];
    assert_noticed(noticed);
}

/// Its commit is one message (P9), and no other shard's silence concerns it.
#[test]
fn who_needs_one_shard_is_in_a_batch_with_those_of_that_shard_alone() {
    let mut client = batching();
    let slots: [&[u16]; 4] = [&[SLOT], &[SLOT, OTHER_SLOT], &[SLOT], &[OTHER_SLOT]];
    let all: Vec<TxHandle> = (0..).zip(slots).map(|(now, slots)| adding(&mut client, now, slots)).collect();
    client.settle(Time(4));
    let requests = sent_to(&mut client, 4, SHARD);
    let sizes = batch_sizes(&requests);
    assert_eq!(sizes.iter().sum::<usize>(), 3, "{requests:?}");
    assert_eq!(client.attempt(all[0]), client.attempt(all[2]));
    let alone = [1, 3].map(|at| client.attempt(all[at]));
    assert_eq!(alone, [1, 3].map(|at| Some(attempt(all[at].0))));
}

#[test]
fn who_needs_a_shard_that_is_silent_goes_alone() {
    let mut client = batching();
    adding(&mut client, 0, &[SLOT]);
    let mut requests = Vec::new();
    client.take(SHARD, CONNECTION, &mut requests);
    assert_eq!(requests.len(), 1);
    client.settle(Time(200_000));
    let needs_it = adding(&mut client, 200_000, &[SLOT, OTHER_SLOT]);
    let other = [1, 2].map(|_| adding(&mut client, 200_000, &[OTHER_SLOT]));
    sent_to(&mut client, 200_000, OTHER);
    assert_eq!(client.attempt(needs_it), Some(attempt(needs_it.0)));
    assert_eq!(client.attempt(other[0]), client.attempt(other[1]), "nobody else is concerned");
}

#[test]
fn of_a_batch_that_is_refused_each_goes_alone_under_its_own_name() {
    let mut client = batching();
    let all = [adding(&mut client, 0, &[SLOT]), adding(&mut client, 0, &[SLOT])];
    let (leader, _) = prepare(&mut client, 1, SHARD);
    let refusal = Refusal::Operation {
        key: "k".into(),
        error: Box::new(claret_types::OpError::Overflow("INCRBY".into(), "1".into())),
    };
    refuses(&mut client, 2, SHARD, leader, refusal);
    assert_eq!(told(&mut client, 2), [], "nobody's operation failed, as far as is known");
    let requests = sent_to(&mut client, 3, SHARD);
    let alone: Vec<AttemptId> = prepares(&requests).into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(alone, [attempt(all[0].0), attempt(all[1].0)]);
}

/// It says nothing about the next one.
#[test]
fn after_one_that_only_gave_way_batches_are_as_large() {
    let mut client = batching();
    for _ in 0..2 {
        adding(&mut client, 0, &[SLOT]);
    }
    let (leader, _) = prepare(&mut client, 1, SHARD);
    refuses(&mut client, 2, SHARD, leader, Refusal::Recovered);
    sent_to(&mut client, 2, SHARD);
    for _ in 0..140 {
        adding(&mut client, 3, &[SLOT]);
    }
    assert_eq!(batch_sizes(&sent_to(&mut client, 3, SHARD)), [140]);
}

/// Each that goes alone is dear, so what is refused now and then is carried in smaller pieces.
#[test]
fn after_a_failure_batches_are_smaller() {
    let mut client = batching();
    let begin = |client: &mut Client, now, count| {
        (0..count).map(|_| adding(client, now, &[SLOT])).collect::<Vec<_>>()
    };
    begin(&mut client, 0, 2);
    let (leader, _) = prepare(&mut client, 1, SHARD);
    let error = Box::new(claret_types::OpError::Overflow("INCRBY".into(), "1".into()));
    refuses(&mut client, 2, SHARD, leader, Refusal::Operation { key: "k".into(), error });
    sent_to(&mut client, 2, SHARD);
    begin(&mut client, 3, 140);
    assert_eq!(batch_sizes(&sent_to(&mut client, 3, SHARD)), [128, 12], "a quarter of 512");
}

/// A shard keeps only so much of what an attempt answered.
#[test]
fn after_long_answers_batches_are_smaller() {
    let mut client = batching();
    for _ in 0..2 {
        adding(&mut client, 0, &[SLOT]);
    }
    let (attempt, calls) = prepare(&mut client, 1, SHARD);
    let long = Reply::Bytes("x".repeat(300_000).as_str().into());
    let replies = calls.into_iter().map(|no| (no, long.clone())).collect();
    client.handle_response(Time(2), SHARD, Response::Voted { attempt, shard: SHARD, replies });
    assert_eq!(told(&mut client, 2).len(), 2);
    sent_to(&mut client, 2, SHARD);
    client.handle_response(Time(2), SHARD, Response::Applied { attempt, shard: SHARD });
    for _ in 0..140 {
        adding(&mut client, 3, &[SLOT]);
    }
    assert_eq!(batch_sizes(&sent_to(&mut client, 3, SHARD)), [128, 12], "a quarter of 512");
}

/// What comes with it in a frame, the end of the batch before, is carried out at once, too.
#[test]
fn a_batch_has_400_calls_at_one_shard_at_most() {
    let mut client = batching();
    for _ in 0..50 {
        adding(&mut client, 0, &[SLOT; 9]);
    }
    assert_eq!(batch_sizes(&sent_to(&mut client, 0, SHARD)), [396, 54]);
}

/// All were under way before anything was known.
#[test]
fn batches_that_wait_at_one_time_halve_the_window_once() {
    let mut client = batching();
    let leave = |client: &mut Client, now| {
        adding(client, now, &[SLOT]);
        let requests = sent_to(client, now, SHARD);
        prepares(&requests).first().map(|(attempt, _)| *attempt)
    };
    let early: Vec<AttemptId> = (1..=6).filter_map(|now| leave(&mut client, now)).collect();
    assert_eq!(early.len(), 6);
    for attempt in early {
        client.handle_response(Time(7), SHARD, Response::Queued { attempt, no: None });
    }
    let later = (10..100).filter_map(|now| leave(&mut client, now)).count();
    assert_eq!(6 + later, 32);
}

#[test]
fn a_batch_has_one_mebibyte_at_most() {
    let mut client = batching();
    for now in 0..3 {
        let tx = client.begin(Time(now), 1);
        let key = "k".repeat(600_000);
        client.buffer(Time(now), (tx, 1), (SLOT, key.as_str().into()), add()).expect("it runs");
        client.commit(Time(now), (tx, 1)).expect("it runs");
    }
    client.settle(Time(3));
    assert_eq!(batch_sizes(&sent_to(&mut client, 3, SHARD)), [1, 1, 1]);
}

#[test]
fn who_is_given_up_in_a_batch_hears_how_it_ends() {
    for commits in [true, false] {
        let mut client = batching();
        let all = [adding(&mut client, 0, &[SLOT]), adding(&mut client, 0, &[SLOT])];
        let asked = prepare(&mut client, 1, SHARD);
        client.abort(Time(2), all[0]);
        assert_eq!(told(&mut client, 2), [], "the other one goes on");
        assert_eq!(sent_to(&mut client, 2, SHARD), []);
        if commits {
            votes(&mut client, 3, SHARD, &asked, 1);
            let both = [(all[0], committed(&[(0, 1)])), (all[1], committed(&[(0, 2)]))];
            assert_eq!(told(&mut client, 3), both);
        } else {
            refuses(&mut client, 3, SHARD, asked.0, Refusal::Recovered);
            assert_eq!(told(&mut client, 3), [(all[0], Event::Aborted)]);
            assert_eq!(prepare(&mut client, 4, SHARD).0, attempt(all[1].0));
        }
    }
}

#[test]
fn a_batch_is_withdrawn_when_all_of_it_is_given_up() {
    let mut client = batching();
    let all = [adding(&mut client, 0, &[SLOT]), adding(&mut client, 0, &[SLOT])];
    let (leader, _) = prepare(&mut client, 1, SHARD);
    client.abort(Time(2), all[0]);
    client.abandon(Time(2), all[1]);
    assert_eq!(sent_to(&mut client, 2, SHARD), [Request::Withdraw { attempt: leader }]);
    refuses(&mut client, 3, SHARD, leader, Refusal::Withdrawn);
    assert_eq!(told(&mut client, 3), [(all[0], Event::Aborted)], "and the other's user has left");
    client.settle(Time(4));
    assert!(client.is_over());
}

#[test]
fn who_is_given_up_before_it_leaves_leaves_nothing() {
    let mut client = batching();
    let all = [adding(&mut client, 0, &[SLOT]), adding(&mut client, 0, &[SLOT])];
    client.abort(Time(1), all[0]);
    assert_eq!(told(&mut client, 1), [(all[0], Event::Aborted)]);
    assert_eq!(prepare(&mut client, 2, SHARD).0, attempt(all[1].0), "a batch of one is that one");
}

#[test]
fn where_the_end_of_a_batch_is_unknown_so_is_that_of_all_in_it() {
    let mut client = batching();
    let all = [adding(&mut client, 0, &[SLOT]), adding(&mut client, 0, &[SLOT])];
    let (leader, _) = prepare(&mut client, 1, SHARD);
    refuses(&mut client, 2, SHARD, leader, Refusal::Unknown);
    assert_eq!(told(&mut client, 2), all.map(|tx| (tx, Event::Unknown)));
}

#[test]
fn when_slots_move_those_that_are_gathered_go_alone() {
    let mut client = batching();
    let all = [adding(&mut client, 0, &[SLOT]), adding(&mut client, 0, &[SLOT])];
    client.adopt(Time(1), vec![range(SLOT, "b"), range(OTHER_SLOT, "b")]);
    let requests = sent_to(&mut client, 1, SHARD);
    let alone: Vec<AttemptId> = prepares(&requests).into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(alone, [attempt(all[0].0), attempt(all[1].0)]);
}

#[test]
fn a_batch_that_waits_for_long_is_given_up_and_others_go_alone() {
    let mut client = batching();
    let all = [adding(&mut client, 0, &[SLOT]), adding(&mut client, 0, &[SLOT])];
    let (leader, _) = prepare(&mut client, 1, SHARD);
    client.handle_response(Time(2), SHARD, Response::Queued { attempt: leader, no: None });
    client.settle(Time(2));
    let due = client.poll_timeout().expect("it is given up some time");
    assert!(due <= Time(40_002), "{due:?}");
    client.handle_timeout(due);
    assert_eq!(sent_to(&mut client, due.0, SHARD), [Request::Withdraw { attempt: leader }]);
    refuses(&mut client, due.0, SHARD, leader, Refusal::Withdrawn);
    let requests = sent_to(&mut client, due.0, SHARD);
    let alone: Vec<AttemptId> = prepares(&requests).into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(alone, [attempt(all[0].0), attempt(all[1].0)]);
    let later = [adding(&mut client, due.0, &[SLOT]), adding(&mut client, due.0, &[SLOT])];
    let requests = sent_to(&mut client, due.0, SHARD);
    let alone: Vec<AttemptId> = prepares(&requests).into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(alone, later.map(|tx| attempt(tx.0)));
}

/// It waited, was committed, and a shard is slow to say that it is applied: nobody's patience is over.
#[test]
fn a_batch_that_waited_and_is_committed_is_not_given_up() {
    let mut client = batching();
    adding(&mut client, 0, &[SLOT, OTHER_SLOT]);
    adding(&mut client, 0, &[SLOT, OTHER_SLOT]);
    let (first, other) = (prepare(&mut client, 1, SHARD), prepare(&mut client, 1, OTHER));
    client.handle_response(Time(2), SHARD, Response::Queued { attempt: first.0, no: None });
    votes(&mut client, 3, SHARD, &first, 1);
    votes(&mut client, 3, OTHER, &other, 1);
    assert_eq!(told(&mut client, 3).len(), 2);
    client.handle_timeout(Time(50_000));
    let later = [1, 2].map(|_| adding(&mut client, 50_000, &[SLOT]));
    sent_to(&mut client, 50_000, SHARD);
    assert_eq!(client.attempt(later[0]), client.attempt(later[1]), "they still leave together");
}

#[test]
fn while_batches_wait_what_comes_gathers_behind_the_last() {
    let mut client = batching();
    let mut under_way = Vec::new();
    for now in 1..8 {
        adding(&mut client, now, &[SLOT]);
        for (attempt, _) in prepares(&sent_to(&mut client, now, SHARD)) {
            client.handle_response(Time(now), SHARD, Response::Queued { attempt, no: None });
            under_way.push(attempt);
        }
    }
    // The window was 64, 32, 16, 8, and is 4.
    assert_eq!(under_way.len(), 4);
    for attempt in under_way {
        votes(&mut client, 9, SHARD, &(attempt, vec![CallNo(0)]), 1);
    }
    let (_, calls) = prepare(&mut client, 9, SHARD);
    assert_eq!(calls.len(), 3, "all that came leaves behind the message that frees the record");
}

/// One shard stops while a batch has to wait there, and the window is one: others do not wait for it.
#[test]
fn while_a_shard_is_silent_the_window_holds_nobody() {
    // Nothing else is due before.
    let mut client = batching_with(Limits { resend_us: 10_000_000, ..Limits::default() });
    for now in 1..=7 {
        adding(&mut client, now, &[SLOT]);
        let (attempt, no) = prepare(&mut client, now, SHARD);
        client.handle_response(Time(now), SHARD, Response::Queued { attempt, no: None });
        votes(&mut client, now, SHARD, &(attempt, no), 1);
        told(&mut client, now);
    }
    adding(&mut client, 10, &[SLOT]);
    let mut requests = Vec::new();
    client.take(SHARD, CONNECTION, &mut requests);
    assert_eq!(prepares(&requests).len(), 1, "and nobody answers");
    let held = [1, 2].map(|_| adding(&mut client, 20, &[OTHER_SLOT]));
    assert_eq!(sent_to(&mut client, 20, OTHER), [], "one is under way, and no more may be");
    let due = client.poll_timeout().expect("they are not held for ever");
    assert!(due <= Time(100_010), "{due:?}");
    client.handle_timeout(due);
    let (_, calls) = prepare(&mut client, due.0, OTHER);
    assert_eq!(calls.len(), 2);
    assert_eq!(client.attempt(held[0]), client.attempt(held[1]));
    assert!(client.poll_timeout().is_none_or(|next| next > due), "nothing is due at once again");
}

#[test]
fn what_has_sent_something_or_is_large_or_ran_before_goes_alone() {
    let mut client = batching();
    let large = client.begin(Time(0), 1);
    for _ in 0..17 {
        client.buffer(Time(0), (large, 1), (SLOT, "k".into()), add()).expect("it runs");
    }
    client.commit(Time(0), (large, 1)).expect("it runs");
    let small = adding(&mut client, 0, &[SLOT]);
    let requests = sent_to(&mut client, 1, SHARD);
    let alone: Vec<AttemptId> = prepares(&requests).into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(alone, [attempt(large.0), attempt(small.0)]);
    refuses(&mut client, 2, SHARD, attempt(small.0), Refusal::LostLocks);
    let restarts = Event::Restart { cause: Cause::Refused(Refusal::LostLocks) };
    assert_eq!(told(&mut client, 2), [(small, restarts)]);
    client.restart(Time(3), (small, 1)).expect("it was told so");
    client.buffer(Time(3), (small, 2), (SLOT, "k".into()), add()).expect("it runs");
    client.commit(Time(3), (small, 2)).expect("it runs");
    let third = adding(&mut client, 3, &[SLOT]);
    let requests = sent_to(&mut client, 4, SHARD);
    let alone: Vec<AttemptId> = prepares(&requests).into_iter().map(|(attempt, _)| attempt).collect();
    let again = AttemptId { attempt: 2, ..attempt(small.0) };
    assert_eq!(alone, [again, attempt(third.0)]);
}
