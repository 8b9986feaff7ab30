//! A bank: money moves between accounts, and the total stays what it was at the beginning, whoever looks.

use std::sync::atomic::Ordering;

use claret::types::{Counter, CounterOp};
use claret::{Bytes, Operation, Records, Reply, Store};
use rand::RngExt;

use super::history::Outcome;
use super::traffic::{Client, outcome_of};
use super::{History, Progress};

const ACCOUNTS: usize = 8;
const DEPOSIT: i64 = 1_000;

/// Accounts that are spread over the shards.
#[derive(Clone, Debug)]
pub struct Bank {
    accounts: Vec<String>,
}

impl Bank {
    /// The bank of a run.
    pub fn new(prefix: &str) -> Self {
        Bank { accounts: (0..ACCOUNTS).map(|number| format!("{prefix}/bank{number}")).collect() }
    }

    /// Its keys.
    pub fn accounts(&self) -> &[String] {
        &self.accounts
    }

    /// What all accounts hold together.
    pub const fn total() -> i64 {
        DEPOSIT * ACCOUNTS as i64
    }

    /// Pays the deposits in.
    ///
    /// # Errors
    /// The store's.
    pub async fn open(&self, store: &Store) -> Result<(), String> {
        let calls = self.accounts.iter().map(|key| (Bytes::from(key), add(DEPOSIT)));
        store.run_all(calls).await.map_err(|error| format!("opening the bank: {error}"))?;
        Ok(())
    }

    /// The total as a one-shot transaction sees it.
    ///
    /// # Errors
    /// A total that is wrong, or an error that nobody expects; `None` when the transaction did not commit.
    pub async fn check(&self, store: &Store) -> Result<Option<()>, String> {
        let calls =
            self.accounts.iter().map(|key| (Bytes::from(key), Operation::new::<Counter>(CounterOp::Get)));
        match store.run_all(calls).await {
            Ok(replies) => expect(sum(&replies)?).map(Some),
            Err(error) => outcome_of(&error).map(|_| None),
        }
    }
}

fn add(amount: i64) -> Operation {
    Operation::new::<Counter>(CounterOp::Add(amount))
}

fn sum(replies: &[Reply]) -> Result<i64, String> {
    replies.iter().try_fold(0, |sum, reply| match reply {
        Reply::Int(value) => Ok(sum + value),
        other => Err(format!("an account holds {other}")),
    })
}

fn expect(total: i64) -> Result<(), String> {
    if total == Bank::total() {
        return Ok(());
    }
    Err(format!("the bank holds {total}, not {}: a transfer was seen by half", Bank::total()))
}

/// A customer: transfers, with and without a look at the balance, and audits of both kinds.
pub(super) async fn work(mut client: Client, bank: &Bank, progress: &Progress) -> Result<History, String> {
    let mut history = History::default();
    while !client.is_over(progress) {
        let from = client.random.random_range(0..ACCOUNTS);
        let to = (from + client.random.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let amount = client.random.random_range(1..100);
        let (from, to) = (bank.accounts[from].as_str(), bank.accounts[to].as_str());
        match client.random.random_range(0..4) {
            0 => history.transfers += move_blindly(&client.store, from, to, amount).await?,
            1 => history.transfers += move_if_enough(&client.store, from, to, amount).await?,
            2 => history.totals += bank.check(&client.store).await?.map_or(0, |()| 1),
            _ => history.totals += audit(&client.store, bank).await?,
        }
        progress.ended.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(history)
}

/// Both operations go together, and answer nothing.
async fn move_blindly(store: &Store, from: &str, to: &str, amount: i64) -> Result<u64, String> {
    match store.run_all([(from.into(), add(-amount)), (to.into(), add(amount))]).await {
        Ok(_) => Ok(1),
        Err(error) => outcome_of(&error).map(|outcome| u64::from(outcome == Outcome::Committed)),
    }
}

async fn move_if_enough(store: &Store, from: &str, to: &str, amount: i64) -> Result<u64, String> {
    let moved = store
        .transaction(|tx| async move {
            if tx.counter(from).get().await? < amount {
                return Ok(0);
            }
            tx.counter(from).add(-amount)?;
            tx.counter(to).add(amount)?;
            Ok(1)
        })
        .await;
    moved.or_else(|error| outcome_of(&error).map(|_| 0))
}

/// Reads the accounts one after the other.
async fn audit(store: &Store, bank: &Bank) -> Result<u64, String> {
    let total = store
        .transaction(|tx| async move {
            let mut total = 0;
            for account in &bank.accounts {
                total += tx.counter(account).get().await?;
            }
            Ok(total)
        })
        .await;
    match total {
        Ok(total) => expect(total).map(|()| 1),
        Err(error) => outcome_of(&error).map(|_| 0),
    }
}
