//! The catalogue is well-formed, its tests are there, and `CATALOGUE.md` has the same table: `UPDATE=1` writes that.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use claret_planted::{Bug, Room, Test, table};

const BEGIN: &str = "<!-- The catalogue of the hosts: written by `UPDATE=1 cargo test --workspace --test planted page`. -->\n";
const END: &str = "<!-- Its end. -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_page_has_the_table_of_the_catalogue() {
    let path = root().join("crates/planted/CATALOGUE.md");
    let page = fs::read_to_string(&path).expect("it is there");
    let (before, rest) = page.split_once(BEGIN).expect("where the table begins");
    let (now, after) = rest.split_once(END).expect("where it ends");
    let wanted = format!("\n{}", table());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).expect("written");
        return;
    }
    assert!(
        now == wanted,
        "crates/planted/CATALOGUE.md is not current: UPDATE=1 cargo test --workspace --test planted page"
    );
}

#[test]
fn every_bug_has_a_name_of_its_own_and_is_seen_or_argued() {
    let names: HashSet<String> = Bug::ALL.iter().map(|bug| bug.name()).collect();
    assert_eq!(names.len(), Bug::ALL.len());
    for bug in Bug::ALL {
        assert_eq!(Bug::parse(&bug.name()), Some(*bug));
        assert!(bug.what().ends_with('.') && !bug.what().contains('|'), "{bug:?}");
        assert_eq!(
            bug.tests().is_empty(),
            bug.survives().is_some(),
            "{bug:?}: it is seen, or it is said why not"
        );
    }
    assert_eq!(Bug::parse("none"), None);
}

#[test]
fn each_room_has_enough_of_them() {
    for room in Room::ALL {
        let count = Bug::ALL.iter().filter(|bug| bug.room() == *room).count();
        assert!(count >= 15, "{room:?}: {count}");
    }
    assert!(Bug::ALL.len() >= 80);
}

/// A bug that nobody plants proves nothing.
#[test]
fn every_bug_is_planted_somewhere() {
    let code: String = [
        "crates/claret/src",
        "crates/redis/src",
        "crates/log/src",
        "crates/module/src",
        "crates/commands/src",
        "crates/gateway/src",
    ]
    .iter()
    .flat_map(|folder| sources(&root().join(folder)))
    .map(|(_, text)| text)
    .collect();
    for bug in Bug::ALL {
        let is_planted = format!("Bug::{bug:?}");
        let is_there = code.match_indices(&is_planted).any(|(at, _)| {
            // Not one whose name begins so.
            !code[at + is_planted.len()..].starts_with(char::is_alphanumeric)
        });
        assert!(is_there, "{bug:?} is at no line");
    }
}

#[test]
fn every_test_that_is_named_is_there() {
    for test in Bug::ALL.iter().flat_map(|bug| bug.tests()) {
        let Test { package, part, name, .. } = test;
        let folder = root().join("crates").join(package);
        let code = match part {
            "lib" => sources(&folder.join("src")),
            part => {
                let mut code = sources(&folder.join("tests").join(package));
                code.retain(|(path, _)| {
                    path.starts_with(part) || *path == Path::new(part).with_extension("rs")
                });
                code
            }
        };
        let is_there = code.iter().any(|(_, text)| text.contains(&format!("fn {name}(")));
        assert!(is_there, "{package}/{part} has no test {name}");
    }
}

/// All Rust files below a folder, by their paths from there.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let inside = path.strip_prefix(folder).expect("below the folder").to_owned();
                found.push((inside, fs::read_to_string(&path).expect("text")));
            }
        }
    }
    found
}
