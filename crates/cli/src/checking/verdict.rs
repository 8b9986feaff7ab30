//! What the judges say of a finished history, and whether they would have seen it if something were wrong.

use std::collections::BTreeMap;

use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use claret_sim::observed::{Judged, judge};

use super::history::{Entry, History, Outcome, Step};

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Transactions and edges that were looked at.
    pub judged: Judged,
    /// Transactions on lists that adya looked at.
    pub lists: usize,
    /// Violations, in words; none when all is well.
    pub anomalies: Vec<String>,
}

/// Judges a history.
pub fn judge_all(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    match judge(&history.observed()) {
        Ok(judged) => verdict.judged = judged,
        Err(anomaly) => verdict.anomalies.push(anomaly),
    }
    let lists: Vec<Entry> = history.entries.iter().filter_map(of_lists).collect();
    verdict.lists = lists.len();
    verdict.anomalies.extend(ask_adya(&lists));
    verdict
}

/// The part of a transaction that is about lists: less is known of it, nothing wrong.
fn of_lists(entry: &Entry) -> Option<Entry> {
    let is_of_lists = |step: &&Step| matches!(step, Step::Append(..) | Step::List(..));
    let steps: Vec<Step> = entry.steps.iter().filter(is_of_lists).cloned().collect();
    (!steps.is_empty()).then(|| Entry { steps, ..entry.clone() })
}

/// Strict serializability, as adya finds it.
fn ask_adya(entries: &[Entry]) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    let options = adya::Opts { models: vec!["strict-serializable".into()], ..adya::Opts::default() };
    let report = adya::check(&as_adya(entries), adya::Workload::ListAppend, &options);
    match report.valid {
        adya::Valid::True => None,
        adya::Valid::False | adya::Valid::Unknown => {
            Some(format!("adya: {}", report.anomaly_types.join(", ")))
        }
    }
}

fn as_adya(entries: &[Entry]) -> adya::History {
    let mut interner = Interner::default();
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(entries.len() * 2);
    for (at, entry) in entries.iter().enumerate() {
        events.push((entry.began, false, at));
        events.push((entry.ended, true, at));
    }
    // What ends and begins at one moment counts as concurrent.
    events.sort_unstable();
    // After an unknown end a client goes on under another name: whoever completes later is not that one.
    let mut lives: BTreeMap<u64, i64> = BTreeMap::new();
    let clients = entries.iter().map(|entry| entry.client).max().unwrap_or(0) as i64 + 1;
    let ops = events.into_iter().enumerate().map(|(index, (time, ended, at))| {
        let entry = &entries[at];
        let life = lives.entry(entry.client).or_default();
        let process = *life * clients + entry.client as i64;
        let kind = match (ended, entry.outcome) {
            (false, _) => OpType::Invoke,
            (true, Outcome::Committed) => OpType::Ok,
            (true, Outcome::Void) => OpType::Fail,
            (true, Outcome::Unknown) => OpType::Info,
        };
        if kind == OpType::Info {
            *life += 1;
        }
        let value = entry.steps.iter().map(|step| micro(step, kind == OpType::Ok, &mut interner)).collect();
        Op { index: index as u64, kind, process: Some(process), value, time: Some(time as i64 * 1000) }
    });
    let ops: Vec<Op> = ops.collect();
    adya::History::from_ops(ops, interner)
}

fn micro(step: &Step, is_known: bool, interner: &mut Interner) -> Mop {
    let mut id = |scalar| interner.intern(scalar);
    match step {
        Step::Append(key, item) | Step::Add(key, item) => {
            Mop::Append { key: id(Scalar::Str(key.clone())), value: id(Scalar::Int(*item as i64)) }
        }
        Step::List(key, items) => {
            let key = id(Scalar::Str(key.clone()));
            let items = items.iter().map(|item| id(Scalar::Int(*item as i64))).collect();
            Mop::Read { key, value: if is_known { ReadValue::List(items) } else { ReadValue::Nil } }
        }
        Step::Read(key, _) => Mop::Read { key: id(Scalar::Str(key.clone())), value: ReadValue::Nil },
    }
}

/// An anomaly that is planted into a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A read lacks an element of a set, or a bit of a counter, that was acknowledged before it began.
    StaleRead,
    /// The same of a list: it lacks its last item.
    StaleList,
    /// A reader sees one write of a transaction and not another.
    Torn,
    /// Two items of a list stand the other way round for one reader.
    Swapped,
    /// A transaction whose write was seen says that nothing was applied.
    SeenThoughVoid,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 5] =
        [Planted::StaleRead, Planted::StaleList, Planted::Torn, Planted::Swapped, Planted::SeenThoughVoid];

    /// Whether adya can see it, too.
    pub fn is_of_lists(self) -> bool {
        matches!(self, Planted::StaleList | Planted::Swapped)
    }

    /// The history with the anomaly in it; `None` when it has no place for it.
    pub fn plant(self, history: &History) -> Option<History> {
        let writers = Writers::of(history);
        let mut changed = history.clone();
        let committed = |entry: &&mut Entry| entry.outcome == Outcome::Committed;
        match self {
            Planted::SeenThoughVoid => {
                let seen = writers.first_seen(history)?;
                changed.entries[seen].outcome = Outcome::Void;
            }
            Planted::StaleRead | Planted::StaleList | Planted::Torn | Planted::Swapped => {
                changed.entries.iter_mut().filter(committed).find_map(|entry| self.spoil(entry, &writers))?;
            }
        }
        Some(changed)
    }

    /// Changes what one transaction saw, if there is something to change.
    fn spoil(self, entry: &mut Entry, writers: &Writers) -> Option<()> {
        let (client, began) = (entry.client, entry.began);
        let stale = |key: &str, element: u64| {
            writers.of.get(&(key.to_owned(), element)).is_some_and(|writer| {
                writer.client != client && writer.outcome == Outcome::Committed && writer.ended < began
            })
        };
        match self {
            Planted::StaleRead => entry.steps.iter_mut().find_map(|step| {
                let Step::Read(key, elements) = step else { return None };
                let element = elements.iter().copied().find(|element| stale(key, *element))?;
                elements.remove(&element).then_some(())
            }),
            Planted::StaleList => {
                let alone = entry.steps.len() == 1;
                entry.steps.iter_mut().filter(|_| alone).find_map(|step| {
                    let Step::List(key, items) = step else { return None };
                    let last = items.last().copied().filter(|last| stale(key, *last))?;
                    items.retain(|item| *item != last);
                    Some(())
                })
            }
            Planted::Swapped => {
                let alone = entry.steps.len() == 1;
                entry.steps.iter_mut().filter(|_| alone).find_map(|step| {
                    let Step::List(key, items) = step else { return None };
                    let enough = items.len() >= 2 && writers.readers_of(key) >= 2;
                    enough.then(|| items.swap(0, 1))
                })
            }
            Planted::Torn => self.tear(entry, writers),
            Planted::SeenThoughVoid => None,
        }
    }

    fn tear(self, entry: &mut Entry, writers: &Writers) -> Option<()> {
        let mut seen: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let client = entry.client;
        entry.steps.iter_mut().find_map(|step| {
            let Step::Read(key, elements) = step else { return None };
            let twice = elements.iter().copied().find(|element| {
                let Some(writer) = writers.of.get(&(key.clone(), *element)) else { return false };
                let name = (writer.client, writer.began);
                let first = seen.entry(name).or_insert_with(|| key.clone());
                first != key && writer.client != client
            })?;
            elements.remove(&twice).then_some(())
        })
    }
}

/// Who wrote what.
struct Writers {
    of: BTreeMap<(String, u64), Writer>,
    readers: BTreeMap<String, usize>,
}

#[derive(Clone, Copy)]
struct Writer {
    at: usize,
    client: u64,
    began: u64,
    ended: u64,
    outcome: Outcome,
}

impl Writers {
    fn of(history: &History) -> Self {
        let mut writers = Writers { of: BTreeMap::new(), readers: BTreeMap::new() };
        for (at, entry) in history.entries.iter().enumerate() {
            let Entry { client, began, ended, outcome, .. } = *entry;
            for step in &entry.steps {
                match step {
                    Step::Add(key, element) | Step::Append(key, element) => {
                        let writer = Writer { at, client, began, ended, outcome };
                        writers.of.insert((key.clone(), *element), writer);
                    }
                    Step::List(key, items) if items.len() >= 2 => {
                        *writers.readers.entry(key.clone()).or_default() += 1;
                    }
                    Step::List(..) | Step::Read(..) => {}
                }
            }
        }
        writers
    }

    fn readers_of(&self, key: &str) -> usize {
        self.readers.get(key).copied().unwrap_or(0)
    }

    /// A committed transaction of which another one saw something.
    fn first_seen(&self, history: &History) -> Option<usize> {
        history.entries.iter().filter(|entry| entry.outcome == Outcome::Committed).find_map(|reader| {
            reader.steps.iter().find_map(|step| {
                let Step::Read(key, elements) = step else { return None };
                let writer = elements.iter().find_map(|element| self.of.get(&(key.clone(), *element)))?;
                (writer.client != reader.client && writer.outcome == Outcome::Committed).then_some(writer.at)
            })
        })
    }
}
