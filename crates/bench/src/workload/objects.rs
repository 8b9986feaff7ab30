//! Objects: Warp's microbenchmark (`warp-2013` s.4.2), where nothing commutes because of its type.
//!
//! A transaction gets or puts so many different objects, all known up front; each is picked by a Zipf distribution, each is a put
//! with the same odds. A put tells nobody what was there, and replaces all of it.
//!
//! Invariant: each put writes the number of its client and of its transaction, and a client's choices are made from its seed
//! and that number alone. So who finds a value knows who wrote it and what else that transaction put: at the end each object holds
//! what an acknowledged transaction put there; what a get answers was put there by somebody, and not by one that failed; and what
//! a client put and then gets is never older than that.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Operation, Register, RegisterOp, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::check::Witness;
use super::{Batches, Call, Checker, Client, Kind, Promise, Run, Stage, Violation, Workload, Zipf};
use super::{bytes, names};

/// Its name.
pub(super) const NAME: &str = "objects";

const KINDS: &[Kind] = &[Kind::action("access")];

/// Parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Before every key.
    pub prefix: String,
    /// How many objects there are; at least as many as a transaction has.
    pub keys: usize,
    /// Skew of the objects: 0 is uniform.
    pub alpha: f64,
    /// How many objects a transaction has.
    pub objects: usize,
    /// The share of puts, in percent.
    pub writes_percent: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options { prefix: "obj:".to_owned(), keys: 10_000, alpha: 0.0, objects: 4, writes_percent: 50.0 }
    }
}

/// Makes the transactions of a client.
#[derive(Clone, Debug)]
struct Picker {
    options: Options,
    zipf: Arc<Zipf>,
    seed: u64,
}

impl Picker {
    /// What the transaction with this number accesses: objects, and whether it puts them.
    fn draw(&self, number: u64, picks: &mut Vec<(usize, bool)>) {
        let mut rng = SmallRng::seed_from_u64(self.seed.rotate_left(32) ^ number);
        let writes = (self.options.writes_percent / 100.0).clamp(0.0, 1.0);
        picks.clear();
        while picks.len() < self.options.objects {
            let object = self.zipf.pick(&mut rng);
            if picks.iter().all(|(known, _)| *known != object) {
                picks.push((object, rng.random_bool(writes)));
            }
        }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Objects {
    options: Options,
    keys: Arc<[Bytes]>,
    zipf: Arc<Zipf>,
}

impl Objects {
    /// With these parameters.
    pub fn new(options: Options) -> Self {
        let keys = names::table(&options.prefix, options.keys).into();
        let zipf = Arc::new(Zipf::new(options.keys, options.alpha));
        Objects { options, keys, zipf }
    }
}

impl Workload for Objects {
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
        Box::new(ObjectsRun {
            options: self.options.clone(),
            keys: Arc::clone(&self.keys),
            zipf: Arc::clone(&self.zipf),
            clients: AtomicU64::new(0),
            total: Arc::default(),
        })
    }
}

/// Who wrote a value: a client, and which of its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Writer {
    client: u64,
    number: u64,
}

impl Writer {
    fn value(self) -> Bytes {
        names::pair(self.client, self.number)
    }

    /// Reads a value; none if nobody here could have written it.
    fn of(value: &Bytes) -> Option<Writer> {
        let (client, number) = value.as_str()?.split_once('-')?;
        Some(Writer { client: client.parse().ok()?, number: number.parse().ok()? })
    }
}

/// What one client did.
#[derive(Debug)]
struct Done {
    picker: Picker,
    /// Its transactions have the numbers below.
    numbers: u64,
    /// Those that did not commit.
    failed: HashSet<u64>,
}

#[derive(Debug, Default)]
struct Tally {
    clients: HashMap<u64, Done>,
    /// Objects, and whose puts were seen there, each once.
    seen: HashSet<(usize, Writer)>,
    witness: Witness,
}

impl Tally {
    /// Whether this one was acknowledged and put this object.
    fn has_put(&self, writer: Writer, object: usize) -> bool {
        let Some(done) = self.clients.get(&writer.client) else { return false };
        let mut picks = Vec::new();
        done.picker.draw(writer.number, &mut picks);
        writer.number < done.numbers
            && !done.failed.contains(&writer.number)
            && picks.contains(&(object, true))
    }
}

struct ObjectsRun {
    options: Options,
    keys: Arc<[Bytes]>,
    zipf: Arc<Zipf>,
    /// How many there are so far.
    clients: AtomicU64,
    total: Arc<Mutex<Tally>>,
}

impl Run for ObjectsRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        let picker = Picker { options: self.options.clone(), zipf: Arc::clone(&self.zipf), seed };
        Box::new(ObjectsClient {
            client: self.clients.fetch_add(1, Ordering::Relaxed),
            keys: Arc::clone(&self.keys),
            number: 0,
            picks: Vec::with_capacity(self.options.objects),
            put: HashMap::new(),
            seen: Vec::new(),
            done: Done { picker, numbers: 0, failed: HashSet::new() },
            witness: Witness::default(),
            total: Arc::clone(&self.total),
        })
    }

    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation> {
        let total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checker = Checker::new(promise, read);
        checker.witness(&total.witness);
        for (object, writer) in &total.seen {
            if !total.has_put(*writer, *object) {
                let what = "a value that was got";
                checker.report(&self.keys[*object], what, "one that was put there", writer.value());
            }
        }
        let mut touched = HashSet::new();
        let mut picks = Vec::new();
        for done in total.clients.values() {
            for number in (0..done.numbers).filter(|number| !done.failed.contains(number)) {
                done.picker.draw(number, &mut picks);
                touched.extend(picks.iter().filter(|(_, puts)| *puts).map(|(object, _)| *object));
            }
        }
        for (object, key) in self.keys.iter().enumerate() {
            let found = checker.ask(key, Operation::new::<Register>(RegisterOp::Get));
            let is_right = match bytes(&found) {
                None => !touched.contains(&object),
                Some(value) => Writer::of(value).is_some_and(|writer| total.has_put(writer, object)),
            };
            if !is_right {
                let what = "the value at the end";
                checker.report(key, what, "one that an acknowledged transaction put there", found);
            }
        }
        checker.finish()
    }
}

struct ObjectsClient {
    client: u64,
    keys: Arc<[Bytes]>,
    /// Of the current transaction.
    number: u64,
    picks: Vec<(usize, bool)>,
    /// By object, the last of its own puts.
    put: HashMap<usize, u64>,
    /// Whose puts it saw, the first [`SEEN_MAX`] of them.
    seen: Vec<(usize, Writer)>,
    done: Done,
    witness: Witness,
    total: Arc<Mutex<Tally>>,
}

/// So many of the values that a client saw are looked at in the end: the first.
const SEEN_MAX: usize = 10_000;

impl ObjectsClient {
    fn note(&mut self, object: usize, reply: &Reply) {
        let key = &self.keys[object];
        let own = self.put.get(&object).copied();
        let Some(value) = bytes(reply) else {
            if own.is_some() {
                self.witness.seen.push(key, "GET by who put it", "a value", reply);
            }
            return;
        };
        match Writer::of(value) {
            None => self.witness.seen.push(key, "GET", "a value that somebody put", reply),
            Some(writer) if writer.client == self.client && own > Some(writer.number) => {
                self.witness.seen.push(key, "GET by who put a newer one", "that or another's", reply);
            }
            Some(writer) if self.seen.len() < SEEN_MAX => self.seen.push((object, writer)),
            Some(_) => {}
        }
    }

    fn ended(&mut self) {
        self.number += 1;
        self.done.numbers = self.number;
    }
}

impl Client for ObjectsClient {
    fn draw(&mut self) -> usize {
        self.done.picker.draw(self.number, &mut self.picks);
        0
    }

    fn stage(&mut self, _: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let writer = Writer { client: self.client, number: self.number };
        calls.extend(self.picks.iter().map(|(object, puts)| {
            let op = if *puts { RegisterOp::Set(writer.value()) } else { RegisterOp::Get };
            Call::new(&self.keys[*object], Operation::new::<Register>(op))
        }));
        Stage::Commit
    }

    fn restart(&mut self) {}

    fn committed(&mut self, replies: &[Reply]) {
        let picks = std::mem::take(&mut self.picks);
        for ((object, puts), reply) in picks.iter().zip(replies) {
            if !puts {
                self.note(*object, reply);
            }
        }
        for (object, _) in picks.iter().filter(|(_, puts)| *puts) {
            self.put.insert(*object, self.number);
        }
        self.picks = picks;
        self.ended();
    }

    fn gave_up(&mut self) {
        self.done.failed.insert(self.number);
        self.ended();
    }

    fn unknown(&mut self) {
        self.witness.unknown += 1;
        self.gave_up();
    }

    fn finish(self: Box<Self>) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.clients.insert(self.client, self.done);
        total.seen.extend(self.seen);
        total.witness.merge(self.witness);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(run: &dyn Run, seed: u64) -> (Box<dyn Client>, Vec<Call>) {
        let mut client = run.client(seed);
        client.draw();
        let mut calls = Vec::new();
        assert_eq!(client.stage(&[], &mut calls), Stage::Commit);
        (client, calls)
    }

    fn verified(answer: impl Fn(&Bytes, &[Call]) -> Reply, commits: bool) -> Vec<Violation> {
        let options = Options { keys: 8, objects: 2, writes_percent: 100.0, ..Options::default() };
        let run = Objects::new(options).run();
        let (mut client, calls) = put(run.as_ref(), 7);
        if commits {
            client.committed(&[Reply::Ok, Reply::Ok])
        } else {
            client.gave_up()
        }
        client.finish();
        run.verify(Promise::Transactions, &mut |call| answer(&call.key, &calls))
    }

    fn written(key: &Bytes, calls: &[Call]) -> Reply {
        let put = calls.iter().find(|call| call.key == *key);
        put.map_or(Reply::Nil, |_| Reply::Bytes(Writer { client: 0, number: 0 }.value()))
    }

    #[test]
    fn what_was_put_is_expected_and_nothing_else() {
        assert_eq!(verified(written, true), []);
        assert_eq!(verified(|_, _| Reply::Nil, true).len(), 2, "puts are lost");
        assert_eq!(verified(written, false).len(), 2, "puts of one that failed");
        let elsewhere = |_: &Bytes, _: &[Call]| Reply::Bytes(Writer { client: 0, number: 0 }.value());
        assert_eq!(verified(elsewhere, true).len(), 6, "values of other objects");
        let nobodys = |_: &Bytes, _: &[Call]| Reply::Bytes(Bytes::from("17"));
        assert_eq!(verified(nobodys, true).len(), 8);
    }

    #[test]
    fn what_is_older_than_ones_own_is_noticed() {
        let run =
            Objects::new(Options { keys: 2, objects: 1, writes_percent: 50.0, ..Options::default() }).run();
        let mut client = run.client(1);
        let (mut puts, mut calls) = (None, Vec::new());
        // Until it gets the object that it put last.
        loop {
            client.draw();
            calls.clear();
            client.stage(&[], &mut calls);
            if calls[0].op.returns() && puts == Some(calls[0].key.clone()) {
                break;
            }
            let reply = if calls[0].op.returns() { Reply::Nil } else { Reply::Ok };
            if calls[0].op.returns() {
                client.gave_up();
                continue;
            }
            puts = Some(calls[0].key.clone());
            client.committed(&[reply]);
        }
        client.committed(&[Reply::Nil]);
        client.finish();
        let lost = run.verify(Promise::Operations, &mut |_| Reply::Nil);
        assert!(lost.iter().any(|it| it.what == "GET by who put it"), "{lost:?}");
    }
}
