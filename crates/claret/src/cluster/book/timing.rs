//! The book by hand: what is sent again and when, and which transactions are over.

use claret_core::Delivery;
use claret_types::{Counter, CounterOp, Reply};

use super::*;
use crate::host::Mode;

const SHARD: ShardId = ShardId(0);

#[derive(Default)]
struct Heard {
    sent: Vec<Request>,
    told: Vec<Event>,
}

impl Outlet for Heard {
    fn send(&mut self, _: ShardId, request: Request) {
        self.sent.push(request);
    }

    fn tell(&mut self, _: TxHandle, event: Event) {
        self.told.push(event);
    }
}

fn book(mode: Mode) -> Book {
    Book::new(SessionId(7), mode.switches(Delivery::Network), Limits::default())
}

/// What it sends and tells by now.
fn heard(book: &mut Book) -> Heard {
    let mut heard = Heard::default();
    book.drain(&mut heard);
    heard
}

/// A transaction that asks for an answer.
fn asking(book: &mut Book, now: u64, key: &str) -> AttemptId {
    let tx = book.begin(Time(now));
    let op = Operation::new::<Counter>(CounterOp::AddReturning(1));
    book.execute(Time(now), (tx, 1), (SHARD, key.into()), op, None).expect("it runs");
    match &heard(book).sent[..] {
        [Request::Execute { attempt, .. }] => *attempt,
        other => panic!("{other:?}"),
    }
}

/// One that has all its votes, and whose end no shard has confirmed.
fn committed(book: &mut Book, now: u64) -> AttemptId {
    let tx = book.begin(Time(now));
    let op = Operation::new::<Counter>(CounterOp::Add(1));
    book.buffer(Time(now), (tx, 1), std::iter::once((SHARD, "k".into(), op))).expect("it runs");
    book.commit(Time(now), (tx, 1)).expect("it runs");
    let sent = heard(book).sent;
    let [Request::Prepare { attempt, .. }] = sent[..] else { panic!("{sent:?}") };
    let voted = Response::Voted { attempt, shard: SHARD, replies: Vec::new() };
    book.handle_response(Time(now), SHARD, voted);
    let heard = heard(book);
    assert!(matches!(heard.told[..], [Event::Committed { .. }]), "{:?}", heard.told);
    attempt
}

fn apply(book: &mut Book, now: u64, attempt: AttemptId) {
    book.handle_response(Time(now), SHARD, Response::Applied { attempt, shard: SHARD });
    heard(book);
}

/// Those that were asked again.
fn asked_again(book: &mut Book, now: u64) -> Vec<AttemptId> {
    book.handle_timeout(Time(now));
    let executes = heard(book).sent.into_iter().filter_map(|request| match request {
        Request::Execute { attempt, .. } => Some(attempt),
        _ => None,
    });
    let mut all: Vec<AttemptId> = executes.collect();
    all.sort_unstable_by_key(|attempt| attempt.tx.sequence);
    all
}

#[test]
fn of_alarms_at_one_instant_none_is_lost() {
    let mut alarms = Alarms::default();
    let given = [(10, 3), (10, 1), (10, 2), (5, 9), (10, 9), (20, 1), (10, 4), (20, 1)];
    given.iter().for_each(|(due, tx)| alarms.push(Time(*due), *tx));
    assert_eq!(alarms.pop(Time(4)), None);
    let mut taken = Vec::new();
    while let Some((due, tx)) = alarms.pop(Time(10)) {
        taken.push((due.0, tx));
    }
    assert_eq!(taken, [(5, 9), (10, 1), (10, 2), (10, 3), (10, 4), (10, 9)]);
    assert_eq!(alarms.peek(), Some((Time(20), 1)));
}

#[test]
fn all_that_is_due_at_one_instant_is_asked_again() {
    for mode in [Mode::BoostPhase, Mode::BoostPhaseCombine] {
        let mut book = book(mode);
        let waiting: Vec<AttemptId> = (0..5).map(|at| asking(&mut book, 100, &format!("k{at}"))).collect();
        let due = book.poll_timeout().expect("they wait for answers");
        assert_eq!(asked_again(&mut book, due.0), waiting, "{mode:?}");
    }
}

/// The room of a transaction that is over is used again; its time is not.
#[test]
fn a_transaction_in_the_room_of_another_has_a_timer_of_its_own() {
    let mut book = book(Mode::BoostPhase);
    let first = asking(&mut book, 1, "k");
    let granted = Response::Granted {
        attempt: first,
        no: CallNo(0),
        reply: Reply::Int(1),
        granted: 1,
        incarnation: Incarnation(5),
    };
    book.handle_response(Time(2), SHARD, granted);
    book.commit(Time(3), (TxHandle(first.tx.sequence.0), 1)).expect("it runs");
    book.handle_response(
        Time(4),
        SHARD,
        Response::Voted { attempt: first, shard: SHARD, replies: Vec::new() },
    );
    heard(&mut book);
    apply(&mut book, 5, first);
    assert!(book.is_over());
    let second = asking(&mut book, 10, "k");
    let due = 10 + Limits::default().resend_us;
    assert!(book.poll_timeout().is_some_and(|at| at <= Time(due)));
    assert_eq!(asked_again(&mut book, due), [second]);
}

/// Shards forget what is below the floor: nothing is that some shard has still to apply.
#[test]
fn the_floor_stays_below_what_is_not_applied_everywhere() {
    for mode in [Mode::BoostPhase, Mode::BoostPhaseCombine] {
        let mut book = book(mode);
        let first = committed(&mut book, 1);
        let second = committed(&mut book, 2);
        assert_eq!(book.floor(), first.tx.sequence, "{mode:?}");
        assert!(!book.is_over());
        apply(&mut book, 3, second);
        assert_eq!(book.floor(), first.tx.sequence, "{mode:?}");
        apply(&mut book, 4, first);
        assert_eq!(book.floor(), Sequence(second.tx.sequence.0 + 1), "{mode:?}");
        assert!(book.is_over());
    }
}

/// Answers to calls that were never made are not taken for answers.
#[test]
fn votes_that_answer_what_was_not_asked_harm_nobody() {
    for mode in [Mode::BoostPhase, Mode::BoostPhaseCombine] {
        let mut book = book(mode);
        let tx = book.begin(Time(1));
        let op = Operation::new::<Counter>(CounterOp::AddReturning(1));
        book.buffer(Time(1), (tx, 1), std::iter::once((SHARD, "k".into(), op))).expect("it runs");
        book.commit(Time(1), (tx, 1)).expect("it runs");
        let sent = heard(&mut book).sent;
        let [Request::Prepare { attempt, .. }] = sent[..] else { panic!("{sent:?}") };
        let replies = [7, 0, u32::MAX].map(|no| (CallNo(no), Reply::Int(1))).into();
        book.handle_response(Time(2), SHARD, Response::Voted { attempt, shard: SHARD, replies });
        let told = heard(&mut book).told;
        let expected = vec![(CallNo(0), Reply::Int(1))];
        assert!(matches!(&told[..], [Event::Committed { replies }] if *replies == expected), "{told:?}");
    }
}
