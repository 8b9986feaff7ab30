//! The public API is what `docs/api` lists: a change to it is declared by changing the list, too, where a reader sees it.
//!
//! The list is made by rustdoc, which knows what is reachable, derived and implied. How rustdoc tells it changes with each version
//! of Rust; so only one version is listened to, and with others the test says that it did not look.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::{Builder, PublicItem};
use serde_json::Value;

/// The Rust whose rustdoc [`public_api`] reads.
const LISTED_WITH: &str = "1.95";

/// How to declare a change.
const UPDATE: &str = "UPDATE=1 cargo test --workspace --locked --test tidy api";

/// What is listed: a crate, and of its items those whose path begins with one of these. `claret_redis` is for hosts but for what
/// `claret` exports of it.
const LISTED: [(&str, &[&str]); 3] = [
    ("claret", &[""]),
    ("claret_types", &[""]),
    ("claret_redis", &["claret_redis::ConnectError", "claret_redis::ReplyLimits"]),
];

/// Traits that hold of nearly every type and that nobody relies on, or nobody can name.
const LEFT_OUT: [&str; 5] = [
    "core::marker::StructuralPartialEq",
    "core::marker::Freeze",
    "core::marker::Unpin",
    "core::panic::unwind_safe::",
    "core::marker::UnsafeUnpin",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Whether the Rust at hand is the one whose rustdoc is read.
fn is_listed_with() -> bool {
    let version = cargo().arg("--version").output().expect("cargo").stdout;
    String::from_utf8_lossy(&version).split_whitespace().nth(1).is_some_and(|it| it.starts_with(LISTED_WITH))
}

/// Has rustdoc write what it knows; the folder. As one of all crates, so that nothing is compiled that `cargo doc` has not.
fn run_rustdoc() -> PathBuf {
    let output = cargo()
        .args(["doc", "--workspace", "--no-deps", "--lib", "--locked", "--quiet"])
        .env("RUSTDOC", root().join("tools/rustdoc-json"))
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format json")
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into())).join("doc")
}

/// The traits that a type has, if what it holds has them, unless the list says otherwise.
const OF_ALL: [&str; 2] = ["core::marker::Send", "core::marker::Sync"];

/// Whether a line says that a type has one of these traits, as any other.
fn is_of_all(line: &str) -> bool {
    OF_ALL.iter().any(|name| {
        let Some((begin, of)) = line.split_once(&format!(" {name} for ")) else { return false };
        let (_, bounds) = of.split_once(" where ").unwrap_or_default();
        begin.starts_with("impl") && bounds.split(", ").all(|bound| bound.is_empty() || bound.ends_with(name))
    })
}

/// The items of a crate, a line each, in order of their paths. That a type has a trait says that it has the trait's functions.
fn listing(json: PathBuf, only: &[&str]) -> String {
    let api =
        Builder::from_rustdoc_json(json).sorted(true).omit_blanket_impls(true).build().expect("a listing");
    let lines: Vec<(&PublicItem, String)> = api.items().map(|item| (item, item.to_string())).collect();
    let of_traits = lines.iter().filter(|(_, line)| line.starts_with("impl") && line.contains(" for "));
    let of_traits: HashSet<_> = of_traits.map(|(item, _)| item.id()).collect();
    let is_said = |item: &PublicItem, line: &str| {
        line.starts_with("pub fn ") && item.parent_id().is_some_and(|parent| of_traits.contains(&parent))
    };
    // Not what only takes such a thing.
    let path = |line: &str| line.split_once('(').map_or(line.len(), |(path, _)| path.len());
    let is_one = |path: &str| only.iter().any(|one| path.contains(one));
    let is_listed = |(item, line): &(&PublicItem, String)| {
        !is_said(item, line)
            && is_one(&line[..path(line)])
            && !LEFT_OUT.iter().any(|left_out| line.contains(left_out))
            && !is_of_all(line)
    };
    let mut listed: Vec<String> = lines.into_iter().filter(is_listed).map(|(_, line)| line + "\n").collect();
    // What converts one thing into another is told of both.
    let mut seen = HashSet::new();
    listed.retain(|line| !line.contains(" for ") || seen.insert(line.clone()));
    listed.concat()
}

/// The rules of the protocol that a text cites by number, but for its examples. They are for who changes the code.
fn cited(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let words = prose.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric()));
    words.filter(|word| word.strip_prefix(['P', 'C', 'R']).is_some_and(is_rule_number)).collect()
}

fn is_rule_number(text: &str) -> bool {
    (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What changed, line by line.
fn difference(before: &str, after: &str) -> String {
    let gone = before.lines().filter(|line| !after.lines().any(|other| other == *line));
    let new = after.lines().filter(|line| !before.lines().any(|other| other == *line));
    gone.map(|line| format!("- {line}\n")).chain(new.map(|line| format!("+ {line}\n"))).collect()
}

#[test]
fn the_public_api_is_what_is_listed() {
    if !is_listed_with() {
        println!("not looked at: the list is made with Rust {LISTED_WITH}, and this is another one");
        return;
    }
    let folder = run_rustdoc();
    public_texts_cite_no_rules(&folder);
    let mut changed = String::new();
    for (name, only) in LISTED {
        let after = listing(folder.join(format!("{name}.json")), only);
        assert!(after.lines().count() > 10, "{name} has no API");
        let path = root().join(format!("docs/api/{name}.txt"));
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, &after).expect("written");
        }
        let before = fs::read_to_string(&path).unwrap_or_default();
        if before != after {
            changed += &format!("{}\n{}", path.display(), difference(&before, &after));
        }
    }
    assert!(
        changed.is_empty(),
        "the public API has changed. If that is meant, say so in CHANGELOG.md and run `{UPDATE}` (docs/stability.md)\n{changed}"
    );
}

/// What users read says what it means, not which rule of the protocol it follows. Comments (`//`) cite those. Part of the test
/// above, as rustdoc is run once.
fn public_texts_cite_no_rules(folder: &Path) {
    let mut problems = Vec::new();
    for (name, _) in LISTED.iter().filter(|(_, only)| *only == [""]) {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).expect("written by rustdoc");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let items = json["index"].as_object().expect("an index");
        let texts: Vec<_> =
            items.values().filter_map(|it| Some((it["name"].as_str(), it["docs"].as_str()?))).collect();
        assert!(texts.len() > 50, "{name} has no documentation");
        problems.extend(
            texts
                .iter()
                .filter(|(_, text)| !cited(text).is_empty())
                .map(|found| format!("{name}: {found:?}")),
        );
    }
    assert!(problems.is_empty(), "public documentation cites rules by number:\n{}", problems.join("\n"));
}

#[test]
fn what_a_type_lacks_is_listed() {
    assert!(is_of_all("impl core::marker::Send for claret::Store"));
    assert!(is_of_all("impl<S> core::marker::Sync for claret::Set<S> where S: core::marker::Sync"));
    assert!(!is_of_all("impl !core::marker::Sync for claret::Keys"));
    assert!(!is_of_all("impl<S> core::marker::Sync for claret::Set<S> where S: core::marker::Send"));
    assert!(!is_of_all("impl core::clone::Clone for claret::Store"));
}

#[test]
fn citations_of_rules_are_found() {
    assert_eq!(cited("as P17 says (C4); not PA1 or RC4"), ["P17", "C4"]);
    assert!(cited("p99, RESP3, C; ```text\nseat C12\n``` and so on").is_empty());
}

#[test]
fn a_change_is_shown_line_by_line() {
    let before = "pub fn a()\npub fn b(u8)\n";
    assert_eq!(difference(before, "pub fn a()\npub fn b(u16)\n"), "- pub fn b(u8)\n+ pub fn b(u16)\n");
    assert_eq!(difference(before, before), "");
}
