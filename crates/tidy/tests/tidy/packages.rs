//! What a published crate needs: what a registry asks for, and to be whole, since a package has nothing of the folders around it.

use std::path::Path;

use super::source::File;

/// What the manifest of a package says, besides name and description.
const SAID: &[&str] = &[
    "description = ",
    "repository.workspace = true",
    "license.workspace = true",
    "rust-version.workspace = true",
    "readme = ",
    "keywords = ",
    "categories = ",
    "[package.metadata.docs.rs]",
];

/// Whether a crate is published: what is not says so.
fn is_published(manifest: &File) -> bool {
    !manifest.text.contains("\npublish = false")
}

/// What a manifest of a published crate lacks.
pub(crate) fn says_what_a_registry_asks(root: &Path, manifest: &File) -> Vec<String> {
    if !is_published(manifest) {
        return Vec::new();
    }
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let unsaid = SAID.iter().filter(|said| !manifest.text.contains(*said));
    let mut problems: Vec<String> = unsaid.map(|said| format!("{}: no `{said}`", manifest.path)).collect();
    if !root.join(folder).join("LICENSE").is_file() {
        problems.push(format!("{folder}LICENSE: a package has the licence's text"));
    }
    problems
}

/// Versions of the workspace's own crates: a registry takes no dependency by its path alone.
pub(crate) fn dependencies_have_versions(workspace: &File) -> Vec<String> {
    let own = workspace.text.lines().filter(|line| line.contains("{ path = \"crates/"));
    let without = own.filter(|line| !line.contains("version = \""));
    without.map(|line| format!("{}: `{line}` names no version", workspace.path)).collect()
}

/// Code of a library or program that is outside of its crate. (What only documentation tests read may be.)
///
/// Bug: the simulator named two modules by paths into other crates. Consequence: it could not be compiled from a registry, nor what
/// depends on it. Mend: links, which cargo follows when it packages; and this rule.
pub(crate) fn is_whole(source: &File) -> Vec<String> {
    let mut parts = source.path.split('/');
    let (Some("crates"), Some(_), Some("src")) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let depth = parts.count();
    let up = "../".repeat(depth + 1);
    let lines = source.text.lines().enumerate();
    let outside = lines.filter(|(_, line)| {
        let names_a_file = line.contains("#[path = \"") || line.contains("include") && line.contains("!(\"");
        names_a_file && line.contains(&up) && !line.trim_start().starts_with("#[doc = ")
    });
    outside.map(|(at, _)| format!("{}:{}: a package has no such file", source.path, at + 1)).collect()
}

#[test]
fn what_a_package_lacks_is_found() {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let bare = file("crates/a/Cargo.toml", "[package]\nname = \"a\"\ndescription = \"b\"\n");
    let problems = says_what_a_registry_asks(Path::new("/nowhere"), &bare);
    assert_eq!(problems.len(), SAID.len(), "all but the description, and the licence: {problems:?}");
    let own = file("crates/a/Cargo.toml", "[package]\nname = \"a\"\npublish = false\n");
    assert!(says_what_a_registry_asks(Path::new("/nowhere"), &own).is_empty());
    let workspace =
        file("Cargo.toml", "a = { path = \"crates/a\" }\nb = { path = \"crates/b\", version = \"1\" }\n");
    assert_eq!(dependencies_have_versions(&workspace).len(), 1);
    for (path, text, problems) in [
        ("crates/a/src/lib.rs", "#[path = \"../../b/x.rs\"]", 1),
        ("crates/a/src/lib.rs", "#[path = \"x/y.rs\"]", 0),
        ("crates/a/src/b/c.rs", "include_str!(\"../../data\")", 0),
        ("crates/a/src/b/c.rs", "include_bytes!(\"../../../data\")", 1),
        ("crates/a/src/lib.rs", "#[doc = include_str!(\"../../../README.md\")]", 0),
        ("crates/a/tests/b.rs", "#[path = \"../../b/x.rs\"]", 0),
    ] {
        assert_eq!(is_whole(&file(path, text)).len(), problems, "{path}: {text}");
    }
}
