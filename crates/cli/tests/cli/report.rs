//! `claret report`: one file that is complete and needs nothing else, and that takes the place of nothing but a report.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use roxmltree::{Document, Node, ParsingOptions};

const FIGURES: [&str; 11] = ["5", "6", "7", "8", "9", "10", "11", "12", "13", "w1", "w4"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.args(arguments);
    command
}

fn claret(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("there").map(|it| it.expect("a name").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// A directory of its own, with nothing in it.
fn directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("claret-report-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory");
    dir
}

fn count(node: Node<'_, '_>, name: &str) -> usize {
    node.descendants().filter(|it| it.tag_name().name() == name).count()
}

/// `--tiny` measures for no time worth mentioning; all else is as in a real report.
#[test]
fn a_report_is_one_file_with_every_figure_and_its_tables() {
    let dir = directory("whole");
    let path = dir.join("report.html");
    let out = path.to_str().expect("text");
    let output = claret(&["report", "--quick", "--tiny", "--store", "sim", "--out", out]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains(" left"), "it says how far it is");
    assert_eq!(names(&dir), ["report.html"], "nothing is left beside it");

    let text = fs::read_to_string(&path).expect("written");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).expect("well-formed");
    let by_id =
        |id: &str| document.descendants().find(|node| node.attribute("id") == Some(id)).expect("there");
    for figure in FIGURES {
        let section = by_id(&format!("figure-{figure}"));
        let (drawings, tables) = (count(section, "svg"), count(section, "table"));
        assert!(drawings >= 1 && tables >= drawings, "figure {figure}: {drawings} drawings, {tables} tables");
    }
    for node in document.descendants() {
        assert!(!["script", "link", "img", "iframe", "object"].contains(&node.tag_name().name()), "{node:?}");
        assert!(node.attribute("src").is_none() && node.attribute("href").is_none(), "{node:?}");
    }
    let (said, measured) = (by_id("conclusions").range().start, by_id("setting").range().start);
    assert!(said < measured, "what to conclude comes first");
    assert!(!text.contains("url(") && !text.contains("@import") && !text.contains("NaN"));
    for word in [
        "read from the text",
        "virtual time",
        "seed",
        " cores",
        env!("CARGO_PKG_VERSION"),
        "ratios are as large",
    ] {
        assert!(text.contains(word), "no '{word}'");
    }
    fs::remove_dir_all(&dir).expect("made above");
}

#[test]
fn only_a_report_is_overwritten() {
    let dir = directory("refused");
    let path = dir.join("notes.html");
    fs::write(&path, "<html>my notes</html>").expect("written");
    let (out, below) = (path.to_str().expect("text"), dir.join("none/report.html"));
    let dir_name = dir.to_str().expect("text");
    for (arguments, named) in [
        (&["--out", out][..], &["notes.html", "--force"][..]),
        (&["--out", dir_name], &[dir_name, "directory"]),
        (&["--out", below.to_str().expect("text")], &["no directory", "none"]),
        (&["--out", out, "--force", "--store", "embedded"], &["embedded", "sim"]),
        (&["--out", out, "--force", "--store", "disk"], &["'disk'"]),
        (&["--out", out, "--force", "--svg", out], &["--svg", "notes.html"]),
        (&["--out", out, "--force", "--store", "redis://127.0.0.1:1"], &["127.0.0.1:1"]),
    ] {
        let output = claret(&[&["report", "--tiny"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(named.iter().all(|name| error.contains(name)), "{arguments:?}: {error}");
    }
    assert_eq!(fs::read_to_string(&path).expect("there"), "<html>my notes</html>");
    fs::remove_dir_all(&dir).expect("made above");
}

/// A cluster is for whoever has a server program; who asks for one is told what is missing.
#[test]
fn without_a_server_program_the_model_is_drawn_alone() {
    let dir = directory("alone");
    let path = dir.join("report.html");
    let out = path.to_str().expect("text");
    let without = |arguments: &[&str]| {
        let mut command = command(&[&["report", "--tiny", "--out", out], arguments].concat());
        command.env("CLARET_SERVER", "/nowhere/redis-server").output().expect("the program starts")
    };
    let output = without(&["--store", "cluster"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("/nowhere/redis-server"), "{error}");

    let output = without(&[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("the model only"), "{said}");
    let text = fs::read_to_string(&path).expect("written");
    assert!(text.contains("No cluster was measured") && text.contains("redis-server"));
    assert!(!text.contains("Servers, in real time"));
    fs::remove_dir_all(&dir).expect("made above");
}

#[test]
fn a_cluster_is_started_and_stands_beside_the_model() {
    let dir = directory("cluster");
    let path = dir.join("report.html");
    let drawings = dir.join("figures");
    let (out, svg) = (path.to_str().expect("text"), drawings.to_str().expect("text"));
    let output = claret(&["report", "--tiny", "--store", "cluster", "--out", out, "--svg", svg]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&path).expect("written");
    for word in ["Servers, in real time", "redis-lock", "4 shards", "our servers"] {
        assert!(text.contains(word), "no '{word}'");
    }
    for name in ["published.svg", "skew.svg"] {
        let drawing = fs::read_to_string(drawings.join(name)).expect("written");
        Document::parse(&drawing).expect("well-formed");
    }
    assert_eq!(names(&drawings).len(), 2);
    fs::remove_dir_all(&dir).expect("made above");
}

#[test]
fn an_interrupted_report_leaves_nothing() {
    let dir = directory("interrupted");
    let path = dir.join("report.html");
    let out = path.to_str().expect("text");
    let mut command = command(&["report", "--tiny", "--store", "sim", "--out", out]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.starts_with("model, run 10 of")), "it says how far it is");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("interrupted")), "{rest:?}");
    assert!(names(&dir).is_empty());
    fs::remove_dir_all(&dir).expect("made above");
}
