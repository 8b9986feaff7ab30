//! Parts that know no global: state machines and plain data, which get everything they need as arguments. They return
//! what they want done (let a client go, send a request to the shard), and the node does it.

pub(crate) mod adding;
pub(crate) mod blocked_clients;
pub(crate) mod command_table;
pub(crate) mod equivalent;
pub(crate) mod errands;
pub(crate) mod error;
pub(crate) mod following;
pub(crate) mod incarnations;
pub(crate) mod leaving;
pub(crate) mod letters;
pub(crate) mod mail;
pub(crate) mod members;
pub(crate) mod native;
pub(crate) mod one_shots;
pub(crate) mod open_multis;
pub(crate) mod outbox;
pub(crate) mod owner;
pub(crate) mod passed_over;
pub(crate) mod plain;
pub(crate) mod questions;
pub(crate) mod queue;
pub(crate) mod replicas;
pub(crate) mod seals;
pub(crate) mod sessions;
pub(crate) mod slots;
pub(crate) mod stored;
pub(crate) mod stranded;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod users;
pub(crate) mod vanished;
pub(crate) mod verdict;
