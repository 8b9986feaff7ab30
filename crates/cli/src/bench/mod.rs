//! Running workloads and measuring them.

pub mod mutex;
