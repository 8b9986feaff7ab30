//! Commands that the module runs: the page lists each, and none runs where it would have to wait.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::Server;
use crate::common::beside::{error, ok, run};
use redis::Value;

/// The list in `docs/plain-commands.md`: per row the commands it names, and what it says of waiting.
fn rows() -> Vec<(BTreeSet<String>, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plain-commands.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, section) = page.split_once("## Commands that the module runs").expect("the section");
    let table = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let names = cells[1].split('`').skip(1).step_by(2);
        let names = names.filter_map(|name| name.split(' ').next()).map(str::to_owned).collect();
        (names, cells[2].to_owned())
    };
    table.map(row).collect()
}

/// The names of commands in the sources: C strings of capitals.
fn names_in(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("sources") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            names_in(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let strings = text.split("c\"").skip(1).filter_map(|rest| rest.split('"').next());
        let is_name = |it: &&str| it.len() > 2 && it.bytes().all(|byte| byte.is_ascii_uppercase());
        names.extend(strings.filter(is_name).map(str::to_owned));
    }
}

#[test]
fn every_command_that_the_module_runs_is_listed() {
    let mut found = BTreeSet::new();
    names_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 25, "the sources name commands: {found:?}");
    let listed: BTreeSet<String> = rows().into_iter().flat_map(|(names, _)| names).collect();
    let unlisted: Vec<&String> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "docs/plain-commands.md says nothing of {unlisted:?}");
    // What it cannot do without it asks for when it is loaded.
    let needs = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/entries/requirements.rs");
    let needs = std::fs::read_to_string(needs).expect("text");
    let unasked: Vec<&String> = found.iter().filter(|name| !needs.contains(&format!("\"{name}\""))).collect();
    assert!(unasked.is_empty(), "src/entries/requirements.rs does not ask for {unasked:?}");
    let own = rows().into_iter().take(5).flat_map(|(names, _)| names);
    let gone: Vec<String> = own.filter(|name| !found.contains(name)).collect();
    assert!(gone.is_empty(), "docs/plain-commands.md lists what the module does not run: {gone:?}");
}

/// What the server says that it may make a client wait in: listed as such; and run by the module where nothing is to be
/// taken, which ends at once.
#[test]
fn every_command_that_may_wait_is_listed_and_ends_at_once() {
    let mut server = Server::start(&[]);
    let mut plain = server.connect();
    let Value::Array(commands) = ok(&mut plain, "COMMAND") else { panic!("a list") };
    let text = |value: &Value| match value {
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("a text, not {other:?}"),
    };
    let may_wait = |command: &Value| {
        let Value::Array(parts) = command else { panic!("a command") };
        let Value::Array(flags) = &parts[2] else { panic!("flags") };
        let is_blocking = flags.iter().any(|flag| text(flag) == "blocking");
        is_blocking.then(|| text(&parts[0]).to_uppercase())
    };
    let waits: BTreeSet<String> = commands.iter().filter_map(may_wait).collect();
    assert!(waits.len() >= 10, "{waits:?}");
    let listed: BTreeSet<String> =
        rows().into_iter().filter(|(_, waits)| waits != "no").flat_map(|(names, _)| names).collect();
    let unlisted: Vec<&String> = waits.difference(&listed).collect();
    assert!(unlisted.is_empty(), "docs/plain-commands.md does not say that {unlisted:?} may wait");
    ok(&mut plain, "XGROUP CREATE s g $ MKSTREAM");
    for name in &waits {
        let line = match &name[..] {
            "BLMOVE" => "BLMOVE k l LEFT LEFT 0",
            "BLMPOP" => "BLMPOP 0 1 k LEFT",
            "BRPOPLPUSH" => "BRPOPLPUSH k l 0",
            "BZMPOP" => "BZMPOP 0 1 k MIN",
            "BLPOP" | "BRPOP" | "BZPOPMAX" | "BZPOPMIN" => &format!("{name} k 0"),
            "XREAD" => "XREAD BLOCK 0 STREAMS s $",
            "XREADGROUP" => "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
            "WAIT" | "WAITAOF" => {
                let refused = error(&mut plain, &format!("CLARET.WRITE {name} 1 0 0"));
                assert!(refused.contains("no command that waits"), "{refused}");
                continue;
            }
            other => panic!("how is {other} run?"),
        };
        ok(&mut plain, "MULTI");
        ok(&mut plain, &format!("CLARET.WRITE {line}"));
        let answers = run(&mut plain, "EXEC");
        assert!(
            matches!(&answers, Ok(Value::Array(items)) if items[..] == [Value::Nil]),
            "{line}: {answers:?}"
        );
    }
    assert!(server.runs());
}
