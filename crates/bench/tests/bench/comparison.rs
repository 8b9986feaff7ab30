//! Comparisons on the embedded store: every workload runs in every mode and verifies itself, and what was measured has all
//! its numbers; a loss is found.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use claret_bench::workload::{WorkloadSpec, checkout, fair, hot, objects, ops, rawmix, retwis, rubis, tpcc};
use claret_bench::{Bench, BenchMode, Check, Looking, Observer, Pace, Place, Plan, Slice, Summary};
use serde_json::Value;

const STORE_MODES: &str = "none,rw,rw+phase,boost,boost+phase,boost+phase+combine";

fn rawmix() -> WorkloadSpec {
    WorkloadSpec::RawMix(rawmix::Options { keys: 100, ..Default::default() })
}

fn hot() -> WorkloadSpec {
    WorkloadSpec::Hot(hot::Options { counters: 100, ..Default::default() })
}

fn fair() -> WorkloadSpec {
    WorkloadSpec::Fair(fair::Options { counters: 100, ..Default::default() })
}

fn rubis() -> WorkloadSpec {
    WorkloadSpec::Rubis(rubis::Options { items: 300, users: 200, ..Default::default() })
}

fn retwis() -> WorkloadSpec {
    WorkloadSpec::Retwis(retwis::Options { scale: 6, ..Default::default() })
}

/// Prices change often, and those who think do not think long.
fn checkout() -> WorkloadSpec {
    WorkloadSpec::Checkout(checkout::Options {
        products: 10,
        thinkers: 2,
        think: Duration::from_millis(3),
        reprices_percent: 10.0,
        ..Default::default()
    })
}

fn objects() -> WorkloadSpec {
    WorkloadSpec::Objects(objects::Options { keys: 100, alpha: 0.8, ..Default::default() })
}

fn tpcc() -> WorkloadSpec {
    WorkloadSpec::Tpcc(tpcc::Options { warehouses: 2, scale: 0.001, ..Default::default() })
}

/// 0.2 s for each mode, in two slices, 8 clients on 2 threads.
fn plan(workload: WorkloadSpec, modes: &str, pace: Pace) -> Plan {
    Plan {
        place: Place::Embedded,
        workload,
        modes: BenchMode::parse_list(modes).expect("there are such modes"),
        shards: 8,
        clients: 8,
        threads: 2,
        processes: 1,
        pace,
        looking: Looking::AtAnswers,
        time: Duration::from_millis(200),
        slice: Duration::from_millis(100),
        seed: 1,
    }
}

/// Runs it and checks it. `before_check` sees the stores after the run.
fn run(plan: Plan, before_check: &mut dyn FnMut(&Bench)) -> (Vec<Slice>, Vec<Summary>, Vec<Check>) {
    let mut slices = Slices::default();
    let mut bench = Bench::new(plan, Arc::default()).expect("it can be run");
    bench.load(&mut slices).expect("loaded");
    bench.run(&mut slices).expect("nothing is answered that must not be");
    before_check(&bench);
    (slices.0, bench.summaries(), bench.check())
}

/// What is told of each slice.
#[derive(Default)]
struct Slices(Vec<Slice>);

impl Observer for Slices {
    fn measured(&mut self, slice: &Slice) {
        self.0.push(slice.clone());
    }
}

fn json(what: &impl serde::Serialize) -> Value {
    serde_json::to_value(what).expect("numbers and names")
}

/// Each mode has two slices and a summary, with all fields, and has committed something; all is verified.
fn assert_measured(plan: Plan) {
    let (name, modes) = (plan.workload.name(), plan.modes.len());
    let (slices, summaries, checks) = run(plan, &mut |_| {});
    assert_eq!((slices.len(), summaries.len(), checks.len()), (2 * modes, modes, modes));
    for line in slices.iter().map(json).chain(summaries.iter().map(json)) {
        assert_eq!((&line["workload"], &line["store"]), (&name.into(), &"embedded".into()));
        assert_eq!((&line["clients"], &line["threads"]), (&8.into(), &2.into()));
        for field in ["shards", "committed", "aborts", "retries", "lock_waits"] {
            assert!(line[field].is_u64(), "{name}: {field} of {line}");
        }
        for field in ["seconds", "throughput", "p50_us", "p95_us", "p99_us", "max_us"] {
            assert!(line[field].is_f64(), "{name}: {field} of {line}");
        }
        let [p50, p99] = ["p50_us", "p99_us"].map(|field| line[field].as_f64());
        assert!(p50 <= p99, "{line}");
    }
    for summary in summaries {
        let of_mode = slices.iter().filter(|slice| slice.setting.mode == summary.setting.mode);
        let committed: u64 = of_mode.map(|slice| slice.figures.committed).sum();
        assert_eq!(summary.figures.committed, committed);
        // Ten intervals of 20 ms; how even they are depends on the machine.
        let over_time = &summary.over_time;
        assert_eq!((over_time.committed.len(), over_time.interval_seconds), (10, 0.02), "{over_time:?}");
        assert_eq!(over_time.committed.iter().sum::<u64>(), committed, "{over_time:?}");
        assert!(committed > 0, "{summary:?}");
        assert!(!summary.interrupted);
    }
    assert!(checks.iter().all(|check| check.passed), "{name}: {checks:?}");
}

#[test]
fn every_workload_runs_in_every_mode_and_verifies() {
    for workload in [rawmix, hot, fair, rubis, retwis, tpcc] {
        for pace in [
            Pace::Together,
            Pace::Interactive(Duration::ZERO),
            Pace::Interactive(Duration::from_millis(1)),
            Pace::Pause(Duration::from_millis(1)),
        ] {
            assert_measured(plan(workload(), STORE_MODES, pace));
        }
    }
}

#[test]
fn transactions_that_look_run_beside_those_that_lock_and_verify() {
    for workload in [rawmix, hot, fair, rubis, retwis, checkout, objects] {
        for pace in [Pace::Together, Pace::Interactive(Duration::ZERO), Pace::Pause(Duration::from_millis(1))]
        {
            assert_measured(plan(workload(), "rw,claret,optimistic", pace));
        }
    }
    for workload in [rawmix, hot, fair, checkout, objects] {
        let plan = plan(workload(), "none,optimistic", Pace::Pause(Duration::from_millis(1)));
        assert_measured(Plan { looking: Looking::AtValues, ..plan });
    }
}

/// Each reads what it overwrites, and compares it: what is promised is promised.
#[test]
fn every_workload_runs_as_mini_transactions_and_verifies() {
    for workload in [rawmix, hot, fair, rubis, retwis, tpcc, checkout, objects] {
        for pace in [Pace::Together, Pace::Interactive(Duration::ZERO), Pace::Pause(Duration::from_millis(1))]
        {
            assert_measured(plan(workload(), "claret,sinfonia", pace));
        }
    }
}

/// Increments of one counter do not share: of clients whose reads and writes are apart, one commits, and the others begin again.
#[test]
fn mini_transactions_on_one_counter_begin_again() {
    let pace = Pace::Pause(Duration::from_millis(1));
    let (_, summaries, checks) = run(plan(hot(), "claret,optimistic,sinfonia", pace), &mut |_| {});
    assert!(checks.iter().all(|check| check.passed), "{checks:?}");
    let retries: Vec<u64> = summaries.iter().map(|summary| summary.figures.retries).collect();
    let [committed, others] = [2, 0].map(|at: usize| summaries[at].figures.committed);
    assert!(retries[..2] == [0, 0] && retries[2] > committed, "{retries:?} of {committed}");
    assert!(committed < others, "{committed}, and {others} that share");
}

/// Those who think and those who do not are told apart, and how many of them needed one attempt.
#[test]
fn kinds_are_told_apart() {
    let WorkloadSpec::Checkout(options) = checkout() else { unreachable!("it is one") };
    // No price changes, and there is always enough: nothing that was seen can change.
    let steady = WorkloadSpec::Checkout(checkout::Options { reprices_percent: 0.0, ..options });
    let (_, summaries, checks) = run(plan(steady, "claret,optimistic", Pace::Together), &mut |_| {});
    assert!(checks.iter().all(|check| check.passed), "{checks:?}");
    for summary in summaries {
        for kind in ["buy", "checkout"] {
            let of_kind = summary.by_kind[kind];
            assert!(summary.kinds[kind] > 0 && of_kind.throughput > 0.0, "{summary:?}");
            assert_eq!(of_kind.first_attempt, Some(1.0), "{summary:?}");
        }
        assert!(summary.by_kind["checkout"].p50_us >= 3_000.0, "they think: {summary:?}");
    }
}

#[test]
fn what_a_mode_or_a_workload_has_not_is_refused() {
    let refused = |plan: Plan| plan.check().expect_err("it is refused");
    let values = plan(rubis(), "optimistic", Pace::Together);
    let said = refused(Plan { looking: Looking::AtValues, ..values });
    assert!(said.contains("--check values") && said.contains("rubis"), "{said}");
    let said = refused(plan(checkout(), "claret,redis-watch", Pace::Together));
    assert!(said.contains("redis-watch") && said.contains("checkout"), "{said}");
}

#[test]
fn the_mode_by_hand_runs_beside_the_store() {
    for workload in [rawmix, hot] {
        for pace in [Pace::Together, Pace::Interactive(Duration::ZERO)] {
            assert_measured(plan(workload(), "mutex,claret", pace));
        }
    }
}

/// Somebody takes one increment away after the run: the mode that lost it is named.
#[test]
fn a_loss_is_found() {
    let mut take_one = |bench: &Bench| {
        let store = bench.subjects()[1].store().expect("it has a store").clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let calls = [("hot:total".into(), ops::incrby(-1))];
        runtime.block_on(store.run_all(calls)).expect("nothing is in the way");
    };
    let (_, _, checks) = run(plan(hot(), "rw,claret", Pace::Together), &mut take_one);
    assert_eq!(checks.iter().map(|check| check.passed).collect::<Vec<_>>(), [true, false]);
    assert_eq!((checks[1].mode, checks[1].violations.len()), ("claret", 1), "{checks:?}");
}

/// A transaction that is left open keeps its lock: that is found, too.
#[test]
fn a_lock_left_behind_is_found() {
    let mut open = Vec::new();
    let mut leave = |bench: &Bench| {
        let store = bench.subjects()[0].store().expect("it has a store").clone();
        let mut transaction = Box::pin(async move {
            store
                .transaction(|tx| async move {
                    tx.execute("hot:total", ops::get()).await?;
                    std::future::pending::<()>().await;
                    Ok(())
                })
                .await
        });
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(transaction.as_mut().poll(&mut cx).is_pending());
        open.push(transaction);
    };
    let (_, _, checks) = run(plan(hot(), "claret", Pace::Together), &mut leave);
    assert!(!checks[0].passed && checks[0].violations[0].contains("still hold something"), "{checks:?}");
}

/// Nobody has loaded anything, and nothing is run.
#[test]
fn ended_before_the_load_is_over_nothing_is_measured() {
    let stop = Arc::new(AtomicBool::new(true));
    let mut slices = Slices::default();
    let mut bench = Bench::new(plan(rubis(), "claret", Pace::Together), stop).expect("it can be run");
    bench.load(&mut slices).expect("loaded");
    bench.run(&mut slices).expect("run");
    assert!(bench.interrupted() && slices.0.is_empty());
}
