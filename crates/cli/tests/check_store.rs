//! `claret check-store` on the embedded store: the histories are strictly serializable, and the judges are not blind.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_embedded_store_is_judged_well_and_every_planted_anomaly_is_found() {
    let output = Command::new(env!("CARGO_BIN_EXE_claret"))
        .args(["check-store", "--seconds", "0.5", "--clients", "16", "--json"])
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_str(&text).expect("one JSON object");
    assert_eq!(summary["anomalies"].as_array().map(Vec::len), Some(0), "{text}");
    assert_eq!((&summary["planted"], &summary["found"]), (&5.into(), &5.into()), "{text}");
    assert_eq!(summary["found_by_adya"], 2, "{text}");
    assert!(summary["committed"].as_u64() > Some(100), "{text}");
    assert!(summary["totals"].as_u64() > Some(10), "{text}");
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
