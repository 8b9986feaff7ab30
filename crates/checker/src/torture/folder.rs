//! A store in a folder: the process that holds it is killed many times a minute, also while it opens the store, and stopped; and
//! what a power cut may leave is left there between two lives.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use claret::durability::SyncPolicy;
use claret_rig::{pause_process, resume_process};
use rand::RngExt;

use super::children::Process;
use super::run::Run;

/// How long a life lasts, in milliseconds: from, to.
const LIFE_MS: (u64, u64) = (300, 3_000);

/// A log that syncs now and then may be late by so much, on a machine with other things to do.
const SYNC_LATE_US: u64 = 1_000_000;

/// The first line of a log is no longer: what is behind it was written once the line was whole.
const LINE_MAX: u64 = 64;

/// Strikes until the time is over.
///
/// # Errors
/// What is wrong: the store is not opened again, or a client says so.
pub(super) fn strike(run: &mut Run<'_>, folder: &Path) -> Result<(), String> {
    let (mut process, mut life) = run.start_process()?;
    while !run.is_over() {
        let began = run.clock.now();
        let mut processes = [process];
        run.rest(LIFE_MS, &mut processes)?;
        [process] = processes;
        if run.below(3) == 0 {
            let began = run.clock.now();
            pause_process(process.pid());
            let time = run.random.random_range(50..1_200);
            std::thread::sleep(Duration::from_millis(time));
            resume_process(process.pid());
            run.note("stop", began, format!("process {life}"));
            let mut processes = [process];
            run.rest((0, 300), &mut processes)?;
            [process] = processes;
        }
        if run.is_over() {
            break;
        }
        kill(run, process, life);
        run.note("kill", began, format!("process {life}"));
        leave_behind(run, folder)?;
        if run.below(4) == 0 {
            kill_while_it_opens(run)?;
        }
        (process, life) = run.start_process()?;
    }
    process.stop()
}

/// Kills a process. One that syncs now and then may lose what it reported last: also one that had just opened the store.
fn kill(run: &mut Run<'_>, process: Process, life: u64) {
    if let SyncPolicy::Every(time) = run.plan.sync {
        let late = time.as_micros() as u64 + SYNC_LATE_US;
        run.waivers.note_death(life, run.clock.now().saturating_sub(late));
    }
    process.kill();
}

/// Opening writes, too.
fn kill_while_it_opens(run: &mut Run<'_>) -> Result<(), String> {
    let began = run.clock.now();
    let (opening, life) = run.launch()?;
    let time = run.random.random_range(0..60);
    std::thread::sleep(Duration::from_millis(time));
    kill(run, opening, life);
    run.note("kill while it opens", began, format!("process {life}"));
    Ok(())
}

/// What a power cut may leave beside what was synced.
fn leave_behind(run: &mut Run<'_>, folder: &Path) -> Result<(), String> {
    let began = run.clock.now();
    let failed = |path: &Path, error: std::io::Error| format!("writing '{}': {error}", path.display());
    match run.below(6) {
        0 | 1 => {
            let Some(path) = newest_log(folder)? else { return Ok(()) };
            let bytes = garbage(run);
            let mut file =
                OpenOptions::new().append(true).open(&path).map_err(|error| failed(&path, error))?;
            file.write_all(&bytes).map_err(|error| failed(&path, error))?;
            run.note("torn tail", began, format!("{} bytes behind '{}'", bytes.len(), path.display()));
        }
        2 => {
            let path = folder.join("snapshot.new");
            let bytes = garbage(run);
            fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
            run.note("half a snapshot", began, "snapshot.new");
        }
        _ => {}
    }
    Ok(())
}

/// The beginning of a group that was never synced: any bytes, or none of them written yet.
fn garbage(run: &mut Run<'_>) -> Vec<u8> {
    let len = run.random.random_range(1..4_096);
    match run.below(3) {
        0 => vec![0; len],
        _ => (0..len).map(|_| run.random.random::<u8>()).collect(),
    }
}

/// The file of the log that ends last, if something can be behind its first line.
fn newest_log(folder: &Path) -> Result<Option<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("reading '{}': {error}", folder.display());
    let mut logs: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with("log-") {
            logs.push(entry.path());
        }
    }
    logs.sort();
    let Some(newest) = logs.pop() else { return Ok(None) };
    let len = fs::metadata(&newest).map_err(failed)?.len();
    Ok((len > LINE_MAX).then_some(newest))
}
