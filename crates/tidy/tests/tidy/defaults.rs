//! Defaults: whatever a page or a text of rustdoc calls one is the code's. A number beside the word *default* belongs to the option,
//! setting, field or method that is named with it; one that belongs to nothing is refused, too, so that none is left unread.

use std::collections::BTreeMap;

use super::source::{File, is_word};

/// Numbers that no code here decides: those of the servers themselves.
const SERVERS: &[&str] = &["timeout"];

/// Methods and options whose default is not a field of a `Default`: where it is, and what stands before it there.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("connect_timeout", "crates/redis/src/settings.rs", "const CONNECT_TIMEOUT: Duration = "),
    ("response_timeout", "crates/redis/src/settings.rs", "const RESPONSE_TIMEOUT: Duration = "),
    ("snapshot_after", "crates/claret/src/open.rs", "snapshot_after: "),
    ("watch_time", "crates/gateway/src/server.rs", "watch: "),
    ("drain_time", "crates/gateway/src/server.rs", "drain: "),
    ("--gateway-clients", "crates/cli/src/commands/check_store.rs", "self.gateway_clients.unwrap_or"),
];

/// Crates whose texts of rustdoc are read: what users of the library see.
const LIBRARIES: &[&str] = &[
    "crates/claret/src/",
    "crates/core/src/",
    "crates/gateway/src/",
    "crates/redis/src/",
    "crates/types/src/",
];

/// A number of the code: in nanoseconds if it is a time, else as it stands there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Value {
    number: u128,
    is_time: bool,
}

/// The defaults of the code by the names that pages use: `--watch-ms`, `claret.lease-ms`, `Limits::lease_us`, `lease_us`.
#[derive(Debug, Default)]
pub(crate) struct Defaults(BTreeMap<String, Vec<Value>>);

impl Defaults {
    /// Reads them from the sources, and settings from the page of commands, which the module makes.
    pub(crate) fn of(sources: &[File], commands: &str) -> Self {
        let mut found = Defaults::default();
        for file in sources.iter().filter(|file| file.path.contains("/src/")) {
            found.read_fields(&file.text);
        }
        for file in sources.iter().filter(|file| file.path.starts_with("crates/cli/src/commands/")) {
            found.read_options(&file.text);
        }
        for row in commands.lines().filter_map(|line| line.strip_prefix("| `claret.")) {
            if let Some((name, rest)) = row.split_once("` | ")
                && let Some(number) = rest.split(' ').next().and_then(|word| word.parse().ok())
            {
                found.add(format!("claret.{name}"), number, time_of(name));
            }
        }
        for (name, path, before) in ELSEWHERE {
            let text = sources.iter().find(|file| file.path == *path).map_or("", |file| &file.text);
            // Beside the value there may be a declaration, which is no number.
            let mut behind = text.split(before).skip(1).filter_map(|rest| rest.split([',', ';', '}']).next());
            let (number, is_time) = behind
                .find_map(|value| evaluate(value, ""))
                .unwrap_or_else(|| panic!("{path} has no `{before}` with a number"));
            found.add((*name).to_owned(), number, if is_time { Some(1) } else { None });
        }
        found
    }

    fn add(&mut self, name: String, number: u128, unit: Option<u128>) {
        let value = Value { number: number * unit.unwrap_or(1), is_time: unit.is_some() };
        self.0.entry(name).or_default().push(value);
    }

    /// `impl Default for X { .. X { field: 5, .. } }`.
    fn read_fields(&mut self, text: &str) {
        for part in text.split("impl Default for ").skip(1) {
            let Some((owner, rest)) = part.split_once(" {") else { continue };
            let body = rest.split("\n}\n").next().unwrap_or_default();
            for line in body.lines() {
                let Some((field, value)) = line.trim().split_once(": ") else { continue };
                let (Some(value), true) = (value.strip_suffix(','), field.chars().all(is_word)) else {
                    continue;
                };
                if let Some((number, is_duration)) = evaluate(value, text) {
                    let unit = if is_duration { Some(1) } else { time_of(field) };
                    self.add(format!("{owner}::{field}"), number, unit);
                    self.add(field.to_owned(), number, unit);
                }
            }
        }
    }

    /// `#[arg(.. default_value_t = 100)]`, and the field behind it.
    fn read_options(&mut self, text: &str) {
        for part in text.split("default_value_t = ").skip(1) {
            let value = part.split([')', ',']).next().unwrap_or_default();
            let value = if part[value.len()..].starts_with(')') && value.ends_with('(') {
                // `Limits::default().field`
                part[value.len() + 1..].split([')', ',']).next().unwrap_or_default()
            } else {
                value
            };
            let name = part
                .lines()
                .nth(1)
                .and_then(|line| line.trim().trim_start_matches("pub(crate) ").split_once(": "));
            let Some((name, _)) = name else { continue };
            let option = format!("--{}", name.replace('_', "-"));
            if let Some(known) = value.strip_prefix('.').and_then(|field| self.0.get(field)).cloned() {
                self.0.entry(option).or_default().extend(known);
            } else if let Some((number, _)) = evaluate(value, text) {
                self.add(option, number, time_of(name));
            }
        }
    }

    fn get(&self, name: &str) -> Option<&[Value]> {
        let name = name.trim_start_matches("claret::").trim_start_matches("crate::");
        self.0.get(name).map(Vec::as_slice)
    }
}

/// The nanoseconds of the unit in which a name ends, if that is one of time.
fn time_of(name: &str) -> Option<u128> {
    let mut parts = name.rsplit(['_', '-']).skip_while(|part| ["max", "min"].contains(part));
    match parts.next()? {
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        _ => None,
    }
}

/// What a simple expression comes to, and whether it is a `Duration`, in nanoseconds then. Constants are those of the text.
fn evaluate(expression: &str, text: &str) -> Option<(u128, bool)> {
    let expression = expression.trim().trim_start_matches('(').trim_end_matches(')');
    for (begin, unit) in [("Duration::from_secs(", 1_000_000_000), ("Duration::from_millis(", 1_000_000)] {
        if let Some(inner) = expression.strip_prefix(begin) {
            return evaluate(inner, text).map(|(number, _)| (number * unit, true));
        }
    }
    if let Some((left, right)) = expression.split_once(" << ") {
        return Some((evaluate(left, text)?.0 << evaluate(right, text)?.0, false));
    }
    if let Some((left, right)) = expression.split_once(" * ") {
        return Some((evaluate(left, text)?.0 * evaluate(right, text)?.0, false));
    }
    if !expression.is_empty() && expression.bytes().all(|it| it.is_ascii_uppercase() || it == b'_') {
        let (_, rest) = text.split_once(&format!("const {expression}: "))?;
        let (_, value) = rest.split_once(" = ")?;
        return evaluate(value.split(';').next()?, "");
    }
    Some((expression.replace('_', "").parse().ok()?, false))
}

/// A number as people write it, with its unit: `10,000`, `a minute`, `64 MiB`, `100 ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stated {
    number: u128,
    /// In nanoseconds, if it has one of time.
    time: Option<u128>,
}

impl Stated {
    fn is(&self, value: &Value) -> bool {
        match (self.time, value.is_time) {
            (Some(unit), true) => self.number * unit == value.number,
            // `claret.lease-ms` (10,000): in the unit of its name.
            (None, true) => [1_000, 1_000_000].iter().any(|unit| self.number * unit == value.number),
            (None, false) => self.number == value.number,
            (Some(unit), false) => self.number * unit == value.number * 1_000_000_000,
        }
    }
}

/// Reads the words of a number and its unit, from the first one on; how many they are.
fn stated(words: &[&str]) -> Option<(Stated, usize)> {
    let plain = |word: &str| word.trim_matches(['`', '(', ')', ',', '.', ';', ':', '*']).to_owned();
    let first = plain(words.first()?);
    let unit = words.get(1).map(|word| plain(word));
    let (time, size) = match unit.as_deref() {
        Some("us") => (Some(1_000), 1),
        Some("ms" | "milliseconds") => (Some(1_000_000), 1),
        Some("s" | "second" | "seconds") => (Some(1_000_000_000), 1),
        Some("minute" | "minutes") => (Some(60_000_000_000), 1),
        Some("hour" | "hours") => (Some(3_600_000_000_000), 1),
        Some("KiB") => (None, 1 << 10),
        Some("MiB") => (None, 1 << 20),
        Some("GiB") => (None, 1_u128 << 30),
        _ => (None, 0),
    };
    let number = if ["a", "an", "one"].contains(&&first.to_lowercase()[..]) && size > 0 {
        1
    } else {
        // Of 0.6 nothing here is made.
        first.replace(',', "").parse::<u128>().ok()?
    };
    Some((Stated { number: number * size.max(1), time }, if size > 0 { 2 } else { 1 }))
}

/// What is wrong with the defaults that a text states. `own` is what a text of rustdoc belongs to.
fn problems_of(place: &str, text: &str, own: Option<&str>, defaults: &Defaults) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut problems = Vec::new();
    for (from, to, number) in numbers(&words) {
        let named = names(&words[..from]).into_iter().rev().chain(own.map(str::to_owned));
        let named: Vec<String> = named.chain(names(&words[to..])).collect();
        if named.first().is_some_and(|name| SERVERS.contains(&&name[..])) {
            continue;
        }
        let Some((name, values)) = named.iter().find_map(|name| Some((name, defaults.get(name)?))) else {
            let around = words[from.saturating_sub(6)..(to + 3).min(words.len())].join(" ");
            problems
                .push(format!("{place}: \"{around}\": name the option or constant whose default this is"));
            continue;
        };
        if !values.iter().any(|value| number.is(value)) {
            problems.push(format!("{place}: the default of {name} is not {}", words[from..to].join(" ")));
        }
    }
    problems
}

/// The numbers that words call defaults, and where each begins and ends.
fn numbers(words: &[&str]) -> Vec<(usize, usize, Stated)> {
    let is = |at: usize, word: &str| {
        words
            .get(at)
            .is_some_and(|it| it.trim_matches(['(', ')', ',', '.', ';', ':', '|']).eq_ignore_ascii_case(word))
    };
    let mut found = Vec::new();
    for at in (0..words.len()).filter(|at| is(*at, "default")) {
        let (by, the) = (at > 0 && is(at - 1, "by"), at > 0 && is(at - 1, "the"));
        if !by && !the {
            continue;
        }
        // `10 seconds by default`, `10,000 (the default)`: the number ends right before. `the default 5` begins nothing.
        let before = (1..=2).rev().find_map(|back| {
            let from = (at - 1).checked_sub(back)?;
            let (number, taken) = stated(&words[from..at - 1])?;
            (taken == back).then_some((from, at - 1, number))
        });
        let behind = || {
            let (number, taken) = stated(&words[at + 1..]).filter(|_| by)?;
            Some((at + 1, at + 1 + taken, number))
        };
        found.extend(before.or_else(behind));
    }
    found
}

/// Names between backticks, without what an option takes: of `--watch-ms MS` the first word; of a link its last part.
fn names(words: &[&str]) -> Vec<String> {
    let text = words.join(" ");
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|name| Some(name.split([' ', '=', '(']).next()?.to_owned()))
        .filter(|name| !name.is_empty())
        .collect()
}

/// What is wrong in a page: each block by itself, a row of a table as well as a paragraph.
pub(crate) fn in_page(file: &File, defaults: &Defaults) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, block) in blocks(&file.text) {
        problems.extend(problems_of(&format!("{}:{line}", file.path), &block, None, defaults));
    }
    problems
}

/// Paragraphs, points and rows of a page, each in one line, with the line where it begins.
pub(crate) fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        let begins = line.starts_with('|') || line.trim_start().starts_with("- ") || line.starts_with('#');
        match found.last_mut() {
            Some((_, block)) if is_open && !begins => block.extend([" ", line]),
            _ => found.push((at + 1, line.to_owned())),
        }
        is_open = !line.trim().is_empty() && !line.starts_with('|');
    }
    found
}

/// What is wrong in the texts of rustdoc of a library.
pub(crate) fn in_rustdoc(file: &File, defaults: &Defaults) -> Vec<String> {
    if !LIBRARIES.iter().any(|library| file.path.starts_with(library)) {
        return Vec::new();
    }
    let (mut problems, mut text, mut owner) = (Vec::new(), String::new(), String::new());
    for (at, line) in file.text.lines().enumerate() {
        let code = line.trim();
        if let Some(more) = code.strip_prefix("///") {
            text.push(' ');
            text.push_str(more);
            continue;
        }
        let item = code.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        if let Some(name) = item.strip_prefix("struct ") {
            owner = name.chars().take_while(|it| is_word(*it)).collect();
        }
        if code.starts_with("#[") {
            continue;
        }
        let name = item.trim_start_matches("fn ").split(|it| !is_word(it)).next().unwrap_or_default();
        let own = if item.starts_with("fn ") { name.to_owned() } else { format!("{owner}::{name}") };
        problems.extend(problems_of(&format!("{}:{}", file.path, at + 1), &text, Some(&own), defaults));
        text.clear();
    }
    problems
}

#[cfg(test)]
fn known() -> Defaults {
    let source = "const DAY: Duration = Duration::from_secs(24 * 60 * 60);\nimpl Default for Limits {\n    fn default() -> Self {\n        \
        Limits {\n            lease_us: 10_000_000,\n            bytes_max: 64 << 20,\n            keep: DAY,\n        }\n    }\n}\n";
    let options = "#[arg(long, default_value_t = 100)]\nwatch_ms: u64,\n#[arg(long, default_value_t = Limits::default().bytes_max, x = y)]\nbytes: usize,\n";
    let mut found = Defaults::default();
    found.read_fields(source);
    found.read_options(options);
    found.add("claret.ordering".into(), 1, None);
    found
}

#[test]
fn defaults_are_read_from_code() {
    let found = known();
    let number = |name: &str| found.get(name).map(|values| (values[0].number, values[0].is_time));
    assert_eq!(number("Limits::lease_us"), Some((10_000_000_000, true)));
    assert_eq!(number("bytes_max"), Some((64 << 20, false)));
    assert_eq!(number("keep"), Some((86_400_000_000_000, true)));
    assert_eq!(number("--watch-ms"), Some((100_000_000, true)));
    assert_eq!(number("--bytes"), Some((64 << 20, false)));
    assert_eq!(number("--other"), None);
}

#[test]
fn defaults_that_are_another_ones_are_found() {
    let found = |text: &str| {
        let page = File { path: "p".into(), text: text.into() };
        in_page(&page, &known()).len()
    };
    for right in [
        "It waits for `--watch-ms MS` (100 by default).",
        "For `--watch-ms`, 0.1 s at\nmost, and `Limits::lease_us` (10 seconds by\ndefault).",
        "| `timeout` | `0` (the default) |",
        "`claret.ordering` says where: 1, the default, there",
        "By default 64 MiB of `bytes_max`.",
        "The default is good, and by default all 5 are there: `claret.ordering`.",
    ] {
        assert_eq!(found(right), 0, "{right}");
    }
    for wrong in [
        "It waits for `--watch-ms` (200 by default).",
        "`Limits::lease_us` (a minute by default).",
        "`claret.ordering` says where: 0, the default, there",
        "By default 32 MiB of `bytes_max`.",
        "Nobody knows of what: 7 by default.",
        "| `--watch-ms` | 5 |\n| `--other` | 100 (the default) |",
    ] {
        assert_eq!(found(wrong), 1, "{wrong}");
    }
    let rustdoc = |number: &str| File {
        path: "crates/core/src/limits.rs".into(),
        text: format!(
            "pub struct Limits {{\n    /// Bytes.\n    /// By default {number}.\n    pub bytes_max: usize,\n"
        ),
    };
    assert_eq!(in_rustdoc(&rustdoc("64 MiB"), &known()), [] as [&str; 0]);
    assert_eq!(in_rustdoc(&rustdoc("1 MiB"), &known()).len(), 1);
}
