//! A performance model: the real state machines of `claret-core`, with a cost attached to what they do, in virtual
//! time.
//!
//! Shards and client processes are single-threaded servers with a queue of frames each. A frame is everything that
//! one end has for another at one instant (P41); it takes time to work off, and what comes out of it leaves when
//! that is done. Which transactions meet, wait, give way and run again is decided by the same code that a store
//! runs; how long anything takes is decided by [`Costs`] alone. So a curve can be drawn on any machine, and the
//! same [`Setup`] gives the same figures to the last digit.
//!
//! | file | what |
//! |---|---|
//! | `costs` | what takes how long, and where the figures are from |
//! | `setup` | what is run: mode, shards, processes, pace |
//! | `client` | what a workload must do to be run here |
//! | `wire` | frames |
//! | `server` | a shard and its queue |
//! | `process` | a client process: its frontend, its clients, its queue |
//! | `seat` | one client's transaction |
//! | `clockwork` | the queue of what happens, and [`Model`] |
//! | `measure` | what it came to |
//!
//! What it does not do: nothing is lost, doubled or overtaken here, and nobody dies. That is the simulator's part
//! (`world.rs`), and it does not say how fast anything is.

mod client;
mod clockwork;
mod costs;
mod measure;
mod process;
mod seat;
mod server;
mod setup;
mod wire;

pub use client::{Call, Client, Stage};
pub use clockwork::Model;
pub use costs::{Cost, Costs};
pub use measure::{Causes, Latencies, Measured};
pub use setup::{Mode, Pace, Setup};
