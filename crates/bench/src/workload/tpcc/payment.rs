//! Payment (clause 2.5): to a district and its warehouse, by a customer who may be of another one.

use claret_types::{Bytes, Reply};
use rand::RngExt;

use super::calls;
use super::hand::{Hand, Who, in_the_middle};
use super::rows::HistoryRow;
use super::tables::Tables;
use crate::workload::{Call, Stage, array, bytes, names, ops};

/// How much is kept of what is noted on customers with bad credit.
const DATA_MAX: usize = 500;

const ADDRESS: [&str; 6] = ["name", "street_1", "street_2", "city", "state", "zip"];
const CUSTOMER: [&str; 13] = [
    "credit",
    "first",
    "middle",
    "last",
    "street_1",
    "street_2",
    "city",
    "state",
    "zip",
    "phone",
    "since",
    "credit_lim",
    "discount",
];

/// What the replies of a stage are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    /// The last are of the customers with a last name.
    Names,
    /// The last is of the customer.
    Customer,
    /// What is noted on one with bad credit.
    Data,
}

pub(super) struct Payment {
    place: (u32, u32),
    /// Where the customer is.
    home: (u32, u32),
    who: Who,
    amount: i64,
    name: Bytes,
    date: u64,
    step: Step,
    customer: u32,
    /// `H_DATA`: the names of warehouse and district.
    data: Bytes,
}

impl Payment {
    pub(super) fn draw(hand: &mut Hand) -> Self {
        let (name, date) = hand.name_and_date();
        let place = (hand.home, hand.district());
        let is_remote = hand.tables.options.warehouses > 1 && hand.rng.random_bool(0.15);
        let home = if is_remote { (hand.elsewhere(), hand.district()) } else { place };
        let (who, amount) = (hand.who(), hand.rng.random_range(100..=500_000));
        let data = Bytes::default();
        Payment { place, home, who, amount, name, date, step: Step::Begin, customer: 0, data }
    }

    pub(super) fn place(&self) -> (u32, u32) {
        self.place
    }

    pub(super) fn amount(&self) -> i64 {
        self.amount
    }

    pub(super) fn restart(&mut self) {
        self.step = Step::Begin;
    }

    pub(super) fn stage(&mut self, tables: &Tables, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        if self.step == Step::Begin {
            calls.push(Call::new(&tables.warehouse(self.place.0), calls::hmget(&ADDRESS)));
            calls.push(Call::new(&tables.district(self.place), calls::hmget(&ADDRESS)));
            match self.who.clone() {
                Who::Named(last) => {
                    self.step = Step::Names;
                    calls.push(Call::new(&tables.names(self.home), calls::hget(last)));
                }
                Who::Number(number) => self.ask_customer(tables, number, calls),
            }
            return Stage::Read;
        }
        if let [warehouse, district, _] = replies {
            self.data = note(&[warehouse, district]);
        }
        let last = replies.last().expect("each stage asked for something");
        match self.step {
            Step::Begin => unreachable!("asked above"),
            Step::Names => {
                self.ask_customer(tables, in_the_middle(last), calls);
                Stage::Read
            }
            Step::Customer if array(last)[0] == Reply::Bytes("BC".into()) => {
                self.step = Step::Data;
                let customer = tables.customer(self.home, self.customer);
                calls.push(Call::new(&customer, ops::hget("data")));
                Stage::Read
            }
            Step::Customer => self.write(tables, None, calls),
            Step::Data => self.write(tables, bytes(last), calls),
        }
    }

    fn ask_customer(&mut self, tables: &Tables, number: u32, calls: &mut Vec<Call>) {
        (self.customer, self.step) = (number, Step::Customer);
        calls.push(Call::new(&tables.customer(self.home, number), calls::hmget(&CUSTOMER)));
    }

    /// The district and the warehouse last: most want these.
    fn write(&self, tables: &Tables, noted: Option<&Bytes>, calls: &mut Vec<Call>) -> Stage {
        let Payment { place, home, amount, .. } = *self;
        let customer = tables.customer(home, self.customer);
        for (field, change) in [("balance", -amount), ("ytd_payment", amount), ("payment_cnt", 1)] {
            calls.push(Call::new(&customer, ops::hincrby(field, change)));
        }
        if let Some(noted) = noted {
            let mut data = self.mark();
            data.extend(noted);
            data.truncate(DATA_MAX);
            calls.push(Call::new(&customer, ops::hset([("data", data)])));
        }
        calls.push(Call::new(&customer, ops::hget("balance")));
        let row = HistoryRow {
            customer: (home.0, home.1, self.customer),
            date: self.date,
            amount,
            name: self.name.clone(),
            data: self.data.clone(),
        };
        calls.push(Call::new(&tables.history(place), ops::sadd(row.to_bytes())));
        calls.push(Call::new(&tables.district(place), ops::hincrby("ytd", amount)));
        calls.push(Call::new(&tables.warehouse(place.0), ops::hincrby("ytd", amount)));
        Stage::Commit
    }

    /// What is noted of this payment.
    fn mark(&self) -> Bytes {
        let numbers = [self.customer, self.home.1, self.home.0, self.place.1, self.place.0];
        let mut mark = Bytes::default();
        for number in numbers.map(u64::from).into_iter().chain([self.amount.unsigned_abs()]) {
            mark.extend(names::Digits::of(number).as_bytes());
            mark.extend(b" ");
        }
        mark
    }
}

/// The names that these rows begin with, four spaces between them.
fn note(rows: &[&Reply]) -> Bytes {
    let names: Vec<String> = rows.iter().filter_map(|row| Some(bytes(&array(row)[0])?.to_string())).collect();
    Bytes::from(names.join("    "))
}
