//! Fuzzers of the module's edge, on a real server: everything comes from a seed, and what is found is kept.
//!
//! `tests/module/fuzz.rs` runs a few seconds of each, `examples/fuzz_server.rs` as much as one wants.

// The test and the program each use a part of this.
#![allow(dead_code, unreachable_pub)]

mod bystanders;
mod commands;
mod dice;
mod dumps;
mod eve;
mod files;
mod keys;
mod link;
#[path = "../../../../core/tests/core/wire/samples.rs"]
mod samples;
#[path = "../../../../core/tests/core/wire/told.rs"]
mod told;
mod words;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often something is said of how far it is.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// So many kinds of errors are counted, and shown.
const KINDS_MAX: usize = 4_096;
const SHOWN_MAX: usize = 25;

/// What is fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Commands of a user with few rights.
    Commands,
    /// Damaged dumps.
    Dumps,
    /// Damaged append-only files of strict nodes.
    Files,
}

/// All targets, by the names that they go by.
pub(crate) const TARGETS: [(&str, Target); 3] =
    [("commands", Target::Commands), ("dumps", Target::Dumps), ("files", Target::Files)];

/// How it is fuzzed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    /// So many commands, payloads or records of a file.
    pub(crate) executions: u64,
    /// The server's program; `None`: the usual one.
    pub(crate) server: Option<PathBuf>,
    /// Nodes that there are, one or two.
    pub(crate) nodes: usize,
    /// Whether something is said meanwhile.
    pub(crate) is_loud: bool,
}

/// Something that must not be.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) what: String,
    /// With this seed it comes first.
    pub(crate) seed: u64,
    pub(crate) trace: Trace,
    pub(crate) log: String,
}

impl Finding {
    /// Before anything was sent.
    fn untraced(what: String) -> Finding {
        Finding { what, seed: 0, trace: Trace::default(), log: String::new() }
    }

    /// All that is known of it, to be kept in a file.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\nseed {}\n", self.what, self.seed);
        for (from, bytes) in &self.trace.sent {
            let _ = writeln!(text, "--- {from} sends\n{}", bytes.escape_ascii());
        }
        let _ = writeln!(text, "--- the end of the server's log\n{}", self.log);
        text
    }
}

/// What was sent since everything was well last, and by which connection.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    sent: Vec<(usize, Vec<u8>)>,
}

impl Trace {
    fn note(&mut self, from: usize, bytes: &[u8]) {
        self.sent.push((from, bytes.to_vec()));
    }

    fn clear(&mut self) {
        self.sent.clear();
    }
}

/// How far it is.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) errors: u64,
    /// How often each kind of error was answered.
    kinds: BTreeMap<String, u64>,
    pub(crate) began: Instant,
    said: Instant,
    is_loud: bool,
}

impl Progress {
    fn new(is_loud: bool) -> Progress {
        let (kinds, now) = (BTreeMap::new(), Instant::now());
        Progress { done: 0, errors: 0, kinds, began: now, said: now, is_loud }
    }

    fn add(&mut self, done: u64, errors: Vec<String>) {
        self.done += done;
        self.errors += errors.len() as u64;
        for error in errors {
            if self.kinds.len() < KINDS_MAX || self.kinds.contains_key(&error) {
                *self.kinds.entry(error).or_default() += 1;
            }
        }
        if self.said.elapsed() > SAY_EVERY {
            self.said = Instant::now();
            self.say(format!("{} executions, {} of them refused", self.done, self.errors));
        }
    }

    /// The errors that came most.
    pub(crate) fn frequent_errors(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> =
            self.kinds.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all.truncate(SHOWN_MAX);
        all
    }

    fn say(&self, what: String) {
        if self.is_loud {
            eprintln!("{:>6.0} s: {what}", self.began.elapsed().as_secs_f64());
        }
    }
}

/// Fuzzes until so much was done, or something is found.
pub(crate) fn run(target: Target, options: &Options) -> (Progress, Option<Finding>) {
    let mut progress = Progress::new(options.is_loud);
    let ran = match target {
        Target::Commands => commands::run(options, &mut progress),
        Target::Dumps => dumps::run(options, &mut progress),
        Target::Files => files::run(options, &mut progress),
    };
    (progress, ran.err())
}
