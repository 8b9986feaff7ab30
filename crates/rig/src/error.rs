//! What can go wrong with a server, and what to do about it.

use std::io;
use std::path::Path;

use thiserror::Error;

/// A server or cluster could not be started, reached or stopped.
#[derive(Debug, Error)]
pub enum RigError {
    /// No program to run.
    #[error("there is no server program: {0}")]
    NoServer(String),
    /// A library that servers load is not there: the module, or a clock that can be shifted.
    #[error("there is no library for the servers to load: {0}")]
    NoLibrary(String),
    /// The wanted port belongs to somebody else.
    #[error("port {0} is in use (or {1}, of its cluster bus); choose another one")]
    PortInUse(u16, u16),
    /// Its cluster bus would be beyond the last port.
    #[error("port {0} is too high: that of the cluster bus is 10000 above it, so 55535 is the last")]
    PortTooHigh(u16),
    /// No port is free.
    #[error("no free port was found; say which one to use")]
    NoPort,
    /// The server ended before it answered.
    #[error("the server on port {port} ended while starting; the end of its log:\n{log}")]
    Ended {
        /// Its port.
        port: u16,
        /// The end of its log.
        log: String,
    },
    /// Certificates for TLS could not be made.
    #[error("making certificates: {0}")]
    Certificates(String),
    /// Something took too long.
    #[error("{what} took more than {seconds} s{log}")]
    TooLong {
        /// What was waited for, and how it stood.
        what: String,
        /// How long.
        seconds: u64,
        /// The end of the logs.
        log: String,
    },
    /// The caller wants no more.
    #[error("interrupted while starting; what was started was stopped")]
    Interrupted,
    /// The server answered with an error, or did not answer.
    #[error("{what}: {error}")]
    Redis {
        /// Of whom, doing what.
        what: String,
        /// Its answer.
        error: redis::RedisError,
    },
    /// The system refused something.
    #[error("{what}: {error}")]
    Io {
        /// Doing what.
        what: String,
        /// Why.
        error: io::Error,
    },
}

impl RigError {
    /// Whether somebody else has the port: another one may do.
    pub fn is_about_port(&self) -> bool {
        match self {
            RigError::PortInUse(..) => true,
            RigError::Ended { log, .. } => {
                log.contains("Address already in use") || log.contains("Failed listening")
            }
            _ => false,
        }
    }

    pub(crate) fn io(doing: &str, path: &Path, error: io::Error) -> Self {
        RigError::Io { what: format!("{doing} {}", path.display()), error }
    }
}
