//! Bounds on what a server may send. A server may be broken or hostile: none of its replies may cost more memory,
//! stack or time than these bounds allow. Beyond a bound the client closes the connection, with an error that names
//! the node and the bound ([`ConnectError::OverBound`](crate::ConnectError::OverBound)).

/// The longest name of a host, in bytes, as the DNS has it.
pub(crate) const HOST_BYTES_MAX: usize = 255;

/// How much of a server's error text is kept, in bytes; the rest is cut.
pub(crate) const ERROR_BYTES_MAX: usize = 1_024;

/// Bounds on what a server may send. All of them are enforced. See
/// [`Builder::reply_limits`](crate::Builder::reply_limits): change those of [`ReplyLimits::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyLimits {
    /// One reply or push, in bytes. By default 1 GiB: the largest value that Redis keeps, twice.
    pub reply_bytes_max: usize,
    /// Values in one reply or push, including those in arrays. By default 4,194,304.
    pub reply_elements_max: usize,
    /// Arrays within arrays. By default 32.
    pub reply_depth_max: usize,
    /// One line (an error, a short text or a number), in bytes. By default 64 KiB.
    pub line_bytes_max: usize,
    /// One reply or push until login and handshake are over, in bytes. By default 64 KiB.
    pub login_bytes_max: usize,
    /// Values in one of those. By default 4,096.
    pub login_elements_max: usize,
    /// The reply to `CLUSTER SLOTS`, in bytes. By default 16 MiB.
    pub topology_bytes_max: usize,
    /// Values in it. By default 1,048,576.
    pub topology_elements_max: usize,
    /// Nodes that serve slots: each costs a connection. By default 1,024.
    pub topology_nodes_max: usize,
    /// Pushes that nobody asked for, between two replies. By default 4,096.
    pub pushes_max: usize,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        ReplyLimits {
            reply_bytes_max: 1 << 30,
            reply_elements_max: 1 << 22,
            reply_depth_max: 32,
            line_bytes_max: 64 << 10,
            login_bytes_max: 64 << 10,
            login_elements_max: 4_096,
            topology_bytes_max: 16 << 20,
            topology_elements_max: 1 << 20,
            topology_nodes_max: 1_024,
            pushes_max: 4_096,
        }
    }
}

/// A bound that is exceeded: its name, and what it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub(crate) name: &'static str,
    pub(crate) limit: usize,
}

/// The bounds during one phase of a connection's life.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub(crate) bytes: Bound,
    pub(crate) elements: Bound,
    pub(crate) depth: Bound,
    pub(crate) line: Bound,
    pub(crate) pushes: Bound,
}

impl ReplyLimits {
    /// Until login and handshake are over.
    pub fn of_login(&self) -> Bounds {
        Bounds {
            bytes: Bound { name: "login_bytes_max", limit: self.login_bytes_max },
            elements: Bound { name: "login_elements_max", limit: self.login_elements_max },
            ..self.of_work()
        }
    }

    /// While the client waits for the reply to `CLUSTER SLOTS`.
    pub fn of_topology(&self) -> Bounds {
        Bounds {
            bytes: Bound { name: "topology_bytes_max", limit: self.topology_bytes_max },
            elements: Bound { name: "topology_elements_max", limit: self.topology_elements_max },
            ..self.of_work()
        }
    }

    /// Afterwards.
    pub fn of_work(&self) -> Bounds {
        Bounds {
            bytes: Bound { name: "reply_bytes_max", limit: self.reply_bytes_max },
            elements: Bound { name: "reply_elements_max", limit: self.reply_elements_max },
            depth: Bound { name: "reply_depth_max", limit: self.reply_depth_max.min(DEPTH_MAX) },
            line: Bound { name: "line_bytes_max", limit: self.line_bytes_max },
            pushes: Bound { name: "pushes_max", limit: self.pushes_max },
        }
    }
}

/// Arrays within arrays, whatever is asked for: each costs stack.
const DEPTH_MAX: usize = 128;
