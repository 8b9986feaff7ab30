//! A process with clients: opens the store, tells what its clients are about to write and what became of it, and may be
//! killed at any moment.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claret::types::{Counter, CounterOp, Few, Set, SetOp};
use claret::{
    Bytes, Error, Operation, OutcomeId, Records as _, Store, TxOptions,
    errors::{CommitError, ExecuteError},
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::answers::{self, ask};
use super::children::{BECAUSE, BROKEN, DONE, READY, TOLD};
use super::plan::Tortured;
use super::records::{ACCOUNTS, CLIENTS_MAX, GENERATION_US, LEDGERS, LISTS, Records, SETS};
use super::worker_log::Told;
use crate::bank::sum;
use crate::clock::Clock;
use crate::history::{Entry, Outcome, Step, Why};
use crate::intent::{Action, Intent, Kind};
use crate::traffic::{Ended, Failure, all_at_once, meant, one_by_one};
use crate::way;

/// A transaction gives up after this.
const DEADLINE: Duration = Duration::from_secs(4);

/// How long a node may be silent.
const RESPONSE_TIME: Duration = Duration::from_millis(1_500);

/// How often it is tried to connect, and how long between: nodes may be down.
const CONNECT_TRIES: u32 = 100;
const CONNECT_PAUSE: Duration = Duration::from_millis(300);

/// Who was told what became of a transaction asks again after this.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// A snapshot is made so often, in bytes of the log: many in a run.
const SNAPSHOT_AFTER: u64 = 256 << 10;

/// So many numbers for each process: none is used twice in a run.
const NUMBERS: u64 = 1 << 24;

struct Work {
    store: Store,
    clock: Clock,
    tortured: Tortured,
    numbers: AtomicU64,
    /// Those who ask for outcomes.
    asking: Mutex<JoinSet<Result<(), String>>>,
    stop: Arc<AtomicBool>,
}

/// Takes part in the torture of the process that started this one, until that one says so or is gone. Standard input and
/// output are its.
///
/// # Errors
/// The store cannot be opened.
pub fn take_part_in_torture(tortured: Tortured) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("starting threads: {error}"))?;
    let worked = runtime.block_on(work(tortured));
    if let Err(why) = &worked {
        say(&format!("{BROKEN}{}", why.replace('\n', " ")));
    }
    worked
}

/// A line, in one piece. Without a parent there is nothing left to do.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

async fn work(tortured: Tortured) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        // A line, or the end of the parent.
        let _ = std::io::stdin().read_line(&mut String::new());
        told.store(true, Ordering::Relaxed);
    });
    let store = open(&tortured).await?;
    let clock = Clock::new(Some(tortured.epoch));
    let clients = tortured.clients;
    let work = Arc::new(Work {
        store: store.clone(),
        clock,
        tortured,
        numbers: AtomicU64::new(0),
        asking: Mutex::default(),
        stop,
    });
    // Everything that was acknowledged lately is there.
    let now = clock.now() / GENERATION_US;
    for generation in now.saturating_sub(1)..=now {
        work.look(generation).await?;
    }
    say(READY);
    let mut tasks = JoinSet::new();
    for number in 0..clients {
        let work = Arc::clone(&work);
        tasks.spawn(async move { Client::new(work, number).run().await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap_or_else(|error| Err(format!("a client ended badly: {error}")))?;
    }
    let asking = std::mem::take(&mut *work.asking.lock().expect("nobody panics with it"));
    for asked in asking.join_all().await {
        asked?;
    }
    store.close().await.map_err(|error| error.to_string())?;
    say(DONE);
    Ok(())
}

/// Of its transactions.
fn options() -> TxOptions {
    TxOptions::new().deadline(DEADLINE)
}

/// Opens the store of a run.
///
/// # Errors
/// It cannot be opened.
pub(super) async fn open(tortured: &Tortured) -> Result<Store, String> {
    let options = options();
    let url = match &tortured.store {
        Ok(folder) => {
            let builder = Store::builder().sync(tortured.sync).snapshot_after(SNAPSHOT_AFTER);
            let opened = builder.transactions(options).open(folder);
            return opened.map_err(|error| format!("the store is not opened: {error}"));
        }
        Err(url) => url,
    };
    let mut tries = 1;
    loop {
        let builder = Store::cluster(url).transactions(options).response_timeout(RESPONSE_TIME);
        match builder.connect().await {
            Ok(store) => return Ok(store),
            Err(error) if tries == CONNECT_TRIES => return Err(error.to_string()),
            Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
        }
        tries += 1;
    }
}

impl Work {
    /// A client that is no task: the last numbers are its.
    fn reader(self: &Arc<Self>) -> Client {
        Client::new(Arc::clone(self), CLIENTS_MAX - 1)
    }

    /// Asks what became of a transaction of this generation, client and time, and once more: what was told stays so.
    async fn ask(
        self: Arc<Self>,
        (generation, client, began): (u64, u64, u64),
        id: OutcomeId,
    ) -> Result<(), String> {
        for _ in 0..2 {
            let asked = ask(&self.store, &id, |error| because(error).map(drop)).await;
            let committed = match asked {
                Ok(Some(committed)) => committed,
                Ok(None) => return Ok(()),
                Err(why) => {
                    say(&format!("{BROKEN}{}", why.replace('\n', " ")));
                    return Err(why);
                }
            };
            let told = answers::Told { client, began, told: self.clock.now(), committed };
            say(&format!("{TOLD}{generation} {}", serde_json::to_string(&told).expect("numbers")));
            tokio::time::sleep(ASK_AGAIN).await;
        }
        Ok(())
    }

    /// Reads the records of a generation.
    async fn look(self: &Arc<Self>, generation: u64) -> Result<(), String> {
        let mut reader = self.reader();
        let records = Records::new(&self.tortured.prefix, generation);
        let lists = records.lists().map(|key| Intent::read(&key, Kind::List));
        let reads: Vec<Intent> =
            lists.chain(records.sets().map(|key| Intent::read(&key, Kind::Set))).collect();
        let began = reader.begin(generation, Vec::new()).await;
        let ended = all_at_once(&self.store, &reads).await;
        reader.end(generation, began, ended, Vec::new())?;
        let began = reader.begin(generation, Vec::new()).await;
        let ended = audit(&self.store, &records).await;
        reader.end(generation, began, ended, Vec::new())
    }
}

/// What all accounts hold together.
pub(super) async fn audit(store: &Store, records: &Records) -> Ended {
    let get = |key: String| (Bytes::from(key), Operation::new::<Counter>(CounterOp::Get));
    let replies = store.run_all(records.accounts().map(get)).await.map_err(Failure::Store)?;
    let total = sum(&replies).map_err(Failure::Broken)?;
    Ok(vec![Step::Total(records.bank(), total)])
}

struct Client {
    work: Arc<Work>,
    number: u64,
    random: SmallRng,
    last_ended: u64,
}

impl Client {
    fn new(work: Arc<Work>, number: u64) -> Self {
        let number = work.tortured.life * CLIENTS_MAX + number;
        let random = SmallRng::seed_from_u64(work.tortured.seed.wrapping_mul(1_000_003).wrapping_add(number));
        Client { work, number, random, last_ended: 0 }
    }

    async fn run(mut self) -> Result<(), String> {
        while !self.work.stop.load(Ordering::Relaxed) {
            match self.number % 3 {
                0 => self.intents(Kind::List).await?,
                1 => self.intents(Kind::Set).await?,
                _ => self.bank().await?,
            }
            let pause = self.pause();
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Mostly some milliseconds, so that a run is a history and no flood.
    fn pause(&mut self) -> Duration {
        let most_us = if self.random.random_range(0..20) == 0 { 100_000 } else { 12_000 };
        Duration::from_micros(self.random.random_range(0..=most_us))
    }

    fn draw_number(&self) -> u64 {
        self.work.tortured.life * NUMBERS + self.work.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn records(&self) -> (u64, Records) {
        let generation = self.work.clock.now() / GENERATION_US;
        (generation, Records::new(&self.work.tortured.prefix, generation))
    }

    /// One to four operations on lists, or on sets.
    async fn intents(&mut self, kind: Kind) -> Result<(), String> {
        let (generation, records) = self.records();
        let one_shot = self.random.random_range(0..10) < 4;
        let mut intents = Vec::new();
        for _ in 0..self.random.random_range(1..=4) {
            let key = match kind {
                Kind::List => records.list(self.random.random_range(0..LISTS)),
                _ => records.set(self.random.random_range(0..SETS)),
            };
            let number = self.draw_number();
            let action = match self.random.random_range(0..10) {
                0..4 => Action::Write(number),
                4..6 => Action::Answer(number),
                _ => Action::Read,
            };
            let pause = match one_shot || self.random.random_range(0..8) > 0 {
                true => Duration::ZERO,
                false => self.pause(),
            };
            intents.push(Intent { key, kind, action, pause });
        }
        let began = self.begin(generation, meant(&intents)).await;
        let ended = match one_shot {
            true => all_at_once(&self.work.store, &intents).await,
            false => {
                let options = way::drawn(options(), &mut self.random);
                one_by_one(&self.work.store, options, &intents, Duration::ZERO).await
            }
        };
        self.end(generation, began, ended, meant(&intents))
    }

    /// A transfer, or an audit.
    async fn bank(&mut self) -> Result<(), String> {
        let (generation, records) = self.records();
        if self.random.random_range(0..6) == 0 {
            let began = self.begin(generation, Vec::new()).await;
            let ended = audit(&self.work.store, &records).await;
            return self.end(generation, began, ended, Vec::new());
        }
        let from = self.random.random_range(0..ACCOUNTS);
        let to = (from + self.random.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let (from, to) = (records.account(from), records.account(to));
        let (amount, number) = (self.random.random_range(1..100), self.draw_number());
        let ledger = records.ledger(number % LEDGERS);
        let steps = vec![Step::Paid(from.clone(), to.clone(), amount), Step::Add(ledger.clone(), number)];
        let began = self.begin(generation, steps.clone()).await;
        let paid = match self.random.random_range(0..3) {
            0 => self.pay_after_a_look((&from, &to), amount, (&ledger, number)).await,
            _ => {
                let add = |by| Operation::new::<Counter>(CounterOp::Add(by));
                let note = SetOp::Add(Few::from_elem(Bytes::from(number.to_string()), 1));
                let calls = [(from, add(-amount)), (to, add(amount)), (ledger, Operation::new::<Set>(note))];
                let calls = calls.map(|(key, op)| (Bytes::from(key), op));
                self.work.store.run_all(calls).await.map(drop)
            }
        };
        let ended = paid.map(|()| steps.clone()).map_err(Failure::Store);
        self.end(generation, began, ended, steps)
    }

    async fn pay_after_a_look(
        &mut self,
        (from, to): (&str, &str),
        amount: i64,
        (ledger, number): (&str, u64),
    ) -> Result<(), Error> {
        let pay = |tx: claret::Tx| async move {
            let left = tx.counter(from).get().await? - amount;
            tx.register(from).set(left.to_string())?;
            tx.counter(to).add(amount)?;
            tx.set(ledger).add(number.to_string())?;
            Ok(())
        };
        let options = way::drawn(options(), &mut self.random);
        self.work.store.tx().options(options).run(pay).await
    }

    /// Tells what is going to be written. It begins later than the last one ended, on this coarse clock, too.
    async fn begin(&self, generation: u64, meant: Vec<Step>) -> u64 {
        loop {
            let began = self.work.clock.now();
            if began > self.last_ended {
                self.tell(Told::Begun, generation, (began, u64::MAX), Outcome::Unknown, meant);
                return began;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Tells what became of it; of one that did not commit, what it was to write.
    fn end(&mut self, generation: u64, began: u64, ended: Ended, meant: Vec<Step>) -> Result<(), String> {
        self.last_ended = self.work.clock.now();
        let (told, outcome, steps) = match ended {
            Ok(steps) => (Told::Committed, Outcome::Committed, steps),
            Err(Failure::Broken(why)) => return Err(why),
            Err(Failure::Store(Error::Unknown(id))) => {
                let asking = Arc::clone(&self.work).ask((generation, self.number, began), id);
                self.work.asking.lock().expect("nobody panics with it").spawn(asking);
                (Told::Unknown, Outcome::Unknown, meant)
            }
            Err(Failure::Store(error)) => {
                say(&format!("{BECAUSE}{}", because(&error)?));
                (Told::Void, Outcome::Void(Why::Later), meant)
            }
        };
        self.tell(told, generation, (began, self.last_ended), outcome, steps);
        Ok(())
    }

    fn tell(&self, told: Told, generation: u64, span: (u64, u64), outcome: Outcome, steps: Vec<Step>) {
        let (began, ended) = span;
        let entry = Entry { client: self.number, began, ended, outcome, plain: false, steps };
        let text = serde_json::to_string(&entry).expect("numbers and names");
        say(&format!("{} {generation} {text}", told.word()));
    }
}

/// Why a transaction was not done, in a few words.
///
/// # Errors
/// An error that nobody expects.
fn because(error: &Error) -> Result<&'static str, String> {
    Ok(match error {
        Error::Commit(CommitError::Deadline { .. }) => "deadline",
        Error::Commit(CommitError::NoAnswer { .. }) => "no answer",
        Error::Commit(CommitError::Attempts { .. }) => "attempts",
        Error::Execute(ExecuteError::Crowded(_)) => "crowded",
        Error::Commit(CommitError::NoRoom { .. }) => "no room",
        Error::Execute(ExecuteError::Refused(_)) => "refused by a node",
        other => return Err(format!("an error that nobody expects: {other}")),
    })
}
