//! A client: draws one of the five transactions and goes through its stages. Its home is one warehouse, as a terminal's.
//!
//! Delivery and Stock-Level are here; the others have files of their own.

use std::sync::{Arc, Mutex, PoisonError};

use claret_types::{Bytes, Reply};
use rand::RngExt;

use super::calls;
use super::hand::{Hand, number_in};
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::rows::{LineRow, OrderRow};
use super::tables::{DISTRICTS, Profile, Tables};
use super::tally::Tally;
use crate::workload::{Call, Client, Stage, array, bytes, names, ops};

/// Orders that Stock-Level looks at (clause 2.8.2.2).
const LATEST: i64 = 20;

enum Current {
    None,
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

pub(super) struct TpccClient {
    hand: Hand,
    current: Current,
    tally: Tally,
    total: Arc<Mutex<Tally>>,
}

impl TpccClient {
    pub(super) fn new(tables: Arc<Tables>, total: Arc<Mutex<Tally>>, number: u64, seed: u64) -> Self {
        let tally = Tally::new(&tables);
        TpccClient { hand: Hand::new(tables, number, seed), current: Current::None, tally, total }
    }
}

impl Client for TpccClient {
    fn draw(&mut self) -> usize {
        let hand = &mut self.hand;
        let profile = hand.tables.mix.clone().draw(&mut hand.rng);
        self.current = match profile {
            Profile::NewOrder => Current::NewOrder(NewOrder::draw(hand)),
            Profile::Payment => Current::Payment(Payment::draw(hand)),
            Profile::OrderStatus => Current::OrderStatus(OrderStatus::draw(hand)),
            Profile::Delivery => Current::Delivery(Delivery::draw(hand)),
            Profile::StockLevel => Current::StockLevel(StockLevel::draw(hand)),
        };
        profile as usize
    }

    fn stage(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let tables = &self.hand.tables;
        match &mut self.current {
            Current::None => unreachable!("a transaction is drawn first"),
            Current::NewOrder(it) => it.stage(tables, replies, calls),
            Current::Payment(it) => it.stage(tables, replies, calls),
            Current::OrderStatus(it) => it.stage(tables, replies, calls),
            Current::Delivery(it) => it.stage(tables, replies, calls),
            Current::StockLevel(it) => it.stage(tables, replies, calls),
        }
    }

    /// It reads some 200 records, and the list of orders that everybody appends to.
    fn looks(&self) -> bool {
        matches!(self.current, Current::StockLevel(_))
    }

    fn rolls_back(&self) -> bool {
        matches!(&self.current, Current::NewOrder(it) if it.rolls_back())
    }

    fn restart(&mut self) {
        match &mut self.current {
            Current::None => {}
            Current::NewOrder(it) => it.restart(),
            Current::Payment(it) => it.restart(),
            Current::OrderStatus(it) => it.restart(),
            Current::Delivery(it) => it.restart(),
            Current::StockLevel(it) => it.is_second = false,
        }
    }

    fn committed(&mut self, replies: &[Reply]) {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::NewOrder(it) => {
                let number = crate::workload::integer(replies.last().expect("the push comes last"));
                self.tally.ordered(self.hand.tables.district_at(it.place()), number);
            }
            Current::Payment(it) => self.tally.paid(self.hand.tables.district_at(it.place()), it.amount()),
            Current::Delivery(it) => {
                for d in it.delivered() {
                    self.tally.delivered(self.hand.tables.district_at((it.warehouse, d)));
                }
            }
            Current::None | Current::OrderStatus(_) | Current::StockLevel(_) => {}
        }
    }

    fn gave_up(&mut self) {
        self.current = Current::None;
    }

    fn unknown(&mut self) {
        self.current = Current::None;
        self.tally.unknown();
    }

    fn finish(self: Box<Self>) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(self.tally);
    }
}

/// Delivery (clause 2.7): the eldest order of each district of a warehouse, all in one transaction.
struct Delivery {
    warehouse: u32,
    carrier: u64,
    date: u64,
    step: u8,
    /// District and name of what is delivered.
    popped: Vec<(u32, Bytes)>,
}

impl Delivery {
    fn draw(hand: &mut Hand) -> Self {
        let (_, date) = hand.name_and_date();
        let (warehouse, carrier) = (hand.home, hand.rng.random_range(1..=10));
        Delivery { warehouse, carrier, date, step: 0, popped: Vec::new() }
    }

    fn restart(&mut self) {
        self.step = 0;
        self.popped.clear();
    }

    fn delivered(&self) -> impl Iterator<Item = u32> + '_ {
        self.popped.iter().map(|(d, _)| *d)
    }

    fn stage(&mut self, tables: &Tables, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        self.step += 1;
        let w = self.warehouse;
        match self.step {
            // Two at one warehouse meet at its first district, and not each at other ones first.
            1 | 2 => {
                self.note(1, replies);
                let districts = if self.step == 1 { 1..=1 } else { 2..=DISTRICTS };
                calls.extend(districts.map(|d| Call::new(&tables.new_orders((w, d)), calls::lpop())));
                Stage::Read
            }
            3 => {
                self.note(2, replies);
                let orders = self.popped.iter().map(|(d, name)| tables.order((w, *d), name));
                calls.extend(orders.map(|key| Call::new(&key, ops::hgetall())));
                Stage::Read
            }
            _ => {
                for ((d, name), found) in self.popped.iter().zip(replies) {
                    self.deliver(tables, *d, name, array(found), calls);
                }
                Stage::Commit
            }
        }
    }

    /// What was popped, from this district on. One without any is skipped (clause 2.7.4.2).
    fn note(&mut self, first: u32, replies: &[Reply]) {
        let popped = (first..).zip(replies).filter_map(|(d, found)| Some((d, bytes(found)?.clone())));
        self.popped.extend(popped);
    }

    /// The carrier, the date of each line, the customer's balance and count.
    fn deliver(&self, tables: &Tables, d: u32, name: &Bytes, row: &[Reply], calls: &mut Vec<Call>) {
        let date = names::decimal(self.date);
        let mut set = vec![(Bytes::from("carrier"), names::decimal(self.carrier))];
        let (mut sum, mut customer) = (0, 0);
        for pair in row.chunks_exact(2) {
            let (Some(field), Some(value)) = (bytes(&pair[0]), bytes(&pair[1])) else { continue };
            if *field == Bytes::from("customer") {
                customer = number_in(&pair[1]) as u32;
            } else if let (Some(number), Some(line)) = (names::number(field), LineRow::parse(value)) {
                sum += line.amount;
                set.push((names::numbered("d", number), date.clone()));
            }
        }
        let place = (self.warehouse, d);
        calls.push(Call::new(&tables.order(place, name), calls::hset(set)));
        // Without transactions the order may not be there yet.
        if customer > 0 {
            let customer = tables.customer(place, customer);
            calls.push(Call::new(&customer, ops::hincrby("balance", sum)));
            calls.push(Call::new(&customer, ops::hincrby("delivery_cnt", 1)));
        }
    }
}

/// Stock-Level (clause 2.8): how many of the items of a district's latest orders are low in stock.
struct StockLevel {
    place: (u32, u32),
    is_second: bool,
}

impl StockLevel {
    fn draw(hand: &mut Hand) -> Self {
        // A terminal's district is always the same.
        let number = hand.number / u64::from(hand.tables.options.warehouses);
        let district = (number % u64::from(DISTRICTS)) as u32 + 1;
        StockLevel { place: (hand.home, district), is_second: false }
    }

    fn stage(&mut self, tables: &Tables, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        if !std::mem::replace(&mut self.is_second, true) {
            calls.push(Call::new(&tables.orders(self.place), calls::lrange(-LATEST, -1)));
            return Stage::Read;
        }
        let rows = array(&replies[0]).iter().filter_map(|row| OrderRow::parse(bytes(row)?));
        let mut items: Vec<u32> = rows.flat_map(|row| row.items).collect();
        items.sort_unstable();
        items.dedup();
        let quantity = |item| Call::new(&tables.quantity(self.place.0, item), calls::bget());
        calls.extend(items.into_iter().map(quantity));
        Stage::Commit
    }
}
