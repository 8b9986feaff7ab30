//! A bank: money moves between accounts, and the total stays what it was at the beginning, whoever looks.
//!
//! It has accounts on all shards, and a drawer, whose accounts share a hash tag and so are on one node: there plain
//! commands can look at all of them at once, and move money, too.

use std::sync::atomic::Ordering;

use claret::types::{Counter, CounterOp};
use claret::{Bytes, Operation, Records, Reply, Store};
use rand::{Rng, RngExt};

use super::history::Outcome;
use super::traffic::{Client, outcome_of};
use super::{History, Progress};

const ACCOUNTS: usize = 8;
const DEPOSIT: i64 = 1_000;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Bank {
    /// Spread over the shards.
    accounts: Vec<String>,
    /// On one node.
    drawer: Vec<String>,
}

impl Bank {
    /// The bank of a run.
    pub fn new(prefix: &str) -> Self {
        let names = |start: String| (0..ACCOUNTS).map(|number| format!("{start}{number}")).collect();
        Bank { accounts: names(format!("{prefix}/bank")), drawer: names(format!("{{{prefix}/drawer}}")) }
    }

    /// The keys of the drawer.
    pub(super) fn drawer(&self) -> &[String] {
        &self.drawer
    }

    /// What all accounts hold together; as much as the drawer.
    pub const fn total() -> i64 {
        DEPOSIT * ACCOUNTS as i64
    }

    /// Pays the deposits in.
    ///
    /// # Errors
    /// The store's.
    pub async fn open(&self, store: &Store) -> Result<(), String> {
        let calls = self.accounts.iter().chain(&self.drawer).map(|key| (Bytes::from(key), add(DEPOSIT)));
        store.run_all(calls).await.map_err(|error| format!("opening the bank: {error}"))?;
        Ok(())
    }

    /// The totals as a one-shot transaction sees them.
    ///
    /// # Errors
    /// A total that is wrong, or an error that nobody expects; `None` when the transaction did not commit.
    pub async fn check(&self, store: &Store) -> Result<Option<()>, String> {
        let get = |key: &String| (Bytes::from(key), Operation::new::<Counter>(CounterOp::Get));
        match store.run_all(self.accounts.iter().chain(&self.drawer).map(get)).await {
            Ok(replies) => {
                let (accounts, drawer) = replies.split_at(ACCOUNTS);
                expect(accounts)?;
                expect(drawer).map(Some)
            }
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
        // As plain commands answer.
        Reply::Bytes(text) => match text.as_str().and_then(|text| text.parse::<i64>().ok()) {
            Some(value) => Ok(sum + value),
            None => Err(format!("an account holds {text}")),
        },
        other => Err(format!("an account holds {other}")),
    })
}

/// # Errors
/// What these accounts hold is not what was paid in.
pub(super) fn expect(balances: &[Reply]) -> Result<(), String> {
    let total = sum(balances)?;
    if total == Bank::total() {
        return Ok(());
    }
    Err(format!("the bank holds {total}, not {}: a transfer was seen by half", Bank::total()))
}

/// A customer: transfers, with and without a look at the balance, and audits of both kinds.
pub(super) async fn work(mut client: Client, bank: &Bank, progress: &Progress) -> Result<History, String> {
    let mut history = History::default();
    while !client.is_over(progress) {
        let amount = client.random.random_range(1..100);
        let (from, to) = two_of(&bank.accounts, &mut client.random);
        match client.random.random_range(0..6) {
            5 => {
                let (from, to) = two_of(&bank.drawer, &mut client.random);
                history.transfers += overwrite(&client.store, from, to, amount).await?;
            }
            4 => {
                let inside = two_of(&bank.drawer, &mut client.random);
                history.transfers += move_both(&client.store, (from, to), inside, amount).await?;
            }
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

/// Two accounts that differ.
pub(super) fn two_of<'a>(accounts: &'a [String], random: &mut impl Rng) -> (&'a str, &'a str) {
    let from = random.random_range(0..accounts.len());
    let to = (from + random.random_range(1..accounts.len())) % accounts.len();
    (&accounts[from], &accounts[to])
}

/// Moves money in the drawer and between shards at once.
async fn move_both(
    store: &Store,
    (from, to): (&str, &str),
    inside: (&str, &str),
    amount: i64,
) -> Result<u64, String> {
    let moves = [(from, -amount), (to, amount), (inside.0, -amount), (inside.1, amount)];
    match store.run_all(moves.map(|(key, amount)| (key.into(), add(amount)))).await {
        Ok(_) => Ok(1),
        Err(error) => outcome_of(&error).map(|outcome| u64::from(outcome == Outcome::Committed)),
    }
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

/// Reads both balances and writes what they shall be: whatever else is paid in between is lost, unless nothing is.
async fn overwrite(store: &Store, from: &str, to: &str, amount: i64) -> Result<u64, String> {
    let moved = store
        .transaction(|tx| async move {
            let (left, grown) =
                (tx.counter(from).get().await? - amount, tx.counter(to).get().await? + amount);
            tx.register(from).set(left.to_string())?;
            tx.register(to).set(grown.to_string())?;
            Ok(1)
        })
        .await;
    moved.or_else(|error| outcome_of(&error).map(|_| 0))
}

/// Reads the accounts one after the other.
async fn audit(store: &Store, bank: &Bank) -> Result<u64, String> {
    let total = store
        .transaction(|tx| async move {
            let mut balances = Vec::with_capacity(ACCOUNTS);
            for account in &bank.accounts {
                balances.push(Reply::Int(tx.counter(account).get().await?));
            }
            Ok(balances)
        })
        .await;
    match total {
        Ok(balances) => expect(&balances).map(|()| 1),
        Err(error) => outcome_of(&error).map(|_| 0),
    }
}
