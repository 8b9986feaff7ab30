//! A bank: transfers move money between accounts, and every audit must find the same total.
//!
//! There are two sets of accounts. One is spread over all shards. The other, the drawer, shares a hash tag and so lies on
//! one node, where plain commands can read and move all of it at once. Clients record the totals they see; `sums.rs`
//! judges them.

use std::sync::atomic::Ordering;

use claret::types::{Counter, CounterOp};
use claret::{Bytes, Error, Operation, Records, Reply, Store};
use rand::{Rng, RngExt};

use crate::history::{History, Outcome, Step};
use crate::plan::Progress;
use crate::traffic::{Client, outcome_of, pause};

const ACCOUNTS: usize = 8;
const DEPOSIT: i64 = 1_000;

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    /// Spread over the shards.
    accounts: Vec<String>,
    /// On one node.
    drawer: Vec<String>,
}

/// How a transaction ended, and what it showed.
type Ended = (Outcome, Vec<Step>);

impl Bank {
    /// The bank of a round.
    pub(crate) fn new(prefix: &str, round: u64) -> Self {
        let names = |start: String| (0..ACCOUNTS).map(|number| format!("{start}{number}")).collect();
        let accounts = names(format!("{prefix}/{round}/bank"));
        Bank { accounts, drawer: names(format!("{{{prefix}/drawer}}{round}/")) }
    }

    /// Those that are spread over all shards.
    pub(super) fn accounts(&self) -> &[String] {
        &self.accounts
    }

    /// The keys of the drawer.
    pub(super) fn drawer(&self) -> &[String] {
        &self.drawer
    }

    /// All keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        self.accounts.iter().chain(&self.drawer)
    }

    /// The key that stands for all accounts in [`Step::Total`], and that for the drawer.
    pub(crate) fn names(&self) -> [&String; 2] {
        [&self.accounts[0], &self.drawer[0]]
    }

    /// What all accounts hold together; as much as the drawer.
    pub(crate) const fn total() -> i64 {
        DEPOSIT * ACCOUNTS as i64
    }

    /// Pays the deposits in.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn open(&self, store: &Store) -> Result<(), String> {
        let calls = self.keys().map(|key| (Bytes::from(key), add(DEPOSIT)));
        store.run_all(calls).await.map_err(|error| format!("opening the bank: {error}"))?;
        Ok(())
    }

    /// The totals as a one-shot transaction sees them.
    ///
    /// # Errors
    /// An error that nobody expects.
    pub(super) async fn look(&self, store: &Store) -> Result<Ended, String> {
        let get = |key: &String| (Bytes::from(key), Operation::new::<Counter>(CounterOp::Get));
        let replies = store.run_all(self.keys().map(get)).await;
        let both = |replies: Vec<Reply>| {
            let (accounts, drawer) = replies.split_at(ACCOUNTS);
            let [one, other] = self.names();
            Ok(vec![Step::Total(one.clone(), sum(accounts)?), Step::Total(other.clone(), sum(drawer)?)])
        };
        ended(replies, both)
    }
}

fn ended<T>(
    result: Result<T, Error>,
    steps: impl FnOnce(T) -> Result<Vec<Step>, String>,
) -> Result<Ended, String> {
    match result {
        Ok(value) => Ok((Outcome::Committed, steps(value)?)),
        Err(error) => Ok((outcome_of(&error)?, Vec::new())),
    }
}

fn moved<T>(_: T) -> Result<Vec<Step>, String> {
    Ok(vec![Step::Moved])
}

fn add(amount: i64) -> Operation {
    Operation::new::<Counter>(CounterOp::Add(amount))
}

/// # Errors
/// What is there is no money.
pub(super) fn sum(replies: &[Reply]) -> Result<i64, String> {
    replies.iter().try_fold(0, |sum, reply| match reply {
        Reply::Int(value) => Ok(sum + value),
        Reply::Nil => Ok(sum),
        // As plain commands answer.
        Reply::Bytes(text) => match text.as_str().and_then(|text| text.parse::<i64>().ok()) {
            Some(value) => Ok(sum + value),
            None => Err(format!("an account holds {text}")),
        },
        other => Err(format!("an account holds {other}")),
    })
}

/// A customer: transfers, with and without a look at the balance, and audits of both kinds.
pub(super) async fn work(mut client: Client, bank: &Bank, progress: &Progress) -> Result<History, String> {
    let mut history = History::default();
    while !client.is_over(progress) {
        let began = client.begin(Vec::new()).await;
        let (outcome, steps) = one(&mut client, bank).await?;
        client.note(&mut history, began, outcome, steps);
        progress.ended.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    Ok(history)
}

async fn one(client: &mut Client, bank: &Bank) -> Result<Ended, String> {
    let amount = client.random.random_range(1..100);
    let (from, to) = two_of(&bank.accounts, &mut client.random);
    match client.random.random_range(0..6) {
        5 => {
            let (from, to) = two_of(&bank.drawer, &mut client.random);
            overwrite(client, from, to, amount).await
        }
        4 => {
            let inside = two_of(&bank.drawer, &mut client.random);
            let moves = [(from, -amount), (to, amount), (inside.0, -amount), (inside.1, amount)];
            let calls = moves.map(|(key, amount)| (key.into(), add(amount)));
            ended(client.store.run_all(calls).await, moved)
        }
        // Both operations go together, and answer nothing.
        0 => {
            let calls = [(from.into(), add(-amount)), (to.into(), add(amount))];
            ended(client.store.run_all(calls).await, moved)
        }
        1 => move_if_enough(client, from, to, amount).await,
        2 => bank.look(&client.store).await,
        _ => audit(client, bank).await,
    }
}

/// Two accounts that differ.
pub(super) fn two_of<'a>(accounts: &'a [String], random: &mut impl Rng) -> (&'a str, &'a str) {
    let from = random.random_range(0..accounts.len());
    let to = (from + random.random_range(1..accounts.len())) % accounts.len();
    (&accounts[from], &accounts[to])
}

async fn move_if_enough(client: &mut Client, from: &str, to: &str, amount: i64) -> Result<Ended, String> {
    let pauses = [0; 2].map(|_| client.keys.draw_pause(&mut client.random));
    let options = client.draw_way();
    let result = client
        .store
        .tx()
        .options(options)
        .run(|tx| async move {
            if tx.counter(from).get().await? < amount {
                return Ok(());
            }
            pause(pauses[0]).await;
            tx.counter(from).add(-amount)?;
            pause(pauses[1]).await;
            tx.counter(to).add(amount)?;
            Ok(())
        })
        .await;
    ended(result, moved)
}

/// Reads both balances and writes what they shall be: whatever else is paid in between is lost, unless nothing is.
async fn overwrite(client: &mut Client, from: &str, to: &str, amount: i64) -> Result<Ended, String> {
    let pauses = [0; 2].map(|_| client.keys.draw_pause(&mut client.random));
    let options = client.draw_way();
    let result = client
        .store
        .tx()
        .options(options)
        .run(|tx| async move {
            let left = tx.counter(from).get().await? - amount;
            pause(pauses[0]).await;
            let grown = tx.counter(to).get().await? + amount;
            pause(pauses[1]).await;
            tx.register(from).set(left.to_string())?;
            tx.register(to).set(grown.to_string())?;
            Ok(())
        })
        .await;
    ended(result, moved)
}

/// Reads the accounts one after the other.
async fn audit(client: &mut Client, bank: &Bank) -> Result<Ended, String> {
    let (at, wait) = (client.random.random_range(0..ACCOUNTS), client.keys.draw_pause(&mut client.random));
    let options = client.draw_way();
    let total = client
        .store
        .tx()
        .options(options)
        .run(|tx| async move {
            let mut total = 0;
            for (number, account) in bank.accounts.iter().enumerate() {
                if number == at {
                    pause(wait).await;
                }
                total += tx.counter(account).get().await?;
            }
            Ok(total)
        })
        .await;
    ended(total, |total| Ok(vec![Step::Total(bank.names()[0].clone(), total)]))
}
