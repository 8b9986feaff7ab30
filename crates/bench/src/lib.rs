//! Running workloads and measuring them.
//!
//! [`workload`] is what is run, apart from any store. A [`Plan`] says what to compare; [`Bench`] loads a store for each
//! mode, runs the modes in turn in short slices (R19), and checks at the end what each store holds against what its
//! clients were told (R20). Nothing is printed here: that is the program's.

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
pub mod workload;

pub use contestant::{Check, Contestant};
pub use drive::{Bench, MakeByHand, Observer, Place, Plan};
pub use measure::{Figures, Setting, Slice, Summary};
pub use mode::{BenchMode, Contender};
pub use pace::Pace;
pub use rival::RivalKind;
pub use servers::{Given, Servers};
