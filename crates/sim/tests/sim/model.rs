//! The performance model: what it says follows from the costs by hand where that can be done, it says the same twice,
//! nothing gets lost in it, and it bears the largest size that is asked of it.

use std::cell::RefCell;
use std::rc::Rc;

use claret_core::key_hash;
use claret_core::ways::{ProcessWay, WaySwitches};
use claret_sim::model::{Call, Client, Costs, Measured, Mode, Model, Ordered, Pace, Setup, Stage};
use claret_types::{Bytes, Counter, CounterOp, Operation, Reply, Set, SetOp};

const MODES: [Mode; 6] = [
    Mode::None,
    Mode::ReaderWriter,
    Mode::ReaderWriterPhased,
    Mode::Commuting,
    Mode::CommutingPhased,
    Mode::Claret,
];

/// Those in which all transactions of a process go another way.
fn of_processes() -> impl Iterator<Item = Mode> {
    ProcessWay::ALL.iter().map(|way| Mode::InProcessWay(*way))
}

/// These, and those in which transactions commit in other ways.
fn modes() -> impl Iterator<Item = Mode> {
    let of_rounds = WaySwitches::all_named().map(|(_, ways)| Mode::InWay(ways));
    MODES.into_iter().chain(of_rounds).chain(of_processes())
}

/// As the mode has it, and everywhere.
const ORDERINGS: [Option<Ordered>; 2] = [None, Some(Ordered::Always)];

/// Round numbers, each of its own magnitude, so that a sum says which of them are in it; a round trip is shorter than
/// the time after which a coordinator sends again.
const COSTS: Costs = Costs {
    delay: 10_000_000,
    jitter: 0,
    frame: 1_000_000,
    push: 70_000_000,
    peer: 1,
    op: 100_000,
    lock: 10_000,
    message: 1_000,
    process_frame: 100,
    process_message: 10,
};

fn increment() -> Operation {
    Operation::new::<Counter>(CounterOp::Add(1))
}

fn get() -> Operation {
    Operation::new::<Counter>(CounterOp::Get)
}

/// What clients were told.
#[derive(Debug, Default)]
struct Told {
    committed: u64,
    replies: Vec<Reply>,
}

/// The same transaction again and again; the keys of `turns` one after the other.
struct Repeats {
    calls: Vec<Call>,
    turns: Vec<Bytes>,
    drawn: usize,
    told: Rc<RefCell<Told>>,
}

impl Client for Repeats {
    fn draw(&mut self) -> usize {
        self.drawn += 1;
        0
    }

    fn stage(&mut self, _: &[Reply], calls: &mut Vec<Call>) -> Stage {
        calls.extend(self.calls.iter().cloned());
        if !self.turns.is_empty() {
            calls.push(Call { key: self.turns[self.drawn % self.turns.len()].clone(), op: increment() });
        }
        Stage::Commit
    }

    fn restart(&mut self) {}

    fn committed(&mut self, replies: &[Reply]) {
        let mut told = self.told.borrow_mut();
        told.committed += 1;
        told.replies = replies.to_vec();
    }

    fn gave_up(&mut self) {}

    fn finish(self: Box<Self>) {}
}

fn value(reply: &Reply) -> u64 {
    match reply {
        Reply::Int(value) => *value as u64,
        other => panic!("{other}"),
    }
}

/// Keys on the given shards of as many.
fn key_on(shard: u64, shards: u64, number: usize) -> Bytes {
    let keys = (0..).map(|at| format!("k{at}"));
    let found = keys.filter(|key| key_hash(key.as_bytes()) % shards == shard).nth(number);
    Bytes::from(found.expect("there are keys without end"))
}

fn setup(mode: Mode) -> Setup {
    Setup { costs: COSTS, heartbeat_us: 1_000_000_000, over_worth: u64::MAX, ..Setup::new(mode) }
}

/// One client, some seconds; what was measured, and what it was told.
fn alone(setup: Setup, calls: Vec<Call>) -> (Measured, Rc<RefCell<Told>>) {
    let told = Rc::new(RefCell::new(Told::default()));
    let client = Repeats { calls, turns: Vec::new(), drawn: 0, told: Rc::clone(&told) };
    let setup = Setup { warm_up_us: 1_000_000, measured_us: 9_000_000, ..setup };
    let mut model = Model::new(setup, vec![Box::new(client)]);
    let measured = model.run().expect("it ends");
    assert_eq!(model.left_behind(), (0, 0));
    (measured, told)
}

/// All transactions took the same time; which.
fn only_latency(measured: &Measured) -> u64 {
    assert!(measured.committed > 10, "{measured:?}");
    assert_eq!(measured.latencies.permille(1), measured.latencies.longest());
    measured.latencies.longest()
}

/// One shard, one client, two operations: there, both done, and back.
#[test]
fn without_transactions_the_latency_is_the_sum() {
    let calls: Vec<Call> = (0..2).map(|at| Call { key: key_on(0, 1, at), op: increment() }).collect();
    let (measured, told) = alone(Setup { shards: 1, ..setup(Mode::None) }, calls);
    // Out: a frame with two operations. In: a frame with two answers. These are of one tick: the answers are read and
    // the next operations are sent.
    let process = 2 * COSTS.process_frame + 4 * COSTS.process_message;
    let shard = COSTS.frame + 2 * COSTS.op;
    assert_eq!(only_latency(&measured), process + 2 * COSTS.delay + shard);
    assert!(measured.frames.abs_diff(measured.committed) <= 1 && measured.operations == 2 * measured.frames);
    assert_eq!(told.borrow().replies.len(), 2);
}

/// With all keys on one server MULTI and EXEC are two more commands, and the answer of EXEC is the outcome, after one round trip.
/// An operation alone needs neither.
#[test]
fn on_one_server_the_latency_is_that_of_multi_and_exec() {
    let one = Setup { shards: 1, ..setup(Mode::OneServer) };
    let latency = |operations: usize, commands: u64| {
        let calls = (0..operations).map(|at| Call { key: key_on(0, 1, at), op: increment() }).collect();
        let (measured, told) = alone(one.clone(), calls);
        let messages = commands + operations as u64;
        let process = 2 * COSTS.process_frame + messages * COSTS.process_message;
        let shard = COSTS.frame + commands * COSTS.op;
        assert_eq!(only_latency(&measured), process + 2 * COSTS.delay + shard, "{operations}");
        assert_eq!(told.borrow().replies.len(), operations);
        assert_eq!((measured.lock_waits, measured.causes.sum()), (0, 0));
    };
    latency(2, 4);
    latency(1, 1);
    let (_, committed, counters) = crowd(Setup { shards: 1, ..small(Mode::OneServer) }, 24);
    assert_eq!(counters[2..].iter().map(value).sum::<u64>(), committed);
}

/// One shard: a prepare is the whole commit (P9).
#[test]
fn with_one_participant_a_commit_is_one_message() {
    let calls: Vec<Call> = (0..2).map(|at| Call { key: key_on(0, 1, at), op: increment() }).collect();
    let (measured, _) = alone(Setup { shards: 1, ..setup(Mode::CommutingPhased) }, calls);
    // In: one message, Committed without answers.
    let process = 2 * COSTS.process_frame + 3 * COSTS.process_message;
    let shard = COSTS.frame + 2 * (COSTS.op + COSTS.lock) + COSTS.message;
    assert_eq!(only_latency(&measured), process + 2 * COSTS.delay + shard);
}

/// Two shards, an operation each. The applies of one transaction leave with the prepares of the next one, and their
/// acknowledgements come with its votes.
#[test]
fn with_two_participants_the_applies_travel_with_the_next_prepares() {
    let calls: Vec<Call> = (0..2).map(|at| Call { key: key_on(at, 2, 0), op: increment() }).collect();
    for mode in
        [Mode::ReaderWriter, Mode::ReaderWriterPhased, Mode::Commuting].into_iter().chain(of_processes())
    {
        let (measured, _) = alone(Setup { shards: 2, ..setup(mode) }, calls.clone());
        // The shards work side by side, and both frames arrive at one instant. Out, for each shard: an apply, and a
        // prepare of one operation. In: an acknowledgement and a vote.
        let process = 4 * COSTS.process_frame + (2 * 2 + 2 * 2) * COSTS.process_message;
        let shard = COSTS.frame + COSTS.op + COSTS.lock + 2 * COSTS.message;
        assert_eq!(only_latency(&measured), process + 2 * COSTS.delay + shard, "{mode:?}");
        assert!(measured.frames.abs_diff(2 * measured.committed) <= 2);
    }
}

/// Each operation is awaited, and the application works in between; the last one's lock is given up at the commit.
#[test]
fn one_by_one_every_answer_costs_a_round_trip() {
    let calls: Vec<Call> = (0..3).map(|at| Call { key: key_on(0, 1, at), op: get() }).collect();
    let setup = |mode, think| Setup { shards: 1, pace: Pace::Interactive(think), ..setup(mode) };
    let trip = |shard: u64| 2 * COSTS.delay + 2 * (COSTS.process_frame + COSTS.process_message) + shard;
    let (plain, _) = alone(setup(Mode::None, 0), calls.clone());
    assert_eq!(only_latency(&plain), 3 * trip(COSTS.frame + COSTS.op));
    let (locked, _) = alone(setup(Mode::CommutingPhased, 0), calls.clone());
    let (executed, committed) = (COSTS.frame + COSTS.op + COSTS.lock, COSTS.frame + COSTS.message);
    assert_eq!(only_latency(&locked), 3 * trip(executed) + trip(committed));
    let (thinking, _) = alone(setup(Mode::CommutingPhased, 50_000), calls);
    // The application works from when the answer is looked at, while the process is still at it.
    let at_once = COSTS.process_frame + COSTS.process_message;
    assert_eq!(only_latency(&thinking), only_latency(&locked) + 2 * (50_000_000 - at_once));
}

/// A client whose transactions are long from some point on.
struct Tires {
    drawn: usize,
    short: usize,
    key: Bytes,
}

impl Client for Tires {
    fn draw(&mut self) -> usize {
        self.drawn += 1;
        0
    }

    fn stage(&mut self, _: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let count = if self.drawn <= self.short { 1 } else { 500 };
        calls.extend((0..count).map(|_| Call { key: self.key.clone(), op: increment() }));
        Stage::Commit
    }

    fn restart(&mut self) {}

    fn committed(&mut self, _: &[Reply]) {}

    fn gave_up(&mut self) {}

    fn finish(self: Box<Self>) {}
}

/// The total would say that it was rather slow all the time. A short transaction takes 21 ms, and a long one 71 ms.
#[test]
fn intervals_say_when_it_slowed_down() {
    let setup = Setup { shards: 1, warm_up_us: 1_000_000, measured_us: 10_000_000, ..setup(Mode::None) };
    let mut model = Model::new(setup, vec![Box::new(Tires { drawn: 0, short: 284, key: key_on(0, 1, 0) })]);
    let measured = model.run().expect("it ends");
    let (before, after) = (&measured.intervals[..4], &measured.intervals[6..]);
    assert!(before.iter().all(|commits| (47..=48).contains(commits)), "{measured:?}");
    assert!(after.iter().all(|commits| (14..=15).contains(commits)), "{measured:?}");
    assert_eq!(measured.intervals.iter().sum::<u64>(), measured.committed);
    assert!((46..=48).contains(&measured.warm_up), "{measured:?}");
}

/// What costs more takes longer, and slows it down.
#[test]
fn each_cost_counts() {
    let run = |costs: Costs| crowd(Setup { costs, ..small(Mode::CommutingPhased) }, 24).0.committed;
    let usual = Costs::default();
    let normal = run(usual);
    for (name, costs) in [
        ("delay", Costs { delay: 4 * usual.delay, ..usual }),
        ("frame", Costs { frame: 20 * usual.frame, ..usual }),
        ("push", Costs { push: 50 * usual.push, ..usual }),
        ("op", Costs { op: 20 * usual.op, ..usual }),
        ("lock", Costs { lock: 50 * usual.lock, ..usual }),
        ("message", Costs { message: 80 * usual.message, ..usual }),
        ("process_frame", Costs { process_frame: 20 * usual.process_frame, ..usual }),
        ("process_message", Costs { process_message: 80 * usual.process_message, ..usual }),
        ("jitter", Costs { jitter: 4 * usual.delay, ..usual }),
    ] {
        assert!(run(costs) < normal * 95 / 100, "{name}");
    }
}

fn small(mode: Mode) -> Setup {
    Setup { processes: 2, warm_up_us: 2_000, measured_us: 20_000, ..Setup::new(mode) }
}

/// Clients that read one hot counter, add to another one and to one in turn; what was measured, and what is left.
fn crowd(setup: Setup, clients: u64) -> (Measured, u64, Vec<Reply>) {
    let told = Rc::new(RefCell::new(Told::default()));
    let hot = [Bytes::from("hot1"), Bytes::from("hot2")];
    let turns: Vec<Bytes> = (0..40).map(|at| Bytes::from(format!("c{at}"))).collect();
    let crowd = (0..clients).map(|at| {
        let [read, add] = if at % 3 == 0 { [&hot[0], &hot[1]] } else { [&hot[1], &hot[0]] };
        let calls = vec![Call { key: read.clone(), op: get() }, Call { key: add.clone(), op: increment() }];
        let client = Repeats { calls, turns: turns.clone(), drawn: at as usize, told: Rc::clone(&told) };
        Box::new(client) as Box<dyn Client>
    });
    let mut model = Model::new(setup, crowd.collect());
    let measured = model.run().expect("it ends");
    assert_eq!(model.left_behind(), (0, 0));
    let keys = hot.iter().chain(&turns);
    let counters = keys.map(|key| model.call(&Call { key: key.clone(), op: get() })).collect();
    let committed = told.borrow().committed;
    (measured, committed, counters)
}

/// Each committed transaction has added 1 to a hot counter and 1 to another one, and nothing else has.
#[test]
fn nothing_is_lost_in_any_mode() {
    for (mode, ordering) in modes().flat_map(|mode| ORDERINGS.map(|ordering| (mode, ordering))) {
        for pace in [Pace::Together, Pace::Pause(100), Pace::Interactive(0), Pace::Interactive(100)] {
            let (measured, committed, counters) = crowd(Setup { pace, ordering, ..small(mode) }, 24);
            let (hot, turns) = counters.split_at(2);
            let what = format!("{mode:?} {ordering:?} {pace:?}");
            assert_eq!(hot.iter().map(value).sum::<u64>(), committed, "{what}");
            assert_eq!(turns.iter().map(value).sum::<u64>(), committed, "{what}");
            assert!(measured.committed > 0 && measured.committed <= committed, "{what}");
        }
    }
}

/// A client that reads the size of one set and adds a new member to the other.
struct Grows {
    number: usize,
    drawn: usize,
    told: Rc<RefCell<Told>>,
}

impl Client for Grows {
    fn draw(&mut self) -> usize {
        self.drawn += 1;
        0
    }

    fn stage(&mut self, _: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let [read, add] = if self.number.is_multiple_of(2) { ["set1", "set2"] } else { ["set2", "set1"] };
        let member = Bytes::from(format!("{}:{}", self.number, self.drawn));
        let add_op = Operation::new::<Set>(SetOp::Add([member].into_iter().collect()));
        calls.push(Call { key: Bytes::from(read), op: Operation::new::<Set>(SetOp::Len) });
        calls.push(Call { key: Bytes::from(add), op: add_op });
        Stage::Commit
    }

    fn restart(&mut self) {}

    fn committed(&mut self, _: &[Reply]) {
        self.told.borrow_mut().committed += 1;
    }

    fn gave_up(&mut self) {}

    fn finish(self: Box<Self>) {}
}

/// Reads of a set's size and adds to it do not commute, and none of them can fail. With locks, half of the clients wait for the
/// other half; ordered, they do not wait for locks at all.
#[test]
fn ordered_calls_do_not_wait_for_locks() {
    let run = |ordering| {
        let told = Rc::new(RefCell::new(Told::default()));
        let client = |number| Grows { number, drawn: 0, told: Rc::clone(&told) };
        let clients = (0..24).map(|number| Box::new(client(number)) as Box<dyn Client>).collect();
        let setup = Setup { ordering, batching: false, ..small(Mode::CommutingPhased) };
        let mut model = Model::new(setup, clients);
        let measured = model.run().expect("it ends");
        assert_eq!(model.left_behind(), (0, 0));
        let size = |key| Call { key: Bytes::from(key), op: Operation::new::<Set>(SetOp::Len) };
        let sizes = ["set1", "set2"].map(|key| value(&model.call(&size(key))));
        assert_eq!(sizes.iter().sum::<u64>(), told.borrow().committed);
        (measured.committed, measured.lock_waits)
    };
    let (locked, ordered) = (run(Some(Ordered::Never)), run(Some(Ordered::Always)));
    assert!(locked.1 > 0 && ordered.1 == 0 && ordered.0 > locked.0, "{ordered:?} against {locked:?}");
}

#[test]
fn the_same_setup_gives_the_same_figures() {
    let jitter = Costs { jitter: 20_000, ..Costs::default() };
    for mode in modes() {
        for (costs, ordering) in [(Costs::default(), None), (jitter, None), (jitter, Some(Ordered::Always))] {
            let run = || crowd(Setup { costs, ordering, ..small(mode) }, 24);
            assert_eq!(run(), run(), "{mode:?}");
        }
    }
    let seeded = |seed| crowd(Setup { costs: jitter, seed, ..small(Mode::CommutingPhased) }, 24);
    assert_ne!(seeded(1), seeded(2), "the jitter depends on the seed");
}

/// A transaction that cannot get through in time is given up, and says so.
#[test]
fn a_deadline_ends_what_takes_too_long() {
    let alone = Setup { batching: false, ..small(Mode::CommutingPhased) };
    let setup = Setup { deadline_us: 300, heartbeat_us: 1_000, ..alone };
    let (measured, ..) = crowd(setup, 48);
    assert!(measured.aborts > 0 && measured.committed > 0, "{measured:?}");
    let setup = Setup { attempts_max: 1, ..small(Mode::ReaderWriter) };
    let (measured, ..) = crowd(setup, 4);
    assert!(measured.aborts > 0 && measured.committed > 0, "{measured:?}");
}

#[test]
fn sixty_four_shards_and_ten_thousand_clients() {
    [Mode::CommutingPhased].into_iter().chain(of_processes()).for_each(ten_thousand_clients);
}

fn ten_thousand_clients(mode: Mode) {
    let setup = Setup { shards: 64, processes: 157, warm_up_us: 500, measured_us: 2_000, ..Setup::new(mode) };
    let told = Rc::new(RefCell::new(Told::default()));
    let crowd = (0..10_000).map(|at: usize| {
        let turns =
            (0..8).map(|turn| Bytes::from(format!("c{}", (at * 7 + turn * 1_313) % 20_000))).collect();
        let calls = vec![Call { key: Bytes::from(format!("c{}", at * 2)), op: increment() }];
        Box::new(Repeats { calls, turns, drawn: at, told: Rc::clone(&told) }) as Box<dyn Client>
    });
    let mut model = Model::new(setup, crowd.collect());
    let measured = model.run().expect("it ends");
    assert_eq!(model.left_behind(), (0, 0));
    assert!(measured.committed > 10_000, "{}", measured.committed);
    let sum: i64 = (0..20_000)
        .map(|at| match model.call(&Call { key: Bytes::from(format!("c{at}")), op: get() }) {
            Reply::Int(value) => value,
            other => panic!("{other}"),
        })
        .sum();
    assert_eq!(sum as u64, 2 * told.borrow().committed);
}
