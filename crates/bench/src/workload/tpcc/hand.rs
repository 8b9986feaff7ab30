//! What a client draws from: places, items and customers, as the standard has them drawn.

use std::sync::Arc;

use claret_types::{Bytes, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::tables::{DISTRICTS, Tables};
use super::{load, random};
use crate::workload::{bytes, names};

/// What a client draws from, and how it names what it makes.
pub(super) struct Hand {
    pub(super) tables: Arc<Tables>,
    pub(super) rng: SmallRng,
    pub(super) number: u64,
    made: u64,
    pub(super) home: u32,
}

impl Hand {
    pub(super) fn new(tables: Arc<Tables>, number: u64, seed: u64) -> Self {
        let home = (number % u64::from(tables.options.warehouses)) as u32 + 1;
        Hand { tables, rng: SmallRng::seed_from_u64(seed), number, made: 0, home }
    }

    /// A name that nobody else uses, and a date: dates rise with each of a client's transactions.
    pub(super) fn name_and_date(&mut self) -> (Bytes, u64) {
        self.made += 1;
        (names::pair(self.number, self.made), self.made)
    }

    pub(super) fn district(&mut self) -> u32 {
        self.rng.random_range(1..=DISTRICTS)
    }

    /// Another warehouse than home; home if there is no other.
    pub(super) fn elsewhere(&mut self) -> u32 {
        match self.tables.options.warehouses {
            1 => self.home,
            count => (self.home + self.rng.random_range(1..count) - 1) % count + 1,
        }
    }

    pub(super) fn customer(&mut self) -> u32 {
        let (c, high) = (self.tables.at_run.customer, self.tables.sizes.customers);
        random::skewed(&mut self.rng, random::scaled(1023, 3_000, high), c, 1, high)
    }

    pub(super) fn item(&mut self) -> u32 {
        let (c, high) = (self.tables.at_run.item, self.tables.sizes.items);
        random::skewed(&mut self.rng, random::scaled(8191, 100_000, high), c, 1, high)
    }

    /// A customer by last name in 60 of 100, else by number (clauses 2.5.1.2 and 2.6.1.2).
    pub(super) fn who(&mut self) -> Who {
        if self.rng.random_bool(0.6) {
            let high = self.tables.sizes.names() - 1;
            let number = random::skewed(
                &mut self.rng,
                random::scaled(255, 1_000, high + 1),
                self.tables.at_run.name,
                0,
                high,
            );
            return Who::Named(random::last_name(number));
        }
        Who::Number(self.customer())
    }
}

/// How a customer is told.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Number(u32),
    Named(Bytes),
}

impl Who {
    /// The customer's number if that is known.
    pub(super) fn number(&self) -> Option<u32> {
        match self {
            Who::Number(number) => Some(*number),
            Who::Named(_) => None,
        }
    }
}

/// The one in the middle of those with a last name (clause 2.5.2.2).
///
/// # Panics
/// When nobody has it: it was loaded.
pub(super) fn in_the_middle(found: &Reply) -> u32 {
    let customers = load::listed(bytes(found).expect("a last name that was loaded"));
    customers[customers.len().div_ceil(2) - 1]
}

/// A number in a field; 0 where there is none.
pub(super) fn number_in(reply: &Reply) -> i64 {
    bytes(reply).and_then(Bytes::as_str).and_then(|text| text.parse().ok()).unwrap_or(0)
}
