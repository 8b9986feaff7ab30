//! A type written outside this crate: the oracle checks it like the built-in ones, and it does what its text says.

#[path = "../../../claret/examples/sealed_bids/book.rs"]
#[allow(unreachable_pub)]
mod book;

use book::{BidBook, BidOp, Book};
use claret_types::oracle::{self, Bounds};
use claret_types::{Bytes, DataType, OpError, Reply, Unique};

/// Executes and applies a call as one would type it.
fn call(book: &mut Book, method: &str, arguments: &[&str]) -> Result<Reply, OpError> {
    let arguments: Vec<Bytes> = arguments.iter().map(|argument| Bytes::from(*argument)).collect();
    let op = BidBook::parse(method, &arguments)?;
    BidBook::check(&op)?;
    assert_eq!(BidBook::method(&op).name, method);
    let execution = BidBook::execute(book, &op, Unique(1))?;
    if let Some(effect) = execution.effect {
        BidBook::apply(book, effect);
    }
    Ok(execution.reply)
}

fn verdict(winner: &str, price: i64) -> Reply {
    Reply::Array(vec![Reply::Bytes(winner.into()), Reply::Int(price)])
}

#[test]
fn the_oracle_accepts_the_book() {
    let report = oracle::check::<BidBook>(Bounds { cases: 300_000, ..Bounds::default() });
    assert!(report.holds(), "{report}");
    assert!(report.complete >= 3, "{report}");
}

#[test]
fn the_winner_pays_the_second_highest_bid() {
    let mut book = Book::default();
    for (bidder, amount) in [("cid", "5"), ("ann", "9"), ("bob", "7"), ("ann", "2"), ("bob", "8")] {
        assert_eq!(call(&mut book, "BID", &[bidder, amount]), Ok(Reply::Ok));
    }
    assert_eq!(call(&mut book, "STANDING", &["ann"]), Ok(Reply::Int(9)), "the highest counts");
    assert_eq!(call(&mut book, "BIDDERS", &[]), Ok(Reply::Int(3)));
    assert_eq!(call(&mut book, "CLOSE", &[]), Ok(verdict("ann", 8)));
    assert_eq!(call(&mut book, "CLOSE", &[]), Ok(verdict("ann", 8)), "the verdict stands");
}

#[test]
fn ties_go_by_name_and_a_lone_bidder_pays_the_least_bid() {
    let mut book = Book::default();
    assert_eq!(call(&mut book, "BID", &["bob", "5"]), Ok(Reply::Ok));
    let mut tied = book.clone();
    assert_eq!(call(&mut book, "CLOSE", &[]), Ok(verdict("bob", 1)));
    assert_eq!(call(&mut tied, "BID", &["ann", "5"]), Ok(Reply::Ok));
    assert_eq!(call(&mut tied, "CLOSE", &[]), Ok(verdict("ann", 5)));
}

#[test]
fn a_closed_book_takes_no_bids_and_gives_none_back() {
    let mut book = Book::default();
    assert_eq!(call(&mut book, "CLOSE", &[]), Ok(Reply::Nil));
    for (method, arguments) in [("BID", &["ann", "5"][..]), ("WITHDRAW", &["ann"])] {
        let error = call(&mut book, method, arguments).expect_err("the book is closed");
        assert!(error.to_string().contains("closed"), "{error}");
    }
}

#[test]
fn a_withdrawn_bid_does_not_count() {
    let mut book = Book::default();
    for (bidder, amount) in [("ann", "9"), ("bob", "7"), ("cid", "3")] {
        assert_eq!(call(&mut book, "BID", &[bidder, amount]), Ok(Reply::Ok));
    }
    assert_eq!(call(&mut book, "WITHDRAW", &["ann"]), Ok(Reply::Ok));
    assert_eq!(call(&mut book, "CLOSE", &[]), Ok(verdict("bob", 3)));
}

#[test]
fn senseless_bids_are_refused_before_anything_is_locked() {
    for amount in [0, u64::MAX] {
        assert!(BidBook::check(&BidOp::Bid("ann".into(), amount)).is_err(), "{amount}");
    }
    assert!(call(&mut Book::default(), "BID", &["ann", "-3"]).is_err());
    assert!(call(&mut Book::default(), "BID", &["ann"]).is_err());
}
