//! Attempts that are over, recycled coordinators, and what is sent again and when.

use super::*;

fn execute(client: &mut Client, tx: (TxHandle, u32), slot: u16) -> Result<CallNo, Closed> {
    client.execute(Time(1), tx, (slot, "k".into()), add_returning(), None)
}

fn buffer(client: &mut Client, tx: (TxHandle, u32), slot: u16) -> Result<CallNo, Closed> {
    client.buffer(Time(1), tx, (slot, "k".into()), add())
}

fn deliver(client: &mut Client, now: u64, response: Response) {
    client.deliver(Time(now), (SHARD, CONNECTION), 0, std::iter::once(response));
}

fn grant(attempt: AttemptId, no: CallNo) -> Response {
    Response::Granted { attempt, no, reply: Reply::Int(1), granted: 1, incarnation: INCARNATION }
}

/// Executes at the shard, and is granted.
fn granted(client: &mut Client, tx: (TxHandle, u32)) -> AttemptId {
    let no = execute(client, tx, SLOT).expect("it runs");
    let sent = sent_to(client, 1, SHARD);
    let [Request::Execute { attempt, .. }] = sent[..] else { panic!("{sent:?}") };
    deliver(client, 1, grant(attempt, no));
    let events = told(client, 1);
    assert!(matches!(events[..], [(_, Event::Answer { .. })]), "{events:?}");
    attempt
}

fn assert_silent(client: &mut Client) {
    let sent = [SHARD, OTHER].map(|shard| sent_to(client, 1, shard)).concat();
    let events = told(client, 1);
    assert!(sent.is_empty() && events.is_empty(), "{sent:?} {events:?}");
}

/// Nothing in the name of this attempt is taken, and nothing comes of the try.
fn assert_closed(client: &mut Client, tx: (TxHandle, u32)) {
    assert_eq!(execute(client, tx, OTHER_SLOT), Err(Closed));
    assert_eq!(buffer(client, tx, OTHER_SLOT), Err(Closed));
    assert_eq!(client.commit(Time(1), tx), Err(Closed));
    assert_silent(client);
}

/// Bug: an attempt was refused while its closure awaited something else, which then went on with it. Its commit
/// listed what was called since; a call of it left an answer for the next attempt, which never committed.
#[test]
fn a_closed_attempt_takes_nothing_and_the_next_is_whole() {
    for mut client in all_clients() {
        let tx = client.begin(Time(1), 1);
        let attempt = granted(&mut client, (tx, 1));
        let (refusal, since) = (Refusal::Recovered, INCARNATION);
        deliver(&mut client, 1, Response::Refused { attempt, shard: SHARD, refusal, since });
        let events = told(&mut client, 1);
        assert!(matches!(events[..], [(_, Event::Restart { .. })]), "{events:?}");
        [SHARD, OTHER].into_iter().for_each(|shard| drop(sent_to(&mut client, 1, shard)));
        assert_closed(&mut client, (tx, 1));
        assert_eq!(client.restart(Time(1), (tx, 1)), Ok(()));
        assert_closed(&mut client, (tx, 1));
        assert_eq!(client.restart(Time(1), (tx, 1)), Err(Closed), "it runs again already");

        granted(&mut client, (tx, 2));
        buffer(&mut client, (tx, 2), OTHER_SLOT).expect("it runs");
        assert_eq!(client.commit(Time(1), (tx, 2)), Ok(()));
        for shard in [SHARD, OTHER] {
            let sent = sent_to(&mut client, 1, shard);
            let prepares = sent.iter().filter(|request| matches!(request, Request::Prepare { .. })).count();
            assert_eq!(prepares, 1, "{sent:?}");
        }
    }
}

/// Bug: a call for a transaction that was over ended the process's task: "the transaction is not over".
#[test]
fn what_is_said_for_one_that_is_over_never_reaches_the_next_with_its_coordinator() {
    for mut client in all_clients() {
        let first = client.begin(Time(1), 1);
        buffer(&mut client, (first, 1), SLOT).expect("it runs");
        client.commit(Time(1), (first, 1)).expect("it runs");
        let sent = sent_to(&mut client, 1, SHARD);
        let [Request::Prepare { attempt, .. }] = &sent[..] else { panic!("{sent:?}") };
        deliver(&mut client, 1, Response::Committed { attempt: *attempt, replies: Vec::new() });
        told(&mut client, 1);
        assert!(client.is_over());

        let second = client.begin(Time(1), 1);
        buffer(&mut client, (second, 1), SLOT).expect("it runs");
        assert_closed(&mut client, (first, 1));
        assert_eq!(client.restart(Time(1), (first, 1)), Err(Closed));
        client.abort(Time(1), first);
        client.abandon(Time(1), first);
        assert_silent(&mut client);
        client.commit(Time(1), (second, 1)).expect("it runs");
        let sent = sent_to(&mut client, 1, SHARD);
        let [Request::Prepare { calls, .. }] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(calls.len(), 1, "its own");
    }
}

/// A transaction that asks for an answer.
fn asking(client: &mut Client, now: u64, key: &str) -> AttemptId {
    let tx = client.begin(Time(now), 1);
    client.execute(Time(now), (tx, 1), (SLOT, key.into()), add_returning(), None).expect("it runs");
    match &sent_to(client, now, SHARD)[..] {
        [Request::Execute { attempt, .. }] => *attempt,
        other => panic!("{other:?}"),
    }
}

/// Those that were asked again.
fn asked_again(client: &mut Client, now: u64) -> Vec<AttemptId> {
    client.handle_timeout(Time(now));
    let executes = sent_to(client, now, SHARD).into_iter().filter_map(|request| match request {
        Request::Execute { attempt, .. } => Some(attempt),
        _ => None,
    });
    let mut all: Vec<AttemptId> = executes.collect();
    all.sort_unstable_by_key(|attempt| attempt.tx.sequence);
    all
}

#[test]
fn all_that_is_due_at_one_instant_is_asked_again() {
    for mut client in all_clients() {
        let waiting: Vec<AttemptId> = (0..5).map(|at| asking(&mut client, 100, &format!("k{at}"))).collect();
        let due = client.poll_timeout().expect("they wait for answers");
        assert_eq!(asked_again(&mut client, due.0), waiting);
    }
}

#[test]
fn a_transaction_with_the_coordinator_of_another_has_a_timer_of_its_own() {
    let mut client = connected();
    let first = asking(&mut client, 1, "k");
    deliver(&mut client, 2, grant(first, CallNo(0)));
    client.commit(Time(3), (TxHandle(first.tx.sequence.0), 1)).expect("it runs");
    deliver(&mut client, 4, Response::Voted { attempt: first, shard: SHARD, replies: Vec::new() });
    sent_to(&mut client, 4, SHARD);
    deliver(&mut client, 5, Response::Applied { attempt: first, shard: SHARD });
    client.settle(Time(5));
    assert!(client.is_over());
    let second = asking(&mut client, 10, "k");
    let due = 10 + Limits::default().resend_us;
    assert!(client.poll_timeout().is_some_and(|at| at <= Time(due)));
    assert_eq!(asked_again(&mut client, due), [second]);
}

/// One that has all its votes, and whose end no shard has confirmed.
fn committed(client: &mut Client, now: u64) -> AttemptId {
    committing(client, now);
    let sent = sent_to(client, now, SHARD);
    let [Request::Prepare { attempt, .. }] = sent[..] else { panic!("{sent:?}") };
    deliver(client, now, Response::Voted { attempt, shard: SHARD, replies: Vec::new() });
    let events = told(client, now);
    assert!(matches!(events[..], [(_, Event::Committed { .. })]), "{events:?}");
    sent_to(client, now, SHARD);
    attempt
}

/// Shards forget what is below the low-water mark: nothing is that some shard has still to apply.
#[test]
fn the_low_water_mark_stays_below_what_is_not_applied_everywhere() {
    for mut client in all_clients() {
        let first = committed(&mut client, 1);
        let second = committed(&mut client, 2);
        let apply = |client: &mut Client, attempt| {
            deliver(client, 3, Response::Applied { attempt, shard: SHARD });
            client.settle(Time(3));
        };
        assert_eq!(client.low_water(), first.tx.sequence);
        assert!(!client.is_over());
        apply(&mut client, second);
        assert_eq!(client.low_water(), first.tx.sequence);
        apply(&mut client, first);
        assert_eq!(client.low_water(), Sequence(second.tx.sequence.0 + 1));
        assert!(client.is_over());
    }
}

/// Answers to calls that were never made are not taken for answers.
#[test]
fn votes_that_answer_what_was_not_asked_harm_nobody() {
    for mut client in all_clients() {
        let tx = client.begin(Time(1), 1);
        client.buffer(Time(1), (tx, 1), (SLOT, "k".into()), add_returning()).expect("it runs");
        client.commit(Time(1), (tx, 1)).expect("it runs");
        let sent = sent_to(&mut client, 1, SHARD);
        let [Request::Prepare { attempt, .. }] = sent[..] else { panic!("{sent:?}") };
        let replies = [7, 0, u32::MAX].map(|no| (CallNo(no), Reply::Int(1))).into();
        deliver(&mut client, 2, Response::Voted { attempt, shard: SHARD, replies });
        let expected = vec![(CallNo(0), Reply::Int(1))];
        assert_eq!(told(&mut client, 2), [(tx, Event::Committed { replies: expected })]);
    }
}

#[test]
fn a_transaction_whose_user_is_gone_is_aborted_and_leaves_nothing() {
    for mut client in all_clients() {
        let tx = client.begin(Time(1), 1);
        let attempt = granted(&mut client, (tx, 1));
        client.abandon(Time(2), tx);
        let sent = sent_to(&mut client, 2, SHARD);
        assert_eq!(sent, [Request::Abort { attempt, refused_by: None }]);
        assert_eq!(client.live(), [attempt]);
        deliver(&mut client, 3, Response::Aborted { attempt, shard: SHARD });
        client.settle(Time(3));
        assert!(client.is_over());
    }
}

/// Otherwise it would hold up the low-water mark for ever.
#[test]
fn a_transaction_that_is_given_up_between_two_attempts_is_over() {
    for mut client in all_clients() {
        let tx = client.begin(Time(1), 1);
        let attempt = granted(&mut client, (tx, 1));
        let (refusal, since) = (Refusal::Recovered, INCARNATION);
        deliver(&mut client, 1, Response::Refused { attempt, shard: SHARD, refusal, since });
        assert!(matches!(told(&mut client, 1)[..], [(_, Event::Restart { .. })]));
        client.abort(Time(2), tx);
        assert_eq!(told(&mut client, 2), [(tx, Event::Aborted)]);
        assert_eq!(client.restart(Time(2), (tx, 1)), Err(Closed));
        client.abort(Time(2), tx);
        assert_eq!(told(&mut client, 2), [], "it is told once");
        assert!(client.is_over());
        assert_eq!(client.low_water(), Sequence(2));
    }
}

/// Bug: a slot moved between two calls on one record. The second one went to the new shard without the first, could not be
/// done there, and the user was told so for good.
#[test]
fn calls_of_an_attempt_on_one_record_go_to_one_shard() {
    for mut client in all_clients() {
        let tx = client.begin(Time(1), 1);
        buffer(&mut client, (tx, 1), SLOT).expect("it runs");
        client.adopt(Time(2), vec![range(SLOT, "b"), range(OTHER_SLOT, "b")]);
        buffer(&mut client, (tx, 1), SLOT).expect("it runs");
        client.buffer(Time(2), (tx, 1), (SLOT, "other".into()), add()).expect("it runs");
        client.commit(Time(2), (tx, 1)).expect("it runs");
        let keys = |client: &mut Client, shard| match &sent_to(client, 2, shard)[..] {
            [Request::Prepare { calls, .. }] => calls.iter().map(|call| call.key.clone()).collect(),
            other => panic!("{other:?}"),
        };
        let (here, there): (Vec<Bytes>, Vec<Bytes>) = (keys(&mut client, SHARD), keys(&mut client, OTHER));
        assert_eq!(here, ["k", "k"].map(Bytes::from));
        assert_eq!(there, ["other"].map(Bytes::from));
        // The next attempt asks where the slot is now.
        let (refusal, since) = (Refusal::Elsewhere { key: "k".into() }, INCARNATION);
        deliver(&mut client, 3, Response::Refused { attempt: attempt(1), shard: SHARD, refusal, since });
        assert!(matches!(told(&mut client, 3)[..], [(_, Event::Restart { .. })]));
        client.restart(Time(3), (tx, 1)).expect("it was told to");
        buffer(&mut client, (tx, 2), SLOT).expect("it runs");
        client.commit(Time(3), (tx, 2)).expect("it runs");
        assert!(sent_to(&mut client, 3, SHARD).is_empty());
        let sent = sent_to(&mut client, 3, OTHER);
        assert!(
            sent.iter().any(|it| matches!(it, Request::Prepare { calls, .. } if calls.len() == 1)),
            "{sent:?}"
        );
    }
}
