//! The shop, in each of the ways: a look, the work, and all or nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use claret::{Error, Records, Store};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::sleep;

use super::watch::{self, Connection, Server};
use super::{Options, Stock, Way};

/// How a checkout ended.
pub(super) enum Ended {
    Bought { prices: Vec<i64> },
    SoldOut { product: usize },
}

/// A product in this process.
#[derive(Clone, Copy, Debug)]
struct Row {
    price: i64,
    stock: Stock,
    version: u64,
}

/// The shop, as its way has it.
enum Shelf {
    /// All rows behind one mutex, which is held for a look or for a write, and never while somebody works.
    Rows {
        rows: Mutex<Vec<Row>>,
        are_compared: bool,
    },
    /// Each behind its own, which is held from the look to the end.
    Locked(Vec<AsyncMutex<Row>>),
    Claret(Store),
    Server(Box<Server>),
}

/// See the module's text.
pub(super) struct Shop {
    shelf: Shelf,
    products: usize,
    retries: AtomicU64,
}

impl Shop {
    /// With these prices, and all pieces there.
    pub(super) async fn open(way: Way, options: &Options, prices: &[i64]) -> Result<Self, String> {
        let stock = Stock { left: options.pieces.into(), takings: 0 };
        let rows = || prices.iter().map(|price| Row { price: *price, stock, version: 0 });
        let shelf = match way {
            Way::Optimistic => Shelf::Rows { rows: Mutex::new(rows().collect()), are_compared: true },
            #[cfg(test)]
            Way::Nothing => Shelf::Rows { rows: Mutex::new(rows().collect()), are_compared: false },
            Way::Locks => Shelf::Locked(rows().map(AsyncMutex::new).collect()),
            Way::Claret => {
                Shelf::Claret(filled(prices, stock.left).await.map_err(|error| error.to_string())?)
            }
            Way::Watch => Shelf::Server(Box::new(Server::start(prices, stock.left).await?)),
        };
        Ok(Shop { shelf, products: options.products, retries: AtomicU64::new(0) })
    }

    /// What a buyer needs for itself.
    pub(super) async fn connect(&self) -> Result<Option<Connection>, String> {
        match &self.shelf {
            Shelf::Server(server) => server.connect().await.map(Some),
            Shelf::Rows { .. } | Shelf::Locked(_) | Shelf::Claret(_) => Ok(None),
        }
    }

    /// One attempt at a checkout, of products in order. `None`: somebody else was faster.
    pub(super) async fn attempt(
        &self,
        cart: &[usize],
        work: Duration,
        connection: Option<&mut Connection>,
    ) -> Result<Option<Ended>, String> {
        let ended = match (&self.shelf, connection) {
            (Shelf::Rows { rows, are_compared }, _) => by_version(rows, *are_compared, cart, work).await,
            (Shelf::Locked(rows), _) => Some(under_locks(rows, cart, work).await),
            (Shelf::Claret(store), _) => Some(in_transaction(store, cart, work).await?),
            (Shelf::Server(_), Some(connection)) => watch::attempt(connection, cart, work).await?,
            (Shelf::Server(_), None) => return Err("a buyer has no connection to the server".to_owned()),
        };
        self.retries.fetch_add(u64::from(ended.is_none()), Ordering::Relaxed);
        Ok(ended)
    }

    /// Checkouts that began again.
    pub(super) fn retries(&self) -> u64 {
        match &self.shelf {
            Shelf::Claret(store) => store.stats().restarts,
            Shelf::Rows { .. } | Shelf::Locked(_) | Shelf::Server(_) => self.retries.load(Ordering::Relaxed),
        }
    }

    /// What is there of each product, once nobody buys any more.
    pub(super) async fn count(&self) -> Result<Vec<Stock>, String> {
        Ok(match &self.shelf {
            Shelf::Rows { rows, .. } => locked(rows).iter().map(|row| row.stock).collect(),
            Shelf::Locked(rows) => {
                let mut found = Vec::new();
                for row in rows {
                    found.push(row.lock().await.stock);
                }
                found
            }
            Shelf::Claret(store) => counted(store, self.products).await.map_err(|error| error.to_string())?,
            Shelf::Server(server) => server.count(self.products).await?,
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sold_out(cart: &[usize], seen: &[Row]) -> Option<Ended> {
    let at = seen.iter().position(|row| row.stock.left < 1)?;
    Some(Ended::SoldOut { product: cart[at] })
}

fn bought(seen: &[Row]) -> Ended {
    Ended::Bought { prices: seen.iter().map(|row| row.price).collect() }
}

/// The row with a piece less.
fn sell(row: Row) -> Row {
    let stock = Stock { left: row.stock.left - 1, takings: row.stock.takings + row.price };
    Row { stock, version: row.version + 1, ..row }
}

/// Looks; and writes what follows from that, if no row of the cart is another one by then.
async fn by_version(
    rows: &Mutex<Vec<Row>>,
    are_compared: bool,
    cart: &[usize],
    work: Duration,
) -> Option<Ended> {
    let seen: Vec<Row> = {
        let rows = locked(rows);
        cart.iter().map(|product| rows[*product]).collect()
    };
    if let Some(ended) = sold_out(cart, &seen) {
        return Some(ended);
    }
    sleep(work).await;
    let mut rows = locked(rows);
    let is_as_seen = |(product, seen): (&usize, &Row)| rows[*product].version == seen.version;
    if are_compared && !cart.iter().zip(&seen).all(is_as_seen) {
        return None;
    }
    cart.iter().zip(&seen).for_each(|(product, seen)| rows[*product] = sell(*seen));
    Some(bought(&seen))
}

async fn under_locks(rows: &[AsyncMutex<Row>], cart: &[usize], work: Duration) -> Ended {
    let mut held = Vec::with_capacity(cart.len());
    for product in cart {
        held.push(rows[*product].lock().await);
    }
    let seen: Vec<Row> = held.iter().map(|row| **row).collect();
    if let Some(ended) = sold_out(cart, &seen) {
        return ended;
    }
    sleep(work).await;
    held.iter_mut().for_each(|row| **row = sell(**row));
    bought(&seen)
}

/// A key of a product.
pub(super) fn key(what: &str, product: usize) -> String {
    format!("{what}:{product}")
}

async fn filled(prices: &[i64], pieces: i64) -> Result<Store, Error> {
    let store = Store::in_memory();
    for (product, price) in prices.iter().enumerate() {
        store.register(key("price", product)).set(*price).await?;
        store.bounded_counter(key("stock", product)).create(pieces, 0, pieces).await?;
    }
    Ok(store)
}

async fn counted(store: &Store, products: usize) -> Result<Vec<Stock>, Error> {
    let mut found = Vec::new();
    for product in 0..products {
        let left = store.bounded_counter(key("stock", product)).get().await?;
        let takings = store.counter(key("takings", product)).get().await?;
        found.push(Stock { left: left.unwrap_or_default(), takings });
    }
    Ok(found)
}

/// Why a transaction was not done.
enum NotSold {
    Out(usize),
    Failed(Error),
}

impl From<Error> for NotSold {
    fn from(error: Error) -> Self {
        NotSold::Failed(error)
    }
}

async fn in_transaction(store: &Store, cart: &[usize], work: Duration) -> Result<Ended, String> {
    let sold = store.try_transaction(async |tx| {
        let mut prices = Vec::with_capacity(cart.len());
        for product in cart {
            let price: Option<i64> = tx.register(key("price", *product)).get().await?;
            prices.push(price.unwrap_or_default());
            if !tx.bounded_counter(key("stock", *product)).try_take(1).await? {
                return Err(NotSold::Out(*product));
            }
        }
        sleep(work).await;
        for (product, price) in cart.iter().zip(&prices) {
            tx.counter(key("takings", *product)).add(*price)?;
        }
        Ok(prices)
    });
    match sold.await {
        Ok(prices) => Ok(Ended::Bought { prices }),
        Err(NotSold::Out(product)) => Ok(Ended::SoldOut { product }),
        Err(NotSold::Failed(error)) => Err(error.to_string()),
    }
}
