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

/// The newest file of the log, or the only one: whether it is removed or emptied, it is named.
#[test]
fn a_newest_log_that_is_gone_is_named() {
    let folder = TestFolder::new();
    assert!(claret(&["shell", "--store", &store_in(&folder), "-c", "INCRBY counter 5"]).status.success());
    let log = folder.path().join("log-0000000000000000");
    let whole = std::fs::read(&log).expect("there is a log");
    for is_removed in [true, false] {
        match is_removed {
            true => std::fs::remove_file(&log).expect("it is there"),
            false => std::fs::write(&log, []).expect("it is written"),
        }
        for output in [on(folder.path(), "check"), claret(&["shell", "--store", &store_in(&folder)])] {
            assert!(!output.status.success());
            let error = text(&output.stderr);
            assert!(error.contains("'log-0000000000000000' is damaged at byte 0"), "{error}");
        }
    }
    std::fs::write(&log, &whole).expect("it is written");
    assert_eq!(number(&store_in(&folder), "counter"), 5);
}

/// What is before the damage is printed, and the damage is named.
#[test]
fn a_dump_of_a_damaged_store_ends_at_the_damage() {
    let folder = TestFolder::new();
    let mut ends = Vec::new();
    let log = folder.path().join("log-0000000000000000");
    for _ in 0..5 {
        let statements = "BEGIN; INCRBY a 1; INCRBY b 1; COMMIT";
        assert!(claret(&["shell", "--store", &store_in(&folder), "-c", statements]).status.success());
        ends.push(std::fs::metadata(&log).expect("there is a log").len() as usize);
    }
    let whole = std::fs::read(&log).expect("there is a log");
    let dump = || claret(&["dump", "--until-damage", folder.path().to_str().expect("text")]);
    let line = |key: &str, count: usize| {
        format!("{{\"key\":\"{key}\",\"type\":\"counter\",\"expires_ms\":null,\"content\":[\"{count}\"]}}\n")
    };
    for (at, end) in ends.iter().enumerate().take(4) {
        let mut damaged = whole.clone();
        damaged[end + 20] ^= 4;
        std::fs::write(&log, &damaged).expect("it is written");
        let output = dump();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stdout), line("a", at + 1) + &line("b", at + 1));
        let error = text(&output.stderr);
        assert!(error.contains("'log-0000000000000000' is damaged at byte"), "{error}");
        assert!(error.contains("these are the records as of position"), "{error}");
    }
    std::fs::write(&log, &whole).expect("it is written");
    let output = dump();
    assert_eq!((text(&output.stdout), text(&output.stderr)), (line("a", 5) + &line("b", 5), String::new()));
}

/// By another process, while transactions go on: what was reported before is in the copy.
#[test]
fn an_open_store_is_backed_up_by_another_process() {
    let folder = TestFolder::new();
    let (path, copies) = (folder.path().join("store"), folder.path().join("copies"));
    let store = format!("file:{}", path.display());
    let mut child = Command::new(env!("CARGO_BIN_EXE_claret"))
        .args(["shell", "--store", &store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (mut stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let mut answers = BufReader::new(stdout).lines();
    let back_up = |to: &Path| claret(&["backup", "--store", &store, to.to_str().expect("text")]);
    for round in 1..=3 {
        stdin.write_all(b"BEGIN\nINCRBY a 1\nINCRBY b 1\nCOMMIT\n").expect("it listens");
        let committed = answers.by_ref().map_while(Result::ok).any(|line| line == "COMMITTED");
        assert!(committed, "it says what became of it");
        let copy = copies.join(round.to_string());
        let output = back_up(&copy);
        assert!(output.status.success(), "{output:?}");
        let copied = format!("file:{}", copy.display());
        assert_eq!((number(&copied, "a"), number(&copied, "b")), (round, round));
    }
    drop(stdin);
    child.wait().expect("it ends");
    // Of a closed store, too; and what cannot be is said.
    assert!(back_up(&copies.join("closed")).status.success());
    for (output, what) in [
        (back_up(&copies.join("closed")), "is not empty"),
        (back_up(&path.join("copy")), "is in the store's own folder"),
        (claret(&["backup", "--store", "embedded", "x"]), "the store is in memory"),
        (claret(&["backup", "--store", "redis://127.0.0.1:1", "x"]), "the store is on a cluster"),
        (claret(&["backup", "--store", &format!("file:{}/none", path.display()), "x"]), "cannot find"),
    ] {
        assert!(!output.status.success() && text(&output.stderr).contains(what), "{what}: {output:?}");
    }
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
