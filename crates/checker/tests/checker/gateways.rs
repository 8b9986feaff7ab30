//! Clients that speak plain Redis to gateways, before a store in this process: their histories are judged with all others. With a
//! bug planted in the gateway (`crates/planted/CATALOGUE.md`) the judges find it.

use std::sync::Arc;
use std::time::Duration;

use claret::lab::Mode;
use claret_checker::{Plan, Progress, Target, Worker, check};

fn plan(seed: u64) -> Plan {
    Plan {
        clients: 4,
        plain: 0,
        gateways: 2,
        gateway_clients: 12,
        processes: 1,
        keys: 4,
        rotation: Duration::from_millis(50),
        pauses: false,
        seed,
        prefix: "check".into(),
        time: Duration::from_millis(1_500),
        faults: Vec::new(),
        history: None,
    }
}

#[test]
fn histories_through_gateways_are_judged_well() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let start = |_: Worker<'_>| Err("there is no other process".to_owned());
    let (plan, target) = (plan(1), Target::embedded(Mode::CommutingPhased));
    let progress = Arc::new(Progress::default());
    let report = check(&plan, &target, Arc::new(start), &progress, &|_| {});
    let report = runtime.expect("threads").block_on(report).expect("it comes to a result");
    println!("{:?}, {} transfers, {} totals", report.through_gateways, report.transfers, report.totals);
    assert!(report.anomalies.is_empty(), "{:?}", report.anomalies);
    let through = report.through_gateways;
    assert!(
        through.multi > 20
            && through.scripts > 0
            && through.watch > 20
            && through.nil > 0
            && through.left > 0,
        "{through:?}"
    );
}
