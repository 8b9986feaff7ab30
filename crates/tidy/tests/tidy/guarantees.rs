//! `docs/guarantees.md` names the test behind what it promises, and `FOUND.md` of this crate those that see a bug again: each is in
//! the sources.

use std::collections::BTreeSet;

use super::source::File;

/// Names of tests that a document has between backticks, and no source defines.
pub(crate) fn untested(document: &str, sources: &[File]) -> Vec<String> {
    let is_name = |word: &&str| {
        word.matches('_').count() >= 2
            && word.bytes().all(|it| it == b'_' || it.is_ascii_lowercase() || it.is_ascii_digit())
    };
    let named: BTreeSet<&str> = document.split('`').skip(1).step_by(2).filter(is_name).collect();
    let is_there = |name: &str| {
        let begin = format!("fn {name}(");
        sources.iter().any(|file| file.text.contains(&begin))
    };
    named.into_iter().filter(|name| !is_there(name)).map(|name| format!("no test is named {name}")).collect()
}

#[test]
fn names_of_tests_that_are_not_there_are_found() {
    let file = File { path: "a.rs".into(), text: "fn it_is_there() {}".into() };
    let document = "| `it_is_there`, `it_is_gone` | `claret.replica-ms`, `snake_case` |";
    assert_eq!(untested(document, &[file]), ["no test is named it_is_gone"]);
}
