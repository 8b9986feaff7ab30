//! Reads every key of a generation at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use claret::types::{Counter, CounterOp};
use claret::{Bytes, Error, Operation, Store, errors::ExecuteError};

use super::records::Records;
use crate::bank::sum;
use crate::clock::Clock;
use crate::history::{Entry, Outcome, Step};
use crate::intent::{Intent, Kind};

/// How long it may take until everything can be read: what is in doubt is decided by then, and nodes are back.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// What the keys of a generation hold at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    pub(super) sets: BTreeMap<String, BTreeSet<u64>>,
    pub(super) lists: BTreeMap<String, Vec<u64>>,
    pub(super) balances: BTreeMap<String, i64>,
    /// The transaction that read them.
    pub(super) entry: Option<Entry>,
}

impl Contents {
    /// How many keys were read.
    pub(super) fn keys(&self) -> usize {
        self.sets.len() + self.lists.len() + self.balances.len()
    }

    /// Whether what was added or appended is there.
    pub(super) fn has(&self, step: &Step) -> Option<bool> {
        match step {
            Step::Add(key, element) => Some(self.sets.get(key).is_some_and(|set| set.contains(element))),
            Step::Append(key, item) => Some(self.lists.get(key).is_some_and(|list| list.contains(item))),
            _ => None,
        }
    }
}

/// Reads them all, in one transaction.
///
/// # Errors
/// They cannot be read, however patient one is.
pub(super) async fn read(
    store: &Store,
    records: &Records,
    clock: Clock,
    client: u64,
    patience: Duration,
) -> Result<Contents, String> {
    let lists = records.lists().map(|key| Intent::read(&key, Kind::List));
    let intents: Vec<Intent> = lists.chain(records.sets().map(|key| Intent::read(&key, Kind::Set))).collect();
    let accounts: Vec<String> = records.accounts().collect();
    let since = Instant::now();
    let (began, replies) = loop {
        let began = clock.now();
        let reads = intents.iter().map(|intent| (Bytes::from(intent.key.as_str()), intent.operation()));
        let get = |key: &String| (Bytes::from(key.as_str()), Operation::new::<Counter>(CounterOp::Get));
        match store.run_all(reads.chain(accounts.iter().map(get))).await {
            Ok(replies) => break (began, replies),
            Err(error) if is_passing(&error) && since.elapsed() < patience => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => return Err(format!("reading everything at the end: {error}")),
        }
    };
    let mut contents = Contents::default();
    let (of_intents, of_accounts) = replies.split_at(intents.len());
    let mut steps = Vec::new();
    for (intent, reply) in intents.iter().zip(of_intents) {
        steps.extend(intent.steps(reply)?);
    }
    for step in &steps {
        match step {
            Step::Read(key, elements) => drop(contents.sets.insert(key.clone(), elements.clone())),
            Step::List(key, items) => drop(contents.lists.insert(key.clone(), items.clone())),
            _ => {}
        }
    }
    for (key, reply) in accounts.into_iter().zip(of_accounts) {
        contents.balances.insert(key, sum(std::slice::from_ref(reply))?);
    }
    let outcome = Outcome::Committed;
    contents.entry = Some(Entry { client, began, ended: clock.now(), outcome, plain: false, steps });
    Ok(contents)
}

fn is_passing(error: &Error) -> bool {
    error.is_retryable() || matches!(error, Error::Execute(ExecuteError::Refused(_)))
}
