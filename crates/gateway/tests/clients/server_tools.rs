//! The programs that come with a server, as clients: `redis-cli` and `redis-benchmark`, or Valkey's beside Valkey.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use claret_rig::server_program;

use crate::books::Address;
use crate::languages::all_wanted;

/// How many commands the benchmark sends of each kind.
const COMMANDS: &str = "1000";

/// The program beside the server that tests start.
fn find(tool: &str) -> Option<PathBuf> {
    let server = server_program().expect("a server");
    let is_valkey = server.file_name().is_some_and(|name| name.to_string_lossy().starts_with("valkey"));
    let name = format!("{}-{tool}", if is_valkey { "valkey" } else { "redis" });
    let path = server.with_file_name(&name);
    if path.is_file() {
        return Some(path);
    }
    let skipped = format!("{name}: skipped: it is not beside {}", server.display());
    assert!(!all_wanted(), "CLARET_CLIENTS=all, but {skipped}");
    println!("{skipped}");
    None
}

/// What it prints, when it is given this to read; it is to end well.
fn run(tool: &PathBuf, address: &Address, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(tool)
        .args(["-h", &address.host, "-p", &address.port.to_string()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{tool:?} cannot be run: {error}"));
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool:?} {arguments:?}: {}\n{printed}\n{said}", output.status);
    printed
}

/// Transactions line by line, `WATCH`, mass insertion, a scan, RESP3, and all that the benchmark sends.
pub(crate) fn tools_of_the_server(address: &Address) {
    if let Some(cli) = find("cli") {
        let say = |arguments: &[&str], input: &str| run(&cli, address, arguments, input);
        let transfer = "MSET cli:ada 100 cli:bob 0\nMULTI\nDECRBY cli:ada 30\nINCRBY cli:bob 30\nEXEC\n";
        assert_eq!(say(&[], transfer), "OK\nOK\nQUEUED\nQUEUED\n70\n30\n");
        let watch = "WATCH cli:ada\nGET cli:ada\nMULTI\nSET cli:ada 60\nINCR cli:bob\nEXEC\n";
        assert_eq!(say(&[], watch), "OK\n70\nOK\nQUEUED\nQUEUED\nOK\n31\n");
        // A connection's own write between WATCH and MULTI is a change like any other.
        let own = "WATCH cli:ada\nSET cli:ada 1\nMULTI\nSET cli:ada 2\nEXEC\nGET cli:ada\n";
        assert_eq!(say(&[], own), "OK\nOK\nOK\nQUEUED\n\n1\n");
        let inserted: String =
            (0..1000).map(|number| format!("SET cli:mass:{number} {number}\r\n")).collect();
        let said = say(&["--pipe"], &inserted);
        assert!(said.contains("errors: 0, replies: 1000"), "{said}");
        assert_eq!(say(&["--scan", "--pattern", "cli:mass:*"], "").lines().count(), 1000);
        let said = say(&["-3"], "HSET cli:hash field value\nHGETALL cli:hash\n");
        assert!(said.contains("field") && said.contains("value"), "{said}");
    }
    if let Some(benchmark) = find("benchmark") {
        for pipeline in ["1", "16"] {
            let said =
                run(&benchmark, address, &["-n", COMMANDS, "-c", "16", "-P", pipeline, "-q", "--csv"], "");
            // A line of titles, and one for each kind of command.
            let kinds = said.lines().filter(|line| line.starts_with('"')).count();
            assert!(kinds > 15 && !said.to_lowercase().contains("error"), "{said}");
        }
    }
}
