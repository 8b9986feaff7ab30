//! The checker on a store in this process: one that keeps its promise is judged well, and one that promises nothing is found
//! out.

use std::sync::Arc;
use std::time::Duration;

use claret::lab::Mode;
use claret_checker::{Plan, Progress, Report, Target, Worker, check};

fn plan(seed: u64) -> Plan {
    Plan {
        clients: 16,
        plain: 0,
        gateways: 0,
        gateway_clients: 0,
        processes: 1,
        keys: 16,
        rotation: Duration::from_millis(50),
        pauses: true,
        seed,
        prefix: "check".into(),
        time: Duration::from_millis(100),
        faults: Vec::new(),
        history: None,
    }
}

fn checked(mode: Mode, seed: u64) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let start = |_: Worker<'_>| Err("there is no other process".to_owned());
    let (plan, target) = (plan(seed), Target::embedded(mode));
    let progress = Arc::new(Progress::default());
    let report = check(&plan, &target, Arc::new(start), &progress, &|_| {});
    runtime.expect("threads").block_on(report).expect("it comes to a result")
}

#[test]
fn a_store_that_keeps_its_promise_is_judged_well() {
    let report = checked(Mode::CommutingPhased, 1);
    assert!(report.anomalies.is_empty(), "{:?}", report.anomalies);
    assert!(report.committed > 0 && report.judged > 0 && report.rounds == 1, "{report:?}");
}

/// Whether two transactions meet is up to chance: it is tried until they do.
#[test]
fn a_store_without_transactions_is_found_out() {
    let reports = (1..=100).map(|seed| checked(Mode::None, seed));
    let found = reports.map(|report| report.anomalies.len()).find(|anomalies| *anomalies > 0);
    assert!(found.is_some(), "100 runs without a lock, and nothing was noticed");
}
