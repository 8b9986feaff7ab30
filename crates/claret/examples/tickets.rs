//! Selling the last tickets without overselling: `cargo run --example tickets`.
//!
//! A `BoundedCounter` never leaves its bounds. Buyers who take from it share its lock as long as there is
//! enough for all of them; only over the last tickets does anybody wait to learn whether one is left.

use claret::{Error, Records, Store};

const TICKETS: i64 = 50;
const BUYERS: usize = 8;

fn main() -> Result<(), Error> {
    let store = Store::in_memory();
    let shop = store.blocking();
    shop.bounded_counter("tickets").create(TICKETS, 0, TICKETS)?;

    let sold: Vec<usize> = std::thread::scope(|scope| {
        let buyers: Vec<_> = (0..BUYERS)
            .map(|buyer| {
                let shop = store.blocking();
                scope.spawn(move || buy_all(shop, buyer))
            })
            .collect();
        buyers.into_iter().map(|buyer| buyer.join().expect("no panic")).collect::<Result<_, _>>()
    })?;

    println!("each buyer got {sold:?}, {} in all", sold.iter().sum::<usize>());
    println!(
        "{} left, {} waits",
        shop.bounded_counter("tickets").get()?.unwrap_or(0),
        store.stats().lock_waits
    );
    assert_eq!(sold.iter().sum::<usize>() as i64, TICKETS);
    Ok(())
}

/// Buys ticket after ticket, each noted under the buyer's name in the same transaction, until none is left.
fn buy_all(shop: claret::blocking::Store, buyer: usize) -> Result<usize, Error> {
    let mut bought = 0;
    while shop.transaction(|tx| {
        let got = tx.bounded_counter("tickets").try_take(1)?;
        if got {
            tx.counter(format!("bought:{buyer}")).add(1)?;
        }
        Ok(got)
    })? {
        bought += 1;
    }
    Ok(bought)
}
