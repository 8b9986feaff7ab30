//! A sealed-bid auction over a data type of one's own (`book.rs`): `cargo run --example sealed_bids`.
//!
//! Many bidders bid at once. Each bid is a transaction over two records: the book, which everybody wants, and
//! the bidder's purse, in which the money is set aside. Bids commute, so they share the book's lock; closing
//! the book waits for those under way and names the winner. The same auction under reader/writer locks gives
//! the same result, one bid at a time.

#[allow(unreachable_pub)]
mod book;

use std::time::{Duration, Instant};

use book::{BidBook, BidOp};
use claret::{
    Bytes, Error, Records, Store,
    lab::{Mode, StoreLab},
};

const BIDDERS: u64 = 64;
const BIDS_EACH: u64 = 10;
/// What a bidder's bank takes to say that the money is there, while the bid is in the book but not committed.
const BANK: Duration = Duration::from_millis(1);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Error> {
    for mode in [Mode::CommutingPhased, Mode::ReaderWriterPhased] {
        let store = Store::builder().mode(mode).build();
        let began = Instant::now();
        let (winner, price) = auction(&store).await?;
        let (took, stats) = (began.elapsed(), store.stats());
        println!("{mode:?}: {winner} wins and pays {price}");
        println!(
            "    {} bids in {took:?}; somebody waited {} times, and {} attempts were run again",
            BIDDERS * BIDS_EACH,
            stats.lock_waits,
            stats.restarts
        );
    }
    Ok(())
}

/// Lets everybody bid, then closes the book. Returns the winner and the price.
async fn auction(store: &Store) -> Result<(Bytes, u64), Error> {
    let bidders: Vec<_> = (0..BIDDERS).map(|bidder| tokio::spawn(bid_often(store.clone(), bidder))).collect();
    for bidder in bidders {
        bidder.await.expect("no bidder panics")?;
    }
    let book = store.record::<BidBook>("auction:42");
    assert_eq!(book.run::<u64>(BidOp::Bidders).await?, BIDDERS);
    let verdict: Option<(Bytes, u64)> = book.run(BidOp::Close).await?;
    let late = book.issue(BidOp::Bid("late".into(), 1_000_000)).await.expect_err("the book is closed");
    println!("a late bid: {late}");
    Ok(verdict.expect("somebody has bid"))
}

/// One bidder's bids, each higher than the one before.
async fn bid_often(store: Store, bidder: u64) -> Result<(), Error> {
    let name = format!("bidder-{bidder:02}");
    for round in 1..=BIDS_EACH {
        // Everybody has a highest bid of their own, somewhere between 1000 and 2000.
        let amount = (1000 + bidder * 619 % 1000) * round / BIDS_EACH;
        let name = &name;
        store
            .transaction(|tx| async move {
                let purse = tx.register(format!("purse:{name}"));
                let aside: u64 = purse.get_for_update().await?.unwrap_or(0);
                tx.record::<BidBook>("auction:42").issue(BidOp::Bid(name.into(), amount))?;
                let bidding: Option<u64> =
                    tx.record::<BidBook>("auction:42").run(BidOp::Standing(name.into())).await?;
                tokio::time::sleep(BANK).await;
                purse.set(aside.max(bidding.unwrap_or(0)))?;
                Ok(())
            })
            .await?;
    }
    Ok(())
}
