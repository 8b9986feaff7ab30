//! `claret bench tpcc --keep` and `claret tpcc check`, on a store in a folder and on a cluster: all conditions hold after a run,
//! and one plain increment of a kept sum is named with condition, warehouse and both values.

use std::path::PathBuf;
use std::process::{Command, Output};

use claret_rig::{Cluster, Module};

fn claret(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_claret")).args(arguments).output().expect("the program starts")
}

fn run(store: &str, modes: &str) -> String {
    let small =
        ["bench", "tpcc", "--warehouses", "2", "--scale", "0.001", "--clients", "8", "--seconds", "0.2"];
    let output = claret(&[&small[..], &["--store", store, "--modes", modes, "--json", "--keep"]].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{told}");
    assert!(told.contains("tpcc: the records need about"), "{told}");
    assert!(said.contains(r#""new_orders_per_minute":"#), "{said}");
    said
}

/// What the check says, and its exit code.
fn check(store: &str) -> (String, Option<i32>) {
    let output = claret(&["tpcc", "check", "--store", store]);
    let all = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&all).into_owned(), output.status.code())
}

#[track_caller]
fn assert_names_warehouse_two(store: &str) {
    let (said, code) = check(store);
    assert_eq!(code, Some(1), "{said}");
    for condition in ["condition 1: W_YTD", "condition 8: W_YTD"] {
        let line = said.lines().find(|line| line.contains(condition)).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains("warehouse 2: W_YTD is ") && line.contains("warehouse:{2}'"), "{line}");
        let numbers: Vec<i64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        let [.., found, expected] = numbers[..] else { panic!("two values: {line}") };
        assert_eq!(found - expected, 7, "{line}");
    }
    assert_eq!(said.lines().filter(|line| line.contains("condition ")).count(), 2, "{said}");
}

/// Goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn on_a_store_in_a_folder_one_increment_is_named() {
    let path = std::env::temp_dir().join(format!("claret-tpcc-{}", std::process::id()));
    let folder = Folder(path);
    let store = format!("file:{}", folder.0.display());
    run(&store, "claret");
    let kept = format!("{store}/claret");
    let (said, code) = check(&kept);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("2 warehouses, scale 0.001, place spread, prefix '': all conditions hold"),
        "{said}"
    );
    let shell = claret(&["shell", "--store", &kept, "-c", "HINCRBY warehouse:{2} ytd 7"]);
    assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
    assert_names_warehouse_two(&kept);
}

#[test]
fn on_a_cluster_one_plain_increment_is_named() {
    let module = Module::find().expect("the module is built");
    let cluster = Cluster::options(3, 0).module(module).start().expect("a cluster");
    let url = cluster.url();
    run(&url, "claret");
    let (said, code) = check(&url);
    assert_eq!(code, Some(0), "{said}");
    let prefix = said.split("prefix '").nth(1).and_then(|rest| rest.split('\'').next()).expect("a prefix");
    let key = format!("{prefix}warehouse:{{2}}");
    let sum: i64 = cluster.query(cluster.owner(&key), &["HINCRBY", &key, "ytd", "7"]).expect("the new sum");
    assert!(sum > 7);
    assert_names_warehouse_two(&url);
}

#[test]
fn what_cannot_be_checked_is_refused_by_name() {
    for (store, named) in [
        ("embedded", "nothing is kept there"),
        ("cluster", "nothing is kept there"),
        ("file:/no/such/folder", "'/no/such/folder'"),
        ("redis://localhost:1", "localhost:1"),
        ("moon", "'moon'"),
    ] {
        let (said, code) = check(store);
        assert!(code == Some(2) && said.contains(named), "{store}: {said}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    for (arguments, named) in [
        (&["tpcc", "--warehouses", "0"][..], &["--warehouses 0", "from 1"][..]),
        (&["tpcc", "--scale", "2"], &["--scale 2", "1 at most"]),
        (&["tpcc", "--place", "moon"], &["'moon'", "spread, warehouse"]),
        (&["tpcc", "--warehouses", "100000"], &["--warehouses 100000", "of memory", "are free"]),
        (&["tpcc", "--keep", "--scale", "0.001"], &["--keep", "file:FOLDER"]),
        (&["tpcc", "--modes", "mutex"], &["'mutex'", "'tpcc'"]),
        (&["tpcc", "--store", "cluster", "--modes", "redis-watch"], &["'redis-watch'", "redis-lock"]),
    ] {
        let output = claret(&[&["bench"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?} was run");
        assert!(named.iter().all(|name| error.contains(name)), "{arguments:?}: {error}");
    }
}
