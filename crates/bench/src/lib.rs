//! Runs workloads in several modes, measures them and checks the results.
//!
//! [`workload`] says what clients do, independent of any store. A [`Plan`] says what to compare. [`Bench`] loads a store
//! for each mode, runs the modes in turn in short slices, so that noise hurts all alike, and finally compares what each
//! store holds with what its clients were told. [`model`] runs the same clients in virtual time. [`sale`] is a checkout as people
//! write it, in several ways. Nothing is printed here.

mod baseline;
mod comparison;
mod items;
mod looking;
mod measure;
mod mode;
pub mod model;
mod observer;
mod over_time;
mod pace;
mod plan;
mod runner;
pub mod sale;
mod schedule;
mod servers;
mod subject;
mod threads;
mod ways;
pub mod workload;

pub use comparison::Bench;
pub use looking::Looking;
pub use measure::{Check, Figures, KindSummary, Setting, Slice, Summary};
pub use mode::{BenchMode, Engine, Scheme};
pub use observer::Observer;
pub use over_time::OverTime;
pub use pace::Pace;
pub use plan::{Place, Plan};
pub use servers::{ClusterSource, Servers};
pub use subject::Subject;
