//! What is to be tortured, for how long, and by how many.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use claret::durability::SyncPolicy;

/// What is tortured.
#[derive(Clone, Debug)]
pub enum TortureTarget {
    /// A store in this folder, which a process of its own holds and is killed again and again.
    Folder(PathBuf),
    /// A cluster that is started for the run.
    Cluster {
        /// How many shards.
        shards: u16,
        /// How many replicas of each.
        replicas: u16,
        /// The server program; by default the one that is found.
        server: Option<PathBuf>,
    },
    /// A cluster that is there. Faults strike the clients alone.
    Url(String),
}

/// What a cluster promises about what it acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// What Redis promises: a failover that nobody prepared may lose it. Such a loss is counted.
    Async,
    /// Nothing is lost. Any loss is a failure.
    Strict,
}

impl Durability {
    /// Its name, which is also the value of `claret.durability`.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Async => "async",
            Durability::Strict => "strict",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct TorturePlan {
    /// What is tortured.
    pub target: TortureTarget,
    /// How long faults strike.
    pub time: Duration,
    /// Clients of each process, each with one transaction at a time.
    pub clients: u64,
    /// Processes with clients; a folder has one.
    pub processes: u64,
    /// For what clients do and what is done to them. What comes of it depends on the machine, too.
    pub seed: u64,
    /// When a store in a folder reports a commit.
    pub sync: SyncPolicy,
    /// What a cluster promises.
    pub durability: Durability,
    /// Whether nodes of a cluster of the run's own write append-only files; else they write nothing.
    pub has_files: bool,
    /// Of the faults of a cluster of the run's own, those alone whose names contain one of these; by default all.
    pub only: Vec<String>,
    /// Where the histories stay, whatever comes of it; by default a temporary folder, that stays if something is wrong.
    pub out: Option<PathBuf>,
}

/// What a process with clients must know. It gives it to [`take_part_in_torture`](crate::take_part_in_torture).
#[derive(Clone, Debug)]
pub struct Tortured {
    /// Which process of the run it is, from 0; one that takes another's place has a number of its own.
    pub life: u64,
    /// Microseconds since the Unix epoch at which the run began.
    pub epoch: u64,
    /// What all keys of the run begin with.
    pub prefix: String,
    /// What it opens: a folder, or a URL.
    pub store: Result<PathBuf, String>,
    /// As in the [`TorturePlan`].
    pub clients: u64,
    /// As in the [`TorturePlan`].
    pub seed: u64,
    /// As in the [`TorturePlan`].
    pub sync: SyncPolicy,
}

/// The command that starts a program which takes part. Its standard input and output are the run's.
pub type StartTortured<'a> = dyn Fn(&Tortured) -> Result<Command, String> + 'a;
