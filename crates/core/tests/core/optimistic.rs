//! Looks, and calls that must answer what was seen, at a shard (`docs/optimistic.md`). What whole transactions promise is in
//! `crates/claret/tests/claret/any_host/optimistic.rs` and in the simulator.

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, Refusal, Request, Response, Seen,
};
use claret_core::{
    AttemptId, Birth, CallNo, Client, Incarnation, Limits, LookNo, Member, Observations, Pacing, Place, Saw,
    Sequence, SessionId, Shard, ShardId, SlotRange, Survives, Switches, Time, TxId,
};
use claret_types::{
    Bytes, Counter, CounterOp, KeyspaceOp, OpError, Operation, Register, RegisterOp, Reply, Set, SetOp,
    UidGenerator, UidOp, Unique, few,
};
use smallvec::smallvec;

const NOW: Time = Time(1);
const SHARD: ShardId = ShardId(1);
const LINK: Link = Link { session: SessionId(7), connection: 1 };

fn attempt(sequence: u64) -> AttemptId {
    AttemptId { tx: TxId { session: LINK.session, sequence: Sequence(sequence) }, attempt: 1 }
}

fn shard() -> Shard {
    Shard::new(SHARD, Incarnation(1), Switches::CLARET, Limits::default())
}

fn get() -> Operation {
    Operation::new::<Register>(RegisterOp::Get)
}

fn set(value: &str) -> Operation {
    Operation::new::<Register>(RegisterOp::Set(value.into()))
}

fn said(shard: &mut Shard) -> Vec<Response> {
    let mut responses = Vec::new();
    while let Some(output) = shard.poll_output() {
        if let Output::Respond { response, .. } = output {
            responses.push(response);
        }
    }
    shard.check_invariants();
    responses
}

fn look(shard: &mut Shard, ops: &[Operation], at_once: bool) -> Seen {
    let (look, ops) = (LookNo(3), ops.iter().cloned().collect());
    shard.handle(NOW, LINK, Request::Look { look, key: "k".into(), ops, at_once });
    match said(shard).pop() {
        Some(Response::Looked { look: LookNo(3), seen }) => seen,
        other => panic!("{other:?}"),
    }
}

fn answer(shard: &mut Shard, ops: &[Operation]) -> Reply {
    match look(shard, ops, false) {
        Seen::Answer { reply, .. } => reply,
        other => panic!("{other:?}"),
    }
}

/// Prepares calls on the record, with another shard that votes, too, or alone.
fn prepare(
    shard: &mut Shard,
    sequence: u64,
    ops: Vec<Operation>,
    is_alone: bool,
    members: Members,
) -> Vec<Response> {
    let listed = |shard| Listed { shard, incarnation: None };
    let participants = match is_alone {
        true => [listed(SHARD)].into(),
        false => [listed(SHARD), listed(ShardId(2))].into(),
    };
    let calls = ops.into_iter().enumerate().map(|(no, op)| KeyedCall {
        key: "k".into(),
        call: Call { no: CallNo(no as u32), op, member: Member(0), reserve: None },
    });
    let request = Request::Prepare {
        attempt: attempt(sequence),
        birth: Birth { time: NOW, tx: attempt(sequence).tx },
        participants,
        relies_on: 0,
        calls: calls.collect(),
        members,
        asks: Asks::Vote,
        undone: Default::default(),
    };
    shard.handle(NOW, LINK, request);
    said(shard)
}

fn commit(shard: &mut Shard, sequence: u64, ops: Vec<Operation>) -> Vec<Response> {
    prepare(shard, sequence, ops, true, Members::All)
}

fn is_refused_for_change(responses: &[Response]) -> bool {
    let changed = |it: &Response| matches!(it, Response::Refused { refusal: Refusal::Changed { key }, .. } if *key == Bytes::from("k"));
    responses.iter().any(changed)
}

fn is_committed(responses: &[Response]) -> bool {
    responses.iter().any(|it| matches!(it, Response::Committed { .. }))
}

/// O1.
#[test]
fn a_look_changes_and_keeps_nothing() {
    let mut shard = shard();
    commit(&mut shard, 1, vec![set("a")]);
    let own = [set("b"), Operation::new::<Register>(RegisterOp::Append("c".into())), get()];
    assert_eq!(answer(&mut shard, &own), Reply::from("bc"));
    assert_eq!(answer(&mut shard, &[get()]), Reply::from("a"));
    assert_eq!((shard.locked_records(), shard.open_attempts()), (0, 0));
    // Of a record that is not there nothing stays, either.
    let mut shard = self::shard();
    assert_eq!(answer(&mut shard, &own), Reply::from("bc"));
    assert_eq!(shard.contents().count(), 0);
}

#[test]
fn a_look_says_which_operation_cannot_be_done() {
    let mut shard = shard();
    commit(&mut shard, 1, vec![set("a")]);
    let add = Operation::new::<Counter>(CounterOp::Add(1));
    let seen = look(&mut shard, &[get(), add, get()], false);
    assert!(
        matches!(&seen, Seen::Fails { at: 1, error, .. } if matches!(**error, OpError::NotNumeric(..))),
        "{seen:?}"
    );
}

/// T has voted, and its apply is on its way: its user may have been told. Who looks past it sees the old value, and would do so again.
#[test]
fn trap_38_a_look_past_a_vote() {
    let mut shard = shard();
    prepare(&mut shard, 1, vec![set("new")], false, Members::All);
    assert_eq!(look(&mut shard, &[get()], false), Seen::Later);
    assert!(
        matches!(look(&mut shard, &[get()], true), Seen::Answer { reply: Reply::Nil, .. }),
        "it is asked too often"
    );
    // What commutes is not in the way.
    let mut shard = self::shard();
    let add = |member: &str| Operation::new::<Set>(SetOp::Add(few([member.into()])));
    prepare(&mut shard, 1, vec![add("a")], false, Members::All);
    assert_eq!(answer(&mut shard, &[Operation::new::<Set>(SetOp::Contains("b".into()))]), Reply::from(false));
    assert_eq!(look(&mut shard, &[Operation::new::<Set>(SetOp::Contains("a".into()))], false), Seen::Later);
}

/// That would be a lock.
#[test]
fn a_look_waits_for_nobody_who_thinks() {
    let mut shard = shard();
    let execute = Request::Execute {
        attempt: attempt(1),
        birth: Birth { time: NOW, tx: attempt(1).tx },
        incarnation: None,
        key: "k".into(),
        calls: smallvec![Call {
            no: CallNo(0),
            op: Operation::new::<Register>(RegisterOp::GetSet("new".into())),
            member: Member(0),
            reserve: None
        }],
        undone: Default::default(),
    };
    shard.handle(NOW, LINK, execute);
    said(&mut shard);
    assert_eq!(answer(&mut shard, &[get()]), Reply::Nil);
}

/// O3, O4.
#[test]
fn what_was_seen_has_to_be_so() {
    let long = "x".repeat(1_000);
    for value in ["a", &long] {
        let mut shard = shard();
        commit(&mut shard, 1, vec![set(value)]);
        let seen = get().seen(Ok(&Reply::from(value)), Unique(0));
        assert!(is_committed(&commit(&mut shard, 2, vec![seen.clone(), set("b")])));
        assert!(is_refused_for_change(&commit(&mut shard, 3, vec![seen, set("c")])));
        assert_eq!(answer(&mut shard, &[get()]), Reply::from("b"));
    }
}

/// Bug: it waited until nobody held the record, as an error does. Consequence: where many hold a record one after the other, who had
/// seen what is not so any more held them up.
#[test]
fn what_has_changed_is_said_at_once() {
    let mut shard = shard();
    let len = Operation::new::<Set>(SetOp::Len);
    let add = |member: &str| Operation::new::<Set>(SetOp::Add(few([member.into()])));
    commit(&mut shard, 1, vec![add("a")]);
    prepare(&mut shard, 2, vec![add("b")], false, Members::All);
    let seen = len.seen(Ok(&Reply::from(0_i64)), Unique(0));
    assert!(is_refused_for_change(&commit(&mut shard, 3, vec![seen])));
    // What is as it was waits for who holds the record: that one may change it.
    let seen = len.seen(Ok(&Reply::from(1_i64)), Unique(0));
    assert!(matches!(commit(&mut shard, 4, vec![seen])[..], [Response::Queued { .. }]));
    shard.handle(NOW, LINK, Request::Apply { attempt: attempt(2) });
    assert!(is_refused_for_change(&said(&mut shard)));
}

fn version() -> Operation {
    Operation::from(KeyspaceOp::Version)
}

/// O10: a look may tell the version from before the apply of somebody who voted. Who demands that one comes behind the apply.
#[test]
fn a_version_that_was_looked_at_past_a_vote_is_over_once_that_is_applied() {
    let mut shard = shard();
    commit(&mut shard, 1, vec![set("a")]);
    let before = answer(&mut shard, &[version()]);
    // It writes what is there, and so no digest would show it.
    prepare(&mut shard, 2, vec![set("a")], false, Members::All);
    assert_eq!(look(&mut shard, &[version()], false), Seen::Later);
    let Seen::Answer { reply, .. } = look(&mut shard, &[version()], true) else { panic!("asked too often") };
    assert_eq!(reply, before, "nothing is carried out yet");
    let seen = version().seen(Ok(&reply), Unique(0));
    assert!(matches!(commit(&mut shard, 3, vec![seen, set("b")])[..], [Response::Queued { .. }]));
    shard.handle(NOW, LINK, Request::Apply { attempt: attempt(2) });
    assert!(is_refused_for_change(&said(&mut shard)));
    assert_eq!(answer(&mut shard, &[get()]), Reply::from("a"));
    assert_ne!(answer(&mut shard, &[version()]), before);
}

/// O10: what has voted and does not commit changed nothing, and neither did what was looked at, refused or undone.
#[test]
fn what_is_not_carried_out_is_no_change() {
    let mut shard = shard();
    commit(&mut shard, 1, vec![set("a")]);
    let before = answer(&mut shard, &[version()]);
    prepare(&mut shard, 2, vec![set("b")], false, Members::All);
    shard.handle(NOW, LINK, Request::Abort { attempt: attempt(2), refused_by: Some(ShardId(2)) });
    said(&mut shard);
    assert_eq!(answer(&mut shard, &[set("b"), version()]), before, "of what is committed");
    let (hash, key) = (claret_core::key_hash(b"k"), Bytes::from("k"));
    let demanded = version().demanding(&before);
    for op in [&demanded, &set("b")] {
        assert!(matches!(shard.instant(hash, &key, op), Ok(Some(_))), "nobody is in the way");
    }
    shard.undo_instant();
    assert_eq!(answer(&mut shard, &[version()]), before);
    for op in [&demanded, &set("b")] {
        assert!(matches!(shard.instant(hash, &key, op), Ok(Some(_))), "nobody is in the way");
    }
    shard.finish_instant();
    assert!(matches!(shard.instant(hash, &key, &demanded), Err(OpError::Unexpected { .. })));
}

/// Bug: where two transactions that demand the same version left in one batch, both were carried out, for what an attempt did counted
/// as no change: so one update was lost. Mend: for whoever comes behind a writer in a batch the record has changed.
#[test]
fn who_comes_behind_a_writer_in_a_batch_finds_another_version() {
    let mut shard = shard();
    for (no, between) in [vec![], vec![version()], vec![get()]].into_iter().enumerate() {
        let before = answer(&mut shard, &[version()]);
        let one = || vec![version().demanding(&before), set("a")];
        let both = [one(), between, one()].concat();
        let refused = commit(&mut shard, 2 * no as u64 + 1, both);
        assert!(!is_committed(&refused), "{refused:?}");
        assert!(is_committed(&commit(&mut shard, 2 * no as u64 + 2, one())), "alone it is as it was");
    }
}

/// O10: a demand is judged before what its own batch does, and the apply of the batch is a change.
#[test]
fn a_version_is_demanded_once() {
    let mut shard = shard();
    let before = answer(&mut shard, &[version()]);
    let batch = |seen: &Reply| vec![version().demanding(seen), set("a")];
    assert!(is_committed(&commit(&mut shard, 1, batch(&before))));
    let refused = commit(&mut shard, 2, batch(&before));
    assert!(!is_committed(&refused), "{refused:?}");
    let now = answer(&mut shard, &[version()]);
    assert!(is_committed(&commit(&mut shard, 3, batch(&now))));
}

/// O10: the records are the same, and nobody knows whether they were all the time.
#[test]
fn another_incarnation_has_other_versions() {
    let mut shard = shard();
    commit(&mut shard, 1, vec![set("a")]);
    let before = answer(&mut shard, &[version()]);
    shard.restart(NOW, Incarnation(2), Survives::Records);
    assert_eq!(answer(&mut shard, &[get()]), Reply::from("a"));
    assert_ne!(answer(&mut shard, &[version()]), before);
}

/// O10: a record that nobody asks about costs nothing, and those that are asked about are bounded.
#[test]
fn versions_are_kept_of_what_is_asked_about() {
    let mut shard = shard();
    commit(&mut shard, 1, vec![set("a")]);
    assert!(shard.versions().is_empty());
    answer(&mut shard, &[version()]);
    assert_eq!(shard.versions().len(), 1);
    commit(&mut shard, 2, vec![set("b")]);
    assert!(shard.versions().is_empty(), "what changed is forgotten");
    let limits = Limits { versions_bytes_max: 0, ..Limits::default() };
    let mut shard = Shard::new(SHARD, Incarnation(1), Switches::CLARET, limits);
    assert_ne!(answer(&mut shard, &[version()]), answer(&mut shard, &[version()]));
}

/// O9: it is told what would have been answered, so that has to be true.
#[test]
fn what_is_demanded_fails_when_nobody_else_holds_the_record() {
    let mut shard = shard();
    let len = Operation::new::<Set>(SetOp::Len);
    prepare(&mut shard, 1, vec![Operation::new::<Set>(SetOp::Add(few(["a".into()])))], false, Members::All);
    let demanded = len.demanding(&Reply::from(7_i64));
    assert!(matches!(commit(&mut shard, 2, vec![demanded])[..], [Response::Queued { .. }]));
    shard.handle(NOW, LINK, Request::Apply { attempt: attempt(1) });
    let told = said(&mut shard);
    let found = told.iter().find_map(|it| match it {
        Response::Refused { refusal: Refusal::Operation { error, .. }, .. } => match &**error {
            OpError::Unexpected { found, .. } => Some((**found).clone()),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(found, Some(Reply::from(1_i64)), "{told:?}");
}

/// T sees x and writes y, U sees y and writes x. Each check is true when it votes; let go then, both would commit, and neither saw what
/// the other wrote.
#[test]
fn trap_35_checks_are_held_until_the_decision() {
    let mut shard = shard();
    let seen = get().seen(Ok(&Reply::Nil), Unique(0));
    let voted = prepare(&mut shard, 1, vec![seen], false, Members::All);
    assert!(matches!(voted[..], [Response::Voted { .. }]), "{voted:?}");
    let other = prepare(&mut shard, 2, vec![set("a")], false, Members::All);
    assert!(matches!(other[..], [Response::Queued { .. }]), "{other:?}");
    shard.handle(NOW, LINK, Request::Apply { attempt: attempt(1) });
    assert!(said(&mut shard).iter().any(|it| matches!(it, Response::Voted { .. })));
}

/// Two counters have one sum, always. The one is seen before something moves and the other behind it, so that the books do not balance.
/// Nobody is told so: what was seen is checked, and has changed.
#[test]
fn trap_37_an_abort_on_what_never_was() {
    let mut shard = shard();
    let (x, y) = (Bytes::from("x"), Bytes::from("y"));
    let read = || Operation::new::<Counter>(CounterOp::Get);
    let mut observations = Observations::new(false);
    for (key, other) in [(&x, Some(-10)), (&y, None)] {
        let (no, ops) = observations.look(key.clone(), read());
        shard.begin(NOW);
        let seen = shard.look(key, &ops, false);
        assert!(matches!(observations.saw(no, seen), Saw::Answer(_)));
        if let Some(by) = other {
            let moved = Operation::new::<Counter>(CounterOp::Add(by));
            let hash = claret_core::key_hash(&x);
            shard.instant(hash, &x, &moved).expect("it can be done");
            shard.finish_instant();
        }
    }
    assert!(observations.has_seen());
    let checked = observations.to_check();
    assert_eq!(checked.len(), 2);
    let results: Vec<_> =
        checked.into_iter().map(|(key, op)| shard.instant(claret_core::key_hash(key), key, op)).collect();
    shard.undo_instant();
    assert_eq!(results, [Err(OpError::Changed), Ok(Some(Reply::Ok))]);
}

/// What changes each time is locked, and it alone: the rest is still only looked at.
#[test]
fn trap_39_a_long_look_starves_and_a_long_lock_blocks() {
    let (busy, calm) = (Bytes::from("busy"), Bytes::from("calm"));
    for optimistic_only in [false, true] {
        let mut observations = Observations::new(optimistic_only);
        for failures in 0..4 {
            observations.begin_again();
            let is_looked_at = optimistic_only || failures < 3;
            assert_eq!(observations.looks_at(&busy, &get()), is_looked_at, "after {failures} failures");
            assert!(observations.looks_at(&calm, &get()));
            observations.note_changed(&busy);
        }
    }
}

/// O5: an error that was seen is an answer, and tells of all of the record.
#[test]
fn trap_40_an_error_is_an_answer() {
    let mut shard = shard();
    commit(&mut shard, 1, vec![set("a")]);
    let add = Operation::new::<Counter>(CounterOp::AddReturning(1));
    let Seen::Fails { error, unique, .. } = look(&mut shard, std::slice::from_ref(&add), false) else {
        panic!()
    };
    let seen = add.seen(Err(&error), Unique(unique));
    let voted = prepare(&mut shard, 2, vec![seen.clone()], false, Members::Only(smallvec![]));
    assert!(matches!(voted[..], [Response::Voted { .. }]), "{voted:?}");
    assert!(
        matches!(commit(&mut shard, 3, vec![get()])[..], [Response::Queued { .. }]),
        "it holds the record alone"
    );
    shard.handle(NOW, LINK, Request::Apply { attempt: attempt(2) });
    said(&mut shard);
    commit(&mut shard, 4, vec![set("5")]);
    assert!(is_refused_for_change(&commit(&mut shard, 5, vec![seen])));
    assert_eq!(answer(&mut shard, &[get()]), Reply::from("5"));
}

/// O5: it is executed, and holds what it claims, and does nothing.
#[test]
fn what_is_only_checked_does_nothing() {
    let mut shard = shard();
    let seen = get().seen(Ok(&Reply::Nil), Unique(0));
    let done = prepare(&mut shard, 1, vec![seen, set("a")], true, Members::Only(smallvec![]));
    assert!(is_committed(&done), "{done:?}");
    assert_eq!(answer(&mut shard, &[get()]), Reply::Nil);
}

/// O7.
#[test]
fn trap_36_a_draw_repeated() {
    let mut shard = shard();
    let next = Operation::new::<UidGenerator>(UidOp::Next);
    let Seen::Answer { reply, unique } = look(&mut shard, std::slice::from_ref(&next), false) else {
        panic!()
    };
    let other = answer(&mut shard, std::slice::from_ref(&next));
    assert_ne!(reply, other, "each is drawn once");
    assert!(is_committed(&commit(&mut shard, 1, vec![next.seen(Ok(&reply), Unique(unique))])));
}

/// O1: whoever asks for much is asked to come later.
#[test]
fn looks_have_a_budget() {
    let bounded = |limits| Shard::new(SHARD, Incarnation(1), Switches::CLARET, limits);
    let mut shard = bounded(Limits { at_once_max: 10, ..Limits::default() });
    shard.begin(NOW);
    let key = Bytes::from("k");
    let looks: Vec<Seen> = (0..12).map(|_| shard.look(&key, &[get()], false)).collect();
    assert_eq!(looks.iter().filter(|seen| **seen != Seen::Later).count(), 10);
    let mut shard = bounded(Limits { again_bytes_max: 300, ..Limits::default() });
    commit(&mut shard, 1, vec![set(&"x".repeat(200))]);
    shard.begin(NOW);
    let looks: Vec<Seen> = (0..5).map(|_| shard.look(&key, &[get()], false)).collect();
    assert_eq!(looks.iter().filter(|seen| **seen != Seen::Later).count(), 2);
}

/// O2: it is asked again until there is an answer, over whatever connection; and only whom it asked is believed.
#[test]
fn a_process_asks_again() {
    let limits = Limits::default();
    let mut client = Client::new(LINK.session, Switches::CLARET, limits, 4, Pacing::default());
    client.adopt(NOW, vec![SlotRange { first: 0, last: 3, node: "n".into() }]);
    client.connected(NOW, 1, &"n".into(), (SHARD, Incarnation(1)), 9_000_000);
    client.settle(NOW);
    let taken = |client: &mut Client, connection: u32, now: Time| {
        let mut requests = Vec::new();
        client.take(SHARD, connection, &mut requests);
        client.deliver(now, (SHARD, connection), 1, std::iter::empty());
        let looks = requests.into_iter().filter_map(|request| match request {
            Request::Look { look, at_once, .. } => Some((look, at_once)),
            _ => None,
        });
        looks.collect::<Vec<_>>()
    };
    taken(&mut client, 1, NOW);
    let look = client.look(NOW, (2, "k".into()), smallvec![get()]);
    client.settle(NOW);
    assert_eq!(taken(&mut client, 1, NOW), [(look, false)]);
    // Lost with its connection.
    client.disconnected(SHARD, 1);
    let mut now = Time(100_000);
    client.connected(now, 2, &"n".into(), (SHARD, Incarnation(1)), 9_000_000);
    client.handle_timeout(now);
    client.settle(now);
    assert_eq!(taken(&mut client, 2, now), [(look, false)]);
    let seen = Seen::Answer { reply: Reply::Nil, unique: 1 };
    client.handle_response(now, ShardId(9), Response::Looked { look, seen: seen.clone() });
    assert_eq!(client.poll_looked(), None, "nobody asked this one");
    let mut asked = Vec::new();
    for _ in 0..9 {
        client.handle_response(now, SHARD, Response::Looked { look, seen: Seen::Later });
        now = client.poll_timeout().expect("it asks again").max(now.plus(20_000));
        client.handle_timeout(now);
        client.settle(now);
        asked.extend(taken(&mut client, 2, now));
    }
    assert_eq!(asked.last(), Some(&(look, true)), "it waits no more: {asked:?}");
    client.handle_response(now, SHARD, Response::Looked { look, seen: seen.clone() });
    client.handle_response(now, SHARD, Response::Looked { look, seen: seen.clone() });
    assert_eq!((client.poll_looked(), client.poll_looked()), (Some((look, seen)), None));
    client.check_invariants();
}

/// Bug: it was asked again for ever. Consequence: a slot that was to leave waited for what the asking transaction had locked, and the look
/// for the slot.
#[test]
fn a_look_that_is_refused_again_and_again_hears_so() {
    let mut client = Client::new(LINK.session, Switches::CLARET, Limits::default(), 4, Pacing::default());
    client.adopt(NOW, vec![SlotRange { first: 0, last: 3, node: "n".into() }]);
    client.connected(NOW, 1, &"n".into(), (SHARD, Incarnation(1)), 9_000_000);
    let look = client.look(NOW, (2, "k".into()), smallvec![get()]);
    let elsewhere = || Seen::Refused(Refusal::Elsewhere { key: "k".into() });
    let mut times = 0;
    let told = loop {
        times += 1;
        client.handle_response(NOW, SHARD, Response::Looked { look, seen: elsewhere() });
        match client.poll_looked() {
            Some(told) => break told,
            None => assert!(times < 20, "it is asked for ever"),
        }
    };
    assert_eq!((told, times), ((look, elsewhere()), 9));
    assert!(client.take_doubt(), "somebody else may serve the slot");
}

/// Bug: a record that the attempt had locked was looked at without what it had done there. Consequence: what it saw was never so, and a
/// slot that waited for the lock held up the look that it waited for.
#[test]
fn what_is_locked_is_not_looked_at() {
    let mut observations = Observations::new(false);
    let key = Bytes::from("k");
    assert!(observations.looks_at(&key, &get()));
    observations.add(key.clone(), set("a"));
    let (no, _) = observations.look(key.clone(), get());
    assert_eq!(observations.take_of(&key), [set("a"), get()]);
    assert!(!observations.looks_at(&key, &get()));
    let late = Seen::Answer { reply: Reply::from("a"), unique: 1 };
    assert_eq!(observations.saw(no, late), Saw::Changed { key: key.clone() }, "nobody would check it");
    observations.begin_again();
    assert!(!observations.looks_at(&key, &get()), "it would be outrun each time");
    assert!(observations.looks_at(&Bytes::from("other"), &get()));
}

/// O5. Bug: two looks at a record were on their way, the first was answered, and the second came back with word that the first one
/// cannot be done. That took the place of the answer. Consequence: nobody checked what its user had heard, and the error was believed.
#[test]
fn what_was_answered_and_cannot_be_done_any_more_has_changed() {
    let key = Bytes::from("k");
    let add = Operation::new::<Counter>(CounterOp::AddReturning(1));
    let mut observations = Observations::new(false);
    let (first, _) = observations.look(key.clone(), add.clone());
    let (second, ops) = observations.look(key.clone(), add.clone());
    assert_eq!(ops[..], [add.clone(), add], "the first is not answered yet");
    observations.saw(first, Seen::Answer { reply: Reply::Int(1), unique: 1 });
    let fails = Seen::Fails { at: 0, error: Box::new(OpError::EmptyKey), unique: 1 };
    assert_eq!(observations.saw(second, fails), Saw::Changed { key });
}

/// O5. Bug: the second of two looks came back first, with word that the first one cannot be done. Nobody heard any more of that one's
/// own look. Consequence: its user waited for it until the deadline.
#[test]
fn what_a_later_look_says_of_an_earlier_one_is_no_answer_to_that() {
    let key = Bytes::from("k");
    let add = Operation::new::<Counter>(CounterOp::AddReturning(1));
    let fails = Seen::Fails { at: 0, error: Box::new(OpError::EmptyKey), unique: 1 };
    let failed = Saw::Fails { key: key.clone(), error: OpError::EmptyKey, at: Place(0) };
    let changed = Saw::Changed { key: key.clone() };
    let answer = Seen::Answer { reply: Reply::Int(1), unique: 1 };
    for (own, expected) in [(fails.clone(), failed.clone()), (answer, changed)] {
        let mut observations = Observations::new(false);
        let [first, second] = [0, 1].map(|_| observations.look(key.clone(), add.clone()).0);
        assert_eq!(observations.saw(second, fails.clone()), failed);
        assert_eq!(observations.saw(first, own), expected);
        assert_eq!(observations.saw(second, fails.clone()), Saw::Nothing, "it is answered");
    }
}

/// Bug: what was seen of a record was forgotten when that was locked. Consequence: an error that came of it was believed unchecked.
#[test]
fn what_was_seen_counts_though_it_is_locked_since() {
    let mut observations = Observations::new(false);
    let key = Bytes::from("k");
    let (no, _) = observations.look(key.clone(), get());
    observations.saw(no, Seen::Answer { reply: Reply::Nil, unique: 1 });
    observations.take_of(&key);
    assert!(observations.has_seen());
    observations.begin_again();
    assert!(!observations.has_seen());
    observations.lock_all();
    assert!(!observations.looks_at(&Bytes::from("other"), &get()));
}

/// Its user has left, and nobody asks again for it; what comes late is for nobody.
#[test]
fn who_leaves_takes_its_looks_along() {
    let mut client = Client::new(LINK.session, Switches::CLARET, Limits::default(), 4, Pacing::default());
    let look = client.look(NOW, (2, "k".into()), smallvec![get()]);
    assert!(client.poll_timeout().is_some(), "it is asked again");
    client.leave_look(look);
    assert_eq!(client.poll_timeout(), None);
    client.handle_response(NOW, client.shard_of(2), Response::Looked { look, seen: Seen::Later });
    assert_eq!((client.poll_looked(), client.poll_timeout()), (None, None));
    client.check_invariants();
}

/// O7, O1: what the clock goes into, and what more than a look's operations go before.
#[test]
fn what_a_look_cannot_show_is_locked() {
    let mut observations = Observations::new(true);
    let key = Bytes::from("k");
    let left = Operation::from(claret_types::KeyspaceOp::TimeLeft { in_seconds: false, now: None });
    assert!(!observations.looks_at(&key, &left));
    (0..claret_core::wire::LOOK_OPS_MAX - 1).for_each(|_| observations.add(key.clone(), set("a")));
    assert!(observations.looks_at(&key, &get()));
    observations.add(key.clone(), set("a"));
    assert!(!observations.looks_at(&key, &get()));
}

/// Bug: a look whose frame a server does not take had no answer, and was sent again until the deadline.
#[test]
fn a_look_that_is_refused_alone_has_its_answer() {
    let mut pipeline = claret_core::Pipeline::new(SHARD, Incarnation(5));
    let look = Request::Look { look: LookNo(4), key: "k".into(), ops: smallvec![get()], at_once: false };
    pipeline.write(vec![look], claret_core::wire::append_request, |_, _| ());
    let answered = pipeline.refused("ERR too large").expect("a frame is owed");
    let Some(Response::Looked { look: LookNo(4), seen: Seen::Refused(refusal) }) = answered else {
        panic!("{answered:?}")
    };
    assert!(refusal.to_string().contains("too large") && !refusal.is_retryable(), "{refusal}");
}

/// Reads that come before change nothing: where their answers are large, they are left out.
#[test]
fn large_answers_before_the_last_are_bounded() {
    let limits = Limits { again_bytes_max: 3_000, ..Limits::default() };
    let mut shard = Shard::new(SHARD, Incarnation(1), Switches::CLARET, limits);
    commit(&mut shard, 1, vec![set(&"x".repeat(1_000))]);
    shard.begin(NOW);
    let before = shard.stats().looks;
    let ops: Vec<Operation> = (0..200).map(|_| get()).chain([set("b"), get()]).collect();
    assert!(
        matches!(shard.look(&"k".into(), &ops, false), Seen::Answer { reply, .. } if reply == Reply::from("b"))
    );
    assert!(shard.stats().looks - before <= 5);
}

// --- planted bugs that cost progress alone, which retries hide from the simulator ---

#[cfg(feature = "planted-bugs")]
#[test]
fn who_looks_past_a_vote_is_noticed() {
    use claret_core::{Bug, with_bug};
    let mut shard = shard();
    prepare(&mut shard, 1, vec![set("new")], false, Members::All);
    let seen = with_bug(Some(Bug::LooksPastVotes), || look(&mut shard, &[get()], false));
    assert!(matches!(seen, Seen::Answer { .. }), "{seen:?}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn who_draws_anew_is_noticed() {
    use claret_core::{Bug, with_bug};
    let mut shard = shard();
    let (key, next) = (Bytes::from("k"), Operation::new::<UidGenerator>(UidOp::Next));
    let mut checked = |bug| {
        let mut observations = Observations::new(false);
        let (no, ops) = observations.look(key.clone(), next.clone());
        let seen = look(&mut shard, &ops, false);
        with_bug(bug, || observations.saw(no, seen));
        let ops = observations.to_commit().map(|(_, op)| op.clone()).collect();
        commit(&mut shard, if bug.is_some() { 2 } else { 1 }, ops)
    };
    assert!(is_committed(&checked(None)));
    assert!(is_refused_for_change(&checked(Some(Bug::DrawnAnew))));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn who_looks_beside_a_lock_is_noticed() {
    use claret_core::{Bug, with_bug};
    let mut observations = Observations::new(false);
    let key = Bytes::from("k");
    observations.take_of(&key);
    assert!(with_bug(Some(Bug::LooksBesideLock), || observations.looks_at(&key, &get())));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn who_is_optimistic_only_is_noticed() {
    use claret_core::{Bug, with_bug};
    let mut observations = Observations::new(false);
    let busy = Bytes::from("busy");
    (0..10).for_each(|_| observations.note_changed(&busy));
    assert!(with_bug(Some(Bug::NeverLocks), || observations.looks_at(&busy, &get())));
    assert!(!observations.looks_at(&busy, &get()));
}
