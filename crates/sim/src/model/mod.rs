//! A performance model: the real state machines of `claret-core`, with a cost attached to what they do, in virtual
//! time.
//!
//! Shards and client processes are single-threaded servers with a queue of frames each. A frame is everything that
//! one side has for another at one instant (P41). Processing it takes time, and its results leave when that is done.
//! The same code that a store runs decides which transactions meet, wait, give way and run again; [`Costs`] alone
//! decides how long anything takes. So any machine can draw the curves, and the same [`Setup`] gives the same figures
//! to the last digit.
//!
//! | file | what |
//! |---|---|
//! | `costs` | what takes how long, and where the figures are from |
//! | `setup` | what is run: mode, shards, processes, pace |
//! | `client` | what a workload must do to be run here |
//! | `wire` | frames |
//! | `server` | a shard and its queue |
//! | `process` | a client process: its client machine, its clients, its queue |
//! | `terminal` | one client's transaction |
//! | `clockwork` | the queue of what happens, and [`Model`] |
//! | `measure` | what it came to |
//!
//! Nothing is lost, doubled or overtaken here, and nobody dies. The simulator does that (`world.rs`), but it does not
//! say how fast anything is.

mod client;
mod clockwork;
mod costs;
mod measure;
mod process;
mod server;
mod setup;
mod terminal;
mod wire;

pub use claret_core::Ordered;
pub use claret_core::ways::{ProcessWay, WaySwitches};
pub use client::{Call, Client, Stage};
pub use clockwork::Model;
pub use costs::{Cost, Costs};
pub use measure::{Causes, INTERVALS, Latencies, Measured};
pub use setup::{Mode, Pace, Setup};
