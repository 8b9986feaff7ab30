//! Outboxes, frames, connections that come and go, removed shards.

use super::*;

fn frame(client: &mut Client) -> Vec<Request> {
    let mut requests = Vec::new();
    client.take(SHARD, CONNECTION, &mut requests);
    requests
}

fn withdraw(sequence: u64) -> Request {
    Request::Withdraw { attempt: attempt(sequence) }
}

fn send(client: &mut Client, request: Request) {
    client.outputs.send(SHARD, request);
}

#[test]
fn a_new_connection_begins_with_a_heartbeat() {
    let mut client = unconnected();
    client.connected(Time(0), CONNECTION, &node("a"), (SHARD, INCARNATION), 1_000_000);
    assert!(matches!(frame(&mut client)[..], [Request::Heartbeat { .. }]));
}

#[test]
fn applies_and_aborts_go_first() {
    let mut client = connected();
    send(&mut client, withdraw(1));
    send(&mut client, Request::Abort { attempt: attempt(2), refused_by: None });
    send(&mut client, withdraw(3));
    send(&mut client, Request::Apply { attempt: attempt(4) });
    let names: Vec<u64> = frame(&mut client)
        .iter()
        .map(|request| match request {
            Request::Apply { attempt } | Request::Withdraw { attempt } | Request::Abort { attempt, .. } => {
                attempt.tx.sequence.0
            }
            _ => 0,
        })
        .collect();
    assert_eq!(names, [2, 4, 1, 3]);
}

/// Bug: over a connection that was slower than the heartbeats these were what the outbox was full of, so that all else came
/// later and later.
#[test]
fn a_heartbeat_that_waits_stands_for_the_next_ones_but_not_for_the_last() {
    let pacing = Pacing { frame_requests_max: 2, ..Pacing::default() };
    let mut client = unconnected();
    client.outputs.pacing = pacing;
    let mut client = connect(client);
    let beat = |client: &mut Client, time| client.heartbeat(Time(time));
    let beats = |requests: &[Request]| {
        requests.iter().filter(|request| matches!(request, Request::Heartbeat { .. })).count()
    };
    send(&mut client, withdraw(1));
    send(&mut client, withdraw(2));
    (0..9).for_each(|time| beat(&mut client, time));
    send(&mut client, withdraw(3));
    assert_eq!(beats(&frame(&mut client)), 0, "it keeps its place");
    beat(&mut client, 9);
    client.deliver(Time(9), (SHARD, CONNECTION), 1, std::iter::empty());
    let next = frame(&mut client);
    assert_eq!((next.len(), beats(&next)), (2, 1));
    beat(&mut client, 10);
    client.close(Time(11));
    client.deliver(Time(11), (SHARD, CONNECTION), 1, std::iter::empty());
    let last = frame(&mut client);
    assert!(matches!(&last[..], [Request::Heartbeat { live, .. }] if live.is_empty()), "{last:?}");
}

/// Bug: the last heartbeat took the place of one that waited. Consequence: a connection of a process that ended at once began
/// with something else than a heartbeat (P40). Mend: what waits keeps its place.
#[test]
fn a_connection_of_a_process_that_ends_begins_with_a_heartbeat_all_the_same() {
    let mut client = unconnected();
    client.outputs.pacing = Pacing { frame_requests_max: 2, ..Pacing::default() };
    client.connected(Time(0), CONNECTION, &node("a"), (SHARD, INCARNATION), 1_000_000);
    send(&mut client, withdraw(1));
    client.close(Time(1));
    let is_heartbeat = |request: &Request| matches!(request, Request::Heartbeat { .. });
    let begins: Vec<bool> = frame(&mut client).iter().map(is_heartbeat).collect();
    assert_eq!(begins, [true, false]);
    client.deliver(Time(1), (SHARD, CONNECTION), 1, std::iter::empty());
    assert!(frame(&mut client).iter().all(is_heartbeat), "and ends with one");
}

#[test]
fn while_an_answer_is_owed_requests_gather() {
    let worth = Pacing::default().frame_requests_worth;
    let mut client = connected();
    send(&mut client, withdraw(1));
    assert_eq!((client.poll_ready(), client.poll_ready()), (Some(CONNECTION), None));
    assert_eq!(frame(&mut client).len(), 1);
    for gathered in 1..worth {
        send(&mut client, withdraw(1));
        assert!(frame(&mut client).is_empty(), "{gathered} are not worth a frame");
        assert_eq!(client.poll_ready(), None);
    }
    send(&mut client, withdraw(1));
    assert_eq!(client.poll_ready(), Some(CONNECTION));
    assert_eq!(frame(&mut client).len(), worth);
    send(&mut client, withdraw(1));
    client.deliver(Time(1), (SHARD, CONNECTION), 2, std::iter::empty());
    assert_eq!(frame(&mut client).len(), 1);
}

#[test]
fn frames_in_flight_are_bounded_and_answers_make_room() {
    let pacing = Pacing::default();
    let mut client = connected();
    let gather =
        |client: &mut Client| (0..pacing.frame_requests_worth).for_each(|_| send(client, withdraw(1)));
    for in_flight in 0..pacing.frames_in_flight_max {
        assert_eq!(client.in_flight(SHARD, CONNECTION), Some(in_flight));
        gather(&mut client);
        assert!(!frame(&mut client).is_empty());
    }
    gather(&mut client);
    assert!(frame(&mut client).is_empty());
    client.deliver(Time(1), (SHARD, CONNECTION), 1, std::iter::empty());
    assert_eq!(frame(&mut client).len(), pacing.frame_requests_worth);
    // What became of one take may be several frames.
    client.add_frames(Time(2), SHARD, CONNECTION, 2);
    assert_eq!(client.in_flight(SHARD, CONNECTION), Some(pacing.frames_in_flight_max + 2));
}

#[test]
fn a_frame_has_a_bounded_number_of_requests() {
    let most = Pacing::default().frame_requests_max;
    let mut client = connected();
    (0..most + 3).for_each(|_| send(&mut client, withdraw(1)));
    assert_eq!(frame(&mut client).len(), most);
    client.deliver(Time(1), (SHARD, CONNECTION), 1, std::iter::empty());
    assert_eq!(frame(&mut client).len(), 3);
}

#[test]
fn what_is_on_its_way_is_not_sent_again() {
    let mut client = connected();
    send(&mut client, withdraw(9));
    frame(&mut client);
    client.outputs.now = Time(600);
    client.outputs.repeats_after = Some(500);
    send(&mut client, withdraw(1));
    assert!(frame(&mut client).is_empty(), "the frame before is not answered yet");
    client.deliver(Time(600), (SHARD, CONNECTION), 1, std::iter::empty());
    send(&mut client, withdraw(1));
    assert_eq!(frame(&mut client).len(), 1);
}

#[test]
fn what_is_over_is_told_before_the_next_heartbeat_is_due() {
    let over_worth = Pacing::default().over_worth;
    let mut client = connected();
    let mut low_waters = Vec::new();
    for sequence in 1..=over_worth + 1 {
        let tx = committing(&mut client, 1);
        assert_eq!(tx, TxHandle(sequence));
        let requests = frame(&mut client);
        low_waters.extend(requests.iter().filter_map(|request| match request {
            Request::Heartbeat { low_water, .. } => Some(*low_water),
            _ => None,
        }));
        let committed = Response::Committed { attempt: attempt(sequence), replies: Vec::new() };
        client.deliver(Time(1), (SHARD, CONNECTION), 1, std::iter::once(committed));
        client.settle(Time(1));
    }
    assert_eq!(low_waters, [Sequence(over_worth)]);
}

#[test]
fn shards_hear_of_the_process_three_times_in_the_shortest_lease() {
    let mut client = unconnected();
    let mut heartbeats = Vec::new();
    let connect = |client: &mut Client, now: u64, connection, lease_us| {
        client.connected(Time(now), connection, &node("a"), (SHARD, INCARNATION), lease_us);
        let mut requests = Vec::new();
        client.take(SHARD, connection, &mut requests);
        client.deliver(Time(now), (SHARD, connection), 1, std::iter::empty());
    };
    connect(&mut client, 0, 1, 9_000_000);
    connect(&mut client, 0, 2, 3_000_000);
    connect(&mut client, 0, 3, 6_000_000);
    let mut until = |client: &mut Client, end: u64| {
        let mut count = 0;
        while let Some(due) = client.poll_timeout().filter(|due| due.0 <= end) {
            client.handle_timeout(due);
            let mut requests = Vec::new();
            client.take(SHARD, 3, &mut requests);
            client.deliver(due, (SHARD, 3), 1, std::iter::empty());
            count += requests.len();
            heartbeats.extend(requests);
        }
        count
    };
    assert_eq!(until(&mut client, 30_000_000), 31, "at once, and then every second");
    // A node that comes later and gives less is not left waiting for the next one of those.
    client.connected(Time(30_000_001), 4, &node("b"), (OTHER, INCARNATION), 300_000);
    assert_eq!(until(&mut client, 31_000_001), 11);
    assert!(heartbeats.iter().all(|request| matches!(request, Request::Heartbeat { .. })));
}

#[test]
fn a_process_that_closes_says_so_and_its_connections_end_behind_that() {
    let mut client = connected();
    assert!(!client.take(SHARD, CONNECTION, &mut Vec::new()));
    client.close(Time(9));
    assert!([client.poll_ready(), client.poll_ready()].contains(&Some(CONNECTION)));
    assert_eq!(client.poll_timeout(), None);
    let last = frame(&mut client);
    assert!(matches!(&last[..], [Request::Heartbeat { live, .. }] if live.is_empty()), "{last:?}");
    assert!(!client.take(SHARD, CONNECTION, &mut Vec::new()), "an answer is owed");
    client.deliver(Time(10), (SHARD, CONNECTION), 1, std::iter::empty());
    assert!(client.take(SHARD, CONNECTION, &mut Vec::new()));
}

#[test]
fn a_refusal_that_may_come_of_a_wrong_place_casts_doubt_on_the_topology() {
    let mut client = connected();
    for (refusal, doubts) in [
        (Refusal::Elsewhere { key: "k".into() }, true),
        (Refusal::ReadOnly, true),
        (Refusal::Withdrawn, false),
        (Refusal::Recovered, false),
    ] {
        let refused = Response::Refused { attempt: attempt(1), shard: SHARD, refusal, since: INCARNATION };
        client.deliver(Time(1), (SHARD, CONNECTION), 0, std::iter::once(refused));
        assert_eq!(client.take_doubt(), doubts);
        assert!(!client.take_doubt(), "said once");
    }
}

#[test]
fn for_a_removed_shard_the_client_answers_once_others_have_its_slots() {
    let mut client = connected();
    let tx = committing(&mut client, 1);
    assert_eq!(frame(&mut client).len(), 1);
    client.adopt(Time(2), vec![range(SLOT, "c"), range(OTHER_SLOT, "b")]);
    client.part_with(Time(2), "a");
    client.settle(Time(2));
    assert!(!client.is_over(), "nobody else has its slots");
    client.connected(Time(3), 3, &node("c"), (ShardId(2), Incarnation(6)), 1_000_000);
    let events = told(&mut client, 3);
    assert_eq!(events, [(tx, Event::Unknown)]);
    assert!(client.is_over(), "its end is as known as it will ever be");
    // A handshake over an earlier connection than the one it has is not heard.
    client.connected(Time(3), 1, &node("c"), (ShardId(2), Incarnation(5)), 1_000_000);
    assert_eq!(client.outputs.outbox(ShardId(2)).and_then(|outbox| outbox.connection), Some(3));
    // And it may come back.
    client.adopt(Time(4), vec![range(SLOT, "a"), range(OTHER_SLOT, "b")]);
    client.connected(Time(4), 4, &node("a"), (SHARD, Incarnation(9)), 1_000_000);
    committing(&mut client, 4);
    let mut requests = Vec::new();
    client.take(SHARD, 4, &mut requests);
    assert!(matches!(requests[..], [Request::Heartbeat { .. }, Request::Prepare { .. }]), "{requests:?}");
    client.check_invariants();
}

#[test]
fn a_node_that_comes_back_is_not_parted_with() {
    let mut client = connected();
    committing(&mut client, 1);
    client.adopt(Time(2), vec![range(SLOT, "c")]);
    client.part_with(Time(2), "a");
    client.adopt(Time(3), vec![range(SLOT, "a")]);
    client.part_with(Time(3), "a");
    client.connected(Time(4), 3, &node("c"), (ShardId(2), Incarnation(6)), 1_000_000);
    client.adopt(Time(4), vec![range(SLOT, "c")]);
    client.settle(Time(4));
    assert!(!client.is_over(), "it may answer for itself");
}

#[test]
fn a_node_that_says_another_name_is_another_shard() {
    let mut client = connected();
    committing(&mut client, 1);
    client.connected(Time(3), 3, &node("a"), (ShardId(2), Incarnation(6)), 1_000_000);
    client.settle(Time(3));
    assert!(client.is_over());
}

#[test]
fn without_a_connection_nothing_is_kept_and_an_old_connection_takes_nothing() {
    let mut client = connected();
    client.disconnected(SHARD, CONNECTION);
    send(&mut client, withdraw(1));
    client.check_invariants();
    client.connected(Time(9), 3, &node("a"), (SHARD, INCARNATION), 1_000_000);
    assert!(client.take(SHARD, CONNECTION, &mut Vec::new()), "it has nothing to do any more");
    let mut requests = Vec::new();
    client.take(SHARD, 3, &mut requests);
    assert!(matches!(requests[..], [Request::Heartbeat { .. }]));
    client.disconnected(SHARD, CONNECTION);
    assert!(client.owes_since(SHARD, 3).is_some(), "the new one is not closed with the old one");
    let late = Response::Queued { attempt: attempt(1), no: None };
    client.deliver(Time(9), (SHARD, CONNECTION), 1, std::iter::once(late));
    assert_eq!((client.lock_waits(), client.in_flight(SHARD, 3)), (0, Some(1)), "nor is it heard");
}

#[test]
fn whoever_waits_for_the_longest_time_is_named() {
    let mut client = connected();
    assert_eq!(client.slowest(), None);
    client.settle(Time(5));
    client.outputs.send(OTHER, withdraw(1));
    client.settle(Time(8));
    send(&mut client, withdraw(2));
    assert_eq!(client.slowest(), Some((node("b"), Time(5))));
    client.take(OTHER, OTHER_CONNECTION, &mut Vec::new());
    assert_eq!(client.slowest(), Some((node("b"), Time(5))));
    client.deliver(Time(9), (OTHER, OTHER_CONNECTION), 1, std::iter::empty());
    assert_eq!(client.slowest(), Some((node("a"), Time(8))));
}
