//! Runs a fixed number of transactions with fixed seeds: for counting what a transaction costs (`tools/instructions`),
//! where a run of a fixed time would count another load each time.
//!
//! ```text
//! fixed_load STORE MODE WORKLOAD BEFORE COUNT SEED
//! ```
//!
//! It does BEFORE transactions, prints `ready`, waits for a line, does COUNT more, prints how many they were, and waits
//! for another line before it ends: what is counted is what happens between the lines.
//!
//! - STORE: `embedded` or `redis://HOST:PORT`.
//! - MODE: as of `claret bench`, those of the store alone.
//! - SEED: runs with different ones make different choices.
//! - WORKLOAD: `hot`, `rawmix`, `interactive` (the raw mix, one operation after the other), `tpcc` (10 small warehouses), or
//!   `KIND:OPERATIONS:SHARDS`: so many operations of one kind (`sadd`, `scard`, `incrby`) at each of so many shards of a
//!   cluster of four, whose slots are dealt out evenly in order.

use std::future::Future;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claret::{
    Abort, AtCommit, Error, Reply, Store, Tx, TxOptions,
    lab::{Mode, StoreLab},
};
use claret_bench::workload::{Call, Client, Stage, Workload, hot, ops, rawmix, tpcc};
use claret_bench::{BenchMode, Engine};
use claret_types::{Bytes, Operation};

const USAGE: &str = "fixed_load STORE MODE WORKLOAD BEFORE COUNT SEED";

/// Transactions under way at a time, all of one thread.
const CLIENTS: u64 = 64;

/// Shards of the cluster that `KIND:OPERATIONS:SHARDS` is meant for.
const SHARDS: usize = 4;

/// Records at each of them.
const RECORDS: usize = 2_500;

/// What clients do.
enum Load {
    /// A workload of the benchmark.
    Known { workload: Box<dyn Workload>, pace: Pace },
    /// The same number of operations at each of some shards.
    Even(Arc<Even>),
}

/// How the operations of a transaction leave.
#[derive(Clone, Copy)]
enum Pace {
    /// All in one batch.
    Together,
    /// Each once the one before it is answered.
    OneByOne,
    /// Those of a stage together, those of the last stage with the commit. Some may look without locks.
    Staged { may_look: bool },
}

struct Even {
    kind: String,
    operations: usize,
    shards: usize,
    /// Keys by shard.
    keys: Vec<Vec<Bytes>>,
}

impl Even {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let kind = parts.next()?.to_owned();
        let (operations, shards) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let is_known = ["sadd", "scard", "incrby"].contains(&kind.as_str());
        if !is_known || parts.next().is_some() || !(1..=SHARDS).contains(&shards) {
            return None;
        }
        let mut keys = vec![Vec::new(); SHARDS];
        for number in 0.. {
            let key = format!("{kind}:{number}");
            let at = usize::from(claret_rig::slot_of(&key)) * SHARDS / usize::from(claret_rig::SLOTS);
            if keys[at].len() < RECORDS {
                keys[at].push(Bytes::from(key));
            } else if keys.iter().all(|keys| keys.len() == RECORDS) {
                break;
            }
        }
        Some(Even { kind, operations, shards, keys })
    }

    /// The operations of the transaction with this number.
    fn calls(&self, number: u64) -> Vec<(Bytes, Operation)> {
        let first = number as usize;
        let at_shard = |shard: usize| {
            let keys = &self.keys[(first + shard) % SHARDS];
            (0..self.operations).map(move |at| (first * self.operations + at, keys))
        };
        let op = |at: usize| match self.kind.as_str() {
            "sadd" => ops::sadd(Bytes::from((1_000_000_000 + at).to_string())),
            "scard" => ops::scard(),
            _ => ops::incrby(1),
        };
        let placed = (0..self.shards).flat_map(at_shard);
        // A stride, so that neighbours in time are no neighbours in the keyspace.
        placed.map(|(at, keys)| (keys[at * 7 % RECORDS].clone(), op(at))).collect()
    }
}

impl Load {
    fn parse(text: &str, mode: Mode) -> Option<Self> {
        let raw = || Box::new(rawmix::RawMix::new(rawmix::Options::default()));
        Some(match text {
            "hot" => {
                let workload = Box::new(hot::Hot::new(hot::Options::default()));
                Load::Known { workload, pace: Pace::Together }
            }
            "rawmix" => Load::Known { workload: raw(), pace: Pace::Together },
            "interactive" => Load::Known { workload: raw(), pace: Pace::OneByOne },
            "tpcc" => {
                let options = tpcc::Options { warehouses: 10, scale: 0.01, ..tpcc::Options::default() };
                let pace = Pace::Staged { may_look: mode != Mode::None };
                Load::Known { workload: Box::new(tpcc::Tpcc::new(options)), pace }
            }
            other => Load::Even(Arc::new(Even::parse(other)?)),
        })
    }

    /// Puts into the store what is to be there before clients come.
    async fn prepare(&self, store: &Store) {
        let Load::Known { workload, .. } = self else { return };
        for batch in workload.load() {
            let loaded = store.run_all(batch.into_iter().map(|call| (call.key, call.op))).await;
            loaded.expect("nobody is in the way");
        }
    }

    fn clients(&self, seed: u64) -> Vec<Box<dyn Client>> {
        match self {
            Load::Known { workload, .. } => {
                let run = workload.run();
                (0..CLIENTS).map(|number| run.client(seed * CLIENTS + number)).collect()
            }
            Load::Even(_) => Vec::new(),
        }
    }

    /// Each client does so many transactions, after `before` others. Gives the clients back.
    async fn run(
        &self,
        store: &Store,
        clients: Vec<Box<dyn Client>>,
        each: u64,
        before: u64,
    ) -> Vec<Box<dyn Client>> {
        match self {
            Load::Known { pace: Pace::OneByOne, .. } => {
                all(clients.into_iter().map(|client| one_by_one(store.clone(), client, each))).await
            }
            Load::Known { pace: Pace::Together, .. } => {
                all(clients.into_iter().map(|client| together(store.clone(), client, each))).await
            }
            Load::Known { pace: Pace::Staged { may_look }, .. } => {
                all(clients.into_iter().map(|client| staged(store.clone(), client, each, *may_look))).await
            }
            Load::Even(even) => {
                let one = |number| {
                    let (store, even) = (store.clone(), Arc::clone(even));
                    async move {
                        for turn in before..before + each {
                            let done = store.run_all(even.calls(turn * CLIENTS + number)).await;
                            done.expect("a transaction commits");
                        }
                    }
                };
                all((0..CLIENTS).map(one)).await;
                clients
            }
        }
    }
}

/// Each in a task of its own; what they give.
async fn all<T, F>(work: impl Iterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = work.map(tokio::spawn).collect();
    let mut given = Vec::with_capacity(tasks.len());
    for task in tasks {
        given.push(task.await.expect("a client goes on to its end"));
    }
    given
}

/// One transaction after another, each in one batch.
async fn together(store: Store, mut client: Box<dyn Client>, count: u64) -> Box<dyn Client> {
    let mut calls: Vec<Call> = Vec::new();
    for _ in 0..count {
        client.draw();
        calls.clear();
        assert_eq!(client.stage(&[], &mut calls), Stage::Commit, "the workloads here have one stage");
        let done = store.run_all(calls.drain(..).map(|call| (call.key, call.op))).await;
        client.committed(&done.expect("a transaction commits"));
    }
    client
}

/// One transaction after another, each operation awaited by itself.
async fn one_by_one(store: Store, mut client: Box<dyn Client>, count: u64) -> Box<dyn Client> {
    let mut calls: Vec<Call> = Vec::new();
    for _ in 0..count {
        client.draw();
        calls.clear();
        client.stage(&[], &mut calls);
        let done = store.transaction(async |tx| attempt(&tx, &calls).await).await;
        client.committed(&done.expect("a transaction commits"));
    }
    client
}

async fn attempt(tx: &Tx, calls: &[Call]) -> Result<Vec<Reply>, Abort> {
    let mut replies = Vec::with_capacity(calls.len());
    for call in calls {
        replies.push(match call.op.returns() {
            true => tx.execute(call.key.clone(), call.op.clone()).await?,
            false => tx.issue(call.key.clone(), call.op.clone()).map(|()| Reply::Ok)?,
        });
    }
    Ok(replies)
}

/// One transaction after another, each stage by stage; as `claret bench` does it.
async fn staged(store: Store, client: Box<dyn Client>, count: u64, may_look: bool) -> Box<dyn Client> {
    let client = Mutex::new(client);
    let client_of = || client.lock().expect("nobody panics with it");
    for _ in 0..count {
        client_of().draw();
        let looks = may_look && client_of().looks();
        let options = TxOptions::new().deadline(Duration::from_secs(60)); // Under a tool servers are slow.
        let options = if looks { options.optimistic() } else { options };
        let done = store.tx().options(options).run(|tx| stages(tx, &client)).await;
        match done {
            Ok(last) => client_of().committed(&last.replies().expect("it committed").into_inner()),
            Err(Error::Aborted(_)) if client_of().rolls_back() => client_of().gave_up(),
            Err(error) => panic!("a transaction commits, or is rolled back: {error}"),
        }
    }
    client.into_inner().expect("nobody panics with it")
}

async fn stages(tx: Tx, client: &Mutex<Box<dyn Client>>) -> Result<AtCommit, Abort> {
    let next = |replies: &[Reply]| {
        let mut calls = Vec::new();
        let stage = client.lock().expect("nobody panics with it").stage(replies, &mut calls);
        (calls, stage)
    };
    client.lock().expect("nobody panics with it").restart();
    let (mut calls, mut stage) = next(&[]);
    while stage == Stage::Read {
        let answers: Vec<_> = calls.into_iter().map(|call| tx.execute(call.key, call.op)).collect();
        let mut replies = Vec::with_capacity(answers.len());
        for answer in answers {
            replies.push(answer.await?);
        }
        (calls, stage) = next(&replies);
    }
    if client.lock().expect("nobody panics with it").rolls_back() {
        return Err(Abort::because("its user gave it up"));
    }
    let last = tx.at_commit();
    for call in calls {
        let _ = last.push::<Reply>(call.key, call.op);
    }
    Ok(last)
}

async fn open(url: &str, mode: Mode) -> Result<Store, String> {
    match url {
        "embedded" => Ok(Store::builder().mode(mode).build()),
        url => Store::cluster(url).mode(mode).connect().await.map_err(|error| error.to_string()),
    }
}

fn run(words: &[String]) -> Result<(), String> {
    let [url, mode, workload, numbers @ ..] = words else { return Err(USAGE.into()) };
    let Engine::Store(mode) = BenchMode::parse(mode)?.on_a_store().engine else {
        return Err(format!("'{mode}' is no mode of the store"));
    };
    let load = Load::parse(workload, mode).ok_or_else(|| format!("there is no workload '{workload}'"))?;
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|number| number.parse()).collect();
    let Ok([before, count, seed]) = numbers.as_deref() else { return Err(USAGE.into()) };
    let (before, each) = (before / CLIENTS, count / CLIENTS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let store = open(url, mode).await?;
        load.prepare(&store).await;
        let clients = load.run(&store, load.clients(*seed), before, 0).await;
        stop("ready");
        let restarts = store.stats().restarts;
        load.run(&store, clients, each, before).await;
        let restarts = store.stats().restarts - restarts;
        stop(&format!("{{\"transactions\":{},\"restarts\":{restarts}}}", each * CLIENTS));
        store.close().await.expect("it closes");
        Ok(())
    })
}

/// Says something and waits for a line, or the end of all lines: what is counted begins, or ends, in between.
fn stop(said: &str) {
    println!("{said}");
    // Nobody there is nobody to wait for.
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
