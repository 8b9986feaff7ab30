//! Style that a machine can check, over the whole repository: what is fixed here need not be said in a review.
//! Format and everything that has a lint is left to rustfmt and clippy.

use std::fs;
use std::path::{Path, PathBuf};

mod api;
mod claims;
mod defaults;
mod dependencies;
mod guarantees;
mod layers;
mod links;
mod map;
mod numbers;
mod packages;
mod rules;
mod source;
mod surfaces;
mod walls;

use claims::Numbered;
use source::File;

/// Functions that may be longer than the rule says: path, name, and why it reads better whole. Keep it short.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// The repository's text files, in order of their paths: what ends in one of `endings`.
fn files(endings: &[&str]) -> Vec<File> {
    let root = root();
    let (mut folders, mut found) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
            if path.is_dir() {
                if name != "target" && (!name.starts_with('.') || name == ".ci") {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let inside = path.strip_prefix(&root).expect("below the root");
                let inside = inside.to_str().expect("UTF-8").replace('\\', "/");
                found.push(File { path: inside, text: fs::read_to_string(&path).expect("text") });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no file ends in {endings:?} below {}", root.display());
    found
}

fn assert_none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn check(files: &[File], rule: fn(&File) -> Vec<String>) {
    assert_none(files.iter().flat_map(rule).collect());
}

#[test]
fn what_is_promised_under_a_fault_has_its_test() {
    let document = fs::read_to_string(root().join("docs/guarantees.md")).expect("the page");
    assert_none(guarantees::untested(&document, &files(&[".rs"])));
}

#[test]
fn tests_that_see_what_was_found_from_outside_are_there() {
    let document = fs::read_to_string(root().join("crates/tidy/FOUND.md")).expect("the list");
    assert_none(guarantees::untested(&document, &files(&[".rs"])));
}

#[test]
fn every_source_opens_with_what_it_is_for() {
    check(&files(&[".rs"]), rules::opens_with_its_purpose);
}

#[test]
fn sources_and_functions_are_short() {
    let excused = |problem: &String, (path, name, _): &(&str, &str, &str)| {
        problem.starts_with(path) && problem.contains(&format!(": fn {name} has "))
    };
    let (allowed, problems): (Vec<String>, Vec<String>) = files(&[".rs"])
        .iter()
        .flat_map(rules::is_short)
        .partition(|problem| LONG_FUNCTIONS.iter().any(|exception| excused(problem, exception)));
    assert_none(problems);
    for exception in LONG_FUNCTIONS {
        assert!(allowed.iter().any(|problem| excused(problem, exception)), "no longer needed: {exception:?}");
    }
}

#[test]
fn structs_are_narrow_and_machines_have_walls() {
    let sources = files(&[".rs"]);
    assert_none(walls::wide(&sources, walls::LISTS));
    check(&sources, walls::long);
    assert_none(walls::MACHINES.iter().flat_map(|(folder, it)| walls::open(folder, it, &sources)).collect());
}

#[test]
fn rooms_use_those_beneath_them_alone() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let (orders, sources) = (layers::orders(&document), files(&[".rs"]));
    assert!(!orders.is_empty(), "ARCHITECTURE.md declares no layers");
    assert_none(orders.iter().flat_map(|order| layers::problems(order, &sources)).collect());
}

#[test]
fn what_users_see_has_a_text_of_its_own() {
    check(&files(&[".rs"]), rules::public_items_have_own_texts);
}

/// `claret gateway` did not end on SIGTERM where nobody read its output: the thread that was to end it had panicked.
#[test]
fn no_output_is_a_panic_where_nobody_reads() {
    check(&files(&[".rs"]), rules::prints_without_panic);
}

#[test]
fn nothing_is_left_for_later() {
    check(&files(&[".rs"]), rules::is_finished);
}

#[test]
fn types_and_core_do_no_io_and_show_no_order() {
    let pure: Vec<File> = files(&[".rs"]).into_iter().filter(|file| rules::is_pure(&file.path)).collect();
    assert!(pure.len() > 10, "the crates have moved");
    check(&pure, rules::is_pure_code);
    check(&pure, rules::loops_over_no_hash);
}

#[test]
fn types_and_core_depend_on_nothing_that_does_io() {
    let manifests = files(&["Cargo.toml"]);
    for path in ["crates/types/Cargo.toml", "crates/core/Cargo.toml"] {
        let manifest = manifests.iter().find(|file| file.path == path).expect("the crate has a manifest");
        assert_none(rules::depends_on_the_pure(manifest));
    }
}

#[test]
fn packages_say_what_a_registry_asks_and_are_whole() {
    let (root, manifests) = (root(), files(&["Cargo.toml"]));
    let crates =
        manifests.iter().filter(|file| file.path.starts_with("crates/") && !file.path.contains("/fuzz/"));
    assert_none(crates.flat_map(|manifest| packages::says_what_a_registry_asks(&root, manifest)).collect());
    let workspace =
        manifests.iter().find(|file| file.path == "Cargo.toml").expect("the workspace has a manifest");
    assert_none(packages::dependencies_have_versions(workspace));
    check(&files(&[".rs"]), packages::is_whole);
}

#[test]
fn no_manifest_plants_bugs_in_what_is_shipped() {
    check(&files(&["Cargo.toml"]), rules::plants_no_bugs);
}

#[test]
fn no_file_names_a_machine_or_is_half_merged() {
    let all = files(&[".rs", ".md", ".toml", ".lock", ".sh", "check", "demo", "run"]);
    check(&all, rules::names_no_machine);
    check(&all, rules::is_merged);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = root();
    assert_none(files(&[".md"]).iter().flat_map(|file| links::broken(&root, file)).collect());
}

#[test]
fn examples_in_documents_are_compiled() {
    let library = fs::read_to_string(root().join("crates/claret/src/lib.rs")).expect("it is there");
    let with_examples = files(&[".md"]).into_iter().filter(|file| file.text.contains("```rust"));
    let forgotten = with_examples.filter(|file| !library.contains(&format!("../{}\")", file.path)));
    assert_none(
        forgotten
            .map(|file| format!("{}: crates/claret/src/lib.rs does not include it", file.path))
            .collect(),
    );
}

#[test]
fn rules_and_traps_that_are_cited_are_defined() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("it is there");
    let (page, mut rules) = (read("docs/traps.md"), Vec::new());
    for (letter, path) in numbers::RULES {
        let found = numbers::rules(*letter, &read(path));
        assert!(found.len() > 7, "{path} defines {} rules", found.len());
        assert_none(numbers::doubled(path, &found));
        rules.extend(found.into_iter().map(|(_, name)| name));
    }
    assert_none(pages().iter().flat_map(numbers::unknown_alphabets).collect());
    assert_none(numbers::alphabets_without_a_page(&read("ARCHITECTURE.md")));
    let (traps, sources) = (numbers::traps(&page), files(&[".rs", ".md", ".txt", "Cargo.toml"]));
    let defined = numbers::Defined::new(rules, &traps);
    assert_none(sources.iter().flat_map(|file| numbers::undefined(file, &defined)).collect());
    assert!(!traps.is_empty(), "docs/traps.md has no table");
    assert_none(numbers::untested(&traps, &sources, numbers::UNTESTED));
}

/// Pages that say what is, not what was.
fn pages() -> Vec<File> {
    let all = files(&[".md"]).into_iter();
    all.filter(|file| file.path != "CHANGELOG.md").collect()
}

fn text_of<'a>(files: &'a [File], path: &str) -> &'a str {
    &files.iter().find(|file| file.path == path).expect("a file of this name").text
}

#[test]
fn what_is_called_a_default_is_the_codes() {
    let (pages, sources) = (pages(), files(&[".rs"]));
    let commands = text_of(&pages, "docs/commands.md");
    let defaults = defaults::Defaults::of(&sources, commands);
    assert_none(pages.iter().flat_map(|file| defaults::in_page(file, &defaults)).collect());
    assert_none(sources.iter().flat_map(|file| defaults::in_rustdoc(file, &defaults)).collect());
    let options = text_of(&sources, "crates/claret/src/options.rs");
    let attempts = claims::between(options, "            attempts: ", ",").expect("the default");
    assert_none(claims::counted(&pages, " attempts", attempts));
    let seconds = claims::between(options, "deadline: Duration::from_secs(", ")").expect("the default");
    let deadline = Numbered {
        what: "the default deadline",
        forms: &[("100 attempts and ", " seconds"), (" attempts, a deadline of ", " s")],
        right: vec![seconds.to_owned()],
        page: "README.md",
    };
    assert_none(deadline.problems(&pages));
}

#[test]
fn pages_deny_nothing_that_is_there() {
    assert_none(claims::denials(&pages(), &files(&[".rs"])));
}

#[test]
fn what_pages_say_is_not_there_yet_is_listed() {
    assert_none(claims::missing(&pages(), claims::not_yet()));
}

#[test]
fn versions_in_pages_are_the_codes() {
    let (pages, sources) = (pages(), files(&[".rs", "Cargo.toml"]));
    let one = |path: &str, begin: &str, end: &str| {
        vec![claims::between(text_of(&sources, path), begin, end).expect("the constant").to_owned()]
    };
    let wire = one("crates/core/src/wire.rs", "pub const VERSION: u16 = ", ";");
    let mut rust = one("Cargo.toml", "rust-version = \"", "\"");
    let numbered = |what, forms, right, page| Numbered { what, forms, right, page }.problems(&pages);
    assert_none(numbered(
        "the wire's version",
        &[
            ("number ", ", `VERSION`"),
            ("wire version ", ""),
            ("the wire's version is ", ""),
            ("version ", " of the wire"),
        ],
        wire.clone(),
        "docs/stability.md",
    ));
    let changes = fs::read_to_string(root().join("CHANGELOG.md")).expect("it is there");
    assert_none(claims::newest(
        &changes,
        &[("ersion ", " of the protocol"), ("ersion ", " of the wire")],
        &wire[0],
    ));
    assert_none(numbered(
        "the oldest Rust",
        &[("Rust is ", ""), ("(Rust ", " or later")],
        rust.clone(),
        "README.md",
    ));
    rust.extend(one("crates/tidy/tests/tidy/api.rs", "LISTED_WITH: &str = \"", "\""));
    assert_none(numbered(
        "Rust's version",
        &[("with Rust ", ""), ("Rust is ", "")],
        rust,
        "docs/stability.md",
    ));
    let own = one("Cargo.toml", "\nversion = \"", "\"");
    let own = vec![own[0].rsplit_once('.').expect("three numbers").0.to_owned()];
    assert_none(numbered(
        "Claret's version",
        &[("Version ", " is not on"), ("Version ", ". "), ("at version ", ". "), ("is version ", ": ")],
        own,
        "README.md",
    ));
}

#[test]
fn bounds_of_the_style_in_pages_are_the_tests() {
    let pages = pages();
    let numbered = |what, forms, right, page| Numbered { what, forms, right, page }.problems(&pages);
    assert_none(numbered(
        "the lines of a file",
        &[("fewer than ", " lines")],
        vec![rules::FILE_LINES_MAX.to_string()],
        "CONTRIBUTING.md",
    ));
    assert_none(numbered(
        "the lines of a function",
        &[("a function at most ", "")],
        vec![rules::FUNCTION_LINES_MAX.to_string()],
        "CONTRIBUTING.md",
    ));
}

#[test]
fn how_long_the_check_takes_is_said_once() {
    let script = fs::read_to_string(root().join("check")).expect("it is there");
    assert_none(claims::durations_of_the_check(&pages(), &script));
}

#[test]
fn every_mode_of_the_benchmark_is_on_its_page() {
    let (pages, sources) = (pages(), files(&[".rs"]));
    let page = pages.iter().find(|file| file.path == "docs/workloads.md").expect("the page");
    let help = text_of(&sources, "crates/cli/src/commands/bench.rs");
    assert_none(claims::modes(text_of(&sources, "crates/bench/src/mode.rs"), help, page));
}

#[test]
fn the_map_says_what_crates_use() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    assert_none(map::other_dependencies(&map, &files(&["Cargo.toml"])));
}

#[test]
fn a_new_type_has_all_its_places_in_the_map() {
    let (pages, sources) = (pages(), files(&[".rs"]));
    let types = map::types(text_of(&sources, "crates/types/src/lib.rs"));
    assert!(types.len() > 10, "{types:?}");
    let map = text_of(&pages, "ARCHITECTURE.md");
    assert_none(map::places_of_types(map, &types, &sources));
    assert_none(map::too_many_places(map));
    let readme = pages.iter().find(|file| file.path == "README.md").expect("it is there");
    assert_none(map::types_without_a_row(readme, &types));
}

#[test]
fn every_built_in_type_is_run_wherever_types_are() {
    assert_none(map::runs_of_some(&files(&[".rs"])));
}

#[test]
fn the_blocking_mirror_has_what_the_store_has() {
    assert_none(surfaces::problems(&files(&[".rs"]), surfaces::ALONE));
}

/// A row of a table whose first cell is this name, whatever fields follow it.
fn is_row_of(line: &str, name: &str) -> bool {
    let named = line.strip_prefix("| `").and_then(|rest| rest.strip_prefix(name));
    named.is_some_and(|rest| rest.starts_with(['`', '(', ' ']))
}

/// The page says of each variant what to do, and no variant is left out.
#[test]
fn every_error_is_in_the_table_of_errors() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file");
    let page = read("docs/errors.md");
    let activities = "crates/claret/src/error/activities.rs";
    for (path, kind, count) in [
        ("crates/claret/src/error.rs", "Error", 3),
        (activities, "BeginError", 4),
        (activities, "ExecuteError", 6),
        (activities, "NestError", 5),
        (activities, "CommitError", 5),
        (activities, "HandleError", 3),
        ("crates/types/src/error.rs", "OpError", 11),
    ] {
        let source = read(path);
        let (_, body) = source.split_once(&format!("pub enum {kind} {{")).expect("the enum");
        let (body, _) = body.split_once("\n}").expect("its end");
        let name = |line: &str| line.strip_prefix("    ")?.split(['(', ',', ' ']).next().map(str::to_owned);
        // An activity has an enum of its own.
        let lines = body.lines().filter(|line| !line.contains("(#[from] "));
        let variants = lines.filter_map(name).filter(|name| name.starts_with(char::is_uppercase));
        let variants: Vec<String> = variants.collect();
        assert!(variants.len() >= count, "{kind}: {variants:?}");
        let is_missing = |name: &String| !page.lines().any(|line| is_row_of(line, name));
        assert_none(
            variants
                .into_iter()
                .filter(is_missing)
                .map(|name| format!("docs/errors.md: no {name}"))
                .collect(),
        );
    }
}
