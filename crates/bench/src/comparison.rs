//! A comparison: what to run, the order in which modes are loaded, measured and checked, and who is told of it.
//!
//! Invariants:
//! - every mode has the same parameters, seeds, number of slices and length of slice;
//! - in each round every mode runs one slice, and each round begins with another mode, so that noise hurts all alike;
//! - whatever ran is checked, also after an interruption.

use std::cell::LazyCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::baseline::mutex;
use crate::measure::{Slice, Summary};
use crate::mode::{BenchMode, Engine};
use crate::pace::Pace;
use crate::servers::Servers;
use crate::subject::{Check, Subject};
use crate::workload::{Workload, WorkloadSpec};

/// Where it runs.
#[derive(Debug)]
pub enum Place {
    /// In this process.
    Embedded,
    /// On real servers.
    Servers(Box<Servers>),
}

impl Place {
    /// What the output says.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Embedded => "embedded",
            Place::Servers(servers) => servers.name,
        }
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
    /// How transactions go.
    pub pace: Pace,
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
        let thinks = match self.pace {
            Pace::Together => false,
            Pace::Pause(time) | Pace::Interactive(time) => !time.is_zero(),
        };
        if self.pace != Pace::Together
            && let Some(mode) = self.modes.iter().find(|mode| mode.is_one_shot())
        {
            return Err(format!(
                "the mode '{}' sends a transaction in one go: it has no --interactive and no --think",
                mode.name
            ));
        }
        if has_mutex && thinks {
            return Err("the mode 'mutex' has no --think: leave one of them out".into());
        }
        if self.threads == 0 || self.clients < self.threads {
            return Err(format!(
                "{} clients on {} threads: there must be at least one client for each thread, and one thread",
                self.clients, self.threads
            ));
        }
        if self.slice.is_zero() || self.time < self.slice {
            return Err("a slice must be longer than nothing and not longer than the whole".into());
        }
        Ok(())
    }

    /// Connected and with clients, one for each mode.
    fn subjects(&self) -> Result<Vec<Subject>, String> {
        // The keys are the same in all embedded stores.
        let shared = LazyCell::new(|| Arc::<dyn Workload>::from(self.workload.make("")));
        let subject = |number| {
            let workload = match &self.place {
                Place::Embedded => Arc::clone(&shared),
                Place::Servers(servers) => self.workload.make(&servers.prefix(number)).into(),
            };
            Subject::new(number, self, workload)
        };
        (0..self.modes.len()).map(subject).collect()
    }

    fn rounds(&self) -> usize {
        (self.time.as_secs_f64() / self.slice.as_secs_f64()).round().max(1.0) as usize
    }
}

/// Who is told how far a comparison has come. Nothing of this is said while a slice runs.
pub trait Observer {
    /// The store of a mode is to be loaded.
    fn loads(&mut self, _workload: &str, _mode: &str) {}

    /// So many more operations are loaded.
    fn loaded(&mut self, _operations: usize) {}

    /// The slices begin; there are so many, of all modes together.
    fn runs(&mut self, _workload: &str, _slices: usize) {}

    /// A slice of this mode begins.
    fn measures(&mut self, _mode: &str) {}

    /// A slice is over.
    fn measured(&mut self, _slice: &Slice) {}
}

/// Nobody.
impl Observer for () {}

/// A comparison under way.
pub struct Bench {
    plan: Plan,
    subjects: Vec<Subject>,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// A store, a run and clients for each mode. `stop` ends it early once it is set.
    ///
    /// # Errors
    /// See [`Plan::check`]; or a server does not answer.
    pub fn new(plan: Plan, stop: Arc<AtomicBool>) -> Result<Self, String> {
        plan.check()?;
        let subjects = plan.subjects()?;
        Ok(Bench { plan, subjects, stop })
    }

    /// What is compared.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The modes.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Whether it was ended early.
    pub fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Loads every store. Outcome early it leaves them half loaded: nothing may be run then.
    ///
    /// # Errors
    /// When a store refuses a call.
    pub fn load(&mut self, observer: &mut dyn Observer) -> Result<(), String> {
        for subject in &mut self.subjects {
            observer.loads(self.plan.workload.name(), subject.name());
            subject.load(observer, &self.stop)?;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs all slices.
    ///
    /// # Errors
    /// When a store answers a client what it must not.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<(), String> {
        let (rounds, count) = (self.plan.rounds(), self.subjects.len());
        observer.runs(self.plan.workload.name(), rounds * count);
        for round in 0..rounds {
            for turn in 0..count {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let subject = &mut self.subjects[(round + turn) % count];
                observer.measures(subject.name());
                subject.run_slice(&self.plan, &self.stop)?;
                observer.measured(subject.slices().last().expect("a slice has just been added"));
            }
        }
        Ok(())
    }

    /// Medians and sums of each mode, in the order they were asked for.
    pub fn summaries(&self) -> Vec<Summary> {
        let interrupted = self.interrupted();
        self.subjects.iter().map(|subject| subject.summary(interrupted)).collect()
    }

    /// Ends the clients and checks every mode. Nothing can be run after that.
    pub fn check(&mut self) -> Vec<Check> {
        self.subjects.iter_mut().map(Subject::check).collect()
    }

    /// Deletes from servers what was put there, by each mode in turn.
    ///
    /// # Errors
    /// A server does not answer.
    pub fn clean(&mut self) -> Result<(), String> {
        let Place::Servers(servers) = &self.plan.place else { return Ok(()) };
        for (number, mode) in self.plan.modes.iter().enumerate() {
            let is_single = matches!(mode.engine, Engine::Redis(scheme) if scheme.is_single());
            servers.clean(number, is_single)?;
        }
        Ok(())
    }
}
