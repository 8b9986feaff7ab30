//! `claret torture`: faults strike stores of all kinds for a while, and nothing is lost or torn; a loss does not go unnoticed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use claret_rig::{Module, Server, TestFolder};
use serde_json::Value;

fn claret(store: &str, seconds: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.args(["torture", "--json", "--store", store, "--seconds", seconds]);
    command
}

fn module() -> Module {
    Module::of_sources().expect("the module")
}

fn is_empty(report: &Value, field: &str) -> bool {
    report[field].as_array().is_some_and(Vec::is_empty)
}

/// Runs it; all must be well.
fn run(command: &mut Command) -> Value {
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&text).expect("one JSON object");
    assert!(is_empty(&report, "anomalies"), "{text}");
    for field in ["committed", "judged", "edges", "list_transactions", "keys_read"] {
        assert!(report[field].as_u64() > Some(50), "{field}: {text}");
    }
    assert_eq!(report["histories"], Value::Null, "{text}");
    report
}

#[test]
fn a_store_in_a_folder_that_is_killed_again_and_again_keeps_what_it_reported() {
    let folder = TestFolder::new();
    let store = format!("file:{}", folder.path().join("store").display());
    let report = run(&mut claret(&store, "20"));
    assert!(report["struck"]["kill"].as_u64() > Some(2), "{report}");
    assert_eq!((&report["lost"], &report["lost_in_part"]), (&0.into(), &0.into()), "{report}");
}

/// Bug: the program panicked when its output had no reader any more (`claret torture | head`). Consequence: servers and histories
/// stayed behind.
#[test]
fn it_goes_on_when_nobody_reads_what_it_says() {
    let folder = TestFolder::new();
    let store = format!("file:{}", folder.path().join("store").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.args(["torture", "--store", &store, "--seconds", "3"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("panicked"), "{text}");
}

#[test]
fn a_store_that_syncs_now_and_then_has_a_beginning_of_what_it_reported() {
    let folder = TestFolder::new();
    let store = format!("file:{}", folder.path().join("store").display());
    let report = run(claret(&store, "10").args(["--sync", "every:300"]));
    assert!(report["struck"]["kill"].as_u64() > Some(1), "{report}");
}

#[test]
fn a_cluster_whose_nodes_are_killed_and_fail_over_loses_no_more_than_redis_does() {
    let mut command = claret("cluster", "30");
    let report = run(command.env("CLARET_MODULE", module().path).args(["--replicas", "1"]));
    let struck = report["struck"].as_object().expect("counts");
    assert!(struck.values().filter_map(Value::as_u64).sum::<u64>() > 1, "{report}");
}

#[test]
fn a_strict_cluster_whose_nodes_are_killed_and_fail_over_keeps_what_it_reported() {
    let mut command = claret("cluster", "30");
    let command =
        command.env("CLARET_MODULE", module().path).args(["--replicas", "1", "--durability", "strict"]);
    let report = run(command);
    assert_eq!((report["lost"].as_u64(), report["lost_in_part"].as_u64()), (Some(0), Some(0)), "{report}");
}

/// Clients reach a primary after others took its place, and write to it.
#[test]
fn a_cluster_whose_primaries_are_cut_off_loses_no_more_than_redis_does() {
    let mut command = claret("cluster", "15");
    let report = run(command.env("CLARET_MODULE", module().path).args([
        "--only",
        "primary cut off",
        "--clients",
        "4",
    ]));
    assert!(report["failovers"].as_u64() >= Some(1), "{report}");
}

#[test]
fn a_strict_cluster_whose_network_fails_and_whose_slots_move_keeps_what_it_reported() {
    let mut command = claret("cluster", "25");
    command.env("CLARET_MODULE", module().path).args(["--durability", "strict", "--clients", "4"]);
    let report = run(command.args(["--only", "cut off", "--only", "slot", "--only", "held"]));
    assert_eq!((report["lost"].as_u64(), report["lost_in_part"].as_u64()), (Some(0), Some(0)), "{report}");
}

#[test]
fn a_cluster_whose_disks_are_full_for_a_while_keeps_what_it_reported() {
    for durability in ["async", "strict"] {
        let mut command = claret("cluster", "10");
        command.env("CLARET_MODULE", module().path).args(["--only", "disk full", "--clients", "4"]);
        let report = run(command.args(["--durability", durability]));
        assert_eq!(
            (report["lost"].as_u64(), report["lost_in_part"].as_u64()),
            (Some(0), Some(0)),
            "{report}"
        );
    }
}

/// Nodes start again while their clocks are wrong; primaries hear nobody, or are heard by nobody.
#[test]
fn a_strict_cluster_whose_clocks_jump_and_whose_ways_are_cut_in_one_direction_keeps_what_it_reported() {
    claret_rig::ShiftedClock::find().expect("else clocks do not jump");
    let mut command = claret("cluster", "25");
    command.env("CLARET_MODULE", module().path).args(["--durability", "strict", "--clients", "4"]);
    let report = run(command.args(["--only", "clock jumped", "--only", "hear"]));
    assert_eq!((report["lost"].as_u64(), report["lost_in_part"].as_u64()), (Some(0), Some(0)), "{report}");
}

#[test]
fn a_strict_cluster_that_writes_nothing_to_disks_keeps_what_it_reported() {
    let mut command = claret("cluster", "20");
    command.env("CLARET_MODULE", module().path).args(["--durability", "strict", "--clients", "4"]);
    run(command.args(["--files", "nothing", "--only", "primary killed"]));
}

#[test]
fn a_cluster_without_replicas_whose_nodes_come_back_loses_no_more_than_redis_does() {
    let mut command = claret("cluster", "15");
    run(command.env("CLARET_MODULE", module().path).args(["--replicas", "0", "--processes", "1"]));
}

#[test]
fn a_loss_is_found_and_its_history_is_kept() {
    let server = Server::options().module(module()).start().expect("a server");
    let folder = TestFolder::new();
    let out = folder.path().join("histories");
    let running = claret(&server.url(), "5")
        .args(["--processes", "1", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_secs(3));
    server.query::<()>(&["FLUSHALL"]).expect("flushed");
    let output = running.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert!(!is_empty(&report, "anomalies"), "{report}");
    assert_eq!(report["histories"].as_str().map(Path::new), Some(out.as_path()), "{report}");
    let files = std::fs::read_dir(&out).expect("there").flatten().map(|entry| entry.file_name());
    let names: Vec<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    for kind in ["generation-", "read-", "faults.json"] {
        assert!(names.iter().any(|name| name.starts_with(kind)), "{kind}: {names:?}");
    }
}

#[test]
fn what_is_no_store_and_no_way_to_sync_is_refused_by_name() {
    for (store, more, named) in [
        ("embedded", None, "embedded"),
        ("sim", None, "sim"),
        ("file:x", Some(["--sync", "never"]), "never"),
        ("cluster", Some(["--durability", "both"]), "both"),
    ] {
        let output = claret(store, "1").args(more.iter().flatten()).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(named), "{store}: {text}");
    }
}
