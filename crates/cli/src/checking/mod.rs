//! `claret check-store`: many clients work on a few hot keys of a store and write down what they saw; then their
//! histories are judged from outside, without a word from the store.
//!
//! Three judges: [`claret_sim::observed`] sees sets, counters and lists together (every element, bit and item is
//! written once, so each answer tells who came before); [`adya`], an independent checker of list-append histories,
//! looks at the transactions on lists alone; and the bank's totals never change. Anomalies planted into
//! the finished history show that the judges see them ([`verdict`]).
//!
//! On a cluster some of the clients know nothing of Claret and use plain commands on the same keys, and several
//! processes may take part.
//!
//! What it does not do: faults. Kill and stop servers while it runs.

mod bank;
mod clock;
mod history;
mod plain;
mod plan;
mod traffic;
pub mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use claret::Store;
use claret::cluster::Plain;

pub use bank::Bank;
pub use clock::Clock;
pub use history::{Entry, History};
pub use plan::Keys;

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Clients of this process, each one transaction at a time.
    pub clients: usize,
    /// Clients of this process that use plain commands.
    pub plain: usize,
    /// How long.
    pub time: Duration,
    /// Records in use at one time, a third of each kind.
    pub keys: u64,
    /// How long a record is in use.
    pub rotation: Duration,
    /// Which of the processes this is, from 0.
    pub process: u64,
    /// How many processes take part.
    pub processes: u64,
    /// For what the clients do.
    pub seed: u64,
    /// Before every key.
    pub prefix: String,
}

/// How far it has come, for those who watch.
#[derive(Debug, Default)]
pub struct Progress {
    /// Transactions that ended.
    pub ended: AtomicU64,
    /// Clients are to stop.
    pub stop: AtomicBool,
}

/// Begins a run, before any process does.
///
/// # Errors
/// The store's.
pub async fn begin(store: &Store, settings: &Settings) -> Result<(), String> {
    Bank::new(&settings.prefix).open(store).await
}

/// Runs the clients of one process to the end of their time, or until they are told to stop. What is wrong besides
/// is noted in the history: an answer of the wrong shape, an error that nobody expects, a wrong total.
///
/// # Errors
/// A clock that was set while it was used.
pub async fn run(
    store: &Store,
    plain: Option<&Plain>,
    settings: &Settings,
    clock: Clock,
    progress: &Arc<Progress>,
) -> Result<History, String> {
    let bank = Bank::new(&settings.prefix);
    let keys = Keys::new(settings);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..settings.clients + settings.plain {
        let (bank, progress) = (bank.clone(), Arc::clone(progress));
        let client = traffic::Client::new(store.clone(), settings, clock, keys.clone(), number as u64);
        let plain = plain.filter(|_| number >= settings.clients).cloned();
        tasks.spawn(async move {
            match plain {
                Some(plain) => plain::work(client, &plain, &bank, &progress).await,
                None if number % 8 == 7 => bank::work(client, &bank, &progress).await,
                None => traffic::work(client, &progress).await,
            }
        });
    }
    let mut history = History::default();
    while let Some(ended) = tasks.join_next().await {
        let entries = ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        match entries {
            Ok(entries) => history.take(entries),
            Err(error) => {
                progress.stop.store(true, Ordering::Relaxed);
                history.broken.get_or_insert(error);
            }
        }
    }
    clock.check()?;
    Ok(history)
}

/// Ends a run: reads every record once more, and the bank.
///
/// # Errors
/// Whatever keeps it from reading, and a wrong total.
pub async fn finish(
    store: &Store,
    settings: &Settings,
    clock: Clock,
    history: &mut History,
) -> Result<(), String> {
    let entries = traffic::read_all(store, history, clock).await?;
    history.entries.extend(entries);
    let total = Bank::new(&settings.prefix).check(store).await?;
    total.ok_or("the bank's total could not be read at the end")?;
    history.totals += 1;
    Ok(())
}
