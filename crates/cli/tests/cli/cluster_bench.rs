//! `tools/cluster-bench` with programs that only say what they were asked for: a load generator runs in turns with the benchmark, on
//! the same cluster, and the table has the shares of both.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/cluster-bench");

/// Stands for `claret`: a cluster whose nodes are listed in another order than their slots, and the figures of two modes.
const CLARET: &str = r#"#!/usr/bin/env bash
printf '%s\n' "claret $*" >> "$ASKED"
number=0
slice() {
    number=$((number + 1))
    printf '{"type":"slice","slice":%s,' "$number"
    printf '"mode":"%s","throughput":%s,"p50_us":%s,"p95_us":1.0,"p99_us":%s,"committed":1,"aborts":%s,' "$@"
    echo '"retries":0,"lock_waits":0,"seconds":1.0}'
}
case "$*" in
    # A second a slice, of which all but the last two are slow.
    *" --slice 1 "*)
        seconds=$(sed 's/.*--seconds \([0-9]*\) .*/\1/' <<< "$*")
        for at in $(seq $((seconds - 2))); do slice none 7.0 9000.0 9000.0 5; done
        case "$*" in
            *"--modes none"*) slice none 900.0 600.0 900.0 0 && slice none 1100.0 600.0 900.0 0 ;;
            *) slice claret 400.0 700.0 1900.0 0 && slice claret 600.0 700.0 1900.0 1 ;;
        esac
        exit
        ;;
esac
case "$1 $2" in
    "cluster start") echo redis://127.0.0.1:1 ;;
    "cluster status")
        echo "node         pid  role    slots"
        echo "127.0.0.1:3  12   master  8192-16383"
        echo "127.0.0.1:2  11   master  0-8191"
        echo "127.0.0.1:4  13   replica -"
        ;;
    "cluster stop") ;;
    *)
        echo '{"type":"slice","mode":"none","throughput":7.0}'
        echo '{"type":"summary","workload":"hot","mode":"none","throughput":1000.0,"p50_us":600.0,"p99_us":900.0,"aborts":0}'
        echo '{"type":"summary","workload":"hot","mode":"claret","throughput":500.0,"p50_us":700.0,"p99_us":1900.0,"aborts":1}'
        ;;
esac
"#;

/// Stands for the load generator.
const LOADGEN: &str = r#"#!/usr/bin/env bash
printf '%s\n' "loadgen $*" >> "$ASKED"
echo '{"peer":"pipe","tag":"","wl":"c","tput":1250,"p50":512.25,"p99":800.0,"retry":0.0,"check":null}'
"#;

/// A folder with both programs; it goes with the test.
struct Programs(PathBuf);

impl Programs {
    fn new(test: &str, loadgen: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("cluster-bench-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        let programs = Programs(folder);
        for (name, text) in [("claret", CLARET), ("loadgen", loadgen)] {
            let path = programs.path(name);
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        }
        programs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn run(&self, arguments: &[&str], settings: &[(&str, &Path)]) -> Output {
        let mut command = Command::new(TOOL);
        for name in ["STORE", "ROUNDS", "SECONDS_EACH", "CLARET_LOADGEN", "CLARET_ORDERING", "BATCHES"] {
            command.env_remove(name);
        }
        command.args(arguments).env("CLARET", self.path("claret")).env("ASKED", self.path("asked"));
        command.envs(settings.iter().copied()).output().expect("the tool starts")
    }

    /// What the programs were asked for, without the cluster's own folder.
    fn asked(&self) -> Vec<String> {
        let asked = std::fs::read_to_string(self.path("asked")).unwrap_or_default();
        asked.lines().filter(|line| !line.starts_with("claret cluster")).map(str::to_owned).collect()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // What is left over lies in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_load_generator_runs_in_turns_with_the_benchmark() {
    let programs = Programs::new("turns", LOADGEN);
    let loadgen = programs.path("loadgen");
    let settings =
        [("CLARET_LOADGEN", &*loadgen), ("ROUNDS", Path::new("2")), ("SECONDS_EACH", Path::new("3"))];
    let output = programs.run(&["hot"], &settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let generated = "loadgen --peer pipe --mux 1 --wl c --conc 64 --alpha 0 --warm 0.3 --secs 1.5 --addrs 127.0.0.1:2,127.0.0.1:3";
    let benched = "claret bench hot --modes none,claret,redis-lock,redis-watch,redis-multi,redis-lua \
                   --store redis://127.0.0.1:1 --seconds 1.5 --json";
    assert_eq!(programs.asked(), [generated, benched, benched, generated]);
    let lines = text(&output.stdout);
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let (machine, lines) = lines.split_first().expect("it begins with the machine");
    assert_eq!((&machine["ordering"], &machine["batches"]), (&"default".into(), &"on".into()));
    assert!(machine["load"].is_number(), "{machine}");
    assert!(lines.iter().all(|line| line["arguments"] == "hot"), "{lines:?}");
    let of_loadgen: Vec<&Value> = lines.iter().filter(|line| line["mode"] == "loadgen").collect();
    assert_eq!(of_loadgen.iter().map(|line| &line["round"]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((&of_loadgen[0]["throughput"], &of_loadgen[0]["p50_us"]), (&1250.into(), &512.25.into()));
    let table = text(&output.stderr);
    for row in [
        "| hot | loadgen | 1,250 | 1.25 | 1.00 | - | 512 | 800 | 0 |",
        "| hot | none | 1,000 | 1.00 | 0.80 | - | 600 | 900 | 0 |",
        "| hot | claret | 500 | 0.50 | 0.40 | - | 700 | 1,900 | 2 |",
    ] {
        assert!(table.contains(row), "{row} is not in\n{table}");
    }
}

#[test]
fn without_a_generator_a_line_is_one_run() {
    let programs = Programs::new("alone", LOADGEN);
    let output = programs.run(&["rubis"], &[]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let asked = programs.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|line| line.starts_with("claret bench rubis --mix ")), "{asked:?}");
}

#[test]
fn batches_are_left_out_of_the_clients_alone() {
    let programs = Programs::new("unbatched", LOADGEN);
    let output = programs.run(&["interactive"], &[("BATCHES", Path::new("off"))]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let asked = programs.asked();
    assert!(asked[0].contains("--store redis://127.0.0.1:1?batches=off --seconds"), "{asked:?}");
}

#[test]
fn a_table_of_orders_goes_on_where_it_stopped() {
    let programs = Programs::new("order", LOADGEN);
    let file = programs.path("figures");
    let run = || {
        let arguments = ["--order", file.to_str().expect("a path of letters")];
        let output = programs.run(&arguments, &[("ROUNDS", Path::new("1"))]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        // The first line has the machine's load of that moment.
        let (machine, table) = said.split_once('\n').expect("lines");
        assert!(serde_json::from_str::<Value>(machine).is_ok_and(|it| it["load"].is_number()), "{machine}");
        (programs.asked().len(), table.to_owned())
    };
    let (asked, whole) = run();
    assert_eq!(asked, 100, "5 counts of processes, 5 alphas, 4 modes");
    for row in [
        "| rawmix --alpha 0 --processes 1 | none | 1,000 | 1.00 | - | - | 600 | 900 | 0 |",
        "| rawmix --alpha 1.4 --processes 64 | claret-2 | 500 | 0.50 | - | - | 700 | 1,900 | 1 |",
    ] {
        assert!(whole.contains(row), "{row} is not in\n{whole}");
    }
    let figures = std::fs::read_to_string(&file).expect("the figures");
    assert!(
        figures
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok_and(|it| it["load"].is_number()))
    );
    let first: Vec<&str> = figures.lines().take(60).collect();
    std::fs::write(&file, first.join("\n") + "\n").expect("cut off");
    let (asked, again) = run();
    assert_eq!((asked, again), (140, whole), "what was there is not measured again");
    let path = file.to_str().expect("a path of letters");
    let store = [("STORE", Path::new("redis://127.0.0.1:9"))];
    for (arguments, settings, named) in [
        (&["--order"][..], &[][..], "wants the file"),
        (&["--order", path, "hot"], &[], "not 'hot'"),
        (&["--order", path], &store, "leave STORE out"),
    ] {
        let output = programs.run(arguments, settings);
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(named), "{named}: {error}");
    }
}

#[test]
fn a_load_whose_skew_changes_is_shown_second_by_second() {
    let programs = Programs::new("skew", LOADGEN);
    let file = programs.path("figures");
    let arguments = ["--skew", file.to_str().expect("a path of letters")];
    let output = programs.run(&arguments, &[("ROUNDS", Path::new("1"))]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let asked = programs.asked();
    assert_eq!(asked.len(), 12, "4 modes, 3 parts: {asked:?}");
    let alphas = asked.iter().filter(|line| line.contains("--alpha 1.2 --processes 8")).count();
    assert_eq!(alphas, 4, "{asked:?}");
    let table = text(&output.stdout);
    for (mode, last) in [("none", "900 | 1,100"), ("claret-0", "400 | 600"), ("claret-2", "400 | 600")] {
        let part = format!("7 | 7 | 7 | 7 | 7 | 7 | {last} |");
        let row = format!("| {mode} | {part} {part} {part}\n");
        assert!(table.contains(&row), "{row} is not in\n{table}");
    }
}

#[test]
fn what_the_generator_cannot_do_is_said() {
    let programs = Programs::new("refused", "#!/bin/sh\necho it has no such option\n");
    let loadgen = programs.path("loadgen");
    for (settings, named) in [
        (
            &[("CLARET_LOADGEN", &*loadgen), ("STORE", Path::new("redis://127.0.0.1:9"))][..],
            "leave STORE out",
        ),
        (&[("CLARET_LOADGEN", &*programs.path("nowhere"))], "which CLARET_LOADGEN names"),
        (&[("CLARET_LOADGEN", &*loadgen)], "it has no such option"),
        (&[("CLARET_LOADGEN", &*loadgen), ("ROUNDS", Path::new("0"))], "'0' is no number of rounds"),
    ] {
        let output = programs.run(&["hot"], settings);
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(named), "{named}: {error}");
    }
}
