//! A server that any Redis client can use, with a store of Claret behind it: a Redis or Valkey cluster with the module, or records in
//! this process. MULTI, EXEC and WATCH work over all slots, as Claret's transactions. `docs/gateway.md` in the repository says what
//! becomes of each command, and has the rules (G1...).
//!
//! `claret gateway` runs it. In a program of one's own:
//!
//! ```no_run
//! use std::net::TcpListener;
//!
//! use claret_gateway::{Behind, Door, Gateway, GatewayHandle};
//!
//! let store = claret::Store::in_memory();
//! let door = Door::Tcp(TcpListener::bind("127.0.0.1:6380")?);
//! Gateway::new(Behind::Store(store)).run(vec![door], &GatewayHandle::default(), || println!("ready"))?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

// The files:
//
// | file | what |
// |---|---|
// | `server`, `stream`, `tls` | listening, and what carries bytes |
// | `limits`, `memory`, `work` | what clients may cost: bounds, the bytes that are kept for each, and where long work is done |
// | `connection`, `request`, `replies`, `resp` | bytes in, requests out; answers in their order, in both protocols |
// | `client`, `one`, `local`, `about`, `info`, `fan_out` | one client; where its commands go |
// | `queue`, `multi`, `once`, `scripts`, `evaluate`, `publish` | MULTI and EXEC, scripts, and messages that leave with them; `claret-commands` carries them out |
// | `watching`, `watch`, `place`, `turns`, `turn`, `hot` | WATCH, and turns on what is watched |
// | `passthrough`, `query`, `blocking`, `read_streams`, `waits`, `subscribe`, `pubsub`, `channels`, `arriving` | what a node does as it is, and what waits |
// | `users`, `login`, `session` | who gets in, and what each user has |
// | `shared`, `registry`, `metrics` | what all connections share |
//
// A thread runs all connections of its clients, each a task. A command that goes to one node as it is takes no task: its bytes join
// what leaves for that node, and the answer's bytes join what leaves for the client.

mod about;
mod arriving;
mod blocking;
mod channels;
mod client;
mod connection;
mod evaluate;
mod fan_out;
mod fault;
mod finding;
mod functions;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hot;
mod info;
mod limits;
mod local;
mod login;
mod memory;
mod metrics;
mod multi;
mod once;
mod one;
mod passthrough;
mod place;
mod publish;
mod pubsub;
mod query;
mod queue;
mod read_streams;
mod registry;
mod replies;
mod request;
mod resp;
mod scripts;
mod server;
mod session;
mod shared;
mod stream;
mod subscribe;
mod tls;
mod turn;
mod turns;
mod users;
mod waits;
mod watch;
mod watching;
mod work;

pub use limits::GatewayLimits;
pub use scripts::ScriptsMode;
pub use server::{Behind, Door, Gateway, GatewayError, GatewayHandle};
pub use watch::WatchMode;
