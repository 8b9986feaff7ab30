//! Completions and manual pages name every command there is: those that `--help` lists, and the commands of these.

use std::fs;
use std::process::{Command, Output};

fn claret(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_claret")).args(arguments).output().expect("the program starts")
}

fn out(arguments: &[&str]) -> String {
    let output = claret(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The commands that the help of a command lists.
fn subcommands(of: &[&str]) -> Vec<String> {
    let help = out(&[of, &["--help"]].concat());
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// All commands, as the words that call them.
fn commands() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for name in subcommands(&[]) {
        all.push(vec![name.clone()]);
        all.extend(subcommands(&[&name]).into_iter().map(|inner| vec![name.clone(), inner]));
    }
    assert!(all.len() > 10 && all.contains(&vec!["cluster".to_owned(), "start".to_owned()]), "{all:?}");
    all
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = out(&["completions", shell]);
        for command in commands().iter().flatten() {
            assert!(script.contains(command.as_str()), "{shell} does not complete '{command}'");
        }
        assert!(script.contains("password-file"), "{shell} does not complete options");
    }
    let wrong = claret(&["completions", "csh"]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("zsh"));
}

#[test]
fn there_is_a_manual_page_of_every_command() {
    let dir = std::env::temp_dir().join(format!("claret-man-{}", std::process::id()));
    let path = dir.join("man1");
    out(&["man", path.to_str().expect("UTF-8")]);
    let page = |name: &str| fs::read_to_string(path.join(format!("{name}.1"))).expect("a page");
    let first = page("claret");
    for command in commands() {
        let name = format!("claret-{}", command.join("-"));
        // In such pages a hyphen is written so.
        let escaped = name.replace('-', "\\-");
        let text = page(&name);
        assert!(text.contains(".SH SYNOPSIS") && text.contains(&escaped), "{name}: {text}");
        if command.len() == 1 {
            assert!(first.contains(&escaped), "claret.1 does not name {name}");
        }
    }
    assert!(page("claret-cluster-start").contains("password\\-file"));
    fs::remove_dir_all(&dir).expect("made above");
    let wrong = claret(&["man", "/proc/nowhere"]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("/proc/nowhere"));
}
