//! What a transaction is going to do: operations on hot records, each writing something that nobody else ever
//! writes.
//!
//! Records are in use for a short time and a few operations, and then give way to new ones, so that a run may be long
//! and a record's history stays short. Processes agree on them without a word: by the clock, and by working at about
//! the same pace.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use claret::types::{Counter, CounterOp, End, Few, List, ListOp, Set, SetOp};
use claret::{Bytes, Operation, Reply};
use rand::{Rng, RngExt};

use super::Settings;
use super::history::Step;

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Unique elements; adds share a lock.
    Set,
    /// Powers of two; adds share a lock.
    Counter,
    /// Unique items; appends show their order.
    List,
}

/// One operation to be done.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The record.
    pub key: String,
    /// What it is.
    pub kind: Kind,
    /// What to write; `None` to read.
    pub write: Option<u64>,
}

/// The records in use.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
    of_each_kind: u64,
    rotation_us: u64,
    process: u64,
    processes: u64,
    /// Numbers given out for elements and items.
    numbers: Arc<AtomicU64>,
    /// For each record, the turn it was last used in, and how often since.
    uses: Arc<[AtomicU64]>,
}

/// Stands between the prefix of a run and the name of a record.
pub(super) const PREFIX_END: char = '/';

/// How often all processes together use a record before another takes its place: a counter has so many bits to give out, and
/// who judges compares each reader of a record with each writer.
const USES: u64 = 62;

impl Keys {
    /// The records of a run.
    pub fn new(settings: &Settings) -> Self {
        let of_each_kind = (settings.keys / 3).max(1);
        Keys {
            prefix: settings.prefix.clone(),
            of_each_kind,
            rotation_us: settings.rotation.as_micros().max(1) as u64,
            process: settings.process,
            processes: settings.processes.max(1),
            numbers: Arc::default(),
            uses: (0..3 * of_each_kind).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// An operation on one of them.
    pub fn draw(&self, now: u64, kind: Kind, writes: bool, random: &mut impl Rng) -> Planned {
        let number = random.random_range(0..self.of_each_kind);
        let share = USES / self.processes;
        let (turn, used) = self.use_of(number * 3 + kind as u64, now / self.rotation_us);
        let letter = match kind {
            Kind::Set => 's',
            Kind::Counter => 'c',
            Kind::List => 'l',
        };
        let key = format!("{}{PREFIX_END}{letter}{number}:{turn}:{}", self.prefix, used / share);
        let written = match kind {
            // Unique over all processes, and small: it is read many times.
            Kind::Set | Kind::List => {
                self.numbers.fetch_add(1, Ordering::Relaxed) * self.processes + self.process
            }
            Kind::Counter => self.process * share + used % share,
        };
        Planned { key, kind, write: writes.then_some(written) }
    }

    /// The turn of a record, and how often it was used in it before.
    fn use_of(&self, record: u64, turn: u64) -> (u64, u64) {
        const COUNT: u64 = 1 << 24;
        let next = |state: u64| Some(if state / COUNT < turn { turn * COUNT + 1 } else { state + 1 });
        let uses = &self.uses[record as usize];
        let before =
            uses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_else(|state| state);
        if before / COUNT < turn { (turn, 0) } else { (before / COUNT, before % COUNT) }
    }
}

impl Planned {
    /// The operation.
    pub fn operation(&self) -> Operation {
        match (self.kind, self.write) {
            (Kind::Set, Some(element)) => Operation::new::<Set>(SetOp::Add(few(element))),
            (Kind::Set, None) => Operation::new::<Set>(SetOp::Members),
            (Kind::Counter, Some(bit)) => Operation::new::<Counter>(CounterOp::Add(1 << bit)),
            (Kind::Counter, None) => Operation::new::<Counter>(CounterOp::Get),
            (Kind::List, Some(item)) => Operation::new::<List>(ListOp::Push(End::Back, few(item))),
            (Kind::List, None) => Operation::new::<List>(ListOp::Range { start: 0, stop: -1 }),
        }
    }

    /// The same as a plain Redis command.
    pub fn command(&self) -> Vec<Bytes> {
        let words: Vec<String> = match (self.kind, self.write) {
            (Kind::Set, Some(element)) => vec!["SADD".into(), self.key.clone(), element.to_string()],
            (Kind::Set, None) => vec!["SMEMBERS".into(), self.key.clone()],
            (Kind::Counter, Some(bit)) => {
                vec!["INCRBY".into(), self.key.clone(), (1_u64 << bit).to_string()]
            }
            (Kind::Counter, None) => vec!["GET".into(), self.key.clone()],
            (Kind::List, Some(item)) => vec!["RPUSH".into(), self.key.clone(), item.to_string()],
            (Kind::List, None) => vec!["LRANGE".into(), self.key.clone(), "0".into(), "-1".into()],
        };
        words.into_iter().map(Bytes::from).collect()
    }

    /// What it showed.
    ///
    /// # Errors
    /// An answer of the wrong shape.
    pub fn step(&self, reply: &Reply) -> Result<Step, String> {
        let key = self.key.clone();
        let unfit = || format!("'{key}': an answer of the wrong shape: {reply}");
        Ok(match (self.kind, self.write) {
            (Kind::Set | Kind::Counter, Some(element)) => Step::Add(key, element),
            (Kind::List, Some(item)) => Step::Append(key, item),
            (Kind::Counter, None) => {
                let value = counted(reply).ok_or_else(unfit)?;
                Step::Read(key, (0..u64::from(u64::BITS)).filter(|bit| value >> bit & 1 == 1).collect())
            }
            (Kind::Set, None) => {
                let elements = numbers(reply).ok_or_else(unfit)?;
                let distinct: BTreeSet<u64> = elements.iter().copied().collect();
                if distinct.len() != elements.len() {
                    return Err(format!("'{key}': a set with an element twice: {reply}"));
                }
                Step::Read(key, distinct)
            }
            (Kind::List, None) => Step::List(key.clone(), numbers(reply).ok_or_else(unfit)?),
        })
    }
}

fn few(number: u64) -> Few<Bytes> {
    Few::from_elem(Bytes::from(number.to_string()), 1)
}

fn counted(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Int(value) => u64::try_from(*value).ok(),
        Reply::Bytes(bytes) => bytes.as_str()?.parse().ok(),
        Reply::Nil => Some(0),
        Reply::Ok | Reply::Float(_) | Reply::Array(_) => None,
    }
}

fn numbers(reply: &Reply) -> Option<Vec<u64>> {
    let Reply::Array(items) = reply else { return None };
    items
        .iter()
        .map(|item| match item {
            Reply::Bytes(bytes) => bytes.as_str()?.parse().ok(),
            _ => None,
        })
        .collect()
}
