//! TPC-C on the sequential interpreter: it holds its conditions, and each that is broken is named.

use claret_bench::workload::sequential::{Fate, Sequential};
use claret_bench::workload::tpcc::conditions::{self, Broken};
use claret_bench::workload::tpcc::{Options, Placing, Tables, Tpcc};
use claret_bench::workload::{Call, Promise, Violation, Workload, ops};
use claret_types::{BUILTIN, Bytes, Operation, Reply};

fn options() -> Options {
    Options { warehouses: 2, scale: 0.002, ..Options::default() }
}

/// A store on which so many transactions were run; what the run found wrong with it.
fn ran(
    options: Options,
    transactions: usize,
    lost: Option<(&str, &str, usize)>,
) -> (Sequential, Vec<Violation>) {
    let workload = Tpcc::new(options);
    let mut store = Sequential::loaded(&workload).expect("loads");
    let run = workload.run();
    let mut seen = 0;
    let mut fate = |call: &Call| {
        let is_victim = |(method, part, _): &(&str, &str, usize)| {
            call.op.method().name == *method && call.key.as_str().is_some_and(|key| key.starts_with(part))
        };
        let Some((.., nth)) = lost.filter(is_victim) else { return Fate::Done };
        seen += 1;
        if seen - 1 == nth { Fate::Lost } else { Fate::Done }
    };
    let kinds = store.run(&workload, run.as_ref(), 8, transactions, &mut fate).expect("nothing is refused");
    assert!(lost.is_none_or(|(.., nth)| nth < seen), "only {seen} calls to lose");
    assert!(kinds.iter().all(|count| *count > transactions / 40), "{kinds:?}");
    let violations = run.verify(Promise::Transactions, &mut |call| store.call(&call).expect("reads"));
    (store, violations)
}

fn check(store: &mut Sequential, options: &Options) -> Vec<Broken> {
    let tables = Tables::new(options.clone());
    conditions::check(&tables, &mut |calls| {
        calls.iter().map(|call| store.call(call).map_err(|error| error.to_string())).collect()
    })
    .expect("all can be read")
}

fn numbers(broken: &[Broken]) -> Vec<u8> {
    let mut numbers: Vec<u8> = broken.iter().map(|it| it.condition.number()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn operation(kind: &str, method: &str, words: &[&str]) -> Operation {
    let kind = BUILTIN.iter().find(|it| it.name == kind).expect("a type");
    let words: Vec<Bytes> = words.iter().map(|word| Bytes::from(*word)).collect();
    (kind.parse)(method, &words).expect("well-formed")
}

#[test]
fn what_is_loaded_holds_all_conditions() {
    for place in [Placing::Spread, Placing::Warehouse] {
        let options = Options { place, ..options() };
        let mut store = Sequential::loaded(&Tpcc::new(options.clone())).expect("loads");
        assert_eq!(check(&mut store, &options), []);
    }
}

#[test]
fn all_conditions_hold_after_a_run() {
    for (place, warehouses) in [(Placing::Spread, 1), (Placing::Spread, 3), (Placing::Warehouse, 2)] {
        let options = Options { place, warehouses, ..options() };
        let (mut store, violations) = ran(options.clone(), 3_000, None);
        assert_eq!(violations, [], "{options:?}");
        assert_eq!(check(&mut store, &options), []);
    }
}

/// The rule of stock is a ring: run dry it fills up again, and what is left is what the lines took (condition of stock).
#[test]
fn each_lost_write_breaks_a_condition_that_names_its_place() {
    let losses = [
        ("HINCRBY", "warehouse:", 20, "condition 1:"),
        ("HINCRBY", "district:", 20, "condition 9:"),
        ("HINCRBY", "customer:", 20, "condition 1"),
        ("SADD", "history:", 20, "condition 8:"),
        ("RPUSH", "new:", 20, "condition"),
        ("RPUSH.RETURNING", "orders:", 20, "condition"),
        ("LPOP", "new:", 20, "condition"),
        ("HSET", "order:", 20, "condition"),
        ("HINCRBY", "stock:", 20, "stock:"),
        ("BDECRBY.WRAP", "quantity:", 20, "stock:"),
    ];
    for (method, part, nth, expected) in losses {
        let (_, violations) = ran(options(), 2_000, Some((method, part, nth)));
        let is_named = |it: &Violation| it.what.starts_with(expected) && it.found.contains("(warehouse ");
        assert!(violations.iter().any(is_named), "{method} on {part}: {violations:?}");
    }
}

/// One plain increment of a kept sum: the condition, the warehouse and both values are told.
#[test]
fn a_plain_increment_is_named_with_condition_warehouse_and_values() {
    let (mut store, _) = ran(options(), 500, None);
    let one = Call::new(&"warehouse:{2}".into(), ops::hincrby("ytd", 1));
    store.call(&one).expect("an increment");
    let broken = check(&mut store, &options());
    assert_eq!(numbers(&broken), [1, 8]);
    let (left, right) = (&broken[0].left, &broken[0].right);
    let values = [&left.1, &right.1].map(|value| value.parse::<i64>().expect("a number"));
    assert_eq!((broken[0].warehouse, broken[0].district, values[0] - values[1]), (2, None, 1));
    let text = broken[0].to_string();
    let start = format!("condition 1: W_YTD is the sum of D_YTD: warehouse 2: W_YTD is {}, ", left.1);
    assert!(text.starts_with(&start) && text.contains(&right.1), "{text}");
}

/// Each of the twelve can fail.
#[test]
fn each_condition_can_be_broken() {
    type Break<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a [u8]);
    let breaks: [Break<'_>; 9] = [
        ("warehouse:{1}", "dict", "HINCRBY", &["ytd", "5"], &[1, 8]),
        ("district:{1:3}", "dict", "HINCRBY", &["ytd", "5"], &[1, 9]),
        ("orders:{1:3}", "list", "RPUSH", &["x"], &[2, 11]),
        ("new:{1:3}", "list", "RPUSH", &["L1"], &[3, 5, 11]),
        ("order:{1:3}:L1", "dict", "HDEL", &["1"], &[4, 6, 7]),
        ("order:{1:3}:L1", "dict", "HDEL", &["carrier"], &[5, 7]),
        ("order:{1:3}:L1", "dict", "HDEL", &["d1"], &[7]),
        ("customer:{1:3:4}", "dict", "HINCRBY", &["balance", "1"], &[10, 12]),
        ("customer:{1:3:4}", "dict", "HINCRBY", &["ytd_payment", "1"], &[12]),
    ];
    let mut seen = Vec::new();
    for (key, kind, method, words, expected) in breaks {
        let mut store = Sequential::loaded(&Tpcc::new(options())).expect("loads");
        let reply = store.call(&Call::new(&key.into(), operation(kind, method, words))).expect("done");
        assert_eq!(reply, Reply::Ok);
        let broken = check(&mut store, &options());
        assert_eq!(numbers(&broken), expected, "{method} {key}: {broken:?}");
        assert!(
            broken.iter().all(|it| it.warehouse == 1 && it.district.is_none_or(|d| d == 3)),
            "{broken:?}"
        );
        seen.extend_from_slice(expected);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (1..=12).collect::<Vec<u8>>());
}

#[test]
fn parameters_are_read_back() {
    let options = Options { prefix: "ab:".into(), scale: 0.003, place: Placing::Warehouse, ..options() };
    let mut store = Sequential::loaded(&Tpcc::new(options.clone())).expect("loads");
    let mut read = |calls: Vec<Call>| {
        calls.iter().map(|call| store.call(call).map_err(|error| error.to_string())).collect()
    };
    assert_eq!(conditions::parameters("ab:", &mut read), Ok(options));
    let error = conditions::parameters("none:", &mut read).expect_err("nothing is there");
    assert!(error.contains("'none:tpcc:parameters'"), "{error}");
}
