//! Running workloads and measuring them.
//!
//! A [`Plan`] says what to run; [`Bench`] loads a store for each mode, runs the modes in turn in short slices
//! (R19), and checks at the end what each store holds against what its clients were told (R20). What is printed,
//! and where, is decided in `commands/`.

mod contestant;
mod crew;
mod drive;
mod measure;
mod mode;
pub mod model;
pub mod mutex;
mod pace;
mod rival;
mod servers;
mod session;
pub mod table;

pub use contestant::{Check, Contestant};
pub use drive::{Bench, MakeByHand, Place, Plan, watch_interrupts};
pub use measure::{Figures, Setting, Slice, Summary};
pub use mode::{BenchMode, Contender};
pub use pace::Pace;
pub use rival::RivalKind;
pub use servers::{Given, Servers, delete_everywhere};
