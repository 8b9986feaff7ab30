//! Commands that are passed on as bytes, and their replies as they came: for whoever speaks Redis's protocol with somebody else.

use bytes::BytesMut;

use crate::command::CommandError;

/// Who passes commands on and hears their replies, by the numbers that it gives them. See
/// [`Cluster::forward`](crate::Cluster::forward).
pub trait Forward: Send + Sync {
    /// Appends the command of this number: one whole command, an array of strings. It is called each time the command is sent, so
    /// again when a node sends it elsewhere, until [`receive`](Self::receive) was called with that number. Whoever waits for no reply any
    /// more appends nothing: then it is not sent.
    ///
    /// The queues of all nodes are locked: it neither waits nor calls the [`Cluster`](crate::Cluster) that calls it.
    fn encode(&self, no: u32, out: &mut BytesMut);

    /// The reply to the command of this number, once: one whole value, as it came, in the protocol of the connection
    /// ([`Builder::resp2`](crate::Builder::resp2)). An error that a node answers is such a value, too: it begins
    /// with `-`.
    ///
    /// It is called by the task of the connection with no lock held, and all replies behind it wait until it returns.
    ///
    /// # Errors
    /// [`CommandError::Lost`], [`CommandError::Away`] or [`CommandError::NoSuchNode`], instead of a reply.
    fn receive(&self, no: u32, reply: Result<&[u8], CommandError>);
}
