//! Walls within a crate: how wide a struct is, how long an `impl` block, and over how many files the methods of a large machine are
//! spread.

use super::source::{self, File};

/// More fields than these no struct has.
const FIELDS_MAX: usize = 15;

/// No `impl` block has more lines.
const IMPL_LINES_MAX: usize = 300;

/// The methods of a machine stand in so many files at most, its own among them.
const IMPL_FILES_MAX: usize = 4;

/// Each has parts with private fields; its own are seen by the file with its struct and those right beneath that.
pub(crate) const MACHINES: &[(&str, &str)] = &[
    ("crates/core/src/coordinator/", "Coordinator"),
    ("crates/core/src/shard/", "Shard"),
    ("crates/core/src/shard/lock_table/", "LockTable"),
];

/// Lists of settings, counts or results: each field stands for itself, and is named by users or in a report.
pub(crate) const LISTS: &[(&str, &str)] = &[
    ("crates/core/src/limits.rs", "Limits"),
    ("crates/cli/src/commands/bench.rs", "Args"),
    ("crates/cli/src/commands/bench/model.rs", "ModelArgs"),
    ("crates/cli/src/commands/check_store.rs", "Args"),
    ("crates/cli/src/commands/gateway.rs", "Args"),
    ("crates/cli/src/commands/torture.rs", "Args"),
    ("crates/checker/src/report.rs", "Report"),
    ("crates/checker/src/torture/report.rs", "TortureReport"),
    ("crates/gateway/src/metrics.rs", "Metrics"),
    ("crates/module/src/node/mod.rs", "Counts"),
    ("crates/sim/src/config.rs", "Config"),
    ("crates/sim/src/config.rs", "FaultConfig"),
    ("crates/sim/src/lib.rs", "Totals"),
    ("crates/sim/src/model/setup.rs", "Setup"),
    ("crates/sim/src/outcome.rs", "Outcome"),
];

/// A struct with named fields, or an `impl` block.
#[derive(Debug, PartialEq)]
struct Block {
    /// The name of the type.
    name: String,
    /// Where it begins, from 1.
    line: usize,
    /// From its first to its last line.
    lines: usize,
    /// Of a struct; whether each is visible anywhere but in its module and beneath.
    fields: Vec<bool>,
}

/// The structs of a file.
fn structs(code: &str) -> Vec<Block> {
    blocks(code, |line| {
        let line = line.trim_start();
        let line = if line.starts_with("pub(") { line.split_once(") ")?.1 } else { line };
        line.strip_prefix("pub ").unwrap_or(line).strip_prefix("struct ")
    })
}

/// The `impl` blocks of a file, but for those of traits.
fn impls(code: &str) -> Vec<Block> {
    blocks(code, |line| {
        let line = line.trim_start().strip_prefix("impl")?;
        let is_of_type = line.starts_with([' ', '<']) && !line.contains(" for ");
        let name = if line.starts_with('<') { &line[matching(line)?..] } else { line };
        is_of_type.then_some(name.trim_start())
    })
}

/// Where the angle bracket that opens a text is closed.
fn matching(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, it) in text.char_indices() {
        depth += i32::from(it == '<') - i32::from(it == '>');
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// What begins in a line with a brace at its end, for which `named` gives the text from the name on.
fn blocks(code: &str, named: impl Fn(&str) -> Option<&str>) -> Vec<Block> {
    let lines: Vec<&str> = code.lines().collect();
    let begins = lines.iter().enumerate().filter(|(_, line)| line.trim_end().ends_with('{'));
    let found = begins.filter_map(|(at, line)| {
        let name: String = named(line)?.chars().take_while(|it| source::is_word(*it)).collect();
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", &line[..indent]);
        let inside = lines[at + 1..].iter().take_while(|line| line.trim_end() != end);
        let is_field = |line: &&&str| {
            let own = line.len() - line.trim_start().len() == indent + 4;
            let (words, rest) = line.trim_start().split_once(':').unwrap_or_default();
            let is_name = words.rsplit(' ').next().is_some_and(|name| name.chars().all(source::is_word));
            own && is_name && rest.starts_with(' ')
        };
        let fields = inside.clone().filter(is_field).map(|line| line.trim_start().starts_with("pub"));
        Some(Block { name, line: at + 1, lines: inside.clone().count() + 2, fields: fields.collect() })
    });
    found.collect()
}

fn is_source(file: &File) -> bool {
    file.path.starts_with("crates/") && file.path.contains("/src/")
}

/// Structs that have too many fields, and exceptions that are none.
pub(crate) fn wide(files: &[File], lists: &[(&str, &str)]) -> Vec<String> {
    let (mut problems, mut met) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| is_source(file)) {
        for Block { name, line, fields, .. } in structs(&source::code(&file.text)) {
            let (count, path) = (fields.len(), &file.path);
            if count <= FIELDS_MAX {
                continue;
            }
            if !lists.iter().any(|(at, known)| at == path && *known == name) {
                problems.push(format!(
                    "{path}:{line}: {name} has {count} fields; at most {FIELDS_MAX}: what belongs together is a type of its own"
                ));
            }
            met.push((path.as_str(), name));
        }
    }
    let needless =
        lists.iter().filter(|(path, name)| !met.iter().any(|(at, known)| at == path && known == name));
    problems.extend(needless.map(|(path, name)| format!("{path}: {name} needs no exception")));
    problems
}

/// `impl` blocks that are too long.
pub(crate) fn long(file: &File) -> Vec<String> {
    let all = if is_source(file) { impls(&source::code(&file.text)) } else { Vec::new() };
    let too_long = all.into_iter().filter(|it| it.lines > IMPL_LINES_MAX);
    let problem = |it: Block| {
        let (path, Block { name, line, lines, .. }) = (&file.path, it);
        format!(
            "{path}:{line}: impl {name} has {lines} lines; at most {IMPL_LINES_MAX}: one block for each subject"
        )
    };
    too_long.map(problem).collect()
}

/// What is wrong with a machine: fields that others see, methods in too many files.
pub(crate) fn open(folder: &str, machine: &str, files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut own, mut spread) = (None, Vec::new());
    for file in files.iter().filter(|file| file.path.starts_with(folder)) {
        let code = source::code(&file.text);
        for found in structs(&code).into_iter().filter(|it| it.name == machine) {
            own = file.path.strip_suffix(".rs");
            if found.fields.contains(&true) {
                problems
                    .push(format!("{}:{}: a field of {machine} is visible outside", file.path, found.line));
            }
        }
        if impls(&code).iter().any(|it| it.name == machine) {
            spread.push(file.path.as_str());
        }
    }
    let Some(own) = own else { return vec![format!("{folder}: there is no struct {machine}")] };
    // Modules beneath see private fields, so all of them count.
    let beneath = |path: &str| path.strip_prefix(own).is_some_and(|rest| rest.starts_with('/'));
    let sees = files.iter().map(|file| file.path.as_str()).filter(|path| beneath(path));
    let seen: Vec<&str> = sees.chain([own]).collect();
    if own.ends_with("/mod") || seen.len() > IMPL_FILES_MAX {
        problems.push(format!("{own}.rs: too many files see the fields of {machine}: {}", seen.join(", ")));
    }
    if spread.len() > IMPL_FILES_MAX {
        problems.push(format!("{own}.rs: {machine} has methods in too many files: {}", spread.join(", ")));
    }
    problems
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn structs_that_are_too_wide_are_found() {
    let fields =
        |count: usize| (0..count).map(|at| format!("    /// It.\n    f{at}: u8,\n")).collect::<String>();
    let text = format!("pub(crate) struct A {{\n{}}}\nstruct B<'a> {{\n{}}}\n", fields(15), fields(16));
    let files = [file("crates/x/src/a.rs", &text)];
    let [problem] = &wide(&files, &[])[..] else { panic!("one is too wide") };
    assert!(problem.contains(":33: B has 16 fields; at most 15"), "{problem}");
    assert_eq!(wide(&files, &[("crates/x/src/a.rs", "B")]), Vec::<String>::new());
    assert!(wide(&files, &[("crates/x/src/a.rs", "A")]).iter().any(|it| it.contains("no exception")));
}

#[test]
fn impl_blocks_that_are_too_long_are_found() {
    let text =
        format!("impl<'a> A<'a> {{\n{}}}\nimpl B for A {{\n{}}}\n", "\n".repeat(299), "\n".repeat(400));
    let found = long(&file("crates/x/src/a.rs", &text));
    assert_eq!(found, ["crates/x/src/a.rs:1: impl A has 301 lines; at most 300: one block for each subject"]);
}

#[test]
fn machines_that_are_open_are_found() {
    let (whole, method) = ("pub struct M {\n    a: u8,\n}\nimpl M {\n}\n", "impl M {\n}\n");
    let closed = [file("crates/x/src/m.rs", whole), file("crates/x/src/m/b.rs", method)];
    assert_eq!(open("crates/x/src/", "M", &closed), Vec::<String>::new());
    let of = |name: &str| file(&format!("crates/x/src/{name}.rs"), method);
    let spread = [file("crates/x/src/m.rs", whole), of("a"), of("b"), of("c"), of("d")];
    assert_eq!(open("crates/x/src/", "M", &spread[..4]), Vec::<String>::new());
    assert!(open("crates/x/src/", "M", &spread)[0].contains("methods in too many files"));
    let seen = [file("crates/x/src/m.rs", &whole.replace("    a", "    pub(super) a"))];
    assert!(open("crates/x/src/", "M", &seen)[0].contains("is visible outside"));
    let face = [file("crates/x/src/m/mod.rs", whole)];
    assert!(open("crates/x/src/", "M", &face)[0].contains("too many files"));
}
