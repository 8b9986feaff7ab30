//! What others wrote, and the project builds with: from where it comes, under which licences, and what it must not be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Licences under which something may be a part of it: whoever has the program need do no more than name them.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages under another licence, and why they may be a part of it all the same. A row that is no longer needed fails, too.
const EXCEPTED: &[(&str, &str, &str)] =
    &[("full_moon", "MPL-2.0", OF_ITS_FILES), ("full_moon_derive", "MPL-2.0", OF_ITS_FILES)];

/// The licence is of each file, and of nothing beside it. Whoever has the program is to be told where the text of these files is: it is
/// used as it is published, and a release names it with its version.
const OF_ITS_FILES: &str = "the one well-kept parser of Lua 5.1, used as it is published";

/// The only place from which packages come.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package, which versions of it if not all, and why.
type Banned = (&'static str, Option<(u64, u64)>, &'static str);

/// Packages, and versions below which they are not to be there, with the reason. `None`: no version of them.
const BANNED: &[Banned] = &[
    ("openssl-sys", None, "TLS is rustls, everywhere: one library to follow, and none of the system's"),
    ("native-tls", None, "TLS is rustls"),
    ("chrono", None, "time is the crate `time`"),
    ("async-std", None, "the runtime is tokio"),
    ("lazy_static", None, "std::sync::LazyLock"),
    ("syn", Some((2, 0)), "of before 2023"),
    ("quote", Some((1, 0)), "of before 2018"),
    ("synom", None, "of before 2018"),
    ("nix", Some((0, 30)), "of before 2025"),
    ("num-traits", Some((0, 2)), "of before 2018"),
    ("bitflags", Some((2, 0)), "of before 2023"),
    ("heck", Some((0, 5)), "of before 2024"),
];

/// What is banned and stays, and why. A row that is no longer needed fails, too.
const STAYS: &[(&str, &str, &str)] = &[
    ("syn", "0.11.11", AT_BUILD),
    ("quote", "0.3.15", AT_BUILD),
    ("synom", "0.11.3", AT_BUILD),
    ("syn", "1.0.109", AT_BUILD),
    ("heck", "0.4.1", AT_BUILD),
    ("lazy_static", "1.5.1", AT_BUILD),
    ("num-traits", "0.1.43", IN_MODULE),
    ("nix", "0.26.4", IN_MODULE),
    ("bitflags", "1.3.2", IN_MODULE),
];

/// Macros of redis-module, and those that it uses (enum-primitive-derive, strum): they read redis-module's own text when it is built,
/// and nothing of them is in the module.
const AT_BUILD: &str = "the macros of redis-module 2.0.8 are built with it";
/// There is no newer redis-module. Of nix it calls `write` alone, when memory is used up; of num-traits, which hands on what 0.2 has,
/// `FromPrimitive`. They go once redis-module has newer ones, or once the module binds the server's interface by itself.
const IN_MODULE: &str = "redis-module 2.0.8, the newest, depends on it";

/// A package of a lock file.
#[derive(Debug, Default, PartialEq)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    has_checksum: bool,
}

/// The packages of a `Cargo.lock`.
fn packages(lock: &str) -> Vec<Package> {
    let blocks = lock.split("[[package]]\n").skip(1);
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.and_then(|value| value.strip_suffix('"')).map(str::to_owned)
    };
    blocks
        .map(|block| Package {
            name: field(block, "name").unwrap_or_default(),
            version: field(block, "version").unwrap_or_default(),
            source: field(block, "source"),
            has_checksum: field(block, "checksum").is_some(),
        })
        .collect()
}

/// What is wrong with a lock file: other sources, no checksum, what is banned.
fn problems(path: &str, packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for Package { name, version, source, has_checksum } in packages {
        match source.as_deref() {
            None if name == "claret" || name.starts_with("claret-") => continue,
            Some(SOURCE) if *has_checksum => {}
            source => problems.push(format!(
                "{path}: {name} {version} is of {}, and not of the public registry, with a checksum",
                source.unwrap_or("a folder")
            )),
        }
        let is_banned = BANNED.iter().find(|(banned, least, _)| banned == name && is_below(version, *least));
        let stays = STAYS.iter().any(|(kept, its, _)| kept == name && its == version);
        if let (Some((.., why)), false) = (is_banned, stays) {
            problems.push(format!("{path}: {name} {version} is banned: {why}"));
        }
    }
    problems
}

/// Whether a version is too old.
fn is_below(version: &str, least: Option<(u64, u64)>) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u64>().unwrap_or(0));
    let first_two = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    least.is_none_or(|least| first_two < least)
}

/// Rows of [`STAYS`] that nothing needs any more.
fn stale(packages: &[Package]) -> Vec<String> {
    let is_there =
        |name: &str, version: &str| packages.iter().any(|it| it.name == name && it.version == version);
    let stale = STAYS.iter().filter(|(name, version, _)| !is_there(name, version));
    let stale =
        stale.map(|(name, version, why)| format!("{name} {version} is gone ({why}): take it out of STAYS"));
    let is_named = |name: &str| packages.iter().any(|it| it.name == name);
    let excepted = EXCEPTED.iter().filter(|(name, ..)| !is_named(name));
    let excepted = excepted.map(|(name, _, why)| format!("{name} is gone ({why}): take it out of EXCEPTED"));
    stale.chain(excepted).collect()
}

/// What `cargo metadata` says of licences that are not allowed.
fn licences(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_excepted = |package: &&Value| {
        EXCEPTED.iter().any(|(name, licence, _)| package["name"] == *name && package["license"] == *licence)
    };
    let wrong = packages
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default()))
        .filter(|package| !is_excepted(package));
    wrong
        .map(|package| {
            format!("{} {}: the licence {}", package["name"], package["version"], package["license"])
        })
        .collect()
}

/// Whether an expression of licences lets one choose licences that are all allowed: `MIT OR (A AND B)`. A slash is an old `OR`.
fn is_allowed(expression: &str) -> bool {
    let text = expression.replace('/', " OR ");
    let text = text.trim();
    // Parentheses stand around a whole side in all expressions that there are.
    let parts = |text: &str, word: &str| -> Vec<String> {
        let (mut parts, mut depth) = (vec![String::new()], 0_i32);
        for piece in text.split(' ') {
            let is_cut = piece == word && depth == 0;
            depth += piece.matches('(').count() as i32 - piece.matches(')').count() as i32;
            if is_cut {
                parts.push(String::new());
            } else if let Some(last) = parts.last_mut() {
                last.push(' ');
                last.push_str(piece);
            }
        }
        parts
    };
    let ands = parts(text, "AND");
    if ands.len() > 1 {
        return ands.iter().all(|part| is_allowed(part));
    }
    let ors = parts(text, "OR");
    if ors.len() > 1 {
        return ors.iter().any(|part| is_allowed(part));
    }
    match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(inner) => is_allowed(inner),
        None => LICENCES.contains(&text),
    }
}

#[test]
fn licences_are_read_as_expressions() {
    for allowed in
        ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 AND ISC"]
    {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND AGPL-3.0", "MPL-2.0"] {
        assert!(!is_allowed(refused), "{refused}");
    }
}

#[test]
fn what_is_banned_or_of_elsewhere_is_found() {
    let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"git+https://h/a\"\n\n\
                [[package]]\nname = \"claret-core\"\nversion = \"0.1.0\"\n\n\
                [[package]]\nname = \"evil\"\nversion = \"0.1.0\"\n\n\
                [[package]]\nname = \"nix\"\nversion = \"0.29.0\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"x\"\n\n\
                [[package]]\nname = \"syn\"\nversion = \"0.11.11\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"x\"\n\n\
                [[package]]\nname = \"syn\"\nversion = \"2.0.1\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"x\"\n\n\
                [[package]]\nname = \"b\"\nversion = \"2.0.1\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    let found = problems("l", &packages(lock));
    let names: Vec<&str> = found.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(names, ["a", "evil", "nix", "b"]);
    assert_eq!(stale(&packages(lock)).len(), STAYS.len() - 1 + EXCEPTED.len());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// The workspace's lock file, and those of its fuzzers, which are workspaces of their own.
fn locks() -> Vec<(String, Vec<Package>)> {
    let crates =
        fs::read_dir(root().join("crates")).expect("the crates").map(|it| it.expect("a folder").path());
    let all = crates.map(|of| of.join("fuzz/Cargo.lock")).filter(|path| path.is_file());
    let all = [root().join("Cargo.lock")].into_iter().chain(all);
    all.map(|path| (path.display().to_string(), packages(&fs::read_to_string(&path).expect("text"))))
        .collect()
}

/// What a program says, run in the workspace.
fn said(program: String, words: &[&str]) -> String {
    let output = Command::new(&program).args(words).current_dir(root()).output().expect("it runs");
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Nobody looked at what others wrote: from where it came, and how old it was.
#[test]
fn what_others_wrote_is_of_the_public_registry_and_not_banned() {
    let locks = locks();
    assert!(locks.len() > 1 && locks[0].1.len() > 100, "{} lock files", locks.len());
    for (path, packages) in &locks {
        assert_none(&problems(path, packages));
    }
    assert_none(&stale(&locks[0].1));
}

/// Of what is built on this machine: the rest is not there to be looked at.
#[test]
fn what_others_wrote_has_a_licence_that_is_allowed() {
    let version = said(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()), &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a machine");
    let words = ["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host];
    let metadata = said(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), &words);
    let metadata: Value = serde_json::from_str(&metadata).expect("it writes JSON");
    assert!(metadata["packages"].as_array().is_some_and(|all| all.len() > 100), "few packages");
    assert_none(&licences(&metadata));
}
