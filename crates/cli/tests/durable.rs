//! A store in a folder, used and killed as a user may do it: `claret shell`, `check` and `dump`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use claret_rig::TestFolder;

fn store_in(folder: &TestFolder) -> String {
    format!("file:{}", folder.path().display())
}

fn claret(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_claret")).args(arguments).output().expect("the program starts")
}

fn on(path: &Path, command: &str) -> Output {
    claret(&[command, path.to_str().expect("text")])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn number(store: &str, key: &str) -> u64 {
    let output = claret(&["shell", "--store", store, "-c", &format!("GET {key}")]);
    let answer = text(&output.stdout);
    answer.trim().trim_start_matches("(integer) ").parse().unwrap_or(0)
}

/// Transactions until the process is killed: what was reported is there, each transaction as a whole.
#[test]
fn what_was_reported_outlives_kill_9() {
    let folder = TestFolder::new();
    let mut reported = 0;
    for round in 0..6u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_claret"))
            .args(["shell", "--store", &store_in(&folder)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut answers = BufReader::new(stdout).lines();
        let end = Instant::now() + Duration::from_millis(100 + 37 * round);
        while Instant::now() < end {
            stdin.write_all(b"BEGIN\nINCRBY a 1\nINCRBY b 1\nCOMMIT\n").expect("it listens");
            let committed = answers.by_ref().map_while(Result::ok).any(|line| line == "COMMITTED");
            assert!(committed, "it says what became of it");
            reported += 1;
        }
        // In the middle of another.
        stdin.write_all(b"BEGIN\nINCRBY a 1\nINCRBY b 1\nCOMMIT\n").expect("it listens");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let checked = on(folder.path(), "check");
        assert!(checked.status.success(), "{}", text(&checked.stderr));
        let (a, b) = (number(&store_in(&folder), "a"), number(&store_in(&folder), "b"));
        assert_eq!(a, b, "half of a transaction is there");
        assert!((reported..=reported + 1).contains(&a), "{reported} were reported, and there are {a}");
        reported = a;
    }
    assert!(reported > 20, "{reported} transactions are few");
}

#[test]
fn damage_is_named_and_nothing_is_opened() {
    let folder = TestFolder::new();
    for at in 0..5 {
        let statements = format!("SADD set {at}; INCRBY counter 1");
        let output = claret(&["shell", "--store", &store_in(&folder), "-c", &statements]);
        assert!(output.status.success());
    }
    let log = folder.path().join("log-0000000000000000");
    let whole = std::fs::read(&log).expect("there is a log");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 4;
    std::fs::write(&log, &damaged).expect("it is written");
    for output in [
        on(folder.path(), "check"),
        on(folder.path(), "dump"),
        claret(&["shell", "--store", &store_in(&folder)]),
    ] {
        assert!(!output.status.success());
        let error = text(&output.stderr);
        assert!(error.contains("'log-0000000000000000' is damaged at byte"), "{error}");
        assert!(error.contains("restore a backup"), "{error}");
    }
    assert_eq!(std::fs::read(&log).expect("it is there"), damaged, "it was changed");
    std::fs::write(&log, &whole).expect("it is written");
    assert_eq!(number(&store_in(&folder), "counter"), 5);
}

#[test]
fn what_is_no_store_is_said_to_be_none() {
    let folder = TestFolder::new();
    let output = on(&folder.path().join("nowhere"), "check");
    assert!(text(&output.stderr).contains("there is no folder"), "{output:?}");
    let output = on(folder.path(), "dump");
    assert!(text(&output.stderr).contains("there is no store in"), "{output:?}");
}

#[test]
fn records_are_dumped_as_lines() {
    let folder = TestFolder::new();
    let statements = "SADD set a b; RPUSH list 1 2; INCRBY counter 7";
    assert!(claret(&["shell", "--store", &store_in(&folder), "-c", statements]).status.success());
    let dumped = text(&on(folder.path(), "dump").stdout);
    let expected = "{\"key\":\"counter\",\"type\":\"counter\",\"expires_ms\":null,\"content\":[\"7\"]}\n\
                    {\"key\":\"list\",\"type\":\"list\",\"expires_ms\":null,\"content\":[\"1\",\"2\"]}\n\
                    {\"key\":\"set\",\"type\":\"set\",\"expires_ms\":null,\"content\":[\"a\",\"b\"]}\n";
    assert_eq!(dumped, expected);
    let checked = text(&on(folder.path(), "check").stdout);
    assert!(checked.contains("3 records, no damage"), "{checked}");
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let folder = TestFolder::new();
    let (store, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let (store, shown) = (format!("file:{}", store.display()), copy.display());
    let output = claret(&[
        "shell",
        "--store",
        &store,
        "-c",
        &format!("INCRBY a 1; BACKUP {shown}; INCRBY a 1; BACKUP {shown}"),
    ]);
    assert!(!output.status.success() && text(&output.stdout).contains("is not empty"), "{output:?}");
    assert!(on(&copy, "check").status.success());
    assert_eq!((number(&store, "a"), number(&format!("file:{shown}"), "a")), (2, 1));
    let output = claret(&["shell", "-c", &format!("BACKUP {shown}/other")]);
    assert!(text(&output.stdout).contains("the store is in memory"), "{output:?}");
}
