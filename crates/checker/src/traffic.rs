//! The clients of the store: interactive and one-shot transactions and single operations on a few hot records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use claret::{Abort, Error, OpError, Store, TxOptions, errors::ExecuteError};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::clock::Clock;
use crate::history::{Entry, History, Outcome, Step, Why};
use crate::intent::{Intent, Keys, Kind, PREFIX_END, ROTATING};
use crate::journal::Journal;
use crate::plan::{Progress, Settings};
use crate::way;

/// One client.
pub(super) struct Client {
    pub(super) store: Store,
    pub(super) random: SmallRng,
    pub(super) clock: Clock,
    pub(super) keys: Keys,
    journal: Option<Arc<Journal>>,
    number: u64,
    until: u64,
    last_ended: u64,
    is_plain: bool,
}

impl Client {
    pub(super) fn new(
        store: Store,
        settings: &Settings,
        clock: Clock,
        (keys, journal): (Keys, Option<Arc<Journal>>),
        number: u64,
    ) -> Self {
        let each = (settings.clients + settings.plain + settings.gateway_clients) as u64;
        let is_plain =
            number as usize >= settings.clients && (number as usize) < settings.clients + settings.plain;
        let number = (settings.round * settings.processes + settings.process) * each + number;
        let seed = settings.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let random = SmallRng::seed_from_u64(seed);
        Client { store, random, clock, keys, journal, number, until: settings.until, last_ended: 0, is_plain }
    }

    pub(super) fn is_over(&self, progress: &Progress) -> bool {
        self.clock.now() >= self.until || progress.stop.load(Ordering::Relaxed)
    }

    /// The moment at which a transaction begins: later than the end of the last one, on this coarse clock, too. What it
    /// is to write is known from now on, whatever becomes of this process.
    pub(super) async fn begin(&self, meant: Vec<Step>) -> u64 {
        loop {
            let began = self.clock.now();
            if began > self.last_ended {
                if let Some(journal) = &self.journal {
                    journal.write(&self.entry((began, u64::MAX), Outcome::Unknown, meant));
                }
                return began;
            }
            tokio::task::yield_now().await;
        }
    }

    fn entry(&self, (began, ended): (u64, u64), outcome: Outcome, steps: Vec<Step>) -> Entry {
        Entry { client: self.number, began, ended, outcome, plain: self.is_plain, steps }
    }

    /// One to five operations. Every fourth transaction is on lists alone, for the judge who knows only these.
    pub(super) fn draw(&mut self) -> Vec<Intent> {
        let now = self.clock.now();
        let lists = self.random.random_range(0..4) == 0;
        let draw = |client: &mut Self| match client.random.random_range(0..8) {
            0 if !lists => client.keys.draw(now, Kind::Generator, true, &mut client.random),
            1 if !lists => {
                let writes = client.random.random_range(0..4) > 0;
                client.keys.draw(now, Kind::Bounded, writes, &mut client.random)
            }
            _ => client.draw_one(now, lists),
        };
        (0..self.random.random_range(1..=5)).map(|_| draw(self)).collect()
    }

    /// How its next interactive transaction goes.
    pub(super) fn draw_way(&mut self) -> TxOptions {
        way::drawn(TxOptions::new(), &mut self.random)
    }

    pub(super) fn draw_one(&mut self, now: u64, lists: bool) -> Intent {
        let kind = if lists { Kind::List } else { ROTATING[self.random.random_range(0..ROTATING.len())] };
        let writes = self.random.random_range(0..10) < 6;
        self.keys.draw(now, kind, writes, &mut self.random)
    }

    /// Writes down what a transaction was.
    pub(super) fn note(&mut self, history: &mut History, began: u64, outcome: Outcome, steps: Vec<Step>) {
        let entry = self.entry((began, self.clock.now()), outcome, steps);
        if let Some(journal) = &self.journal {
            journal.write(&entry);
        }
        self.last_ended = entry.ended;
        history.entries.push(entry);
    }
}

/// Works until the time is over.
pub(super) async fn work(mut client: Client, progress: &Progress) -> Result<History, String> {
    let mut history = History::default();
    while !client.is_over(progress) {
        let intents = client.draw();
        let one_shot = client.random.random_range(0..10) < 4;
        let last = client.keys.draw_pause(&mut client.random);
        let began = client.begin(meant(&intents)).await;
        let ended = if one_shot {
            all_at_once(&client.store, &intents).await
        } else {
            let options = client.draw_way();
            one_by_one(&client.store, options, &intents, last).await
        };
        let (outcome, steps) = match ended {
            Ok(steps) => (Outcome::Committed, steps),
            Err(Failure::Broken(why)) => return Err(why),
            Err(Failure::Store(error)) => (outcome_of(&error)?, meant(&intents)),
        };
        client.note(&mut history, began, outcome, steps);
        progress.ended.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(history)
}

pub(crate) type Ended = Result<Vec<Step>, Failure>;

/// Why there are no steps.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store's error.
    Store(Error),
    /// An answer of the wrong shape, or one that cannot be.
    Broken(String),
}

/// Operations that are all known, as one transaction.
pub(crate) async fn all_at_once(store: &Store, intents: &[Intent]) -> Ended {
    let calls = intents.iter().map(|intent| (intent.key.as_str().into(), intent.operation()));
    let replies = store.run_all(calls).await.map_err(Failure::Store)?;
    let steps = intents.iter().zip(&replies).map(|(intent, reply)| intent.steps(reply));
    let steps = steps.collect::<Result<Vec<_>, _>>().map_err(Failure::Broken)?;
    Ok(steps.into_iter().flatten().collect())
}

/// Does nothing for a while, as user code does between two calls.
pub(super) async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// The same one after the other, with pauses.
pub(crate) async fn one_by_one(
    store: &Store,
    options: TxOptions,
    intents: &[Intent],
    last: Duration,
) -> Ended {
    let steps = store
        .tx()
        .options(options)
        .run(|tx| async move {
            let mut steps = Vec::with_capacity(intents.len());
            for intent in intents {
                pause(intent.pause).await;
                let reply = tx.execute(intent.key.as_str(), intent.operation()).await?;
                steps.extend(intent.steps(&reply).map_err(Abort::because)?);
            }
            pause(last).await;
            Ok(steps)
        })
        .await;
    steps.map_err(|error| match error {
        Error::Aborted(reason) => Failure::Broken(reason.to_string()),
        other => Failure::Store(other),
    })
}

/// # Errors
/// One that says that the run itself is wrong.
pub(super) fn outcome_of(error: &Error) -> Result<Outcome, String> {
    match error {
        Error::Unknown(_) => Ok(Outcome::Unknown),
        Error::Execute(ExecuteError::Refused(reason)) if reason.contains("NOPERM") => {
            Ok(Outcome::Void(Why::Denied))
        }
        Error::Execute(ExecuteError::Refused(reason)) if reason.starts_with("no memory") => {
            Ok(Outcome::Void(Why::NoMemory))
        }
        Error::Execute(ExecuteError::Invalid { error: OpError::Missing { .. }, .. }) => {
            Ok(Outcome::Void(Why::Missing))
        }
        error if error.is_retryable() => Ok(Outcome::Void(Why::Later)),
        other => Err(format!("an error that nobody expects: {other}")),
    }
}

/// What these intents would write.
pub(super) fn meant(intents: &[Intent]) -> Vec<Step> {
    intents.iter().flat_map(Intent::meant).collect()
}

/// Reads every record that a history is about, so that nothing that was acknowledged goes unseen.
pub(super) async fn read_all(store: &Store, history: &History, clock: Clock) -> Result<Vec<Entry>, String> {
    let steps = history.entries.iter().flat_map(|entry| &entry.steps);
    let keys: BTreeSet<(&str, Kind)> = steps.filter_map(kind_of).collect();
    let reads: Vec<Intent> = keys.into_iter().map(|(key, kind)| Intent::read(key, kind)).collect();
    let client = history.entries.iter().map(|entry| entry.client).max().map_or(0, |last| last + 1);
    let mut entries = Vec::new();
    for intents in reads.chunks(READ_TOGETHER) {
        let began = clock.now();
        let steps = match all_at_once(store, intents).await {
            Ok(steps) => steps,
            Err(Failure::Broken(why)) => return Err(why),
            Err(Failure::Store(error)) => return Err(format!("reading everything at the end: {error}")),
        };
        let ended = clock.now();
        let outcome = Outcome::Committed;
        entries.push(Entry { client, began, ended, outcome, plain: false, steps });
    }
    Ok(entries)
}

/// How many records are read in one transaction at the end.
const READ_TOGETHER: usize = 64;

/// What kind of record a step is about, if it is read at the end. A counter's reads look like a set's; its name tells.
fn kind_of(step: &Step) -> Option<(&str, Kind)> {
    let key = step.key()?;
    let name = key.rsplit(PREFIX_END).next()?;
    let kind = match (step, name.chars().next()?) {
        (Step::Id(..) | Step::Total(..), _) => return None,
        (_, 'c') => Kind::Counter,
        (_, 'l') => Kind::List,
        (_, 'r') => Kind::Register,
        (_, 'k') => Kind::Bounded,
        _ => Kind::Set,
    };
    Some((key, kind))
}
