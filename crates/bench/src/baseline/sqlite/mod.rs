//! The mode `sqlite`: the workloads' own clients on tables of a SQLite file, as one uses it who wants transactions that stay.
//!
//! The file is in WAL mode with `synchronous=FULL`: a commit is reported when it is on the disk, as with a store in a folder. Each
//! client has a thread and a connection. A transaction that may write begins with `BEGIN IMMEDIATE`: one that began by reading, and
//! finds that somebody wrote meanwhile, would have to be run again. One that is known to read alone begins with `BEGIN`, and waits
//! for nobody. Only one can write at a time; the others wait in the busy handler, as long as it takes.

mod calls;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use claret::Reply;
use claret::types::Access;
use rusqlite::{Connection, Error, Transaction, TransactionBehavior};

use crate::measure::Counts;
use crate::pace::Pace;
use crate::schedule::{Outcome, Schedule};
use crate::workload::{Call, Client, Stage};

/// Whether this program has it.
pub(crate) const IS_BUILT: bool = true;

/// A database file.
pub(crate) struct SqliteBaseline {
    path: PathBuf,
    pace: Pace,
    /// For what is done before and after the clients.
    own: Mutex<Connection>,
    /// How often somebody found that somebody else was writing.
    waits: Arc<AtomicU64>,
}

/// A client with its connection.
pub(crate) struct SqliteRunner {
    connection: Connection,
    pace: Pace,
    client: Box<dyn Client>,
    calls: Vec<Call>,
    counts: Counts,
}

impl SqliteBaseline {
    /// In a folder, which is made.
    pub(crate) fn create(folder: &Path, pace: Pace) -> Result<Self, String> {
        fs::create_dir_all(folder)
            .map_err(|error| format!("cannot create '{}': {error}", folder.display()))?;
        let (path, waits) = (folder.join("bench.sqlite"), Arc::default());
        let own = connect(&path, &waits).map_err(|error| error.to_string())?;
        own.execute_batch(calls::TABLES).map_err(|error| error.to_string())?;
        Ok(SqliteBaseline { path, pace, own: Mutex::new(own), waits })
    }

    /// A client with a connection of its own.
    pub(crate) fn runner(&self, client: Box<dyn Client>, kinds: usize) -> Result<SqliteRunner, String> {
        let connection = connect(&self.path, &self.waits).map_err(|error| error.to_string())?;
        Ok(SqliteRunner {
            connection,
            pace: self.pace,
            client,
            calls: Vec::new(),
            counts: Counts::new(kinds),
        })
    }

    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Carries out calls, in one transaction.
    pub(crate) fn run_all(&self, calls: &[Call]) -> Result<Vec<Reply>, String> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let mut run = || {
            let transaction = begin(&mut own, calls)?;
            let replies =
                calls.iter().map(|call| calls::run(&transaction, call)).collect::<Result<_, _>>()?;
            transaction.commit()?;
            Ok(replies)
        };
        run().map_err(|error: Error| error.to_string())
    }
}

fn connect(path: &Path, waits: &Arc<AtomicU64>) -> Result<Connection, Error> {
    let mut connection = Connection::open(path)?;
    connection.set_prepared_statement_cache_capacity(64);
    let waits = Arc::clone(waits);
    connection.busy_handler(Some(move |tries| {
        waits.fetch_add(u64::from(tries == 0), Ordering::Relaxed);
        thread::sleep(pause(tries));
        true
    }))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// How long a connection waits before it tries again: as long as SQLite's own handler does, which served best.
fn pause(tries: i32) -> Duration {
    const MS: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];
    let at = usize::try_from(tries).unwrap_or_default().min(MS.len() - 1);
    Duration::from_millis(MS[at])
}

/// Begins a transaction whose first stage this is, and all of it if nothing is written.
fn begin<'a>(connection: &'a mut Connection, calls: &[Call]) -> Result<Transaction<'a>, Error> {
    let reads_alone = calls.iter().all(|call| call.op.method().access == Access::Read);
    let behavior = if reads_alone { TransactionBehavior::Deferred } else { TransactionBehavior::Immediate };
    connection.transaction_with_behavior(behavior)
}

impl SqliteRunner {
    /// One transaction after another until the slice is over.
    pub(crate) fn run(&mut self, schedule: &Schedule) {
        let mut began = Instant::now();
        loop {
            let kind = self.client.draw();
            let ended = match self.transaction() {
                Ok(replies) => {
                    self.client.committed(&replies);
                    Outcome::Committed { kind, attempts: Some(1) }
                }
                Err(error) => {
                    self.client.gave_up();
                    self.counts.broken.get_or_insert_with(|| error.to_string());
                    Outcome::Broken
                }
            };
            match schedule.ended(began, ended, &mut self.counts) {
                Some(next) => began = next,
                None => return,
            }
        }
    }

    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    pub(crate) fn finish(self) {
        self.client.finish();
    }

    fn transaction(&mut self) -> Result<Vec<Reply>, Error> {
        self.calls.clear();
        let mut stage = self.client.stage(&[], &mut self.calls);
        let transaction = match stage {
            Stage::Commit => begin(&mut self.connection, &self.calls)?,
            Stage::Read => self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?,
        };
        loop {
            let mut replies = Vec::with_capacity(self.calls.len());
            for (at, call) in self.calls.iter().enumerate() {
                if let (Pace::Interactive(time), 1..) = (self.pace, at) {
                    think(time);
                }
                replies.push(calls::run(&transaction, call)?);
            }
            if let Pace::Pause(time) = self.pace {
                think(time);
            }
            if stage == Stage::Commit {
                transaction.commit()?;
                return Ok(replies);
            }
            think(self.client.thinks());
            self.calls.clear();
            stage = self.client.stage(&replies, &mut self.calls);
            if let Pace::Interactive(time) = self.pace {
                think(time);
            }
        }
    }
}

/// The application's own work.
fn think(time: Duration) {
    if !time.is_zero() {
        thread::sleep(time);
    }
}
