//! Explores a plan completely, and tells what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::plan::Plan;
use super::world::{Action, Field, World};

/// What a search came to.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: &'static str,
    /// Different states.
    pub(crate) unique: usize,
    /// States generated, again and again the same.
    pub(crate) states: usize,
    /// The longest of the shortest ways from the beginning.
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
    /// Properties that do not hold, each with the way there.
    pub(crate) violations: BTreeMap<&'static str, String>,
}

/// Explores all of a plan's states.
pub(crate) fn search(plan: &Plan, threads: usize) -> Found {
    let start = Instant::now();
    let checker = Field::new(plan.clone()).checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let violations =
        checker.discoveries().into_iter().map(|(name, path)| (name, told(&path.into_vec()))).collect();
    Found {
        name: plan.name,
        unique: checker.unique_state_count(),
        states: checker.state_count(),
        depth: checker.max_depth(),
        seconds: start.elapsed().as_secs_f64(),
        violations,
    }
}

/// A way through the states, a line for each step.
pub(crate) fn told(steps: &[(World, Option<Action>)]) -> String {
    let mut text = String::new();
    for (number, (world, action)) in steps.iter().enumerate() {
        let line = match action {
            Some(action @ (Action::Deliver(at) | Action::Double(at) | Action::Lose(at))) => {
                format!("{action:?} {}", world.messages[*at].it)
            }
            Some(action) => format!("{action:?}"),
            None => world.broken.clone().unwrap_or_else(|| world.picture()),
        };
        text.push_str(&format!("{number:3} {line}\n"));
    }
    text
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { name, unique, states, depth, seconds, violations } = self;
        write!(f, "| {name} | {unique} | {states} | {depth} | {seconds:.1} | ")?;
        match violations.len() {
            0 => write!(f, "hold |"),
            broken => write!(f, "{broken} do not hold |"),
        }
    }
}
