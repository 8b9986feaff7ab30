//! The consistency conditions 1 to 12 of clause 3.3.2, and one on stock that the standard does not have.
//!
//! Condition 11 holds in the standard's words only before the first delivery: 2,100 orders fewer in NEW-ORDER than in ORDER.
//! Here it is 2,100 and what the customers' `C_DELIVERY_CNT` add up to. `D_NEXT_O_ID` is no column here: it is one more than
//! there are orders in the district's list. Money is in cents.

use std::collections::{HashMap, HashSet};
use std::fmt;

use claret_types::{Bytes, Operation, Reply};

use super::rows::{HistoryRow, LineRow, OrderRow};
use super::tables::{DISTRICTS, Options, PARAMETERS, Placing, Tables};
use super::{calls, load};
use crate::workload::{Call, VIOLATIONS_MAX, array, bytes, ops};

/// Reads many things: a reply for each call, or why it cannot be read.
pub type Read<'a> = &'a mut dyn FnMut(Vec<Call>) -> Result<Vec<Reply>, String>;

/// How many records are asked for at once.
const AT_ONCE: usize = 256;

/// A condition, by its number in the standard; 0 is that on stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition(u8);

const TEXTS: [&str; 13] = [
    "stock: S_QUANTITY, S_YTD, S_ORDER_CNT and S_REMOTE_CNT are what the lines of the run took",
    "condition 1: W_YTD is the sum of D_YTD",
    "condition 2: D_NEXT_O_ID - 1 is the largest O_ID and the largest NO_O_ID",
    "condition 3: the numbers in NEW-ORDER have no gap",
    "condition 4: the sum of O_OL_CNT is the number of rows in ORDER-LINE",
    "condition 5: O_CARRIER_ID is null exactly of the orders in NEW-ORDER",
    "condition 6: O_OL_CNT is the number of the order's rows in ORDER-LINE",
    "condition 7: OL_DELIVERY_D is null exactly where O_CARRIER_ID is",
    "condition 8: W_YTD is the sum of H_AMOUNT",
    "condition 9: D_YTD is the sum of H_AMOUNT",
    "condition 10: C_BALANCE is the sum of delivered OL_AMOUNT less the sum of H_AMOUNT",
    "condition 11: ORDER has as many rows more than NEW-ORDER as orders were delivered",
    "condition 12: C_BALANCE and C_YTD_PAYMENT together are the sum of delivered OL_AMOUNT",
];

impl Condition {
    /// Its number; 0 is that on stock.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its number and what it says.
    pub fn text(self) -> &'static str {
        TEXTS[self.0 as usize]
    }
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub condition: Condition,
    /// Where.
    pub warehouse: u32,
    /// Where in the warehouse, unless it is of the whole.
    pub district: Option<u32>,
    /// The record with the first of the two values.
    pub key: Bytes,
    /// What was found there, by its name.
    pub left: (&'static str, String),
    /// What it should be, by its name.
    pub right: (&'static str, String),
}

impl Broken {
    /// The value that follows from the other tables, with its name.
    pub fn expected(&self) -> String {
        format!("{} {}", self.right.1, self.right.0)
    }

    /// The value that was found, with its name and place.
    pub fn found(&self) -> String {
        format!("{} {} ({})", self.left.1, self.left.0, self.place())
    }

    fn place(&self) -> String {
        match self.district {
            Some(district) => format!("warehouse {}, district {district}", self.warehouse),
            None => format!("warehouse {}", self.warehouse),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Broken { condition, key, left, right, .. }, place) = (self, self.place());
        let (text, (name, value), (other, expected)) = (condition.text(), left, right);
        write!(f, "{text}: {place}: {name} is {value}, {other} is {expected} (key '{key}')")
    }
}

/// Reads the parameters of what was loaded with this prefix.
///
/// # Errors
/// The record is not there, is not one of parameters, or cannot be read.
pub fn parameters(prefix: &str, read: Read<'_>) -> Result<Options, String> {
    let key = Bytes::from(format!("{prefix}{PARAMETERS}"));
    let fields = calls::hmget(&["warehouses", "scale", "place", "seed"]);
    let found = read(vec![Call::new(&key, fields)])?;
    let text = |at: usize| {
        let value = bytes(&array(&found[0])[at]).and_then(Bytes::as_str);
        value.ok_or_else(|| format!("'{key}' is not what 'claret bench tpcc --keep' leaves"))
    };
    let wrong = |what: &str| format!("'{key}' has no {what} that is one");
    Ok(Options {
        prefix: prefix.to_owned(),
        warehouses: text(0)?.parse().ok().filter(|it| *it > 0).ok_or_else(|| wrong("warehouses"))?,
        scale: text(1)?.parse().map_err(|_| wrong("scale"))?,
        place: Placing::parse(text(2)?)?,
        seed: text(3)?.parse().map_err(|_| wrong("seed"))?,
    })
}

/// What the key of the parameters ends with, as a pattern: where it is found, something was loaded and kept.
pub fn parameters_pattern() -> String {
    format!("*{PARAMETERS}")
}

/// The prefix of what was loaded, from the key of its parameters.
pub fn prefix_of(key: &Bytes) -> Option<&str> {
    key.as_str()?.strip_suffix(PARAMETERS)
}

/// Checks all conditions; the first [`VIOLATIONS_MAX`] that do not hold. Nothing else may be running. O(records).
///
/// # Errors
/// A record cannot be read, or is of another type.
pub fn check(tables: &Tables, read: Read<'_>) -> Result<Vec<Broken>, String> {
    let mut check = Check { tables, read, paid: HashMap::new(), taken: HashMap::new(), broken: Vec::new() };
    check.money()?;
    for place in tables.districts() {
        check.district(place)?;
    }
    check.stock()?;
    check.broken.truncate(VIOLATIONS_MAX);
    Ok(check.broken)
}

type Place = (u32, u32);
type Map<K, V> = HashMap<K, V>;

/// What the lines of a run took from a stock.
#[derive(Clone, Copy, Default)]
struct Taken {
    quantity: i64,
    orders: i64,
    remote: i64,
}

/// What the orders of a district come to.
#[derive(Default)]
struct Orders {
    /// Of each customer, delivered only.
    amounts: Map<u32, i64>,
    counted: i64,
    lines: i64,
}

struct Check<'a> {
    tables: &'a Tables,
    read: Read<'a>,
    /// What each customer has paid.
    paid: Map<(u32, u32, u32), i64>,
    /// By warehouse and item.
    taken: Map<(u32, u32), Taken>,
    broken: Vec<Broken>,
}

impl Check<'_> {
    fn one(&mut self, key: &Bytes, op: Operation) -> Result<Reply, String> {
        Ok((self.read)(vec![Call::new(key, op)])?.remove(0))
    }

    /// Replies to many small questions.
    fn all(&mut self, calls: Vec<Call>) -> Result<Vec<Reply>, String> {
        let mut replies = Vec::with_capacity(calls.len());
        for part in calls.chunks(AT_ONCE) {
            replies.extend((self.read)(part.to_vec())?);
        }
        Ok(replies)
    }

    /// Notes it unless the two are the same.
    fn compare<T: PartialEq + fmt::Display>(
        &mut self,
        (condition, place): (u8, (u32, Option<u32>)),
        key: &Bytes,
        (left, found): (&'static str, T),
        (right, expected): (&'static str, T),
    ) {
        if found != expected && self.broken.len() < VIOLATIONS_MAX {
            self.broken.push(Broken {
                condition: Condition(condition),
                warehouse: place.0,
                district: place.1,
                key: key.clone(),
                left: (left, found.to_string()),
                right: (right, expected.to_string()),
            });
        }
    }

    /// Conditions 1, 8 and 9; collects what customers have paid.
    fn money(&mut self) -> Result<(), String> {
        for w in 1..=self.tables.options.warehouses {
            let (mut earned, mut history) = (0, 0);
            for place in (1..=DISTRICTS).map(|d| (w, d)) {
                let key = self.tables.district(place);
                let ytd = field(&self.one(&key, ops::hget("ytd"))?);
                let amount = self.history(place)?;
                let at = (w, Some(place.1));
                self.compare((9, at), &key, ("D_YTD", ytd), ("the sum of H_AMOUNT", amount));
                earned += ytd;
                history += amount;
            }
            let key = self.tables.warehouse(w);
            let ytd = field(&self.one(&key, ops::hget("ytd"))?);
            self.compare((1, (w, None)), &key, ("W_YTD", ytd), ("the sum of D_YTD", earned));
            self.compare((8, (w, None)), &key, ("W_YTD", ytd), ("the sum of H_AMOUNT", history));
        }
        Ok(())
    }

    /// What was paid to a district.
    fn history(&mut self, place: Place) -> Result<i64, String> {
        let rows = self.one(&self.tables.history(place), ops::smembers())?;
        let mut sum = 0;
        for row in array(&rows).iter().filter_map(|row| HistoryRow::parse(bytes(row)?)) {
            sum += row.amount;
            *self.paid.entry(row.customer).or_default() += row.amount;
        }
        Ok(sum)
    }

    /// Conditions 2 to 7 and 10 to 12.
    fn district(&mut self, place: Place) -> Result<(), String> {
        let at = (place.0, Some(place.1));
        let (orders, new) = (self.tables.orders(place), self.tables.new_orders(place));
        let rows = self.one(&orders, calls::lrange(0, -1))?;
        let rows: Vec<Option<OrderRow>> =
            array(&rows).iter().map(|row| OrderRow::parse(bytes(row)?)).collect();
        let left = self.one(&new, calls::lrange(0, -1))?;
        let left: Vec<Bytes> = array(&left).iter().filter_map(|name| bytes(name).cloned()).collect();
        let total = rows.len();
        let rows: Vec<OrderRow> = rows.into_iter().flatten().collect();
        self.compare(
            (2, at),
            &orders,
            ("D_NEXT_O_ID - 1", total),
            ("the number of rows in ORDER", rows.len()),
        );
        self.queue(place, &rows, &left);
        let sums = self.orders(place, &rows, &left.iter().collect())?;
        let lines = ("the number of rows in ORDER-LINE", sums.lines);
        self.compare((4, at), &orders, ("the sum of O_OL_CNT", sums.counted), lines);
        let deliveries = self.customers(place, &sums)?;
        let delivered = i64::from(self.tables.sizes.delivered) + deliveries;
        let more = total as i64 - left.len() as i64;
        let expected = ("what was loaded as delivered, with the sum of C_DELIVERY_CNT,", delivered);
        self.compare((11, at), &orders, ("ORDER less NEW-ORDER", more), expected);
        Ok(())
    }

    /// Conditions 2 and 3: the queue has the last orders, in their order.
    fn queue(&mut self, place: Place, rows: &[OrderRow], left: &[Bytes]) {
        let (at, key) = ((place.0, Some(place.1)), self.tables.new_orders(place));
        let numbers: Map<&Bytes, i64> = rows.iter().map(|row| &row.name).zip(1..).collect();
        let left: Vec<i64> = left.iter().map(|name| numbers.get(name).copied().unwrap_or(0)).collect();
        let (Some(least), Some(most)) = (left.iter().min(), left.iter().max()) else { return };
        let next = ("D_NEXT_O_ID - 1", rows.len() as i64);
        self.compare((2, at), &key, ("the largest NO_O_ID", *most), next);
        let count = ("the number of rows in NEW-ORDER", left.len() as i64);
        self.compare(
            (3, at),
            &key,
            ("the largest NO_O_ID less the smallest and 1 more", most - least + 1),
            count,
        );
    }

    /// Conditions 5, 6 and 7 of each order.
    fn orders(&mut self, place: Place, rows: &[OrderRow], left: &HashSet<&Bytes>) -> Result<Orders, String> {
        let mut sums = Orders::default();
        for part in rows.chunks(AT_ONCE) {
            let keys: Vec<Bytes> = part.iter().map(|row| self.tables.order(place, &row.name)).collect();
            let replies = self.all(keys.iter().map(|key| Call::new(key, ops::hgetall())).collect())?;
            for ((row, key), found) in part.iter().zip(&keys).zip(&replies) {
                self.order(place, row, (key, found), left.contains(&row.name), &mut sums);
            }
        }
        Ok(sums)
    }

    fn order(
        &mut self,
        place: Place,
        row: &OrderRow,
        (key, found): (&Bytes, &Reply),
        is_new: bool,
        sums: &mut Orders,
    ) {
        let at = (place.0, Some(place.1));
        let (mut lines, mut dates, mut amount, mut is_delivered) = (0, 0, 0, false);
        for pair in array(found).chunks_exact(2) {
            let (Some(field), Some(value)) = (bytes(&pair[0]), bytes(&pair[1])) else { continue };
            match (field.as_str().unwrap_or_default(), LineRow::parse(value)) {
                ("carrier", _) => is_delivered = true,
                ("customer", _) => {}
                (name, _) if name.starts_with('d') => dates += 1,
                (_, Some(line)) => {
                    lines += 1;
                    amount += line.amount;
                    self.take(place.0, row, &line);
                }
                (_, None) => {}
            }
        }
        let null = |is: bool| if is { "null" } else { "not null" };
        let of_new = ("by its being in NEW-ORDER it", null(is_new));
        self.compare((5, at), key, ("O_CARRIER_ID", null(!is_delivered)), of_new);
        let count = i64::from(row.count);
        self.compare((6, at), key, ("the number of lines", lines), ("O_OL_CNT", count));
        let dated = if is_delivered { lines } else { 0 };
        let expected = ("by O_CARRIER_ID that number", dated);
        self.compare((7, at), key, ("the number of lines with an OL_DELIVERY_D", dates), expected);
        sums.counted += count;
        sums.lines += lines;
        if is_delivered {
            *sums.amounts.entry(row.customer).or_default() += amount;
        }
    }

    /// Notes what a line took, unless it was loaded.
    fn take(&mut self, warehouse: u32, row: &OrderRow, line: &LineRow) {
        let number = row.name.as_str().and_then(|name| name.strip_prefix('L'));
        if number.is_some() {
            return;
        }
        let taken = self.taken.entry((line.supply, line.item)).or_default();
        taken.quantity += line.quantity;
        taken.orders += 1;
        taken.remote += i64::from(line.supply != warehouse);
    }

    /// Conditions 10 and 12 of each customer; how many orders were delivered to all.
    fn customers(&mut self, place: Place, sums: &Orders) -> Result<i64, String> {
        let at = (place.0, Some(place.1));
        let mut deliveries = 0;
        let numbers: Vec<u32> = (1..=self.tables.sizes.customers).collect();
        for part in numbers.chunks(AT_ONCE) {
            let keys: Vec<Bytes> = part.iter().map(|c| self.tables.customer(place, *c)).collect();
            let fields = calls::hmget(&["balance", "ytd_payment", "delivery_cnt"]);
            let replies = self.all(keys.iter().map(|key| Call::new(key, fields.clone())).collect())?;
            for ((customer, key), found) in part.iter().zip(&keys).zip(&replies) {
                let [balance, paid, count] = [0, 1, 2].map(|at| field(&array(found)[at]));
                let amount = sums.amounts.get(customer).copied().unwrap_or(0);
                let history = self.paid.get(&(place.0, place.1, *customer)).copied().unwrap_or(0);
                let expected = ("delivered OL_AMOUNT less H_AMOUNT", amount - history);
                self.compare((10, at), key, ("C_BALANCE", balance), expected);
                let both = ("C_BALANCE and C_YTD_PAYMENT", balance + paid);
                self.compare((12, at), key, both, ("delivered OL_AMOUNT", amount));
                deliveries += count;
            }
        }
        Ok(deliveries)
    }

    /// What the run took from each stock that it touched. Where the quantity does not turn (plain commands), it is the same
    /// modulo 91.
    fn stock(&mut self) -> Result<(), String> {
        let mut touched: Vec<((u32, u32), Taken)> = self.taken.drain().collect();
        touched.sort_unstable_by_key(|(place, _)| *place);
        for part in touched.chunks(AT_ONCE / 2) {
            let ask = |(w, item): (u32, u32)| {
                let fields = calls::hmget(&["ytd", "order_cnt", "remote_cnt"]);
                let stock = Call::new(&self.tables.stock(w, item), fields);
                [stock, Call::new(&self.tables.quantity(w, item), calls::bget())]
            };
            let replies = self.all(part.iter().flat_map(|(place, _)| ask(*place)).collect())?;
            for (((w, item), taken), found) in part.iter().zip(replies.chunks_exact(2)) {
                let [ytd, orders, remote] = [0, 1, 2].map(|at| field(&array(&found[0])[at]));
                let (key, at) = (self.tables.stock(*w, *item), (*w, None));
                self.compare((0, at), &key, ("S_YTD", ytd), ("the sum of OL_QUANTITY", taken.quantity));
                self.compare((0, at), &key, ("S_ORDER_CNT", orders), ("the number of lines", taken.orders));
                let expected = ("the number of remote lines", taken.remote);
                self.compare((0, at), &key, ("S_REMOTE_CNT", remote), expected);
                let turned = calls::stock(load::stock_at_load(self.tables, *w, *item)).turned(taken.quantity);
                let left = match found[1] {
                    Reply::Int(left) => calls::stock(10).turned(10 - left).value,
                    _ => 0,
                };
                let expected = ("what the lines left", turned.value);
                self.compare((0, at), &self.tables.quantity(*w, *item), ("S_QUANTITY", left), expected);
            }
        }
        Ok(())
    }
}

/// The number in a field; 0 where there is none.
fn field(reply: &Reply) -> i64 {
    let value = bytes(reply).and_then(Bytes::as_str);
    value.and_then(|text| text.parse().ok()).unwrap_or(0)
}
