//! The other processes of a run: starts them, tells them round by round what to do, kills and replaces them.
//!
//! They share the run's clock and keys; each runs its part of the clients. They hear of rounds on their standard input
//! and record what they see in a [journal](crate::journal), which is there even when they are killed.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::history::History;
use crate::journal::read_journal;
use crate::plan::Progress;

/// How long a process may take to connect, or to come to rest after a round.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process says this when it is connected.
const READY: &str = "ready";
/// And this when a round is over and written down; a line that begins otherwise says what is wrong.
const RESTED: &str = "rested";

/// What another process of a run must know, besides what it is to do. It gives it to
/// [`take_part`](crate::take_part).
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    /// Which of the processes it is, from 1.
    pub number: u64,
    /// Microseconds since the Unix epoch at which the run began.
    pub epoch: u64,
    /// What it connects to.
    pub url: &'a str,
    /// What all keys of the run begin with.
    pub prefix: &'a str,
}

/// The command that starts a program which takes part in a run. Its standard input and output are the run's.
pub type StartWorker = dyn Fn(Worker<'_>) -> Result<Command, String> + Send + Sync;

/// All but this one. They end with it.
pub(super) struct Processes {
    start: Arc<StartWorker>,
    url: String,
    prefix: String,
    clock: Clock,
    all: Vec<Process>,
    /// What processes wrote in this round that were killed in it.
    orphans: Vec<PathBuf>,
}

struct Process {
    number: u64,
    child: Child,
    said: Receiver<String>,
    /// What it writes in this round; `None` while it has no part in it.
    file: Option<PathBuf>,
}

impl Processes {
    /// Starts those from 1 to below `count`.
    pub(super) fn start(
        count: u64,
        start: Arc<StartWorker>,
        url: &str,
        prefix: &str,
        clock: Clock,
    ) -> Result<Self, String> {
        let (url, prefix) = (url.to_owned(), prefix.to_owned());
        let mut all = Processes { start, url, prefix, clock, all: Vec::new(), orphans: Vec::new() };
        for number in 1..count {
            let process = all.spawn(number)?;
            all.all.push(process);
        }
        Ok(all)
    }

    fn spawn(&self, number: u64) -> Result<Process, String> {
        let (epoch, url, prefix) = (self.clock.epoch(), self.url.as_str(), self.prefix.as_str());
        let mut command = (self.start)(Worker { number, epoch, url, prefix })?;
        // Ctrl-C is for this process, which then tells the others.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("starting a process: {error}"))?;
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (say, said) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        Ok(Process { number, child, said, file: None })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Lets all of them begin a round, once they are connected.
    pub(super) fn begin(&mut self, round: u64, time: Duration) -> Result<u64, String> {
        let mut late = self.all.iter_mut().filter(|process| process.file.is_none());
        late.try_for_each(|process| process.hear(READY))?;
        let until = self.clock.now() + time.as_micros() as u64;
        for process in &mut self.all {
            let name = format!("claret-{}-{}-{round}.jsonl", self.prefix.replace(':', "-"), process.number);
            let file = process.file.insert(env::temp_dir().join(name));
            let line = format!("{round} {until} {}\n", file.display());
            process.say(&line)?;
        }
        Ok(until)
    }

    /// The clients are to stop before their time.
    pub(super) fn stop(&mut self) {
        for process in &mut self.all {
            // One that is gone is noticed when the round ends.
            let _ = process.say("stop\n");
        }
    }

    /// Kills one of them, as by SIGKILL, and starts another in its place, for the next round.
    pub(super) fn kill(&mut self, at: usize) -> Result<(), String> {
        let new = self.spawn(self.all[at].number)?;
        let mut old = std::mem::replace(&mut self.all[at], new);
        self.orphans.extend(old.file.take());
        Ok(())
    }

    /// The process of one of them.
    pub(super) fn pid(&self, at: usize) -> u32 {
        self.all[at].child.id()
    }

    /// Waits until all have come to rest, and takes what they saw in the round.
    pub(super) fn rest(&mut self) -> Result<Vec<History>, String> {
        let mut parts = Vec::new();
        for process in &mut self.all {
            let Some(file) = process.file.clone() else { continue };
            let broken = process.hear(RESTED).err();
            let history = read(&file)?;
            parts.push(History { broken, ..history });
        }
        for file in self.orphans.drain(..) {
            // It may not have begun.
            if file.exists() {
                parts.push(read(&file)?);
            }
        }
        Ok(parts)
    }
}

fn read(file: &PathBuf) -> Result<History, String> {
    let history = read_journal(file).map_err(|error| format!("reading {}: {error}", file.display()));
    let _ = fs::remove_file(file);
    history
}

impl Process {
    fn say(&mut self, line: &str) -> Result<(), String> {
        let out = self.child.stdin.as_mut().expect("piped");
        out.write_all(line.as_bytes()).map_err(|error| format!("telling a process: {error}"))
    }

    /// Waits for a line.
    fn hear(&self, expected: &str) -> Result<(), String> {
        match self.said.recv_timeout(PATIENCE) {
            Ok(line) if line == expected => Ok(()),
            Ok(line) => Err(line),
            Err(error) => Err(format!("a process of the run does not say '{expected}': {error}")),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, and may have written nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let files = self.all.iter_mut().filter_map(|process| process.file.take());
        files.chain(self.orphans.drain(..)).for_each(|file| drop(fs::remove_file(file)));
    }
}

/// A round, as a process hears of it.
pub(super) struct RoundStart {
    pub(super) round: u64,
    pub(super) until: u64,
    pub(super) file: PathBuf,
}

/// The rounds that the parent tells of. When it closes the pipe or is gone, or says so, the clients stop.
pub(super) fn rounds_of_parent(progress: Arc<Progress>) -> mpsc::UnboundedReceiver<RoundStart> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let mut words = line.splitn(3, ' ');
            let mut number = || words.next()?.parse().ok();
            let (Some(round), Some(until)) = (number(), number()) else {
                progress.stop.store(true, Ordering::Relaxed);
                continue;
            };
            let file = words.next().unwrap_or_default().into();
            progress.stop.store(false, Ordering::Relaxed);
            if tell.send(RoundStart { round, until, file }).is_err() {
                break;
            }
        }
        progress.stop.store(true, Ordering::Relaxed);
    });
    told
}

/// Tells the parent that this process is connected.
pub(super) fn say_ready() {
    say(READY);
}

/// Tells the parent how a round ended.
pub(super) fn say_rested(broken: Option<&str>) {
    match broken {
        None => say(RESTED),
        Some(why) => say(&why.replace('\n', " ")),
    }
}

/// A line. A parent that has gone reads nothing, and has ended what was to be done.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
