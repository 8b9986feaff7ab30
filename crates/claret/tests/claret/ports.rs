//! The ports of docs/howto/move-from-multi-and-watch.md: what stands there before is run against plain servers, what stands
//! there after against servers with the module, and both do the same.

use claret::Records;
use claret::blocking::Store;
use claret_rig::{Cluster, Module, Server};
use redis::Commands;

#[allow(unreachable_pub)]
mod crossslot_after;
#[allow(unreachable_pub)]
mod crossslot_before;
#[allow(unreachable_pub)]
mod watch_after;
#[allow(unreachable_pub)]
mod watch_before;

const GUIDE: &str = include_str!("../../../../docs/howto/move-from-multi-and-watch.md");

/// Clients at once, and what each of them pays.
const CLIENTS: i64 = 4;
const PAYMENTS: i64 = 25;
const AMOUNT: i64 = 3;
/// Enough for most of the payments.
const MONEY: i64 = 200;

fn cluster(masters: u16) -> Cluster {
    let module = Module::of_sources().expect("the module");
    Cluster::options(masters, 0).module(module).start().expect("a cluster")
}

/// The program without its first lines, which say what it is for.
fn shown(program: &str) -> &str {
    let code = program.split_once("\n\n").expect("a purpose").1;
    assert!(program.starts_with("//!"));
    code.trim_end()
}

#[test]
fn the_guide_shows_what_is_run_here_and_counts_its_lines() {
    for (before, after) in [
        (include_str!("ports/watch_before.rs"), include_str!("ports/watch_after.rs")),
        (include_str!("ports/crossslot_before.rs"), include_str!("ports/crossslot_after.rs")),
    ] {
        for program in [before, after] {
            assert!(
                GUIDE.contains(&format!("\n{}\n```\n", shown(program))),
                "the guide lacks:\n{}",
                shown(program)
            );
        }
        let [before, after] = [before, after].map(|program| shown(program).lines().count());
        let counts = format!("{before} lines become {after}.");
        assert!(GUIDE.contains(&counts), "the guide lacks: {counts}");
    }
}

/// So many clients at once pay all that they want to, each by a connection of its own; how often they could.
fn all_pay<C: Send>(connect: impl Fn() -> C, pay: impl Fn(&mut C) -> bool + Sync) -> i64 {
    std::thread::scope(|scope| {
        let pay = &pay;
        let clients: Vec<_> = (0..CLIENTS).map(|_| connect()).collect();
        let clients = clients
            .into_iter()
            .map(|mut client| scope.spawn(move || (0..PAYMENTS).filter(|_| pay(&mut client)).count() as i64));
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).sum()
    })
}

#[test]
fn the_payment_is_the_same_before_and_after() {
    let plain = Server::start().expect("a server");
    let connect = || plain.connection().expect("a connection");
    let mut redis = connect();
    redis.set::<_, _, ()>("balance:ada", MONEY).expect("set");
    let paid = all_pay(connect, |redis| watch_before::pay(redis, AMOUNT).expect("answered"));
    assert_eq!(paid, MONEY / AMOUNT, "all that it was enough for");
    assert_eq!(redis.get::<_, i64>("balance:ada").expect("read"), MONEY % AMOUNT);
    assert_eq!(redis.llen::<_, i64>("payments:ada").expect("read"), paid);

    let cluster = cluster(1);
    let store = Store::connect(cluster.url()).expect("a store");
    store.register("balance:ada").set(MONEY).expect("set");
    let paid = all_pay(|| store.clone(), |store| watch_after::pay(store, AMOUNT).expect("committed"));
    assert_eq!(paid, MONEY / AMOUNT, "all that it was enough for");
    assert_eq!(store.counter("balance:ada").get().expect("read"), MONEY % AMOUNT);
    assert_eq!(store.list("payments:ada").len().expect("read"), paid as u64);
}

#[test]
fn the_transfer_is_the_same_before_and_after() {
    let plain = Cluster::options(2, 0).start().expect("a cluster");
    let [ada, bob] = [0, 1].map(|node| plain.key_at(node, "account:"));
    let connect = |node: usize| plain.servers()[node].connection().expect("a connection");
    let (mut first, mut second) = (connect(0), connect(1));
    let refused: Result<(i64, i64), _> = redis::pipe().atomic().incr(&ada, 1).incr(&bob, 1).query(&mut first);
    assert!(refused.is_err(), "what the guide says of one MULTI for both");

    first.set::<_, _, ()>(&ada, 10).expect("set");
    let mut transfer = |id: &str, amount: i64| {
        let (from, to) = ((&mut first, ada.as_str()), (&mut second, bob.as_str()));
        crossslot_before::transfer(from, to, id, amount).expect("answered")
    };
    assert!(transfer("1", 6));
    assert!(!transfer("2", 6), "there is not enough");
    assert!(transfer("3", 2));
    let again = crossslot_before::arrive((&mut first, &ada), (&mut second, &bob), "3", 2);
    again.expect("answered, and does nothing the second time");
    let balances: [i64; 2] = [first.get(&ada).expect("read"), second.get(&bob).expect("read")];
    assert_eq!(balances, [2, 8]);

    let cluster = cluster(2);
    let store = Store::connect(cluster.url()).expect("a store");
    let [ada, bob] = [0, 1].map(|node| cluster.key_at(node, "account:"));
    store.counter(&ada).add(10).expect("set");
    assert!(crossslot_after::transfer(&store, &ada, &bob, 6).expect("committed"));
    assert!(!crossslot_after::transfer(&store, &ada, &bob, 6).expect("committed"), "there is not enough");
    assert!(crossslot_after::transfer(&store, &ada, &bob, 2).expect("committed"));
    assert_eq!([&ada, &bob].map(|account| store.counter(account).get().expect("read")), [2, 8]);
}
