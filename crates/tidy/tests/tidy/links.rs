//! Links in documents: files that are there, headings that are there. Addresses on the web are not looked at.

use std::path::Path;

use super::source::File;

/// What is wrong with a document's links.
pub(crate) fn broken(root: &Path, file: &File) -> Vec<String> {
    let folder = root.join(&file.path).parent().expect("it is in a folder").to_path_buf();
    let mut problems = Vec::new();
    for (line, target) in targets(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let there = if path.is_empty() { root.join(&file.path) } else { folder.join(path) };
        let problem = if !there.exists() {
            "there is no such file"
        } else if !heading.is_empty() && !has_heading(&there, heading) {
            "there is no such heading"
        } else {
            continue;
        };
        problems.push(format!("{}:{line}: {target}: {problem}", file.path));
    }
    problems
}

/// The targets of `[text](target)`, with their lines. Code blocks have none.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in prose(text) {
        let mut rest = line;
        while let Some((_, tail)) = rest.split_once("](") {
            let Some((target, tail)) = tail.split_once(')') else { break };
            found.push((at, target));
            rest = tail;
        }
    }
    found
}

/// Lines outside code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((at + 1, line))
    })
}

fn has_heading(path: &Path, wanted: &str) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut headings = prose(&text).filter(|(_, line)| line.starts_with('#'));
    headings.any(|(_, line)| anchor(line.trim_start_matches('#').trim()) == wanted)
}

/// A heading's anchor, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.flat_map(char::to_lowercase).map(|it| if it == ' ' { '-' } else { it }).collect()
}

#[test]
fn broken_links_are_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = "# Two `words`, here\n[a](Cargo.toml) [b](no.md)\n```\n[c](no.md)\n```\n[d](#two-words-here)\n\
        [e](#three)\n[f](https://example.org/no)\n";
    let in_memory = File { path: "Cargo.toml".into(), text: text.into() };
    let broken = broken(root, &in_memory);
    assert_eq!(broken.len(), 3, "{broken:?}");
    assert!(broken[0].starts_with("Cargo.toml:2: no.md: "));
    assert_eq!(anchor("Two `words`, here"), "two-words-here");
}
