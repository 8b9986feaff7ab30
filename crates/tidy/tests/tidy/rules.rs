//! The rules for sources and manifests. Each takes a file and says what is wrong in it, as `path:line: what`.

use super::source::{File, code, functions, words};

/// Lines of a source file.
pub(crate) const FILE_LINES_MAX: usize = 800;
/// Lines of a function, from `fn` to its closing brace.
pub(crate) const FUNCTION_LINES_MAX: usize = 70;

/// What the crates without I/O may depend on. Nothing here reads a clock, draws a random number, logs, or runs
/// tasks.
const PURE_DEPENDENCIES: &[&str] = &[
    "claret-types",
    "foldhash",
    "hashbrown",
    "indexmap",
    "postcard",
    // A map that shares what it has in common with its copies.
    "rpds",
    "serde",
    // Reads and writes bytes in memory; what reads from files and sockets takes them as arguments.
    "serde_json",
    "sha2",
    "slab",
    "smallvec",
    "thiserror",
];

/// Words that name a clock, a random source or an async runtime.
const IMPURE_WORDS: &[&str] =
    &["Instant", "RandomState", "SystemTime", "async", "await", "getrandom", "tokio"];

/// Macros that write somewhere, and panic where nobody reads it.
const IMPURE_MACROS: &[&str] = &["dbg", "eprint", "eprintln", "print", "println"];

/// Those of them that what is shipped must not use.
const PANICKING_PRINTS: &[&str] = &["eprint", "eprintln", "print", "println"];

/// Crates whose names are ordinary words: with a path behind them.
const IMPURE_CRATES: &[&str] = &["log", "rand", "tracing"];

/// Modules of `std` that do I/O or depend on the machine.
const IMPURE_MODULES: &[&str] = &["env", "fs", "io", "net", "process", "thread"];

/// Whether a file belongs to a crate that does no I/O.
pub(crate) fn is_pure(path: &str) -> bool {
    path.starts_with("crates/types/src/") || path.starts_with("crates/core/src/")
}

pub(crate) fn opens_with_its_purpose(file: &File) -> Vec<String> {
    match file.text.strip_prefix("//! ").and_then(|rest| rest.lines().next()) {
        Some(first) if first.len() > 3 => Vec::new(),
        _ => vec![format!("{}:1: open with `//!` and what the file is for", file.path)],
    }
}

pub(crate) fn is_short(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let too_long = (lines >= FILE_LINES_MAX)
        .then(|| format!("{}: {lines} lines; divide what is not one subject", file.path));
    let functions = functions(&code(&file.text)).into_iter().filter(|it| it.lines > FUNCTION_LINES_MAX);
    let functions = functions.map(|it| {
        format!("{}:{}: fn {} has {} lines; name its parts", file.path, it.line, it.name, it.lines)
    });
    too_long.into_iter().chain(functions).collect()
}

/// Nothing is left for later, and no test is switched off.
pub(crate) fn is_finished(file: &File) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
    let in_text = words(&file.text).filter(|(_, word)| marks.contains(word)).map(|(at, _)| at);
    let code = code(&file.text);
    let in_code = ["todo!", "unimplemented!", "#[ignore"];
    let in_code = in_code.iter().flat_map(|mark| code.match_indices(mark)).map(|(at, _)| line_of(&code, at));
    let lines = in_text.map(|at| line_of(&file.text, at)).chain(in_code);
    lines.map(|line| format!("{}:{line}: finish it, or leave it out", file.path)).collect()
}

pub(crate) fn is_pure_code(file: &File) -> Vec<String> {
    let code = code(&file.text);
    let bad_words = words(&code).filter(|(at, word)| {
        let behind = &code[at + word.len()..];
        IMPURE_WORDS.contains(word)
            || IMPURE_MACROS.contains(word) && behind.starts_with('!')
            || IMPURE_CRATES.contains(word) && behind.starts_with("::")
    });
    let bad_modules = words(&code).filter(|(at, word)| {
        IMPURE_MODULES.contains(word) && (code[..*at].ends_with("std::") || code[..*at].ends_with("std::{"))
    });
    bad_words
        .chain(bad_modules)
        .map(|(at, word)| {
            let line = line_of(&code, at);
            format!("{}:{line}: `{word}`: time, randomness and messages are arguments here", file.path)
        })
        .collect()
}

/// `for` over a hash map: its order differs from one table to the next. Calls of `iter`, `keys` and so on are
/// clippy's to find (`clippy.toml` of the crate); it does not see these loops. Where no order shows, the line above
/// begins with `// In any order`.
pub(crate) fn loops_over_no_hash(file: &File) -> Vec<String> {
    let code = code(&file.text);
    let mut kinds = vec!["HashMap", "HashSet", "HashTable"];
    for line in code.lines() {
        let alias = line.trim_start().trim_start_matches("pub(crate) ").strip_prefix("type ");
        if let Some((name, target)) = alias.and_then(|alias| alias.split_once('='))
            && words(target).next().is_some_and(|(_, word)| word.starts_with("Hash"))
        {
            kinds.extend(words(name).next().map(|(_, word)| word));
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for (at, _) in words(&code).filter(|(_, word)| kinds.contains(word)) {
        let before = code[..at].trim_end().trim_end_matches("mut").trim_end_matches(['&', ' ']);
        if let Some(named) = before.strip_suffix([':', '=']) {
            names.extend(
                words(&named[named.rfind('\n').map_or(0, |at| at + 1)..]).last().map(|(_, word)| word),
            );
        }
    }
    let loops = code.match_indices("for ").filter_map(|(at, _)| {
        let head = &code[at..at + code[at..].find('{')?];
        let over = head.split_once(" in ")?.1.trim();
        let last = over.trim_start_matches(['&', ' ']).trim_start_matches("mut ").rsplit('.').next()?;
        let line = line_of(&code, at);
        let above = file.text.lines().nth(line.saturating_sub(2)).unwrap_or_default().trim_start();
        (names.contains(&last) && !above.starts_with("// In any order")).then_some(line)
    });
    loops.map(|line| format!("{}:{line}: loops over a hash map, whose order shows", file.path)).collect()
}

/// What is shipped prints by macros that go on where nobody reads: `println!` and its like panic in the thread that was to do what
/// comes next. What is for tests alone prints as tests do.
pub(crate) fn prints_without_panic(file: &File) -> Vec<String> {
    let is_shipped = file.path.starts_with("crates/") && file.path.contains("/src/");
    let is_of_tests = ["crates/rig/", "crates/planted/"].iter().any(|of| file.path.starts_with(of));
    if !is_shipped || is_of_tests {
        return Vec::new();
    }
    let code = code(&file.text);
    let found = words(&code)
        .filter(|(at, word)| PANICKING_PRINTS.contains(word) && code[at + word.len()..].starts_with('!'));
    let problem = |(at, word)| {
        let line = line_of(&code, at);
        format!(
            "{}:{line}: `{word}!` panics where nobody reads: `say!`, `tell!`, or `writeln!` whose error is seen",
            file.path
        )
    };
    found.map(problem).collect()
}

/// No path of somebody's machine.
pub(crate) fn names_no_machine(file: &File) -> Vec<String> {
    let roots = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
    let hits = roots.iter().flat_map(|root| file.text.match_indices(root));
    let problem = |at| format!("{}:{}: a path of one machine", file.path, line_of(&file.text, at));
    hits.map(|(at, _)| problem(at)).collect()
}

/// No merge was left half done.
pub(crate) fn is_merged(file: &File) -> Vec<String> {
    let marks = ["<<<<<<< ", ">>>>>>> "];
    let lines = file.text.lines().enumerate().filter(|(_, line)| marks.iter().any(|it| line.starts_with(it)));
    lines.map(|(at, _)| format!("{}:{}: a conflict that nobody resolved", file.path, at + 1)).collect()
}

/// The manifest of a crate without I/O.
pub(crate) fn depends_on_the_pure(manifest: &File) -> Vec<String> {
    let mut problems = Vec::new();
    let mut in_dependencies = false;
    for (at, line) in manifest.text.lines().enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            in_dependencies = section == "dependencies]";
            if section.contains("dependencies.") || section.starts_with("target.") {
                problems.push(format!("{}:{}: list it under [dependencies]", manifest.path, at + 1));
            }
        } else if let (true, Some((_, name))) =
            (in_dependencies, line.split(['.', ' ', '=']).enumerate().next())
            && !name.is_empty()
            && !name.starts_with('#')
            && !PURE_DEPENDENCIES.contains(&name)
        {
            problems.push(format!(
                "{}:{}: {name} is not known to be free of clocks, threads and I/O (PURE_DEPENDENCIES)",
                manifest.path,
                at + 1
            ));
        }
    }
    problems
}

/// No manifest switches planted bugs on for what is shipped. Their feature may be defined, in turn by that of the same name
/// of another crate, and be required by a program; tests may be built with bugs of the protocol. Those of the hosts get
/// into a module that servers load: their feature is named by command lines alone.
pub(crate) fn plants_no_bugs(manifest: &File) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut section, mut key, mut open) = (String::new(), String::new(), 0_i32);
    for (at, line) in manifest.text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        // A list may go on for several lines.
        if open == 0 && line.trim_start().starts_with('[') {
            section = line.trim().to_owned();
            (key, open) = (String::new(), 0);
        } else {
            if open == 0 {
                key = line.split(['=', '.', ' ']).next().unwrap_or_default().to_owned();
            }
            open += line.matches('[').count() as i32 - line.matches(']').count() as i32;
        }
        let is_right = match section.as_str() {
            "[features]" => key == "planted-bugs" && !line.contains("claret-planted/"),
            "[[bin]]" | "[[example]]" | "[[test]]" | "[[bench]]" => key == "required-features",
            "[dev-dependencies]" => key != "claret-planted",
            _ => false,
        };
        if line.contains("planted-bugs") && !is_right {
            problems.push(format!("{}:{}: planted bugs are for tests alone", manifest.path, at + 1));
        }
    }
    problems
}

/// What users see has a text of its own: a page of documentation shows an item without its module.
pub(crate) fn public_items_have_own_texts(file: &File) -> Vec<String> {
    const POINTER: &str = "/// See the module's text";
    let lines: Vec<&str> = file.text.lines().map(str::trim_start).collect();
    let is_of_a_public_item = |at: usize| {
        let mut after = lines[at..].iter().filter(|line| !line.starts_with("///") && !line.starts_with("#["));
        after.next().is_some_and(|line| line.starts_with("pub "))
    };
    let pointers = (0..lines.len()).filter(|at| lines[*at].contains(POINTER) && is_of_a_public_item(*at));
    pointers.map(|at| format!("{}:{}: say here what it is", file.path, at + 1)).collect()
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

/// The lines that a rule finds fault with.
#[cfg(test)]
fn faults(rule: fn(&File) -> Vec<String>, text: &str) -> Vec<usize> {
    let found = rule(&File { path: "f".into(), text: text.into() });
    let line = |problem: &String| problem.split(':').nth(1).and_then(|line| line.parse().ok()).unwrap_or(0);
    found.iter().map(line).collect()
}

#[test]
fn planted_faults_are_found() {
    assert!(faults(opens_with_its_purpose, "//! What for.\n").is_empty());
    assert_eq!(faults(opens_with_its_purpose, "//! .\n"), [1]);
    assert_eq!(faults(opens_with_its_purpose, "use x;\n//! Late.\n"), [1]);

    let function = |lines: usize| format!("//! A.\nfn a() {{\n{}}}\n", "a();\n".repeat(lines - 2));
    assert!(faults(is_short, &function(FUNCTION_LINES_MAX)).is_empty());
    assert_eq!(faults(is_short, &function(FUNCTION_LINES_MAX + 1)), [2]);
    assert!(faults(is_short, &"use a;\n".repeat(FILE_LINES_MAX - 1)).is_empty());
    assert_eq!(faults(is_short, &"use a;\n".repeat(FILE_LINES_MAX)), [0]);

    let marks = concat!("a\n// TO", "DO b\ntodo!();\n#[ignore]\n// todo!, XX", "XL\n");
    assert_eq!(faults(is_finished, marks), [2, 3, 4]);

    let public = "/// See the module's text.\n/// More.\n#[derive(Debug)]\npub struct A;\n";
    assert_eq!(faults(public_items_have_own_texts, public), [1]);
    assert!(faults(public_items_have_own_texts, &public.replace("pub ", "pub(crate) ")).is_empty());
    assert!(faults(public_items_have_own_texts, "/// What it is.\npub struct A;\n").is_empty());

    let impure = "// Instant\nuse std::time::Instant;\nlet instant = now;\nuse std::{thread};\nprintln!();\n";
    assert_eq!(faults(is_pure_code, impure), [2, 5, 4]);
    assert_eq!(faults(is_pure_code, "let log = self.print();\nlog::warn!();\nrand::random();\n"), [2, 3]);
    assert!(faults(is_pure_code, "use std::time::Duration;\nlet catalog = environment;\n").is_empty());

    assert_eq!(faults(names_no_machine, concat!("a\nsee /ho", "me/ada/x\n")), [2]);
    let manifest =
        "[dependencies]\nsmallvec = \"1\"\ntokio.workspace = true\n[dev-dependencies]\nrand = \"1\"\n";
    assert_eq!(faults(depends_on_the_pure, manifest), [3]);
}

#[test]
fn prints_that_panic_are_found_in_what_is_shipped() {
    let text = "//! `println!`\nfn a() {\n  println!();\n  output::say!();\n  eprint! (x);\n  eprint!(\"println!\");\n}\n";
    let found = |path: &str| prints_without_panic(&File { path: path.into(), text: text.into() }).len();
    let paths = ["crates/cli/src/a.rs", "crates/cli/tests/a.rs", "crates/rig/src/a.rs", "tools/a/src/a.rs"];
    assert_eq!(paths.map(found), [3, 0, 0, 0]);
}

#[test]
fn loops_over_hash_maps_are_found() {
    let text = "type Names<'a> = HashSet<&'a str>;\nstruct A { seen: HashMap<u8, u8>, list: Vec<u8> }\n\
        fn f(names: &mut Names<'_>) {\nfor x in &self.seen {}\nfor x in names {}\nfor x in &self.list {}\n\
        for x in sorted(&self.seen) {}\nlet mut m = HashMap::new();\nfor (a, b) in &mut m {}\n\
        // In any order: a sum.\nfor x in &m {}\n}";
    assert_eq!(faults(loops_over_no_hash, text), [4, 5, 9]);
}

#[test]
fn manifests_that_plant_bugs_are_found() {
    let right = "[features]\ndefault = [\"a\"]\n# planted-bugs\nplanted-bugs = [\n  \"claret-core/planted-bugs\",\n]\n\
        [[test]]\nrequired-features = [\"planted-bugs\"]\n\
        [dev-dependencies]\nclaret-sim = { path = \".\", features = [\"planted-bugs\"] }\n";
    assert!(faults(plants_no_bugs, right).is_empty());
    let by_feature = "[features]\ndefault = [\n  \"a\",\n  \"planted-bugs\",\n]\na = [\"claret-core/planted-bugs\"]\n\
        planted-bugs = [\"claret-planted/planted-bugs\"]\n";
    assert_eq!(faults(plants_no_bugs, by_feature), [4, 6, 7]);
    let by_dependency = "[dependencies]\nclaret-core = { features = [\"planted-bugs\"] }\n\
        [dependencies.claret-planted]\nfeatures = [\"planted-bugs\"]\n\
        [workspace.dependencies]\nclaret-planted = { features = [\"planted-bugs\"] }\n\
        [dev-dependencies]\nclaret-planted = { features = [\n  \"planted-bugs\",\n] }\n\
        [dev-dependencies.claret-planted]\nfeatures = [\"planted-bugs\"]\n\
        [target.'cfg(unix)'.dependencies]\nclaret-core.features = [\"planted-bugs\"]\n";
    assert_eq!(faults(plants_no_bugs, by_dependency), [2, 4, 6, 9, 12, 14]);
}
