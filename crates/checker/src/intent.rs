//! What a client is going to do: operations on hot records. Each writes a value that nobody else ever writes.
//!
//! A record is in use for a short time and a limited number of operations; then another takes its place. So a run may be
//! long while the history of each record stays short. Processes pick the same records without talking to each other, by
//! the clock. Bounded counters and generators last a whole round.
//!
//! A record keeps its hash tag from round to round, so that one slot can be moved together with what is hot in it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use claret::types::{
    BoundedCounter, BoundedCounterOp, Counter, CounterOp, End, Few, List, ListOp, Register, RegisterOp, Set,
    SetOp, UidGenerator, UidOp,
};
use claret::{Bytes, Operation, Reply};
use rand::{Rng, RngExt};

use crate::history::Step;
use crate::plan::Settings;

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Unique elements; adds share a lock.
    Set,
    /// Powers of two; adds share a lock.
    Counter,
    /// Unique items; appends show their order.
    List,
    /// Unique values, one at a time.
    Register,
    /// A bounded counter.
    Bounded,
    /// A generator of unique numbers.
    Generator,
}

/// The kinds whose records give way to others.
pub(super) const ROTATING: [Kind; 4] = [Kind::Set, Kind::Counter, Kind::List, Kind::Register];

/// What is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// All of it is read.
    Read,
    /// This is written, and nothing answered.
    Write(u64),
    /// This is written, and answered what was there, or is.
    Answer(u64),
    /// A bounded counter changes by so much, if it can.
    Change(i64),
}

/// One operation to be done.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The record.
    pub(crate) key: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// What is done.
    pub(crate) action: Action,
    /// How long the client does nothing before.
    pub(crate) pause: Duration,
}

/// The records in use.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    round: u64,
    of_each_kind: u64,
    rotation_us: u64,
    process: u64,
    processes: u64,
    has_pauses: bool,
    /// Numbers given out for elements, items and values.
    numbers: Arc<AtomicU64>,
    /// For each record, the turn it was last used in, and how often since.
    uses: Arc<[AtomicU64]>,
}

/// Stands between the prefix of a run and the name of a record.
pub(super) const PREFIX_END: char = '/';

/// How often all processes together use a record before another takes its place: a counter has so many bits to give out, and
/// who judges compares each reader of a record with each writer.
const USES: u64 = 62;

/// What a bounded counter begins with, and its bounds.
pub(super) const BOUNDED: (i64, i64, i64) = (40, 0, 80);

/// The most that it changes at a time.
const CHANGE_MAX: i64 = 30;

/// A turn of a record, and how often it was used in it, are one number: so much for a turn.
const COUNT: u64 = 1 << 24;

/// Bounded counters, and generators.
const LASTING: u64 = 3;

impl Keys {
    /// The records of a round.
    pub(crate) fn new(settings: &Settings) -> Self {
        let of_each_kind = (settings.keys / ROTATING.len() as u64).max(1);
        Keys {
            prefix: settings.prefix.clone(),
            round: settings.round,
            of_each_kind,
            rotation_us: settings.rotation.as_micros().max(1) as u64,
            process: settings.process,
            processes: settings.processes.max(1),
            has_pauses: settings.pauses,
            numbers: Arc::default(),
            uses: (0..ROTATING.len() as u64 * of_each_kind).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The hash tags of all records: what stands between the braces of their keys.
    pub(crate) fn tags(&self) -> Vec<String> {
        (0..self.uses.len()).map(|tag| format!("{}.{tag}", self.prefix)).collect()
    }

    /// The bounded counters of the round.
    pub(crate) fn bounded_counters(&self) -> Vec<String> {
        (0..LASTING).map(|number| self.lasting('k', number)).collect()
    }

    fn lasting(&self, letter: char, number: u64) -> String {
        self.name(number, &format!("{letter}{number}"))
    }

    fn name(&self, tag: u64, rest: &str) -> String {
        format!("{{{}.{tag}}}{}{PREFIX_END}{rest}", self.prefix, self.round)
    }

    /// An operation on one of them.
    pub(crate) fn draw(&self, now: u64, kind: Kind, writes: bool, random: &mut impl Rng) -> Intent {
        let pause = self.draw_pause(random);
        let number = random.random_range(0..LASTING);
        let lasting = |letter, action| Intent { key: self.lasting(letter, number), kind, action, pause };
        match (kind, writes) {
            (Kind::Bounded, true) => {
                let amount = random.random_range(1..=CHANGE_MAX);
                let change = if random.random() { amount } else { -amount };
                lasting('k', Action::Change(change))
            }
            (Kind::Bounded, false) => lasting('k', Action::Read),
            (Kind::Generator, _) => lasting('u', Action::Answer(0)),
            _ => self.draw_rotating(now, kind, writes, pause, random),
        }
    }

    fn draw_rotating(
        &self,
        now: u64,
        kind: Kind,
        writes: bool,
        pause: Duration,
        random: &mut impl Rng,
    ) -> Intent {
        let number = random.random_range(0..self.of_each_kind);
        let share = USES / self.processes;
        let record = number * ROTATING.len() as u64 + kind as u64;
        let (turn, used) = self.use_of(record, now / self.rotation_us);
        let key = self.rotating(kind, number, turn, used);
        let written = match kind {
            Kind::Counter => self.process * share + used % share,
            // Unique over all processes, and small: it is read many times.
            _ => self.numbers.fetch_add(1, Ordering::Relaxed) * self.processes + self.process,
        };
        let action = match (writes, random.random_range(0..3) == 0) {
            (false, _) => Action::Read,
            (true, false) => Action::Write(written),
            (true, true) => Action::Answer(written),
        };
        Intent { key, kind, action, pause }
    }

    /// A record in use: a set, a counter or a list.
    pub(crate) fn in_use(&self, now: u64, random: &mut impl Rng) -> String {
        let number = random.random_range(0..self.of_each_kind);
        let kind = ROTATING[random.random_range(0..3)];
        let record = number * ROTATING.len() as u64 + kind as u64;
        let state = self.uses[record as usize].load(Ordering::Relaxed);
        let (turn, used) = if state / COUNT < now / self.rotation_us {
            (now / self.rotation_us, 0)
        } else {
            (state / COUNT, state % COUNT)
        };
        self.rotating(kind, number, turn, used)
    }

    fn rotating(&self, kind: Kind, number: u64, turn: u64, used: u64) -> String {
        let letter = match kind {
            Kind::Counter => 'c',
            Kind::List => 'l',
            Kind::Register => 'r',
            _ => 's',
        };
        let record = number * ROTATING.len() as u64 + kind as u64;
        let share = USES / self.processes;
        self.name(record, &format!("{letter}{number}:{turn}:{}", used / share))
    }

    /// Mostly nothing; some milliseconds; rarely up to a second, longer than much that happens meanwhile.
    pub(super) fn draw_pause(&self, random: &mut impl Rng) -> Duration {
        if !self.has_pauses {
            return Duration::ZERO;
        }
        let most_us = match random.random_range(0..1_000) {
            0..2 => 1_000_000,
            2..10 => 100_000,
            10..100 => 5_000,
            _ => return Duration::ZERO,
        };
        Duration::from_micros(random.random_range(0..=most_us))
    }

    /// The turn of a record, and how often it was used in it before.
    fn use_of(&self, record: u64, turn: u64) -> (u64, u64) {
        let next = |state: u64| Some(if state / COUNT < turn { turn * COUNT + 1 } else { state + 1 });
        let uses = &self.uses[record as usize];
        let before =
            uses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_else(|state| state);
        if before / COUNT < turn { (turn, 0) } else { (before / COUNT, before % COUNT) }
    }
}

impl Intent {
    /// To read a record as a whole.
    pub(crate) fn read(key: &str, kind: Kind) -> Self {
        Intent { key: key.to_owned(), kind, action: Action::Read, pause: Duration::ZERO }
    }

    /// The operation.
    pub(crate) fn operation(&self) -> Operation {
        match (self.kind, self.action) {
            (Kind::Set, Action::Write(it)) => Operation::new::<Set>(SetOp::Add(few(it))),
            (Kind::Set, Action::Answer(it)) => Operation::new::<Set>(SetOp::AddReturning(few(it))),
            (Kind::Set, _) => Operation::new::<Set>(SetOp::Members),
            (Kind::Counter, Action::Write(bit)) => Operation::new::<Counter>(CounterOp::Add(1 << bit)),
            (Kind::Counter, Action::Answer(bit)) => {
                Operation::new::<Counter>(CounterOp::AddReturning(1 << bit))
            }
            (Kind::Counter, _) => Operation::new::<Counter>(CounterOp::Get),
            (Kind::List, Action::Write(it)) => Operation::new::<List>(ListOp::Push(End::Back, few(it))),
            (Kind::List, Action::Answer(it)) => {
                Operation::new::<List>(ListOp::PushReturning(End::Back, few(it)))
            }
            (Kind::List, _) => Operation::new::<List>(ListOp::Range { start: 0, stop: -1 }),
            (Kind::Register, Action::Write(it)) => Operation::new::<Register>(RegisterOp::Set(text(it))),
            (Kind::Register, Action::Answer(it)) => Operation::new::<Register>(RegisterOp::GetSet(text(it))),
            (Kind::Register, _) => Operation::new::<Register>(RegisterOp::Get),
            (Kind::Bounded, Action::Change(by)) => Operation::new::<BoundedCounter>(match by {
                0.. => BoundedCounterOp::AddReturning(by),
                _ => BoundedCounterOp::TakeReturning(-by),
            }),
            (Kind::Bounded, _) => Operation::new::<BoundedCounter>(BoundedCounterOp::Get),
            (Kind::Generator, _) => Operation::new::<UidGenerator>(UidOp::Next),
        }
    }

    /// The same as a plain Redis command; of bounded counters and generators, as gateways know them.
    pub(crate) fn command(&self) -> Vec<Bytes> {
        let (name, rest) = match (self.kind, self.action) {
            (Kind::Set, Action::Write(it) | Action::Answer(it)) => ("SADD", vec![it.to_string()]),
            (Kind::Set, _) => ("SMEMBERS", vec![]),
            (Kind::Counter, Action::Write(bit) | Action::Answer(bit)) => {
                ("INCRBY", vec![(1_u64 << bit).to_string()])
            }
            (Kind::List, Action::Write(it) | Action::Answer(it)) => ("RPUSH", vec![it.to_string()]),
            (Kind::List, _) => ("LRANGE", vec!["0".into(), "-1".into()]),
            (Kind::Register, Action::Write(it)) => ("SET", vec![it.to_string()]),
            (Kind::Register, Action::Answer(it)) => ("GETSET", vec![it.to_string()]),
            (Kind::Bounded, Action::Change(by @ 0..)) => ("BINCRBY.RETURNING", vec![by.to_string()]),
            (Kind::Bounded, Action::Change(by)) => ("BDECRBY.RETURNING", vec![(-by).to_string()]),
            (Kind::Bounded, _) => ("BGET", vec![]),
            (Kind::Generator, _) => ("UID.NEXT", vec![]),
            _ => ("GET", vec![]),
        };
        let words = [name.to_owned(), self.key.clone()].into_iter().chain(rest);
        words.map(Bytes::from).collect()
    }

    /// As a plain command answers it: all but SET tell what was there.
    pub(crate) fn answering(self) -> Self {
        let action = match self.action {
            Action::Write(it) if self.kind != Kind::Register => Action::Answer(it),
            action => action,
        };
        Intent { action, ..self }
    }

    /// What it showed.
    ///
    /// # Errors
    /// An answer of the wrong shape, or one that cannot be.
    pub(crate) fn steps(&self, reply: &Reply) -> Result<Vec<Step>, String> {
        let key = self.key.clone();
        let unfit = || format!("'{key}': an answer of the wrong shape: {reply}");
        let number = || number(reply).ok_or_else(unfit);
        Ok(match (self.kind, self.action) {
            (Kind::Set, Action::Answer(element)) => match number()? {
                Some(1) => vec![Step::Add(key, element)],
                _ => return Err(format!("'{key}': {element} was added for the first time and was there")),
            },
            (Kind::Counter, Action::Answer(bit)) => {
                let bits = bits(number()?.unwrap_or(0));
                vec![Step::Add(key.clone(), bit), Step::Read(key, bits)]
            }
            (Kind::List, Action::Answer(item)) => {
                let length = number()?.ok_or_else(unfit)?;
                vec![Step::Append(key.clone(), item), Step::Stands(key, item, length)]
            }
            (Kind::Register, Action::Answer(value)) => vec![Step::Swap(key.clone(), number()?, value)],
            (Kind::Bounded, Action::Change(by)) => match number()? {
                Some(done @ (0 | 1)) => vec![Step::Change(key, by, Some(done == 1))],
                _ => return Err(unfit()),
            },
            (Kind::Generator, _) => vec![Step::Id(key.clone(), number()?.ok_or_else(unfit)?)],
            (_, Action::Write(_)) => self.meant(),
            (Kind::Counter, _) => vec![Step::Read(key.clone(), bits(number()?.unwrap_or(0)))],
            (Kind::Register, _) => vec![Step::Get(key.clone(), number()?)],
            // Nil when it is gone.
            (Kind::Bounded, _) => number()?.map(|level| Step::Level(key, level as i64)).into_iter().collect(),
            (Kind::Set, _) => {
                let elements = numbers(reply).ok_or_else(unfit)?;
                let distinct: BTreeSet<u64> = elements.iter().copied().collect();
                if distinct.len() != elements.len() {
                    return Err(format!("'{key}': a set with an element twice: {reply}"));
                }
                vec![Step::Read(key, distinct)]
            }
            (Kind::List, _) => vec![Step::List(key.clone(), numbers(reply).ok_or_else(unfit)?)],
        })
    }

    /// What it was to write.
    pub(crate) fn meant(&self) -> Vec<Step> {
        let key = self.key.clone();
        match (self.kind, self.action) {
            (_, Action::Change(by)) => vec![Step::Change(key, by, None)],
            (Kind::Set | Kind::Counter, Action::Write(it) | Action::Answer(it)) => vec![Step::Add(key, it)],
            (Kind::List, Action::Write(it) | Action::Answer(it)) => vec![Step::Append(key, it)],
            (Kind::Register, Action::Write(it) | Action::Answer(it)) => vec![Step::Put(key, it)],
            (Kind::Bounded | Kind::Generator, _) | (_, Action::Read) => Vec::new(),
        }
    }
}

fn text(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

fn few(number: u64) -> Few<Bytes> {
    Few::from_elem(text(number), 1)
}

fn bits(value: u64) -> BTreeSet<u64> {
    (0..u64::from(u64::BITS)).filter(|bit| value >> bit & 1 == 1).collect()
}

/// A number, or nothing; `None` when it is neither.
fn number(reply: &Reply) -> Option<Option<u64>> {
    match reply {
        Reply::Int(value) => u64::try_from(*value).ok().map(Some),
        Reply::Bytes(bytes) => bytes.as_str()?.parse().ok().map(Some),
        Reply::Nil => Some(None),
        Reply::Ok | Reply::Float(_) | Reply::Array(_) | Reply::Failed(_) => None,
    }
}

fn numbers(reply: &Reply) -> Option<Vec<u64>> {
    let Reply::Array(items) = reply else { return None };
    items.iter().map(|item| number(item).flatten()).collect()
}
