//! The gateway before a real cluster, and before records in its own process: what clients see.

mod costs;
mod embedded;
mod front_door;
mod listening;
mod multi;
mod nodes;
mod pops;
mod rights;
mod scripts;
mod steps;
mod streams;
mod support;
mod telling;
mod users;
mod waiting;
mod watching;
