//! Judges a store from outside: many clients work on a few hot keys and record what they saw; then judges look for results
//! that no serial order explains. The store's own word counts for nothing.
//!
//! A [`Plan`] says who works on what, a [`Target`] is the store; [`check`] runs the plan and answers with a [`Report`].
//!
//! # Histories
//!
//! A transaction has one to five operations on records of these kinds, with pauses between them; some are one-shot.
//!
//! | record | operations | judged |
//! |---|---|---|
//! | set | unique adds, with and without an answer; reads | order of all that saw and missed an element |
//! | counter | one bit each; reads | the same |
//! | list | appends of unique items, some answered by the length; reads | the same, the order of items, and their places |
//! | register | unique values, blind or as a swap; reads | the same, and lost updates |
//! | bounded counter | changes that may be refused; reads | between its bounds, the sum of what was acknowledged |
//! | generator | unique numbers | none comes twice |
//! | bank | transfers; totals | the total never changes |
//!
//! [`claret_sim::observed`] judges sets, counters, lists and registers together: every value is written once, so each
//! answer tells who came before, and a cycle is a violation. [`adya`], an independent checker of list-append histories,
//! judges the lists alone. The rest is judged by sums and real time (`sums.rs`). Anomalies planted into the finished
//! history test the judges (`planted.rs`).
//!
//! On a cluster several processes may take part, and some clients may use plain commands on the same keys. Before any store
//! there may be gateways, and some clients speak to these alone, by `MULTI` and `WATCH` (`through.rs`).
//!
//! # Faults
//!
//! A run with faults consists of rounds, each with its own records. While the clients of a round work, faults strike; then
//! the clients stop, all locks must become free within the bound, every record is read, and the round is judged. So a long
//! run needs no more memory than a short one, and a lock that is left behind is noticed.
//!
//! What a fault means for the history:
//! - A killed process has recorded what it was about to do (`journal.rs`): that happened or not.
//! - A gateway that ends cuts its connections. What was sent on one and not answered happened or not.
//! - A record that expires or is flushed **ends**: the history has a transaction that leaves nothing of it. An expiry lies
//!   between the call of `PEXPIRE` and its reply, plus the milliseconds it was given. A flush lies between its call and its
//!   reply, and ends each record of its node by itself (P36), not all at once. An end is *certain* if the command was
//!   acknowledged and nothing else that ends or moves the record was under way; otherwise it *may* have happened. A
//!   transaction that had voted comes before the end, and its writes are gone with the record; by the clock, the end comes
//!   before those transactions alone that reach the record afterwards.
//! - A transaction may be refused while there is a reason for it, a withdrawn right or no memory, and at no other time.

mod bank;
mod clients;
mod clock;
mod fault;
mod gateways;
mod history;
mod injection;
mod intent;
mod journal;
mod moves;
mod plain;
mod plan;
mod planted;
mod processes;
mod proxy;
mod report;
mod rounds;
mod sums;
mod target;
mod through;
mod torture;
mod traffic;
mod verdict;
mod way;

pub use fault::Fault;
pub use gateways::Through;
pub use history::Why;
pub use plan::{Plan, Progress};
pub use processes::{StartWorker, Worker};
pub use report::Report;
pub use rounds::{check, take_part};
pub use target::Target;
pub use torture::{
    Durability, StartTortured, TorturePlan, TortureReport, TortureTarget, Tortured, take_part_in_torture,
    torture,
};
