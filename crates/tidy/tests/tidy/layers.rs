//! The order of rooms within a crate, as ARCHITECTURE.md has it: each room uses those behind it alone, nothing imports
//! upward, and no circle of imports has more than a few files.
//!
//! ```text
//! crates/module/src: entries > node > parts > ffi
//! ```
//!
//! stands there in a block of code that says `layers`. A room is a file or a folder right beneath the path, which may be that of a
//! room itself; several between two `>` may use each other. `*` is every room that is not named.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{self, File};

/// More files than these do not import each other in a circle. A file right beneath another one is a part of it: that it imports the one
/// above counts as no circle.
const CIRCLE_FILES_MAX: usize = 2;

/// The rooms of a crate, from the top.
#[derive(Debug, PartialEq)]
pub(crate) struct Order {
    /// Of its sources, from the root of the repository.
    path: String,
    layers: Vec<Vec<String>>,
}

/// The orders that a document declares, in all its blocks.
pub(crate) fn orders(document: &str) -> Vec<Order> {
    let blocks = document.split("```layers\n").skip(1);
    let declared = blocks.flat_map(|block| block.lines().take_while(|line| line.trim() != "```"));
    let order = |line: &str| {
        let (path, layers) = line.split_once(": ")?;
        let rooms = |layer: &str| layer.split_whitespace().map(str::to_owned).collect();
        Some(Order { path: path.to_owned(), layers: layers.split(" > ").map(rooms).collect() })
    };
    declared.filter_map(order).collect()
}

/// What is wrong with the imports of a crate.
pub(crate) fn problems(order: &Order, files: &[File]) -> Vec<String> {
    let modules = Modules::of(order, files);
    if modules.files.is_empty() {
        return vec![format!("ARCHITECTURE.md: {} has layers and no sources", order.path)];
    }
    let layer_of = |module: &str| {
        let room = module.split("::").next().unwrap_or_default();
        let named =
            |name: &str| order.layers.iter().position(|rooms| rooms.iter().any(|known| known == name));
        if room.is_empty() { None } else { named(room).or_else(|| named("*")) }
    };
    let mut problems = Vec::new();
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, file) in &modules.files {
        let Some(layer) = layer_of(module) else {
            if !module.is_empty() {
                problems.push(format!("{}: ARCHITECTURE.md gives its room no layer", file.path));
            }
            continue;
        };
        for import in imports(module, &file.text) {
            let Some(target) = modules.resolve(module, &import.path) else { continue };
            if layer_of(target).is_some_and(|below| below < layer) {
                let path = import.path.join("::");
                problems.push(format!("{}:{}: imports {path}, from above", file.path, import.line));
            }
            // A part of a file above it needs that file, and is none of its uses.
            let is_part = is_beneath(module, target);
            if target != module && !is_part && !(import.is_public && is_beneath(target, module)) {
                edges.entry(module).or_default().insert(target);
            }
        }
    }
    problems.extend(circles(&edges).into_iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX).map(
        |circle| {
            let (count, path) = (circle.len(), &order.path);
            format!("{path}: {count} files import each other in a circle: {}", circle.join(", "))
        },
    ));
    problems
}

fn is_beneath(module: &str, above: &str) -> bool {
    module.strip_prefix(above).is_some_and(|rest| above.is_empty() || rest.starts_with("::"))
}

/// Sets of modules each of which reaches all others of its set.
fn circles<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached = |from: &'a str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            next.extend(edges.get(at).into_iter().flatten().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|from| (*from, reached(from))).collect();
    let mut found: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (from, all) in reach.iter().filter(|(from, all)| all.contains(**from)) {
        found.insert(
            all.iter().copied().filter(|to| reach.get(to).is_some_and(|back| back.contains(from))).collect(),
        );
    }
    found.into_iter().collect()
}

/// The modules of a crate, or of a room of it, by their paths from there: `parts::slots`; that of `lib.rs`, or of the
/// room's own `mod.rs`, is empty.
struct Modules<'a> {
    /// The path of the room within its crate.
    root: Vec<String>,
    files: BTreeMap<String, &'a File>,
    /// What a module shows that is defined in another one.
    shown: BTreeMap<(String, String), Vec<String>>,
}

impl<'a> Modules<'a> {
    fn of(order: &Order, files: &'a [File]) -> Self {
        let module = |file: &'a File| {
            let inside = file.path.strip_prefix(&order.path)?.strip_prefix('/')?.strip_suffix(".rs")?;
            let inside = inside.strip_suffix("/mod").unwrap_or(inside);
            // Tests in a file of their own are no other than those within one.
            if inside.split('/').any(|part| part == "tests") {
                return None;
            }
            Some((
                if matches!(inside, "lib" | "mod") { String::new() } else { inside.replace('/', "::") },
                file,
            ))
        };
        let files: BTreeMap<String, &File> = files.iter().filter_map(module).collect();
        let mut shown = BTreeMap::new();
        for (module, file) in &files {
            for import in imports(module, &file.text).into_iter().filter(|import| import.is_public) {
                shown.insert((module.clone(), import.name.clone()), import.path);
            }
        }
        let root = order.path.split_once("/src/").map_or("", |(_, root)| root);
        Modules {
            root: root.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            files,
            shown,
        }
    }

    /// In which module a path that one uses is defined; `None` outside of the crate.
    fn resolve(&self, from: &str, path: &[String]) -> Option<&str> {
        let is_child = |first: &String| self.files.contains_key(&join(from, first));
        let mut path: Vec<String> = match path.first()?.as_str() {
            "crate" => path[1..].strip_prefix(&self.root[..])?.to_vec(),
            "super" | "self" => relative(from, path)?,
            _ if is_child(&path[0]) => split(from).chain(path.iter().cloned()).collect(),
            _ => return None,
        };
        // Each step follows one name that a module shows and another one defines.
        for _ in 0..self.files.len() {
            let inner =
                (0..=path.len()).rev().find(|count| self.files.contains_key(&path[..*count].join("::")))?;
            let module = path[..inner].join("::");
            let behind = path.get(inner).and_then(|name| self.shown.get(&(module.clone(), name.clone())));
            match behind.and_then(|shown| self.absolute(&module, shown)) {
                Some(shown) => path = shown.into_iter().chain(path.into_iter().skip(inner + 1)).collect(),
                None => return self.files.get_key_value(&module).map(|(module, _)| module.as_str()),
            }
        }
        None
    }

    fn absolute(&self, from: &str, path: &[String]) -> Option<Vec<String>> {
        match path.first()?.as_str() {
            "crate" => Some(path[1..].strip_prefix(&self.root[..])?.to_vec()),
            "super" | "self" => relative(from, path),
            first => {
                let is_child = self.files.contains_key(&join(from, first));
                is_child.then(|| split(from).chain(path.iter().cloned()).collect())
            }
        }
    }
}

fn join(module: &str, child: &str) -> String {
    if module.is_empty() { child.to_owned() } else { format!("{module}::{child}") }
}

fn split(module: &str) -> impl Iterator<Item = String> {
    module.split("::").filter(|part| !part.is_empty()).map(str::to_owned)
}

/// From the root of the crate, of a path that begins with `super` or `self`.
fn relative(from: &str, path: &[String]) -> Option<Vec<String>> {
    let mut inside: Vec<String> = split(from).collect();
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first() {
        match first.as_str() {
            "self" => {}
            "super" => drop(inside.pop()?),
            _ => break,
        }
        rest = behind;
    }
    inside.extend(rest.iter().cloned());
    Some(inside)
}

/// A path of the crate's own that a file names.
#[derive(Debug)]
struct Import {
    path: Vec<String>,
    /// What it is called there.
    name: String,
    /// Others see it there.
    is_public: bool,
    line: usize,
}

/// What a module imports, and what paths from `crate` and `super` it names anywhere; its tests apart.
fn imports(module: &str, text: &str) -> Vec<Import> {
    let code = without_tests(&source::code(text));
    let mut found = Vec::new();
    let mut after_use = 0;
    for (at, word) in source::words(&code).filter(|(_, word)| ["use", "crate", "super"].contains(word)) {
        let line = 1 + code[..at].matches('\n').count();
        let before = code[..at].trim_end();
        let behind = &code[at + word.len()..];
        if word == "use" && (before.is_empty() || before.ends_with([';', '}', ')', ']', '{', 'b'])) {
            let end = behind.find(';').unwrap_or(behind.len());
            let is_public = before.ends_with("pub") || before.ends_with(')');
            let mut paths = Vec::new();
            expand(&behind[..end], &[], &mut paths);
            found.extend(paths.into_iter().map(|(path, name)| Import { path, name, is_public, line }));
            after_use = at + word.len() + end;
        } else if at >= after_use && behind.starts_with("::") && !before.ends_with("::") {
            let path = code[at..].split(|it| !source::is_word(it) && it != ':').next().unwrap_or_default();
            let path: Vec<String> = path.split("::").map(str::to_owned).collect();
            found.push(Import {
                name: path.last().cloned().unwrap_or_default(),
                path,
                is_public: false,
                line,
            });
        }
    }
    // In the root of the crate only its own modules could be meant.
    found.retain(|import| !(module.is_empty() && import.path.first().is_some_and(|first| first == "super")));
    found
}

/// The paths of `a::{b, c::{self, d as e}}`, each with the name that it gives.
fn expand(tree: &str, above: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    let (path, inner) = match tree.split_once('{') {
        Some((path, inner)) => (path, Some(inner.rsplit_once('}').map_or(inner, |(inner, _)| inner))),
        None => (tree, None),
    };
    let (path, alias) =
        path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
    let mut all: Vec<String> = above.iter().cloned().chain(parts).collect();
    let Some(inner) = inner else {
        if all.len() > 1 && all.last().is_some_and(|last| last == "self") {
            all.pop();
        }
        if let Some(last) = all.last() {
            let name = alias.unwrap_or(last).to_owned();
            found.push((all, name));
        }
        return;
    };
    let (mut depth, mut from) = (0, 0);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                expand(&inner[from..at], &all, found);
                from = at + 1;
            }
            _ => {}
        }
    }
    expand(&inner[from..], &all, found);
}

/// The code with `#[cfg(test)] mod name { ... }` taken out, and the lines where they are.
fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        let Some(open) = code[at..].find(['{', ';']).map(|open| at + open) else { continue };
        if !code[at + mark.len()..].trim_start().starts_with("mod ") || code[open..].starts_with(';') {
            continue;
        }
        let mut depth = 0;
        let end = code[open..].bytes().position(|byte| {
            depth += i32::from(byte == b'{') - i32::from(byte == b'}');
            depth == 0
        });
        let end = end.map_or(code.len(), |end| open + end + 1);
        let blank: String = code[at..end].chars().map(|it| if it == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(at..end, &blank);
    }
    out
}

#[cfg(test)]
fn found(order: &str, sources: &[(&str, &str)]) -> Vec<String> {
    let orders = orders(&format!("text\n```layers\n{order}\n```\nmore\n"));
    let file = |(path, text): &(&str, &str)| File { path: format!("c/{path}.rs"), text: (*text).into() };
    problems(&orders[0], &sources.iter().map(file).collect::<Vec<_>>())
}

#[test]
fn an_upward_import_is_found_however_it_is_written() {
    let order = "c: top > mid other > low";
    let fine = [
        ("lib", "mod top; mod mid; mod other; mod low;"),
        ("top", "use crate::mid::A;\nuse crate::{low::inner::B, other};"),
        ("mid", "use crate::other::C;"),
        ("other", "use crate::mid::A;"),
        ("low/mod", "pub(crate) use inner::B;\nmod inner;"),
        ("low/inner", "// use crate::top::T;\nlet a = \"crate::top::T\";\n"),
    ];
    assert_eq!(found(order, &fine), [] as [String; 0]);
    for upward in [
        "use crate::top::T;",
        "use crate::{mid, top::{self as above}};",
        "fn a() { crate::top::t() }",
        "use super::super::top::T;",
        "fn a() { super::super::mid::t() }",
        "pub(crate) use crate::mid::A;",
    ] {
        let mut sources = fine;
        sources[5].1 = upward;
        let found = found(order, &sources);
        assert!(
            !found.is_empty() && found[0].starts_with("c/low/inner.rs:1: imports "),
            "{upward}: {found:?}"
        );
    }
    let mut sources = fine;
    sources[5].1 = "fn a() {}\n#[cfg(test)]\nmod tests {\n use crate::top::T;\n fn b() {}\n}\n";
    assert_eq!(found(order, &sources), [] as [String; 0], "a test may look at what uses its subject");
    let in_a_file = [&sources[..], &[("low/tests", "use crate::top::T;")]].concat();
    assert_eq!(found(order, &in_a_file), [] as [String; 0], "also in a file of its own");
    sources[5].1 = "fn a() {}\n#[cfg(test)]\nmod tests;\nuse crate::top::T;";
    assert_eq!(found(order, &sources).len(), 1);
}

#[test]
fn a_room_of_a_crate_has_an_order_of_its_own() {
    let sources = [
        ("src/room/mod", "mod up; mod down;"),
        ("src/room/up", "use super::down::D;"),
        ("src/room/down", ""),
    ];
    let order = "c/src/room: up > down";
    assert_eq!(found(order, &sources), [] as [String; 0]);
    for upward in ["use super::up::U;", "use crate::room::up::U;"] {
        let mut sources = sources;
        sources[2].1 = upward;
        assert_eq!(found(order, &sources).len(), 1, "{upward}");
    }
}

#[test]
fn rooms_have_a_layer_and_layers_have_rooms() {
    assert_eq!(found("c: a > b", &[("lib", ""), ("a", ""), ("d/e", "")]).len(), 1);
    assert_eq!(found("elsewhere: a > b", &[("a", "")]).len(), 1);
    assert_eq!(orders("no block"), []);
    let paths: Vec<String> = orders("a\n```layers\nc: x\nd: y > z\n```\ne: no\n```layers\nf: x\n```\n")
        .into_iter()
        .map(|order| order.path)
        .collect();
    assert_eq!(paths, ["c", "d", "f"]);
}

#[test]
fn a_circle_of_many_files_is_found_and_names_that_are_shown_lead_to_where_they_are() {
    let ring = |count: usize| -> Vec<(String, String)> {
        (0..count).map(|at| (format!("a/f{at}"), format!("use super::f{};", (at + 1) % count))).collect()
    };
    let circle = |count: usize| {
        let ring = ring(count);
        let mut sources: Vec<(&str, &str)> = ring.iter().map(|(path, text)| (&path[..], &text[..])).collect();
        sources.push(("a/mod", "use f0::A;"));
        found("c: a", &sources)
    };
    assert_eq!(circle(CIRCLE_FILES_MAX), [] as [String; 0]);
    let one = circle(CIRCLE_FILES_MAX + 1);
    assert!(one.len() == 1 && one[0].contains("a::f0, a::f1"), "{one:?}");
    // Children that use what their folder defines, and a folder that shows what its children define: no circle.
    let shows = "pub(crate) use f0::{A, B};\npub(crate) use f1::C;\npub(crate) struct Own;";
    let children: Vec<(String, String)> =
        (0..9).map(|at| (format!("a/f{at}"), "use super::{Own, C};".to_owned())).collect();
    let mut sources: Vec<(&str, &str)> = children.iter().map(|(path, text)| (&path[..], &text[..])).collect();
    sources.push(("a/mod", shows));
    assert_eq!(found("c: a", &sources), [] as [String; 0]);
    sources.last_mut().expect("the folder").1 = "use f0::A;\nuse f2::A;\nuse f3::A;\nuse f4::A;\nuse f5::A;";
    assert_eq!(found("c: a", &sources), [] as [String; 0], "parts of one file");
    // Parts that use each other over their folder do.
    let beside = [
        ("a/mod", "use f0::A;"),
        ("a/f0", "use super::super::b::B;"),
        ("b", "use super::c::C;"),
        ("c", "use super::a::f0::A;"),
    ];
    assert_eq!(found("c: a b c", &beside).len(), 1);
}
