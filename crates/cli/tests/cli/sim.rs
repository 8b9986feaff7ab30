//! `claret sim` as a user runs it: what it prints, and its exit code.

use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claret"));
    command.arg("sim").args(arguments).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn seeds_are_counted() {
    let output = sim(&["--seeds", "3..6"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("3 seeds are well: "), "{text}");
    assert!(text.contains("; 0 failures; "), "{text}");
    assert!(!text.starts_with("3 seeds are well: 0 committed"), "{text}");
}

#[test]
fn one_seed_gives_one_run() {
    let (once, twice) = (sim(&["--seed", "7"]), sim(&["--seed", "7"]));
    assert_eq!(once.status.code(), Some(0));
    assert_eq!(stdout(&once), stdout(&twice));
    assert_ne!(stdout(&once).rsplit(' ').next(), stdout(&sim(&["--seed", "8"])).rsplit(' ').next());
}

#[test]
fn a_trace_shows_every_event_before_the_outcome() {
    let (plain, traced) = (stdout(&sim(&["--seed", "7"])), stdout(&sim(&["--seed", "7", "--trace"])));
    assert!(traced.ends_with(&plain), "{plain}");
    assert!(traced.lines().count() > 100, "{} lines", traced.lines().count());
}

#[test]
fn a_planted_fault_is_found_and_can_be_replayed() {
    let output = sim(&["--seeds", "0..200", "--plant", "alter-answers"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("; 1 failure; "), "{text}");
    let replay = text.lines().find_map(|line| line.strip_prefix("replay: claret sim ")).expect("a replay");
    let again = sim(&replay.split(' ').collect::<Vec<_>>());
    assert_eq!(again.status.code(), Some(1));
    let reason = |text: &str| text.lines().find(|line| line.contains(" fails: ")).map(str::to_owned);
    assert_eq!(reason(&stdout(&again)), reason(&text));
}

#[test]
fn conditions_of_a_workload_are_checked_after_each_seed() {
    let output = sim(&["--workload", "tpcc", "--seeds", "0..6"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("6 seeds are well: "), "{text}");
    assert!(text.contains("; conditions checked after 6; 0 failures; "), "{text}");
}

/// Where they say nothing it is told why, and after which seeds.
#[test]
fn conditions_that_are_not_checked_are_counted_by_name() {
    let cut_off = ["--workload", "tpcc", "--set", "endless=true"];
    let many = stdout(&sim(&[&cut_off[..], &["--seeds", "3..5"]].concat()));
    let told = "; conditions checked after 0, not checked after 2, where the run was cut off (seeds 3 4); ";
    assert!(many.contains(told), "{many}");
    let one = stdout(&sim(&[&cut_off[..], &["--seed", "3"]].concat()));
    assert!(one.contains("conditions not checked, since the run was cut off, "), "{one}");
}

#[test]
fn bad_arguments_say_what_to_pass() {
    for (arguments, says) in [
        (&["--seeds", "5"][..], "seeds are given as A..B"),
        (&["--seeds", "5..5"], "there is no seed in it"),
        (&["--plant", "x"], "the faults are none, forge-applied"),
        (&["--trace"], "--seed"),
        (&["--workload", "tpcb"], "there is no workload 'tpcb' to simulate; there are random and tpcc"),
        (&["--set", "shard=2"], "there is no setting 'shard'; the settings are sessions, "),
        (&["--set", "shards=two"], "'two' is no value of shards"),
    ] {
        let output = sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn what_is_found_does_not_depend_on_the_threads() {
    let summary = |threads: &str| {
        let text = stdout(&sim(&["--small", "--seeds", "0..300", "--threads", threads]));
        text.split("; 0 failures; ").next().expect("a summary").to_owned()
    };
    assert_eq!(summary("1"), summary("3"));
    assert!(summary("1").starts_with("300 seeds are well: "), "{}", summary("1"));
}

#[test]
fn settings_change_a_run() {
    let restarted = stdout(&sim(&[
        "--seed",
        "7",
        "--set",
        "restarts=3,survives=0,until_us=1500,direct=false,endless=false",
    ]));
    assert!(restarted.contains(" 3 shard restarts, 0 records vanished, 0 torn"), "{restarted}");
}

#[test]
fn a_script_is_printed_with_what_comes_of_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/testdata");
    let path = format!("{folder}/timeline_one_shot_commit.txt");
    let output = sim(&["--script", &path]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), std::fs::read_to_string(path).expect("the script is there"));
}

#[test]
fn a_script_that_goes_wrong_says_where() {
    let path = std::env::temp_dir().join(format!("claret-script-{}.txt", std::process::id()));
    std::fs::write(&path, "shards 1\nclient c1\n\nc1 begins T1\n").expect("written");
    let output = sim(&["--script", path.to_str().expect("text")]);
    let missing = sim(&["--script", "no-such-script.txt"]);
    std::fs::remove_file(&path).expect("removed");
    assert_eq!((output.status.code(), missing.status.code()), (Some(1), Some(1)));
    let text = stdout(&output);
    assert!(text.contains("error: line 4: 'c1 begins T1' is no command; the commands are:"), "{text}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("'no-such-script.txt' cannot be read"));
}

#[test]
fn the_help_lists_the_commands_of_scripts() {
    let text = stdout(&sim(&["--help"]));
    assert!(text.contains("deliver WHICH") && text.contains("--script <FILE>"), "{text}");
}
