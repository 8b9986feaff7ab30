//! The clients: interactive transactions, one-shot ones and single operations on a few hot records.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use claret::{Abort, Store, TransactionError};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::history::{Entry, Outcome, Step};
use super::plan::{Keys, Kind, PREFIX_END, Planned};
use super::{Clock, History, Progress, Settings};

/// One client.
pub(super) struct Client {
    pub(super) store: Store,
    pub(super) random: SmallRng,
    pub(super) clock: Clock,
    keys: Keys,
    number: u64,
    until: u64,
    last_ended: u64,
}

impl Client {
    pub(super) fn new(store: Store, settings: &Settings, clock: Clock, keys: Keys, number: u64) -> Self {
        let number = settings.process * (settings.clients + settings.plain) as u64 + number;
        let seed = settings.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let until = settings.time.as_micros() as u64;
        Client { store, random: SmallRng::seed_from_u64(seed), clock, keys, number, until, last_ended: 0 }
    }

    pub(super) fn is_over(&self, progress: &Progress) -> bool {
        self.clock.now() >= self.until || progress.stop.load(Ordering::Relaxed)
    }

    /// The moment at which a transaction begins: later than the end of the last one, on this coarse clock, too.
    pub(super) async fn begin(&self) -> u64 {
        loop {
            let now = self.clock.now();
            if now > self.last_ended {
                return now;
            }
            tokio::task::yield_now().await;
        }
    }

    /// One to five operations. Every fourth transaction is on lists alone, for the judge who knows only these.
    fn draw(&mut self) -> Vec<Planned> {
        let now = self.clock.now();
        let lists = self.random.random_range(0..4) == 0;
        (0..self.random.random_range(1..=5)).map(|_| self.draw_one(now, lists)).collect()
    }

    pub(super) fn draw_one(&mut self, now: u64, lists: bool) -> Planned {
        let kind = match self.random.random_range(0..3) {
            _ if lists => Kind::List,
            0 => Kind::Set,
            1 => Kind::Counter,
            _ => Kind::List,
        };
        let writes = self.random.random_range(0..10) < 6;
        self.keys.draw(now, kind, writes, &mut self.random)
    }

    /// Writes down what a transaction was.
    pub(super) fn note(&mut self, history: &mut History, began: u64, outcome: Outcome, steps: Vec<Step>) {
        let entry = Entry { client: self.number, began, ended: self.clock.now(), outcome, steps };
        self.last_ended = entry.ended;
        history.entries.push(entry);
    }
}

/// Works until the time is over.
pub(super) async fn work(mut client: Client, progress: &Progress) -> Result<History, String> {
    let mut history = History::default();
    while !client.is_over(progress) {
        let plan = client.draw();
        let one_shot = client.random.random_range(0..10) < 4;
        let began = client.begin().await;
        let ended = if one_shot {
            all_at_once(&client.store, &plan).await
        } else {
            one_by_one(&client.store, &plan).await
        };
        let (outcome, steps) = match ended {
            Ok(steps) => (Outcome::Committed, steps),
            Err(Failure::Broken(why)) => return Err(why),
            Err(Failure::Store(error)) => (outcome_of(&error)?, writes(&plan)),
        };
        client.note(&mut history, began, outcome, steps);
        progress.ended.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(history)
}

type Ended = Result<Vec<Step>, Failure>;

/// Why there are no steps.
enum Failure {
    Store(TransactionError),
    Broken(String),
}

async fn all_at_once(store: &Store, plan: &[Planned]) -> Ended {
    let calls = plan.iter().map(|planned| (planned.key.as_str().into(), planned.operation()));
    let replies = store.run_all(calls).await.map_err(Failure::Store)?;
    let steps = plan.iter().zip(&replies).map(|(planned, reply)| planned.step(reply));
    steps.collect::<Result<_, _>>().map_err(Failure::Broken)
}

async fn one_by_one(store: &Store, plan: &[Planned]) -> Ended {
    let steps = store
        .transaction(|tx| async move {
            let mut steps = Vec::with_capacity(plan.len());
            for planned in plan {
                let reply = tx.execute(planned.key.as_str(), planned.operation()).await?;
                steps.push(planned.step(&reply).map_err(Abort::because)?);
            }
            Ok(steps)
        })
        .await;
    steps.map_err(|error| match error {
        TransactionError::Aborted(reason) => Failure::Broken(reason.to_string()),
        other => Failure::Store(other),
    })
}

/// # Errors
/// One that says that the run itself is wrong.
pub(super) fn outcome_of(error: &TransactionError) -> Result<Outcome, String> {
    match error {
        TransactionError::Unknown => Ok(Outcome::Unknown),
        error if error.is_retryable() => Ok(Outcome::Void),
        other => Err(format!("an error that nobody expects: {other}")),
    }
}

pub(super) fn writes(plan: &[Planned]) -> Vec<Step> {
    let step = |planned: &Planned| {
        let (key, write) = (planned.key.clone(), planned.write?);
        Some(if planned.kind == Kind::List { Step::Append(key, write) } else { Step::Add(key, write) })
    };
    plan.iter().filter_map(step).collect()
}

/// Reads every record that a history is about, so that nothing that was acknowledged goes unseen.
pub(super) async fn read_all(store: &Store, history: &History, clock: Clock) -> Result<Vec<Entry>, String> {
    let keys: BTreeSet<(&str, Kind)> =
        history.entries.iter().flat_map(|entry| &entry.steps).map(kind_of).collect();
    let reads: Vec<Planned> =
        keys.into_iter().map(|(key, kind)| Planned { key: key.to_owned(), kind, write: None }).collect();
    let client = history.entries.iter().map(|entry| entry.client).max().map_or(0, |last| last + 1);
    let mut entries = Vec::new();
    for plan in reads.chunks(READ_TOGETHER) {
        let began = clock.now();
        let steps = match all_at_once(store, plan).await {
            Ok(steps) => steps,
            Err(Failure::Broken(why)) => return Err(why),
            Err(Failure::Store(error)) => return Err(format!("reading everything at the end: {error}")),
        };
        entries.push(Entry { client, began, ended: clock.now(), outcome: Outcome::Committed, steps });
    }
    Ok(entries)
}

/// How many records are read in one transaction at the end.
const READ_TOGETHER: usize = 64;

/// What kind of record a step is about. A counter's reads look like a set's; its name tells.
fn kind_of(step: &Step) -> (&str, Kind) {
    match step {
        Step::Append(key, _) | Step::List(key, _) => (key, Kind::List),
        Step::Add(key, _) | Step::Read(key, _) => {
            let name = key.rsplit(PREFIX_END).next().unwrap_or(key);
            (key, if name.starts_with('c') { Kind::Counter } else { Kind::Set })
        }
    }
}
