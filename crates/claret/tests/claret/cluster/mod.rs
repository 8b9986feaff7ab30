//! Stores on real clusters: three or four servers with the module.

mod at_commit;
mod bad_input;
mod blocking;
mod closed;
mod commands;
mod commits;
mod conformance;
mod errors;
mod faults;
mod limit;
mod moves;
mod observe;
mod opening;
mod optimistic;
mod ordered;
mod outcomes;
mod plain;
mod rig;
mod schema;
mod strict;
mod strikes;
mod taking;
mod values;
mod ways;
