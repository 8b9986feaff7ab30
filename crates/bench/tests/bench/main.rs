//! The benchmark: its workloads, modes and baselines.

mod baselines;
mod comparison;
mod counted;
mod sqlite;
mod tpcc;
mod tpcc_sim;
mod workloads;
