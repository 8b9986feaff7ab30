//! The mode `mutex`: what a user would write by hand instead of using a store.
//!
//! One global mutex around plain collections of the standard library, for the workloads `rawmix` and
//! `hot`. A transaction known up front takes the lock once and does all its operations under it; an
//! interactive one takes the lock for each operation, and so is no transaction at all. No [`Operation`],
//! no undo, no deadline, no limit: none of it is in what is measured here.
//!
//! The random choices are those of [`crate::workload::rawmix`] and [`crate::workload::hot`], from the same
//! seeds; keys are made beforehand and members are written out in decimal, in both.
//!
//! [`Operation`]: claret_types::Operation

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::pace::Issue;
use crate::workload::names::Digits;
use crate::workload::rawmix::OPERATIONS;
use crate::workload::{Violation, WorkloadSpec, Zipf, hot, rawmix};

/// A workload by hand, with its collections.
pub(crate) trait MutexBaseline: Send + Sync {
    /// A client with choices of its own.
    fn client(&self, seed: u64) -> Box<dyn MutexClient>;

    /// Compares the collections with what the clients counted, once all have finished.
    fn verify(&self) -> Vec<Violation>;
}

/// Someone who runs one transaction after another.
pub(crate) trait MutexClient: Send {
    /// Draws a transaction and runs it.
    fn transaction(&mut self, issue: Issue);

    /// Hands over what it counted.
    fn finish(self: Box<Self>);
}

/// Whether a workload has been written by hand.
pub(crate) fn has(workload: &WorkloadSpec) -> bool {
    matches!(workload, WorkloadSpec::RawMix(_) | WorkloadSpec::Hot(_))
}

/// A workload by hand, on empty collections; `None` for one that is not [written](has).
pub(crate) fn baseline(workload: &WorkloadSpec) -> Option<Box<dyn MutexBaseline>> {
    match workload {
        WorkloadSpec::RawMix(options) => Some(Box::new(MutexRawMix::new(options.clone()))),
        WorkloadSpec::Hot(options) => Some(Box::new(MutexHot::new(options.clone()))),
        WorkloadSpec::Fair(_)
        | WorkloadSpec::Rubis(_)
        | WorkloadSpec::Retwis(_)
        | WorkloadSpec::Checkout(_)
        | WorkloadSpec::Objects(_)
        | WorkloadSpec::Tpcc(_) => None,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add_counts(total: &Mutex<Vec<u64>>, counts: Vec<u64>) {
    for (sum, more) in locked(total).iter_mut().zip(counts) {
        *sum += more;
    }
}

fn violation(key: &str, what: &'static str, expected: u64, found: u64) -> Violation {
    Violation { key: key.into(), what, expected: expected.to_string(), found: found.to_string() }
}

fn table(prefix: &str, count: usize) -> Arc<[String]> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

type Sets = HashMap<String, HashSet<String>>;

/// The raw mix on a map of sets.
#[derive(Debug)]
pub(crate) struct MutexRawMix {
    options: rawmix::Options,
    zipf: Arc<Zipf>,
    keys: Arc<[String]>,
    sets: Arc<Mutex<Sets>>,
    added: Arc<Mutex<Vec<u64>>>,
}

impl MutexRawMix {
    /// With these parameters, on empty sets.
    pub(crate) fn new(options: rawmix::Options) -> Self {
        MutexRawMix {
            zipf: Arc::new(Zipf::new(options.keys, options.alpha)),
            keys: table(&options.prefix, options.keys),
            sets: Arc::default(),
            added: Arc::new(Mutex::new(vec![0; options.keys])),
            options,
        }
    }
}

impl MutexBaseline for MutexRawMix {
    fn client(&self, seed: u64) -> Box<dyn MutexClient> {
        Box::new(MutexRawMixClient {
            picker: rawmix::Picker::new(&self.options, self.zipf.clone(), seed),
            keys: self.keys.clone(),
            sets: self.sets.clone(),
            added: vec![0; self.keys.len()],
            total: self.added.clone(),
            sizes: [0; OPERATIONS],
        })
    }

    fn verify(&self) -> Vec<Violation> {
        let (sets, added) = (locked(&self.sets), locked(&self.added));
        let sizes = self.keys.iter().map(|key| sets.get(key).map_or(0, HashSet::len) as u64);
        let compared = self.keys.iter().zip(sizes).zip(added.iter());
        compared
            .filter(|((_, found), expected)| found != *expected)
            .map(|((key, found), expected)| violation(key, "members after the adds", *expected, found))
            .collect()
    }
}

struct MutexRawMixClient {
    picker: rawmix::Picker,
    keys: Arc<[String]>,
    sets: Arc<Mutex<Sets>>,
    added: Vec<u64>,
    total: Arc<Mutex<Vec<u64>>>,
    /// What the last transaction's reads answered.
    sizes: [u64; OPERATIONS],
}

/// One operation; the size, where it asks for one.
fn add_or_count(sets: &mut Sets, key: &str, member: Option<String>) -> u64 {
    match (sets.get_mut(key), member) {
        (Some(set), Some(member)) => {
            set.insert(member);
            0
        }
        (None, Some(member)) => {
            sets.insert(key.to_owned(), HashSet::from([member]));
            0
        }
        (Some(set), None) => set.len() as u64,
        (None, None) => 0,
    }
}

impl MutexClient for MutexRawMixClient {
    fn transaction(&mut self, issue: Issue) {
        let picks = self.picker.draw();
        let mut members = picks.map(|pick| pick.add.map(|member| Digits::of(member).as_str().to_owned()));
        let mut held = (issue == Issue::Together).then(|| locked(&self.sets));
        for i in 0..OPERATIONS {
            let (key, member) = (&self.keys[picks[i].key], members[i].take());
            self.sizes[i] = match &mut held {
                Some(sets) => add_or_count(sets, key, member),
                None => add_or_count(&mut locked(&self.sets), key, member),
            };
        }
        drop(held);
        // As in the workload itself: no size may be less than what this client added before.
        for (pick, size) in picks.iter().zip(&self.sizes) {
            assert!(pick.add.is_some() || *size >= self.added[pick.key], "a set lost members");
        }
        for pick in &picks {
            self.added[pick.key] += u64::from(pick.add.is_some());
        }
    }

    fn finish(self: Box<Self>) {
        add_counts(&self.total, self.added);
    }
}

type Counters = HashMap<String, i64>;

/// The hot counter on a map of numbers.
#[derive(Debug)]
pub(crate) struct MutexHot {
    options: hot::Options,
    hot: Arc<str>,
    keys: Arc<[String]>,
    counters: Arc<Mutex<Counters>>,
    counted: Arc<Mutex<Vec<u64>>>,
}

impl MutexHot {
    /// With these parameters, on no counters.
    pub(crate) fn new(options: hot::Options) -> Self {
        MutexHot {
            hot: hot::hot_key(&options).to_string().into(),
            keys: table(&options.prefix, options.counters),
            counters: Arc::default(),
            counted: Arc::new(Mutex::new(vec![0; options.counters])),
            options,
        }
    }
}

impl MutexBaseline for MutexHot {
    fn client(&self, seed: u64) -> Box<dyn MutexClient> {
        Box::new(MutexHotClient {
            picker: hot::Picker::new(&self.options, seed),
            hot: self.hot.clone(),
            keys: self.keys.clone(),
            counters: self.counters.clone(),
            counted: vec![0; self.keys.len()],
            total: self.counted.clone(),
        })
    }

    fn verify(&self) -> Vec<Violation> {
        let (counters, counted) = (locked(&self.counters), locked(&self.counted));
        let of = |key: &str| counters.get(key).map_or(0, |value| value.unsigned_abs());
        let each = self.keys.iter().map(|key| &**key).zip(counted.iter().copied());
        each.chain([(&*self.hot, counted.iter().sum())])
            .filter(|(key, expected)| of(key) != *expected)
            .map(|(key, expected)| violation(key, "sum of the increments", expected, of(key)))
            .collect()
    }
}

struct MutexHotClient {
    picker: hot::Picker,
    hot: Arc<str>,
    keys: Arc<[String]>,
    counters: Arc<Mutex<Counters>>,
    counted: Vec<u64>,
    total: Arc<Mutex<Vec<u64>>>,
}

fn increment(counters: &mut Counters, key: &str) {
    match counters.get_mut(key) {
        Some(value) => *value += 1,
        None => {
            counters.insert(key.to_owned(), 1);
        }
    }
}

impl MutexClient for MutexHotClient {
    fn transaction(&mut self, issue: Issue) {
        let picked = self.picker.draw();
        match issue {
            Issue::Together => {
                let mut counters = locked(&self.counters);
                increment(&mut counters, &self.hot);
                increment(&mut counters, &self.keys[picked]);
            }
            Issue::Interactive => {
                increment(&mut locked(&self.counters), &self.hot);
                increment(&mut locked(&self.counters), &self.keys[picked]);
            }
        }
        self.counted[picked] += 1;
    }

    fn finish(self: Box<Self>) {
        add_counts(&self.total, self.counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(store: &dyn MutexBaseline, issue: Issue) {
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let mut client = store.client(seed);
                scope.spawn(move || {
                    for _ in 0..5_000 {
                        client.transaction(issue);
                    }
                    client.finish();
                });
            }
        });
    }

    #[test]
    fn raw_mix_counts_right_and_catches_a_loss() {
        for issue in [Issue::Together, Issue::Interactive] {
            let store = MutexRawMix::new(rawmix::Options { keys: 50, ..rawmix::Options::default() });
            run(&store, issue);
            assert_eq!(store.verify(), []);
            let member = locked(&store.sets)["raw:3"].iter().next().cloned().expect("members were added");
            locked(&store.sets).get_mut("raw:3").expect("it is there").remove(&member);
            assert_eq!(store.verify().len(), 1);
        }
    }

    #[test]
    fn hot_counts_right_and_catches_a_loss() {
        for issue in [Issue::Together, Issue::Interactive] {
            let store = MutexHot::new(hot::Options { counters: 50, ..hot::Options::default() });
            run(&store, issue);
            assert_eq!(store.verify(), []);
            assert_eq!(locked(&store.counters)["hot:total"], 10_000);
            *locked(&store.counters).get_mut("hot:total").expect("it is there") -= 1;
            assert_eq!(store.verify().len(), 1);
        }
    }
}
