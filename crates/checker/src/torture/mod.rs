//! Torture: independent histories on a store that is killed, stopped, failed over and started again all the while. At the end
//! every key is read, and the histories are judged (`docs/torture.md`).
//!
//! A run consists of **generations** of a few seconds, each with keys of its own: lists, sets and accounts. A transaction
//! begins in one generation and stays in it. Nobody stops between two generations: so faults strike in the midst of work, and
//! the history of each stays short enough to be judged. Histories are written to files as they happen; all of them are judged at
//! the end, one after the other, when everything was read.
//!
//! | history | transactions | judged |
//! |---|---|---|
//! | lists | appends of unique items, with and without an answer; reads | order of all that saw and missed an item; by adya, too |
//! | sets | adds of unique members; reads | the same |
//! | bank | transfers, each with its number in a ledger; audits | the total is always 0, and each account is what the ledger says |
//!
//! The clients are other processes ([`take_part_in_torture`]). Each tells on its standard output what it is about to write and
//! what became of it, so that this process knows what was acknowledged whenever one is killed.

mod answers;
mod children;
mod clocks;
mod cluster;
mod cuts;
mod disk;
mod final_read;
mod folder;
mod judge;
mod ledger;
mod network;
mod plan;
mod records;
mod report;
mod run;
mod schedule;
mod servers;
mod slots;
mod strikes;
mod url;
mod waivers;
mod worker;
mod worker_log;

pub use plan::{Durability, StartTortured, TorturePlan, TortureTarget, Tortured};
pub use report::TortureReport;
pub use schedule::torture;
pub use worker::take_part_in_torture;
