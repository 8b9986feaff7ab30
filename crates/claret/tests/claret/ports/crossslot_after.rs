//! The same transfer as a transaction, as docs/howto/move-from-multi-and-watch.md shows it.

use claret::blocking::Store;
use claret::{Error, Records};

/// Moves money between accounts on any nodes; whether there was enough.
pub fn transfer(store: &Store, from: &str, to: &str, amount: i64) -> Result<bool, Error> {
    store.transaction(|tx| {
        if tx.counter(from).get_for_update()? < amount {
            return Ok(false);
        }
        tx.counter(from).add(-amount)?;
        tx.counter(to).add(amount)?;
        Ok(true)
    })
}
