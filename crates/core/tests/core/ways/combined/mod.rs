//! Combining (`docs/combining.md`).

mod random;
mod rig;
mod sharing;
