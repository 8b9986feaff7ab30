//! A transfer between two keys, all or nothing: `cargo run --example transfer`.

use claret::{Abort, Records, Store, TransactionError};

fn main() -> Result<(), TransactionError> {
    let store = Store::in_memory().blocking();
    store.counter("account:ada").add(100)?;
    let transfer = |amount: i64| {
        store.transaction(|tx| {
            tx.counter("account:ada").add(-amount)?;
            tx.counter("account:bob").add(amount)?;
            if tx.counter("account:ada").get()? < 0 {
                return Err(Abort::because(format!("ada has no {amount} to give")));
            }
            Ok(())
        })
    };
    transfer(30)?;
    println!("{}", transfer(80).expect_err("there are only 70 left"));
    println!("ada {}, bob {}", store.counter("account:ada").get()?, store.counter("account:bob").get()?);
    Ok(())
}
