//! What is undone, call by call, at a shard and at a coordinator (`docs/nesting.md`): traps 41, 42 and 43.

use std::sync::Arc;

use claret_core::message::{
    Asks, Call, KeyedCall, Link, Listed, Members, Output, Refusal, Request, Response, Seen, Undone,
};
use claret_core::{
    AttemptId, Birth, CallNo, Coordinator, Discipline, Event, Incarnation, Limits, Member, Observations, Saw,
    Sequence, SessionId, Shard, ShardId, Switches, Time, TxId,
};
#[cfg(feature = "planted-bugs")]
use claret_core::{Bug, with_bug};
use claret_types::{
    Bounded, BoundedCounter, BoundedCounterOp, Counter, CounterOp, OpError, Operation, Reply, Unique,
};

const SHARD: ShardId = ShardId(0);
const NOW: Time = Time(1);

fn get() -> Operation {
    Operation::new::<Counter>(CounterOp::Get)
}

fn add(amount: i64) -> Operation {
    Operation::new::<Counter>(CounterOp::Add(amount))
}

fn add_returning(amount: i64) -> Operation {
    Operation::new::<Counter>(CounterOp::AddReturning(amount))
}

fn undone(ranges: &[(u32, u32)]) -> Vec<Undone> {
    ranges.iter().map(|(from, to)| Undone { from: CallNo(*from), to: CallNo(*to) }).collect()
}

/// One shard, and messages to it from clients that are made up.
const IN_PROCESS: Switches = Switches::in_process(Discipline::AbstractPhased);

struct Rig {
    shard: Shard,
}

impl Rig {
    fn new() -> Self {
        Rig::of(Switches::CLARET)
    }

    fn of(switches: Switches) -> Self {
        Rig { shard: Shard::new(SHARD, Incarnation(1), switches, Limits::default()) }
    }

    fn handle(&mut self, session: u64, request: Request) -> Vec<Response> {
        self.shard.handle(NOW, Link { session: SessionId(session), connection: 0 }, request);
        let outputs = std::iter::from_fn(|| self.shard.poll_output());
        let responses = outputs.filter_map(|output| match output {
            Output::Respond { response, .. } => Some(response),
            Output::Tell { .. } => None,
        });
        let responses = responses.collect();
        self.shard.check_invariants();
        responses
    }

    fn execute(
        &mut self,
        session: u64,
        key: &str,
        calls: &[(u32, Operation)],
        undone: Vec<Undone>,
    ) -> Vec<Response> {
        let (attempt, birth) = names(session);
        let calls = calls.iter().map(|(no, op)| call(*no, op.clone())).collect();
        let request = Request::Execute {
            attempt,
            birth,
            incarnation: None,
            key: key.into(),
            calls,
            undone: undone.into(),
        };
        self.handle(session, request)
    }

    fn commit(
        &mut self,
        session: u64,
        relies_on: u32,
        calls: &[(&str, u32, Operation)],
        undone: Vec<Undone>,
    ) -> Vec<Response> {
        let (attempt, birth) = names(session);
        let calls =
            calls.iter().map(|(key, no, op)| KeyedCall { key: (*key).into(), call: call(*no, op.clone()) });
        let request = Request::Prepare {
            attempt,
            birth,
            participants: Arc::new([Listed { shard: SHARD, incarnation: Some(Incarnation(1)) }]),
            relies_on,
            calls: calls.collect(),
            members: Members::All,
            asks: Asks::Vote,
            undone: undone.into(),
        };
        self.handle(session, request)
    }

    fn count(&self, key: &str) -> i64 {
        let executed = get().execute(self.shard.state(key.as_bytes()), Unique(0)).expect("a counter");
        let Reply::Int(count) = executed.reply else { panic!("no number: {executed:?}") };
        count
    }
}

fn names(session: u64) -> (AttemptId, Birth) {
    let tx = TxId { session: SessionId(session), sequence: Sequence(1) };
    (AttemptId { tx, attempt: 1 }, Birth { time: Time(session), tx })
}

fn call(no: u32, op: Operation) -> Call {
    Call { no: CallNo(no), op, member: Member(0), reserve: None }
}

#[track_caller]
fn answer(responses: &[Response]) -> Reply {
    match responses {
        [Response::Granted { reply, .. }] => reply.clone(),
        other => panic!("no answer: {other:?}"),
    }
}

fn is_committed(responses: &[Response]) -> bool {
    responses.iter().any(|response| matches!(response, Response::Committed { .. }))
}

/// Trap 41. What was answered stays claimed, though it is undone: who wants to change it waits.
#[test]
fn trap_41_what_was_seen_and_undone_stays_locked() {
    let run = || {
        let mut rig = Rig::new();
        assert_eq!(answer(&rig.execute(1, "x", &[(0, get())], Vec::new())), Reply::Int(0));
        assert_eq!(answer(&rig.execute(1, "y", &[(1, get())], undone(&[(0, 1)]))), Reply::Int(0));
        let other = rig.commit(2, 0, &[("x", 0, add(1))], Vec::new());
        let waits = matches!(other[0], Response::Queued { .. });
        let own = rig.commit(1, 1, &[], undone(&[(0, 1)]));
        assert!(is_committed(&own), "{own:?}");
        assert_eq!(rig.count("x"), 1, "then it gets in");
        waits
    };
    assert!(run());
    #[cfg(feature = "planted-bugs")]
    assert!(!with_bug(Some(Bug::UndoneReadsDropped), run));
}

/// What is undone is not seen by what is done later, and not carried out; what was done before is.
#[test]
fn what_is_undone_is_not_carried_out() {
    let run = || {
        let mut rig = Rig::new();
        assert_eq!(answer(&rig.execute(1, "x", &[(0, add_returning(1))], Vec::new())), Reply::Int(1));
        assert_eq!(answer(&rig.execute(1, "x", &[(1, add_returning(10))], Vec::new())), Reply::Int(11));
        assert_eq!(answer(&rig.execute(1, "y", &[(2, add_returning(10))], Vec::new())), Reply::Int(10));
        let seen = answer(&rig.execute(1, "x", &[(3, add_returning(100))], undone(&[(1, 3)])));
        assert!(is_committed(&rig.commit(1, 2, &[], undone(&[(1, 3)]))) || rig.count("x") == 0);
        (seen, rig.count("x"), rig.count("y"))
    };
    assert_eq!(run(), (Reply::Int(101), 101, 0));
    #[cfg(feature = "planted-bugs")]
    assert_ne!(with_bug(Some(Bug::UndoneApplied), run), (Reply::Int(101), 101, 0));
}

/// Trap 42. A call comes after it was undone: it is not executed, and counts on neither side.
#[test]
fn trap_42_what_comes_late_and_undone_is_not_executed() {
    let run = || {
        let mut rig = Rig::new();
        assert_eq!(answer(&rig.execute(1, "x", &[(0, add_returning(1))], Vec::new())), Reply::Int(1));
        let seen = answer(&rig.execute(1, "y", &[(2, get())], undone(&[(1, 2)])));
        let late = rig.execute(1, "x", &[(1, add_returning(10))], Vec::new());
        let after = answer(&rig.execute(1, "x", &[(3, get())], undone(&[(1, 2)])));
        assert_eq!(seen, Reply::Int(0));
        assert!(is_committed(&rig.commit(1, 3, &[], undone(&[(1, 2)]))));
        assert_eq!(rig.count("x"), 1);
        (late.len(), after)
    };
    assert_eq!(run(), (0, Reply::Int(1)));
    #[cfg(feature = "planted-bugs")]
    assert_ne!(with_bug(Some(Bug::LateUndoneExecuted), run), (0, Reply::Int(1)));
}

/// Trap 42. One that was granted and not heard of is left out, one that waits leaves its queue, and what went along with it comes
/// again and is executed once.
#[test]
fn trap_42_what_is_undone_waits_no_longer() {
    for switches in [Switches::CLARET, IN_PROCESS] {
        let mut rig = Rig::of(switches);
        assert_eq!(answer(&rig.execute(9, "x", &[(0, get())], Vec::new())), Reply::Int(0));
        let waits = rig.execute(1, "x", &[(0, add(1)), (1, add_returning(10))], Vec::new());
        assert!(matches!(waits[0], Response::Queued { .. }), "{waits:?}");
        let other = answer(&rig.execute(1, "y", &[(2, add(5)), (3, add_returning(5))], undone(&[(1, 2)])));
        assert_eq!(other, Reply::Int(10));
        let waits = rig.commit(1, 0, &[("x", 0, add(1)), ("y", 2, add(5))], undone(&[(1, 2), (3, 4)]));
        assert!(matches!(waits[0], Response::Queued { .. }), "{waits:?}");
        let both = rig.commit(9, 1, &[], Vec::new());
        assert_eq!(both.iter().filter(|it| matches!(it, Response::Committed { .. })).count(), 2, "{both:?}");
        assert_eq!((rig.count("x"), rig.count("y")), (1, 5));
    }
}

/// Trap 43. That an operation cannot be done is an answer, for which its owner holds the record alone.
#[test]
fn trap_43_an_error_is_an_answer_and_keeps_its_footprint() {
    let mut rig = Rig::new();
    let bounded = |op| Operation::new::<BoundedCounter>(op);
    let create = bounded(BoundedCounterOp::Create(Bounded { value: 0, min: 0, max: 9 }));
    assert!(is_committed(&rig.commit(9, 0, &[("x", 0, create)], Vec::new())));
    let fails = answer(&rig.execute(1, "x", &[(0, bounded(BoundedCounterOp::Take(1)).tried())], Vec::new()));
    let Reply::Failed(error) = fails else { panic!("it can be done: {fails:?}") };
    assert!(matches!(*error, OpError::Insufficient { .. }), "{error}");
    let deposit = rig.commit(2, 0, &[("x", 0, bounded(BoundedCounterOp::Add(5)))], Vec::new());
    assert!(matches!(deposit[0], Response::Queued { .. }), "{deposit:?}");
    let both = rig.commit(1, 0, &[("y", 1, add(1))], undone(&[(0, 1)]));
    assert_eq!(both.iter().filter(|it| matches!(it, Response::Committed { .. })).count(), 2, "{both:?}");
}

/// Undone calls that come with a prepare are executed on what those of their own range did, each as it was made.
#[test]
fn what_is_only_checked_sees_its_own_range() {
    let seen = |op: Operation, reply: i64| op.seen(Ok(&Reply::Int(reply)), Unique(1));
    let mut rig = Rig::new();
    let calls = [
        ("x", 0, add(1)),
        ("x", 1, add(10)),
        ("x", 2, add(100)),
        ("x", 3, seen(get(), 111)),
        ("x", 4, seen(add_returning(1_000), 1_011)),
        ("x", 5, seen(get(), 1)),
        ("x", 6, add(10_000)),
    ];
    let committed = rig.commit(1, 0, &calls, undone(&[(2, 4), (1, 5)]));
    assert!(is_committed(&committed), "{committed:?}");
    assert_eq!(rig.count("x"), 10_001);
}

/// A coordinator and its shard, which hear all that the other one says.
fn exchange(coordinator: &mut Coordinator, rig: &mut Rig) -> Vec<Event> {
    while let Some((to, request)) = coordinator.poll_send() {
        for response in rig.handle(1, request) {
            coordinator.handle_response(NOW, to, response);
        }
    }
    std::iter::from_fn(|| coordinator.poll_event()).collect()
}

/// Trap 42. Both sides count alike, though answers were lost.
#[test]
fn trap_42_both_sides_count_what_is_not_undone() {
    let run = || {
        let (mut rig, switches) = (Rig::new(), Switches::CLARET);
        let mut coordinator = Coordinator::new(names(1).1, switches, Limits::default(), 7);
        let attempt = coordinator.attempt();
        let execute = |coordinator: &mut Coordinator, key: &str, op| {
            coordinator.execute(NOW, attempt, SHARD, key.into(), op, None).expect("it runs")
        };
        execute(&mut coordinator, "x", add_returning(1));
        exchange(&mut coordinator, &mut rig);
        coordinator.buffer(attempt, SHARD, "y".into(), add(1)).expect("it runs");
        let from = execute(&mut coordinator, "y", add_returning(10));
        // It is executed, and its answer is lost.
        while let Some((_, request)) = coordinator.poll_send() {
            rig.handle(1, request);
        }
        // This one never comes.
        execute(&mut coordinator, "z", add_returning(10));
        while coordinator.poll_send().is_some() {}
        coordinator.undo(NOW, attempt, from).expect("it runs");
        execute(&mut coordinator, "x", add_returning(1));
        exchange(&mut coordinator, &mut rig);
        coordinator.commit(NOW, attempt, &[]).expect("it runs");
        let events = exchange(&mut coordinator, &mut rig);
        (matches!(events[..], [Event::Committed { .. }]), rig.count("x"), rig.count("y"))
    };
    assert_eq!(run(), (true, 2, 1));
    #[cfg(feature = "planted-bugs")]
    assert_eq!(with_bug(Some(Bug::UndoneReliedOn), run), (false, 0, 0));
}

/// A shard has no part in a transaction any more, without a memory of that, as with direct delivery. What was answered and is undone
/// was claimed there, and that is lost, too.
#[test]
fn what_was_heard_and_undone_is_relied_on() {
    let (mut rig, switches) = (Rig::new(), Switches::CLARET);
    let mut coordinator = Coordinator::new(names(1).1, switches, Limits::default(), 7);
    let attempt = coordinator.attempt();
    let from = coordinator.execute(NOW, attempt, SHARD, "x".into(), get(), None).expect("it runs");
    let heard = exchange(&mut coordinator, &mut rig);
    assert!(matches!(heard[..], [Event::Answer { .. }]), "{heard:?}");
    coordinator.undo(NOW, attempt, from).expect("it runs");
    let mut other = Rig::new();
    coordinator.commit(NOW, attempt, &[]).expect("it runs");
    let events = exchange(&mut coordinator, &mut other);
    assert!(matches!(events[..], [Event::Restart { .. }]), "{events:?}");
}

/// Bug: a call that locks a record took a look at it along, and was undone before it was granted. What waits and is undone leaves
/// unexecuted, and the prepare relied on neither (N4). Consequence: an optimistic transaction committed on an answer that nobody had
/// checked (seed 134069 with `ordering=1,batching=true,framed=true,chains=1`). Mend: the prepare relies on what was looked at.
#[test]
fn what_was_looked_at_is_relied_on_though_its_lock_is_undone_before_it_is_granted() {
    let run = || {
        let (mut rig, switches) = (Rig::new(), Switches::CLARET);
        let mut coordinator = Coordinator::new(names(1).1, switches, Limits::default(), 7);
        let attempt = coordinator.attempt();
        rig.execute(9, "x", &[(0, add_returning(1))], Vec::new());
        let seen = get().seen(Ok(&Reply::Int(0)), Unique(1));
        let from = coordinator.buffer(attempt, SHARD, "x".into(), seen).expect("it runs");
        coordinator.execute(NOW, attempt, SHARD, "x".into(), add_returning(1), None).expect("it runs");
        assert_eq!(exchange(&mut coordinator, &mut rig), [], "another one has it");
        coordinator.undo(NOW, attempt, from).expect("it runs");
        coordinator.commit(NOW, attempt, &[]).expect("it runs");
        exchange(&mut coordinator, &mut rig)
    };
    assert!(matches!(run()[..], [Event::Restart { .. }]), "{:?}", run());
    #[cfg(feature = "planted-bugs")]
    assert!(matches!(with_bug(Some(Bug::SeenCountsAsUnheard), run)[..], [Event::Committed { .. }]));
}

/// A call went along with one that was undone, and is settled then: it was done, and its user hears so.
#[test]
fn what_was_done_with_an_undone_call_is_settled() {
    let mut rig = Rig::new();
    let both = answer(&rig.execute(1, "x", &[(0, add(1)), (1, add_returning(10))], Vec::new()));
    assert_eq!(both, Reply::Int(11));
    for _ in 0..2 {
        let settled = answer(&rig.execute(1, "x", &[(0, add(1).tried())], undone(&[(1, 2)])));
        assert_eq!(settled, Reply::Ok);
    }
    assert!(is_committed(&rig.commit(1, 1, &[], undone(&[(1, 2)]))));
    assert_eq!(rig.count("x"), 1, "it is done once");
}

/// With direct delivery a shard does not remember that it refused an attempt. Who undid the calls there and did not wait for their
/// answers has not heard of that.
#[test]
fn a_refusal_that_was_not_waited_for_is_not_forgotten() {
    let mut rig = Rig::of(IN_PROCESS);
    let is_lost = |responses: &[Response]| {
        responses
            .iter()
            .any(|response| matches!(response, Response::Refused { refusal: Refusal::LostLocks, .. }))
    };
    assert!(is_lost(&rig.commit(1, 0, &[("y", 2, add(1))], undone(&[(0, 1)]))));
    assert!(is_lost(&rig.execute(2, "y", &[(2, add_returning(1))], undone(&[(0, 1)]))));
    // What comes along to be checked was not there before.
    let seen = get().seen(Ok(&Reply::Int(0)), Unique(1));
    assert!(is_committed(&rig.commit(3, 0, &[("y", 0, seen), ("y", 1, add(1))], undone(&[(0, 1)]))));
    assert_eq!(rig.count("y"), 1);
}

/// What is settled has an older number than a call that waits.
#[test]
fn what_is_settled_behind_a_call_that_waits_is_answered() {
    let (mut rig, switches) = (Rig::new(), Switches::CLARET);
    assert_eq!(answer(&rig.execute(9, "x", &[(0, get())], Vec::new())), Reply::Int(0));
    let mut coordinator = Coordinator::new(names(1).1, switches, Limits::default(), 7);
    let attempt = coordinator.attempt();
    coordinator.buffer(attempt, SHARD, "y".into(), add(1)).expect("it runs");
    coordinator.execute(NOW, attempt, SHARD, "x".into(), add_returning(1), None).expect("it runs");
    assert_eq!(exchange(&mut coordinator, &mut rig), [], "it waits");
    let settled = coordinator.settle(NOW, attempt).expect("it runs");
    assert_eq!(settled, [(CallNo(0), "y".into())]);
    let events = exchange(&mut coordinator, &mut rig);
    assert!(matches!(events[..], [Event::Answer { no: CallNo(0), .. }]), "{events:?}");
    assert!(coordinator.waits().is_some(), "the other one waits on");
}

/// A range that has no call, and more ranges than may be, are refused; and what is refused is named.
#[test]
fn a_shard_is_told_of_ranges() {
    let (attempt, birth) = names(1);
    let calls = [call(0, get())].into_iter().collect();
    let undone = undone(&[(3, 3)]);
    let request =
        Request::Execute { attempt, birth, incarnation: None, key: "x".into(), calls, undone: undone.into() };
    let frame = claret_core::wire::encode_requests(&[request]);
    let error = claret_core::wire::decode_requests(&frame, &Limits::default()).expect_err("it has none");
    assert!(error.to_string().contains("a range of undone calls that has none"), "{error}");
}

/// What was looked at and is undone is checked, and what it did is not carried out.
#[test]
fn trap_41_what_was_looked_at_and_undone_is_checked() {
    let run = || {
        let mut rig = Rig::new();
        let mut seen = Observations::new(false);
        seen.add("x".into(), add(1));
        let from = seen.here();
        let (no, ops) = seen.look("x".into(), add_returning(10));
        assert_eq!(ops.len(), 2);
        let answer = Seen::Answer { reply: Reply::Int(11), unique: 1 };
        assert_eq!(seen.saw(no, answer), Saw::Answer(Reply::Int(11)));
        assert_eq!(seen.undo(from), []);
        assert_eq!(seen.known(&"x".into(), &get()), None);
        assert!(is_committed(&rig.commit(9, 0, &[("x", 0, add(5))], Vec::new())));
        let commit = |rig: &mut Rig, session: u64| {
            let calls: Vec<(&str, u32, Operation)> =
                seen.to_commit().zip(0..).map(|((_, op), no)| ("x", no, op.clone())).collect();
            let ranges: Vec<(u32, u32)> =
                seen.undone_in_commit().iter().map(|it| (it.start, it.end)).collect();
            rig.commit(session, 0, &calls, undone(&ranges))
        };
        let changed =
            matches!(commit(&mut rig, 1)[..], [Response::Refused { refusal: Refusal::Changed { .. }, .. }]);
        assert!(is_committed(&rig.commit(8, 0, &[("x", 0, add(-5))], Vec::new())));
        assert!(is_committed(&commit(&mut rig, 2)));
        (changed, rig.count("x"))
    };
    assert_eq!(run(), (true, 1));
    #[cfg(feature = "planted-bugs")]
    assert!(!with_bug(Some(Bug::SeenUndoneUnchecked), run).0);
    #[cfg(feature = "planted-bugs")]
    assert_eq!(with_bug(Some(Bug::CheckedUndoneApplied), run), (true, 11));
}

/// Bug: a shard took 65,536 ranges from a message, any number in all, and compared each with all it had. Consequence: what one caller
/// sends costs everybody the square of it. Mend: there are 256 at most. A coordinator names a range with those within it as one.
#[test]
fn what_is_undone_has_a_bound() {
    let mut rig = Rig::new();
    let ranges = |from: u32, count: u32| -> Vec<(u32, u32)> {
        (from..from + count).map(|at| (2 * at, 2 * at + 1)).collect()
    };
    rig.execute(1, "k", &[(1_000, get())], undone(&ranges(0, 200)));
    let again = rig.execute(1, "k", &[(1_001, get())], undone(&ranges(0, 200)));
    assert!(matches!(again[..], [Response::Granted { .. }]), "they are known: {again:?}");
    let refused = rig.execute(1, "k", &[(1_002, get())], undone(&ranges(200, 57)));
    let is_too_much =
        |it: &Response| matches!(it, Response::Refused { refusal: Refusal::TooMuch { limit: 256, .. }, .. });
    assert!(refused.iter().any(is_too_much), "{refused:?}");
    // One that takes the place of all leaves room.
    rig.execute(2, "k", &[(1_000, get())], undone(&ranges(0, 256)));
    let joined = rig.execute(2, "k", &[(1_001, get())], undone(&[(0, 900)]));
    assert!(matches!(joined[..], [Response::Granted { .. }]), "{joined:?}");
}
