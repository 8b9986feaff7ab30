//! The hot counter: what most people run into first, one record that every transaction writes.
//!
//! Not in the papers: a transaction adds one to the same counter always and to one of many counters picked
//! uniformly (a page view: the site's total and the page's own). Its increments commute; under
//! reader/writer locks they queue. At the end each counter is the number of acknowledged increments.

use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::check::Witness;
use super::{Batches, Call, Checker, Client, Kind, Promise, Run, Stage, Violation, Workload};
use super::{names, ops};

/// Its name.
pub(super) const NAME: &str = "hot";

const KINDS: &[Kind] = &[Kind::action("count")];

/// Parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Before every key.
    pub prefix: String,
    /// How many counters beside the hot one.
    pub counters: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { prefix: "hot:".to_owned(), counters: 10_000 }
    }
}

/// The key of the hot counter.
pub fn hot_key(options: &Options) -> Bytes {
    Bytes::from(format!("{}total", options.prefix))
}

/// Draws transactions: which counter besides the hot one.
#[derive(Debug)]
pub(crate) struct Picker {
    rng: SmallRng,
    counters: usize,
}

impl Picker {
    /// The choices of the client with this seed.
    pub(crate) fn new(options: &Options, seed: u64) -> Self {
        Picker { rng: SmallRng::seed_from_u64(seed), counters: options.counters }
    }

    /// The next transaction.
    pub(crate) fn draw(&mut self) -> usize {
        self.rng.random_range(0..self.counters)
    }
}

/// The workload.
#[derive(Debug)]
pub struct Hot {
    options: Options,
    hot: Bytes,
    keys: Arc<[Bytes]>,
}

impl Hot {
    /// With these parameters.
    pub fn new(options: Options) -> Self {
        let keys = names::table(&options.prefix, options.counters).into();
        Hot { hot: hot_key(&options), options, keys }
    }
}

impl Workload for Hot {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn load(&self) -> Batches<'_> {
        Box::new(std::iter::empty())
    }

    fn run(&self) -> Box<dyn Run> {
        Box::new(HotRun {
            options: self.options.clone(),
            hot: self.hot.clone(),
            keys: self.keys.clone(),
            total: Arc::new(Mutex::new(Tally::new(self.keys.len()))),
        })
    }
}

#[derive(Debug)]
struct Tally {
    /// Acknowledged increments of each counter.
    counts: Vec<u64>,
    witness: Witness,
}

impl Tally {
    fn new(counters: usize) -> Self {
        Tally { counts: vec![0; counters], witness: Witness::default() }
    }

    fn merge(&mut self, other: Tally) {
        for (sum, more) in self.counts.iter_mut().zip(other.counts) {
            *sum += more;
        }
        self.witness.merge(other.witness);
    }
}

struct HotRun {
    options: Options,
    hot: Bytes,
    keys: Arc<[Bytes]>,
    total: Arc<Mutex<Tally>>,
}

impl Run for HotRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        Box::new(HotClient {
            picker: Picker::new(&self.options, seed),
            hot: self.hot.clone(),
            keys: self.keys.clone(),
            current: 0,
            tally: Tally::new(self.keys.len()),
            total: self.total.clone(),
        })
    }

    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation> {
        const WHAT: &str = "sum of the acknowledged increments";
        let total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checker = Checker::new(promise, read);
        checker.witness(&total.witness);
        let sum: u64 = total.counts.iter().sum();
        checker.expect(&self.hot, ops::get(), WHAT, &Reply::Int(sum as i64));
        for (key, count) in self.keys.iter().zip(&total.counts) {
            checker.expect(key, ops::get(), WHAT, &Reply::Int(*count as i64));
        }
        checker.finish()
    }
}

struct HotClient {
    picker: Picker,
    hot: Bytes,
    keys: Arc<[Bytes]>,
    current: usize,
    tally: Tally,
    total: Arc<Mutex<Tally>>,
}

impl Client for HotClient {
    fn draw(&mut self) -> usize {
        self.current = self.picker.draw();
        0
    }

    fn stage(&mut self, _: &[Reply], calls: &mut Vec<Call>) -> Stage {
        calls.push(Call::new(&self.hot, ops::incrby(1)));
        calls.push(Call::new(&self.keys[self.current], ops::incrby(1)));
        Stage::Commit
    }

    fn restart(&mut self) {}

    fn committed(&mut self, _: &[Reply]) {
        self.tally.counts[self.current] += 1;
    }

    fn gave_up(&mut self) {}

    fn unknown(&mut self) {
        self.tally.witness.unknown += 1;
    }

    fn finish(self: Box<Self>) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(self.tally);
    }
}
