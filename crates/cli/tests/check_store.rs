//! `claret check-store`: the histories are strictly serializable, on both hosts, and the judges are not blind.

use std::process::Command;

use claret_rig::Module;
use serde_json::Value;

/// Runs it; what it finds must be in order.
fn check(command: &mut Command) -> Value {
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(summary["anomalies"].as_array().map(Vec::len), Some(0), "{text}");
    assert_eq!((&summary["planted"], &summary["found"]), (&11.into(), &11.into()), "{text}");
    assert_eq!(summary["found_by_adya"], 2, "{text}");
    assert!(summary["committed"].as_u64() > Some(100), "{text}");
    assert!(summary["totals"].as_u64() > Some(10), "{text}");
    summary
}

fn claret() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.args(["check-store", "--json"]);
    command
}

#[test]
fn the_embedded_store_is_judged_well_and_every_planted_anomaly_is_found() {
    check(claret().args(["--seconds", "0.5", "--clients", "16"]));
}

#[test]
fn a_cluster_with_plain_clients_and_two_processes_is_judged_well() {
    let module = Module::of_sources().expect("the module");
    let summary = check(
        claret()
            .env("CLARET_MODULE", module.path)
            .args(["--store", "cluster", "--shards", "3", "--seconds", "5"])
            .args(["--clients", "32", "--plain", "16", "--processes", "2"]),
    );
    assert!(summary["plain"].as_u64() > Some(50), "{summary}");
}

#[test]
fn what_is_of_servers_alone_is_refused_by_name() {
    for given in
        [["--plain", "3"], ["--processes", "2"], ["--shards", "3"], ["--faults", "cut"], ["--replicas", "1"]]
    {
        let output = claret().args(given).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(given[0]), "{text}");
    }
}

#[test]
fn a_fault_that_is_none_is_refused_by_name() {
    let output =
        claret().args(["--store", "cluster", "--faults", "cut,rain"]).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("'rain'") && text.contains("scripts"), "{text}");
}

#[test]
fn a_time_that_is_none_is_refused_by_name() {
    let output = Command::new(env!("CARGO_BIN_EXE_claret"))
        .args(["check-store", "--seconds", "-3"])
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("-3"), "{text}");
}
