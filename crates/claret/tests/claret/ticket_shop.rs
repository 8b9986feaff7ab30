//! The ticket shop of `examples/ticket_shop.rs`, with twenty buyers on both hosts: exactly what there was is sold.

use std::time::Duration;

use claret::{Records, Store, types::Pairs};
use claret_rig::{Cluster, Module};

#[path = "../../examples/ticket_shop.rs"]
#[allow(dead_code, unreachable_pub)]
mod example;

use example::{Shop, buy_all};

const BUYERS: usize = 20;
const SEATS: i64 = 200;

/// So long that most carts are checked out, and so short that those left alone come back soon.
const HOLD: Duration = Duration::from_millis(300);

async fn is_sold_out_exactly(store: &Store) {
    let shop = Shop::open(store.clone(), "concert".to_owned(), SEATS, HOLD).await.expect("it opens");
    let buyers: Vec<_> = (0..BUYERS).map(|buyer| tokio::spawn(buy_all(shop.clone(), buyer))).collect();
    for buyer in buyers {
        buyer.await.expect("no panic").expect("it buys");
    }
    let Pairs(mut sold) = store.dict("concert:sold").all::<i64, i64>().await.expect("the orders");
    sold.sort_unstable();
    assert_eq!(sold.iter().map(|(_, seats)| seats).sum::<i64>(), SEATS);
    let numbers: Vec<i64> = sold.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=sold.len() as i64).collect::<Vec<_>>(), "no number twice, none left out");
    assert_eq!(store.bounded_counter("concert:seats").get().await.expect("an answer"), Some(0));
    assert_eq!(store.dict("concert:held").len().await.expect("an answer"), 0);
    let mut carts = store.keys("concert:cart:*");
    assert_eq!(carts.next_page().await.expect("a page"), None, "none is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shop_sells_what_there_is_in_the_process() {
    let store = Store::in_memory();
    is_sold_out_exactly(&store).await;
    store.check_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shop_sells_what_there_is_on_a_cluster() {
    let module = Module::of_sources().expect("the module");
    let cluster = Cluster::options(3, 0).module(module).start().expect("a cluster");
    let store = Store::cluster(cluster.url()).connect().await.expect("a store");
    is_sold_out_exactly(&store).await;
    store.close().await.expect("it closes");
}

#[test]
fn the_shop_is_short_and_needs_no_map_err() {
    let source = include_str!("../../examples/ticket_shop.rs");
    assert!(source.lines().count() < 150, "{} lines", source.lines().count());
    assert!(!source.contains("map_err"));
}
