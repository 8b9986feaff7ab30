//! `claret run`: scripts on a store in a folder and on a cluster, and what is wrong with them.

use std::fs;
use std::process::Command;

use claret_rig::TestFolder;

fn run(words: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_claret")).arg("run").args(words).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_script_runs_on_a_folder_and_says_what_it_returns() {
    let kept = TestFolder::new();
    let folder = kept.path();
    let script = folder.join("move.lua");
    fs::write(
        &script,
        "redis.call('INCRBY', KEYS[1], ARGV[1]) redis.call('RPUSH', KEYS[2], 'x') \
         local all = redis.call('KEYS', '*') table.sort(all) \
         return {redis.call('GET', KEYS[1]), redis.call('LLEN', KEYS[2]), {'in', false}, all}",
    )
    .expect("written");
    let script = script.to_str().expect("a path");
    let store = format!("file:{}", folder.join("store").display());
    for (sum, length) in [(5, 1), (10, 2)] {
        let (ok, out, error) = run(&[script, "sum", "list", ",", "5", "--store", &store]);
        assert!(ok, "{error}");
        let right = format!(
            "1) \"{sum}\"\n2) (integer) {length}\n3) 1) \"in\"\n   2) (nil)\n4) 1) \"list\"\n   2) \"sum\"\n"
        );
        assert_eq!(out, right);
    }
    fs::write(folder.join("bad.lua"), "redis.call('SET', KEYS[1], 1)\nreturn redis.call('LPOP', KEYS[1])")
        .expect("written");
    let bad = folder.join("bad.lua");
    let (ok, out, error) = run(&[bad.to_str().expect("a path"), "sum", "--store", &store]);
    assert!(
        !ok && out.is_empty() && error.contains("WRONGTYPE") && error.contains("user_script:2"),
        "{out}{error}"
    );
    let (_, out, _) = run(&[script, "sum", "list", ",", "0", "--store", &store]);
    assert!(out.starts_with("1) \"10\""), "nothing of it was done: {out}");
    let (ok, out, error) = run(&[script, "sum", "list", ",", "-3", "--store", &store]);
    assert!(ok && out.starts_with("1) \"7\""), "a number below zero is no option: {out}{error}");
    for (words, why) in [
        (vec!["none.lua"], "cannot read none.lua"),
        (vec![script, "--store", "nowhere"], "there is no store 'nowhere'"),
    ] {
        let (ok, _, error) = run(&words);
        assert!(!ok && error.contains(why), "{error}");
    }
}
