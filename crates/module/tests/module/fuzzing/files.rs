//! Append-only files in which what replicas were told is damaged, loaded by a node in the durability `strict`: it starts, or ends and
//! says why.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use claret_rig::{Module, SLOTS, Server, TestFolder, query, slot_of};

use super::dice::Dice;
use super::link::Batch;
use super::{Finding, Options, Progress, Trace, told};

/// So many commands a file has, if it has many.
const COMMANDS: u64 = 20_000;

/// How long a node that was given its slots is looked at: it asks whether it may begin.
const LOOK_TIME: Duration = Duration::from_millis(300);

/// How long it may leave a question unanswered.
const PING_TIME: Duration = Duration::from_secs(5);

/// What the file writes beside what it tells.
const KEY: &str = "k";

const FOLDER: &str = "appendonlydir";

const SETTINGS: [&str; 8] = [
    "appendonly yes",
    "appendfsync no",
    "cluster-enabled yes",
    "claret.durability strict",
    "claret.replicas 1",
    "claret.topology-ms 20",
    "auto-aof-rewrite-percentage 0",
    "aof-load-truncated no",
];

/// What a log says when a process did not end by itself.
const CRASHES: [&str; 4] = ["crashed by signal", "BUG REPORT", "ASSERTION FAILED", "panicked"];

/// See the module's text.
pub(crate) fn run(options: &Options, progress: &mut Progress) -> Result<(), Finding> {
    let samples = told::all();
    let mut seed = options.seed;
    while progress.done < options.executions {
        let mut dice = Dice::new(seed);
        let count = if dice.once_in(4) { 1 } else { COMMANDS.min(options.executions) };
        let file = file(&samples, count, &mut dice);
        let mut log = String::new();
        let loaded = load(&file, options, &mut log);
        let what = match loaded {
            Ok(starts) => {
                progress.add(count, if starts { Vec::new() } else { vec!["the server ends".to_owned()] });
                seed += 1;
                continue;
            }
            Err(what) => what,
        };
        let mut trace = Trace::default();
        trace.note(0, &file);
        return Err(Finding { what, seed, trace, log });
    }
    Ok(())
}

/// An append-only file.
fn file(samples: &[Vec<u8>], count: u64, dice: &mut Dice) -> Vec<u8> {
    let mut file = Batch::default();
    file.line("SELECT 0");
    for number in 0..count {
        let mut changes = Vec::new();
        for _ in 0..=dice.roll(2) {
            changes.extend_from_slice(dice.pick::<Vec<u8>>(samples));
        }
        if !dice.once_in(5) {
            dice.mutate(&mut changes);
        }
        let node = *dice.pick(&["0123456789abcdef0123456789abcdef01234567", "node", "", "\u{fc}"]);
        let numbers = [dice.number(), if dice.once_in(8) { dice.number() } else { number }];
        let [incarnation, batch] = numbers.map(|number| number.to_string().into_bytes());
        let is_whole = dice.once_in(2);
        if is_whole {
            file.line("MULTI");
            file.line(&format!("INCR {KEY}"));
        }
        let form = if dice.once_in(50) { b"2".to_vec() } else { b"1".to_vec() };
        let words = [b"CLARET.CHANGES".to_vec(), form, node.as_bytes().to_vec(), incarnation, batch, changes];
        file.add(&words);
        if is_whole {
            file.line("EXEC");
        }
    }
    file.bytes
}

/// Whether a node starts with this file; otherwise it ended, and has said why.
fn load(file: &[u8], options: &Options, log: &mut String) -> Result<bool, String> {
    let folder = TestFolder::new();
    write(folder.path(), file).map_err(|error| format!("{}: {error}", folder.path().display()))?;
    let secret = folder.path().join("secret");
    let module = Module::of_sources().map_err(|error| error.to_string())?;
    let mut server = Server::options().dir(folder.path()).module(module);
    for line in SETTINGS {
        server = server.config(line);
    }
    server = server.config(&format!("claret.peer-secret-file {}", secret.display()));
    if let Some(program) = &options.server {
        server = server.program(program);
    }
    let started = server.start();
    *log = fs::read_to_string(folder.path().join("redis.log")).unwrap_or_default();
    let crash = || CRASHES.iter().find(|said| log.contains(**said));
    match started {
        Ok(mut server) => {
            let looked = look(&mut server);
            *log = server.log(300);
            if let Some(said) = CRASHES.iter().find(|said| log.contains(**said)) {
                return Err(format!("it starts, and its log says '{said}'"));
            }
            looked.map(|()| true)
        }
        Err(_) if crash().is_some() => Err("it crashes".to_owned()),
        Err(_)
            if log.contains("CLARET.CHANGES") || log.contains("claret") && log.contains("cannot be read") =>
        {
            Ok(false)
        }
        Err(error) => Err(format!("it does not start, and does not say why: {error}")),
    }
}

fn write(folder: &Path, file: &[u8]) -> std::io::Result<()> {
    let aof = folder.join(FOLDER);
    fs::create_dir_all(&aof)?;
    fs::write(folder.join("secret"), "sesame opens this one\n")?;
    fs::write(aof.join("appendonly.aof.1.incr.aof"), file)?;
    fs::write(aof.join("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n")
}

/// Gives a node that has loaded its file all slots, so that it is to go on as a shard, and asks it meanwhile.
fn look(server: &mut Server) -> Result<(), String> {
    let mut connection = server.connection().map_err(|error| error.to_string())?;
    let mut ask = |words: &[&str]| {
        let began = Instant::now();
        let said: redis::Value = query(&mut connection, words).map_err(|error| error.to_string())?;
        let took = began.elapsed();
        if took < PING_TIME { Ok(said) } else { Err(format!("{words:?} took {took:?}")) }
    };
    // The slot of a key that the file made is there already.
    let own = slot_of(KEY);
    for (first, last) in [(0, own - 1), (own, own), (own + 1, SLOTS - 1)] {
        let _ = ask(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
    }
    let until = Instant::now() + LOOK_TIME;
    while Instant::now() < until {
        ask(&["PING"])?;
        ask(&["INFO", "claret"])?;
        std::thread::sleep(Duration::from_millis(20));
    }
    let panics = server.info("claret", "claret_panics").map_err(|error| error.to_string())?;
    if panics.as_deref() == Some("0") { Ok(()) } else { Err(format!("panics: {panics:?}")) }
}
