//! Plants an anomaly into a finished history, to test that the judges find it.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Entry, History, Outcome, Step, Why};
use crate::intent::BOUNDED;

/// An anomaly that is planted into a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
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
    /// Nobody ever sees an item that was acknowledged.
    LostAppend,
    /// A reader sees an item of a list twice.
    DoubledAppend,
    /// Two transactions put their values over the same one.
    LostUpdate,
    /// Two clients get the same number.
    SameId,
    /// A bounded counter is below its bound.
    Overdrawn,
    /// The bank's total is wrong.
    LostMoney,
    /// What was there before a record ended is seen after.
    Returned,
}

impl Planted {
    /// All of them.
    pub(crate) const ALL: [Planted; 12] = [
        Planted::StaleRead,
        Planted::StaleList,
        Planted::Torn,
        Planted::Swapped,
        Planted::SeenThoughVoid,
        Planted::LostAppend,
        Planted::DoubledAppend,
        Planted::LostUpdate,
        Planted::SameId,
        Planted::Overdrawn,
        Planted::LostMoney,
        Planted::Returned,
    ];

    /// Whether it needs a record that ended, as they do where things expire or are flushed.
    pub(crate) fn needs_an_end(self) -> bool {
        self == Planted::Returned
    }

    /// Whether adya can see it, too.
    pub(crate) fn is_of_lists(self) -> bool {
        matches!(self, Planted::StaleList | Planted::Swapped)
    }

    /// The history with the anomaly in it; `None` when it has no place for it.
    pub(crate) fn plant(self, history: &History) -> Option<History> {
        let writers = Writers::of(history);
        let mut changed = history.clone();
        let committed = |entry: &&mut Entry| entry.outcome == Outcome::Committed;
        match self {
            Planted::SeenThoughVoid => {
                let seen = writers.first_seen(history)?;
                changed.entries[seen].outcome = Outcome::Void(Why::Later);
            }
            Planted::LostAppend => writers.lose_an_append(&mut changed)?,
            Planted::LostUpdate => lose_an_update(&mut changed)?,
            Planted::SameId => give_an_id_twice(&mut changed)?,
            Planted::Returned => writers.bring_back(&mut changed)?,
            Planted::LostMoney => {
                let ends: Option<u64> =
                    history.entries.iter().filter(|it| it.is_end()).map(|it| it.began).min();
                let sees_first = |entry: &&mut Entry| ends.is_none_or(|first| entry.ended < first);
                changed.entries.iter_mut().filter(committed).filter(sees_first).find_map(spoil_sum(true))?;
            }
            Planted::Overdrawn => {
                let ended = ended_keys(history);
                let lasts = |entry: &&mut Entry| {
                    !entry.steps.iter().any(|it| it.key().is_some_and(|key| ended.contains(key)))
                };
                changed.entries.iter_mut().filter(committed).filter(lasts).find_map(spoil_sum(false))?;
            }
            _ => {
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
                !writers.ended.contains(key)
                    && writer.client != client
                    && writer.outcome == Outcome::Committed
                    && writer.ended < began
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
                    let is_known = writers.readers_of(key) >= 2 && !writers.ended.contains(key);
                    let enough = items.len() >= 2 && is_known;
                    enough.then(|| items.swap(0, 1))
                })
            }
            Planted::DoubledAppend => entry.steps.iter_mut().find_map(|step| {
                let Step::List(key, items) = step else { return None };
                let first = *items.first()?;
                let is_of_others = writers.of.get(&(key.clone(), first))?.client != client;
                is_of_others.then(|| items.insert(0, first))
            }),
            Planted::Torn => self.tear(entry, writers),
            _ => None,
        }
    }

    fn tear(self, entry: &mut Entry, writers: &Writers) -> Option<()> {
        let mut seen: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let client = entry.client;
        entry.steps.iter_mut().find_map(|step| {
            let Step::Read(key, elements) = step else { return None };
            if writers.ended.contains(key) {
                return None;
            }
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
    /// Records that ended.
    ended: BTreeSet<String>,
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
        let ended = ended_keys(history);
        let mut writers = Writers { of: BTreeMap::new(), readers: BTreeMap::new(), ended };
        for (at, entry) in history.entries.iter().enumerate() {
            let Entry { client, began, ended, outcome, .. } = *entry;
            for step in &entry.steps {
                match step {
                    Step::Add(key, element) | Step::Append(key, element) => {
                        let writer = Writer { at, client, began, ended, outcome };
                        writers.of.insert((key.clone(), *element), writer);
                    }
                    Step::List(key, items) if items.len() >= 2 && outcome == Outcome::Committed => {
                        *writers.readers.entry(key.clone()).or_default() += 1;
                    }
                    _ => {}
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

    /// Takes an item that was acknowledged out of everything that was read.
    fn lose_an_append(&self, history: &mut History) -> Option<()> {
        let seen_last = |step: &Step| match step {
            Step::List(key, items) if !self.ended.contains(key) => Some((key.clone(), *items.last()?)),
            _ => None,
        };
        let is_known =
            |of: &(String, u64)| self.of.get(of).is_some_and(|writer| writer.outcome == Outcome::Committed);
        // Whoever reads at the end is the last entry, and was after everybody.
        let last = history
            .entries
            .iter()
            .rev()
            .filter(|entry| entry.outcome == Outcome::Committed)
            .find(|entry| entry.steps.iter().any(|it| seen_last(it).is_some()))?;
        let (lost, item) = last.steps.iter().filter_map(seen_last).find(is_known)?;
        for step in history.entries.iter_mut().flat_map(|entry| &mut entry.steps) {
            if let Step::List(key, items) = step
                && *key == lost
            {
                items.retain(|it| *it != item);
            }
        }
        Some(())
    }

    /// Shows what was seen before a record ended to one that reads it after.
    fn bring_back(&self, history: &mut History) -> Option<()> {
        let ends: Vec<Entry> = history.entries.iter().filter(|it| it.is_end()).cloned().collect();
        let found = ends.iter().find_map(|end| {
            end.steps.iter().find_map(|step| {
                let Step::End(key, true) = step else { return None };
                let writes = self.of.range((key.clone(), 0)..=(key.clone(), u64::MAX));
                let before =
                    writes.filter(|(_, it)| it.outcome == Outcome::Committed && it.ended < end.began);
                let element = before.map(|((_, element), _)| *element).next()?;
                let is_later = |it: &Entry| it.outcome == Outcome::Committed && end.is_before(it);
                let reads = |step: &Step| matches!(step, Step::Read(on, _) if on == key);
                let reader =
                    history.entries.iter().position(|it| is_later(it) && it.steps.iter().any(reads))?;
                Some((key.clone(), element, reader))
            })
        });
        let (key, element, reader) = found?;
        history.entries[reader].steps.iter_mut().find_map(|step| match step {
            Step::Read(on, elements) if *on == key => elements.insert(element).then_some(()),
            _ => None,
        })
    }
}

fn ended_keys(history: &History) -> BTreeSet<String> {
    history.ends().into_keys().map(str::to_owned).collect()
}

/// Makes a total, or a level, one that cannot be.
fn spoil_sum(is_total: bool) -> impl FnMut(&mut Entry) -> Option<()> {
    move |entry| {
        entry.steps.iter_mut().find_map(|step| match step {
            Step::Total(_, total) if is_total => {
                *total -= 1;
                Some(())
            }
            Step::Level(_, level) if !is_total => {
                *level = BOUNDED.1 - 1;
                Some(())
            }
            _ => None,
        })
    }
}

/// One that put its value over another's puts it over the one before.
fn lose_an_update(history: &mut History) -> Option<()> {
    let ended = ended_keys(history);
    // The swaps of a transaction that does nothing else to the register.
    let swaps = |entry: &Entry| -> Vec<(usize, String, Option<u64>, u64)> {
        let of = |key: &str| entry.steps.iter().filter(|step| step.key() == Some(key)).count();
        let steps = entry.steps.iter().enumerate();
        let swap = |(at, step): (usize, &Step)| match step {
            Step::Swap(key, old, new) if of(key) == 1 && !ended.contains(key) => {
                Some((at, key.clone(), *old, *new))
            }
            _ => None,
        };
        steps.filter_map(swap).collect()
    };
    let mut before: BTreeMap<(String, u64), (Option<u64>, u64)> = BTreeMap::new();
    let committed = |entry: &&Entry| entry.outcome == Outcome::Committed;
    for entry in history.entries.iter().filter(committed) {
        for (_, key, old, new) in swaps(entry) {
            before.insert((key, new), (old, entry.client));
        }
    }
    let found =
        history.entries.iter().enumerate().filter(|(_, entry)| committed(entry)).find_map(|(at, entry)| {
            swaps(entry).into_iter().find_map(|(step, key, old, _)| {
                let (older, other) = before.get(&(key, old?))?;
                (*other != entry.client).then_some((at, step, *older))
            })
        });
    let (at, step, older) = found?;
    if let Step::Swap(_, old, _) = &mut history.entries[at].steps[step] {
        *old = older;
    }
    Some(())
}

fn give_an_id_twice(history: &mut History) -> Option<()> {
    let ended = ended_keys(history);
    let mut first: BTreeMap<String, u64> = BTreeMap::new();
    let steps = history.entries.iter_mut().filter(|it| it.outcome == Outcome::Committed);
    steps.flat_map(|entry| &mut entry.steps).find_map(|step| {
        let Step::Id(key, number) = step else { return None };
        match first.get(key) {
            Some(other) if !ended.contains(key) => {
                *number = *other;
                Some(())
            }
            _ => {
                first.insert(key.clone(), *number);
                None
            }
        }
    })
}
