//! A deterministic simulator of Claret's protocol.
//!
//! A seed gives a configuration (`config.rs`: shards, clients, switches, delays, faults) and a workload
//! (`workload.rs`: programs over keys of every type). The real state machines of `claret-core` run in virtual time
//! (`world.rs`, `steps.rs`, `drive.rs`) over a network that delays, loses, doubles and reorders (`network.rs`), while clients
//! die, stop and reconnect (`connections.rs`), slots move (`moves.rs`), shards restart with and without their memory,
//! and external records vanish (`vanish.rs`). Each machine checks its invariants after every step. At the end all
//! that committed is replayed on a sequential model (`check.rs`, `reference.rs`) and judged from what users saw alone
//! ([`observed`]); nothing may be left behind, and all must be done in bounded time. The same seed gives the same
//! run: [`Outcome::trace_hash`]. [`script`] plays one interleaving by hand; [`model`] puts costs on the same
//! machines. `docs/simulation.md` describes all this, and what it cannot see.

mod asking;
mod beginning;
/// A type that a user wrote, run like the built-in ones: a link to an example of `claret`, so that the package has it, too.
#[allow(dead_code, unreachable_pub)]
mod book;
#[cfg(feature = "planted-bugs")]
mod bug;
mod check;
mod clock;
mod cluster;
mod commands;
mod config;
mod connections;
/// Partial states as small as each type allows: a link to what the tests of `claret-types` use.
mod demands;
mod draws;
mod drive;
mod driven;
mod ending;
mod event;
mod faults;
mod host;
#[cfg(feature = "planted-bugs")]
pub mod hunt;
mod lines;
pub mod model;
mod moves;
mod nesting;
mod network;
pub mod observed;
mod outcome;
mod plant;
mod probe;
mod process;
mod queue;
mod random;
mod reference;
mod replicas;
mod replication;
mod requests;
mod run;
mod savepoints;
mod scenario;
pub mod script;
mod seat;
mod setting;
mod settings;
mod shards;
mod shrink;
mod sleeping;
mod slots;
mod stale;
mod steps;
mod store;
mod tamper;
mod trace;
mod vanish;
mod ways;
mod workload;
mod world;

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[cfg(feature = "planted-bugs")]
pub use bug::Bug;
pub use claret_core::each_way;
pub use config::{Config, FaultConfig, NetworkConfig, ProgramConfig};
pub use outcome::{LeftOut, Outcome};
pub use plant::Plant;
pub use scenario::{Read, Scenario};
pub use tamper::Tampering;

use seat::Stageplay;
use world::World;

/// How to run a seed.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The seed.
    pub seed: u64,
    /// Another configuration than [`Config::random`] gives for it.
    pub config: Option<Config>,
    /// A fault to be found.
    pub plant: Plant,
    /// Whether to keep the timeline of a run that succeeds (of one that fails it is always kept).
    pub timeline: bool,
    /// Whether a run that fails is made small before it is reported.
    pub shrink: bool,
    /// A workload instead of random programs. Without a configuration it is that of the seed, made [for it](Config::for_scenario).
    pub scenario: Option<Arc<dyn Scenario>>,
}

impl SimOptions {
    /// A seed as it is.
    pub fn seed(seed: u64) -> Self {
        SimOptions { seed, config: None, plant: Plant::None, timeline: false, shrink: false, scenario: None }
    }
}

/// A run that went wrong. Displayed, it says how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub reason: String,
    /// The configuration.
    pub config: Config,
    /// The workload, if it was one instead of random programs.
    pub workload: Option<&'static str>,
    /// The last events, one a line.
    pub timeline: Vec<String>,
}

/// How many lines of the timeline a failure shows.
const LINES_SHOWN: usize = 120;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.timeline.len().saturating_sub(LINES_SHOWN);
        writeln!(f, "the last of {} events (time in microseconds):", self.timeline.len())?;
        for line in &self.timeline[hidden..] {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "\nseed {} fails: {}", self.seed, self.reason)?;
        writeln!(f, "configuration: {}", self.config.all())?;
        write!(f, "replay: claret sim --seed {} --no-shrink", self.seed)?;
        if let Some(workload) = self.workload {
            write!(f, " --workload {workload}")?;
        }
        let differences = self.config.differences(&given(self.seed, self.workload.is_some()));
        if !differences.is_empty() {
            write!(f, " --set {differences}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// The configuration of a seed, with a workload or without.
fn given(seed: u64, is_scenario: bool) -> Config {
    let config = Config::random(seed);
    if is_scenario { config.for_scenario() } else { config }
}

/// Runs a seed.
///
/// # Errors
/// When anything is wrong, with all that is needed to look into it.
pub fn run(seed: u64) -> Result<Outcome, Box<Failure>> {
    run_with(&SimOptions::seed(seed)).map(|(outcome, _)| outcome)
}

/// Runs a seed in another way, and returns the timeline if it was asked for.
///
/// # Errors
/// As [`run`].
pub fn run_with(options: &SimOptions) -> Result<(Outcome, Vec<String>), Box<Failure>> {
    match attempt(options, options.timeline) {
        Ok(done) => Ok(done),
        Err(failure) if options.shrink => Err(shrink::shrink(failure, options)),
        Err(failure) if options.timeline => Err(failure),
        // The same run again, this time in words.
        Err(failure) => Err(attempt(options, true).err().unwrap_or(failure)),
    }
}

fn attempt(options: &SimOptions, in_words: bool) -> Result<(Outcome, Vec<String>), Box<Failure>> {
    let given = || given(options.seed, options.scenario.is_some());
    let config = options.config.clone().unwrap_or_else(given);
    let stageplay = Stageplay::of(options.scenario.clone());
    let mut world = World::begun(options.seed, config.clone(), (options.plant, stageplay), in_words);
    let run = AssertUnwindSafe(|| options.plant.during(|| world.run()));
    let reason = match catch_unwind(run) {
        Ok(Ok(outcome)) => return Ok((outcome, world.trace.lines())),
        Ok(Err(violation)) => violation,
        Err(panic) => panic_text(panic.as_ref()),
    };
    let workload = options.scenario.as_ref().map(|scenario| scenario.name());
    Err(Box::new(Failure { seed: options.seed, reason, config, workload, timeline: world.trace.lines() }))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    format!("an assertion does not hold: {}", text.unwrap_or_default())
}

/// Sums over many runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub seeds: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that their users aborted.
    pub aborted: u64,
    /// Transactions that failed for good.
    pub failed: u64,
    /// Attempts that were run again.
    pub restarts: u64,
    /// Messages sent.
    pub messages: u64,
    /// Faults of all sorts.
    pub faults: u64,
    /// Attempts in doubt that shards resolved among themselves.
    pub recoveries: u64,
    /// Restarts of shards.
    pub shard_restarts: u64,
    /// Records that vanished by themselves.
    pub vanished: u64,
    /// Slots that went from one shard to another.
    pub moved: u64,
    /// Nodes that left for good.
    pub left: u64,
    /// Frames that shards did not take.
    pub refused_frames: u64,
    /// Transactions whose users left before they knew the end.
    pub abandoned: u64,
    /// Transactions torn by restarts that lost votes.
    pub torn: u64,
    /// Transactions whose users heard that their end is unknown.
    pub unknown: u64,
    /// Transactions judged from observed results alone.
    pub judged: u64,
    /// "Must precede" edges between them.
    pub edges: u64,
    /// Answers that were shared between transactions of one session.
    pub combined: u64,
    /// Runs at whose end the conditions of a workload were checked.
    pub conditions_checked: u64,
}

impl Totals {
    /// Adds one run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.committed += outcome.committed;
        self.aborted += outcome.aborted;
        self.failed += outcome.failed;
        self.restarts += outcome.restarts;
        self.messages += outcome.messages;
        self.faults += outcome.faults;
        self.recoveries += outcome.recoveries;
        self.shard_restarts += outcome.shard_restarts;
        self.vanished += outcome.vanished;
        self.moved += outcome.moved;
        self.left += outcome.left;
        self.refused_frames += outcome.refused_frames;
        self.abandoned += outcome.abandoned;
        self.torn += outcome.torn;
        self.unknown += outcome.unknown;
        self.judged += outcome.judged;
        self.edges += outcome.edges;
        self.combined += outcome.combined;
        self.conditions_checked += outcome.conditions_checked;
    }
}

/// Runs seeds in order until one fails; `progress` hears of each that does not.
///
/// # Errors
/// The first failure.
pub fn run_many(seeds: Range<u64>, mut progress: impl FnMut(u64, &Outcome)) -> Result<Totals, Box<Failure>> {
    let mut totals = Totals::default();
    for seed in seeds {
        let outcome = run(seed)?;
        totals.add(&outcome);
        progress(seed, &outcome);
    }
    Ok(totals)
}
