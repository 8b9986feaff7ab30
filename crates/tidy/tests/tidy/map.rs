//! ARCHITECTURE.md as a map: crates use what it says, and no file but those of its list names all types.

use std::collections::BTreeSet;

use super::source::{File, code, words};

/// So many of the built-in types make a file one that lists them all.
const MOST_TYPES: usize = 11;

/// Places to add a type, at most.
const PLACES_MAX: usize = 6;

/// Where every built-in type is run, and by what in the file no type can be left out.
pub(crate) const RUNS_OF_ALL: [(&str, &str, &str); 6] = [
    ("the oracle", "crates/types/tests/types/oracle.rs", "oracle::builtin()"),
    ("partial states", "crates/types/tests/types/partial_states.rs", "with_types!(each)"),
    ("the simulator", "crates/sim/src/workload.rs", "builtin_examples()"),
    ("the module's records", "crates/module/src/parts/native/tests.rs", "with_types!(each)"),
    ("the module on a server", "crates/module/tests/module/conformance.rs", "with_types!(each)"),
    ("both hosts side by side", "crates/claret/tests/claret/cluster/conformance.rs", "with_types!(each)"),
];

/// Of these runs, those that a hand has chosen the types of.
pub(crate) fn runs_of_some(sources: &[File]) -> Vec<String> {
    let has =
        |path: &str, by: &str| sources.iter().any(|file| file.path == path && code(&file.text).contains(by));
    let chosen = RUNS_OF_ALL.iter().filter(|(_, path, by)| !has(path, by));
    chosen.map(|(what, path, by)| format!("{path}: {what} has all types by `{by}`")).collect()
}

/// The part of a document below a heading, up to the next one of its rank.
pub(crate) fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let rank = heading.split(' ').next().unwrap_or_default();
    let (_, rest) = document.split_once(&format!("\n{heading}\n")).unwrap_or(("", ""));
    rest.split(&format!("\n{rank} ")).next().unwrap_or_default()
}

/// Rows of the table of crates (`| core | what | types |`) that are not what the manifests say, and crates without a row.
pub(crate) fn other_dependencies(document: &str, manifests: &[File]) -> Vec<String> {
    let table = section(document, "## The shape");
    let mut problems = Vec::new();
    for manifest in manifests {
        let Some(name) =
            manifest.path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        if name.contains('/') {
            continue;
        }
        let uses = dependencies(&manifest.text);
        let row = table.lines().find(|line| line.starts_with(&format!("| [{name}](")));
        let Some(cell) = row.and_then(|row| row.split('|').nth(3)) else {
            problems.push(format!("ARCHITECTURE.md: the shape has no row for crates/{name}"));
            continue;
        };
        let said: BTreeSet<&str> = words(cell).map(|(_, word)| word).collect();
        if said != uses {
            problems
                .push(format!("ARCHITECTURE.md: crates/{name} uses {uses:?}, and the shape says {said:?}"));
        }
    }
    problems
}

/// What a crate needs of this workspace, also for one of its features, without what only its tests need.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    let crates = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    crates
        .filter_map(|name| if name == "claret" { Some(name) } else { name.strip_prefix("claret-") })
        .collect()
}

/// The types of the registry.
pub(crate) fn types(registry: &str) -> Vec<&str> {
    let list = registry.split("$then! {").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or_default();
    words(list).map(|(_, word)| word).filter(|word| word.starts_with(char::is_uppercase)).collect()
}

/// How many places the list has too many.
pub(crate) fn too_many_places(document: &str) -> Vec<String> {
    let list = section(document, "### A type, place by place");
    let places = list.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
    match places {
        1..=PLACES_MAX => Vec::new(),
        _ => {
            vec![format!("ARCHITECTURE.md: a type has {places} places, and should have {PLACES_MAX} at most")]
        }
    }
}

/// Files that list all types and are not in the list of places for a new one; and of those, types that one forgot.
pub(crate) fn places_of_types(document: &str, types: &[&str], sources: &[File]) -> Vec<String> {
    let list = section(document, "### A type, place by place");
    let mut problems = Vec::new();
    for file in sources {
        let code = code(&file.text);
        let found: BTreeSet<&str> =
            words(&code).map(|(_, word)| word).filter(|word| types.contains(word)).collect();
        if found.len() < MOST_TYPES {
            continue;
        }
        if !list.contains(&format!("]({})", file.path)) {
            problems.push(format!("ARCHITECTURE.md: a new type belongs into {}, too", file.path));
        }
        for forgotten in types.iter().filter(|kind| !found.contains(*kind)) {
            problems.push(format!("{}: lists the types without {forgotten}", file.path));
        }
    }
    problems
}

/// Types for which a table of a page has no row that begins with a link to them.
pub(crate) fn types_without_a_row(page: &File, types: &[&str]) -> Vec<String> {
    let has_row = |kind: &str| page.text.lines().any(|line| line.starts_with(&format!("| [{kind}](")));
    let forgotten = types.iter().filter(|kind| !has_row(kind));
    forgotten.map(|kind| format!("{}: the table of types has no {kind}", page.path)).collect()
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

#[test]
fn arrows_that_manifests_do_not_have_are_found() {
    let manifest = |name: &str, rest: &str| {
        file(
            &format!("crates/{name}/Cargo.toml"),
            &format!("[package]\n\n[dependencies]\n{rest}\n[dev-dependencies]\nclaret-sim = 1\n"),
        )
    };
    let manifests = [manifest("core", "claret-types.workspace = true\nserde = 1\n"), manifest("types", "")];
    let found = |core: &str| {
        let document = format!(
            "# A\n\n## The shape\n\n| [core](x) | the protocol | {core} |\n| [types](x) | types | |\n\n## More\n"
        );
        other_dependencies(&document, &manifests).len()
    };
    assert_eq!((found("types"), found(""), found("types, sim")), (0, 1, 1));
    assert_eq!(other_dependencies("# A\n", &manifests).len(), 2);
}

#[test]
fn places_that_no_list_names_are_found() {
    let all = "X1 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 L1";
    let types: Vec<&str> =
        types("a { $then! { 0 X1, 1 B1, 12 C1, } } D1").into_iter().chain(all.split(' ').skip(3)).collect();
    let document = "# A\n\n### A type, place by place\n\n[l](crates/l.rs)\n\n### B\n[m](crates/m.rs)\n";
    let found = |path: &str, text: &str| places_of_types(document, &types, &[file(path, text)]);
    assert_eq!(found("crates/l.rs", all), [] as [&str; 0]);
    assert_eq!(found("crates/m.rs", all).len(), 1);
    assert_eq!(found("crates/m.rs", "X1 B1 C1 // D1 E1 F1 G1 H1 I1 J1 K1 L1"), [] as [&str; 0]);
    assert_eq!(found("crates/l.rs", &all[3..]), ["crates/l.rs: lists the types without X1"]);
    assert_eq!(too_many_places("\n### A type, place by place\n\n1. *A*\n2. *B*\n"), [] as [&str; 0]);
    for count in [0, PLACES_MAX + 1] {
        assert_eq!(
            too_many_places(&format!("\n### A type, place by place\n{}", "1. *A*\n".repeat(count))).len(),
            1
        );
    }
}

#[test]
fn runs_of_types_chosen_by_hand_are_found() {
    let all = RUNS_OF_ALL.map(|(_, path, by)| file(path, &format!("fn a() {{ {by} }}")));
    assert_eq!(runs_of_some(&all), [] as [&str; 0]);
    assert_eq!(runs_of_some(&all[1..]).len(), 1);
    assert_eq!(runs_of_some(&RUNS_OF_ALL.map(|(_, path, _)| file(path, "check::<Set>();"))).len(), 6);
}
