//! Claims of pages that code decides: versions, modes, bounds of the style, how long the check takes, and that something is not
//! there. Each is compared with the code, so that a page does not outlive what it says.

use super::defaults::blocks;
use super::source::File;

/// What nobody may say, since the code has it: words that deny it, in which file it is, and by which words.
const DENIED: &[(&[&str], &str, &str)] = &[
    (
        &[
            "no strict mode",
            "without a strict mode",
            "not have a strict mode",
            "as durable as Redis is, and no more",
            "as durable as any write in Redis, and no more",
            "Both hosts keep votes and refusals in memory",
            "whatever `appendfsync` says",
        ],
        "crates/module/src/node/settings.rs",
        "\"strict\"",
    ),
    (
        &["Real stores do not have it", "not ordered on real"],
        "crates/module/src/node/settings.rs",
        "\"ordering\"",
    ),
    (&["([`Store::in_memory`]), or on a Redis"], "crates/claret/src/open.rs", "pub fn open("),
    (&["no gateway", "without a gateway there"], "crates/gateway/src/server.rs", "pub struct Gateway"),
    (&["no savepoints", "no nested transactions"], "crates/claret/src/tx/levels.rs", "fn open("),
    (
        &["nothing above asks which", "asks which host it is"],
        "crates/claret/src/backend.rs",
        "fn checks_answers(",
    ),
];

/// Words by which a page says that something is missing for now.
const MISSING: &[&str] = &[
    "there is no ",
    "there are no ",
    "has no ",
    "have no ",
    "do not have ",
    "does not have ",
    "is not on ",
    "cannot yet",
];

/// Sentences that say so, read and found true: path, and words of each. An entry is gone when its sentence is.
const NOT_YET: &[(&str, &str)] = &[
    ("README.md", "is not on crates.io yet"),
    ("docs/stability.md", "no promise yet of how long a version is supported"),
    ("docs/schemas.md", "that joins the cluster has no schema yet"),
    ("docs/types.md", "cannot yet say that rounding does not matter"),
];

/// A document's text in one line of words.
fn flat(text: &str) -> String {
    let words: Vec<&str> =
        text.split_whitespace().filter(|word| !["//!", "///", "//", "|"].contains(word)).collect();
    words.join(" ")
}

/// Pages and comments that deny what is there, and entries of the list whose thing is gone.
pub(crate) fn denials(pages: &[File], sources: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for (denials, path, is_there) in DENIED {
        if !sources.iter().any(|file| file.path == *path && file.text.contains(is_there)) {
            problems.push(format!("{path} has no {is_there} any more: may pages say now {denials:?}?"));
        }
    }
    for file in pages.iter().chain(sources).filter(|file| !file.path.starts_with("crates/tidy/")) {
        let text = flat(&file.text);
        for (denials, path, _) in DENIED {
            for denial in denials.iter().filter(|denial| text.contains(**denial)) {
                problems.push(format!("{}: \"{denial}\": it is there ({path})", file.path));
            }
        }
    }
    problems
}

/// Sentences of pages that say of something that it is not there yet, and nobody has listed.
pub(crate) fn missing(pages: &[File], listed: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut met = vec![false; listed.len()];
    for page in pages {
        let blocks = blocks(&page.text);
        let sentences = blocks.iter().flat_map(|(_, block)| block.split(". "));
        for sentence in sentences.filter(|it| it.split([' ', '.', ',', ':']).any(|word| word == "yet")) {
            let lower = sentence.to_lowercase();
            if !MISSING.iter().any(|words| lower.contains(words)) {
                continue;
            }
            let known =
                listed.iter().position(|(path, words)| *path == page.path && sentence.contains(words));
            match known {
                Some(at) => met[at] = true,
                None => {
                    problems.push(format!("{}: \"{sentence}\": if that is so, list it (NOT_YET)", page.path))
                }
            }
        }
    }
    let gone = listed.iter().zip(met).filter(|(_, met)| !met);
    problems
        .extend(gone.map(|((path, words), _)| format!("{path} does not say \"{words}\" any more (NOT_YET)")));
    problems
}

/// The text between two others.
pub(crate) fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.split_once(begin)?.1.split_once(end).map(|(inner, _)| inner)
}

/// Numbers that stand in a text between two others, the second of which may be empty.
fn numbers<'a>(text: &'a str, before: &str, behind: &'a str) -> impl Iterator<Item = &'a str> {
    let of = move |(at, found): (usize, &str)| {
        let rest = &text[at + found.len()..];
        let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len());
        let number = rest[..end].trim_end_matches('.');
        (!number.is_empty() && rest[number.len()..].starts_with(behind)).then_some(number)
    };
    text.match_indices(before).filter_map(of).collect::<Vec<_>>().into_iter()
}

/// Phrases with a number, and what it has to be.
pub(crate) struct Numbered {
    /// What the number is, for people.
    pub(crate) what: &'static str,
    /// What stands before it and behind it.
    pub(crate) forms: &'static [(&'static str, &'static str)],
    /// What it has to be, one of these.
    pub(crate) right: Vec<String>,
    /// A page that has to say it.
    pub(crate) page: &'static str,
}

impl Numbered {
    pub(crate) fn problems(&self, pages: &[File]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut is_said = false;
        for page in pages {
            let text = flat(&page.text);
            for number in self.forms.iter().flat_map(|(before, behind)| numbers(&text, before, behind)) {
                is_said |= page.path == self.page;
                if !self.right.iter().any(|right| right == number) {
                    problems.push(format!(
                        "{}: {} is {}, not {number}",
                        page.path,
                        self.what,
                        self.right.join(" or ")
                    ));
                }
            }
        }
        if !is_said {
            problems.push(format!("{} does not say {} in a form that this test knows", self.page, self.what));
        }
        problems
    }
}

/// The changelog's newest version of the wire, which has to be the code's.
pub(crate) fn newest(changes: &str, forms: &[(&str, &str)], right: &str) -> Vec<String> {
    let text = flat(changes);
    let all = forms.iter().flat_map(|(before, behind)| numbers(&text, before, behind));
    let newest = all.filter_map(|number| number.parse::<u32>().ok()).max();
    if newest == right.parse().ok() {
        return Vec::new();
    }
    vec![format!(
        "CHANGELOG.md: the newest version of the wire there is {newest:?}, and the code's is {right}"
    )]
}

/// What stands right before words in a text, as a number: `100 attempts`.
pub(crate) fn counted(pages: &[File], unit: &str, right: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for page in pages {
        let text = flat(&page.text);
        for (at, _) in text.match_indices(unit) {
            let word = text[..at].trim_end().rsplit([' ', '(']).next().unwrap_or_default();
            if !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit()) && word != right {
                problems.push(format!("{}: {word}{unit}: the default is {right}", page.path));
            }
        }
    }
    problems
}

/// How long the whole check takes stands in one place, as `./check` writes it.
pub(crate) fn durations_of_the_check(pages: &[File], script: &str) -> Vec<String> {
    const PLACE: &str = "CONTRIBUTING.md";
    const FORM: (&str, &str) = ("`./check` last took ", " minutes");
    let mut problems = Vec::new();
    for page in pages {
        let text = flat(&page.text);
        let said = numbers(&text, FORM.0, FORM.1).count();
        let others = text.split(". ").filter(|sentence| {
            sentence.contains("`./check`") && sentence.contains("minutes") && !sentence.contains(FORM.0)
        });
        problems.extend(
            others
                .map(|it| format!("{}: how long the check takes is said in {PLACE} alone: {it}", page.path)),
        );
        if said != usize::from(page.path == PLACE) {
            problems.push(format!("{}: says {said} times how long `./check` last took", page.path));
        }
    }
    if !script.contains("last took") {
        problems.push("check: --record no longer writes how long it took".to_owned());
    }
    problems
}

/// Names of modes that no row of a page explains, as its first cell or in a list of names there, or the help of the program not.
pub(crate) fn modes(source: &str, help: &str, page: &File) -> Vec<String> {
    let names = source.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut problems = Vec::new();
    let mut count = 0;
    for name in names {
        count += 1;
        let mut first_cells = page.text.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
        if !first_cells.any(|cell| cell.contains(&format!("`{name}`"))) {
            problems.push(format!("{}: no row of a table has the mode {name}", page.path));
        }
        if !help.contains(&format!("\n  {name} ")) {
            problems.push(format!("the help of claret bench does not name the mode {name}"));
        }
    }
    if count < 10 {
        problems.push("the modes have moved".to_owned());
    }
    problems
}

/// What the list allows to be missing.
pub(crate) fn not_yet() -> &'static [(&'static str, &'static str)] {
    NOT_YET
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

#[test]
fn denials_of_what_is_there_are_found() {
    let there: Vec<File> = DENIED.iter().map(|(_, path, text)| file(path, text)).collect();
    let found = |text: &str| denials(&[file("p.md", text)], &there);
    assert_eq!(found("There is a strict mode."), [] as [&str; 0]);
    assert_eq!(
        found("There is no\nstrict mode."),
        ["p.md: \"no strict mode\": it is there (crates/module/src/node/settings.rs)"]
    );
    assert_eq!(
        denials(&[], &[file("a.rs", "//! Sends what is as durable as\n//! Redis is, and no more.")]).len(),
        1 + DENIED.len()
    );
    assert_eq!(denials(&[], &there[1..]).len(), 1, "what is gone may be denied");
}

#[test]
fn what_is_said_to_be_missing_is_listed() {
    let listed = [("p.md", "no wings yet")];
    let found = |text: &str| missing(&[file("p.md", text)], &listed);
    assert_eq!(found("It has no wings yet. Nobody knows yet."), [] as [&str; 0]);
    assert_eq!(found("It has no wings yet. There is no roof\nyet.").len(), 1);
    assert_eq!(found("It flies.").len(), 1, "an entry that is not needed");
}

#[test]
fn numbers_that_are_not_the_codes_are_found() {
    let version = |right: &str| Numbered {
        what: "the version",
        forms: &[("speaks version ", " of the wire"), ("number ", ", `VERSION`")],
        right: vec![right.to_owned()],
        page: "p.md",
    };
    let page = [file(
        "p.md",
        "It speaks version 12 of\nthe wire. It is number 12, `VERSION`, of version 3 of the world.",
    )];
    assert_eq!(version("12").problems(&page), [] as [&str; 0]);
    assert_eq!(version("13").problems(&page).len(), 2);
    assert_eq!(version("12").problems(&[file("p.md", "It speaks.")]).len(), 1, "nobody says it");
    let changes = "Version 7 of the wire is new. They speak version 13\nof the protocol.";
    let forms = [("ersion ", " of the protocol"), ("ersion ", " of the wire")];
    assert_eq!((newest(changes, &forms, "13").len(), newest(changes, &forms, "14").len()), (0, 1));
    let tries = [file("p.md", "100 attempts, 8.6 attempts, (99\nattempts) and many attempts")];
    assert_eq!(counted(&tries, " attempts", "100"), ["p.md: 99 attempts: the default is 100"]);
}

#[test]
fn modes_that_no_page_explains_are_found() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "none"];
    let source: String = names.iter().map(|name| format!("Mode {{ name: \"{name}\", x }}\n")).collect();
    let help: String = names.iter().map(|name| format!("\n  {name}  does it")).collect();
    let rows: Vec<String> = names.iter().map(|name| format!("| `{name}`, `x` | does it |")).collect();
    let found = |rows: &[String], help: &str| modes(&source, help, &file("p.md", &rows.join("\n")));
    assert_eq!(found(&rows, &help), [] as [&str; 0]);
    assert_eq!(found(&rows[1..], &help), ["p.md: no row of a table has the mode a"]);
    assert_eq!(
        found(&rows, &help.replace("  none", "")),
        ["the help of claret bench does not name the mode none"]
    );
    assert_eq!(modes("", &help, &file("p.md", "")), ["the modes have moved"]);
}

#[test]
fn a_second_duration_of_the_check_is_found() {
    let pages = |more: &str| {
        [
            file("CONTRIBUTING.md", "On two cores `./check` last took 51 minutes (2 tests)."),
            file("p.md", more),
        ]
    };
    assert_eq!(
        durations_of_the_check(&pages("Run `./check`. It takes minutes."), "last took"),
        [] as [&str; 0]
    );
    assert_eq!(durations_of_the_check(&pages("With `./check` it is 14 minutes."), "last took").len(), 1);
    assert_eq!(durations_of_the_check(&pages("`./check` last took 5 minutes"), "last took").len(), 1);
    assert_eq!(durations_of_the_check(&pages("")[1..], "").len(), 1);
}
