//! A comparison: its modes are loaded, measured in turn, and checked.
//!
//! Invariants:
//! - every mode has the same parameters, seeds, number of slices and length of slice;
//! - in each round every mode runs one slice, and each round begins with another mode, so that noise hurts all alike;
//! - whatever ran is checked, also after an interruption.

use std::cell::LazyCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::measure::{Check, Summary};
use crate::mode::Engine;
use crate::observer::Observer;
use crate::plan::{Place, Plan};
use crate::subject::Subject;
use crate::workload::Workload;

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
        let subjects = subjects(&plan)?;
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

    /// Loads every store. Ended early it leaves them half loaded: nothing may be run then.
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

    /// Deletes from servers or folders what was put there, by each mode in turn.
    ///
    /// # Errors
    /// A server does not answer, or a folder cannot be removed.
    pub fn clean(&mut self) -> Result<(), String> {
        if let Place::Folder(folder) = &self.plan.place {
            // They are closed first: each writes what it has.
            self.subjects.clear();
            let mut folders =
                self.plan.modes.iter().map(|mode| folder.join(mode.name)).filter(|it| it.exists());
            return folders.try_for_each(std::fs::remove_dir_all).map_err(|error| {
                format!("cannot remove what the run left in '{}': {error}", folder.display())
            });
        }
        let Place::Servers(servers) = &self.plan.place else { return Ok(()) };
        for (number, mode) in self.plan.modes.iter().enumerate() {
            let is_single = matches!(mode.engine, Engine::Redis(scheme) if scheme.is_single());
            servers.clean(number, is_single)?;
        }
        Ok(())
    }
}

/// Connected and with clients, one for each mode.
fn subjects(plan: &Plan) -> Result<Vec<Subject>, String> {
    // The keys are the same in all embedded stores.
    let shared = LazyCell::new(|| Arc::<dyn Workload>::from(plan.workload.make("")));
    let subject = |number| {
        let workload = match &plan.place {
            Place::Embedded | Place::Folder(_) => Arc::clone(&shared),
            Place::Servers(servers) => plan.workload.make(&servers.prefix(number)).into(),
        };
        Subject::new(number, plan, workload)
    };
    (0..plan.modes.len()).map(subject).collect()
}
