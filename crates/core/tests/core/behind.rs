//! Who is in the way of an attempt that waits (P72): a shard names a holder to the one who waits, and nothing to others; a client
//! believes what is about its own records.

use claret_core::message::{Call, Link, Output, Request, Response};
use claret_core::{
    AttemptId, Birth, CallNo, Client, Event, Incarnation, Limits, Member, Sequence, SessionId, Shard,
    ShardId, Switches, Time, TxHandle, TxId,
};
use claret_types::{BUILTIN, Bytes, Operation};

const NOW: Time = Time(0);

fn op(kind: &str, name: &str, arguments: &[&str]) -> Operation {
    let kind = BUILTIN.iter().find(|it| it.name == kind).expect("a built-in type");
    (kind.parse)(name, &arguments.iter().map(|it| Bytes::from(*it)).collect::<Vec<_>>()).expect("well-formed")
}

fn count() -> Operation {
    op("counter", "INCRBY.RETURNING", &["1"])
}

fn attempt(sequence: u64) -> AttemptId {
    AttemptId { tx: TxId { session: SessionId(1), sequence: Sequence(sequence) }, attempt: 1 }
}

fn shard() -> Shard {
    Shard::new(ShardId(0), Incarnation(1), Switches::CLARET, Limits::default())
}

const LINK: Link = Link { session: SessionId(1), connection: 1 };

fn execute(shard: &mut Shard, sequence: u64, no: u32, key: &str, op: Operation) {
    let attempt = attempt(sequence);
    let call = Call { no: CallNo(no), op, member: Member(0), reserve: None };
    let birth = Birth { time: Time(sequence), tx: attempt.tx };
    let request = Request::Execute {
        attempt,
        birth,
        incarnation: None,
        key: key.into(),
        calls: [call].into_iter().collect(),
        undone: Default::default(),
    };
    shard.handle(NOW, LINK, request);
}

/// What the shard says besides what it was asked to do before.
fn ask(shard: &mut Shard, attempt: AttemptId) -> Vec<(Bytes, Option<AttemptId>)> {
    while shard.poll_output().is_some() {}
    shard.handle(NOW, LINK, Request::AskBehind { attempt });
    shard.check_invariants();
    let Some(Output::Respond { session, response }) = shard.poll_output() else { panic!("no answer") };
    assert_eq!((session, response.attempt()), (attempt.tx.session, Some(attempt)));
    assert!(shard.poll_output().is_none(), "nothing else comes of it");
    let Response::Behind { records, .. } = response else { panic!("{response:?}") };
    records.into_vec()
}

#[test]
fn a_holder_is_named_to_who_waits_for_it() {
    let mut shard = shard();
    execute(&mut shard, 1, 0, "k", count());
    execute(&mut shard, 2, 0, "other", count());
    execute(&mut shard, 2, 1, "k", op("counter", "GET", &[]));
    assert_eq!(ask(&mut shard, attempt(2)), [("k".into(), Some(attempt(1)))]);
    assert_eq!(ask(&mut shard, attempt(2)), [("k".into(), Some(attempt(1)))], "as often as it likes");
    assert_eq!(ask(&mut shard, attempt(1)), [], "it holds, and does not wait");
    assert_eq!(ask(&mut shard, attempt(3)), [], "nobody knows it");
    assert_eq!((shard.open_attempts(), shard.remembered()), (2, 0), "asking writes nothing");
    shard.handle(NOW, LINK, Request::Abort { attempt: attempt(1), refused_by: None });
    assert_eq!(ask(&mut shard, attempt(2)), [], "it has what it waited for");
}

/// Nobody that holds the record is in its way, but an older waiter is.
#[test]
fn who_stands_behind_waiters_is_told_the_record_alone() {
    let mut shard = shard();
    execute(&mut shard, 1, 0, "k", op("counter", "GET", &[]));
    execute(&mut shard, 2, 0, "k", count());
    let mut last = 3;
    // Readers join the phase until it is full; then they stand behind who waits.
    loop {
        execute(&mut shard, last, 0, "k", op("counter", "GET", &[]));
        if let [(key, holder)] = &ask(&mut shard, attempt(last))[..] {
            assert_eq!((key, holder), (&"k".into(), &None));
            break;
        }
        last += 1;
        assert!(last < 1000, "a phase ends");
    }
}

#[test]
fn a_few_records_are_named_and_few_questions_of_one_input_are_answered() {
    let mut shard = shard();
    for no in 0..20 {
        execute(&mut shard, 1, no, &format!("k{no}"), count());
        execute(&mut shard, 2, no, &format!("k{no}"), op("counter", "GET", &[]));
    }
    assert_eq!(ask(&mut shard, attempt(2)).len(), 8);
    execute(&mut shard, 1, 20, "crowded", count());
    for sequence in 3..5000 {
        execute(&mut shard, sequence, 0, "crowded", op("counter", "GET", &[]));
    }
    while shard.poll_output().is_some() {}
    shard.begin(NOW);
    for sequence in 3..5000 {
        shard.handle_further(NOW, LINK, Request::AskBehind { attempt: attempt(sequence) });
    }
    let answered = std::iter::from_fn(|| shard.poll_output()).count();
    assert!((1..10).contains(&answered), "{answered}: each looks through all that wait");
}

/// A client with a transaction that waits for these records of a shard.
fn waiting(keys: &[&str]) -> (Client, TxHandle, AttemptId) {
    let mut client = Client::direct(SessionId(1), Switches::CLARET, Limits::default(), 1);
    let tx = client.begin(NOW, 1);
    for key in keys {
        client.execute(NOW, (tx, 1), (0, (*key).into()), count(), None).expect("it runs");
    }
    client.settle(NOW);
    let attempt = client.attempt(tx).expect("it runs");
    while client.poll_send().is_some() {}
    for _ in keys {
        client.handle_response(NOW, ShardId(0), Response::Queued { attempt, no: None });
    }
    client.settle(NOW);
    (client, tx, attempt)
}

fn behind(client: &mut Client, attempt: AttemptId, records: &[(&str, Option<AttemptId>)]) {
    let records = records.iter().map(|(key, holder)| (Bytes::from(*key), *holder)).collect();
    client.handle_response(NOW, ShardId(0), Response::Behind { attempt, records });
    client.settle(NOW);
    client.check_invariants();
}

#[test]
fn a_client_asks_and_hears_of_its_own_records_once() {
    let (mut client, tx, asked) = waiting(&["k"]);
    behind(&mut client, asked, &[("k", None)]);
    assert_eq!(client.poll_event(), None, "nobody asked");
    assert!(client.ask_behind(NOW, tx));
    assert_eq!(client.poll_send(), Some((ShardId(0), Request::AskBehind { attempt: asked })));
    let holder = AttemptId { tx: TxId { session: SessionId(9), sequence: Sequence(4) }, attempt: 2 };
    behind(&mut client, asked, &[("another's", Some(holder)), ("k", Some(holder))]);
    assert_eq!(client.poll_event(), Some((tx, Event::Behind { record: Some(("k".into(), Some(holder))) })));
    behind(&mut client, asked, &[("k", Some(holder))]);
    assert_eq!(client.poll_event(), None, "a double");
    assert!(client.ask_behind(NOW, tx));
    behind(&mut client, asked, &[("another's", Some(holder))]);
    assert_eq!(
        client.poll_event(),
        Some((tx, Event::Behind { record: None })),
        "of other records it believes nothing"
    );
}

#[test]
fn what_is_over_hears_nothing_more() {
    let (mut client, tx, asked) = waiting(&["k"]);
    assert!(client.ask_behind(NOW, tx));
    client.abort(NOW, tx);
    client.settle(NOW);
    behind(&mut client, asked, &[("k", None)]);
    assert_eq!(client.poll_event(), Some((tx, Event::Aborted)));
    assert_eq!(client.poll_event(), None);
    assert!(!client.ask_behind(NOW, tx), "it waits for nothing");
}
