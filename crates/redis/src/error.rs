//! Errors of connecting to a cluster or to one of its nodes.

use claret_types::SchemaDigest;
use thiserror::Error;

/// Why a store on a cluster could not be opened. Each variant names the node, the problem and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL, or a setting in it, is invalid. Final.
    #[error("'{url}' is not the address of a cluster: {reason}")]
    Url {
        /// What was given, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers there, or the connection broke. Retryable.
    #[error("{node} cannot be reached: {reason}; check that the server runs and that the address is right")]
    Unreachable {
        /// The node's address.
        node: String,
        /// What happened.
        reason: String,
    },
    /// The server does not know the user, or does not let it do what Claret needs. Final.
    #[error("{node} refuses: {reason}; {}", after_denial(reason))]
    Denied {
        /// The node's address.
        node: String,
        /// The server's words.
        reason: String,
    },
    /// The module is not loaded there. Final.
    #[error(
        "{node} does not have the Claret module; load it (`loadmodule libclaret_module.so`) on every node"
    )]
    NoModule {
        /// The node's address.
        node: String,
    },
    /// The module there speaks another version of the protocol. Final.
    #[error(
        "{node} has {module}, which speaks version {theirs} of the protocol, and this program speaks {ours}; \
         upgrade the older one"
    )]
    OtherVersion {
        /// The node's address.
        node: String,
        /// The module's name and version.
        module: String,
        /// The version it speaks.
        theirs: String,
        /// The version spoken here.
        ours: u16,
    },
    /// The nodes do not agree what a failover that nobody planned may lose. Final.
    #[error(
        "{node} has claret.durability {theirs}, and other nodes have {ours}: a transaction over both would promise neither; set the \
         same on all nodes"
    )]
    MixedDurability {
        /// The node's address.
        node: String,
        /// What it has.
        theirs: &'static str,
        /// What a node has that this program spoke with before.
        ours: &'static str,
    },
    /// The node has another schema than this program, or none. Final.
    #[error(
        "{node} has the schema {theirs} (claret.schema), and this program has {ours}; run `claret schema apply` with this \
         program's schema, or start a program that has the nodes' schema"
    )]
    OtherSchema {
        /// The node's address.
        node: String,
        /// The digest of what it has.
        theirs: SchemaDigest,
        /// That of what this program has.
        ours: SchemaDigest,
    },
    /// The nodes that were named are of two clusters, or a name leads to another cluster than before. Final.
    #[error(
        "{node} and {other} are of two clusters: none of the nodes that one knows is known to the other; name nodes of one cluster; \
         if it was replaced, open the store again"
    )]
    AnotherCluster {
        /// The node's address.
        node: String,
        /// That of a node of the cluster that this program speaks with.
        other: String,
    },
    /// Nobody serves some of the slots. Retryable: `connect` waited until its timeout.
    #[error(
        "no node serves {}; start the nodes again that served them, or let their replicas take over; where no node ever did, \
         `redis-cli --cluster fix` gives them to one (it would be without the records of those that are away)",
        describe_slots(slots)
    )]
    Uncovered {
        /// The slots, as first and last.
        slots: Vec<(u16, u16)>,
    },
    /// The server sent more than a bound allows: the connection was closed before that cost more.
    #[error(
        "{node} sent more than a server may: `{bound}` is {limit}; check that it is the right server, or raise that \
         bound in `ReplyLimits`"
    )]
    OverBound {
        /// The node's address.
        node: String,
        /// The bound's name in [`ReplyLimits`](crate::ReplyLimits).
        bound: &'static str,
        /// What it allows.
        limit: usize,
    },
    /// The server sent an unexpected answer.
    #[error(
        "{node} sent an answer that this client does not understand: {reason}; is it a Redis or Valkey server, 7.0 or later?"
    )]
    NotUnderstood {
        /// The node's address.
        node: String,
        /// What it said.
        reason: String,
    },
}

impl ConnectError {
    /// Whether trying again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            ConnectError::Unreachable { .. } | ConnectError::Uncovered { .. } => true,
            ConnectError::Url { .. }
            | ConnectError::Denied { .. }
            | ConnectError::NoModule { .. }
            | ConnectError::OtherVersion { .. }
            | ConnectError::MixedDurability { .. }
            | ConnectError::OtherSchema { .. }
            | ConnectError::AnotherCluster { .. }
            | ConnectError::OverBound { .. }
            | ConnectError::NotUnderstood { .. } => false,
        }
    }
}

/// What helps whoever was denied: the password, or the rights.
fn after_denial(reason: &str) -> &'static str {
    match reason.split(' ').next() {
        Some("NOPERM") => {
            "give the user that right (`ACL SETUSER`): a store needs +claret.hello, +claret.frame, +cluster|slots, \
             +cluster|nodes and +ssubscribe, and on Redis 7.0 its users +claret.read and +claret.write"
        }
        Some("NOAUTH") => "name a user and its password in the URL: redis://user:password@host",
        _ => "check the user and the password in the URL",
    }
}

/// `slot 5 and slots 7 to 9`.
pub(crate) fn describe_slots(slots: &[(u16, u16)]) -> String {
    const SHOWN_MAX: usize = 8;
    let one = |(first, last): &(u16, u16)| match first == last {
        true => format!("slot {first}"),
        false => format!("slots {first} to {last}"),
    };
    let shown: Vec<String> = slots.iter().take(SHOWN_MAX).map(one).collect();
    match slots.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(" and "),
        more => format!("{} and {more} more ranges of slots", shown.join(", ")),
    }
}
