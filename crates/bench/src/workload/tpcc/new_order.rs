//! New-Order (clause 2.4): five to fifteen lines, each taken from a stock; one in a hundred names an item that is none, and is
//! rolled back by its user.
//!
//! What never changes is read first. All that is written goes into the last stage, the order's number last of all, whose
//! district has the most who want it.

use claret_types::{Bytes, Reply};
use rand::RngExt;

use super::hand::{Hand, number_in};
use super::rows::{LineRow, OrderRow};
use super::tables::Tables;
use super::{calls, load};
use crate::workload::{Call, Stage, array, bytes, names, ops};

/// A line as it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    item: u32,
    supply: u32,
    quantity: i64,
}

pub(super) struct NewOrder {
    warehouse: u32,
    district: u32,
    customer: u32,
    lines: Vec<Line>,
    name: Bytes,
    date: u64,
    is_second: bool,
    /// An item was not found.
    rolls_back: bool,
}

impl NewOrder {
    pub(super) fn draw(hand: &mut Hand) -> Self {
        let (name, date) = hand.name_and_date();
        let (district, customer) = (hand.district(), hand.customer());
        let count = hand.rng.random_range(5..=15);
        let mut lines: Vec<Line> = (0..count).map(|_| Self::line(hand)).collect();
        if hand.rng.random_bool(0.01) {
            lines.last_mut().expect("five at least").item = hand.tables.sizes.items + 1;
        }
        let warehouse = hand.home;
        NewOrder { warehouse, district, customer, lines, name, date, is_second: false, rolls_back: false }
    }

    fn line(hand: &mut Hand) -> Line {
        let item = hand.item();
        let supply = if hand.rng.random_bool(0.01) { hand.elsewhere() } else { hand.home };
        Line { item, supply, quantity: hand.rng.random_range(1..=10) }
    }

    pub(super) fn place(&self) -> (u32, u32) {
        (self.warehouse, self.district)
    }

    pub(super) fn rolls_back(&self) -> bool {
        self.rolls_back
    }

    pub(super) fn restart(&mut self) {
        (self.is_second, self.rolls_back) = (false, false);
    }

    pub(super) fn stage(&mut self, tables: &Tables, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        if std::mem::replace(&mut self.is_second, true) {
            self.write(tables, replies, calls);
            return Stage::Commit;
        }
        let (w, place) = (self.warehouse, self.place());
        let customer = tables.customer(place, self.customer);
        calls.push(Call::new(&tables.warehouse(w), ops::hget("tax")));
        calls.push(Call::new(&tables.district(place), ops::hget("tax")));
        calls.push(Call::new(&customer, calls::hmget(&["discount", "last", "credit"])));
        let dist = load::dist(self.district);
        let dist = dist.as_str().expect("letters and digits");
        for line in &self.lines {
            let item = tables.item(w, line.item);
            calls.push(Call::new(&item, calls::hmget(&["price", "name", "data"])));
            calls.push(Call::new(&tables.stock(line.supply, line.item), calls::hmget(&[dist, "data"])));
        }
        Stage::Read
    }

    fn write(&mut self, tables: &Tables, replies: &[Reply], calls: &mut Vec<Call>) {
        let place = self.place();
        let mut rows = Vec::with_capacity(self.lines.len());
        for (line, found) in self.lines.iter().zip(replies[3..].chunks_exact(2)) {
            let (item, stock) = (array(&found[0]), array(&found[1]));
            if item[0] == Reply::Nil {
                self.rolls_back = true;
                continue;
            }
            let Line { item: number, supply, quantity } = *line;
            let amount = quantity * number_in(&item[0]);
            let dist = bytes(&stock[0]).cloned().unwrap_or_default();
            rows.push(LineRow { item: number, supply, quantity, amount, dist });
        }
        let mut taken: Vec<Line> =
            self.lines.iter().copied().filter(|line| line.item <= tables.sizes.items).collect();
        taken.sort_unstable_by_key(|line| (line.supply, line.item));
        taken.iter().for_each(|line| self.take(tables, *line, calls));
        let fields = (1..).zip(&rows).map(|(line, row)| (names::decimal(line), row.to_bytes()));
        let customer = ("customer".into(), names::decimal(u64::from(self.customer)));
        let order = tables.order(place, &self.name);
        calls.push(Call::new(&order, calls::hset(fields.chain([customer]))));
        let latest = ops::hset([("order", self.name.clone())]);
        calls.push(Call::new(&tables.customer(place, self.customer), latest));
        calls.push(Call::new(&tables.new_orders(place), calls::rpush([self.name.clone()])));
        let row = OrderRow {
            name: self.name.clone(),
            customer: self.customer,
            entry: self.date,
            count: self.lines.len() as u32,
            is_local: self.lines.iter().all(|line| line.supply == self.warehouse),
            items: self.lines.iter().map(|line| line.item).collect(),
        };
        calls.push(Call::new(&tables.orders(place), calls::rpush_returning(row.to_bytes())));
    }

    /// What a line does to its stock; what is left is shown to the user.
    fn take(&self, tables: &Tables, line: Line, calls: &mut Vec<Call>) {
        let Line { item, supply, quantity } = line;
        let (left, stock) = (tables.quantity(supply, item), tables.stock(supply, item));
        calls.push(Call::new(&left, calls::take_wrapping(quantity)));
        calls.push(Call::new(&left, calls::bget()));
        calls.push(Call::new(&stock, ops::hincrby("ytd", quantity)));
        calls.push(Call::new(&stock, ops::hincrby("order_cnt", 1)));
        if supply != self.warehouse {
            calls.push(Call::new(&stock, ops::hincrby("remote_cnt", 1)));
        }
    }
}
