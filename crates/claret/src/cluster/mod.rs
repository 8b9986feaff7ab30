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
//! Nothing that a server sends costs more than [`ReplyLimits`] allow.

// The files:
//
// | file | what |
// |---|---|
// | `builder`, `settings` | what a store on a cluster is told: the builder; the URL's parameters |
// | `backend` | transactions, as the store sees them |
// | `client`, `frames` | the client state machine (`claret_core::Client`) behind one mutex; its connections; time |
// | `handshake`, `channel` | what a connection begins with; the channel that grants are pushed on |
// | `keys`, `outcomes` | what is asked of all nodes, over connections of its own |
// | `timers`, `ticks` | timers on the store's runtime; deadlines that are far away |
// | `ways/` | the ways to commit, as a user sets them |
// | `runtime_thread` | a thread for the connections of a blocking store |
// | `unlocked`, `together`, `refused` | mode `none`: operations as plain commands |
//
// The connections themselves are the crate `claret-redis`: the tasks that keep them, RESP and its bounds, the topology.
//
// A transaction's call goes to its coordinator in the machine. Requests of all transactions gather in the outbox of
// each shard, and leave as one frame when the connection's task runs next. The task never waits for earlier replies.
// Replies and grants go into the machine under one lock for each read, and wake the transactions they concern.
//
// Lock order: a transaction's state, then the machine or the queues of plain commands, then a mailbox.

mod backend;
mod builder;
mod channel;
mod client;
mod frames;
mod handshake;
mod keys;
mod outcomes;
mod refused;
mod runtime_thread;
mod settings;
mod ticks;
mod timers;
mod together;
mod unlocked;
#[doc(hidden)]
pub mod ways;

pub use builder::ClusterBuilder;
pub use claret_redis::{ConnectError, ReplyLimits};
pub(crate) use runtime_thread::RuntimeThread;
#[doc(hidden)]
pub use settings::Grants;
