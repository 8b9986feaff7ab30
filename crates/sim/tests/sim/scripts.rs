//! The scripts of `testdata`: each must come to what is written in it. `UPDATE=1` writes down what it comes to.

use std::fs;
use std::path::{Path, PathBuf};

use claret_sim::script;

/// Lines shown around a difference.
const LINES_AROUND: usize = 3;

fn scripts() -> Vec<PathBuf> {
    let mut paths = scripts_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata"));
    paths.sort();
    paths
}

/// Those of a way to commit have a folder of its name.
fn scripts_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the scripts are there");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let of_path = |path: PathBuf| match path.is_dir() {
        true => scripts_in(&path),
        false if path.extension().is_some_and(|it| it == "txt") => vec![path],
        false => Vec::new(),
    };
    paths.flat_map(of_path).collect()
}

/// What is wrong with a script, if something is; accepts what it comes to if told so.
fn fault(path: &Path, accepts: bool) -> Option<String> {
    let name = path.file_name().expect("a file").to_string_lossy();
    let written = fs::read_to_string(path).expect("text");
    let played = script::play(&written);
    if let Some(error) = played.error {
        return Some(format!("{name}: {error}"));
    }
    if played.transcript == written {
        return None;
    }
    if accepts {
        fs::write(path, played.transcript).expect("the scripts can be written");
        return None;
    }
    Some(format!(
        "{name} comes to something else ('-' is written, '+' is played):\n{}",
        difference(&written, &played.transcript)
    ))
}

/// The lines between what two texts begin with and end with together, and some around.
fn difference(written: &str, played: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (written.lines().collect(), played.lines().collect());
    let shorter = old.len().min(new.len());
    let front = (0..shorter).take_while(|at| old[*at] == new[*at]).count();
    let back =
        (0..shorter - front).take_while(|at| old[old.len() - 1 - at] == new[new.len() - 1 - at]).count();
    let begin = front.saturating_sub(LINES_AROUND);
    let end = (old.len() - back + LINES_AROUND).min(old.len());
    let mut lines = vec![format!("line {}:", begin + 1)];
    lines.extend(old[begin..front].iter().map(|line| format!("  {line}")));
    lines.extend(old[front..old.len() - back].iter().map(|line| format!("- {line}")));
    lines.extend(new[front..new.len() - back].iter().map(|line| format!("+ {line}")));
    lines.extend(old[old.len() - back..end].iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

#[test]
fn scripts_come_to_what_is_written_in_them() {
    let accepts = std::env::var_os("UPDATE").is_some();
    let faults: Vec<String> = scripts().iter().filter_map(|path| fault(path, accepts)).collect();
    assert!(
        faults.is_empty(),
        "\n{}\n\nIf that is as it should be, accept it and read what changed:\n  \
         UPDATE=1 cargo test -p claret-sim --test sim scripts\n  git diff crates/sim/testdata\n",
        faults.join("\n\n")
    );
}

#[test]
fn every_script_tells_its_story_first_and_is_short() {
    let scripts = scripts();
    assert!(scripts.len() >= 22, "{} scripts", scripts.len());
    for path in scripts {
        let text = fs::read_to_string(&path).expect("text");
        assert!(text.starts_with("# "), "{}: begin with what it is about", path.display());
        assert!(text.lines().count() < 100, "{}: too long to be read", path.display());
    }
}

#[test]
fn a_difference_is_shown_with_what_is_around() {
    let text = difference("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nx\ny\nf\ng\nh\n");
    assert_eq!(text, "line 2:\n  b\n  c\n  d\n- e\n+ x\n+ y\n  f\n  g\n  h");
    assert_eq!(difference("a\n", "a\nb\n"), "line 1:\n  a\n+ b");
}
