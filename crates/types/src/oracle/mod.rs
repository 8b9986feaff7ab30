//! The commutativity oracle: proves on small cases that what a type's lock admits really commutes.
//!
//! It is what `claret check-type` runs, and what the author of a custom type runs in a test:
//!
//! ```
//! use claret_types::oracle::{self, Bounds};
//! let report = oracle::check::<claret_types::Set>(Bounds { cases: 20_000, ..Bounds::default() });
//! assert!(report.verdict.is_none(), "{report}");
//! ```
//!
//! # What is enumerated
//!
//! *Histories*. From each example state, with an empty [`Held`](crate::Held), any of these steps, in any
//! order:
//!
//! - **grant**: an operation of a new owner is executed in the committed state and its claims are admitted
//!   against those of the others, by the same code that the store uses;
//! - **extend**: an owner executes a second operation on its own overlay (the committed state and its own
//!   effects), its claims admitted against those of the *other* owners: reading one's own writes;
//! - **combine**: a read of another owner takes its answer from one that is held, and claims nothing;
//! - **apply**: a pending owner's effects reach the committed state and its claims are released;
//! - **abort**: a pending owner's claims are released, and nothing else.
//!
//! A *configuration* is a committed state with what is pending there. Each is checked once, however many
//! histories lead to it: in **every order** of what is pending, executing and applying one owner after
//! the other gives each operation the reply that it was granted with, without an error, and the final state
//! is the one that the recorded effects leave, in that order and in all others. Every subset of a
//! configuration is one too (abort the rest), so every subset is checked in every order. A *case* is one
//! such order of one configuration; orders that differ by swapping equal owners are one.
//!
//! Before that, the modes are symmetric, and operations come back from their names and arguments, which is how
//! they travel. Along the way, at every state that is met: executing is a function
//! of its arguments, equal states answer alike, reads have no effect (so that any two commute), void
//! operations answer OK, the inverse restores the state. After it: footprints cover what was claimed, and
//! operations whose footprints neither conflict nor both draw commute, which combining goes by; total operations
//! can be done in every state that was met, and in the absent record; and blind ones do in each of these states what they do to
//! an absent record, and that is undone exactly. What does commute and is kept apart nevertheless is reported as lost
//! concurrency, not as a failure.
//!
//! Sets of one are finished before sets of two, and so on, in order of steps: the first counterexample is the
//! smallest. Since executing and applying are functions, each is evaluated once for each state and operation
//! and remembered; the orders are then walked over these tables.
//!
//! What it does not prove: anything about values that no example shows.

mod bounds;
mod checks;
mod explanation;
mod histories;
mod laws;
mod living;
mod naming;
mod orders;
mod report;
mod state_space;
mod units;

pub use bounds::{Bounds, DEPTH_MAX, PENDING_MAX};
pub use checks::builtin;
pub use living::{Living, Slot};
pub use report::{Counterexample, Law, Lost, Report};

use crate::data_type::Examples;
use histories::{Histories, Progress};
use report::Stop;
use state_space::StateSpace;

/// The check of one type, with the type forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The type's name, as in `claret check-type NAME`.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(Bounds) -> Report,
}

impl Check {
    /// That of a type.
    pub const fn of<T: Examples>() -> Check {
        Check { name: T::NAME, run: check::<T> }
    }
}

/// Checks a type's specification. Deterministic; time grows with [`Bounds::cases`], about a second for
/// each million in a release build, and memory with it, some 60 bytes for each configuration.
///
/// # Panics
/// When `execute`, `room` or `combine` do. An `apply` that panics is a counterexample.
pub fn check<T: Examples>(bounds: Bounds) -> Report {
    let bounds = bounds.clamped();
    let mut numbered = vec![false; T::operations().len()];
    loop {
        match attempt::<T>(bounds, &numbered) {
            Ok(report) => return report,
            // An operation turned out to depend on its number: start over and give it fresh ones.
            Err(operation) => numbered[operation] = true,
        }
    }
}

/// Checks with the operations in `numbered` given a fresh number each time they are granted, or says which
/// other one needs that.
fn attempt<T: Examples>(bounds: Bounds, numbered: &[bool]) -> Result<Report, usize> {
    let mut space = StateSpace::<T>::new(numbered, bounds.depth);
    let mut report = Report::new(T::NAME, bounds, space.examples().len(), numbered.len());
    if let Some(counterexample) = laws::modes(&T::MODES).or_else(laws::arguments::<T>) {
        report.verdict = Some(counterexample);
        return Ok(report);
    }
    let mut histories = Histories::new(&mut space, bounds);
    let explored = histories.run();
    let Progress { configurations, cases, complete } = histories.progress();
    (report.configurations, report.cases, report.complete) = (configurations, cases, complete);
    let judged = explored.and_then(|()| laws::footprints(&mut space)).and_then(|()| laws::total(&mut space));
    let judged = judged
        .and_then(|()| laws::lasting(&mut space))
        .and_then(|()| laws::blind(&mut space))
        .and_then(|()| laws::concurrency(&mut space));
    report.states = space.states();
    report.executions = space.executions();
    match judged {
        Ok(found) => {
            (report.pairs, report.admitted, report.lost) = (found.pairs, found.admitted, found.lost);
        }
        Err(Stop::Refused(counterexample)) => report.verdict = Some(*counterexample),
        Err(Stop::Numbered(operation)) => return Err(operation),
    }
    Ok(report)
}
