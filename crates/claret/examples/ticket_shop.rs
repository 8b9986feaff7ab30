//! A ticket shop: `cargo run --example ticket_shop`, or on a cluster `... ticket_shop redis://127.0.0.1:7001`.
//!
//! Seats go into carts, carts expire, orders have consecutive numbers, and a request that is sent again gets the order that it
//! has already. In the end exactly the seats are sold that there were. No key is hot: seats are taken side by side.

use std::time::Duration;

use claret::{Records, Store};

/// Why a buyer does not get what they want.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ShopError {
    /// Somebody was quicker.
    #[error("not that many seats are left")]
    SoldOut,
    /// Or has been checked out.
    #[error("the cart has expired, and its seats are on sale again")]
    CartExpired,
    /// The store's own.
    #[error(transparent)]
    Store(#[from] claret::Error),
}

/// The sale of one event.
#[derive(Clone, Debug)]
pub struct Shop {
    store: Store,
    event: String,
    /// How long a cart holds its seats.
    hold: Duration,
}

impl Shop {
    /// Puts seats on sale.
    pub async fn open(store: Store, event: String, seats: i64, hold: Duration) -> Result<Self, ShopError> {
        store.bounded_counter(format!("{event}:seats")).create(seats, 0, seats).await?;
        Ok(Shop { store, event, hold })
    }

    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.event)
    }

    fn cart(&self, cart: i64) -> String {
        self.key(&format!("cart:{cart}"))
    }

    /// Takes seats off the sale for a while. Returns the number of the cart.
    pub async fn fill_cart(&self, seats: i64) -> Result<i64, ShopError> {
        let filled = self.store.try_transaction(async |tx| {
            if !tx.bounded_counter(self.key("seats")).try_take(seats).await? {
                return Err(ShopError::SoldOut);
            }
            let cart = tx.uid_generator(self.key("carts")).next().await?;
            tx.counter(self.cart(cart)).add(seats)?;
            tx.key(self.cart(cart)).expire_in(self.hold)?;
            tx.dict(self.key("held")).set(cart, seats)?;
            Ok(cart)
        });
        filled.await
    }

    /// Turns a cart into an order, once for each request. Returns the number of the order.
    pub async fn check_out(&self, cart: i64, request: &str) -> Result<i64, ShopError> {
        let ordered = self.store.tx().once(request).try_run(async |tx| {
            let seats = tx.counter(self.cart(cart)).get_for_update().await?;
            if seats == 0 {
                return Err(ShopError::CartExpired);
            }
            tx.key(self.cart(cart)).delete()?;
            tx.dict(self.key("held")).remove(cart)?;
            let order = tx.counter(self.key("orders")).add_returning(1).await?;
            tx.dict(self.key("sold")).set(order, seats)?;
            Ok(order)
        });
        Ok(ordered.await?.into_value())
    }

    /// Puts the seats of carts on sale again that have expired. Returns how many.
    pub async fn sweep(&self) -> Result<i64, ShopError> {
        let mut swept = 0;
        for cart in self.store.dict(self.key("held")).fields::<i64>().await? {
            let freed = self.store.try_transaction(async |tx| {
                if tx.key(self.cart(cart)).exists().await? {
                    return Ok(0);
                }
                // A check-out may have been quicker.
                let seats = tx.dict(self.key("held")).get::<i64>(cart).await?.unwrap_or(0);
                tx.dict(self.key("held")).remove(cart)?;
                tx.bounded_counter(self.key("seats")).add(seats)?;
                Ok::<_, ShopError>(seats)
            });
            swept += freed.await?;
        }
        Ok(swept)
    }
}

/// Buys until nothing is left. Every third cart is left alone.
pub async fn buy_all(shop: Shop, buyer: usize) -> Result<(), ShopError> {
    let mut seats = 3;
    for round in 0_usize.. {
        let cart = match shop.fill_cart(seats).await {
            Ok(cart) => cart,
            Err(ShopError::SoldOut) if seats > 1 => {
                seats = 1;
                continue;
            }
            // Carts may come back.
            Err(ShopError::SoldOut) if shop.store.dict(shop.key("held")).len().await? > 0 => {
                tokio::time::sleep(shop.hold / 10).await;
                shop.sweep().await?;
                continue;
            }
            Err(ShopError::SoldOut) => return Ok(()),
            Err(error) => return Err(error),
        };
        if (buyer + round).is_multiple_of(3) {
            continue;
        }
        // Suppose that the first answer is lost on its way: the same request is sent again.
        let request = format!("{}:request:{buyer}:{round}", shop.event);
        let lost = shop.check_out(cart, &request).await;
        match shop.check_out(cart, &request).await {
            Ok(order) => assert!(lost.is_err() || lost.is_ok_and(|lost| lost == order)),
            Err(ShopError::CartExpired) => assert!(lost.is_err()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = match std::env::args().nth(1) {
        Some(url) => Store::cluster(url).connect().await?,
        None => Store::in_memory(),
    };
    let shop = Shop::open(store.clone(), "concert".to_owned(), 200, Duration::from_millis(200)).await?;
    let buyers: Vec<_> = (0..20).map(|buyer| tokio::spawn(buy_all(shop.clone(), buyer))).collect();
    for buyer in buyers {
        buyer.await??;
    }
    println!("orders and their seats: {:?}", store.dict("concert:sold").all::<i64, i64>().await?.0);
    Ok(())
}
