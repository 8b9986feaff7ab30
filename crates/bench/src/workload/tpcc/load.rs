//! What is loaded (clause 4.3.3): every list and set by one call, for the calls of a batch have no order.

use claret_types::Bytes;
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::rows::{HistoryRow, LineRow, OrderRow};
use super::tables::{DISTRICTS, Placing, Tables};
use super::{calls, random};
use crate::workload::{Call, names, ops};

/// What a customer has paid before the run, in cents.
pub(super) const PAID: i64 = 1_000;

/// Numbers of the tables, for the random choices of their rows.
const ITEM: u64 = 1;
const STOCK: u64 = 2;
const CUSTOMER: u64 = 3;
const ORDER: u64 = 4;
const ORDERS: u64 = 5;
const PLACE: u64 = 6;

/// All calls.
pub(super) fn calls(tables: &Tables) -> impl Iterator<Item = Call> + Send {
    let warehouses = 1..=tables.options.warehouses;
    let copies = match tables.options.place {
        Placing::Spread => 1,
        Placing::Warehouse => tables.options.warehouses,
    };
    let items = (1..=copies).flat_map(|w| (1..=tables.sizes.items).map(move |item| (w, item)));
    let items = items.map(|(w, item)| item_call(tables, w, item));
    let stock = warehouses.clone().flat_map(|w| (1..=tables.sizes.items).map(move |item| (w, item)));
    let stock = stock.flat_map(|(w, item)| stock_calls(tables, w, item));
    let places = warehouses.map(|w| warehouse_call(tables, w));
    let districts = tables.districts().flat_map(|place| district_calls(tables, place));
    std::iter::once(parameters(tables)).chain(items).chain(stock).chain(places).chain(districts)
}

fn parameters(tables: &Tables) -> Call {
    let options = &tables.options;
    let fields = [
        ("warehouses", options.warehouses.to_string()),
        ("scale", options.scale.to_string()),
        ("place", options.place.name().to_owned()),
        ("seed", options.seed.to_string()),
    ];
    Call::new(&tables.parameters(), ops::hset(fields.map(|(field, value)| (field, Bytes::from(value)))))
}

fn item_call(tables: &Tables, w: u32, item: u32) -> Call {
    let rng = &mut random::of_record(tables.options.seed, ITEM, [item, 0, 0]);
    let fields = [
        ("image", names::decimal(rng.random_range(1..=10_000))),
        ("name", random::text(rng, 14, 24)),
        ("price", names::decimal(rng.random_range(100..=10_000))),
        ("data", random::data(rng)),
    ];
    Call::new(&tables.item(w, item), ops::hset(fields))
}

/// What is in stock before the run.
pub(super) fn stock_at_load(tables: &Tables, w: u32, item: u32) -> i64 {
    random::of_record(tables.options.seed, STOCK, [w, item, 0]).random_range(10..=100)
}

fn stock_calls(tables: &Tables, w: u32, item: u32) -> [Call; 2] {
    let rng = &mut random::of_record(tables.options.seed, STOCK, [w, item, 1]);
    let mut fields: Vec<(Bytes, Bytes)> =
        (1..=DISTRICTS).map(|d| (dist(d), random::text(rng, 24, 24))).collect();
    for counted in ["ytd", "order_cnt", "remote_cnt"] {
        fields.push((counted.into(), "0".into()));
    }
    fields.push(("data".into(), random::data(rng)));
    let quantity = calls::stock_create(stock_at_load(tables, w, item));
    [Call::new(&tables.stock(w, item), calls::hset(fields)), Call::new(&tables.quantity(w, item), quantity)]
}

/// The field of what a stock prints for a district.
pub(super) fn dist(d: u32) -> Bytes {
    names::numbered("dist_", u64::from(d))
}

fn address(rng: &mut SmallRng) -> Vec<(&'static str, Bytes)> {
    let mut zip = random::digits(rng, 4);
    zip.extend(b"11111");
    vec![
        ("street_1", random::text(rng, 10, 20)),
        ("street_2", random::text(rng, 10, 20)),
        ("city", random::text(rng, 10, 20)),
        ("state", random::text(rng, 2, 2)),
        ("zip", zip),
    ]
}

/// A warehouse or a district with what it has earned.
fn place_fields(rng: &mut SmallRng, ytd: i64) -> Vec<(&'static str, Bytes)> {
    let mut fields = address(rng);
    fields.push(("name", random::text(rng, 6, 10)));
    fields.push(("tax", names::decimal(rng.random_range(0..=2_000))));
    fields.push(("ytd", names::decimal(ytd as u64)));
    fields
}

/// What each district has earned before the run, in cents.
pub(super) fn earned(tables: &Tables) -> i64 {
    i64::from(tables.sizes.customers) * PAID
}

fn warehouse_call(tables: &Tables, w: u32) -> Call {
    let rng = &mut random::of_record(tables.options.seed, PLACE, [w, 0, 0]);
    let ytd = i64::from(DISTRICTS) * earned(tables);
    Call::new(&tables.warehouse(w), ops::hset(place_fields(rng, ytd)))
}

fn district_calls(tables: &Tables, place: (u32, u32)) -> impl Iterator<Item = Call> + use<'_> {
    let (w, d) = place;
    let seed = tables.options.seed;
    let row = place_fields(&mut random::of_record(seed, PLACE, [w, d, 0]), earned(tables));
    let mut customers: Vec<u32> = (1..=tables.sizes.customers).collect();
    customers.shuffle(&mut random::of_record(seed, ORDERS, [w, d, 0]));
    let orders: Vec<OrderRow> =
        (1..).zip(&customers).map(|(number, customer)| order(tables, place, number, *customer)).collect();
    let undelivered = orders[tables.sizes.delivered as usize..].iter().map(|row| row.name.clone());
    let paid = (1..=tables.sizes.customers).map(|customer| {
        let (customer, name) = ((w, d, customer), order_name(customer));
        HistoryRow { customer, date: 0, amount: PAID, name, data: "loaded".into() }.to_bytes()
    });
    let lists = [
        Call::new(&tables.district(place), ops::hset(row)),
        Call::new(&tables.orders(place), calls::rpush(orders.iter().map(OrderRow::to_bytes))),
        Call::new(&tables.new_orders(place), calls::rpush(undelivered)),
        Call::new(&tables.history(place), ops::sadd_all(paid)),
        names_call(tables, place),
    ];
    let mut latest = vec![Bytes::default(); customers.len() + 1];
    for row in &orders {
        latest[row.customer as usize] = row.name.clone();
    }
    let rows = (1..).zip(orders).map(move |(number, row)| order_call(tables, place, number, &row));
    let customers = (1..).zip(latest.into_iter().skip(1));
    let customers = customers.map(move |(customer, order)| customer_call(tables, place, customer, order));
    lists.into_iter().chain(customers).chain(rows)
}

/// The name of an order that is loaded.
pub(super) fn order_name(number: u32) -> Bytes {
    names::numbered("L", u64::from(number))
}

fn order(tables: &Tables, (w, d): (u32, u32), number: u32, customer: u32) -> OrderRow {
    let rng = &mut random::of_record(tables.options.seed, ORDER, [w, d, number]);
    let count = rng.random_range(5..=15u32);
    let items = (0..count).map(|_| rng.random_range(1..=tables.sizes.items)).collect();
    OrderRow { name: order_name(number), customer, entry: 0, count, is_local: true, items }
}

fn order_call(tables: &Tables, place: (u32, u32), number: u32, row: &OrderRow) -> Call {
    let (w, d) = place;
    let rng = &mut random::of_record(tables.options.seed, ORDER, [w, d, number + tables.sizes.customers]);
    let is_delivered = number <= tables.sizes.delivered;
    let mut fields = vec![("customer".into(), names::decimal(u64::from(row.customer)))];
    if is_delivered {
        fields.push(("carrier".into(), names::decimal(rng.random_range(1..=10))));
    }
    for (line, item) in (1..).zip(&row.items) {
        let amount = if is_delivered { 0 } else { rng.random_range(1..=999_999) };
        let dist = random::text(rng, 24, 24);
        let line_row = LineRow { item: *item, supply: w, quantity: 5, amount, dist };
        fields.push((names::decimal(line), line_row.to_bytes()));
        if is_delivered {
            fields.push((names::numbered("d", line), "0".into()));
        }
    }
    Call::new(&tables.order(place, &row.name), calls::hset(fields))
}

/// The number of a customer's last name: each once, then by chance (clause 4.3.3.1).
fn name_number(tables: &Tables, (w, d): (u32, u32), customer: u32) -> u32 {
    if customer <= 1_000 {
        return customer - 1;
    }
    let rng =
        &mut random::of_record(tables.options.seed, CUSTOMER, [w, d, customer + tables.sizes.customers]);
    random::skewed(rng, 255, tables.at_load.name, 0, 999)
}

fn first_name(tables: &Tables, (w, d): (u32, u32), customer: u32) -> Bytes {
    random::text(&mut random::of_record(tables.options.seed, CUSTOMER, [w, d, customer]), 8, 16)
}

fn customer_call(tables: &Tables, place: (u32, u32), customer: u32, order: Bytes) -> Call {
    let (w, d) = place;
    let seed = tables.options.seed;
    let rng = &mut random::of_record(seed, CUSTOMER, [w, d, customer + 2 * tables.sizes.customers]);
    let mut fields = address(rng);
    let credit = if rng.random_bool(0.1) { "BC" } else { "GC" };
    fields.extend([
        ("first", first_name(tables, place, customer)),
        ("middle", "OE".into()),
        ("last", random::last_name(name_number(tables, place, customer))),
        ("phone", random::digits(rng, 16)),
        ("since", "0".into()),
        ("credit", credit.into()),
        ("credit_lim", "5000000".into()),
        ("discount", names::decimal(rng.random_range(0..=5_000))),
        ("balance", Bytes::from((-PAID).to_string())),
        ("ytd_payment", names::decimal(PAID as u64)),
        ("payment_cnt", "1".into()),
        ("delivery_cnt", "0".into()),
        ("data", random::text(rng, 300, 500)),
        ("order", order),
    ]);
    Call::new(&tables.customer(place, customer), ops::hset(fields))
}

/// Customers by last name, each list by first name.
fn names_call(tables: &Tables, place: (u32, u32)) -> Call {
    let mut by_name: Vec<Vec<(Bytes, u32)>> = vec![Vec::new(); tables.sizes.names() as usize];
    for customer in 1..=tables.sizes.customers {
        let number = name_number(tables, place, customer);
        by_name[number as usize].push((first_name(tables, place, customer), customer));
    }
    let fields = (0..).zip(by_name).map(|(number, mut customers)| {
        customers.sort_unstable();
        let list: Vec<String> = customers.iter().map(|(_, customer)| customer.to_string()).collect();
        (random::last_name(number), Bytes::from(list.join(" ")))
    });
    Call::new(&tables.names(place), calls::hset(fields))
}

/// The numbers that [`names_call`] listed.
pub(super) fn listed(found: &Bytes) -> Vec<u32> {
    let text = found.as_str().unwrap_or_default();
    text.split(' ').filter_map(|number| number.parse().ok()).collect()
}
