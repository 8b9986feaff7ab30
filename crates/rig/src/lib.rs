//! Real servers for tests, benchmarks and `claret cluster`: started, broken and stopped on purpose.
//!
//! - [`Server`]: one `redis-server` or `valkey-server` process on loopback, with a directory of its own.
//! - [`Cluster`]: several of them as one cluster, with every slot assigned and all nodes of one mind.
//! - [`Certificates`]: made for one of them, if it is to speak TLS.
//! - [`Module`]: where the module is that they load.
//! - [`fake::Fake`]: says whatever a test wants, in this process.
//! - [`ShiftedClock`]: makes the clocks of servers jump.
//! - [`TestLimit`]: how long a test with them may take.
//!
//! Invariants:
//! - a server is known by its pid, and only that process is ever signalled;
//! - a server that was not left running on purpose ends with its owner, also when the owner is killed: a small
//!   process beside it waits for the end of a pipe (`guard.rs`);
//! - an answer counts only if it is our server's: another one may have taken the port.

mod clock;
mod cluster;
mod error;
pub mod fake;
mod folder;
mod guard;
mod keys;
mod library;
mod limit;
mod module;
mod ports;
mod process;
mod program;
mod secret;
mod server;
mod tls;
mod topology;

pub use clock::ShiftedClock;
pub use cluster::{Cluster, ClusterOptions, Progress};
pub use error::RigError;
pub use folder::TestFolder;
pub use keys::{delete_keys, delete_keys_everywhere};
pub use limit::TestLimit;
pub use module::Module;
pub use ports::{ephemeral_ports, is_free};
pub use process::{end, pause_process, resume_process, runs_in};
pub use program::server_program;
pub use secret::SecretFile;
pub use server::{Server, ServerOptions, connect, connect_within, field, query, url_of};
pub use tls::Certificates;
pub use topology::{Node, nodes, slot_of};

/// The highest port that leaves room for the port of the cluster bus.
pub const PORT_MAX: u16 = u16::MAX - BUS_OFFSET;

/// A node talks to its peers on the port that is so much higher.
pub const BUS_OFFSET: u16 = 10_000;

/// How many hash slots a cluster has.
pub const SLOTS: u16 = 16_384;
