//! What to run: the workload, where, in which modes, and by how many clients for how long.

use std::path::PathBuf;
use std::time::Duration;

use crate::baseline::{mutex, sqlite};
use crate::looking::Looking;
use crate::mode::{BenchMode, Engine, Scheme};
use crate::over_time::Intervals;
use crate::pace::Pace;
use crate::servers::Servers;
use crate::ways;
use crate::workload::WorkloadSpec;

/// Where it runs.
#[derive(Debug)]
pub enum Place {
    /// In this process.
    Embedded,
    /// The same, each mode's store in a new folder in this one, which goes afterwards.
    Folder(PathBuf),
    /// On real servers.
    Servers(Box<Servers>),
}

impl Place {
    /// What the output says.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Embedded => "embedded",
            Place::Folder(_) => "file",
            Place::Servers(servers) => servers.name,
        }
    }
}

/// Refuses modes that can run only what is known up front, where something is to happen in between.
pub(crate) fn check_one_shot(modes: &[BenchMode], pace: Pace) -> Result<(), String> {
    match modes.iter().find(|mode| mode.is_one_shot()) {
        Some(mode) if pace != Pace::Together => Err(format!(
            "the mode '{}' sends a transaction in one go: it has no --interactive and no --think",
            mode.name
        )),
        Some(_) | None => Ok(()),
    }
}

/// What to run.
#[derive(Debug)]
pub struct Plan {
    /// Where it runs.
    pub place: Place,
    /// The workload.
    pub workload: WorkloadSpec,
    /// What to compare.
    pub modes: Vec<BenchMode>,
    /// Shards of each store, where it is embedded.
    pub shards: u32,
    /// Clients, all threads together.
    pub clients: usize,
    /// Threads, each with a runtime of its own and its part of the clients.
    pub threads: usize,
    /// Client processes, as far as servers can tell: each has a session and connections of its own. More than one have a thread
    /// each.
    pub processes: usize,
    /// How transactions go.
    pub pace: Pace,
    /// What the mode `optimistic` checks.
    pub looking: Looking,
    /// How long each mode runs, all slices together.
    pub time: Duration,
    /// How long a slice is.
    pub slice: Duration,
    /// What the clients' choices are made from.
    pub seed: u64,
}

impl Plan {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let name = self.workload.name();
        if self.modes.is_empty() {
            return Err("no mode to run; name some with --modes".into());
        }
        let has_mutex = self.modes.iter().any(|mode| mode.engine == Engine::Mutex);
        if has_mutex && !mutex::has(&self.workload) {
            return Err(format!(
                "the mode 'mutex' exists for rawmix and hot only, not for '{name}': leave it out of --modes"
            ));
        }
        check_built(&self.modes, sqlite::IS_BUILT)?;
        self.check_tpcc()?;
        let thinks = match self.pace {
            Pace::Together => false,
            Pace::Pause(time) | Pace::Interactive(time) => !time.is_zero(),
        };
        check_one_shot(&self.modes, self.pace)?;
        if has_mutex && thinks {
            return Err("the mode 'mutex' has no --think: leave one of them out".into());
        }
        self.check_looking()?;
        self.check_operations()?;
        if self.threads == 0 || self.clients < self.threads {
            return Err(format!(
                "{} clients on {} threads: there must be at least one client for each thread, and one thread",
                self.clients, self.threads
            ));
        }
        if self.processes == 0 || self.processes > 1 && self.processes != self.threads {
            return Err(format!(
                "{} processes on {} threads: there must be one at least, and several have a thread each",
                self.processes, self.threads
            ));
        }
        if self.slice.is_zero() || self.time < self.slice {
            return Err("a slice must be longer than nothing and not longer than the whole".into());
        }
        Ok(())
    }

    /// Refuses modes that have not all operations of the workload.
    fn check_operations(&self) -> Result<(), String> {
        let lacks = |engine: Engine| match (&self.workload, engine) {
            // A command that takes from a stock and tells whether it could has to be undone where the transaction fails.
            (WorkloadSpec::Checkout(_), Engine::Redis(_) | Engine::OneServer | Engine::Sqlite) => true,
            (WorkloadSpec::Objects(_), Engine::Sqlite) => true,
            _ => false,
        };
        match self.modes.iter().find(|mode| lacks(mode.engine)) {
            Some(mode) => Err(format!(
                "the mode '{}' has not all operations of '{}': leave it out of --modes",
                mode.name,
                self.workload.name()
            )),
            None => Ok(()),
        }
    }

    fn check_looking(&self) -> Result<(), String> {
        let has_values = self.workload.has_values();
        match self.looking {
            Looking::AtValues if !has_values => Err(format!(
                "--check values is of checkout, objects, rawmix, hot and fair, whose records are one value each; '{}' has others",
                self.workload.name()
            )),
            Looking::Never | Looking::AtAnswers | Looking::AtValues | Looking::AtItems => Ok(()),
        }
    }

    /// Its transactions have several stages, can be rolled back, and read the ends of lists as they change them.
    fn check_tpcc(&self) -> Result<(), String> {
        let WorkloadSpec::Tpcc(options) = &self.workload else { return Ok(()) };
        let can = |mode: &&BenchMode| {
            matches!(
                mode.engine,
                Engine::Store(_)
                    | Engine::Optimistic
                    | Engine::InWay(_)
                    | Engine::Sinfonia
                    | Engine::Redis(Scheme::Lock)
            )
        };
        if let Some(mode) = self.modes.iter().find(|mode| !can(mode)) {
            let them = "none, rw, rw+phase, boost, boost+phase, boost+phase+combine, claret, optimistic, sinfonia, redis-lock";
            let ways: Vec<&str> = ways::modes().collect();
            let ways = ways.join(", ");
            return Err(format!("the workload 'tpcc' has no mode '{}'; it has {them}, {ways}", mode.name));
        }
        options.check()
    }

    /// The pauses that are asked for, in microseconds.
    pub(crate) fn backoff(&self) -> Option<(u64, u64)> {
        match &self.place {
            Place::Servers(servers) => servers.backoff,
            Place::Embedded | Place::Folder(_) => None,
        }
    }

    /// How many slices each mode runs.
    pub(crate) fn rounds(&self) -> usize {
        (self.time.as_secs_f64() / self.slice.as_secs_f64()).round().max(1.0) as usize
    }

    /// Into what the slices of a mode, all together, are divided to show throughput over time.
    pub(crate) fn intervals(&self) -> Intervals {
        Intervals::of(self.slice.saturating_mul(self.rounds() as u32))
    }
}

/// Refuses the mode that a program may be built without.
fn check_built(modes: &[BenchMode], has_sqlite: bool) -> Result<(), String> {
    if has_sqlite || modes.iter().all(|mode| mode.engine != Engine::Sqlite) {
        return Ok(());
    }
    let how = "build it with 'cargo build --profile dist -p claret-cli --features sqlite'";
    Err(format!("the mode 'sqlite' is not in this program: {how}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests are built with SQLite, what is shipped is not.
    #[test]
    fn a_program_without_sqlite_refuses_that_mode_and_no_other() {
        let modes = |names| BenchMode::parse_list(names).expect("modes");
        let refused = check_built(&modes("mutex,sqlite"), false);
        assert!(refused.is_err_and(|why| why.contains("'sqlite'") && why.contains("--features sqlite")));
        assert_eq!(check_built(&modes("mutex,claret"), false), Ok(()));
        assert_eq!(check_built(&modes("sqlite"), true), Ok(()));
    }
}
