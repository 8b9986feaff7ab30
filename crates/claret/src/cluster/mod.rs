//! A store on a Redis or Valkey cluster whose nodes load Claret's module, or on a single server with it.
//!
//! [`Store::connect`](crate::Store::connect) opens one by its address, [`Store::cluster`](crate::Store::cluster) answers a
//! [`ClusterBuilder`] with all settings, and [`blocking::Store::connect`](crate::blocking::Store::connect) is for plain threads.
//! A [`ConnectError`] names the node, what is wrong with it and what to do.
//!
//! Threads and tasks share a store by cloning it. It has one connection for each node (one more where a user may not subscribe
//! to its channel), which comes back by itself when it breaks. Requests of all transactions that go to one node
//! at one time leave as one command.
//!
//! [`Plain`] sends plain Redis commands over connections of the same kind, with or without the module. Nothing that a server
//! sends costs more than [`ReplyLimits`] allow.

// The files:
//
// | file | what |
// |---|---|
// | `builder`, `settings` | what a store on a cluster is told: the builder; the URL |
// | `backend` | transactions, as the store sees them |
// | `client`, `machine`, `frames` | the client state machine (`claret_core::Client`) behind one mutex; its connections; time |
// | `handshake` | what a connection begins with |
// | `net`, `connection`, `backoff`, `tls` | one task for each node: connect, log in, read and write, connect anew |
// | `topology`, `address` | which node serves which slot |
// | `resp`, `bounds`, `secret` | RESP3 and RESP2 by a library; what is taken from a server, at most; what is never shown |
// | `timers`, `ticks` | timers on the store's runtime; deadlines that are far away |
// | `runtime_thread` | a thread for the connections of a blocking store |
// | `plain/` | plain commands, multiplexed, decoded or as bytes; mode `none` |
//
// A transaction's call goes to its coordinator in the machine. Requests of all transactions gather in the outbox of
// each shard, and leave as one frame when the connection's task runs next. The task never waits for earlier replies.
// Replies and grants go into the machine under one lock for each read, and wake the transactions they concern.
//
// Lock order: a transaction's state, then the machine or the queues of plain commands, then a mailbox.

mod address;
mod backend;
mod backoff;
mod bounds;
mod builder;
mod client;
mod connection;
mod error;
mod frames;
#[cfg(test)]
mod fuzz;
mod handshake;
mod keys;
mod machine;
mod net;
mod outcomes;
mod plain;
mod resp;
mod runtime_thread;
mod secret;
mod settings;
mod ticks;
mod timers;
mod tls;
mod topology;

pub use bounds::ReplyLimits;
pub use builder::ClusterBuilder;
pub use error::ConnectError;
pub use plain::{Command, Dedicated, Forward, Plain, PlainError, Raw, Said, reply_of};
pub use resp::ServerError;
pub(crate) use runtime_thread::RuntimeThread;
pub use secret::without_passwords;
#[doc(hidden)]
pub use settings::{Chains, Grants};
pub use topology::slot_of;
