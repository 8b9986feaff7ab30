//! The clients of one process in one round: starts them, runs them to the end of the round, and reads every record once
//! more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use claret::types::{Bounded, BoundedCounter, BoundedCounterOp};
use claret::{Bytes, Operation, Store};
use claret_redis::Cluster;

use crate::bank::{self, Bank};
use crate::clock::Clock;
use crate::gateways::Gateways;
use crate::history::{Entry, History, Outcome};
use crate::intent::Keys;
use crate::journal::Journal;
use crate::plan::{Progress, Settings};
use crate::{intent, plain, through, traffic};

/// What the clients of a process share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<'a> {
    /// The records of the round.
    pub(crate) keys: &'a Keys,
    /// How far they have come.
    pub(crate) progress: &'a Arc<Progress>,
    /// Where they write down what they do, if the process may be killed.
    pub(crate) journal: Option<&'a Arc<Journal>>,
    /// What some of them speak to.
    pub(crate) gateways: Option<&'a Arc<Gateways>>,
}

/// Begins a round, before any process does.
///
/// # Errors
/// The store's.
pub(crate) async fn begin(store: &Store, settings: &Settings) -> Result<(), String> {
    let (value, min, max) = intent::BOUNDED;
    let create = || Operation::new::<BoundedCounter>(BoundedCounterOp::Create(Bounded { value, min, max }));
    let counters = Keys::new(settings).bounded_counters().into_iter().map(|key| (Bytes::from(key), create()));
    store.run_all(counters).await.map_err(|error| format!("opening the bounded counters: {error}"))?;
    Bank::new(&settings.prefix, settings.round).open(store).await
}

/// Runs the clients of one process to the end of the round, or until they are told to stop. What is wrong besides is
/// noted in the history: an answer of the wrong shape, an error that nobody expects, a client that panics.
///
/// # Errors
/// A clock that was set while it was used.
pub(crate) async fn run(
    store: &Store,
    plain: Option<&Cluster>,
    settings: &Settings,
    clock: Clock,
    Shared { keys, progress, journal, gateways }: Shared<'_>,
) -> Result<History, String> {
    let bank = Bank::new(&settings.prefix, settings.round);
    let mut tasks = tokio::task::JoinSet::new();
    let through = if gateways.is_some() { settings.gateway_clients } else { 0 };
    for number in 0..settings.clients + settings.plain + through {
        let (bank, progress) = (bank.clone(), Arc::clone(progress));
        let shared = (keys.clone(), journal.cloned());
        let client = traffic::Client::new(store.clone(), settings, clock, shared, number as u64);
        let others = settings.clients + settings.plain;
        let gateway = gateways.filter(|_| number >= others).map(|all| (Arc::clone(all), number - others));
        let plain = plain.filter(|_| number >= settings.clients).cloned();
        tasks.spawn(async move {
            match (gateway, plain) {
                (Some((gateways, number)), _) => {
                    through::work(client, (&gateways, number), &bank, &progress).await
                }
                (None, Some(plain)) => plain::work(client, &plain, &bank, &progress).await,
                (None, None) if number % 8 == 7 => bank::work(client, &bank, &progress).await,
                (None, None) => traffic::work(client, &progress).await,
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
pub(crate) async fn finish(
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
