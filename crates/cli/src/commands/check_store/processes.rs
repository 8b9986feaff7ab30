//! The other processes of a run: this program, started again with the same clock and keys. Each works with its part of
//! the clients, and hands over what they saw in a file.

use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Args;
use crate::checking::{Clock, History, Progress, Settings};

/// All but this one. They end with it.
pub(super) struct Processes(Vec<Process>);

struct Process {
    child: Child,
    /// What it saw.
    file: PathBuf,
}

impl Processes {
    /// Starts them.
    pub(super) fn start(
        args: &Args,
        url: Option<&str>,
        settings: &Settings,
        clock: Clock,
    ) -> Result<Self, String> {
        let mut all = Processes(Vec::new());
        let Some(url) = url else { return Ok(all) };
        let program = env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
        for number in 1..settings.processes {
            let name = format!("claret-{}-{number}.json", settings.prefix.replace(':', "-"));
            let file = env::temp_dir().join(name);
            let mut command = Command::new(&program);
            command.args(["check-store", "--store", url, "--mode", &args.mode]);
            for (name, value) in [
                ("--clients", args.clients),
                ("--plain", args.plain),
                ("--processes", args.processes),
                ("--keys", args.keys),
                ("--rotation", args.rotation),
                ("--seed", args.seed),
                ("--process", number),
                ("--epoch", clock.epoch()),
            ] {
                command.args([name, &value.to_string()]);
            }
            command.args(["--seconds", &args.seconds.to_string(), "--prefix", &settings.prefix]);
            command.arg("--history").arg(&file).stdin(Stdio::piped()).stdout(Stdio::null());
            let child = command.spawn().map_err(|error| format!("starting a process: {error}"))?;
            all.0.push(Process { child, file });
        }
        Ok(all)
    }

    /// Tells them to stop, if they have not, and takes what they saw.
    pub(super) fn end(mut self) -> Result<Vec<History>, String> {
        self.0.iter_mut().map(Process::end).collect()
    }
}

impl Process {
    fn end(&mut self) -> Result<History, String> {
        drop(self.child.stdin.take());
        let ended = self.child.wait().map_err(|error| format!("waiting for a process: {error}"))?;
        if !ended.success() {
            return Err(format!("a process of the run failed: {ended}"));
        }
        read(&self.file).map_err(|error| format!("reading {}: {error}", self.file.display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, and may have written nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.file);
    }
}

fn read(path: &Path) -> Result<History, Box<dyn std::error::Error>> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Stops the clients when the process that started this one closes the pipe, or is gone.
pub(super) fn stop_with_parent(progress: Arc<Progress>) {
    std::thread::spawn(move || {
        // Nothing is ever written to it.
        let _ = std::io::stdin().read(&mut [0]);
        progress.stop.store(true, Ordering::Relaxed);
    });
}
