//! A transfer between two keys, all or nothing: `cargo run --example transfer`, in this process; on a cluster
//! `cargo run --example transfer -- redis://127.0.0.1:7000`, where the keys are on different shards.

use std::error::Error;

use claret::blocking::Store;
use claret::{Abort, Records};
use claret_redis::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    let store = url.as_ref().map_or_else(|| Ok(claret::Store::in_memory().blocking()), Store::connect)?;
    store.register("account:ada").set("100")?;
    store.register("account:bob").set("0")?;
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
    url.map_or(Ok(()), |url| without_claret(&url))
}

/// What the cluster says to the same transfer in plain Redis: the node of the one key is asked to do both.
fn without_claret(url: &str) -> Result<(), Box<dyn Error>> {
    let command = |text: &str| {
        let mut words = text.split(' ');
        let name = Command::new(words.next().unwrap_or_default());
        words.fold(name, Command::arg)
    };
    let say = |words: &str, reply: &dyn std::fmt::Display| println!("{words:<40} {reply}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let plain = claret_redis::Builder::new(url).connect().await?;
        let mut node = plain.dedicated("account:ada").await?;
        println!("\nthe same without Claret, at {}:", node.node());
        for words in [
            "MULTI",
            "INCRBY account:ada -30",
            "INCRBY account:bob 30",
            "EXEC",
            "MSET account:ada 70 account:bob 30",
        ] {
            match node.ask(&command(words)).await {
                Ok(reply) => say(words, &reply),
                Err(error) => say(words, &error),
            }
        }
        Ok(())
    })
}
