//! Who has which numbers, and the keys of each generation. They have no hash tags, so those of one generation are of many slots.

use crate::intent::PREFIX_END;

/// Clients of each process, at most.
pub(super) const CLIENTS_MAX: u64 = 1 << 12;

/// How long a generation is, in microseconds.
pub(super) const GENERATION_US: u64 = 4_000_000;

/// How many lists, sets, accounts and ledgers a generation has.
pub(super) const LISTS: u64 = 8;
pub(super) const SETS: u64 = 8;
pub(super) const ACCOUNTS: u64 = 12;
pub(super) const LEDGERS: u64 = 3;

/// The keys of one generation of a run.
#[derive(Clone, Debug)]
pub(super) struct Records {
    start: String,
}

impl Records {
    /// Those of a run, in one of its generations.
    pub(super) fn new(prefix: &str, generation: u64) -> Self {
        Records { start: format!("{prefix}:{generation}{PREFIX_END}") }
    }

    pub(super) fn list(&self, number: u64) -> String {
        format!("{}l{number}", self.start)
    }

    pub(super) fn set(&self, number: u64) -> String {
        format!("{}s{number}", self.start)
    }

    pub(super) fn account(&self, number: u64) -> String {
        format!("{}a{number}", self.start)
    }

    /// A set with the numbers of transfers.
    pub(super) fn ledger(&self, number: u64) -> String {
        format!("{}s-ledger{number}", self.start)
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = String> {
        (0..LISTS).map(|number| self.list(number))
    }

    /// Of sets of both kinds.
    pub(super) fn sets(&self) -> impl Iterator<Item = String> {
        (0..SETS).map(|number| self.set(number)).chain(self.ledgers())
    }

    pub(super) fn ledgers(&self) -> impl Iterator<Item = String> {
        (0..LEDGERS).map(|number| self.ledger(number))
    }

    pub(super) fn accounts(&self) -> impl Iterator<Item = String> {
        (0..ACCOUNTS).map(|number| self.account(number))
    }

    /// The key that stands for all accounts in [`Step::Total`](crate::history::Step::Total).
    pub(super) fn bank(&self) -> String {
        self.account(0)
    }
}
