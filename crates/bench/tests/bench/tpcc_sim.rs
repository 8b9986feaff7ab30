//! TPC-C in the faulty simulator: its conditions hold after each seed, and a bug of the protocol breaks some of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use claret_bench::workload::tpcc::TpccScenario;
use claret_sim::{Bug, Config, Outcome, Plant, Scenario, SimOptions, Totals, run_with};

fn options(seed: u64) -> SimOptions {
    let scenario: Arc<dyn Scenario> = Arc::new(TpccScenario::new(1 + (seed % 2) as u32));
    SimOptions { scenario: Some(scenario), ..SimOptions::seed(seed) }
}

fn run(seed: u64) -> Outcome {
    run_with(&options(seed)).unwrap_or_else(|failure| panic!("{failure}")).0
}

#[test]
fn the_conditions_hold_after_every_seed() {
    let mut totals = Totals::default();
    (0..60).for_each(|seed| totals.add(&run(seed)));
    assert_eq!(totals.conditions_checked, 60, "nothing is lost, so all are checked");
    assert!(totals.committed > 500 && totals.faults > 1_000 && totals.restarts > 100, "{totals:?}");
    assert!(totals.aborted > 0 && totals.shard_restarts > 0 && totals.recoveries > 0, "{totals:?}");
}

#[test]
fn a_seed_is_one_run() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).trace_hash, run(9).trace_hash);
}

/// What a bug does to the records shows in the conditions, whatever else notices it; each names its place.
#[test]
fn a_planted_bug_breaks_conditions() {
    let mut broken = BTreeSet::new();
    for seed in 0..40 {
        let plant = Bug::parse("apply-skips-records").expect("there is one").plant();
        let Err(failure) = run_with(&SimOptions { plant, ..options(seed) }) else { continue };
        let lines = failure.reason.lines().filter(|line| line.starts_with("condition "));
        for line in lines {
            assert!(line.contains(": warehouse "), "{line}");
            broken.insert(line.split(':').next().expect("its number").to_owned());
        }
        let words = failure.to_string();
        assert!(words.contains("replay: claret sim --seed") && words.contains("--workload tpcc"), "{words}");
    }
    assert!(broken.contains("condition 1") && broken.contains("condition 9"), "{broken:?}");
    assert!(broken.len() >= 5, "{broken:?}");
}

/// Nothing is wrong with the protocol where the model beside it is: then the conditions say nothing.
#[test]
fn conditions_are_of_the_records_alone() {
    let seeds = (0..20).map(|seed| run_with(&SimOptions { plant: Plant::ForgetEffects, ..options(seed) }));
    let reasons: Vec<String> = seeds.filter_map(Result::err).map(|failure| failure.reason).collect();
    assert!(reasons.len() >= 10 && !reasons.iter().any(|it| it.starts_with("condition ")), "{reasons:?}");
}

/// What the workload cannot bear is not drawn for it, and what is asked for by hand is said with the failure.
#[test]
fn a_configuration_for_a_workload_loses_nothing() {
    for seed in 0..200 {
        let config = Config::random(seed).for_scenario();
        let faults = &config.faults;
        assert_eq!((faults.survives, faults.expiries, faults.flushes, faults.endless), (0, 0, 0, false));
    }
}
