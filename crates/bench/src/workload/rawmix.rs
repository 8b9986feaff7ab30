//! The raw operation mix (`claret-2015` s.6.1, dissertation s.4.5.1).
//!
//! A transaction is four operations known up front, each either `SCARD` or `SADD` of a new member, on keys
//! picked by a Zipf distribution.
//!
//! Invariant: members are never added twice (a client counts from a random 64-bit start through a
//! bijection; that two clients meet has odds of about one in 10^7 for hundreds of clients with 10^7 adds
//! each), so at the end the size of a set is the number of acknowledged adds to it. During the run no
//! size read by a client may be less than what that client alone has added.

use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::check::Witness;
use super::{Batches, Call, Checker, Client, Kind, Promise, Run, Stage, Violation, Workload, Zipf};
use super::{integer, names, ops};

/// How many operations a transaction has.
pub(crate) const OPERATIONS: usize = 4;

/// Its name.
pub(super) const NAME: &str = "rawmix";

const KINDS: &[Kind] = &[Kind::action("mix")];

/// Parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Before every key.
    pub prefix: String,
    /// How many sets.
    pub keys: usize,
    /// Skew of the keys: 0 is uniform.
    pub alpha: f64,
    /// The share of `SADD` in percent.
    pub adds_percent: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options { prefix: "raw:".to_owned(), keys: 10_000, alpha: 0.6, adds_percent: 50.0 }
    }
}

/// One operation of a transaction, as drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// Which key.
    pub key: usize,
    /// The member to add; `None` for `SCARD`.
    pub add: Option<u64>,
}

/// Draws transactions: the random choices of a client, whatever it runs on.
#[derive(Debug)]
pub(crate) struct Picker {
    rng: SmallRng,
    zipf: Arc<Zipf>,
    adds: f64,
    next_member: u64,
}

impl Picker {
    /// The choices of the client with this seed.
    pub(crate) fn new(options: &Options, zipf: Arc<Zipf>, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let next_member = rng.random();
        Picker { rng, zipf, adds: (options.adds_percent / 100.0).clamp(0.0, 1.0), next_member }
    }

    /// The next transaction.
    pub(crate) fn draw(&mut self) -> [Pick; OPERATIONS] {
        std::array::from_fn(|_| {
            let key = self.zipf.pick(&mut self.rng);
            let add = self.rng.random_bool(self.adds).then(|| {
                self.next_member = self.next_member.wrapping_add(1);
                scrambled(self.next_member)
            });
            Pick { key, add }
        })
    }
}

/// A bijection of 64-bit numbers whose results look random: the finalizer of SplitMix64.
fn scrambled(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The workload.
#[derive(Debug)]
pub struct RawMix {
    options: Options,
    keys: Arc<[Bytes]>,
    zipf: Arc<Zipf>,
}

impl RawMix {
    /// With these parameters.
    pub fn new(options: Options) -> Self {
        let keys = names::table(&options.prefix, options.keys).into();
        let zipf = Arc::new(Zipf::new(options.keys, options.alpha));
        RawMix { options, keys, zipf }
    }
}

impl Workload for RawMix {
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
        Box::new(RawMixRun {
            options: self.options.clone(),
            keys: self.keys.clone(),
            zipf: self.zipf.clone(),
            total: Arc::new(Mutex::new(Tally::new(self.keys.len()))),
        })
    }
}

#[derive(Debug)]
struct Tally {
    /// Acknowledged adds of each key.
    adds: Vec<u64>,
    witness: Witness,
}

impl Tally {
    fn new(keys: usize) -> Self {
        Tally { adds: vec![0; keys], witness: Witness::default() }
    }

    fn merge(&mut self, other: Tally) {
        for (sum, more) in self.adds.iter_mut().zip(other.adds) {
            *sum += more;
        }
        self.witness.merge(other.witness);
    }
}

struct RawMixRun {
    options: Options,
    keys: Arc<[Bytes]>,
    zipf: Arc<Zipf>,
    total: Arc<Mutex<Tally>>,
}

impl Run for RawMixRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        Box::new(RawMixClient {
            picker: Picker::new(&self.options, self.zipf.clone(), seed),
            keys: self.keys.clone(),
            current: [Pick { key: 0, add: None }; OPERATIONS],
            tally: Tally::new(self.keys.len()),
            total: self.total.clone(),
        })
    }

    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation> {
        let total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checker = Checker::new(promise, read);
        checker.witness(&total.witness);
        for (key, adds) in self.keys.iter().zip(&total.adds) {
            checker.expect(
                key,
                ops::scard(),
                "members after the acknowledged adds",
                &Reply::Int(*adds as i64),
            );
        }
        checker.finish()
    }
}

struct RawMixClient {
    picker: Picker,
    keys: Arc<[Bytes]>,
    current: [Pick; OPERATIONS],
    tally: Tally,
    total: Arc<Mutex<Tally>>,
}

impl Client for RawMixClient {
    fn draw(&mut self) -> usize {
        self.current = self.picker.draw();
        0
    }

    fn stage(&mut self, _: &[Reply], calls: &mut Vec<Call>) -> Stage {
        calls.extend(self.current.iter().map(|pick| {
            let op = match pick.add {
                Some(member) => ops::sadd(names::decimal(member)),
                None => ops::scard(),
            };
            Call::new(&self.keys[pick.key], op)
        }));
        Stage::Commit
    }

    fn restart(&mut self) {}

    fn committed(&mut self, replies: &[Reply]) {
        assert_eq!(replies.len(), OPERATIONS, "a reply for each call");
        for (pick, reply) in self.current.iter().zip(replies) {
            let own = self.tally.adds[pick.key];
            if pick.add.is_none() && integer(reply) < own as i64 {
                let expected = format!("at least {own}");
                self.tally.witness.seen.push(&self.keys[pick.key], "SCARD by who added", expected, reply);
            }
        }
        for pick in &self.current {
            self.tally.adds[pick.key] += u64::from(pick.add.is_some());
        }
    }

    fn gave_up(&mut self) {}

    fn unknown(&mut self) {
        self.tally.witness.unknown += 1;
    }

    fn finish(self: Box<Self>) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(self.tally);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn picker(adds_percent: f64) -> Picker {
        let options = Options { adds_percent, ..Options::default() };
        Picker::new(&options, Arc::new(Zipf::new(options.keys, options.alpha)), 1)
    }

    #[test]
    fn adds_have_their_share() {
        for percent in [0.0, 20.0, 50.0, 100.0] {
            let mut picker = picker(percent);
            let adds = (0..25_000).flat_map(|_| picker.draw()).filter(|pick| pick.add.is_some()).count();
            let share = adds as f64 / 1_000.0;
            assert!((share - percent).abs() < 1.0, "{share} % adds of {percent} % asked for");
        }
    }

    #[test]
    fn members_are_never_drawn_twice() {
        let mut picker = picker(100.0);
        let members: HashSet<_> = (0..25_000).flat_map(|_| picker.draw()).map(|pick| pick.add).collect();
        assert_eq!(members.len(), 100_000);
    }

    #[test]
    fn a_seed_decides_all_choices() {
        let (mut one, mut other) = (picker(50.0), picker(50.0));
        assert!((0..1_000).all(|_| one.draw() == other.draw()));
    }
}
