//! What the clients were told, and what must hold in the store because of it.
//!
//! Checked of every district, besides the conditions of the standard ([`conditions`]):
//! - it has earned what was acknowledged, with and without transactions;
//! - its orders are those that were loaded and acknowledged, and the numbers told are consecutive.

use claret_types::{Bytes, Reply};

use super::tables::Tables;
use super::{calls, conditions, load};
use crate::workload::check::Witness;
use crate::workload::{Call, Checker, Promise, Violation, ops};

#[derive(Clone, Debug, Default)]
struct District {
    /// Acknowledged payments, in cents.
    paid: i64,
    orders: u64,
    /// The sum of the numbers of the acknowledged orders.
    numbers: i128,
    deliveries: u64,
}

#[derive(Debug)]
pub(super) struct Tally {
    districts: Vec<District>,
    witness: Witness,
}

impl Tally {
    pub(super) fn new(tables: &Tables) -> Self {
        Tally {
            districts: vec![District::default(); tables.districts().count()],
            witness: Witness::default(),
        }
    }

    pub(super) fn ordered(&mut self, district: usize, number: i64) {
        self.districts[district].orders += 1;
        self.districts[district].numbers += i128::from(number);
    }

    pub(super) fn paid(&mut self, district: usize, amount: i64) {
        self.districts[district].paid += amount;
    }

    pub(super) fn delivered(&mut self, district: usize) {
        self.districts[district].deliveries += 1;
    }

    pub(super) fn unknown(&mut self) {
        self.witness.unknown += 1;
    }

    pub(super) fn merge(&mut self, other: Tally) {
        for (sum, more) in self.districts.iter_mut().zip(other.districts) {
            sum.paid += more.paid;
            sum.orders += more.orders;
            sum.numbers += more.numbers;
            sum.deliveries += more.deliveries;
        }
        self.witness.merge(other.witness);
    }

    pub(super) fn verify(
        &self,
        tables: &Tables,
        promise: Promise,
        read: &mut dyn FnMut(Call) -> Reply,
    ) -> Vec<Violation> {
        let mut checker = Checker::new(promise, read);
        checker.witness(&self.witness);
        for (place, district) in tables.districts().zip(&self.districts) {
            let earned = Bytes::from((load::earned(tables) + district.paid).to_string());
            let what = "D_YTD after the acknowledged payments";
            checker.expect(&tables.district(place), ops::hget("ytd"), what, &Reply::Bytes(earned));
            if checker.is_transactional() {
                verify_orders(&mut checker, tables, place, district);
            }
        }
        if checker.is_transactional() {
            let mut read = |calls: Vec<Call>| {
                Ok(calls.into_iter().map(|Call { key, op }| checker.ask(&key, op)).collect())
            };
            let broken = conditions::check(tables, &mut read).expect("the reader has no errors");
            for broken in broken {
                checker.report(&broken.key, broken.condition.text(), broken.expected(), broken.found());
            }
        }
        checker.finish()
    }
}

fn verify_orders(checker: &mut Checker<'_>, tables: &Tables, place: (u32, u32), told: &District) {
    let loaded = u64::from(tables.sizes.customers);
    let orders = Reply::Int((loaded + told.orders) as i64);
    checker.expect(&tables.orders(place), calls::llen(), "orders after the acknowledged ones", &orders);
    // loaded + 1, loaded + 2, ...
    let (first, count) = (i128::from(loaded) + 1, i128::from(told.orders));
    let numbers = count * first + count * (count - 1) / 2;
    if numbers != told.numbers {
        let what = "the sum of the order numbers that were told";
        checker.report(&tables.orders(place), what, numbers, told.numbers);
    }
    let loaded = u64::from(tables.sizes.customers - tables.sizes.delivered);
    let left = (loaded + told.orders).saturating_sub(told.deliveries);
    let what = "orders left to deliver after the acknowledged deliveries";
    checker.expect(&tables.new_orders(place), calls::llen(), what, &Reply::Int(left as i64));
}
