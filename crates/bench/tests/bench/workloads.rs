//! The workloads on the sequential interpreter: they run, verify themselves, and catch a planted loss.

use claret_types::Bytes;

use claret_bench::workload::retwis::{self, RetwisMix};
use claret_bench::workload::rubis::{self, RubisMix};
use claret_bench::workload::sequential::{Fate, Sequential};
use claret_bench::workload::{
    BATCH_MAX, Call, Client, Promise, Run, Stage, Violation, Workload, checkout, fair, hot, objects, rawmix,
};

const CLIENTS: u64 = 4;

/// Runs a workload, losing the `lost`-th call (from zero) that `is_victim` picks, and verifies.
fn run_losing(
    workload: &dyn Workload,
    transactions: usize,
    is_victim: &dyn Fn(&Call) -> bool,
    lost: Option<usize>,
) -> Vec<Violation> {
    let mut store = Sequential::loaded(workload).expect("loads");
    let run = workload.run();
    let mut seen = 0;
    let mut fate = |call: &Call| {
        if !is_victim(call) {
            return Fate::Done;
        }
        seen += 1;
        if Some(seen - 1) == lost { Fate::Lost } else { Fate::Done }
    };
    store.run(workload, run.as_ref(), CLIENTS, transactions, &mut fate).expect("no operation is refused");
    assert!(lost.is_none_or(|lost| lost < seen), "only {seen} calls to lose");
    verify(run.as_ref(), &mut store)
}

fn verify(run: &dyn Run, store: &mut Sequential) -> Vec<Violation> {
    run.verify(Promise::Transactions, &mut |call| store.call(&call).expect("reads"))
}

fn is_named(call: &Call, method: &str) -> bool {
    call.op.method().name == method
}

fn small_rawmix() -> rawmix::RawMix {
    rawmix::RawMix::new(rawmix::Options { keys: 100, ..rawmix::Options::default() })
}

fn small_hot() -> hot::Hot {
    hot::Hot::new(hot::Options { counters: 100, ..hot::Options::default() })
}

fn small_rubis(mix: RubisMix) -> rubis::Rubis {
    rubis::Rubis::new(rubis::Options { mix, items: 300, users: 200, ..rubis::Options::default() })
}

fn small_retwis(mix: RetwisMix) -> retwis::Retwis {
    retwis::Retwis::new(retwis::Options { mix, scale: 8, ..retwis::Options::default() })
}

fn small_checkout() -> checkout::Checkout {
    let (products, thinkers, reprices_percent) = (20, 2, 5.0);
    checkout::Checkout::new(checkout::Options { products, thinkers, reprices_percent, ..Default::default() })
}

fn small_objects() -> objects::Objects {
    objects::Objects::new(objects::Options { keys: 100, ..Default::default() })
}

fn all_small() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(small_rawmix()),
        Box::new(small_hot()),
        Box::new(small_rubis(RubisMix::ReadHeavy)),
        Box::new(small_rubis(RubisMix::BidHeavy)),
        Box::new(small_retwis(RetwisMix::ReadHeavy)),
        Box::new(small_retwis(RetwisMix::PostHeavy)),
        Box::new(small_checkout()),
        Box::new(small_objects()),
    ]
}

#[test]
fn checkout_verifies_and_catches_each_loss() {
    let workload = small_checkout();
    // A price that is not raised is paid again: its takings when it is raised at last are not what they were.
    for (method, part) in [("BDECRBY", "stock"), ("INCRBY", "takings"), ("INCRBY", "price")] {
        let has_part = |key: &Bytes| key.as_str().is_some_and(|key| key.contains(part));
        let is_victim = |call: &Call| is_named(call, method) && has_part(&call.key);
        let violations = run_losing(&workload, 20_000, &is_victim, Some(40));
        assert!(violations.iter().any(|it| has_part(&it.key)), "{method} on {part}: {violations:?}");
    }
}

/// Who looks at a price, and commits after it was raised, pays an old one: nothing else is wrong.
#[test]
fn checkout_catches_who_pays_an_old_price() {
    for raised_before in [false, true] {
        let (products, thinkers, reprices_percent) = (1, 0, 50.0);
        let options = checkout::Options { products, thinkers, reprices_percent, ..Default::default() };
        let workload = checkout::Checkout::new(options);
        let mut store = Sequential::loaded(&workload).expect("loads");
        let run = workload.run();
        let drawn = |kind: &str| {
            let of_kind = |client: &mut Box<dyn Client>| workload.kinds()[client.draw()].name == kind;
            (0..).map(|seed| run.client(seed)).find_map(|mut client| of_kind(&mut client).then_some(client))
        };
        let (mut buyer, mut raiser) = (drawn("buy").expect("a buyer"), drawn("reprice").expect("a raiser"));
        let all = |store: &mut Sequential, calls: &[Call]| -> Vec<claret_types::Reply> {
            calls.iter().map(|call| store.call(call).expect("is done")).collect()
        };
        let mut calls = Vec::new();
        buyer.stage(&[], &mut calls);
        let seen = all(&mut store, &calls);
        let mut raise = |store: &mut Sequential| {
            let mut calls = Vec::new();
            raiser.stage(&[], &mut calls);
            let found = all(store, &calls);
            calls.clear();
            raiser.stage(&found, &mut calls);
            let done = all(store, &calls);
            raiser.committed(&done);
        };
        if raised_before {
            raise(&mut store);
        }
        calls.clear();
        buyer.stage(&seen, &mut calls);
        let done = all(&mut store, &calls);
        buyer.committed(&done);
        if !raised_before {
            raise(&mut store);
        }
        buyer.finish();
        raiser.finish();
        let violations = verify(run.as_ref(), &mut store);
        let whats: Vec<&str> = violations.iter().map(|it| it.what).collect();
        let expected = ["takings when the price was raised, by the acknowledged sales up to that price"];
        assert_eq!(whats, if raised_before { &expected[..] } else { &[] }, "{violations:?}");
    }
}

#[test]
fn objects_verifies_and_catches_what_nobody_put() {
    let workload = small_objects();
    let mut store = Sequential::new();
    let run = workload.run();
    // From the first put on nothing is done: who put something does not get it.
    store.run(&workload, run.as_ref(), 1, 60, &mut |_| Fate::Lost).expect("no operation is refused");
    let violations = verify(run.as_ref(), &mut store);
    assert!(violations.iter().any(|it| it.what == "GET by who put it"), "{violations:?}");
    assert!(violations.iter().any(|it| it.what == "the value at the end"), "{violations:?}");
}

#[test]
fn every_workload_verifies_on_the_reference() {
    for workload in all_small() {
        let violations = run_losing(workload.as_ref(), 20_000, &|_| false, None);
        assert_eq!(violations, [], "{}", workload.name());
    }
}

#[test]
fn rawmix_verifies_and_catches_a_lost_add() {
    let workload = small_rawmix();
    assert_eq!(run_losing(&workload, 2_000, &|call| is_named(call, "SADD"), None), []);
    let violations = run_losing(&workload, 2_000, &|call| is_named(call, "SADD"), Some(3_000));
    assert_eq!(violations.len(), 1, "{violations:?}");
}

#[test]
fn hot_verifies_and_catches_a_lost_increment() {
    let workload = small_hot();
    assert_eq!(run_losing(&workload, 2_000, &|call| is_named(call, "INCRBY"), None), []);
    let violations = run_losing(&workload, 2_000, &|call| is_named(call, "INCRBY"), Some(1_000));
    assert_eq!(violations.len(), 1, "{violations:?}");
    let Violation { expected, found, .. } = &violations[0];
    assert_eq!((expected.as_str(), found.as_str()), ("(integer) 2000", "(integer) 1999"));
}

/// The one writer's increments add up, a lost one is missed, and a reader sees no part of a transaction.
#[test]
fn fair_verifies_and_catches_a_lost_increment() {
    let workload = fair::Fair::new(&fair::Options { counters: 100, ..fair::Options::default() });
    assert_eq!(run_losing(&workload, 2_000, &|call| is_named(call, "INCRBY"), None), []);
    let of_other = |call: &Call| is_named(call, "INCRBY") && call.key != Bytes::from("fair:hot");
    let violations = run_losing(&workload, 2_000, &of_other, Some(3));
    assert_eq!(violations.len(), 1, "{violations:?}");
    let of_hot = |call: &Call| is_named(call, "INCRBY") && call.key == Bytes::from("fair:hot");
    let violations = run_losing(&workload, 2_000, &of_hot, Some(3));
    assert!(violations.iter().any(|it| it.key == Bytes::from("fair:hot")), "{violations:?}");
}

#[test]
fn a_stale_size_is_seen_by_who_added() {
    let workload = small_rawmix();
    // From the first add on nothing is done: the final sizes are wrong, and so are those read on the way.
    let mut store = Sequential::new();
    let run = workload.run();
    store.run(&workload, run.as_ref(), 1, 200, &mut |_| Fate::Lost).expect("no operation is refused");
    let violations = verify(run.as_ref(), &mut store);
    assert!(violations.iter().any(|violation| violation.what == "SCARD by who added"), "{violations:?}");
}

/// Loses one write of each kind, the n-th: at least one violation names a key of that kind.
fn assert_losses_are_caught(workload: &dyn Workload, writes: &[(&str, &str, usize)]) {
    for (method, key_part, nth) in writes {
        let has_part = |key: &Bytes| key.as_str().is_some_and(|key| key.contains(key_part));
        let is_victim = |call: &Call| is_named(call, method) && has_part(&call.key);
        let violations = run_losing(workload, 20_000, &is_victim, Some(*nth));
        let is_caught = violations.iter().any(|violation| has_part(&violation.key));
        assert!(is_caught, "{method} on {key_part} was lost: {violations:?}");
        assert!(violations.len() <= 3, "{method} on {key_part}: {violations:?}");
    }
}

#[test]
fn rubis_catches_each_loss() {
    let writes = [
        ("HINCRBY", "item:", 20),
        ("SADD", "bidder:", 20),
        ("ZADD", "comments:", 20),
        ("BAG.ADD", "ratings:", 20),
        ("HINCRBY", "user:", 20),
        ("HSET", "user:n", 20),
        // Late enough for the auction to be open still at the end.
        ("ZADD", "region:", 300),
        ("ZREM", "category:", 20),
    ];
    assert_losses_are_caught(&small_rubis(RubisMix::ReadHeavy), &writes);
}

#[test]
fn retwis_catches_each_loss() {
    let writes = [
        ("SADD", "followers:", 20),
        ("SADD", "following:", 20),
        ("SADD", "reposts:", 20),
        ("HSET", "user:n", 20),
    ];
    assert_losses_are_caught(&small_retwis(RetwisMix::PostHeavy), &writes);
}

/// A post that is put on a timeline again makes up for a loss, so a timeline loses all.
#[test]
fn retwis_catches_posts_lost_from_a_timeline() {
    let workload = small_retwis(RetwisMix::PostHeavy);
    let reader = (0..workload.graph().users()).max_by_key(|user| workload.graph().following(*user).len());
    let key = Bytes::from(format!("retwis:timeline:{}", reader.expect("there are users")));
    let mut store = Sequential::loaded(&workload).expect("loads");
    let run = workload.run();
    let mut fate = |call: &Call| if call.key == key { Fate::Lost } else { Fate::Done };
    store.run(&workload, run.as_ref(), CLIENTS, 2_000, &mut fate).expect("no operation is refused");
    let violations = verify(run.as_ref(), &mut store);
    assert_eq!(violations.iter().map(|violation| &violation.key).collect::<Vec<_>>(), [&key]);
}

/// A reader who finds a post on a timeline that does not exist.
#[test]
fn retwis_catches_a_post_that_is_not_there() {
    let workload = small_retwis(RetwisMix::PostHeavy);
    let mut store = Sequential::loaded(&workload).expect("loads");
    let run = workload.run();
    let is_post = |call: &Call| call.key.starts_with(b"retwis:post:");
    let mut fate = |call: &Call| if is_post(call) { Fate::Lost } else { Fate::Done };
    store.run(&workload, run.as_ref(), CLIENTS, 2_000, &mut fate).expect("no operation is refused");
    let violations = verify(run.as_ref(), &mut store);
    assert!(violations.iter().any(|violation| violation.what == "a post seen on a timeline"));
}

/// A lost bid shows where no higher one came after it: lose all of them and every touched item is wrong.
#[test]
fn rubis_catches_lost_bids() {
    let workload = small_rubis(RubisMix::BidHeavy);
    let mut store = Sequential::loaded(&workload).expect("loads");
    let run = workload.run();
    let mut fate = |call: &Call| if is_named(call, "TOPK.ADD") { Fate::Lost } else { Fate::Done };
    store.run(&workload, run.as_ref(), CLIENTS, 2_000, &mut fate).expect("no operation is refused");
    let violations = verify(run.as_ref(), &mut store);
    assert!(violations.iter().any(|violation| violation.what == "the highest acknowledged bid"));
    assert!(violations.iter().any(|violation| violation.what.starts_with("winner")));
}

/// Carries out the rest of the transaction that a client has drawn; `between` is called after each stage
/// but the last.
fn complete(store: &mut Sequential, client: &mut dyn Client, between: &mut dyn FnMut(&mut Sequential)) {
    let (mut calls, mut replies) = (Vec::new(), Vec::new());
    loop {
        let stage = client.stage(&replies, &mut calls);
        replies = calls.drain(..).map(|call| store.call(&call).expect("is done")).collect();
        match stage {
            Stage::Commit => return client.committed(&replies),
            Stage::Read => between(store),
        }
    }
}

/// The close of an auction reads the highest bid and then writes the winner. Bids that slip in between are
/// what a store without isolation lets happen.
#[test]
fn rubis_catches_a_bid_between_the_two_stages_of_a_close() {
    let workload = small_rubis(RubisMix::BidHeavy);
    let mut store = Sequential::loaded(&workload).expect("loads");
    let run = workload.run();
    let mut closer = run.client(0);
    let mut bidders: Vec<_> = (1..64).map(|seed| run.client(seed)).collect();
    for _ in 0..4_000 {
        // They have picked their item before it is taken off the board.
        for bidder in &mut bidders {
            bidder.draw();
        }
        closer.draw();
        let mut waiting = Some(&mut bidders);
        let mut bid = |store: &mut Sequential| {
            for bidder in waiting.take().into_iter().flatten() {
                complete(store, bidder.as_mut(), &mut |_| {});
            }
        };
        complete(&mut store, closer.as_mut(), &mut bid);
        bid(&mut store);
    }
    for client in bidders.into_iter().chain([closer]) {
        client.finish();
    }
    let violations = verify(run.as_ref(), &mut store);
    assert!(!violations.is_empty());
    assert!(violations.iter().all(|violation| violation.what.starts_with("winner")), "{violations:?}");
    let single = run.verify(Promise::Operations, &mut |call| store.call(&call).expect("reads"));
    assert_eq!(single, [], "each operation alone was atomic");
}

/// Shares of actions, in percent; parts of other actions are left out.
fn shares_of(workload: &dyn Workload) -> Vec<f64> {
    let mut store = Sequential::loaded(workload).expect("loads");
    let run = workload.run();
    let mut fate = |_: &Call| Fate::Done;
    let kinds = store.run(workload, run.as_ref(), CLIENTS, 200_000, &mut fate).expect("runs");
    let actions = workload.kinds().iter().zip(kinds).filter(|(kind, _)| kind.is_action);
    let counts: Vec<f64> = actions.map(|(_, count)| count as f64).collect();
    let sum: f64 = counts.iter().sum();
    counts.iter().map(|count| 100.0 * count / sum).collect()
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found:.2} %, Table 4.3 has {expected} %");
}

/// View and browse, bid, open and close, comment, new user and view user.
#[test]
fn rubis_mixes_are_those_of_table_4_3() {
    let table = [
        (RubisMix::BidHeavy, [52.0, 45.0, 1.0, 1.0, 1.0]),
        (RubisMix::ReadHeavy, [82.0, 10.0, 4.0, 2.0, 2.0]),
    ];
    for (mix, expected) in table {
        let found = shares_of(&small_rubis(mix));
        let merged = [found[0] + found[1], found[2], found[3] + found[4], found[5], found[6] + found[7]];
        for (column, (found, expected)) in merged.into_iter().zip(expected).enumerate() {
            assert_close(found, expected, 0.5, &format!("{mix:?}, column {column}"));
        }
        assert!(found[0] > 3.0 * found[1], "views dominate: {found:?}");
    }
}

/// Timeline, repost, post, follow, new user.
#[test]
fn retwis_mixes_are_those_of_table_4_3() {
    let table = [
        (RetwisMix::PostHeavy, [82.0, 8.0, 6.0, 3.0, 1.0]),
        (RetwisMix::ReadHeavy, [91.0, 5.0, 2.0, 1.0, 1.0]),
    ];
    for (mix, expected) in table {
        for (column, (found, expected)) in shares_of(&small_retwis(mix)).into_iter().zip(expected).enumerate()
        {
            assert_close(found, expected, 0.8, &format!("{mix:?}, column {column}"));
        }
    }
}

/// Each post of a timeline is loaded in a transaction of its own.
#[test]
fn retwis_loads_each_post_by_itself() {
    let workload = small_retwis(RetwisMix::ReadHeavy);
    let mut store = Sequential::loaded(&workload).expect("loads");
    let run = workload.run();
    let kinds = store.run(&workload, run.as_ref(), 1, 50_000, &mut |_| Fate::Done).expect("runs");
    let loads_per_timeline =
        kinds[retwis::Action::LoadPost as usize] as f64 / kinds[retwis::Action::Timeline as usize] as f64;
    assert!((2.0..=10.0).contains(&loads_per_timeline), "{loads_per_timeline} posts on a page of ten");
}

#[test]
fn loading_comes_in_batches() {
    for workload in all_small() {
        assert!(workload.load().all(|batch| !batch.is_empty() && batch.len() <= BATCH_MAX));
    }
}

#[test]
fn the_same_seeds_leave_the_same_store() {
    for workload in all_small() {
        let ends = [(), ()].map(|()| {
            let mut store = Sequential::loaded(workload.as_ref()).expect("loads");
            let run = workload.run();
            store.run(workload.as_ref(), run.as_ref(), CLIENTS, 3_000, &mut |_| Fate::Done).expect("runs");
            store
        });
        assert!(ends[0] == ends[1], "{}", workload.name());
    }
}

#[test]
fn an_unknown_outcome_fails_the_run() {
    for workload in all_small() {
        let run = workload.run();
        let mut client = run.client(1);
        client.draw();
        client.stage(&[], &mut Vec::new());
        client.unknown();
        client.finish();
        let mut store = Sequential::loaded(workload.as_ref()).expect("loads");
        assert_eq!(verify(run.as_ref(), &mut store).len(), 1);
    }
}

#[test]
fn a_restart_issues_the_same_calls() {
    for workload in all_small() {
        let mut store = Sequential::loaded(workload.as_ref()).expect("loads");
        let run = workload.run();
        let mut client = run.client(1);
        for _ in 0..500 {
            client.draw();
            let (mut first, mut second) = (Vec::new(), Vec::new());
            client.stage(&[], &mut first);
            client.restart();
            let mut stage = client.stage(&[], &mut second);
            assert_eq!(first, second, "{}", workload.name());
            let mut replies: Vec<_> = second.iter().map(|call| store.call(call).expect("is done")).collect();
            while stage == Stage::Read {
                second.clear();
                stage = client.stage(&replies, &mut second);
                replies = second.iter().map(|call| store.call(call).expect("is done")).collect();
            }
            client.committed(&replies);
        }
    }
}
