//! `claret shell` as a user runs it.
//!
//! `shell/*.txt` are transcripts: lines behind `> ` go in, and the whole file must come out. `UPDATE=1` writes them again, after a
//! change that is meant: read what changed.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn shell(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_claret"))
        .arg("shell")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A shell that was told to stop does not read all of it.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn compare(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/shell").join(name);
    let transcript = fs::read_to_string(&path).expect("a transcript");
    let mut input = String::new();
    for line in transcript.lines().filter_map(|line| line.strip_prefix("> ")) {
        input += line;
        input.push('\n');
    }
    let output = shell(&["--echo"], input.as_bytes());
    let found = stdout(&output);
    if env::var_os("UPDATE").is_some() {
        return fs::write(path, found).expect("it can be written");
    }
    for (number, (expected, found)) in transcript.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", number + 1);
    }
    assert_eq!(found, transcript);
    let failed = transcript.contains("(error) ");
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_type() {
    compare("types.txt");
}

/// What is undone has no effect, and what cannot be done ends no more than that.
#[test]
fn savepoints() {
    compare("savepoints.txt");
}

#[test]
fn keys() {
    compare("keys.txt");
}

/// It looks without locks: others write what it looked at, and it commits where the answers stand.
#[test]
fn optimistic_transactions() {
    compare("optimistic.txt");
}

#[test]
fn transactions() {
    compare("transactions.txt");
}

#[test]
fn errors() {
    compare("errors.txt");
}

#[test]
fn waiting_and_granting() {
    compare("waiting.txt");
}

#[test]
fn deadlocks() {
    compare("deadlock.txt");
}

#[test]
fn help() {
    compare("help.txt");
}

#[test]
fn a_piped_script_answers_without_prompt_echo_or_colour() {
    let output = shell(&[], b"SADD k x\n\nSCARD k\nNOPE\nSCARD k");
    assert_eq!(
        stdout(&output),
        "OK\n(integer) 1\n(error) unknown command 'NOPE'; HELP lists all\n(integer) 1\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn strict_stops_at_the_first_line_that_fails() {
    let output = shell(&["--strict"], b"SADD k x\nBEGIN; NOPE; SCARD k\nSCARD k\n");
    let expected = "OK\nOK\n(error) unknown command 'NOPE'; HELP lists all (the transaction stays open)\n\
                    (integer) 1\n(error) the transaction was still open; it is aborted\n";
    assert_eq!(stdout(&output), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn statements_from_the_command_line_and_from_a_file() {
    let output = shell(&["-c", "SADD k x; SCARD k; EXIT; SCARD k"], b"");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("OK\n(integer) 1\n", Some(0)));

    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("statements.txt");
    std::fs::write(&path, "INCR n\nGET n\n").expect("written");
    let output = shell(&["--file", path.to_str().expect("text")], b"");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("OK\n(integer) 1\n", Some(0)));

    let output = shell(&["--file", "no/such/file"], b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("error: cannot read no/such/file: "), "{said}");
}

#[test]
fn bytes_that_are_not_text_pass_through() {
    let output = shell(&[], b"SET k \"\\xff\"\nGETSET k \xfe\nGET k\n");
    assert_eq!(stdout(&output), "OK\n\"\\xff\"\n\"\\xfe\"\n");
}

#[test]
fn unique_numbers_differ() {
    let text = stdout(&shell(&["-c", "UID.NEXT u; UID.NEXT u; UID.NEXT u"], b""));
    let mut numbers: Vec<&str> = text.lines().collect();
    assert!(numbers.iter().all(|line| line.starts_with("(integer) ")), "{text}");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 3, "{text}");
}
