//! Fairness: one writer among readers of one record.
//!
//! Not in the papers. Every client but the first reads the hot counter and one of many others; the first adds one
//! to the hot counter and to one of the others. Under locks the writer has to get in between readers that are
//! always there. How long that takes is its latency, which is reported by kind; phases bound it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::check::Witness;
use super::{Batches, Call, Checker, Client, Kind, Promise, Run, Stage, Violation, Workload};
use super::{integer, names, ops};

/// Its name.
pub(super) const NAME: &str = "fair";

const KINDS: &[Kind] = &[Kind::action("read"), Kind::action("write")];

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
        Options { prefix: "fair:".to_owned(), counters: 10_000 }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Fair {
    hot: Bytes,
    keys: Arc<[Bytes]>,
}

impl Fair {
    /// With these parameters.
    pub fn new(options: &Options) -> Self {
        let hot = Bytes::from(format!("{}hot", options.prefix));
        Fair { hot, keys: names::table(&options.prefix, options.counters).into() }
    }
}

impl Workload for Fair {
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
        Box::new(FairRun {
            hot: self.hot.clone(),
            keys: self.keys.clone(),
            has_writer: AtomicBool::new(false),
            total: Arc::new(Mutex::new(Tally::new(self.keys.len()))),
        })
    }
}

#[derive(Debug)]
struct Tally {
    /// Acknowledged increments of each counter besides the hot one.
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

struct FairRun {
    hot: Bytes,
    keys: Arc<[Bytes]>,
    has_writer: AtomicBool,
    total: Arc<Mutex<Tally>>,
}

impl Run for FairRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        Box::new(FairClient {
            rng: SmallRng::seed_from_u64(seed),
            hot: self.hot.clone(),
            keys: self.keys.clone(),
            writes: !self.has_writer.swap(true, Ordering::Relaxed),
            current: 0,
            seen: 0,
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

struct FairClient {
    rng: SmallRng,
    hot: Bytes,
    keys: Arc<[Bytes]>,
    writes: bool,
    current: usize,
    /// The hot counter as it was last read: it only grows.
    seen: i64,
    tally: Tally,
    total: Arc<Mutex<Tally>>,
}

impl Client for FairClient {
    fn draw(&mut self) -> usize {
        self.current = self.rng.random_range(0..self.keys.len());
        usize::from(self.writes)
    }

    fn stage(&mut self, _: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let op = || if self.writes { ops::incrby(1) } else { ops::get() };
        calls.push(Call::new(&self.hot, op()));
        calls.push(Call::new(&self.keys[self.current], op()));
        Stage::Commit
    }

    fn restart(&mut self) {}

    fn committed(&mut self, replies: &[Reply]) {
        if self.writes {
            self.tally.counts[self.current] += 1;
            return;
        }
        // The other counter is never ahead of the sum of all that was added with it.
        let (hot, other) = (integer(&replies[0]), integer(&replies[1]));
        if hot < self.seen {
            self.tally.witness.seen.push(&self.hot, "GET by who read it before", self.seen, hot);
        }
        if other > hot {
            let seen = &mut self.tally.witness.seen_in_transactions;
            seen.push(&self.keys[self.current], "GET beside the sum", format!("at most {hot}"), other);
        }
        self.seen = hot;
    }

    fn gave_up(&mut self) {}

    fn unknown(&mut self) {
        self.tally.witness.unknown += 1;
    }

    fn finish(self: Box<Self>) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(self.tally);
    }
}
