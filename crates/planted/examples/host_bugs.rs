//! Plants every bug of the catalogue in turn, and runs the tests that are named beside it until one fails. Called by
//! `tools/host-bugs`, which says how, and builds what this needs.
//!
//! A bug is caught by a test that fails, or does not end in time, while it is planted, and passes while none is. Each test
//! runs in a process of its own, in a folder of its own, under a time limit. Results are kept in a file and not asked for again.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use claret_planted::{Bug, Test};

/// A test that takes longer hangs. Most take less than a second, and the longest half a minute.
const LIMIT: Duration = Duration::from_secs(180);

/// What this is told.
struct Options {
    /// The test programs: `package path` in each line, and `package/lib path`.
    programs: HashMap<String, PathBuf>,
    /// The module with the catalogue in it.
    module: PathBuf,
    /// Valkey's server, for what Redis 7.0 does not show.
    valkey: Option<PathBuf>,
    /// Where tests run, and where results are kept.
    folder: PathBuf,
    bugs: Vec<Bug>,
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    /// It did not end in time.
    Hung,
    /// It did not run at all, and why.
    Absent(String),
}

/// What became of a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Caught {
        by: String,
        seconds: u64,
    },
    Survived,
    /// The catalogue says that nobody sees it.
    Argued,
    /// Its tests do not pass without it, or cannot run.
    Broken(String),
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            return ExitCode::from(2);
        }
    };
    let mut clean = HashMap::new();
    let mut fates: Vec<(Bug, Fate)> = Vec::new();
    for (at, bug) in options.bugs.iter().enumerate() {
        let fate = known(&options, *bug).unwrap_or_else(|| {
            let fate = try_bug(&options, *bug, &mut clean);
            remember(&options, *bug, &fate);
            fate
        });
        let told = match &fate {
            Fate::Caught { by, seconds } => format!("caught by {by} in {seconds} s"),
            Fate::Survived => "SURVIVED".to_owned(),
            Fate::Argued => "survives, as argued".to_owned(),
            Fate::Broken(why) => format!("BROKEN: {why}"),
        };
        println!("{:>3} of {}  {:<28} {told}", at + 1, options.bugs.len(), bug.name());
        fates.push((*bug, fate));
    }
    let is = |wanted: fn(&Fate) -> bool| fates.iter().filter(|(_, fate)| wanted(fate)).count();
    let caught = is(|fate| matches!(fate, Fate::Caught { .. }));
    let argued = is(|fate| *fate == Fate::Argued);
    println!("{caught} of {} caught, {argued} survive as argued", fates.len());
    if caught + argued == fates.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Result<Options, String> {
    let mut words = std::env::args().skip(1);
    let (mut programs, mut module, mut valkey, mut folder) = (None, None, None, None);
    let mut bugs = Vec::new();
    while let Some(word) = words.next() {
        let mut value = || words.next().map(PathBuf::from).ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--programs" => programs = Some(value()?),
            "--module" => module = Some(value()?),
            "--valkey" => valkey = Some(value()?),
            "--folder" => folder = Some(value()?),
            // A name, or a part of one.
            name => {
                let named: Vec<Bug> = Bug::ALL.iter().copied().filter(|bug| is_meant(*bug, name)).collect();
                if named.is_empty() {
                    return Err(format!("there is no bug or room '{name}'"));
                }
                bugs.extend(named.into_iter().filter(|bug| !bugs.contains(bug)).collect::<Vec<_>>());
            }
        }
    }
    let list = programs.ok_or("--programs is missing")?;
    let list = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let pair = |line: &str| line.split_once(' ').map(|(name, path)| (name.to_owned(), PathBuf::from(path)));
    Ok(Options {
        programs: list.lines().filter_map(pair).collect(),
        module: module.ok_or("--module is missing")?,
        valkey,
        folder: folder.ok_or("--folder is missing")?,
        bugs: if bugs.is_empty() { Bug::ALL.to_vec() } else { bugs },
    })
}

/// By its name or by its room's.
fn is_meant(bug: Bug, name: &str) -> bool {
    bug.name() == name || format!("{:?}", bug.room()).eq_ignore_ascii_case(name)
}

fn try_bug(options: &Options, bug: Bug, clean: &mut HashMap<Test, End>) -> Fate {
    if bug.survives().is_some() {
        return Fate::Argued;
    }
    let began = Instant::now();
    for test in bug.tests() {
        let without = clean.entry(test).or_insert_with(|| run(options, &test, None));
        if *without != End::Passed {
            return Fate::Broken(format!("{}: {without:?} without any bug", named(&test)));
        }
        let by = match run(options, &test, Some(bug)) {
            End::Passed => continue,
            End::Failed => named(&test),
            End::Hung => format!("{} (time limit)", named(&test)),
            End::Absent(why) => return Fate::Broken(why),
        };
        return Fate::Caught { by, seconds: began.elapsed().as_secs() };
    }
    Fate::Survived
}

fn named(test: &Test) -> String {
    let valkey = if test.on_valkey { " on Valkey" } else { "" };
    format!("{}/{} {}{valkey}", test.package, test.part, test.name)
}

/// Runs one test, with a bug or without.
fn run(options: &Options, test: &Test, bug: Option<Bug>) -> End {
    let (program, part) = match test.part {
        "lib" => (format!("{}/lib", test.package), String::new()),
        part => (test.package.to_owned(), format!("{part}::")),
    };
    let Some(path) = options.programs.get(&program) else {
        return End::Absent(format!("no program {program}"));
    };
    let Some(full_name) = find(path, &part, test.name) else {
        return End::Absent(format!("{program} has not one test {part}{}", test.name));
    };
    let name = bug.map_or("clean".to_owned(), Bug::name);
    let folder = options.folder.join("runs").join(format!("{name}-{}", test.name));
    let temporary = folder.join("tmp");
    if let Err(error) = fs::create_dir_all(&temporary) {
        return End::Absent(format!("{}: {error}", folder.display()));
    }
    let mut command = Command::new(path);
    command.args(["--exact", &full_name, "--test-threads", "1"]).current_dir(&folder);
    command.env("CLARET_PLANT", bug.map_or(String::new(), Bug::name)).env("CLARET_MODULE", &options.module);
    command.env("TMPDIR", &temporary).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    if test.on_valkey {
        let Some(valkey) = &options.valkey else { return End::Absent("it needs CLARET_VALKEY".to_owned()) };
        command.env("CLARET_SERVER", valkey);
    } else {
        command.env_remove("CLARET_SERVER");
    }
    let log = folder.join("log");
    let end = match fs::File::create(&log).and_then(|out| Ok((out.try_clone()?, out))) {
        // Its servers are of its group, and end with it.
        Ok((out, err)) => match command.stdout(out).stderr(err).process_group(0).spawn() {
            Ok(child) => {
                // For whoever stops this.
                let _ = fs::write(options.folder.join("running"), child.id().to_string());
                wait(child)
            }
            Err(error) => End::Absent(format!("{}: {error}", path.display())),
        },
        Err(error) => End::Absent(format!("{}: {error}", log.display())),
    };
    let said = fs::read_to_string(&log).unwrap_or_default();
    if end == End::Passed && !said.contains("1 passed") {
        return End::Absent(format!("{program} did not run {}", test.name));
    }
    let _ = fs::remove_dir_all(&temporary);
    end
}

/// The path of the only test of this name in a part of a program.
fn find(program: &Path, part: &str, name: &str) -> Option<String> {
    let listed = Command::new(program).arg("--list").stdin(Stdio::null()).output().ok()?;
    let listed = String::from_utf8(listed.stdout).ok()?;
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let mut found = tests.filter(|test| test.starts_with(part) && test.rsplit("::").next() == Some(name));
    let first = found.next()?.to_owned();
    found.next().is_none().then_some(first)
}

/// Waits for the end of a test, and ends it when its time is over: with its servers, which are of its group.
fn wait(mut child: Child) -> End {
    let until = Instant::now() + LIMIT;
    let end = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break End::Passed,
            Ok(Some(_)) => break End::Failed,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => break End::Hung,
        }
    };
    end_group(child.id());
    let _ = child.wait();
    end
}

/// Ends the processes that a test left, by the number of their group, which is that of the test's process.
fn end_group(group: u32) {
    let _ = Command::new("kill").args(["-9", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
}

// --- results that are kept ---

fn results(options: &Options) -> PathBuf {
    options.folder.join("results")
}

/// What became of a bug in an earlier run of the same build, if that was caught: anything else is tried again.
fn known(options: &Options, bug: Bug) -> Option<Fate> {
    let kept = fs::read_to_string(results(options)).ok()?;
    let line = kept.lines().rev().find_map(|line| line.strip_prefix(&format!("{}\t", bug.name())))?;
    let (seconds, by) = line.split_once('\t')?;
    Some(Fate::Caught { by: by.to_owned(), seconds: seconds.parse().ok()? })
}

fn remember(options: &Options, bug: Bug, fate: &Fate) {
    let Fate::Caught { by, seconds } = fate else { return };
    let path: &Path = &results(options);
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    let kept = file.and_then(|mut file| writeln!(file, "{}\t{seconds}\t{by}", bug.name()));
    if let Err(error) = kept {
        eprintln!("{}: {error}", path.display());
    }
}
