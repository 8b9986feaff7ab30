//! A sale: buyers check out the same few products, in each of the ways in which people write that. `claret demo` shows it.
//!
//! A buyer has a few products in its cart. It looks at the price and the stock of each, works for a while (a payment: a timer), and then
//! takes a piece of each and adds its price to the takings: all of it, at the price that it saw, or nothing. Then it fills another cart,
//! until all is sold or the time is over.
//!
//! Invariants:
//! - all ways have the same products, buyers, carts, work and time, and the same seeds;
//! - a checkout that is under way when the time is over is finished, so that its latency counts;
//! - what was sold is counted by the buyers, and compared with what is left in the shop.

mod shop;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};

use crate::baseline::redis::Backoff;
use shop::{Ended, Shop};

/// The shortest and the longest pause before a checkout begins again, in microseconds: as for the mode `redis-watch`.
const BACKOFF_US: (u64, u64) = (4_000, 64_000);

/// What a piece costs at least, and at most.
const PRICES: (i64, i64) = (100, 999);

/// How a checkout is made all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A version for each product: who finds another one when it wants to write begins again after a pause.
    Optimistic,
    /// A mutex for each product, taken in one order by all, and held from the look to the end.
    Locks,
    /// A transaction of Claret, in this process.
    Claret,
    /// `WATCH`, `MULTI` and `EXEC` on a Redis server of its own: optimistic, as the first one.
    Watch,
    /// Nothing holds it together: what a sale of this kind has to show is that it is oversold.
    #[cfg(test)]
    Nothing,
}

impl Way {
    /// Its name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Way::Optimistic => "optimistic",
            Way::Locks => "locks",
            Way::Claret => "Claret",
            Way::Watch => "Redis WATCH",
            #[cfg(test)]
            Way::Nothing => "nothing",
        }
    }
}

/// What is sold, and to how many.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many products.
    pub products: usize,
    /// How many pieces there are of each.
    pub pieces: u32,
    /// How many buyers there are at a time.
    pub buyers: usize,
    /// How many products are in a cart; fewer where the others are sold out.
    pub cart: usize,
    /// How long a buyer works between what it sees and what it does.
    pub work: Duration,
    /// When the sale ends, if it is not sold out.
    pub time: Duration,
    /// What the choices are made from.
    pub seed: u64,
}

/// What came of a sale.
#[derive(Clone, Debug)]
pub struct Sale {
    /// In which way.
    pub way: Way,
    /// Pieces for which a buyer was told that it has them.
    pub sold: u64,
    /// Of these, those that there never were.
    pub oversold: u64,
    /// How long it took.
    pub seconds: f64,
    /// Checkouts that began again.
    pub retries: u64,
    /// Of checkouts that were done, all attempts together, in microseconds: the median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// What of the shop's stock and takings is not as the buyers have it.
    pub wrong: Vec<String>,
}

impl Sale {
    /// Pieces sold in a second.
    pub fn throughput(&self) -> f64 {
        self.sold as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Holds a sale in this way, on this thread.
///
/// # Errors
/// What keeps it from being held. That it is oversold is no error, but a [result](Sale::wrong).
pub fn hold(way: Way, options: Options, stop: &Arc<AtomicBool>) -> Result<Sale, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the runtime does not start: {error}"))?;
    runtime.block_on(held(way, options, stop))
}

async fn held(way: Way, options: Options, stop: &Arc<AtomicBool>) -> Result<Sale, String> {
    let mut rng = SmallRng::seed_from_u64(options.seed);
    let prices = (0..options.products).map(|_| rng.random_range(PRICES.0..=PRICES.1)).collect::<Vec<i64>>();
    let shop = Arc::new(Shop::open(way, &options, &prices).await?);
    let mut buyers = Vec::new();
    for number in 0..options.buyers {
        let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        buyers.push(Buyer::new(&shop, options, seed).await?);
    }
    let began = Instant::now();
    let until = began + options.time;
    let tasks: Vec<_> =
        buyers.into_iter().map(|buyer| tokio::spawn(buyer.buy(until, Arc::clone(stop)))).collect();
    let mut told = Told::new(options.products);
    for task in tasks {
        told.add(task.await.map_err(|error| error.to_string())??);
    }
    let seconds = began.elapsed().as_secs_f64();
    told.took.sort_unstable();
    let found = shop.count().await?;
    let pieces = i64::from(options.pieces);
    Ok(Sale {
        way,
        sold: told.sold.iter().map(|sold| sold.unsigned_abs()).sum(),
        oversold: told.sold.iter().map(|sold| (sold - pieces).max(0).unsigned_abs()).sum(),
        seconds,
        retries: shop.retries(),
        p50_us: quantile(&told.took, 50),
        p99_us: quantile(&told.took, 99),
        wrong: told.compare(&found, pieces),
    })
}

/// Of sorted times, so many percent of which are not longer.
fn quantile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// What is there of a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stock {
    left: i64,
    takings: i64,
}

/// What buyers were told.
struct Told {
    /// Pieces, and what was paid for them, by product.
    sold: Vec<i64>,
    paid: Vec<i64>,
    took: Vec<Duration>,
}

impl Told {
    fn new(products: usize) -> Self {
        Told { sold: vec![0; products], paid: vec![0; products], took: Vec::new() }
    }

    fn add(&mut self, other: Told) {
        self.sold.iter_mut().zip(other.sold).for_each(|(sum, more)| *sum += more);
        self.paid.iter_mut().zip(other.paid).for_each(|(sum, more)| *sum += more);
        self.took.extend(other.took);
    }

    /// What is not in the shop as the buyers have it.
    fn compare(&self, found: &[Stock], pieces: i64) -> Vec<String> {
        let mut wrong = Vec::new();
        for (product, found) in found.iter().enumerate() {
            let expected = Stock { left: pieces - self.sold[product], takings: self.paid[product] };
            if expected.left < 0 || expected != *found {
                let (sold, paid) = (self.sold[product], self.paid[product]);
                let Stock { left, takings } = *found;
                wrong.push(format!(
                    "product {product}: of {pieces} pieces {sold} were sold and {left} are left; {paid} was paid, and the takings are \
                     {takings}"
                ));
            }
        }
        wrong
    }
}

/// Somebody who checks out one cart after another.
struct Buyer {
    shop: Arc<Shop>,
    options: Options,
    rng: SmallRng,
    backoff: Backoff,
    /// To the server, where there is one.
    server: Option<watch::Connection>,
    /// Products that it does not know to be sold out.
    open: Vec<usize>,
    told: Told,
}

impl Buyer {
    async fn new(shop: &Arc<Shop>, options: Options, seed: u64) -> Result<Self, String> {
        Ok(Buyer {
            shop: Arc::clone(shop),
            options,
            rng: SmallRng::seed_from_u64(seed),
            backoff: Backoff::new(seed, BACKOFF_US),
            server: shop.connect().await?,
            open: (0..options.products).collect(),
            told: Told::new(options.products),
        })
    }

    async fn buy(mut self, until: Instant, stop: Arc<AtomicBool>) -> Result<Told, String> {
        while !self.open.is_empty() && !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            if began >= until {
                break;
            }
            let cart = self.fill_cart();
            match self.check_out(&cart).await? {
                Ended::Bought { prices } => {
                    self.told.took.push(began.elapsed());
                    for (product, price) in cart.into_iter().zip(prices) {
                        self.told.sold[product] += 1;
                        self.told.paid[product] += price;
                    }
                }
                Ended::SoldOut { product } => self.open.retain(|open| *open != product),
            }
        }
        Ok(self.told)
    }

    /// Products, each once, in the order in which locks are taken.
    fn fill_cart(&mut self) -> Vec<usize> {
        let count = self.options.cart.min(self.open.len());
        let picked = sample(&mut self.rng, self.open.len(), count);
        let mut cart: Vec<usize> = picked.iter().map(|at| self.open[at]).collect();
        cart.sort_unstable();
        cart
    }

    /// Until it is done, or a product is sold out.
    async fn check_out(&mut self, cart: &[usize]) -> Result<Ended, String> {
        let mut tries = 0;
        loop {
            let shop = Arc::clone(&self.shop);
            if let Some(ended) = shop.attempt(cart, self.options.work, self.server.as_mut()).await? {
                return Ok(ended);
            }
            tries += 1;
            tokio::time::sleep(self.backoff.after(tries)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Options = Options {
        products: 3,
        pieces: 40,
        buyers: 16,
        cart: 2,
        work: Duration::from_millis(1),
        // However slow the machine is, all is sold.
        time: Duration::from_secs(120),
        seed: 1,
    };

    fn sale(way: Way) -> Sale {
        hold(way, SMALL, &Arc::default()).expect("it is held")
    }

    #[test]
    fn every_way_sells_all_that_there_is_and_no_more() {
        for way in [Way::Optimistic, Way::Locks, Way::Claret] {
            let sale = sale(way);
            assert_eq!((sale.sold, sale.oversold, &sale.wrong[..]), (120, 0, &[][..]), "{way:?}");
            assert!(sale.p50_us >= 1_000.0 && sale.p99_us >= sale.p50_us, "{sale:?}");
        }
    }

    #[test]
    fn what_is_oversold_is_seen() {
        let sale = sale(Way::Nothing);
        assert!(sale.oversold > 0 && sale.sold == 120 + sale.oversold, "{sale:?}");
        assert!(!sale.wrong.is_empty() && sale.wrong[0].contains("of 40 pieces"), "{sale:?}");
    }

    #[test]
    fn a_sale_that_is_stopped_is_counted_too() {
        let stop = Arc::new(AtomicBool::new(true));
        let sale = hold(Way::Claret, SMALL, &stop).expect("it is held");
        assert_eq!((sale.sold, sale.wrong.len()), (0, 0));
    }

    #[test]
    fn percentiles_are_of_those_that_are_not_longer() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        assert_eq!(
            [quantile(&times, 50), quantile(&times, 99), quantile(&[], 50)].map(f64::round),
            [100.0, 198.0, 0.0]
        );
    }
}
