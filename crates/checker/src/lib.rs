//! `claret check-store`: many clients work on a few hot keys of a store and write down what they saw; then their
//! histories are judged from outside, without a word from the store.
//!
//! # Histories
//!
//! One transaction has one to five operations on records of all these kinds, with pauses between them; some are one-shot.
//!
//! | record | what is done | what is judged |
//! |---|---|---|
//! | set | unique adds, with and without an answer; reads | order of all that saw and missed an element |
//! | counter | one bit each; reads | the same |
//! | list | appends of unique items, some answered by the length; reads | the same, the order of items, and their places |
//! | register | unique values, blind or as a swap; reads | the same, and lost updates |
//! | bounded counter | changes that may be refused; reads | between its bounds, the sum of what was acknowledged |
//! | generator | unique numbers | none comes twice |
//! | bank | transfers; totals | the total never changes |
//!
//! Sets, counters, lists and registers are judged together, by [`claret_sim::observed`]: every value is written once, so
//! each answer tells who came before, and a cycle is a violation. [`adya`], an independent checker of list-append
//! histories, looks at the lists alone. The rest is judged by sums and real time (`sums.rs`). Anomalies planted into
//! the finished history show that the judges see them (`planted.rs`).
//!
//! On a cluster some of the clients know nothing of Claret and use plain commands on the same keys, and several
//! processes may take part.
//!
//! # Faults
//!
//! A run with faults is one of rounds ([`Settings::round`]), each with records of its own. While the clients of a round
//! work, faults strike; then the clients come to rest, all locks must be free within the bound, everything is read, and
//! the round is judged. So a long run needs no more memory than a short one, and a lock that is left behind is seen.
//!
//! What a fault does to the history:
//! - a process that is killed has written down what it was about to do (`journal.rs`): that happened or not;
//! - a record that expires or is flushed **ends**: a transaction of the history that leaves nothing. An expiry lies between
//!   the call of `PEXPIRE` and its reply, so many milliseconds later; a flush between its call and its reply, and is an end of
//!   each record of its node by itself (P36), not one of all at once. An end is *certain* if the command was acknowledged and nothing else that ends or
//!   moves the record was under way; otherwise it *may* have happened. Who has voted comes before it, and what it wrote is gone
//!   with the record; by the clock it comes before those alone who come to the record;
//! - a transaction may be refused while there is a reason for it, a right that is withdrawn, or no memory, and at no
//!   other time.

mod bank;
mod clock;
mod history;
mod journal;
mod plain;
mod plan;
mod planted;
mod sums;
mod traffic;
pub mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use claret::Store;
use claret::cluster::Plain;
use claret::types::{Bounded, BoundedCounter, BoundedCounterOp};
use claret::{Bytes, Operation};

pub use bank::Bank;
pub use clock::Clock;
pub use history::{Entry, History, Outcome, Reason, Step, Why};
pub use journal::{Journal, read_journal};
pub use plan::Keys;
pub use planted::Planted;

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Clients of this process, each one transaction at a time.
    pub clients: usize,
    /// Clients of this process that use plain commands.
    pub plain: usize,
    /// When the round ends, by the run's [`Clock`].
    pub until: u64,
    /// The round, from 0.
    pub round: u64,
    /// Records in use at one time, a quarter of each kind that gives way to others.
    pub keys: u64,
    /// How long a record is in use.
    pub rotation: Duration,
    /// Whether clients pause between calls, up to a second.
    pub pauses: bool,
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

/// What the clients of a process share.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The records of the round.
    pub keys: &'a Keys,
    /// How far they have come.
    pub progress: &'a Arc<Progress>,
    /// Where they write down what they do, if the process may be killed.
    pub journal: Option<&'a Arc<Journal>>,
}

/// Begins a round, before any process does.
///
/// # Errors
/// The store's.
pub async fn begin(store: &Store, settings: &Settings) -> Result<(), String> {
    let (value, min, max) = plan::STOCK;
    let create = || Operation::new::<BoundedCounter>(BoundedCounterOp::Create(Bounded { value, min, max }));
    let stocks = Keys::new(settings).stocks().into_iter().map(|key| (Bytes::from(key), create()));
    store.run_all(stocks).await.map_err(|error| format!("opening the bounded counters: {error}"))?;
    Bank::new(&settings.prefix, settings.round).open(store).await
}

/// Runs the clients of one process to the end of the round, or until they are told to stop. What is wrong besides is
/// noted in the history: an answer of the wrong shape, an error that nobody expects, a client that panics.
///
/// # Errors
/// A clock that was set while it was used.
pub async fn run(
    store: &Store,
    plain: Option<&Plain>,
    settings: &Settings,
    clock: Clock,
    Shared { keys, progress, journal }: Shared<'_>,
) -> Result<History, String> {
    let bank = Bank::new(&settings.prefix, settings.round);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..settings.clients + settings.plain {
        let (bank, progress) = (bank.clone(), Arc::clone(progress));
        let shared = (keys.clone(), journal.cloned());
        let client = traffic::Client::new(store.clone(), settings, clock, shared, number as u64);
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
        let entries = ended.unwrap_or_else(|error| Err(format!("a client ended badly: {error}")));
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

/// Ends a round: reads every record once more, and the bank.
///
/// # Errors
/// Whatever keeps it from reading.
pub async fn finish(
    store: &Store,
    settings: &Settings,
    clock: Clock,
    history: &mut History,
) -> Result<(), String> {
    let entries = traffic::read_all(store, history, clock).await?;
    history.entries.extend(entries);
    let began = clock.now();
    let (outcome, steps) = Bank::new(&settings.prefix, settings.round).look(store).await?;
    if outcome != Outcome::Committed {
        return Err("the bank's total could not be read at the end".into());
    }
    let entry = Entry { client: u64::MAX, began, ended: clock.now(), outcome, plain: false, steps };
    history.entries.push(entry);
    Ok(())
}
