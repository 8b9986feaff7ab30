//! Stores on real clusters: three or four servers with the module.

#[path = "cluster/at_commit.rs"]
mod at_commit;
#[path = "at_commit/mod.rs"]
mod at_commit_cases;
#[path = "cluster/bad_input.rs"]
mod bad_input;
#[path = "cluster/blocking.rs"]
mod blocking;
#[path = "cluster/chains.rs"]
mod chains;
#[path = "cluster/closed.rs"]
mod closed;
#[path = "cluster/commits.rs"]
mod commits;
#[path = "cluster/conformance.rs"]
mod conformance;
#[path = "errors/mod.rs"]
mod errors;
#[path = "cluster/errors.rs"]
mod errors_of_a_cluster;
#[path = "cluster/faults.rs"]
mod faults;
#[allow(dead_code)]
#[path = "bad_input/faulty.rs"]
mod faulty;
#[path = "cluster/forward.rs"]
mod forward;
#[path = "handles/mod.rs"]
mod handles;
#[path = "cluster/limit.rs"]
mod limit;
#[path = "cluster/moves.rs"]
mod moves;
#[path = "nesting/mod.rs"]
mod nesting_cases;
#[path = "cluster/observe.rs"]
mod observe;
#[path = "cluster/opening.rs"]
mod opening;
#[path = "cluster/optimistic.rs"]
mod optimistic;
#[path = "optimistic/mod.rs"]
mod optimistic_cases;
#[path = "cluster/ordered.rs"]
mod ordered;
#[path = "cluster/outcomes.rs"]
mod outcomes;
#[path = "cluster/plain.rs"]
mod plain;
#[path = "cluster/rig.rs"]
mod rig;
#[path = "cluster/schema.rs"]
mod schema;
#[path = "cluster/strict.rs"]
mod strict;
#[path = "cluster/strikes.rs"]
mod strikes;
#[path = "cluster/taking.rs"]
mod taking;
#[path = "cluster/values.rs"]
mod values;
#[path = "ways/mod.rs"]
mod ways;
