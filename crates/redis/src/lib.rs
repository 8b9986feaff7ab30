//! Connections to the nodes of a Redis or Valkey cluster, or to a single server: addresses, TLS and logins ([`Builder`]), which
//! node serves which slot, and RESP2 and RESP3, of which nothing costs more than [`ReplyLimits`] allow.
//!
//! [`Cluster`] sends commands to all nodes, over connections that the process shares: decoded, or as bytes ([`Forward`]).
//! [`Dedicated`] and [`Raw`] are connections to one node for one user alone. Other protocols on such connections implement
//! [`net::Service`], as Claret's transactions do.

// The files, from below:
//
// | file | what |
// |---|---|
// | `secret`, `bounds`, `backoff`, `address`, `error` | what is never shown; what is taken from a server, at most; pauses |
// | `resp`, `topology`, `tls` | RESP2 and RESP3 by a library; which node serves which slot; certificates |
// | `settings`, `builder` | the URL; all settings, and what they connect to |
// | `connection`, `net` | one task for each node: connect, log in, read and write, connect anew |
// | `command`, `translate` | a command and its errors; operations of Claret's types as commands |
// | `forward`, `pool`, `gather`, `cluster` | who passes commands on; queues of commands for each node; commands that are waited for together; all of it |
// | `dedicated`, `raw` | connections to one node: decoded, and as bytes |
//
// A connection's task never waits for earlier replies before it writes. Lock order: the queues, then whatever a
// `Receiver` or a `Forward` locks to append a command.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod backoff;
mod bounds;
mod builder;
mod cluster;
mod command;
pub mod connection;
mod dedicated;
mod error;
mod forward;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gather;
pub mod net;
pub mod pool;
mod raw;
pub mod resp;
mod secret;
mod settings;
mod tls;
pub mod topology;
mod translate;

use std::task::Waker;

use smallvec::SmallVec;

pub use address::Address;
pub use backoff::Backoff;
pub use bounds::{Bound, Bounds, ReplyLimits};
pub use builder::Builder;
pub use cluster::Cluster;
pub use command::{Command, CommandError};
pub use dedicated::Dedicated;
pub use error::ConnectError;
pub use forward::Forward;
pub use raw::{Frame, Raw};
pub use resp::ServerError;
pub use secret::{Secret, without_passwords};
pub use settings::Settings;
pub use topology::slot_of;
pub use translate::{check_operation, encode_operation, reply_of};

/// Tasks to wake once no lock is held.
pub type Wakers = SmallVec<[Waker; 8]>;
