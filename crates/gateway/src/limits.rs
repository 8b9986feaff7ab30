//! What clients may cost.

use std::time::Duration;

/// What one request may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// All of it, in bytes.
    pub(crate) bytes_max: usize,
    pub(crate) words_max: usize,
    /// A line: what a person types, or a count.
    pub(crate) line_max: usize,
}

impl RequestLimits {
    /// Of a client that has not said who it is where it has to, as servers bound it.
    pub(crate) const STRANGER: RequestLimits =
        RequestLimits { bytes_max: 16 << 10, words_max: 10, line_max: 16 << 10 };
}

/// What clients may cost. All of it is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Connections at once; a further one is told so and closed. By default 10,000.
    pub connections_max: usize,
    /// One request, in bytes. By default 64 MiB.
    pub request_bytes_max: usize,
    /// Words in one request. By default 1,048,576.
    pub request_words_max: usize,
    /// Commands between MULTI and EXEC. By default 100,000.
    pub queued_max: usize,
    /// Bytes of them. By default 64 MiB.
    pub queued_bytes_max: usize,
    /// Keys that a connection watches. By default 1,024.
    pub watched_max: usize,
    /// Bytes of them. By default 1 MiB.
    pub watched_bytes_max: usize,
    /// Commands of one connection that wait for their answers; further ones are not read until some are there. By default 1,024.
    pub pipelined_max: usize,
    /// Commands that wait for their answers, and answers that a client has not read, in bytes each; until that is less, no more of its
    /// commands are read. A client that reads nothing for a moment is read from all the same: it may read only once it has written
    /// everything. By default 1 MiB.
    pub unread_bytes_max: usize,
    /// What one connection has the gateway keep, in bytes: requests, commands that wait, what its transaction makes, reads and answers,
    /// and answers that it has not read. A transaction that would be over it is refused, whatever else is over it closes the
    /// connection. By default 256 MiB.
    pub client_bytes_max: usize,
    /// The same of all connections together; over that, the connection that keeps most is closed. By default 1 GiB.
    pub total_bytes_max: usize,
    /// The same of messages that it listens to; then the connection is closed. By default 32 MiB, as a server's.
    pub unread_messages_max: usize,
    /// Users that are logged in at once: each has connections to all nodes of its own. By default 256.
    pub users_max: usize,
    /// Logins that wait at once until a node has judged them; further ones are told so. By default 1,024.
    pub logins_max: usize,
    /// How long a connection may send nothing, or half a request; zero: for ever. By default for ever, as servers do.
    pub idle: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        GatewayLimits {
            connections_max: 10_000,
            request_bytes_max: 64 << 20,
            request_words_max: 1 << 20,
            queued_max: 100_000,
            queued_bytes_max: 64 << 20,
            watched_max: 1_024,
            watched_bytes_max: 1 << 20,
            pipelined_max: 1_024,
            unread_bytes_max: 1 << 20,
            client_bytes_max: 256 << 20,
            total_bytes_max: 1 << 30,
            unread_messages_max: 32 << 20,
            users_max: 256,
            logins_max: 1_024,
            idle: Duration::ZERO,
        }
    }
}

impl GatewayLimits {
    pub(crate) fn of_request(&self) -> RequestLimits {
        RequestLimits {
            bytes_max: self.request_bytes_max,
            words_max: self.request_words_max,
            line_max: 64 << 10,
        }
    }
}
