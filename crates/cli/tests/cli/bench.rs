//! `claret bench`: what cannot be run is refused by name; what was measured is said in tables, and in a form that programs can
//! read; the model says the same every time. `claret demo` shows a checkout and two
//! sites.

use std::process::{Command, Output};

use serde_json::Value;

const STORE_MODES: &str = "none,rw,rw+phase,boost,boost+phase,boost+phase+combine";

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

fn sum(numbers: &Value) -> Option<u64> {
    numbers.as_array()?.iter().map(Value::as_u64).sum()
}

fn claret(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_claret")).args(arguments).output().expect("the program starts")
}

/// The error must name these.
fn is_refused(arguments: &[&str], named: &[&str]) {
    let output = claret(&[&["bench"], arguments].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{arguments:?} was run");
    assert!(output.stdout.is_empty(), "{arguments:?} printed something");
    for name in named {
        assert!(error.contains(name), "{arguments:?}: {error}");
    }
}

#[test]
fn what_looks_cannot_do_and_what_shops_and_objects_have_not_is_refused_by_name() {
    for (arguments, named) in [
        (&["hot", "--store", "sim", "--modes", "optimistic"][..], &["'optimistic'", "not in the model"][..]),
        (&["hot", "--store", "sim", "--modes", "sinfonia"], &["'sinfonia'", "not in the model"]),
        (&["hot", "--check", "values"], &["--check", "optimistic"]),
        (&["hot", "--store", "sim", "--check", "values"], &["--check", "optimistic"]),
        (&["hot", "--modes", "optimistic", "--check", "bytes"], &["'bytes'", "answers or values"]),
        (&["rubis", "--modes", "optimistic", "--check", "values"], &["--check values", "'rubis'"]),
        (&["checkout", "--keys", "2"], &["--keys 2", "3 different"]),
        (&["checkout", "--reprices", "101"], &["--reprices 101"]),
        (&["checkout", "--store", "cluster", "--modes", "redis-lock"], &["'redis-lock'", "'checkout'"]),
        (&["hot", "--thinkers", "2"], &["'hot'", "--thinkers"]),
        (&["objects", "--objects", "0"], &["--objects 0"]),
        (&["objects", "--keys", "10", "--objects", "4"], &["--objects 4", "--keys is 10"]),
    ] {
        is_refused(arguments, named);
    }
}

/// What is refused, and what the error must name.
#[test]
fn what_cannot_be_run_is_refused_by_name() {
    for (arguments, named) in [
        (&["rawmix", "--modes", "rw,fast"][..], &["'fast'", "boost+phase+combine"][..]),
        (&["rubis", "--modes", "mutex,claret"], &["'mutex'", "'rubis'", "rawmix and hot"]),
        (&["tpcd"], &["'tpcd'", "retwis"]),
        (&["hot", "--warehouses", "2"], &["'hot'", "--warehouses"]),
        (&["retwis", "--scale", "2.5"], &["--scale 2.5", "from 2 to 20"]),
        (&["hot", "--store", "sim", "--modes", "mutex,claret"], &["'mutex'", "--store sim"]),
        (&["hot", "--store", "sim", "--threads", "2"], &["--store sim", "--threads"]),
        (&["hot", "--store", "sim", "--slice", "1"], &["--store sim", "--slice"]),
        (&["hot", "--store", "sim", "--processes", "0"], &["in 0 processes"]),
        (&["hot", "--store", "sim", "--clients", "3", "--processes", "4"], &["3 clients in 4 processes"]),
        (&["hot", "--store", "cluster", "--processes", "0"], &["0 processes"]),
        (&["hot", "--store", "cluster", "--processes", "4", "--threads", "2"], &["4 processes on 2 threads"]),
        (&["hot", "--processes", "2"], &["--processes is of --store sim", "--store embedded"]),
        (&["hot", "--store", "sim", "--op-cost", "2000000000"], &["--op-cost 2000000000", "a second"]),
        (&["hot", "--store", "sim", "--backoff", "9..3"], &["--backoff", "the shorter one first"]),
        (&["hot", "--store", "sim", "--backoff", "9"], &["--backoff", "MIN..MAX"]),
        (&["hot", "--store", "sim", "--window", "0"], &["--window 0"]),
        (&["hot", "--store", "sim", "--ordering", "often"], &["'often'", "never, adaptive"]),
        (&["hot", "--ordering", "always"], &["--ordering", "--store sim", "embedded"]),
        (&["hot", "--store", "cluster", "--ordering", "always"], &["--ordering", "--store sim"]),
        (&["hot", "--rtt", "100"], &["--rtt", "--store sim", "embedded"]),
        (&["hot", "--modes", "redis-lock"], &["'redis-lock'", "--store cluster"]),
        (&["hot", "--store", "sim", "--modes", "redis-lua"], &["'redis-lua'", "--store sim"]),
        (&["hot", "--modes", "one-server"], &["'one-server'", "--store sim", "redis-multi"]),
        (&["hot", "--store", "cluster", "--modes", "one-server"], &["'one-server'", "--store sim"]),
        (&["hot", "--store", "sim", "--interactive", "--modes", "one-server"], &["'one-server'", "one go"]),
        (&["hot", "--store", "sim", "--think", "100", "--modes", "one-server"], &["'one-server'", "--think"]),
        (&["hot", "--store", "cluster", "--modes", "mutex"], &["'mutex'"]),
        (&["hot", "--store", "cluster", "--shards", "65"], &["--shards 65"]),
        (&["hot", "--store", "cluster", "--rtt", "100"], &["--rtt", "--store sim"]),
        (
            &["hot", "--store", "cluster", "--interactive", "--modes", "redis-multi"],
            &["'redis-multi'", "one go"],
        ),
        (&["hot", "--store", "redis://localhost:1"], &["localhost:1"]),
        (&["hot", "--store", "redis://localhost:1", "--shards", "3"], &["--shards"]),
        (&["hot", "--single", "redis://localhost:1"], &["--single", "embedded"]),
        (&["hot", "--store", "disk"], &["'disk'", "embedded"]),
        (&["retwis", "--mix", "bid-heavy"], &["'bid-heavy'", "post-heavy"]),
        (&["hot", "--alpha", "1"], &["'hot'", "--alpha"]),
        (&["rawmix", "--alpha", "nan"], &["--alpha"]),
        (&["rawmix", "--adds", "101"], &["--adds 101"]),
        (&["rawmix", "--keys", "0"], &["--keys 0"]),
        (&["hot", "--keys", "5"], &["'hot'", "--keys"]),
        (&["hot", "--clients", "1", "--threads", "2"], &["1 clients on 2 threads"]),
        (&["hot", "--seconds", "0"], &["--seconds 0"]),
        (&["hot", "--modes", "mutex", "--think", "1000"], &["'mutex'", "--think"]),
        (&["hot", "--modes", "claret,boost+phase"], &["same mode"]),
    ] {
        is_refused(arguments, named);
    }
}

/// The model says the same on every machine and at every time, to the last digit; and it checks what it ran.
#[test]
fn the_model_repeats_itself_to_the_last_digit() {
    for workload in [
        &["rawmix", "--alpha", "1.2"][..],
        &["rubis"],
        &["retwis", "--scale", "6"],
        &["hot", "--interactive"],
        &["fair", "--think", "100"],
        &["objects", "--objects", "8", "--alpha", "1"],
        &["checkout", "--thinkers", "4", "--think", "300", "--keys", "10", "--reprices", "5"],
    ] {
        let settings = ["--store", "sim", "--seconds", "0.01", "--clients", "48", "--jitter", "5", "--json"];
        let arguments = [&["bench"], workload, &settings, &["--modes", STORE_MODES]].concat();
        let (one, other) = (claret(&arguments), claret(&arguments));
        assert!(one.status.success(), "{}", String::from_utf8_lossy(&one.stderr));
        assert_eq!(one.stdout, other.stdout, "{workload:?}");
        let text = String::from_utf8(one.stdout).expect("JSON is UTF-8");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
        assert_eq!(lines[0]["type"], "model");
        assert!(
            lines[0]["costs"].as_array().is_some_and(|costs| costs.iter().all(|it| it["source"].is_string()))
        );
        let summaries = of_type(&lines, "summary");
        assert_eq!(summaries.len(), 6);
        for summary in summaries {
            assert_eq!(summary["store"], "sim");
            for field in ["committed", "aborts", "retries", "lock_waits", "frames", "combined"] {
                assert!(summary[field].is_u64(), "{field} of {summary}");
            }
            for field in ["p50_us", "p999_us", "operations_per_frame", "busiest_shard", "retries_per_commit"]
            {
                assert!(summary[field].is_f64(), "{field} of {summary}");
            }
            assert!(summary["committed"].as_u64() > Some(0), "{summary}");
            let over_time = &summary["over_time"];
            assert_eq!(sum(&over_time["committed"]), summary["committed"].as_u64(), "{summary}");
            assert_eq!(over_time["warm_up_seconds"], 0.001, "{summary}");
            assert!(over_time["warm_up_committed"].is_u64() && over_time["uneven"].is_boolean(), "{summary}");
        }
        assert_eq!(lines.last().expect("there are lines")["passed"], true);
    }
}

#[test]
fn the_model_has_a_table_too() {
    let arguments = ["bench", "fair", "--store", "sim", "--seconds", "0.01", "--modes", "none,rw,claret"];
    let output = claret(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("fair, in virtual time, 4 shards, 256 clients in 4 processes"), "{text}");
    assert!(text.contains("op 780 ns (a marginal operation inside one module command"), "{text}");
    assert!(text.contains("\ntx/s by tenths  warm-up "), "{text}");
    assert!(text.contains("checks: every store holds exactly what it acknowledged"), "{text}");
}

/// Reader/writer locks without queues start well on hot sets, and then everybody pauses longer and longer: by the time of the
/// warm-up they are five times as fast as later. Without locks nothing changes. In virtual time, so on every machine.
#[test]
fn who_slows_down_is_named() {
    let arguments =
        ["bench", "rawmix", "--alpha", "1.2", "--modes", "none,rw", "--store", "sim", "--seconds", "0.05"];
    let text = String::from_utf8(claret(&arguments).stdout).expect("text");
    assert!(text.contains("\nrw: throughput was uneven: ") && !text.contains("\nnone: "), "{text}");
    let text = String::from_utf8(claret(&[&arguments[..], &["--json"]].concat()).stdout).expect("text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let uneven: Vec<&Value> =
        of_type(&lines, "summary").iter().map(|it| &it["over_time"]["uneven"]).collect();
    assert_eq!(uneven, [false, true], "{text}");
}

/// Every workload, in every mode, passes its checks when calls are ordered, and the output says so. Of reads and adds of hot sets
/// far more commit in the same virtual time than with locks.
#[test]
fn ordered_calls_are_measured_and_checked() {
    let lines = |workload: &[&str], ordering: &str| {
        let settings = ["--store", "sim", "--seconds", "0.01", "--json", "--modes", STORE_MODES];
        let output = claret(&[&["bench"], workload, &settings[..], &["--ordering", ordering]].concat());
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
    };
    for workload in [&["rubis"][..], &["retwis", "--scale", "6"], &["hot", "--interactive"], &["fair"]] {
        let lines = lines(workload, "always");
        assert_eq!(lines[0]["ordering"], "always");
        let orderings: Vec<&Value> = of_type(&lines, "summary").iter().map(|it| &it["ordering"]).collect();
        // Reader/writer locks, and those without phases, know no order.
        assert_eq!(orderings, ["never", "never", "never", "never", "always", "always"], "{workload:?}");
    }
    let [locked, ordered] = ["never", "always"].map(|ordering| {
        let lines = lines(&["rawmix", "--alpha", "1.2"], ordering);
        let summaries = of_type(&lines, "summary");
        let claret = summaries.last().expect("the last mode");
        assert_eq!(claret["ordering"], ordering);
        claret["committed"].as_u64().unwrap_or_default()
    });
    assert!(ordered > 3 * locked, "{ordered} against {locked}");
    let output = claret(&["bench", "hot", "--store", "sim", "--seconds", "0.01", "--ordering", "always"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("; calls are ordered: always\n"), "{text}");

    // Unless it is said otherwise, what ships is measured beside locks alone.
    let [sim, modes] = [["--store", "sim"], ["--modes", "boost+phase,claret"]];
    let output = claret(&[&["bench", "hot", "--seconds", "0.01", "--json"], &sim[..], &modes[..]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let orderings: Vec<&Value> = of_type(&lines, "summary").iter().map(|it| &it["ordering"]).collect();
    assert_eq!(orderings, ["never", "adaptive"], "{text}");
}

/// All keys on one server, beside four shards: the output says so, and what was promised. A transaction that needs an answer first is
/// not one MULTI, so then only its operations are checked.
#[test]
fn one_server_is_a_mode_of_the_model() {
    let settings = ["--store", "sim", "--seconds", "0.01", "--modes", "one-server,claret"];
    for (workload, promise) in [
        ("rawmix", "transactions"),
        ("hot", "transactions"),
        ("fair", "transactions"),
        ("rubis", "operations"),
    ] {
        let output = claret(&[&["bench", workload, "--json"], &settings[..]].concat());
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{text}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let summaries = of_type(&lines, "summary");
        assert_eq!((&summaries[0]["shards"], &summaries[1]["shards"]), (&1.into(), &4.into()), "{text}");
        assert!(summaries[0]["committed"].as_u64() > Some(0), "{text}");
        assert_eq!(lines.last().expect("a check")["modes"][0]["promise"], promise, "{text}");
    }
    let text = String::from_utf8(claret(&[&["bench", "hot"], &settings[..]].concat()).stdout).expect("text");
    assert!(text.starts_with("hot, in virtual time, 4 shards, "), "{text}");
    assert!(text.contains("\none-server: on one server, without shards\n"), "{text}");
}

/// Each slice, a summary of each mode, and the check, an object a line.
#[test]
fn programs_can_read_what_was_measured() {
    let modes = ["--modes", "mutex,none,claret", "--seconds", "0.2", "--slice", "0.1"];
    let output = claret(&[&["bench", "hot", "--json"], &modes[..]].concat());
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    assert!(output.status.success(), "{text}");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let (slices, summaries) = (of_type(&lines, "slice"), of_type(&lines, "summary"));
    assert_eq!((slices.len(), summaries.len(), lines.len()), (6, 3, 10), "{text}");
    for (summary, mode) in summaries.iter().zip(["mutex", "none", "claret"]) {
        assert_eq!((&summary["mode"], &summary["store"]), (&mode.into(), &"embedded".into()));
        assert!(summary["committed"].as_u64() > Some(0) && summary["p99_us"].is_f64(), "{summary}");
        assert_eq!(sum(&summary["over_time"]["committed"]), summary["committed"].as_u64(), "{summary}");
        assert_eq!(summary["over_time"]["warm_up_seconds"], 0.0, "{summary}");
        assert_eq!(summary["interrupted"], false);
    }
    let check = lines.last().expect("there are lines");
    assert_eq!((&check["type"], &check["passed"]), (&"check".into(), &true.into()));
    assert_eq!(check["modes"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_table_has_ratios_and_the_verdict() {
    let arguments =
        ["bench", "rawmix", "--modes", "mutex,none,rw,claret", "--seconds", "0.2", "--slice", "0.1"];
    let output = claret(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("rawmix, embedded store, 64 shards, 64 clients on 1 thread"), "{text}");
    assert!(lines[1].contains("of none") && lines[1].contains("of rw"), "{text}");
    for (line, mode) in lines[2..6].iter().zip(["mutex", "none", "rw", "claret"]) {
        assert_eq!(line.split_whitespace().next(), Some(mode), "{text}");
    }
    assert!(lines[6].starts_with("tx/s by tenths") && lines[6].ends_with("10"), "{text}");
    for (line, mode) in lines[7..11].iter().zip(["mutex", "none", "rw", "claret"]) {
        assert_eq!(
            (line.split_whitespace().next(), line.split_whitespace().count()),
            (Some(mode), 11),
            "{text}"
        );
    }
    // Whether somebody was uneven depends on the machine.
    let checks = "checks: every store holds exactly what it acknowledged";
    assert!(lines.last().is_some_and(|line| line.starts_with(checks)), "{text}");
}

#[test]
fn the_demo_shows_a_site_and_checks_it() {
    for (workload, title, bench) in
        [("auction", "An auction", "rubis"), ("twitter", "A Twitter clone", "retwis")]
    {
        let output = claret(&["demo", workload, "--quick", "--seconds", "0.2"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(title), "{text}");
        assert_eq!(text.matches("\nreader/writer").count(), 1, "{text}");
        assert_eq!(text.matches("\nClaret ").count(), 1, "{text}");
        assert!(text.contains("checks: every store holds exactly what it acknowledged"), "{text}");
        assert!(text.contains(&format!("claret bench {bench}")) && text.contains("claret shell"), "{text}");
    }
}

/// The same checkout in each way, beside a real server: what was sold, what was oversold, how often it began again, and both
/// percentiles, for each of them; and one line that says what that shows.
#[test]
fn the_demo_sells_the_same_products_in_four_ways_and_oversells_none() {
    let output = claret(&["demo", "--quick", "--seconds", "0.2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let cells = |way: &str| -> Vec<String> {
        // Below the ways' own descriptions.
        let mut rows = text.lines().skip_while(|line| !line.starts_with("way "));
        let row = rows.find_map(|line| line.strip_prefix(way)).unwrap_or_else(|| panic!("{way}: {text}"));
        row.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(cells("way").join(" "), "sold oversold in sold/s retries p50 p99");
    for way in ["optimistic", "locks", "Claret", "Redis WATCH"] {
        let row = cells(way);
        // Times have a unit each.
        assert_eq!((row.len(), row[1].as_str(), row[3].as_str()), (10, "0", "s"), "{text}");
        assert_ne!(row[0], "0", "{way} sold nothing: {text}");
    }
    assert!(text.contains("0 pieces were oversold, and Claret sold "), "{text}");
}

#[test]
fn the_demo_moves_money_all_or_nothing() {
    let output = claret(&["demo", "transfer"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("transfer 30: committed. Ada has 70, Bob has 30."), "{text}");
    assert!(text.contains("Ada has no 80 to give. Ada has 70, Bob has 30."), "{text}");
    let refused = claret(&["demo", "transfer", "--quick"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn the_demo_without_a_redis_server_says_what_is_missing() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_claret"));
    command.args(["demo", "--quick", "--seconds", "0.1"]).env("PATH", "/nowhere").env_remove("CLARET_SERVER");
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("(without Redis WATCH: ") && text.contains("redis-server"), "{text}");
    assert!(text.contains("\nClaret "), "{text}");
    let refused = claret(&["demo", "--store", "cluster"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("auction"), "{said}");
}

/// One writer among 255 readers of a record: without queues it never gets in; with phases it waits for the phase in
/// progress and for its last joiner, both as long as a reader that never waits (docs/performance.md, "Fairness"). In
/// virtual time, so that no machine is too slow for it.
#[test]
fn a_writer_among_readers_waits_for_a_phase_at_most() {
    let longest = |phase: &[&str]| {
        let fixed =
            ["bench", "fair", "--store", "sim", "--seconds", "0.05", "--modes", "rw,claret", "--json"];
        let output = claret(&[&fixed[..], phase].concat());
        let text = String::from_utf8(output.stdout).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let summaries: Vec<Value> = lines.filter(|line| line["type"] == "summary").collect();
        assert_eq!(summaries[0]["kinds"]["write"]["committed"].as_u64().unwrap_or(0), 0, "{text}");
        let of = |at: usize, kind: &str| summaries[at]["kinds"][kind]["max_us"].as_f64().unwrap_or(f64::MAX);
        (of(0, "read"), of(1, "write"))
    };
    let (read, write) = longest(&["--phase", "600", "--phase-joins", "8"]);
    assert!(write <= 600.0 + 2.0 * read, "a write took {write} us, a read that never waits {read} us");
    let (read, write) = longest(&["--phase", "20000", "--phase-joins", "1000000"]);
    assert!(write > 600.0 + 2.0 * read, "without a cap the writer waits longer, here {write} us");
}
