//! Checkout: a few buyers who think between what they see and what they pay, many who do not, and prices that change now and then.
//!
//! Not in the papers; Warp's user who decides (`warp-2013` s.1) in a shop. All buy the same products, picked by a Zipf distribution:
//!
//! - *buy*: reads a price, then takes pieces from the stock and adds their price to the product's takings;
//! - *checkout*: reads the prices of a cart and takes a piece of each, thinks (a person, a payment), and adds to the takings;
//! - *reprice*: reads a price and what the product took in so far, and raises the price by one.
//!
//! Invariants: the stock is what it was less what was acknowledged; the takings are what was acknowledged at the price that the
//! buyer saw; the price was raised once for each acknowledged reprice; and since each price is in force once, what a reprice saw
//! of the takings is what was bought at that price and those before: nobody pays an old price, and nobody is missing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use claret_types::{Bounded, BoundedCounter, BoundedCounterOp, Bytes, Operation, Reply};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::check::Witness;
use super::{Batches, Call, Checker, Client, Kind, Promise, Run, Stage, Violation, Workload, Zipf};
use super::{batches, integer, names, ops};

/// Its name.
pub(super) const NAME: &str = "checkout";

const KINDS: &[Kind] = &[Kind::action("buy"), Kind::action("checkout"), Kind::action("reprice")];
const BUY: usize = 0;
const CHECKOUT: usize = 1;
const REPRICE: usize = 2;

/// More pieces of each product than are sold in any run.
const STOCK: i64 = 1 << 50;

/// What each costs at first.
const PRICE: i64 = 100;

/// How many pieces a quick buyer takes at most.
const PIECES_MAX: i64 = 3;

/// Parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// Before every key.
    pub prefix: String,
    /// How many products; at least as many as are in a cart.
    pub products: usize,
    /// Skew of the products: 0 is uniform.
    pub alpha: f64,
    /// How many of the clients think; the first ones do.
    pub thinkers: usize,
    /// For how long.
    pub think: Duration,
    /// How many products are in their cart.
    pub cart: usize,
    /// The share of *reprice* among what the others do, in percent.
    pub reprices_percent: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            prefix: "checkout:".to_owned(),
            products: 1_000,
            alpha: 0.8,
            thinkers: 8,
            think: Duration::from_millis(100),
            cart: 3,
            reprices_percent: 0.01,
        }
    }
}

/// The keys of a product.
#[derive(Debug)]
struct Product {
    stock: Bytes,
    price: Bytes,
    takings: Bytes,
}

/// The workload.
#[derive(Debug)]
pub struct Checkout {
    options: Options,
    products: Arc<[Product]>,
    zipf: Arc<Zipf>,
}

impl Checkout {
    /// With these parameters.
    pub fn new(options: Options) -> Self {
        let table = |what: &str| names::table(&format!("{}{what}:", options.prefix), options.products);
        let keys = table("stock").into_iter().zip(table("price")).zip(table("takings"));
        let products = keys.map(|((stock, price), takings)| Product { stock, price, takings }).collect();
        let zipf = Arc::new(Zipf::new(options.products, options.alpha));
        Checkout { options, products, zipf }
    }
}

fn stock_op(op: BoundedCounterOp) -> Operation {
    Operation::new::<BoundedCounter>(op)
}

impl Workload for Checkout {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn load(&self) -> Batches<'_> {
        let stock = || stock_op(BoundedCounterOp::Create(Bounded { value: STOCK, min: 0, max: STOCK }));
        batches(self.products.iter().flat_map(move |product| {
            [Call::new(&product.stock, stock()), Call::new(&product.price, ops::incrby(PRICE))]
        }))
    }

    fn run(&self) -> Box<dyn Run> {
        Box::new(CheckoutRun {
            options: self.options.clone(),
            products: Arc::clone(&self.products),
            zipf: Arc::clone(&self.zipf),
            clients: AtomicUsize::new(0),
            total: Arc::default(),
        })
    }
}

/// What was acknowledged.
#[derive(Debug, Default)]
struct Tally {
    /// Pieces of a product that were bought at a price.
    bought: HashMap<(usize, i64), i64>,
    /// The product, its price before it was raised, and its takings then.
    reprices: Vec<(usize, i64, i64)>,
    witness: Witness,
}

impl Tally {
    fn merge(&mut self, other: Tally) {
        for (at, pieces) in other.bought {
            *self.bought.entry(at).or_default() += pieces;
        }
        self.reprices.extend(other.reprices);
        self.witness.merge(other.witness);
    }
}

struct CheckoutRun {
    options: Options,
    products: Arc<[Product]>,
    zipf: Arc<Zipf>,
    /// How many there are so far.
    clients: AtomicUsize,
    total: Arc<Mutex<Tally>>,
}

impl Run for CheckoutRun {
    fn client(&self, seed: u64) -> Box<dyn Client> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        Box::new(CheckoutClient {
            rng: SmallRng::seed_from_u64(seed),
            products: Arc::clone(&self.products),
            zipf: Arc::clone(&self.zipf),
            thinks: (number < self.options.thinkers).then_some(self.options.think),
            cart_size: self.options.cart,
            reprices: (self.options.reprices_percent / 100.0).clamp(0.0, 1.0),
            kind: BUY,
            cart: Vec::new(),
            seen: Vec::new(),
            tally: Tally::default(),
            total: Arc::clone(&self.total),
        })
    }

    fn verify(&self, promise: Promise, read: &mut dyn FnMut(Call) -> Reply) -> Vec<Violation> {
        let total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        let mut checker = Checker::new(promise, read);
        checker.witness(&total.witness);
        // Of each product, by price.
        let mut sales: Vec<Vec<(i64, i64)>> = vec![Vec::new(); self.products.len()];
        for ((product, price), pieces) in &total.bought {
            sales[*product].push((*price, *pieces));
        }
        let taken_up_to = |product: usize, price: i64| -> i64 {
            sales[product].iter().filter(|(at, _)| *at <= price).map(|(at, pieces)| at * pieces).sum()
        };
        for (at, product) in self.products.iter().enumerate() {
            let pieces: i64 = sales[at].iter().map(|(_, pieces)| pieces).sum();
            let what = "pieces left after the acknowledged sales";
            checker.expect(
                &product.stock,
                stock_op(BoundedCounterOp::Get),
                what,
                &Reply::Int(STOCK - pieces),
            );
            let what = "takings of the acknowledged sales";
            checker.expect(&product.takings, ops::get(), what, &Reply::Int(taken_up_to(at, i64::MAX)));
        }
        if checker.is_transactional() {
            let mut raised = vec![0; self.products.len()];
            for (product, price, takings) in &total.reprices {
                raised[*product] += 1;
                let expected = taken_up_to(*product, *price);
                if expected != *takings {
                    let what =
                        "takings when the price was raised, by the acknowledged sales up to that price";
                    checker.report(&self.products[*product].takings, what, expected, takings);
                }
            }
            for (product, raised) in self.products.iter().zip(raised) {
                let what = "price after the acknowledged changes";
                checker.expect(&product.price, ops::get(), what, &Reply::Int(PRICE + raised));
            }
        }
        checker.finish()
    }
}

struct CheckoutClient {
    rng: SmallRng,
    products: Arc<[Product]>,
    zipf: Arc<Zipf>,
    /// Only who thinks checks out.
    thinks: Option<Duration>,
    cart_size: usize,
    reprices: f64,
    kind: usize,
    /// Products and pieces of the current transaction.
    cart: Vec<(usize, i64)>,
    /// What it saw: the price of each; of a reprice, the price and the takings.
    seen: Vec<i64>,
    tally: Tally,
    total: Arc<Mutex<Tally>>,
}

impl CheckoutClient {
    fn fill_cart(&mut self) {
        self.cart.clear();
        if self.thinks.is_none() {
            let pieces = self.rng.random_range(1..=PIECES_MAX);
            self.cart.push((self.zipf.pick(&mut self.rng), pieces));
            return;
        }
        while self.cart.len() < self.cart_size {
            let product = self.zipf.pick(&mut self.rng);
            if self.cart.iter().all(|(known, _)| *known != product) {
                self.cart.push((product, 1));
            }
        }
    }

    /// What is seen first.
    fn look(&self, calls: &mut Vec<Call>) {
        let keys = |product: usize| &self.products[product];
        for (product, _) in &self.cart {
            calls.push(Call::new(&keys(*product).price, ops::get()));
        }
        match self.kind {
            REPRICE => calls.push(Call::new(&keys(self.cart[0].0).takings, ops::get())),
            CHECKOUT => calls.extend(self.cart.iter().map(|(product, pieces)| {
                Call::new(&keys(*product).stock, stock_op(BoundedCounterOp::TakeReturning(*pieces)))
            })),
            _ => {}
        }
    }

    /// What is done about it.
    fn act(&self, calls: &mut Vec<Call>) {
        if self.kind == REPRICE {
            calls.push(Call::new(&self.products[self.cart[0].0].price, ops::incrby(1)));
            return;
        }
        for ((product, pieces), price) in self.cart.iter().zip(&self.seen) {
            let keys = &self.products[*product];
            if self.kind == BUY {
                calls.push(Call::new(&keys.stock, stock_op(BoundedCounterOp::Take(*pieces))));
            }
            calls.push(Call::new(&keys.takings, ops::incrby(price * pieces)));
        }
    }
}

impl Client for CheckoutClient {
    fn draw(&mut self) -> usize {
        self.kind = match self.thinks {
            Some(_) => CHECKOUT,
            None if self.rng.random_bool(self.reprices) => REPRICE,
            None => BUY,
        };
        self.fill_cart();
        self.seen.clear();
        self.kind
    }

    fn stage(&mut self, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        if replies.is_empty() {
            self.look(calls);
            return Stage::Read;
        }
        let numbers = if self.kind == REPRICE { 2 } else { self.cart.len() };
        self.seen = replies[..numbers].iter().map(integer).collect();
        self.act(calls);
        Stage::Commit
    }

    fn thinks(&self) -> Duration {
        self.thinks.unwrap_or_default()
    }

    fn restart(&mut self) {
        self.seen.clear();
    }

    fn committed(&mut self, _: &[Reply]) {
        if self.kind == REPRICE {
            self.tally.reprices.push((self.cart[0].0, self.seen[0], self.seen[1]));
            return;
        }
        for ((product, pieces), price) in self.cart.iter().zip(&self.seen) {
            *self.tally.bought.entry((*product, *price)).or_default() += pieces;
        }
    }

    fn gave_up(&mut self) {}

    fn unknown(&mut self) {
        self.tally.witness.unknown += 1;
    }

    fn finish(self: Box<Self>) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(self.tally);
    }
}
