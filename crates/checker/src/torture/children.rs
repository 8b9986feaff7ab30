//! The processes with clients: starts them, hears what they tell, kills them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::plan::{StartTortured, Tortured};
use super::worker_log::{Told, WorkerLog};

/// How long a process may take to open its store: all records are read, or nodes do not answer.
const OPEN_TIME: Duration = Duration::from_secs(120);

/// How long it may take to end when it is told to.
const END_TIME: Duration = Duration::from_secs(60);

/// It is open, and clients work.
pub(super) const READY: &str = "ready";
/// Clients have ended, and the store is closed.
pub(super) const DONE: &str = "done";
/// Before an error that ends the run.
pub(super) const BROKEN: &str = "broken ";
/// Before why a transaction was not done.
pub(super) const BECAUSE: &str = "because ";

/// Before a generation and what was told of an outcome.
pub(super) const TOLD: &str = "told ";

/// One process. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    life: u64,
    said: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts it, and waits until its clients work.
    ///
    /// # Errors
    /// It does not open its store, and says why.
    pub(super) fn start(
        start: &StartTortured<'_>,
        tortured: &Tortured,
        worker_log: &Arc<WorkerLog>,
    ) -> Result<Self, String> {
        let process = Process::launch(start, tortured, worker_log)?;
        process.hear(READY, OPEN_TIME)?;
        Ok(process)
    }

    /// The same without waiting.
    pub(super) fn launch(
        start: &StartTortured<'_>,
        tortured: &Tortured,
        worker_log: &Arc<WorkerLog>,
    ) -> Result<Self, String> {
        let mut command = start(tortured)?;
        // Ctrl-C is for this process, which then tells the others.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("starting a process: {error}"))?;
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (say, said) = channel();
        let worker_log = Arc::clone(worker_log);
        let reader = std::thread::spawn(move || read(out, &worker_log, &say));
        Ok(Process { child, life: tortured.life, said, reader: Some(reader) })
    }

    /// Waits until its clients work.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub(super) fn wait_ready(&self) -> Result<(), String> {
        self.hear(READY, OPEN_TIME)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether all is well with it.
    ///
    /// # Errors
    /// It has ended by itself, or says what is wrong.
    pub(super) fn check(&mut self) -> Result<(), String> {
        if let Ok(line) = self.said.try_recv() {
            return Err(self.wrong(&line));
        }
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("process {} ended by itself ({status})", self.life)),
            Err(error) => Err(format!("process {}: {error}", self.life)),
        }
    }

    fn wrong(&self, line: &str) -> String {
        format!("process {}: {}", self.life, line.strip_prefix(BROKEN).unwrap_or(line))
    }

    fn hear(&self, expected: &str, time: Duration) -> Result<(), String> {
        match self.said.recv_timeout(time) {
            Ok(line) if line == expected => Ok(()),
            Ok(line) => Err(self.wrong(&line)),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("process {} does not say '{expected}' within {time:?}", self.life))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(format!("process {} ended before it said '{expected}'", self.life))
            }
        }
    }

    /// Kills it (SIGKILL), and waits until all that it told is in the log.
    pub(super) fn kill(mut self) {
        self.end();
    }

    /// Lets its clients end what they do.
    ///
    /// # Errors
    /// It does not end, or says what is wrong.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let out = self.child.stdin.as_mut().expect("piped");
        let told = out.write_all(b"stop\n").map_err(|error| format!("telling a process: {error}"));
        let done = told.and_then(|()| self.hear(DONE, END_TIME));
        self.end();
        done
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Hands on what a process writes. Its last line may be cut off: what it would have ended is there as begun.
fn read(mut out: BufReader<ChildStdout>, worker_log: &WorkerLog, say: &Sender<String>) {
    let mut line = String::new();
    while let Ok(1..) = out.read_line(&mut line) {
        let Some(whole) = line.strip_suffix('\n') else { break };
        if let Some(why) = whole.strip_prefix(BECAUSE) {
            worker_log.note_void(why);
        } else if let Some((generation, told)) = whole.strip_prefix(TOLD).and_then(|it| it.split_once(' ')) {
            // What a life has written is whole.
            worker_log.note_told(generation.parse().unwrap_or(u64::MAX), told);
        } else if let Some((told, generation, entry)) = parse(whole) {
            worker_log.add(told, generation, entry);
        } else if say.send(whole.to_owned()).is_err() {
            break;
        }
        line.clear();
    }
}

/// What became of a transaction, its generation, and the transaction.
fn parse(line: &str) -> Option<(Told, u64, &str)> {
    let mut words = line.splitn(3, ' ');
    let word = words.next()?;
    let told = Told::ALL.into_iter().find(|told| told.word() == word)?;
    Some((told, words.next()?.parse().ok()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_transactions_are_told_from_others() {
        assert_eq!(parse("begun 7 {\"a\": 1}"), Some((Told::Begun, 7, "{\"a\": 1}")));
        for other in ["ready", "broken 7 x y", "begun x {}", "begun 7"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
