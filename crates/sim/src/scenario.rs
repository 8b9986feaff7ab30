//! What a run does instead of random programs: the clients of a workload, and what must hold of its records at the end.
//!
//! The workload knows no simulator, and the simulator no workload: `claret sim --workload` brings them together. Its clients are
//! those of the [performance model](crate::model), here among faults.

use std::fmt;

use claret_types::Reply;

use crate::model::{Call, Client};

/// A workload to run. One may be run many times, also side by side.
pub trait Scenario: fmt::Debug + Send + Sync {
    /// Its name, as in `claret sim --workload NAME`.
    fn name(&self) -> &'static str;

    /// What is in the store before a run, one call after the other. It must be possible.
    fn load(&self) -> Box<dyn Iterator<Item = Call> + '_>;

    /// Somebody who issues one transaction after the other. `number` is this one's alone in a run; `seed` decides what it chooses.
    fn client(&self, number: u64, seed: u64) -> Box<dyn Client>;

    /// What does not hold of the records, a sentence each. Nothing runs any more. Whatever it asks, it asks through `read`.
    ///
    /// # Errors
    /// Something cannot be read.
    fn check(&self, read: Read<'_>) -> Result<Vec<String>, String>;
}

/// The answer of one call, or why there is none.
pub type Read<'a> = &'a mut dyn FnMut(&Call) -> Result<Reply, String>;
