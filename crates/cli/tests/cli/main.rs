//! The program, as users call it.

mod bench;
mod check_store;
mod cluster;
mod cluster_bench;
mod deaths;
mod durable;
mod gateway;
#[allow(unreachable_pub, reason = "the program shows it as a user would write it")]
#[path = "../../src/commands/high_water.rs"]
mod high_water;
mod high_water_in_use;
mod image;
mod manual;
mod output;
mod release;
mod report;
mod run;
mod schema;
mod shell;
mod sim;
mod top;
mod torture;
mod tpcc;
mod write_a_type;
