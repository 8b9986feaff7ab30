//! The public methods of the store, the transaction, the batch and the builders, and of their blocking mirrors: what the one has,
//! the other has.

use std::collections::BTreeSet;

use super::source::{self, File};

const BLOCKING: &str = "crates/claret/src/blocking.rs";

/// What is on one side alone, and why.
pub(crate) const ALONE: &[(&str, &str, &str)] = &[
    ("Store", "blocking", "makes the mirror"),
    ("Store", "in_memory", "`Store::in_memory().blocking()`"),
    ("Store", "builder", "`Store::builder().build().blocking()`"),
    ("Store", "cluster", "`blocking::Store::connect_with` takes what it makes"),
    ("Store", "connect_with", "async, the builder connects by itself"),
    ("Store", "backup_of", "of a folder and no store; it waits for nobody"),
];

/// What one side lacks.
pub(crate) fn problems(files: &[File], alone: &[(&str, &str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for kind in ["Store", "Tx", "Batch", "TxBuilder", "OnceBuilder"] {
        let (mut own, mut mirrored) = (BTreeSet::new(), BTreeSet::new());
        for file in files.iter().filter(|file| file.path.starts_with("crates/claret/src/")) {
            let is_mirror = file.path == BLOCKING;
            for (of, name) in public_methods(&file.text) {
                match of.strip_prefix("blocking::") {
                    Some(of) if of == kind => mirrored.insert(name),
                    None if of == kind && is_mirror => mirrored.insert(name),
                    None if of == kind => own.insert(name),
                    _ => false,
                };
            }
        }
        if own.is_empty() || mirrored.is_empty() {
            problems.push(format!("{kind}: its methods were not found"));
        }
        for name in own.symmetric_difference(&mirrored) {
            let lacks = if own.contains(name) { format!("blocking::{kind}") } else { kind.to_owned() };
            if !alone.iter().any(|(of, known, _)| *of == kind && known == name) {
                problems.push(format!("{lacks} lacks {name}"));
            }
        }
        for (_, name, _) in alone.iter().filter(|(of, _, _)| *of == kind) {
            if own.contains(*name) == mirrored.contains(*name) {
                problems.push(format!("{kind}::{name} is said to be on one side alone, and is not"));
            }
        }
    }
    problems
}

/// The methods that anybody may call, with the type whose `impl` has them. Implementations of traits have none of their own.
fn public_methods(text: &str) -> Vec<(String, String)> {
    // The builders borrow their store.
    let code =
        source::code(text).replace("impl<'a> ", "impl ").replace("<'a> {", " {").replace("<'_> {", " {");
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("impl ") {
        let begins = rest[..at].chars().next_back().is_none_or(char::is_whitespace);
        rest = &rest[at + "impl ".len()..];
        let Some(open) = rest.find('{').filter(|_| begins) else { continue };
        let of = rest[..open].trim();
        if of.is_empty() || of.contains(|it: char| !(it.is_alphanumeric() || it == '_' || it == ':')) {
            continue;
        }
        let body = &rest[open..];
        let names = body[..block_len(body)].split("pub ").skip(1).filter_map(|after| {
            let name = after.trim_start().trim_start_matches("async ").strip_prefix("fn ")?;
            name.split(|it: char| !(it.is_alphanumeric() || it == '_')).next()
        });
        found.extend(names.map(|name| (of.to_owned(), name.to_owned())));
    }
    found
}

/// The length of a block that begins with its brace.
fn block_len(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, next) in text.char_indices() {
        match next {
            '{' => depth += 1,
            '}' if depth == 1 => return at,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn found(store: &str, mirror: &str) -> Vec<String> {
        let rest = "impl Tx { pub fn same() {} }\nimpl Batch { pub fn same() {} }\nimpl<'a> TxBuilder<'a> { pub fn same() {} }\nimpl OnceBuilder<'_> { pub fn same() {} }\n";
        let (store, mirror) = (format!("{store}\n{rest}"), format!("{mirror}\n{rest}"));
        problems(&[file("crates/claret/src/store.rs", &store), file(BLOCKING, &mirror)], &ALONE[..0])
    }

    #[test]
    fn a_method_that_one_side_lacks_is_named() {
        let store = "impl Store {\n    /// impl Store { pub fn none() }\n    pub async fn a<T>(&self) { b { } }\n    pub fn b() {}\n    pub(crate) fn c() {}\n    fn d() {}\n}\nimpl Scope for Store { pub fn e() {} }\nimpl Store { pub fn f() {} }";
        assert_eq!(found(store, "impl Store { pub fn a() {} pub fn f() {} }"), ["blocking::Store lacks b"]);
        assert_eq!(
            found(store, "impl Store { pub fn a() {} pub fn b() {} pub fn f() {} pub fn g() {} }"),
            ["Store lacks g"]
        );
        assert_eq!(
            found(
                &format!("{store}\nimpl blocking::Store {{ pub fn b() {{}} }}"),
                "impl Store { pub fn a() {} pub fn f() {} }"
            ),
            [""; 0]
        );
    }

    #[test]
    fn an_exception_that_is_none_is_named() {
        let files = [
            file("crates/claret/src/store.rs", "impl Store { pub fn a() {} }"),
            file(BLOCKING, "impl Store { pub fn a() {} }"),
        ];
        let problems = problems(&files, &[("Store", "a", "")]);
        assert!(
            problems.contains(&"Store::a is said to be on one side alone, and is not".to_owned()),
            "{problems:?}"
        );
    }
}
