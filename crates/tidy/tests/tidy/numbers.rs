//! Numbers by which comments and documents cite rules (P12, D3) and traps: each is defined, once, and each trap has a test.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{File, is_word, words};

/// Where rules are defined, by their letter: as `- **P12. Name.** text`.
pub(crate) const RULES: &[(char, &str)] = &[
    ('P', "docs/protocol.md"),
    ('C', "docs/combining.md"),
    ('B', "docs/batches.md"),
    ('S', "docs/replication.md"),
    ('O', "docs/optimistic.md"),
    ('N', "docs/nesting.md"),
    ('K', "docs/chains.md"),
    ('E', "docs/errands.md"),
    ('A', "docs/scripts.md"),
    ('D', "docs/durability.md"),
    ('G', "docs/gateway.md"),
];

/// Traps without a test, each with the reason.
pub(crate) const UNTESTED: &[(u32, &str)] = &[];

/// Rules and traps that documents define.
pub(crate) struct Defined {
    rules: BTreeSet<String>,
    traps: BTreeSet<u32>,
}

impl Defined {
    pub(crate) fn new(rules: impl IntoIterator<Item = String>, traps: &[Trap<'_>]) -> Self {
        Defined { rules: rules.into_iter().collect(), traps: traps.iter().map(|trap| trap.number).collect() }
    }
}

/// The rules that a document defines, with their lines; a number that is given twice is there twice.
pub(crate) fn rules(letter: char, document: &str) -> Vec<(usize, String)> {
    let definition = |(at, line): (usize, &str)| {
        let name = line.strip_prefix("- **")?.split_once('.')?.0.split_whitespace().next()?;
        is_rule(name).then(|| (at + 1, name.to_owned())).filter(|(_, name)| name.starts_with(letter))
    };
    document.lines().enumerate().filter_map(definition).collect()
}

/// `P12`, and nothing behind it.
fn is_rule(word: &str) -> bool {
    let letter = word.chars().next().filter(|letter| RULES.iter().any(|(known, _)| known == letter));
    letter.is_some() && is_number(&word[1..])
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit())
}

/// Rules that a document defines more than once.
pub(crate) fn doubled(path: &str, rules: &[(usize, String)]) -> Vec<String> {
    let is_second = |at: usize| rules[..at].iter().any(|(_, earlier)| *earlier == rules[at].1);
    let problem = |at: usize| format!("{path}:{}: {} is defined above, too", rules[at].0, rules[at].1);
    (0..rules.len()).filter(|at| is_second(*at)).map(problem).collect()
}

/// Rules that a page defines by a letter of which nobody knows ([`RULES`]), or that belongs to another page.
pub(crate) fn unknown_alphabets(page: &File) -> Vec<String> {
    let is_known =
        |name: &str| RULES.iter().any(|(letter, path)| name.starts_with(*letter) && *path == page.path);
    let definition = |(at, line): (usize, &str)| {
        let name = line.strip_prefix("- **")?.split_once(". ")?.0;
        let is_one = name.starts_with(|it: char| it.is_ascii_uppercase()) && is_number(name.get(1..)?);
        (is_one && !is_known(name)).then(|| {
            format!("{}:{}: {name}: another page has this letter, or none (RULES)", page.path, at + 1)
        })
    };
    page.text.lines().enumerate().filter_map(definition).collect()
}

/// Letters of which the architecture does not say where their rules are: `P [the protocol](docs/protocol.md)`.
pub(crate) fn alphabets_without_a_page(document: &str) -> Vec<String> {
    let document = document.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_missing = |(letter, path): &&(char, &str)| {
        let link = format!("]({path})");
        let of_letter = format!(" {letter} [");
        // The first link behind the letter.
        let is_it = |rest: &str| rest.find("](").is_some_and(|at| rest[at..].starts_with(&link));
        !document.split(&of_letter).skip(1).any(is_it)
    };
    let missing = RULES.iter().filter(is_missing);
    missing
        .map(|(letter, path)| format!("ARCHITECTURE.md: nothing says that rules {letter} are in {path}"))
        .collect()
}

/// What a file cites and nothing defines.
pub(crate) fn undefined(file: &File, defined: &Defined) -> Vec<String> {
    let line = |at: usize| 1 + file.text[..at].matches('\n').count();
    let mut problems = Vec::new();
    for (at, word) in words(&file.text) {
        let problem = if is_rule(word) && !defined.rules.contains(word) {
            "no document has such a rule"
        } else if has_suffix(word) {
            "rules have numbers without suffixes"
        } else if word.strip_prefix('R').is_some_and(is_number) {
            "no rules have this letter: ARCHITECTURE.md says which have"
        } else {
            continue;
        };
        problems.push(format!("{}:{}: {word}: {problem}", file.path, line(at)));
    }
    for (at, number) in cited_traps(&file.text) {
        if !defined.traps.contains(&number) {
            problems.push(format!("{}:{}: docs/traps.md has no trap {number}", file.path, line(at)));
        }
    }
    problems
}

/// `P12` and a letter.
fn has_suffix(word: &str) -> bool {
    word.strip_suffix(|it: char| it.is_ascii_lowercase()).is_some_and(is_rule)
}

/// The numbers of `trap 3`, of `traps 3, 5 and 8` (a line may end in between), and of `trap_03_name`.
fn cited_traps(text: &str) -> Vec<(usize, u32)> {
    let (mut found, mut behind) = (Vec::new(), None);
    for (at, word) in words(text) {
        let is_near = behind.is_some_and(|end: usize| text[end..at].chars().all(|it| " ,\n/!#".contains(it)));
        behind = if is_near && is_number(word) {
            found.extend(word.parse().map(|number| (at, number)));
            Some(at + word.len())
        } else if is_near && ["and", "to"].contains(&word)
            || ["trap", "traps", "Trap", "Traps"].contains(&word)
        {
            Some(at + word.len())
        } else {
            found.extend(trap_of(word).map(|number| (at, number)));
            None
        };
    }
    found
}

/// The trap after which a test or script is named.
fn trap_of(name: &str) -> Option<u32> {
    name.strip_prefix("trap_")?.split('_').next().filter(|number| is_number(number))?.parse().ok()
}

/// A row of docs/traps.md.
#[derive(Debug)]
pub(crate) struct Trap<'a> {
    pub(crate) number: u32,
    line: usize,
    /// Its cells behind the number: what breaks, the mend, tests, scripts.
    cells: [&'a str; 4],
}

/// The table of docs/traps.md.
pub(crate) fn traps(document: &str) -> Vec<Trap<'_>> {
    document.lines().enumerate().filter_map(|(at, line)| row(at + 1, line)).collect()
}

fn row(line: usize, text: &str) -> Option<Trap<'_>> {
    let cells: Vec<&str> = text.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let (number, cells) = cells.split_first()?;
    Some(Trap { number: number.parse().ok()?, line, cells: cells.try_into().ok()? })
}

impl Trap<'_> {
    /// Its tests: files, from the folder of the document, and names of functions.
    fn tests(&self) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        for list in self.cells[2].split("; ") {
            let (file, names) = list.split_once(": ").unwrap_or((list, ""));
            let path = file.split_once("](../").map_or(file, |(_, path)| path.trim_end_matches(')'));
            found.extend(names.split(", ").map(|name| (path, name.trim_matches('`'))));
        }
        found.retain(|(path, _)| !path.is_empty());
        found
    }

    fn problems(&self, files: &BTreeMap<&str, &File>, untested: &[(u32, &str)]) -> Vec<String> {
        let place = format!("docs/traps.md:{}: trap {}", self.line, self.number);
        let mut problems = Vec::new();
        if !words(self.cells[1]).any(|(_, word)| is_rule(word)) {
            problems.push(format!("{place} names no rule that mends it"));
        }
        let tests = self.tests();
        let is_excused = untested.iter().any(|(number, _)| *number == self.number);
        if tests.is_empty() != is_excused {
            problems.push(format!("{place} has {} tests (UNTESTED tells of those without one)", tests.len()));
        }
        for (path, name) in tests {
            let is_there = files.get(path).is_some_and(|file| has_test(&file.text, name));
            if !is_there {
                problems.push(format!("{place}: there is no test {name} in {path}"));
            }
        }
        problems
    }
}

fn has_test(text: &str, name: &str) -> bool {
    let test = format!("fn {name}(");
    text.match_indices(&test).any(|(at, _)| text[..at].trim_end().ends_with("#[test]"))
}

/// What is wrong with the table: rows in a wrong order, without a mend, without a test; tests and scripts that are named after a
/// trap, and are not in its row.
pub(crate) fn untested(traps: &[Trap<'_>], files: &[File], excused: &[(u32, &str)]) -> Vec<String> {
    let by_path: BTreeMap<&str, &File> = files.iter().map(|file| (&file.path[..], file)).collect();
    let mut problems = Vec::new();
    for (at, trap) in traps.iter().enumerate() {
        if trap.number as usize != at + 1 {
            problems.push(format!("docs/traps.md:{}: trap {} is not the next one", trap.line, trap.number));
        }
        problems.extend(trap.problems(&by_path, excused));
    }
    let listed = |number: u32, name: &str, cell: usize| {
        let trap = traps.iter().find(|trap| trap.number == number);
        trap.is_some_and(|trap| trap.cells[cell].split(['`', '/', ')']).any(|listed| listed == name))
    };
    for file in files {
        let script = file.path.rsplit('/').next().filter(|name| name.ends_with(".txt"));
        let scripts = script.map(|name| (name, 3));
        let tests =
            file.text.split("#[test]").skip(1).filter_map(|rest| rest.trim_start().strip_prefix("fn "));
        let tests = tests.filter_map(|rest| Some((rest.split(|it| !is_word(it)).next()?, 2)));
        for (name, cell) in scripts.into_iter().chain(tests) {
            if trap_of(name).is_some_and(|number| !listed(number, name, cell)) {
                problems.push(format!("{}: {name} is not in its row of docs/traps.md", file.path));
            }
        }
    }
    problems
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

#[test]
fn citations_of_what_nothing_defines_are_found() {
    let protocol =
        "- **P1. Two.** A\n- **P2. One** B\n  **P3. no**\n- **P1. Again.**\n- **C4. no**\n- **P-a. no**\n";
    let found = rules('P', protocol);
    assert_eq!(found, [(1, "P1".to_owned()), (2, "P2".to_owned()), (4, "P1".to_owned())]);
    assert_eq!(doubled("d", &found), ["d:4: P1 is defined above, too"]);

    let table = "| 1 | a | b | c | d |\n| 2 | a | b | c | d |\n";
    let defined = Defined::new(found.into_iter().map(|(_, name)| name), &traps(table));
    let lines = |text: &str| -> Vec<String> {
        let found = undefined(&file("f", text), &defined);
        found.iter().map(|it| it.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(lines("// P1, P2 (traps 1 and 2), p99, PING, 4P1\nfn trap_01_a() {}"), [] as [&str; 0]);
    let wrong = concat!("a\n// P", "3 C", "1\n// P", "2a\n// R", "2\n");
    assert_eq!(
        lines(wrong),
        [concat!("f:2 P", "3"), concat!("f:2 C", "1"), concat!("f:3 P", "2a"), concat!("f:4 R", "2")]
    );
    let wrong = concat!("// tr", "ap 3\n// (tr", "aps 1,\n// 4 and 2). 5\nfn tr", "ap_06_a() {}");
    assert_eq!(cited_traps(wrong).iter().map(|(_, number)| *number).collect::<Vec<_>>(), [3, 1, 4, 2, 6]);
    assert_eq!(lines(wrong).len(), 3);
}

#[test]
fn alphabets_that_nobody_knows_are_found() {
    let found = |path: &str, text: &str| unknown_alphabets(&file(path, text)).len();
    let text = "- **P1. Two.** A\n- **Note. No rule.** B\n- **A machine.** C\n";
    assert_eq!((found("docs/protocol.md", text), found("docs/other.md", text)), (0, 1));
    assert_eq!(found("docs/protocol.md", concat!("- **X", "1. Known to nobody.** A\n")), 1);
    let links: Vec<String> = RULES.iter().map(|(letter, path)| format!(": {letter}\n[a]({path})")).collect();
    assert_eq!(alphabets_without_a_page(&links.join(", ")), [] as [&str; 0]);
    assert_eq!(alphabets_without_a_page(&links[1..].join(", ")).len(), 1);
}

#[test]
fn traps_without_a_test_are_found() {
    let first = concat!("tr", "ap_01_a");
    let tests = file("t.rs", &format!("#[test]\nfn {first}() {{}}\nfn other() {{}}\n"));
    let script = file(concat!("s/tr", "ap_01_b.txt"), "");
    let files = [tests, script];
    let problems = |mend: &str, tests: &str, scripts: &str, excused: &[(u32, &str)]| {
        let table = format!(
            "| trap | x | x | x | x |\n|---|---|---|---|---|\n| 1 | a | {mend} | {tests} | {scripts} |\n"
        );
        untested(&traps(&table), &files, excused)
    };
    let row = format!("[t.rs](../t.rs): `{first}`");
    let link = concat!("[b](../s/tr", "ap_01_b.txt)");
    assert_eq!(problems("P1", &row, link, &[]), [] as [&str; 0]);
    assert_eq!(problems("none", &row, link, &[]).len(), 1);
    assert_eq!(problems("P1", &row, "", &[]).len(), 1);
    assert_eq!(problems("P1", "", link, &[]).len(), 2, "no test, and one that is not listed");
    assert_eq!(problems("P1", "", link, &[(1, "why")]).len(), 1, "the one that is not listed");
    assert_eq!(problems("P1", &row, link, &[(1, "why")]).len(), 1, "it has one");
    assert_eq!(problems("P1", &format!("{row}, `other`, `gone`"), link, &[]).len(), 2);
}
