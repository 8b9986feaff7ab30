//! The same payment as a transaction, as docs/howto/move-from-multi-and-watch.md shows it.

use claret::blocking::Store;
use claret::{Error, Records};

/// Pays out of Ada's balance; whether there was enough.
pub fn pay(store: &Store, amount: i64) -> Result<bool, Error> {
    store.transaction(|tx| {
        if tx.counter("balance:ada").get_for_update()? < amount {
            return Ok(false);
        }
        tx.counter("balance:ada").add(-amount)?;
        tx.list("payments:ada").push_back(amount)?;
        Ok(true)
    })
}
