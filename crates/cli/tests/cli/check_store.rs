//! `claret check-store`: the histories are strictly serializable, on both hosts, and the judges are not blind.

use std::process::Command;

use claret_rig::Module;
use serde_json::Value;

/// Anomalies that are planted where no record ends.
const PLANTED: u64 = 11;

/// Runs it; what it finds must be in order.
fn check(command: &mut Command, planted: u64) -> Value {
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(summary["anomalies"].as_array().map(Vec::len), Some(0), "{text}");
    assert_eq!((&summary["planted"], &summary["found"]), (&planted.into(), &planted.into()), "{text}");
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
    check(claret().args(["--seconds", "0.5", "--clients", "16"]), PLANTED);
}

#[test]
fn a_cluster_with_plain_clients_and_two_processes_is_judged_well() {
    let module = Module::of_sources().expect("the module");
    let summary = check(
        claret()
            .env("CLARET_MODULE", module.path)
            .args(["--store", "cluster", "--shards", "3", "--seconds", "5"])
            .args(["--clients", "32", "--plain", "16", "--processes", "2"]),
        PLANTED,
    );
    assert!(summary["plain"].as_u64() > Some(50), "{summary}");
}

#[test]
fn a_cluster_behind_two_gateways_is_judged_well() {
    let module = Module::of_sources().expect("the module");
    let summary = check(
        claret()
            .env("CLARET_MODULE", module.path)
            .args([
                "--store",
                "cluster",
                "--shards",
                "3",
                "--seconds",
                "5",
                "--clients",
                "16",
                "--plain",
                "4",
            ])
            .args(["--gateways", "2", "--gateway-clients", "16"]),
        PLANTED,
    );
    let through = &summary["through_gateways"];
    assert_eq!(through["gateways"], 2, "{summary}");
    for counted in ["multi", "watch", "nil"] {
        assert!(through[counted].as_u64() > Some(5), "{counted}: {summary}");
    }
}

/// The faults that strike connections, and gateways that end meanwhile: about twenty seconds.
#[test]
fn gateways_end_and_connections_break_and_nothing_is_torn_lost_or_left_locked() {
    let module = Module::of_sources().expect("the module");
    let faults = ["--store", "cluster", "--shards", "3", "--faults", "cut,stop,expire", "--seconds", "15"];
    let summary = check(
        claret().env("CLARET_MODULE", module.path).args(faults).args([
            "--clients",
            "24",
            "--processes",
            "2",
            "--gateways",
            "2",
            "--gateway-clients",
            "12",
        ]),
        PLANTED + 1,
    );
    assert!(summary["through_gateways"]["restarts"].as_u64() > Some(1), "{summary}");
    assert!(summary["through_gateways"]["committed"].as_u64() > Some(50), "{summary}");
}

/// About a minute, on the server that `CLARET_SERVER` names. Each fault strikes, and the run lasts until it has; locks that
/// are not free within the bound are anomalies.
#[test]
fn faults_strike_a_cluster_with_replicas_and_nothing_is_torn_lost_or_left_locked() {
    let module = Module::of_sources().expect("the module");
    let faults = ["--store", "cluster", "--replicas", "1", "--faults", "--seconds", "50"];
    let summary = check(claret().env("CLARET_MODULE", module.path).args(faults), PLANTED + 1);
    let struck = summary["struck"].as_object().expect("counts");
    assert_eq!(struck.len(), 10, "{summary}");
    assert!(struck.values().all(|count| count.as_u64() > Some(0)), "{summary}");
    assert!(summary["ends"].as_u64() > Some(0), "{summary}");
}

#[test]
fn what_is_of_servers_alone_is_refused_by_name() {
    for given in [
        ["--gateway-clients", "3"],
        ["--plain", "3"],
        ["--processes", "2"],
        ["--shards", "3"],
        ["--faults", "cut"],
        ["--replicas", "1"],
    ] {
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
