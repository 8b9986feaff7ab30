//! What a contended transaction looks like from outside: `cargo run -p claret --example observe --features tracing,metrics`.
//!
//! Ada orders a lamp with a shade, Bob a shade with a lamp. Each holds what the other one needs next. Ada's transaction is the
//! elder, so Bob's gives way and is run again. The program prints the spans and events of both, and then the metrics.

pub(crate) mod recorder;

use claret::{Error, Records, Store};
use tokio::sync::Notify;
use tracing::{Instrument, Level, info, info_span};

use recorder::Recorder;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_max_level(Level::DEBUG).without_time().with_ansi(false).init();
    // Before the store is opened, which asks for its counters then.
    let recorder = Recorder::default();
    metrics::set_global_recorder(recorder.clone()).expect("the first one");
    let store = Store::in_memory();
    two_orders(&store).await?;
    println!("\n{}\n", recorder.text());
    let latency = store.stats().latency;
    println!(
        "half within {:?}, 99 % within {:?}, all within {:?}",
        latency.p50(),
        latency.p99(),
        latency.max()
    );
    Ok(())
}

/// Two transactions that take the same two records, each in its own order.
pub(crate) async fn two_orders(store: &Store) -> Result<(), Error> {
    let (ada_holds, bob_waits) = (Notify::new(), Notify::new());
    let ada = store.transaction(async |tx| {
        let lamps = tx.counter("lamps").get_for_update().await?;
        ada_holds.notify_one();
        bob_waits.notified().await;
        let shades = tx.counter("shades").get_for_update().await?;
        tx.register("ada").set(format!("lamp {lamps}, shade {shades}"))?;
        tx.counter("lamps").add(1)?;
        tx.counter("shades").add(1)?;
        Ok(())
    });
    let bob = async {
        ada_holds.notified().await;
        let order = store.transaction(async |tx| {
            info!(target: "shop", attempt = tx.attempt(), "an event of the program's own");
            let shades = tx.counter("shades").get_for_update().await?;
            let lamps = tx.counter("lamps").get_for_update();
            bob_waits.notify_one();
            let lamps = lamps.await?;
            tx.register("bob").set(format!("lamp {lamps}, shade {shades}"))?;
            tx.counter("lamps").add(1)?;
            tx.counter("shades").add(1)?;
            Ok(())
        });
        order.await
    };
    let (ada, bob) = tokio::join!(
        ada.instrument(info_span!("order", buyer = "ada")),
        bob.instrument(info_span!("order", buyer = "bob")),
    );
    ada.and(bob)
}
