//! The simulator: its seeds and scripts, what it finds, the exhaustive search, and the model of performance.

mod exhaustive;
mod model;
#[cfg(feature = "planted-bugs")]
mod planted;
mod plants;
mod scripts;
mod seeds;
mod ways;
